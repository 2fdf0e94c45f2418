"""The endless order of training pairs, as a pure function: any stretch of it costs the same, and nothing is stored.

An epoch holds each pair of a corpus as often as the corpus's weight says; epoch e is a permutation of these n entries,
and position p of the stream is entry p % n of epoch p // n. Permutations are Feistel networks over whole numbers, keyed
by hashes of the seed: the same on every machine and with every version of every library.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

# With fewer rounds or bits, some orders of five pairs come up measurably more often than others.
_NUM_ROUNDS = 8
_MIN_BITS = 5
_GOLDEN = 0x9E3779B97F4A7C15
_ROUND_KEYS = tuple(np.uint64((number + 1) * _GOLDEN % 2**64) for number in range(_NUM_ROUNDS))


class EpochOrder:
    """The order of the pairs of several corpora. A weight is the expected number of copies of a pair in an epoch."""

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        copies = [copies_per_epoch(size, weight) for size, weight in zip(sizes, weights, strict=True)]
        self.num_pairs = sum(copies)
        """Pairs in an epoch, copies included."""
        assert self.num_pairs > 0, "an epoch needs a pair"
        self._sizes = np.asarray(sizes, np.int64)
        self._ends = np.cumsum(copies)
        self._starts = self._ends - copies
        self._key = key_of(seed, "order of an epoch")
        self._drawing_keys = [
            key_of(seed, f"pairs of corpus {index} with one copy more") for index in range(len(sizes))
        ]

    def pairs(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """(corpus, place in the corpus) of the pairs at the positions from `start` up to `stop` of the stream."""
        positions = np.arange(start, stop, dtype=np.uint64)
        epochs, indices = np.divmod(positions, np.uint64(self.num_pairs))
        entries = permute(indices, self.num_pairs, _epoch_keys(self._key, epochs)).astype(np.int64)
        corpora = np.searchsorted(self._ends, entries, side="right")
        copies, pairs = np.divmod(entries - self._starts[corpora], self._sizes[corpora])
        # Whole copies of a corpus come first; for the rest of one, every epoch draws other pairs.
        is_drawn = copies == ((self._ends - self._starts) // np.maximum(self._sizes, 1))[corpora]
        for corpus, key in enumerate(self._drawing_keys):
            drawn = np.flatnonzero(is_drawn & (corpora == corpus))
            keys = _epoch_keys(key, epochs[drawn])
            pairs[drawn] = permute(pairs[drawn].astype(np.uint64), int(self._sizes[corpus]), keys)
        return corpora, pairs


def copies_per_epoch(size: int, weight: float) -> int:
    """Entries of a corpus in an epoch; whatever has a weight has at least one."""
    return max(round(weight * size), 1) if weight > 0 and size > 0 else 0


def sample_pairs(
    sizes: Sequence[int], weights: Sequence[float], num_pairs: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(corpus, place in the corpus) of distinct pairs: of each corpus its share of an epoch, as far as it has them.

    A function of its arguments alone. Fewer pairs than asked for only where no more have a weight.
    """
    quotas = _quotas(sizes, weights, num_pairs)
    pairs = [
        permute(np.arange(quota, dtype=np.uint64), size, key_of(seed, f"sample of corpus {corpus}"))
        for corpus, (quota, size) in enumerate(zip(quotas, sizes, strict=True))
    ]
    return np.repeat(np.arange(len(quotas)), quotas), np.concatenate(pairs).astype(np.int64)


def _quotas(sizes: Sequence[int], weights: Sequence[float], num_pairs: int) -> list[int]:
    """Whole numbers in proportion to the copies in an epoch, none above the corpus's size."""
    copies = np.array([copies_per_epoch(size, weight) for size, weight in zip(sizes, weights, strict=True)], float)
    limits = np.where(copies > 0, np.asarray(sizes, float), 0.0)
    quotas = np.zeros(len(limits))
    rest = min(float(num_pairs), limits.sum())
    is_open = copies > 0
    while rest > 0 and is_open.any():
        quotas[is_open] = rest * copies[is_open] / copies[is_open].sum()
        is_full = is_open & (quotas >= limits)
        if not is_full.any():
            break
        # A corpus that has no more leaves its share to the others.
        quotas[is_full] = limits[is_full]
        rest -= limits[is_full].sum()
        is_open &= ~is_full
    ends = np.rint(np.cumsum(quotas))
    whole = np.minimum(np.diff(ends, prepend=0), limits)
    # Rounding may have given one more than a corpus has: the others take it.
    missing = min(float(num_pairs), limits.sum()) - whole.sum()
    for corpus in range(len(whole)):
        more = min(missing, limits[corpus] - whole[corpus])
        whole[corpus] += more
        missing -= more
    return [int(quota) for quota in whole]


def key_of(seed: int, purpose: str) -> np.ndarray:
    """The key of one use of a seed, an array of one number."""
    digest = hashlib.sha256(f"{seed} {purpose}".encode()).digest()
    return np.array([int.from_bytes(digest[:8], "little")], np.uint64)


def permute(indices: np.ndarray, size: int, keys: np.ndarray) -> np.ndarray:
    """Where a keyed permutation of 0 ... size - 1 sends each index. All are uint64; one key, or one for each index."""
    num_bits = max((size - 1).bit_length(), _MIN_BITS)
    keys = np.broadcast_to(keys, indices.shape)
    places = _feistel(indices, num_bits, keys)
    # The network permutes up to twice as many numbers; walking on until one is inside keeps it a permutation.
    outside = np.flatnonzero(places >= size)
    while len(outside):
        places[outside] = _feistel(places[outside], num_bits, keys[outside])
        outside = outside[places[outside] >= size]
    return places


def _feistel(numbers: np.ndarray, num_bits: int, keys: np.ndarray) -> np.ndarray:
    """A permutation of the numbers of `num_bits` bits: each half in turn is changed by a hash of the other."""
    num_low, num_high = num_bits // 2, num_bits - num_bits // 2
    low, high = numbers & np.uint64(2**num_low - 1), numbers >> np.uint64(num_low)
    for number in range(0, _NUM_ROUNDS, 2):
        low = low ^ (_mix(keys + _ROUND_KEYS[number] ^ high) >> np.uint64(64 - num_low))
        high = high ^ (_mix(keys + _ROUND_KEYS[number + 1] ^ low) >> np.uint64(64 - num_high))
    return high << np.uint64(num_low) | low


def _epoch_keys(key: np.ndarray, epochs: np.ndarray) -> np.ndarray:
    return _mix(key + epochs * np.uint64(_GOLDEN))


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Every bit of the result depends on every bit of the number (the end of MurmurHash3)."""
    numbers = (numbers ^ numbers >> np.uint64(33)) * np.uint64(0xFF51AFD7ED558CCD)
    numbers = (numbers ^ numbers >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    mixed: np.ndarray = numbers ^ numbers >> np.uint64(33)
    return mixed
