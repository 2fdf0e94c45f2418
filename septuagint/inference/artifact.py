"""The artifact: a folder that translates, on any machine, without what it was trained with.

    model/                CTranslate2: model.bin, config.json, shared_vocabulary.json
    sentencepiece.model   text into pieces and back
    metadata.json         what Argos Translate and LibreTranslate want to know
    README.md             the model card
    artifact.json         languages, decode settings, origin, and the SHA-256 of every file and of itself

`artifact.json` is written last, and the folder is renamed into place: what has one is complete. A Hugging Face export
has one too, with its own files. Nothing here needs torch.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from septuagint.data.files import DamageError, find_damage, hash_file, read_sealed, write_manifest_file
from septuagint.data.normaliser import NORMALISER
from septuagint.data.vocabulary import Vocabulary
from septuagint.errors import ArtifactError

MANIFEST = "artifact.json"
MODEL = "model"
SENTENCEPIECE = "sentencepiece.model"
CARD = "README.md"
# Where the artifact of a run's best checkpoint stands in its folder.
OF_RUN = "artifact"
FORMAT_VERSION = 1
CURE = "export it again, or copy it again from where it is whole"

Kind = Literal["ctranslate2", "huggingface", "argos"]


class NewerArtifactError(ArtifactError):
    """Made by a newer program: nothing is wrong with it."""


class Entry(BaseModel):
    """Part of the manifest: frozen, and with no more keys than it says."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FileEntry(Entry):
    """A file of the artifact."""

    sha256: str
    bytes: int


class DecodeSettings(Entry):
    """How the model is used unless somebody says otherwise."""

    beam_size: Annotated[int, Field(ge=1)] = 4
    length_penalty: float = 1.0
    max_length_ratio: float
    """A translation has at most so many pieces for each piece of the source,"""
    max_length_extra: int
    """and so many more,"""
    max_length: int
    """and never more than this."""
    max_source_pieces: Annotated[int, Field(ge=1)]
    """A line of more pieces is cut into sentences: training text was seldom longer."""
    vocabulary_map: bool = False
    """Whether only pieces that the sources suggest are looked at: see `septuagint.inference.vocabulary_map`."""

    def length_limit(self, num_source_pieces: int) -> int:
        """The most pieces that a translation may have. The source's EOS counts as a piece."""
        return min(int(num_source_pieces * self.max_length_ratio) + self.max_length_extra, self.max_length)


class Origin(Entry):
    """What the artifact was made of."""

    run: str
    checkpoint: str
    step: int
    weights_sha256: str
    """Of the checkpoint's model.safetensors."""
    septuagint_version: str


class Manifest(Entry):
    """The content of artifact.json."""

    format: Literal["septuagint-artifact"] = "septuagint-artifact"
    version: int = FORMAT_VERSION
    kind: Kind
    name: str
    source_language: str
    target_language: str
    normaliser: str
    """What text passes before it is cut into pieces: see `septuagint.data.normaliser`."""
    quantization: str
    preset: str
    num_parameters: int
    vocabulary_size: int
    decode: DecodeSettings
    origin: Origin
    checks: dict[str, Any]
    """What was measured when it was made: see `septuagint.inference.parity`."""
    files: dict[str, FileEntry]

    @property
    def numbers(self) -> str:
        """How its numbers are kept and used, in words."""
        return f"{self.quantization} with a vocabulary map" if self.decode.vocabulary_map else self.quantization


class Artifact:
    """An artifact folder whose every byte was verified."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        for name, entry in self.manifest.files.items():
            problem = find_damage(folder / name, sha256=entry.sha256, num_bytes=entry.bytes)
            if problem is not None:
                raise ArtifactError(f"{folder / name}: {problem}; {CURE}")
        if self.manifest.normaliser != NORMALISER:
            raise NewerArtifactError(
                f"{folder}: its text was prepared by {self.manifest.normaliser!r}, which this program does not have; "
                "update Septuagint"
            )

    @property
    def vocabulary(self) -> Vocabulary:
        """Read anew each time."""
        return Vocabulary.load(self.folder / SENTENCEPIECE)


def is_artifact(folder: Path) -> bool:
    """Whether a folder calls itself one."""
    try:
        return (folder / MANIFEST).exists()
    except OSError as error:
        raise ArtifactError(f"{folder}: cannot be read: {error.strerror}") from None


def find_best_artifact(run: Path, warn: Callable[[str], None]) -> Artifact | None:
    """The artifact in a run folder, if it is that of the best checkpoint; a damaged one is as good as none."""
    try:
        best = read_sealed(run / "best" / "manifest.json")["files"]["model.safetensors"]["sha256"]
    except (OSError, DamageError, KeyError, TypeError):
        return None  # whoever exports the checkpoint will say what is wrong with it
    return find_artifact(run, best, warn)


def find_artifact(run: Path, weights_sha256: str, warn: Callable[[str], None]) -> Artifact | None:
    """The artifact in a run folder, if it is that of these weights."""
    folder = run / OF_RUN
    if not is_artifact(folder):
        return None
    try:
        is_right = read_manifest(folder).origin.weights_sha256 == weights_sha256
        return Artifact(folder) if is_right else None
    except NewerArtifactError:
        raise
    except ArtifactError as error:
        warn(f"{str(error).rpartition(';')[0]}; it is made anew")
        return None


def read_manifest(folder: Path) -> Manifest:
    """The manifest, itself verified; the files that it names are not."""
    path = folder / MANIFEST
    try:
        body = read_sealed(path)
    except FileNotFoundError:
        raise ArtifactError(f"{folder}: not an artifact ({MANIFEST} is missing); {CURE}") from None
    except DamageError as error:
        raise ArtifactError(f"{path}: {error}; {CURE}") from None
    version = body.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise NewerArtifactError(
            f"{folder}: its format is version {version}, but this program knows versions up to {FORMAT_VERSION}; "
            "update Septuagint"
        )
    try:
        return Manifest.model_validate(body)
    except ValidationError:
        raise ArtifactError(f"{path}: not the manifest of a Septuagint artifact; {CURE}") from None


def seal(folder: Path, description: Mapping[str, Any]) -> Manifest:
    """Makes an artifact of a folder: lists and hashes what is in it. `description` is the manifest without `files`."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    files = {
        path.relative_to(folder).as_posix(): FileEntry(sha256=hash_file(path), bytes=path.stat().st_size)
        for path in paths
    }
    manifest = Manifest(**description, files=files)
    write_manifest_file(folder / MANIFEST, manifest.model_dump(mode="json"))
    return manifest
