"""Exact duplicates among any number of pairs, found by their hashes in bounded memory."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

HASH_TYPE = np.dtype("<u8")
# Hashes sorted at a time: about 100 MB, whatever the size of the corpus.
MAX_PARTITION = 1 << 21


def find_duplicates(paths: Sequence[Path], max_partition: int = MAX_PARTITION) -> list[np.ndarray]:
    """For each file of hashes, which of them occurred before, in that file or in an earlier one.

    Takes one byte a pair and reads the files once for every `max_partition` hashes: equal hashes share their lowest
    bits, so each reading sorts only those with the same remainder. Two different pairs of 100 million share a hash
    of 64 bits with a probability of 0.03%.
    """
    counts = [path.stat().st_size // HASH_TYPE.itemsize for path in paths]
    ends = np.cumsum([0, *counts])
    is_duplicate = np.zeros(int(ends[-1]), dtype=bool)
    num_partitions = -(-int(ends[-1]) // max_partition)
    for partition in range(num_partitions):
        hashes, positions = _gather(paths, partition, num_partitions)
        order = np.argsort(hashes, kind="stable")
        repeats = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
        is_duplicate[positions[repeats]] = True
    return [is_duplicate[start:end] for start, end in pairwise(ends)]


def _gather(paths: Sequence[Path], partition: int, num_partitions: int) -> tuple[np.ndarray, np.ndarray]:
    hashes, positions = [np.zeros(0, HASH_TYPE)], [np.zeros(0, np.int64)]
    for start, values in _read(paths):
        chosen = np.flatnonzero(values % np.uint64(num_partitions) == partition)
        hashes.append(values[chosen])
        positions.append(chosen + start)
    return np.concatenate(hashes), np.concatenate(positions)


def _read(paths: Sequence[Path]) -> Iterator[tuple[int, np.ndarray]]:
    start = 0
    for path in paths:
        values = np.fromfile(path, dtype=HASH_TYPE)
        yield start, values
        start += len(values)
