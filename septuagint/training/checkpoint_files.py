"""The files of a checkpoint folder: tensors, and a manifest with the SHA-256 of everything.

The manifest has a hash of its own too, so that a flipped bit is found wherever it is. Later versions of the format may
change all but that: a manifest must tell damage from a version that is not known yet.
"""

import os
import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from septuagint.data.files import DamageError, find_damage, hash_file, read_sealed, write_manifest_file
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
        body = read_sealed(path)
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder}: not a checkpoint ({MANIFEST} is missing); give a run folder, or a folder of its checkpoints"
        ) from None
    except DamageError as error:
        raise CheckpointError(f"{path}: {error}; {CURE}") from None
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
    problem = "missing" if entry is None else find_damage(path, sha256=entry.sha256, num_bytes=entry.bytes)
    if problem is not None:
        raise CheckpointError(f"{path}: {problem}; {CURE}")


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
