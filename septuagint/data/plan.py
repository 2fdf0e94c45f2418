"""The plan of a preparation: a first look at every input, and whether the data folder already holds the result."""

import contextlib
import hashlib
import importlib.metadata
import os
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sentencepiece

from septuagint.config import Config, CorpusConfig, DataConfig, FilterConfig
from septuagint.data import manifest as manifests
from septuagint.data.archives import read_text
from septuagint.data.corpus import Layout, ScannedFile, check_parallel, find_layout, scan_file
from septuagint.data.files import Known, hash_file, hash_json, signature
from septuagint.data.manifest import Corpus, Manifest
from septuagint.data.normaliser import NORMALISER
from septuagint.data.parts import REVISION
from septuagint.data.workers import Workers
from septuagint.errors import DataError
from septuagint.progress import ProgressReport


@dataclass(frozen=True, kw_only=True)
class PlannedCorpus:
    """One corpus of one split, with what a first look at its files told."""

    split: str
    config: CorpusConfig
    scans: tuple[ScannedFile, ...]
    layout: Layout

    @property
    def num_lines(self) -> int:
        return self.scans[0].num_lines

    @property
    def is_evaluation(self) -> bool:
        return self.split != "train"

    @property
    def folder_name(self) -> str:
        return f"{self.split}-{self.config.name}"

    @property
    def identity(self) -> list[Any]:
        """What the cleaned text depends on, settings aside."""
        return [self.split, self.config.name, [scan.sha256 for scan in self.scans], asdict(self.layout)]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What every stage works with."""

    config: Config
    work: Path
    workers: Workers
    report: ProgressReport

    def clean_folder(self, corpus: PlannedCorpus) -> Path:
        return self.work / "clean" / corpus.folder_name

    def encoded_folder(self, corpus: PlannedCorpus) -> Path:
        return self.work / "encoded" / corpus.folder_name

    @property
    def vocabulary_path(self) -> Path:
        return self.work / "vocabulary.model"


def check_inputs(data: DataConfig) -> None:
    """Refuses what is not there or cannot be read, before anything is written."""
    for corpus in (*data.train, *data.valid, *data.test):
        if corpus.source is not None and corpus.source == corpus.target:
            raise DataError(f"corpus {corpus.name!r}: source and target are the same file ({corpus.source})")
        for path in corpus.paths:
            next(read_text(path, hashlib.sha256()), None)


def look_at_inputs(data: DataConfig, known: Known, workers: Workers, report: ProgressReport) -> list[PlannedCorpus]:
    """Looks at every input file before any work is done on one."""
    splits: dict[str, tuple[CorpusConfig, ...]] = {"train": data.train, "valid": data.valid, "test": data.test}
    configs = [(split, corpus) for split, corpora in splits.items() for corpus in corpora]
    scans = _scan(list(dict.fromkeys(path for _, corpus in configs for path in corpus.paths)), known, workers, report)
    planned = []
    for split, corpus in configs:
        found = tuple(scans[path] for path in corpus.paths)
        check_parallel(corpus, found)
        layout = find_layout(corpus, data.source_language, data.target_language)
        planned.append(PlannedCorpus(split=split, config=corpus, scans=found, layout=layout))
    return planned


def _scan(paths: list[Path], known: Known, workers: Workers, report: ProgressReport) -> dict[Path, ScannedFile]:
    scans = {}
    for path in paths:
        fact = known.get(path)
        if isinstance(fact, dict) and fact.keys() == {"sha256", "num_bytes", "num_lines"}:
            scans[path] = ScannedFile(path=str(path), **fact)
    rest = [path for path in paths if path not in scans]
    if not rest:
        return scans
    total = sum(path.stat().st_size for path in rest if path.is_file())
    seen = {path: signature(path) for path in rest if path.is_file()}
    with report.stage("reading", total, "B") as stage:
        for scan in workers.run((scan_file, (path,)) for path in rest):
            path = Path(scan.path)
            scans[path] = scan
            known.put(path, {key: value for key, value in asdict(scan).items() if key != "path"}, seen[path])
            stage.advance(scan.num_bytes)
    known.save()
    return scans


def content_settings(config: Config) -> dict[str, Any]:
    """The settings that have a say in the content of a data folder (weights have not: they are for training)."""
    vocabulary = config.vocabulary.model_dump(mode="json", exclude={"model"})
    if config.vocabulary.model is not None:
        try:
            vocabulary = {"model_sha256": hash_file(config.vocabulary.model)}
        except OSError as error:
            raise DataError(f"{config.vocabulary.model}: the vocabulary cannot be read: {error.strerror}") from None
    return {
        "source_language": config.data.source_language,
        "target_language": config.data.target_language,
        "filters": config.filters.model_dump(mode="json"),
        "vocabulary": vocabulary,
    }


def recorded_settings(config: Config, listed: DataConfig) -> dict[str, Any]:
    """The settings of the content, and what the recipe added to the listed corpora: training does not ask mtdata."""
    settings = content_settings(config)
    if listed.recipe is None:
        return settings
    added = {}
    for split in ("train", "valid", "test"):
        names = {corpus.name for corpus in getattr(listed, split)}
        added[split] = [corpus.name for corpus in getattr(config.data, split) if corpus.name not in names]
    return {**settings, "recipe": listed.recipe, "recipe_corpora": added}


def content_versions(filters: FilterConfig) -> dict[str, str]:
    """The versions of everything that has a say in the content."""
    versions = {
        "format": str(manifests.FORMAT_VERSION),
        "revision": str(REVISION),
        "sentencepiece": sentencepiece.__version__,
        "unicode": unicodedata.unidata_version,
    }
    if filters.language:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions["heliport"] = importlib.metadata.version("heliport")
    return versions


def fingerprint_of(config: Config, corpora: list[PlannedCorpus]) -> str:
    return hash_json(
        [
            [corpus.identity for corpus in corpora],
            content_settings(config),
            NORMALISER,
            content_versions(config.filters),
        ]
    )


def valid_manifest(folder: Path) -> Manifest | None:
    """The folder's manifest; None where there is none, or a damaged one of ours."""
    try:
        return manifests.read_manifest(folder)
    except manifests.ForeignManifestError:
        raise
    except DataError:
        return None


