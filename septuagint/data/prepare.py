"""Preparation: from the text files of a configuration to a verified data folder.

    look at inputs -> clean blocks -> find duplicates -> train vocabulary -> encode parts -> join shards -> manifest

Work is cut into parts (see `parts`) that processes make in any order; what is written depends on the input and the
settings alone, never on the number of processes. `work/` inside the data folder holds what may be reused, and may be
deleted; shards are made in a folder of their own and become valid with the manifest that names them, all at once.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from septuagint.config import Config, DataConfig
from septuagint.data.corpus import Block, read_blocks, split_block
from septuagint.data.duplicates import find_duplicates
from septuagint.data.files import Known, fsync_folder, hash_json, read_json, write_json, written_aside
from septuagint.data.filters import FILTERS, overlap_key
from septuagint.data.manifest import (
    HISTOGRAM_BIN,
    Corpus,
    Example,
    InputFile,
    Manifest,
    OutputFile,
    Side,
    VocabularyEntry,
    write_manifest,
)
from septuagint.data.normaliser import NORMALISER
from septuagint.data.parts import (
    CleanJob,
    EncodeJob,
    PartRecord,
    SideCount,
    clean_block,
    encode_part,
    encoded_key,
    hash_block,
    hashes_path,
    part_key,
    read_clean_lines,
    read_encoded,
    read_record,
)
from septuagint.data.plan import (
    PlannedCorpus,
    content_settings,
    content_versions,
    fingerprint_of,
    input_path,
    is_intact,
    look_at_inputs,
    say_what_changed,
    valid_manifest,
)
from septuagint.data.sample import SampledPart, train_vocabulary_on_sample
from septuagint.data.shards import write_shard
from septuagint.data.vocabulary import Vocabulary
from septuagint.data.workers import Workers
from septuagint.errors import DataError, UserError, writing_to
from septuagint.progress import ProgressReport

_COMPLETE = "complete.json"  # beside the parts of a corpus once all are there


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A finished data folder; `is_new` is false when nothing had to be done."""

    folder: Path
    manifest: Manifest
    is_new: bool
    seconds: float


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


@dataclass(kw_only=True)
class CleanCorpus:
    """A corpus after cleaning: the record of each part, and which of its pairs stood before (one bit a pair)."""

    plan: PlannedCorpus
    records: list[PartRecord]
    is_duplicate: list[bytes]
    num_duplicates: int = 0

    @property
    def num_pairs(self) -> int:
        return sum(record.num_pairs for record in self.records) - self.num_duplicates


def prepare(config: Config, *, num_workers: int, report: ProgressReport, verify: bool = False) -> Prepared:
    """Makes the data folder of a configuration, or finds that it is already there.

    `verify` reads every byte again instead of trusting files that have not been touched since they were hashed.
    """
    start = time.monotonic()
    folder = config.data.folder
    work = folder / "work"
    with writing_to(folder):
        work.mkdir(parents=True, exist_ok=True)
        with _only_one(work / "lock"), Workers(num_workers) as workers:
            if config.vocabulary.model is not None:
                Vocabulary.load(config.vocabulary.model)  # a wrong one is refused before any work
            known = Known(work / "known.json", is_trusted=not verify)
            corpora = look_at_inputs(config.data, known, workers, report)
            fingerprint = fingerprint_of(config, corpora)
            manifest = valid_manifest(folder)
            is_new = (
                manifest is None
                or manifest.fingerprint != fingerprint
                or (config.data.strict and manifest.has_damaged_lines)
                or not is_intact(folder, manifest, known, report)
            )
            if is_new:
                _remove_leftovers(folder)
                if manifest is not None:
                    say_what_changed(manifest, config, corpora, report)
                bench = Bench(config=config, work=work, workers=workers, report=report)
                manifest = _make(bench, corpora, folder / f"shards-{fingerprint[:8]}", fingerprint)
                write_manifest(folder, manifest)
                _remove_what_is_not_used(folder, corpora, fingerprint)
            known.save()
    assert manifest is not None
    return Prepared(folder=folder, manifest=manifest, is_new=is_new, seconds=time.monotonic() - start)


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Holds the folder's lock. It belongs to the process: one that is killed leaves no lock behind."""
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"{path.parent.parent}: another preparation is at work in this folder ({file.read().strip()}); "
                "wait until it has finished, or stop it"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def _remove_leftovers(folder: Path) -> None:
    """Temporary files of a preparation that was killed. We hold the lock: nobody is writing one."""
    for path in [*folder.glob(".*.tmp"), *(folder / "work").rglob(".*.tmp")]:
        path.unlink()


