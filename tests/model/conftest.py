"""Small models and hand-made packs."""

from collections.abc import Sequence

import numpy as np
import torch

from septuagint.batch import IGNORE, PackedBatch
from septuagint.config import ModelConfig
from septuagint.data.vocabulary import EOS, PAD
from septuagint.model.transformer import Transformer

VOCABULARY_SIZE = 50
SMALL = {
    "width": 32,
    "num_heads": 4,
    "feedforward_width": 48,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "dropout": 0.0,
}


def small_model(preset: str = "base", seed: int = 1, **fields: object) -> Transformer:
    torch.manual_seed(seed)
    config = ModelConfig.model_validate({"preset": preset, **SMALL, **fields})
    return Transformer(config, VOCABULARY_SIZE).eval()


def random_pairs(lengths: list[tuple[int, int]], seed: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of ids as shards hold them: EOS last, and counted in the lengths."""
    random = np.random.default_rng(seed)

    def sentence(length: int) -> np.ndarray:
        return np.append(random.integers(4, VOCABULARY_SIZE, length - 1), EOS)

    return [(sentence(source), sentence(target)) for source, target in lengths]


def pack(
    pairs: list[tuple[np.ndarray, np.ndarray]], source_pad: Sequence[int] = (), target_pad: Sequence[int] = ()
) -> PackedBatch:
    """The pairs end to end, then sentences of PAD of these lengths."""
    sources = [source for source, _ in pairs] + [np.full(length, PAD) for length in source_pad]
    targets = [target for _, target in pairs] + [np.full(length, PAD) for length in target_pad]
    labels = [target for _, target in pairs] + [np.full(length, IGNORE) for length in target_pad]
    inputs = [np.roll(target, 1) for target in targets]

    def offsets(sentences: list[np.ndarray]) -> torch.Tensor:
        return torch.tensor(np.cumsum([0, *map(len, sentences)]), dtype=torch.int32)

    def joined(sentences: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(sentences).astype(np.int64))

    return PackedBatch(
        source_ids_S=joined(sources),
        source_offsets=offsets(sources),
        target_ids_T=joined(inputs),
        target_offsets=offsets(targets),
        labels_T=joined(labels),
    )
