"""The text that the vocabulary learns from: a bounded sample of the cleaned pairs, drawn by their hashes.

A pair is drawn when its hash, mixed with the seed, is small enough. So the draw is even over all corpora, depends on
no order and no clock, and lowering the bar gives a part of the same sample.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from septuagint.config import VocabularyConfig
from septuagint.data.duplicates import HASH_TYPE
from septuagint.data.parts import hashes_path, read_clean_lines, read_record
from septuagint.data.vocabulary import TrainedVocabulary, train_vocabulary

# Beyond this much text in different words SentencePiece takes more memory than we promise. Languages with spaces stay
# far below; without spaces nearly every clause is a word of its own.
MAX_UNIQUE_CHARACTERS = 12_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledPart:
    """A cleaned part to draw from; `is_duplicate` has one bit a pair."""

    folder: Path
    index: int
    is_duplicate: bytes


def train_vocabulary_on_sample(
    parts: list[SampledPart], num_characters: int, settings: VocabularyConfig, scratch: Path
) -> TrainedVocabulary:
    """Draws from parts that hold `num_characters` in all, counts the words and trains the vocabulary."""
    share = min(1.0, settings.sample_characters / max(1, num_characters))
    word_counts = count_words(parts, share, settings.seed)
    while len(word_counts) > 1 and sum(map(len, word_counts)) > MAX_UNIQUE_CHARACTERS:
        share /= 2
        word_counts = count_words(parts, share, settings.seed)
    return train_vocabulary(word_counts, settings, scratch)


def count_words(parts: list[SampledPart], share: float, seed: int) -> Counter[str]:
    """How often each word occurs in a share of the pairs."""
    word_counts: Counter[str] = Counter()
    for part in parts:
        record = read_record(part.folder, part.index)
        assert record is not None, "cleaning comes before sampling"
        is_drawn = _draw(np.fromfile(hashes_path(part.folder, part.index, record), HASH_TYPE), share, seed)
        is_drawn &= ~np.unpackbits(np.frombuffer(part.is_duplicate, np.uint8), count=len(is_drawn)).astype(bool)
        lines = read_clean_lines(part.folder, part.index, record)
        for position in np.flatnonzero(is_drawn):
            word_counts.update(lines[position].replace("\t", " ").split(" "))
    del word_counts[""]
    return word_counts


def _draw(hashes: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Whether each hash is drawn (the finaliser of SplitMix64 makes every seed a new, even draw)."""
    mixed = hashes + np.uint64((seed * 0x9E3779B97F4A7C15) % (1 << 64))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed <= np.uint64(min((1 << 64) - 1, int(share * (1 << 64))))
