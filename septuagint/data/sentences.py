"""Sentences laid end to end: ids in one array, and where each sentence starts in another."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentences:
    """Sentence i is ids[offsets[i] : offsets[i + 1]], its EOS included. The arrays may be mapped from disk."""

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        """The ids of one sentence. Counts from 0; no negative numbers."""
        if not 0 <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sentence."""
        return np.diff(self.offsets)

    def take(self, indices: np.ndarray) -> "Sentences":
        """Some of the sentences, in the order of the indices."""
        starts = self.offsets[indices]
        offsets = offsets_of(self.offsets[indices + 1] - starts)
        return Sentences(ids=gather_tokens(self.ids, starts, offsets), offsets=offsets)


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Where sentences of these lengths start when they are laid end to end, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def gather_tokens(ids: np.ndarray, starts: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The tokens of the sentences that start at `starts` in `ids`, laid end to end at `offsets`."""
    tokens: np.ndarray = ids[np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])]
    return tokens
