"""Validation: two losses that can be compared, and BLEU and chrF of text that was really translated."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from septuagint.batch import Microbatch
from septuagint.data.dataset import EvaluationSet
from septuagint.data.vocabulary import Vocabulary
from septuagint.inference.beam import translate_ids
from septuagint.inference.scoring import Counts, Score, count_matches, score_counts
from septuagint.inference.spelled import decode_ids
from septuagint.model.attention import make_layout
from septuagint.training.checkpoint import checkpoint_path
from septuagint.training.precision import DTYPES
from septuagint.training.step import Objective, Training


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """What a validation found. The losses are without dropout and label smoothing, in nats per token."""

    step: int
    weights: str  # "current", "ema", or "average of N checkpoints"
    valid_loss: float
    train_sample_loss: float
    scores: Score
    scores_of_sets: dict[str, Score]

    def rank(self, metric: str) -> tuple[float, float]:
        """What decides which checkpoint is best; more is better. Of equals, the one with the lower loss."""
        return self._value(metric), self._value("loss")

    def _value(self, name: str) -> float:
        value = -self.valid_loss if name == "loss" else float(getattr(self.scores, name))
        return value if math.isfinite(value) else -math.inf  # what is no number is not even equal to itself

    @property
    def is_average(self) -> bool:
        """Whether it was of the mean of several checkpoints."""
        return self.weights.startswith("average")

    def fields(self) -> dict[str, Any]:
        """For the record."""
        sets = {name: {"bleu": found.bleu, "chrf": found.chrf} for name, found in self.scores_of_sets.items()}
        return {
            "step": self.step,
            "weights": self.weights,
            "valid_loss_nats_per_token": self.valid_loss,
            "train_sample_loss_nats_per_token": self.train_sample_loss,
            **asdict(self.scores),
            **({"sets": sets} if len(sets) > 1 else {}),
        }


def read_validation(entry: dict[str, Any]) -> Validation:
    """A validation as `asdict` wrote it."""
    return Validation(
        **{
            **entry,
            "scores": Score(**entry["scores"]),
            "scores_of_sets": {name: Score(**scores) for name, scores in entry["scores_of_sets"].items()},
        }
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one rank measured of a validation."""

    counts: list[Counts]  # of its lines of each set
    valid_loss: tuple[float, int]  # (sum, tokens)
    sample_loss: tuple[float, int]


def read_share(entry: dict[str, Any]) -> Share:
    """A share as `asdict` and JSON left it: tuples are lists there."""
    (valid_sum, num_valid), (sample_sum, num_sample) = entry["valid_loss"], entry["sample_loss"]
    return Share(
        counts=[Counts(**counts) for counts in entry["counts"]],
        valid_loss=(valid_sum, num_valid),
        sample_loss=(sample_sum, num_sample),
    )


def measure_share(
    training: Training,
    *,
    valid_batches: Sequence[Microbatch],
    sample_batches: Sequence[Microbatch],
    sets: Sequence[EvaluationSet],
    vocabulary: Vocabulary,
    languages: tuple[str, str],
    advance: Callable[[int], None],
) -> Share:
    """This rank's part of a validation of the weights as they are. `advance` may raise to break it off."""
    lines = [(place, row) for place, text in enumerate(sets) for row in range(len(text.source))]
    rank, size = training.world.rank, training.world.size
    # Dealt by length, so that all ranks have the same to do.
    mine = sorted(lines, key=lambda line: -len(sets[line[0]].source[line[1]]))[rank::size]
    sources = [sets[place].source[row] for place, row in mine]
    translations = translate_share(training, sources, vocabulary, languages, advance)
    found: list[tuple[list[str], list[str]]] = [([], []) for _ in sets]
    for (place, row), translation in zip(mine, translations, strict=True):
        hypotheses, references = found[place]
        hypotheses.append(translation)
        references.append(sets[place].target_lines[row])
    return Share(
        counts=[count_matches(*text, languages[1]) for text in found],
        valid_loss=_loss(training, valid_batches[rank::size], advance),
        sample_loss=_loss(training, sample_batches[rank::size], advance),
    )


