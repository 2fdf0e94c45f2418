"""The files of a checkpoint folder: tensors, and a manifest with the SHA-256 of everything.

The manifest has a hash of its own too, so that a flipped bit is found wherever it is. Later versions of the format may
change all but that: a manifest must tell damage from a version that is not known yet.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from septuagint.data.files import fsync_folder, hash_file, hash_json, write_manifest_file
from septuagint.errors import CheckpointError

FileName = Literal["state.json", "model.safetensors", "optimizer.safetensors"]
STATE: FileName = "state.json"
MODEL: FileName = "model.safetensors"
OPTIMIZER: FileName = "optimizer.safetensors"
MANIFEST = "manifest.json"
FORMAT_VERSION = 1
CURE = "use another checkpoint of the run"


class NewerFormatError(CheckpointError):
    """Written by a later version of the program: not damaged, so not to be passed over."""


class FileEntry(BaseModel):
    """A file of a checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    bytes: int


class Manifest(BaseModel):
    """What a checkpoint holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["septuagint-checkpoint"] = "septuagint-checkpoint"
    version: int = FORMAT_VERSION
    files: dict[FileName, FileEntry]


def write_manifest(folder: Path, files: dict[FileName, FileEntry]) -> None:
    """Says what a checkpoint holds, all at once."""
    write_manifest_file(folder / MANIFEST, Manifest(files=files).model_dump(mode="json"))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint, itself verified; the files that it names are not."""
    path = folder / MANIFEST
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder}: not a checkpoint ({MANIFEST} is missing); give a run folder, or a folder of its checkpoints"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); {CURE}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: damaged (not JSON); {CURE}") from None
    if not isinstance(body, dict) or body.pop("sha256", None) != hash_json(body):
        raise CheckpointError(f"{path}: damaged (its content does not match its SHA-256); {CURE}")
    version = body.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise NewerFormatError(
            f"{folder}: its format is version {version}, but this program knows versions up to {FORMAT_VERSION}; "
            "update Septuagint, or choose another run"
        )
    try:
        return Manifest.model_validate(body)
    except ValidationError:
        raise CheckpointError(f"{path}: not the manifest of a Septuagint checkpoint; {CURE}") from None


def describe_file(path: Path) -> FileEntry:
    """What the manifest says of a file."""
    return FileEntry(sha256=hash_file(path), bytes=path.stat().st_size)


def verify_file(path: Path, entry: FileEntry | None) -> None:
    """Raises a CheckpointError that names the file unless its bytes are those that were written."""
    try:
        if entry is None or not path.is_file():
            raise CheckpointError(f"{path}: missing; {CURE}")
        if path.stat().st_size != entry.bytes:
            raise CheckpointError(f"{path}: {path.stat().st_size:,} bytes instead of {entry.bytes:,}; {CURE}")
        if hash_file(path) != entry.sha256:
            raise CheckpointError(f"{path}: damaged (SHA-256 differs from the manifest); {CURE}")
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); {CURE}") from None


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes contiguous tensors to the disk, and nothing beside them: equal tensors give equal bytes."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        # The library tells a full disk only in its text.
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    path.chmod(path.parent.stat().st_mode & 0o666)  # the library lets none but the owner read, whatever the umask
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Tensors in the memory of the CPU."""
    try:
        # Copies: the library's tensors are views of the file, which would take up the disk after it is deleted.
        return {name: tensor.clone() for name, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: not a file of tensors ({error}); {CURE}") from None


def temporary_name(path: Path) -> Path:
    """A name beside `path` for what is not there yet, or no longer."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def is_temporary(path: Path) -> bool:
    """Whether a name was given by `temporary_name` or `written_aside`."""
    return re.fullmatch(r"\..+\.\d+\.tmp", path.name) is not None


@contextlib.contextmanager
def filled_aside(path: Path) -> Iterator[Path]:
    """A temporary folder that takes the name `path` when the block ends well, and is removed when it does not."""
    temporary = temporary_name(path)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        fsync_folder(temporary)
        _put_in_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_place(temporary: Path, path: Path) -> None:
    """A folder cannot take another's name in one step: the other is set aside first, where it is still found."""
    aside = path.with_name(f".{path.name}.old")
    if path.exists():
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    try:
        temporary.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise
    fsync_folder(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


def discard(path: Path) -> None:
    """Removes a folder; killed meanwhile, it leaves no half of one under the real name."""
    trash = temporary_name(path)
    shutil.rmtree(trash, ignore_errors=True)
    path.rename(trash)
    shutil.rmtree(trash)
