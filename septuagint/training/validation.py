"""Validation: two losses that can be compared, and BLEU and chrF of text that was really translated."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from septuagint.batch import Microbatch
from septuagint.data.dataset import EvaluationSet
from septuagint.data.vocabulary import Vocabulary
from septuagint.inference.greedy import translate_greedily
from septuagint.inference.scoring import Score, score
from septuagint.model.attention import make_layout
from septuagint.model.transformer import Transformer
from septuagint.training.checkpoint import checkpoint_path
from septuagint.training.precision import DTYPES
from septuagint.training.step import Training, make_forward


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


def validate(
    training: Training,
    step: int,
    *,
    valid_batches: Sequence[Microbatch],
    sample_batches: Sequence[Microbatch],
    sets: Sequence[EvaluationSet],
    vocabulary: Vocabulary,
    target_language: str,
    weights: str,
    advance: Callable[[int], None],
) -> Validation:
    """Measures the weights as they are. `advance` may raise to break it off."""
    scores_of_sets: dict[str, Score] = {}
    hypotheses: list[str] = []
    references: list[str] = []
    for text in sets:
        translated = translate_set(training.model, text, vocabulary, DTYPES[training.precision], advance)
        if len(sets) > 1:
            scores_of_sets[text.name] = score(translated, text.target_lines, target_language)
        hypotheses += translated
        references += text.target_lines
    return Validation(
        step=step,
        weights=weights,
        valid_loss=mean_loss(training, valid_batches, advance),
        train_sample_loss=mean_loss(training, sample_batches, advance),
        scores=score(hypotheses, references, target_language),
        scores_of_sets=scores_of_sets,
    )


def translate_set(
    model: Transformer,
    text: EvaluationSet,
    vocabulary: Vocabulary,
    dtype: torch.dtype,
    advance: Callable[[int], None] = lambda num_sentences: None,
) -> list[str]:
    """The model's own translation of each line, as text."""
    ids = translate_greedily(model, list(text.source), dtype=dtype, advance=advance)
    return [vocabulary.decode(line) for line in ids]


@torch.no_grad()
def mean_loss(training: Training, batches: Sequence[Microbatch], advance: Callable[[int], None]) -> float:
    """Nats per token, without dropout and label smoothing."""
    training.model.eval()
    forward = make_forward(training.model, 0.0, training.precision)
    device = next(training.model.parameters()).device
    loss_sum = torch.zeros((), dtype=torch.float64, device=device)
    num_tokens = torch.zeros((), dtype=torch.int64, device=device)
    for microbatch in batches:
        batch = microbatch.batch
        longest = int(max(batch.source_offsets.diff().max(), batch.target_offsets.diff().max()))
        training.model.grow_positions(longest)
        batch = batch.to(device)
        loss, count = forward(batch, make_layout(batch, training.backend, longest), None)
        loss_sum += loss
        num_tokens += count
        advance(0)
    return float(loss_sum / num_tokens)


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
