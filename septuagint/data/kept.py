"""Files of the cache, used as they were made: the .json beside each tells what it was, and so whether it still is.

A file that nobody has touched is not read again. One that was copied, moved or changed is, and its record speaks of the
new place from then on; what is not as it was counts as not there.
"""

import contextlib
from pathlib import Path

from septuagint.data.files import find_damage, hash_file, read_object, signature, write_json


def _record_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def keep(path: Path, *, sha256: str | None = None, **facts: str) -> None:
    """Remembers a file as it is. `sha256` is its hash, where that is known already."""
    seen = signature(path)
    known = {"sha256": sha256 or hash_file(path), "num_bytes": seen[0], "signature": seen}
    write_json(_record_path(path), {**facts, **known})


def kept(path: Path, *, sha256: str | None = None, is_trusted: bool = True) -> bool:
    """Whether a file is there and as it was, with the hash that is wanted. Not `is_trusted`: its every byte is read."""
    record = read_object(_record_path(path))
    known, num_bytes = record.get("sha256"), record.get("num_bytes")
    if not isinstance(known, str) or not isinstance(num_bytes, int) or sha256 not in (None, known):
        return False
    try:
        seen = signature(path)
        if not path.is_file() or seen[0] != num_bytes:
            return False
    except OSError:
        return False
    if is_trusted and record.get("signature") == seen:
        return True
    if find_damage(path, sha256=known, num_bytes=num_bytes) is not None:
        return False
    with contextlib.suppress(OSError):  # a cache that may only be read is read again each time
        write_json(_record_path(path), {**record, "signature": seen})
    return True


def forget(path: Path) -> None:
    _record_path(path).unlink(missing_ok=True)
