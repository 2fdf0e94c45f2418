"""What a vocabulary may choose its pieces from: strings that occur in words more than once, and how often.

SentencePiece looks for such seeds itself. Of counted words it takes each for one, however often it occurs, and does not
see a whole word that no other begins with: `▁.` is then no seed in tokenised text, where it is the most frequent word.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_MAX_LENGTH = 16  # of a piece, SentencePiece's own default
_MAX_SEEDS = 1_000_000  # likewise
_PLACES_AT_A_TIME = 1 << 20  # about 100 MB

Array = npt.NDArray[Any]


def find_seeds(word_counts: Mapping[str, int], space: str) -> Iterator[tuple[str, int]]:
    """Strings and how often they occur, those that cover most of the text first.

    Each word begins with `space`. Only strings that no longer one holds as often, in front: as in a suffix array, what
    is always followed by the same letter is not asked for alone.
    """
    text = "".join(f"{space}{word}" for word in word_counts)
    letters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    lengths = np.fromiter((len(word) + 1 for word in word_counts), np.int32, len(word_counts))
    ends = np.repeat(np.cumsum(lengths, dtype=np.int32), lengths)
    counts = np.repeat(np.fromiter(word_counts.values(), np.int64, len(word_counts)), lengths)
    found = [_count(letters, ends, counts, places) for places in _by_letter(letters)]
    totals, firsts, seed_lengths = (np.concatenate(column) for column in zip(*found, strict=True))
    for index in np.argsort(-totals * seed_lengths, kind="stable")[:_MAX_SEEDS]:
        yield text[firsts[index] : firsts[index] + seed_lengths[index]], int(totals[index])


def _by_letter(letters: Array) -> list[Array]:
    """The places of all letters, in parts that have no letter in common: so many at a time, or a letter more."""
    order = np.argsort(letters, kind="stable").astype(np.int32)
    starts = np.flatnonzero(np.diff(letters[order])) + 1  # of each letter but the first
    cuts = starts[np.flatnonzero(np.diff(starts // _PLACES_AT_A_TIME, prepend=0))]
    return np.split(order, cuts)


def _count(letters: Array, ends: Array, counts: Array, places: Array) -> tuple[Array, Array, Array]:
    """How often the strings occur that begin at these places, where each does first, and its length."""
    # Which string it is of those that have the length so far, for each place where one begins that occurs again.
    _, first, string = np.unique(letters[places], return_index=True, return_inverse=True)
    first, total = places[first], np.bincount(string, weights=counts[places])
    found = []
    for length in range(1, _MAX_LENGTH + 1):
        goes_on = places + length < ends[places]
        places, string = places[goes_on], string[goes_on]
        keys = string.astype(np.uint64) << np.uint64(21) | letters[places + length]
        longer, longer_first, longer_string = np.unique(keys, return_index=True, return_inverse=True)
        longer_total = np.bincount(longer_string, weights=counts[places], minlength=len(longer))
        most = np.zeros(len(total))
        np.maximum.at(most, (longer >> np.uint64(21)).astype(np.int64), longer_total)
        is_seed = (total > np.maximum(most, 1)) & (length > 1)
        found.append((total[is_seed], first[is_seed], np.full(is_seed.sum(), length, np.int32)))
        is_repeated = longer_total > 1
        total, first = longer_total[is_repeated], places[longer_first[is_repeated]]
        kept = is_repeated[longer_string]
        places, string = places[kept], (np.cumsum(is_repeated) - 1)[longer_string[kept]]
    totals, firsts, lengths = (np.concatenate(column) for column in zip(*found, strict=True))
    return totals, firsts, lengths
