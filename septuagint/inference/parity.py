"""Whether an export says what its checkpoint says: by log-probabilities in single precision, by BLEU when quantised."""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from septuagint.batch import PackedBatch
from septuagint.data.sentences import offsets_of
from septuagint.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from septuagint.errors import ParityError
from septuagint.inference.artifact import Artifact
from septuagint.inference.scoring import Score, score
from septuagint.inference.translator import Translator, open_engine
from septuagint.model.attention import make_layout
from septuagint.model.transformer import Transformer

MAX_DIFFERENCE = 1e-4
# Pairs whose log-probabilities are compared: some two thousand pieces in all.
NUM_PAIRS = 64
_MAX_PIECES = 128
_NUM_RANDOM_PIECES = 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Parity:
    """The largest difference of any piece's log-probability, and over how many pieces it was looked for."""

    difference: float
    num_pieces: int


def sample_pairs(
    vocabulary: Vocabulary, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of ids to compare on: of real text, from all over it, or of random pieces where there is none."""
    short = [pair for pair in pairs if max(map(len, pair)) <= _MAX_PIECES]
    if short:
        return short[:: -(-len(short) // NUM_PAIRS)]
    random = np.random.default_rng(1)
    special = (BOS, PAD, EOS, UNK)

    def sentence() -> np.ndarray:
        return np.append(random.integers(len(special), vocabulary.size, random.integers(1, _NUM_RANDOM_PIECES)), EOS)

    return [(sentence(), sentence()) for _ in range(NUM_PAIRS)]


def check_parity(
    model: Transformer, folder: Path, vocabulary: Vocabulary, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
) -> Parity:
    """Compares a CTranslate2 model in single precision with the checkpoint; too large a difference is a ParityError."""
    engine = open_engine(folder, "cpu", 1)
    names = vocabulary.pieces
    sides = [[[names[i] for i in pair[side][:-1]] for pair in pairs] for side in (0, 1)]
    found = [result.log_probs for result in engine.score_batch(*sides, max_input_length=0)]
    return _compare(token_log_probs(model, pairs), [np.array(log_probs) for log_probs in found])


def check_hugging_face(
    model: Transformer, folder: Path, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
) -> Parity | None:
    """The same for a Hugging Face folder, in one padded batch; None where `transformers` is not installed."""
    if importlib.util.find_spec("transformers") is None:
        return None
    transformers: Any = importlib.import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.M2M100ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    source_BS, target_BT = (_pad([pair[side] for pair in pairs]) for side in (0, 1))
    with torch.inference_mode():
        logits_BTV = theirs(
            input_ids=source_BS,
            attention_mask=(source_BS != PAD).long(),
            decoder_input_ids=_pad([np.roll(target, 1) for _, target in pairs]),
        ).logits
        log_probs_BT = logits_BTV.log_softmax(-1).gather(2, target_BT[..., None])[..., 0].numpy()
    found = [log_probs_BT[row, : len(target)] for row, (_, target) in enumerate(pairs)]
    return _compare(token_log_probs(model, pairs), found)


def _pad(sentences: Sequence[np.ndarray]) -> torch.Tensor:
    tensors = [torch.from_numpy(sentence.astype(np.int64)) for sentence in sentences]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


def _compare(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> Parity:
    difference = float(np.abs(np.concatenate(ours) - np.concatenate(theirs)).max())  # not a number if one is not
    num_pieces = sum(map(len, ours))
    if not difference <= MAX_DIFFERENCE:
        raise ParityError(
            f"the exported model does not say what the checkpoint says: log-probabilities differ by up to "
            f"{difference:.2g}, more than {MAX_DIFFERENCE:g}, over {num_pieces:,} pieces; nothing was written. This is "
            "an error of the program, or of this machine"
        )
    return Parity(difference=difference, num_pieces=num_pieces)


@torch.inference_mode()
def token_log_probs(model: Transformer, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """What the model thinks of each piece of each target, EOS included, given what stands before it."""
    model.eval()
    longest = max(max(map(len, pair)) for pair in pairs)
    model.grow_positions(longest)
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    labels_T = torch.from_numpy(np.concatenate(targets).astype(np.int64))
    batch = PackedBatch(
        source_ids_S=torch.from_numpy(np.concatenate(sources).astype(np.int64)),
        source_offsets=_offsets(sources),
        target_ids_T=torch.from_numpy(np.concatenate([np.roll(target, 1) for target in targets]).astype(np.int64)),
        target_offsets=_offsets(targets),
        labels_T=labels_T,
    )
    hidden_TD = model(batch, make_layout(batch, "padded", longest))
    log_probs_T = model.logits(hidden_TD).log_softmax(-1).gather(1, labels_T[:, None])[:, 0]
    return np.split(log_probs_T.numpy(), np.cumsum([len(target) for target in targets])[:-1])


def _offsets(sentences: Sequence[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(offsets_of(np.array([len(sentence) for sentence in sentences]))).int()


def score_artifact(
    artifact: Artifact, sources: Sequence[str], references: Sequence[str], advance: Callable[[int], None]
) -> Score:
    """BLEU and chrF of an artifact's translations."""
    with Translator(artifact, device="cpu") as translator:
        translations = [found.text for found in translator.translate([sources], advance=advance)]
    return score(translations, references, artifact.manifest.target_language)
