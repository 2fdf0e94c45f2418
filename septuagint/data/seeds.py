"""What a vocabulary may choose its pieces from: strings that occur in words more than once, and how often.

SentencePiece looks for such seeds itself. Of counted words it takes each for one, however often it occurs, and does not
see a whole word that no other begins with: `▁.` is then no seed in tokenised text, where it is the most frequent word.
"""

from collections.abc import Iterator, Mapping

import numpy as np

_MAX_LENGTH = 16  # of a piece, SentencePiece's own default
_MAX_SEEDS = 1_000_000  # likewise


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

    # Of each place where a string of the length begins that may be a seed or the front of one: which string it is.
    places = np.arange(len(letters), dtype=np.int32)
    _, first, string = np.unique(letters, return_index=True, return_inverse=True)
    total = np.bincount(string, weights=counts)
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
        found.append((total[is_seed], first[is_seed], np.full(is_seed.sum(), length)))
        is_repeated = longer_total > 1
        total, first = longer_total[is_repeated], places[longer_first[is_repeated]]
        kept = is_repeated[longer_string]
        places, string = places[kept], (np.cumsum(is_repeated) - 1)[longer_string[kept]]
    totals, firsts, seed_lengths = (np.concatenate(column) for column in zip(*found, strict=True))
    for index in np.argsort(-totals * seed_lengths, kind="stable")[:_MAX_SEEDS]:
        yield text[firsts[index] : firsts[index] + seed_lengths[index]], int(totals[index])