def _make(bench: Bench, corpora: list[PlannedCorpus], shards: Path, fingerprint: str) -> Manifest:
    cleaned = _clean(bench, corpora)
    _warn_of_damage(cleaned, bench.report)
    train = [corpus for corpus in cleaned if not corpus.plan.is_evaluation]
    if bench.config.filters.duplicates:
        _mark_duplicates(bench, train)
    _check_some_are_left(train)
    vocabulary, message = _make_vocabulary(bench, train)
    encoded = _encode(bench, cleaned, vocabulary)
    _check_some_fit(encoded, cleaned, bench.config.filters.max_pieces)
    entries = _join(bench, cleaned, encoded, shards, vocabulary.id_type)
    settings = bench.config.vocabulary

    def of_split(split: str) -> tuple[Corpus, ...]:
        return tuple(entry for corpus, entry in entries if corpus.split == split)

    return Manifest(
        fingerprint=fingerprint,
        source_language=bench.config.data.source_language,
        target_language=bench.config.data.target_language,
        normaliser=NORMALISER,
        settings=content_settings(bench.config),
        versions=content_versions(),
        vocabulary=VocabularyEntry(
            file=_copy(bench.vocabulary_path, shards / "vocabulary.model", shards.parent),
            size=vocabulary.size,
            type=settings.type if settings.model is None else "given",
            requested_size=settings.size if settings.model is None else vocabulary.size,
            message=message,
            id_type=vocabulary.id_type.str,
        ),
        train=of_split("train"),
        valid=of_split("valid"),
        test=of_split("test"),
    )


