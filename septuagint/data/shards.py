"""Shards: the ids of one side of a corpus, flat on disk, with an O(1) way to every sentence.

`*.ids` holds the ids of all sentences end to end, little-endian uint16 or uint32, each sentence closed by EOS.
`*.offsets` holds N + 1 little-endian int64 numbers: sentence i is ids[offsets[i] : offsets[i + 1]].
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from septuagint.data.files import fsync_folder, written_aside
from septuagint.data.manifest import OutputFile, Side
from septuagint.data.sentences import Sentences
from septuagint.errors import DataError

OFFSET_TYPE = np.dtype("<i8")


def write_shard(
    folder: Path, stem: str, parts: Iterable[tuple[np.ndarray, np.ndarray]], id_type: np.dtype
) -> tuple[OutputFile, OutputFile]:
    """Writes `stem.ids` and `stem.offsets` from (ids, lengths) parts, one part in memory at a time.

    The paths in the result are relative to `folder`.
    """
    ids_path, offsets_path = folder / f"{stem}.ids", folder / f"{stem}.offsets"
    ids_digest, offsets_digest = hashlib.sha256(), hashlib.sha256()
    position = 0
    with written_aside(ids_path) as ids_file, written_aside(offsets_path) as offsets_file:
        first = np.zeros(1, OFFSET_TYPE).tobytes()
        offsets_file.write(first)
        offsets_digest.update(first)
        for ids, lengths in parts:
            assert len(ids) == lengths.sum(), "a part's lengths must cover its ids"
            offsets = (position + np.cumsum(lengths)).astype(OFFSET_TYPE).tobytes()
            raw_ids = ids.astype(id_type, copy=False).tobytes()
            ids_file.write(raw_ids)
            ids_digest.update(raw_ids)
            offsets_file.write(offsets)
            offsets_digest.update(offsets)
            position += len(ids)
        ids_bytes, offsets_bytes = ids_file.tell(), offsets_file.tell()
    fsync_folder(folder)
    return (
        OutputFile(path=ids_path.name, sha256=ids_digest.hexdigest(), bytes=ids_bytes),
        OutputFile(path=offsets_path.name, sha256=offsets_digest.hexdigest(), bytes=offsets_bytes),
    )


def open_shard(folder: Path, side: Side, id_type: str) -> Sentences:
    """Maps one side of a corpus from a data folder. Sizes are checked here, contents by `manifest.verify_file`."""
    ids = _map(folder, side.ids, np.dtype(id_type))
    offsets = _map(folder, side.offsets, OFFSET_TYPE)
    if len(offsets) == 0 or offsets[-1] != len(ids):
        raise DataError(f"{folder / side.offsets.path}: does not fit its ids; run `septuagint prepare` again")
    return Sentences(ids=ids, offsets=offsets)


def _map(folder: Path, file: OutputFile, dtype: np.dtype) -> np.ndarray:
    path = folder / file.path
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; run `septuagint prepare` again") from None
    if size != file.bytes or size % dtype.itemsize:
        raise DataError(f"{path}: {size:,} bytes instead of {file.bytes:,}; run `septuagint prepare` again")
    if size == 0:
        return np.zeros(0, dtype)  # an empty file cannot be mapped
    return np.memmap(path, dtype=dtype, mode="r")
