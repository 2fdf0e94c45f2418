"""The first half of a preparation: raw text into cleaned parts without duplicates."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from septuagint.data.corpus import MAX_LINE_BYTES, WHOLE_LINES, Block, read_blocks
from septuagint.data.duplicates import find_duplicates
from septuagint.data.files import hash_file, hash_json, read_object, write_json, written_aside
from septuagint.data.filters import FILTERS, overlap_key
from septuagint.data.normaliser import NORMALISER
from septuagint.data.parts import (
    CleanJob,
    PartRecord,
    clean_block,
    hash_block,
    hashes_path,
    part_key,
    read_clean_lines,
    read_record,
    read_records,
    total_of,
)
from septuagint.data.plan import Bench, PlannedCorpus, content_versions
from septuagint.errors import DataError
from septuagint.progress import ProgressReport

_COMPLETE = "complete.json"  # beside the parts of a corpus once all are there


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


def clean_corpora(bench: Bench, corpora: list[PlannedCorpus]) -> list[CleanCorpus]:
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
    dependencies: list[Any] = [corpus.identity, NORMALISER, content_versions(filters)]
    if not corpus.is_evaluation:
        # Duplicates and pieces are seen to later, and overlap is told by the keys.
        settings = filters.model_dump(mode="json", exclude={"duplicates", "max_pieces", "overlap"})
        keys_sha256 = hash_file(evaluation_keys) if evaluation_keys is not None else ""
        dependencies += [settings, data.source_language, data.target_language, keys_sha256]
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
            complete = read_object(job.folder / _COMPLETE)
            finished = _finished_parts(job)
            if complete.get("key") == job.key and len(finished) == complete.get("num_parts"):
                advance(corpus.num_lines)
                continue
            max_line_bytes = WHOLE_LINES if corpus.is_evaluation else MAX_LINE_BYTES
            for block in read_blocks(corpus.config, corpus.scans, max_line_bytes):
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
    return read_records(folder, int(read_object(folder / _COMPLETE).get("num_parts", 1)))


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


def warn_of_damage(cleaned: list[CleanCorpus], report: ProgressReport) -> None:
    for corpus in cleaned:
        total = total_of(corpus.records)
        for kind, lines in total.damaged_lines.items():
            what = "not valid UTF-8" if kind == "invalid_utf8" else "not two fields"
            outcome = "what cannot be read became U+FFFD" if corpus.plan.is_evaluation else "dropped"
            report.warn(
                f"{corpus.plan.config.name}: {total.num_damaged[kind]:,} damaged lines ({what}), {outcome}; "
                f"first lines: {', '.join(map(str, lines))}"
            )


def mark_duplicates(bench: Bench, train: list[CleanCorpus]) -> None:
    """The first of equal pairs stays, in the order of the configuration and of the lines."""
    with bench.report.stage("deduplicating", None, "pairs"):
        places = [(corpus, index) for corpus in train for index in range(len(corpus.records))]
        paths = [hashes_path(bench.clean_folder(corpus.plan), index, corpus.records[index]) for corpus, index in places]
        for (corpus, index), is_duplicate in zip(places, find_duplicates(paths), strict=True):
            corpus.is_duplicate[index] = np.packbits(is_duplicate).tobytes()
            corpus.num_duplicates += int(is_duplicate.sum())


def check_some_are_left(train: list[CleanCorpus]) -> None:
    if any(corpus.num_pairs for corpus in train):
        return
    dropped: Counter[str] = Counter()
    for corpus in train:
        dropped.update(total_of(corpus.records).dropped)
    reasons = "; ".join(f"{count:,}: {name} ({FILTERS[name]})" for name, count in dropped.most_common())
    raise DataError(
        f"no training pairs are left after filtering. Dropped: {reasons}. See [filters] in the configuration"
    )