def _clean(bench: Bench, corpora: list[PlannedCorpus]) -> list[CleanCorpus]:
    """Cleans validation and test text first: training text must not overlap with it."""
    evaluation = [corpus for corpus in corpora if corpus.is_evaluation]
    with bench.report.stage("cleaning", sum(corpus.num_lines for corpus in corpora), "lines") as stage:
        _clean_blocks(bench, {corpus: _clean_job(bench, corpus, None) for corpus in evaluation}, stage.advance)
        keys = _write_evaluation_keys(bench, evaluation) if bench.config.filters.overlap else None
        jobs = {corpus: _clean_job(bench, corpus, keys) for corpus in corpora if not corpus.is_evaluation}
        _clean_blocks(bench, jobs, stage.advance)
    cleaned = []
    for corpus in corpora:
        records = _clean_records(bench.clean_folder(corpus))
        masks = [bytes(-(-record.num_pairs // 8)) for record in records]
        cleaned.append(CleanCorpus(plan=corpus, records=records, is_duplicate=masks))
    return cleaned


def _clean_job(bench: Bench, corpus: PlannedCorpus, evaluation_keys: Path | None) -> CleanJob:
    data, filters = bench.config.data, bench.config.filters
    # What is decided later does not make the cleaned text another one.
    filters = filters.model_copy(update={"duplicates": True, "max_pieces": 0, "overlap": True})
    dependencies: list[Any] = [corpus.identity, NORMALISER, content_versions()]
    if not corpus.is_evaluation:
        keys_sha256 = hashlib.sha256(evaluation_keys.read_bytes()).hexdigest() if evaluation_keys is not None else ""
        dependencies += [filters.model_dump(mode="json"), data.source_language, data.target_language, keys_sha256]
    return CleanJob(
        folder=bench.clean_folder(corpus),
        key=hash_json(dependencies),
        paths=tuple(scan.path for scan in corpus.scans),
        layout=corpus.layout,
        filters=filters,
        source_language=data.source_language,
        target_language=data.target_language,
        is_evaluation=corpus.is_evaluation,
        is_strict=data.strict,
        evaluation_keys=evaluation_keys,
    )


def _clean_blocks(bench: Bench, jobs: dict[PlannedCorpus, CleanJob], advance: Callable[[int], None]) -> None:
    num_parts: dict[CleanJob, int] = {}

    def calls() -> Iterator[tuple[Callable[[CleanJob, Block], int], tuple[CleanJob, Block]]]:
        for corpus, job in jobs.items():
            complete = read_json(job.folder / _COMPLETE) or {}
            finished = _finished_parts(job)
            if complete.get("key") == job.key and len(finished) == complete["num_parts"]:
                advance(corpus.num_lines)
                continue
            for block in read_blocks(corpus.config, corpus.scans):
                num_parts[job] = block.index + 1
                if finished.get(block.index) == hash_block(block):
                    advance(block.num_lines)
                else:
                    yield clean_block, (job, block)

    for num_lines in bench.workers.run(calls()):
        advance(num_lines)
    # Only now is it certain that the parts were made of the files that were scanned.
    for job, number in num_parts.items():
        write_json(job.folder / _COMPLETE, {"key": job.key, "num_parts": number})


def _finished_parts(job: CleanJob) -> dict[int, str]:
    """The parts that need not be cleaned again, with the hashes of the text they were made of."""
    finished = {}
    for path in job.folder.glob("[0-9]*.json"):
        index = int(path.stem)
        record = read_record(job.folder, index, part_key(job.key, index))
        # Lenient cleaning may have passed over lines that a strict run must refuse.
        if record is not None and not (job.is_strict and record.damaged_lines):
            finished[index] = record.input_sha256
    return finished


def _clean_records(folder: Path) -> list[PartRecord]:
    return _records(folder, read_json(folder / _COMPLETE)["num_parts"])


def _write_evaluation_keys(bench: Bench, corpora: list[PlannedCorpus]) -> Path:
    keys = set()
    for corpus in corpora:
        folder = bench.clean_folder(corpus)
        for index, record in enumerate(_clean_records(folder)):
            for line in read_clean_lines(folder, index, record):
                keys |= {overlap_key(side) for side in line.split("\t")}
    path = bench.work / "evaluation.keys"
    with written_aside(path) as file:
        file.write(b"\n".join(sorted(keys - {b""})))
    return path


def _records(folder: Path, num_parts: int) -> list[PartRecord]:
    records = []
    for index in range(num_parts):
        record = read_record(folder, index)
        if record is None:
            raise DataError(f"{folder}: part {index} vanished while it was needed; run the same command again")
        records.append(record)
    return records


def _warn_of_damage(cleaned: list[CleanCorpus], report: ProgressReport) -> None:
    for corpus in cleaned:
        total = _sum(corpus.records)
        for kind, lines in total.damaged_lines.items():
            first = ", ".join(f"{line:,}" for line in lines)
            if corpus.plan.is_evaluation:
                what = "lines are not valid UTF-8; what cannot be read became U+FFFD"
                report.warn(f"{corpus.plan.config.name}: {what} (first lines: {first})")
            else:
                report.warn(
                    f"{corpus.plan.config.name}: {total.dropped[kind]:,} pairs {FILTERS[kind]} (first lines: {first})"
                )


def _mark_duplicates(bench: Bench, train: list[CleanCorpus]) -> None:
    """The first of equal pairs stays, in the order of the configuration and of the lines."""
    with bench.report.stage("deduplicating", None, "pairs"):
        places = [(corpus, index) for corpus in train for index in range(len(corpus.records))]
        paths = [hashes_path(bench.clean_folder(corpus.plan), index) for corpus, index in places]
        for (corpus, index), is_duplicate in zip(places, find_duplicates(paths), strict=True):
            corpus.is_duplicate[index] = np.packbits(is_duplicate).tobytes()
            corpus.num_duplicates += int(is_duplicate.sum())


def _check_some_are_left(train: list[CleanCorpus]) -> None:
    if any(corpus.num_pairs for corpus in train):
        return
    dropped: Counter[str] = Counter()
    for corpus in train:
        dropped.update(_sum(corpus.records).dropped)
    reasons = "; ".join(f"{count:,}: {name} ({FILTERS[name]})" for name, count in dropped.most_common())
    raise DataError(
        f"no training pairs are left after filtering. Dropped: {reasons}. See [filters] in the configuration"
    )


def _make_vocabulary(bench: Bench, train: list[CleanCorpus]) -> tuple[Vocabulary, str]:
    """The given vocabulary, or one trained on the cleaned text; a message where it is smaller than asked for."""
    settings = bench.config.vocabulary
    if settings.model is not None:
        given = Vocabulary.load(settings.model)
        _copy(settings.model, bench.vocabulary_path, bench.work)
        return given, ""
    parts = [
        SampledPart(folder=bench.clean_folder(corpus.plan), index=index, is_duplicate=is_duplicate)
        for corpus in train
        for index, is_duplicate in enumerate(corpus.is_duplicate)
    ]
    key = hash_json(
        [
            settings.model_dump(mode="json"),
            content_versions(),
            [record.files for corpus in train for record in corpus.records],
            [hashlib.sha256(part.is_duplicate).hexdigest() for part in parts],
        ]
    )
    record_path = bench.work / "vocabulary.json"
    record = read_json(record_path)
    if record is None or record.get("key") != key or record.get("sha256") != _sha256_or_none(bench.vocabulary_path):
        num_characters = sum(part.num_characters for corpus in train for part in corpus.records)
        with bench.report.stage("vocabulary", None, ""):
            (trained,) = bench.workers.run([(train_vocabulary_on_sample, (parts, num_characters, settings))])
        with written_aside(bench.vocabulary_path) as file:
            file.write(trained.model)
        record = {"key": key, "sha256": hashlib.sha256(trained.model).hexdigest(), "message": trained.message}
        write_json(record_path, record)
    if record["message"]:
        bench.report.warn(record["message"])
    return Vocabulary.load(bench.vocabulary_path), record["message"]


def _encode(bench: Bench, cleaned: list[CleanCorpus], vocabulary: Vocabulary) -> dict[str, list[PartRecord]]:
    """The records of every corpus's encoded parts, by its folder's name."""
    vocabulary_sha256 = _sha256_or_none(bench.vocabulary_path) or ""

    def calls(corpus: CleanCorpus) -> Iterator[tuple[Callable[..., int], tuple[Any, ...]]]:
        max_pieces = 0 if corpus.plan.is_evaluation else bench.config.filters.max_pieces
        job = EncodeJob(
            clean_folder=bench.clean_folder(corpus.plan),
            folder=bench.encoded_folder(corpus.plan),
            vocabulary=bench.vocabulary_path,
            max_pieces=max_pieces,
        )
        for index, (record, mask) in enumerate(zip(corpus.records, corpus.is_duplicate, strict=True)):
            key = encoded_key(record, mask, vocabulary_sha256, max_pieces)
            if read_record(job.folder, index, key) is None:
                yield encode_part, (job, index, key, mask)
            else:
                stage.advance(record.num_pairs)

    total = sum(record.num_pairs for corpus in cleaned for record in corpus.records)
    with bench.report.stage("encoding", total, "pairs") as stage:
        for num_pairs in bench.workers.run(call for corpus in cleaned for call in calls(corpus)):
            stage.advance(num_pairs)
    return {
        corpus.plan.folder_name: _records(bench.encoded_folder(corpus.plan), len(corpus.records)) for corpus in cleaned
    }


def _check_some_fit(encoded: dict[str, list[PartRecord]], cleaned: list[CleanCorpus], max_pieces: int) -> None:
    for corpus in cleaned:
        if not corpus.plan.is_evaluation and any(record.num_pairs for record in encoded[corpus.plan.folder_name]):
            return
    raise DataError(
        f"no training pairs are left: all have more than filters.max_pieces = {max_pieces} pieces a side; raise it"
    )


def _join(
    bench: Bench,
    cleaned: list[CleanCorpus],
    encoded: dict[str, list[PartRecord]],
    shards: Path,
    id_type: np.dtype,
) -> list[tuple[PlannedCorpus, Corpus]]:
    """Joins the parts of each corpus into its shards, and describes it."""
    shutil.rmtree(shards, ignore_errors=True)
    calls = [
        (_join_side, (corpus.plan, bench.encoded_folder(corpus.plan), len(corpus.records), side, shards, id_type))
        for corpus in cleaned
        for side in ("source", "target")
    ]
    with bench.report.stage("writing", len(calls), "files") as stage:
        sides: dict[tuple[str, str], Side] = {}
        for name, side, entry in bench.workers.run(calls):
            sides[name, side] = entry
            stage.advance(1)
    fsync_folder(shards.parent)
    return [
        (corpus.plan, _describe(corpus, encoded[corpus.plan.folder_name], sides, bench.config.data))
        for corpus in cleaned
    ]


def _join_side(
    corpus: PlannedCorpus, folder: Path, num_parts: int, side: str, shards: Path, id_type: np.dtype
) -> tuple[str, str, Side]:
    lengths_histogram = np.zeros(1, np.int64)
    count = SideCount()

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal lengths_histogram
        for index, record in enumerate(_records(folder, num_parts)):
            ids, lengths = read_encoded(folder, index, record, side, id_type)
            counts = np.bincount(lengths // HISTOGRAM_BIN, minlength=len(lengths_histogram))
            counts[: len(lengths_histogram)] += lengths_histogram
            lengths_histogram = counts
            count.add(record.source if side == "source" else record.target)
            yield ids, lengths

    target = shards / corpus.split / corpus.config.name
    target.mkdir(parents=True, exist_ok=True)
    ids, offsets = write_shard(target, side, parts(), id_type)
    text = _write_text(target / f"{side}.txt", corpus, side) if corpus.is_evaluation else None
    prefix = target.relative_to(shards.parent)

    def inside(file: OutputFile) -> OutputFile:
        return file.model_copy(update={"path": str(prefix / file.path)})

    entry = Side(
        ids=inside(ids),
        offsets=inside(offsets),
        text=None if text is None else inside(text),
        tokens=count.tokens,
        longest=count.longest,
        words=count.words,
        characters=count.characters,
        bytes=count.bytes,
        lengths=tuple(lengths_histogram.tolist()),
    )
    return corpus.folder_name, side, entry


def _write_text(path: Path, corpus: PlannedCorpus, side: str) -> OutputFile:
    """The sentences of a validation or test set as they came: scores are computed against these."""
    digest = hashlib.sha256()
    with written_aside(path) as file:
        for block in read_blocks(corpus.config, corpus.scans):
            pairs = split_block(block, corpus.layout)
            for text in pairs.sources if side == "source" else pairs.targets:
                line = text.removeprefix("\ufeff").removesuffix("\r").replace("\n", " ").encode() + b"\n"
                digest.update(line)
                file.write(line)
        num_bytes = file.tell()
    return OutputFile(path=path.name, sha256=digest.hexdigest(), bytes=num_bytes)


def _describe(
    corpus: CleanCorpus, encoded: list[PartRecord], sides: dict[tuple[str, str], Side], data: DataConfig
) -> Corpus:
    cleaning, encoding = _sum(corpus.records), _sum(encoded)
    dropped = Counter(cleaning.dropped) + Counter(encoding.dropped)
    return Corpus(
        name=corpus.plan.config.name,
        inputs=tuple(
            InputFile(path=input_path(scan, data), sha256=scan.sha256, bytes=scan.num_bytes, lines=scan.num_lines)
            for scan in corpus.plan.scans
        ),
        lines=corpus.plan.num_lines,
        pairs=encoding.num_pairs,
        dropped={name: dropped[name] for name in FILTERS if dropped[name]},
        damaged_lines={kind: tuple(lines) for kind, lines in cleaning.damaged_lines.items()},
        examples=tuple(Example(**example) for example in cleaning.examples + encoding.examples),
        source=sides[corpus.plan.folder_name, "source"],
        target=sides[corpus.plan.folder_name, "target"],
    )


def _sum(records: list[PartRecord]) -> PartRecord:
    total = PartRecord(key="")
    for record in records:
        total.add(record)
    return total


def _sha256_or_none(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _copy(source: Path, target: Path, folder: Path) -> OutputFile:
    content = source.read_bytes()
    with written_aside(target) as file:
        file.write(content)
    return OutputFile(
        path=str(target.relative_to(folder)), sha256=hashlib.sha256(content).hexdigest(), bytes=len(content)
    )


def _remove_what_is_not_used(folder: Path, corpora: list[PlannedCorpus], fingerprint: str) -> None:
    """After the manifest is in place: shards of before, encoded parts, and cleaned text of corpora that are gone."""
    for path in folder.glob("shards-" + "[0-9a-f]" * 8):
        if path.name != f"shards-{fingerprint[:8]}":
            shutil.rmtree(path)
    shutil.rmtree(folder / "work" / "encoded", ignore_errors=True)
    names = {corpus.folder_name for corpus in corpora}
    for path in (folder / "work" / "clean").iterdir():
        if path.name not in names:
            shutil.rmtree(path)
