"""The manifest: what a data folder holds, where it came from, and the SHA-256 of every file.

`manifest.json` is written last and renamed into place, so a folder with a manifest is complete. It holds no times and
no absolute paths: the same input and settings give the same bytes. `docs/data-folder.md` describes the format.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from septuagint.data.files import find_damage, hash_json, write_manifest_file
from septuagint.errors import DataError

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
HISTOGRAM_BIN = 8


class ForeignManifestError(DataError):
    """A manifest that is not ours to replace: another program's, or a later version's."""


class Entry(BaseModel):
    """Part of a manifest: frozen, and with no more keys than it says."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class InputFile(Entry):
    """A file of text that was read."""

    path: str
    sha256: str
    bytes: int
    lines: int


class OutputFile(Entry):
    """A file of the data folder, by its path within it."""

    path: str
    sha256: str
    bytes: int


class Example(Entry):
    """A pair that was dropped, shortened; `line` counts from 1 where it is known."""

    filter: str
    line: int | None
    source: str
    target: str


class Side(Entry):
    """One language of a corpus. A token is a piece or the EOS that closes each sentence."""

    ids: OutputFile
    offsets: OutputFile
    text: OutputFile | None
    """The sentences as they came, for validation and test sets."""
    tokens: int
    longest: int
    words: int
    characters: int
    bytes: int
    lengths: tuple[int, ...]
    """Sentences of 0 to 7 tokens, 8 to 15, and so on."""


class Corpus(Entry):
    """One corpus of one split."""

    name: str
    inputs: tuple[InputFile, ...]
    lines: int
    pairs: int
    dropped: dict[str, int]
    damaged_lines: dict[str, tuple[int, ...]]
    """First line numbers of each kind of damage."""
    examples: tuple[Example, ...]
    source: Side
    target: Side


class VocabularyEntry(Entry):
    """The SentencePiece model."""

    file: OutputFile
    size: int
    type: str
    """`unigram`, `bpe`, or `given` when it was not trained here."""
    requested_size: int
    message: str
    id_type: str


class Manifest(Entry):
    """A whole data folder."""

    format: str = "septuagint-data"
    version: int = FORMAT_VERSION
    fingerprint: str
    """Hash of the inputs and of every setting that has a say in the result."""
    source_language: str
    target_language: str
    normaliser: str
    settings: dict[str, Any]
    versions: dict[str, str]
    vocabulary: VocabularyEntry
    train: tuple[Corpus, ...]
    valid: tuple[Corpus, ...]
    test: tuple[Corpus, ...]

    @property
    def languages(self) -> tuple[str, str]:
        """Of the source and of the target."""
        return self.source_language, self.target_language

    @property
    def splits(self) -> dict[str, tuple[Corpus, ...]]:
        """The corpora by what they are for."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    @property
    def has_damaged_lines(self) -> bool:
        """Whether a line of the input was not UTF-8, or not as its format says."""
        return any(corpus.damaged_lines for split in self.splits.values() for corpus in split)

    @property
    def files(self) -> list[OutputFile]:
        """Every file that the folder must hold."""
        files = [self.vocabulary.file]
        for corpus in (*self.train, *self.valid, *self.test):
            for side in (corpus.source, corpus.target):
                files += [file for file in (side.ids, side.offsets, side.text) if file is not None]
        return files


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Makes a data folder valid, all at once."""
    write_manifest_file(folder / MANIFEST, manifest.model_dump(mode="json"))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a data folder; a DataError that says what to do where there is none that can be used."""
    path = folder / MANIFEST
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(
            f"{folder}: not a prepared data folder ({MANIFEST} is missing); run `septuagint prepare`"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path}: damaged (not JSON); run `septuagint prepare` again") from None
    if not isinstance(body, dict) or body.get("format") != "septuagint-data":
        raise ForeignManifestError(
            f"{path}: not the manifest of a Septuagint data folder; choose another data.folder, or move it away"
        )
    version = body.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ForeignManifestError(
            f"{path}: its format is version {version}, but this program knows versions up to {FORMAT_VERSION}; "
            "update Septuagint, or choose another data.folder"
        )
    if hash_json({key: value for key, value in body.items() if key != "sha256"}) != body.get("sha256"):
        raise DataError(f"{path}: damaged (its content does not match its SHA-256); run `septuagint prepare` again")
    try:
        return Manifest.model_validate({key: value for key, value in body.items() if key != "sha256"})
    except ValidationError:
        raise DataError(f"{path}: not a manifest that this program can read; run `septuagint prepare` again") from None


def verify_file(folder: Path, file: OutputFile) -> None:
    """Raises a DataError that names the file unless its bytes are those that were written."""
    problem = find_damage(folder / file.path, sha256=file.sha256, num_bytes=file.bytes)
    if problem is not None:
        raise DataError(f"{folder / file.path}: {problem}; run `septuagint prepare` again")
