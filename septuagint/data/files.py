"""Files that are written whole or not at all, and told apart by their SHA-256."""

import contextlib
import datetime
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from septuagint.errors import UserError

# A file changed this shortly before it was hashed may change again within the same clock tick, unseen.
_SETTLED_NANOSECONDS = 1_000_000_000


@contextlib.contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file that takes the name `path` when the block ends well, and is removed when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """What processes that were killed while they wrote `path` aside have left; for who is alone with it."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if re.fullmatch(r"\.\d+\.tmp", temporary.name.removeprefix(f".{path.name}")):
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes JSON aside and renames it. The same value gives the same bytes."""
    with written_aside(path) as file:
        file.write(json_bytes(value))


def write_manifest_file(path: Path, body: dict[str, Any]) -> None:
    """Writes what makes a folder valid, durably and all at once.

    It has its own SHA-256 in it, so that a flipped bit in a count does not go unseen either.
    """
    write_json(path, {**body, "sha256": hash_json(body)})
    fsync_folder(path.parent)


class DamageError(Exception):
    """What is wrong with a file, in a few words; whoever reads it knows its name and the cure."""


def read_sealed(path: Path) -> dict[str, Any]:
    """What `write_manifest_file` wrote, if it is still that. A file that is missing is a FileNotFoundError."""
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamageError(f"cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise DamageError("damaged (not JSON)") from None
    if not isinstance(body, dict) or body.pop("sha256", None) != hash_json(body):
        raise DamageError("damaged (its content does not match its SHA-256)")
    return body


def find_damage(path: Path, *, sha256: str, num_bytes: int) -> str | None:
    """What is wrong with a file that should have this content, or None."""
    try:
        if not path.is_file():
            return "missing"
        if (size := path.stat().st_size) != num_bytes:
            return f"{size:,} bytes instead of {num_bytes:,}"
        return None if hash_file(path) == sha256 else "damaged (SHA-256 differs from the manifest)"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def json_bytes(value: Any) -> bytes:
    """JSON for people to read. Half a character, as in a file name that is not UTF-8, becomes its escape."""
    return json.dumps(value, ensure_ascii=False, indent=1).encode(errors="backslashreplace") + b"\n"


def read_object(path: Path) -> dict[str, Any]:
    """The content of a JSON file of our own; empty where it is missing, damaged or no object."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def copy_file(source: Path, target: Path) -> None:
    """Copies a small file; the copy is there whole or not at all."""
    with written_aside(target) as file:
        file.write(source.read_bytes())


def fsync_folder(folder: Path) -> None:
    """Makes the names in a folder durable: a rename alone may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path, refusal: str, patience_seconds: float = 0.0) -> Iterator[None]:
    """Holds a lock file for this process; one that is killed leaves no lock behind.

    Where another process holds it and does not leave in time, a UserError with the refusal, in which `{holder}` stands
    for that process.
    """
    deadline = time.monotonic() + patience_seconds
    with path.open("a+") as file:
        try:
            while not _try_lock(file):
                if time.monotonic() >= deadline:
                    file.seek(0)
                    raise UserError(refusal.replace("{holder}", file.read().strip()))
                time.sleep(0.1)
        except OSError as error:
            # Some network file systems have no locks at all. People who work there know of each other.
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        file.truncate(0)
        since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
        file.flush()
        yield


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Waits until no other process is in such a block for the same folder. It leaves no file behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_bytes(content: bytes) -> str:
    """SHA-256 of bytes in memory."""
    return hashlib.sha256(content).hexdigest()


def hash_json(value: Any) -> str:
    """SHA-256 of a value made of dicts, lists, text and numbers, whatever the order of the keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def signature(path: Path) -> list[int]:
    """Changes whenever a file is written, moved or replaced (the change time cannot be set by hand)."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


class Known:
    """What is known about files that have not been touched since: a small JSON file of facts by path.

    It saves reading gigabytes to find that nothing changed; every fact can be made anew, so it may be deleted.
    """

    def __init__(self, path: Path, *, is_trusted: bool = True) -> None:
        self._path = path
        self._entries = read_object(path) if is_trusted else {}

    def get(self, path: Path) -> Any:
        """The fact remembered for a file, or None when the file is not as it was."""
        try:
            entry = self._entries[str(path.absolute())]
            return entry["fact"] if entry["signature"] == signature(path) else None
        except (OSError, KeyError, TypeError):
            return None

    def put(self, path: Path, fact: Any, seen: list[int]) -> None:
        """Remembers what was found in a file that had the signature `seen` before it was read."""
        if seen == signature(path) and time.time_ns() - max(seen[1], seen[2]) > _SETTLED_NANOSECONDS:
            self._entries[str(path.absolute())] = {"signature": seen, "fact": fact}

    def forget(self) -> None:
        """Everything: something that was known turned out to be wrong."""
        self._entries = {}

    def save(self) -> None:
        """Writes what is known about files that still stand there."""
        self._entries = {path: entry for path, entry in self._entries.items() if Path(path).exists()}
        write_json(self._path, self._entries)
