"""N-grams of lines of symbols, characters or words, and those that two texts share line by line: by sorting numbers.

sacreBLEU counts them in dictionaries, which takes several times as long.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Odd numbers with their bits all over the place.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_OTHER_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Symbols:
    """The symbols of lines, one after the other, and how many of them each line has."""

    ids_N: NDArray[np.uint64]
    lengths_L: NDArray[np.int64]

    def count(self, order: int) -> NDArray[np.int64]:
        """How many n-grams of an order each line has."""
        return np.maximum(self.lengths_L - order + 1, 0)


def characters_of(lines: Sequence[str]) -> Symbols:
    """Without spaces, whatever kind they are of."""
    lines = ["".join(line.split()) for line in lines]
    code_points = np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), np.uint32)
    return Symbols(ids_N=code_points.astype(np.uint64), lengths_L=_lengths(lines))


def words_of(lines: Iterable[str], known: dict[str, int]) -> Symbols:
    """What stands between spaces. `known` numbers words, and learns those that it does not know."""
    words_of_lines = [line.split() for line in lines]
    ids = [known.setdefault(word, len(known)) for words in words_of_lines for word in words]
    return Symbols(ids_N=np.array(ids, np.uint64), lengths_L=_lengths(words_of_lines))


def count_shared(ours: Symbols, theirs: Symbols, max_order: int) -> list[int]:
    """For each order, how many n-grams of our lines are in theirs, too: each as often as in the line with fewer."""
    counts = []
    for our_keys, their_keys in zip(_keys(ours, max_order), _keys(theirs, max_order), strict=True):
        our_kinds, our_counts = np.unique(our_keys, return_counts=True)
        their_kinds, their_counts = np.unique(their_keys, return_counts=True)
        _, in_ours, in_theirs = np.intersect1d(our_kinds, their_kinds, assume_unique=True, return_indices=True)
        counts.append(int(np.minimum(our_counts[in_ours], their_counts[in_theirs]).sum()))
    return counts


def _lengths(lines: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    return np.array([len(line) for line in lines], np.int64)


def _keys(text: Symbols, max_order: int) -> Iterator[NDArray[np.uint64]]:
    """For each order, a number for each n-gram in each line; others have others, but for chance of 1 in 2 ** 64."""
    num_symbols = len(text.ids_N)
    left_N = np.repeat(np.cumsum(text.lengths_L), text.lengths_L) - np.arange(num_symbols)  # up to the line's end
    keys_N = _scramble(np.repeat(np.arange(len(text.lengths_L), dtype=np.uint64), text.lengths_L))
    for order in range(1, max_order + 1):
        num_places = max(num_symbols - order + 1, 0)
        keys_N = (keys_N[:num_places] + text.ids_N[order - 1 :]) * _MULTIPLIER
        yield keys_N[left_N[:num_places] >= order]


def _scramble(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers without pattern, one for each."""
    numbers = (numbers + np.uint64(1)) * _MULTIPLIER
    numbers = (numbers ^ (numbers >> _HALF)) * _OTHER_MULTIPLIER
    return numbers ^ (numbers >> _HALF)
