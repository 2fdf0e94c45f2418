"""Preparation: from the text files of a configuration to a verified data folder.

    bring text home -> look at inputs -> clean blocks -> find duplicates -> train vocabulary -> encode parts
    -> join shards -> manifest

Work is cut into parts (see `parts`) that processes make in any order; what is written depends on the input and the
settings alone, never on the number of processes. `work/` inside the data folder holds what may be reused, and may be
deleted; shards are made in a folder of their own and become valid with the manifest that names them, all at once.
"""

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septuagint.config import Config
from septuagint.data.cleaning import check_some_are_left, clean_corpora, mark_duplicates, warn_of_damage
from septuagint.data.encoding import check_some_fit, encode_corpora, make_vocabulary
from septuagint.data.files import Known, copy_file, fsync_folder, hash_file, locked
from septuagint.data.folders import is_temporary
from septuagint.data.joining import join_corpora
from septuagint.data.manifest import Corpus, Manifest, OutputFile, VocabularyEntry, write_manifest
from septuagint.data.named_corpora import bring_home
from septuagint.data.normaliser import NORMALISER
from septuagint.data.plan import (
    Bench,
    PlannedCorpus,
    check_inputs,
    content_versions,
    fingerprint_of,
    is_intact,
    look_at_inputs,
    recorded_settings,
    say_what_changed,
    valid_manifest,
    with_input_paths,
)
from septuagint.data.vocabulary import Vocabulary
from septuagint.data.workers import Workers
from septuagint.errors import ChangedFileError, StorageError, writing_to
from septuagint.progress import ProgressReport


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A finished data folder; `is_new` is false when nothing had to be done."""

    folder: Path
    manifest: Manifest
    is_new: bool
    seconds: float


def prepare(config: Config, *, num_workers: int, report: ProgressReport, verify: bool = False) -> Prepared:
    """Makes the data folder of a configuration, or finds that it is already there.

    `verify` reads every byte again instead of trusting files that have not been touched since they were hashed.
    """
    start = time.monotonic()
    listed = config.data
    config = config.model_copy(update={"data": bring_home(listed, report, verify=verify)})
    folder = config.data.folder
    work = folder / "work"
    check_inputs(config.data)
    if config.vocabulary.model is not None:
        Vocabulary.load(config.vocabulary.model)  # a wrong one is refused before any work
    with writing_to(folder):
        _claim(work)
        refusal = (
            f"{folder}: another preparation is at work in this folder ({{holder}}); "
            "wait until it has finished, or stop it"
        )
        with locked(work / "lock", refusal), Workers(num_workers) as workers:
            known = Known(work / "known.json", is_trusted=not verify)
            corpora = look_at_inputs(config.data, known, workers, report)
            fingerprint, settings = fingerprint_of(config, corpora), recorded_settings(config, listed)
            manifest = valid_manifest(folder)
            if (
                manifest is None
                or manifest.fingerprint != fingerprint
                or (config.data.strict and manifest.has_damaged_lines)
                or not is_intact(folder, manifest, known, report)
            ):
                is_new = True
                _remove_leftovers(folder)
                if manifest is not None:
                    say_what_changed(manifest, config, settings, corpora, report)
                bench = Bench(config=config, work=work, workers=workers, report=report)
                with _forgetting_what_was_wrong(known):
                    manifest = _make(bench, corpora, fingerprint, settings)
                _put_in_place(work, folder / _shards_name(fingerprint))
                write_manifest(folder, manifest)
                _remove_what_is_not_used(folder, corpora, fingerprint)
            else:
                is_new = False
                renamed = with_input_paths(manifest, corpora, config.data).model_copy(update={"settings": settings})
                if renamed != manifest:
                    write_manifest(folder, renamed)
                manifest = renamed
            known.save()
    return Prepared(folder=folder, manifest=manifest, is_new=is_new, seconds=time.monotonic() - start)


def _claim(work: Path) -> None:
    """Makes the folder for what can be reused; somebody else's folder of that name is left alone."""
    if work.is_dir() and any(work.iterdir()) and not (work / "lock").exists():
        raise StorageError(f"{work}: this folder is not one of ours; choose another data.folder, or move it away")
    work.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _forgetting_what_was_wrong(known: Known) -> Iterator[None]:
    """A file that is not what we took it for must be looked at again, or every later run would stop here too."""
    try:
        yield
    except ChangedFileError:
        known.forget()
        known.save()
        raise


def _remove_leftovers(folder: Path) -> None:
    """Temporary files and folders of a preparation that was killed. We hold the lock: nobody is writing one."""
    for path in [*folder.glob(".manifest.json.*.tmp"), *(folder / "work").rglob(".*.tmp")]:
        if is_temporary(path) and path.is_dir():
            shutil.rmtree(path)
        elif is_temporary(path):
            path.unlink()


def _shards_name(fingerprint: str) -> str:
    return f"shards-{fingerprint[:8]}"


def _put_in_place(work: Path, shards: Path) -> None:
    """New shards take their name at once; damaged ones of the same name make room first."""
    if shards.exists():
        shards.rename(work / "old shards")
    (work / "shards").rename(shards)
    shutil.rmtree(work / "old shards", ignore_errors=True)
    fsync_folder(shards.parent)


def _make(bench: Bench, corpora: list[PlannedCorpus], fingerprint: str, settings: dict[str, Any]) -> Manifest:
    cleaned = clean_corpora(bench, corpora)
    warn_of_damage(cleaned, bench.report)
    train = [corpus for corpus in cleaned if not corpus.plan.is_evaluation]
    if bench.config.filters.duplicates:
        mark_duplicates(bench, train)
    check_some_are_left(train)
    vocabulary, message = make_vocabulary(bench, train)
    encoded = encode_corpora(bench, cleaned)
    check_some_fit(encoded, cleaned, bench.config.filters.max_pieces)
    entries = join_corpora(bench, cleaned, encoded, vocabulary.id_type, _shards_name(fingerprint))
    wanted = bench.config.vocabulary
    vocabulary_path = bench.work / "shards" / "vocabulary.model"
    copy_file(bench.vocabulary_path, vocabulary_path)

    def of_split(split: str) -> tuple[Corpus, ...]:
        return tuple(entry for corpus, entry in entries if corpus.split == split)

    return Manifest(
        fingerprint=fingerprint,
        source_language=bench.config.data.source_language,
        target_language=bench.config.data.target_language,
        normaliser=NORMALISER,
        settings=settings,
        versions=content_versions(bench.config.filters),
        vocabulary=VocabularyEntry(
            file=OutputFile(
                path=f"{_shards_name(fingerprint)}/{vocabulary_path.name}",
                sha256=hash_file(vocabulary_path),
                bytes=vocabulary_path.stat().st_size,
            ),
            size=vocabulary.size,
            type=wanted.type if wanted.model is None else "given",
            requested_size=wanted.size if wanted.model is None else vocabulary.size,
            message=message,
            id_type=vocabulary.id_type.str,
        ),
        train=of_split("train"),
        valid=of_split("valid"),
        test=of_split("test"),
    )


def _remove_what_is_not_used(folder: Path, corpora: list[PlannedCorpus], fingerprint: str) -> None:
    """After the manifest is in place: shards of before, encoded parts, and cleaned text of corpora that are gone."""
    for path in folder.glob("shards-" + "[0-9a-f]" * 8):
        if path.name != _shards_name(fingerprint):
            shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder / "work" / "encoded", ignore_errors=True)
    names = {corpus.folder_name for corpus in corpora}
    for path in (folder / "work" / "clean").iterdir():
        if path.name not in names:
            shutil.rmtree(path, ignore_errors=True)