def is_intact(folder: Path, manifest: Manifest, known: Known, report: ProgressReport) -> bool:
    """Whether every file of the folder is as it was written. Says which is not."""
    for file in manifest.files:
        path = folder / file.path
        if known.get(path) == {"sha256": file.sha256}:
            continue
        try:
            seen = signature(path) if path.is_file() else []
            manifests.verify_file(folder, file)
        except DataError as error:
            report.say(f"{str(error).rpartition(';')[0]}; making it again")
            return False
        known.put(path, {"sha256": file.sha256}, seen)
    return True


def input_path(scan: ScannedFile, data: DataConfig) -> str:
    """How the manifest names an input: relative to the data folder, so that both can move together."""
    return os.path.relpath(scan.path, data.folder)


def with_input_paths(manifest: Manifest, corpora: list[PlannedCorpus], data: DataConfig) -> Manifest:
    """The manifest with the names that its inputs have now: renaming a file changes nothing else."""
    paths = {
        (corpus.split, corpus.config.name): [input_path(scan, data) for scan in corpus.scans] for corpus in corpora
    }

    def renamed(split: str, corpus: Corpus) -> Corpus:
        files = zip(corpus.inputs, paths[split, corpus.name], strict=True)
        return corpus.model_copy(
            update={"inputs": tuple(file.model_copy(update={"path": path}) for file, path in files)}
        )

    splits = {split: tuple(renamed(split, corpus) for corpus in entries) for split, entries in manifest.splits.items()}
    return manifest.model_copy(update=splits)


def say_what_changed(
    old: Manifest, config: Config, settings: dict[str, Any], corpora: list[PlannedCorpus], report: ProgressReport
) -> None:
    before = {file.path: file.sha256 for split in old.splits.values() for corpus in split for file in corpus.inputs}
    now = {input_path(scan, config.data): scan.sha256 for corpus in corpora for scan in corpus.scans}
    for path, sha256 in now.items():
        shown = os.path.normpath(config.data.folder / path)
        if path not in before:
            report.say(f"new since the last preparation: {shown}")
        elif before[path] != sha256:
            report.say(f"changed since the last preparation: {shown}; redoing what depends on it")
    for path in before:
        if path not in now:
            report.say(f"no longer used: {os.path.normpath(config.data.folder / path)}")
    # The recipe's corpora were named above, by their files.
    settings_now = _flat({**settings, "recipe_corpora": {}, "version": content_versions(config.filters)})
    settings_before = _flat({**old.settings, "recipe_corpora": {}, "version": old.versions})
    for key in sorted(settings_now.keys() | settings_before.keys()):
        if settings_now.get(key) != settings_before.get(key):
            report.say(f"setting changed: {key} was {settings_before.get(key)}, is now {settings_now.get(key)}")


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