def put_together(
    shares: Sequence[Share], step: int, *, sets: Sequence[EvaluationSet], target_language: str, weights: str
) -> Validation:
    """All shares of a validation."""
    counts_of_sets = {text.name: [share.counts[place] for share in shares] for place, text in enumerate(sets)}
    return Validation(
        step=step,
        weights=weights,
        valid_loss=_mean([share.valid_loss for share in shares]),
        train_sample_loss=_mean([share.sample_loss for share in shares]),
        scores=score_counts([counts for share in shares for counts in share.counts], target_language),
        scores_of_sets={name: score_counts(counts, target_language) for name, counts in counts_of_sets.items()},
    )


def _mean(losses: Sequence[tuple[float, int]]) -> float:
    return sum(loss for loss, _ in losses) / max(1, sum(num_tokens for _, num_tokens in losses))


def translate_share(
    training: Training,
    sources: Sequence[np.ndarray],
    vocabulary: Vocabulary,
    languages: tuple[str, str],
    advance: Callable[[int], None] = lambda num_sentences: None,
) -> list[str]:
    """This rank's own translations with the weights as they are, as text. `languages`: the source's, and theirs."""
    found = translate_ids(
        training.model,
        sources,
        beam_size=training.settings.beam_size,
        dtype=DTYPES[training.precision],
        may_compile=training.settings.compile != "off",
        advance=advance,
    )
    return [
        decode_ids(vocabulary, best.ids, source, languages) for (best, *_), source in zip(found, sources, strict=True)
    ]


@torch.no_grad()
def _loss(training: Training, batches: Sequence[Microbatch], advance: Callable[[int], None]) -> tuple[float, int]:
    """(nats, tokens), without dropout and label smoothing."""
    training.model.eval()
    objective = Objective(training.model, training.precision, halves=training.halves)
    device = next(training.model.parameters()).device
    loss_sum = torch.zeros((), dtype=torch.float64, device=device)
    num_tokens = torch.zeros((), dtype=torch.int64, device=device)
    for microbatch in batches:
        batch = microbatch.batch
        longest = int(max(batch.source_offsets.diff().max(), batch.target_offsets.diff().max()))
        training.model.grow_positions(longest)
        batch = batch.to(device)
        loss, count = objective(batch, make_layout(batch, training.backend, longest), None)
        loss_sum += loss
        num_tokens += count
        advance(0)
    return float(loss_sum), int(num_tokens)


@contextmanager
def weights_for_translation(training: Training) -> Iterator[str]:
    """The weights that are validated and saved for translating: the moving average, where there is one."""
    if training.average is None:
        yield "current"
        return
    _swap(training)
    try:
        yield "ema"
    finally:
        _swap(training)


def _swap(training: Training) -> None:
    assert training.average is not None
    for name, parameter in training.model.named_parameters():
        parameter.data, training.average[name] = training.average[name], parameter.data


def with_weights(run: Path, validations: Sequence[Validation]) -> list[Validation]:
    """Those whose weights are there: the best are kept, but a full disk may have had no room for them."""
    return [validation for validation in validations if weights_path(run, validation).exists()]


def weights_path(run: Path, validation: Validation) -> Path:
    """The checkpoint that was validated."""
    return checkpoint_path(run, "averaged" if validation.is_average else validation.step)


def best_of(validations: Sequence[Validation], metric: str) -> Validation | None:
    """The best one; of equals the first."""
    return max(validations, key=lambda validation: validation.rank(metric), default=None)


def num_without_better(validations: Sequence[Validation], metric: str) -> int:
    """How many validations there have been since the best."""
    best = best_of(validations, metric)
    return 0 if best is None else len(validations) - 1 - list(validations).index(best)
