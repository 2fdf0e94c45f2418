"""The end of a preparation: the encoded parts of each corpus joined into its shards, and described."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from septuagint.config import DataConfig
from septuagint.data.cleaning import CleanCorpus
from septuagint.data.corpus import WHOLE_LINES, read_blocks, split_block
from septuagint.data.files import written_aside
from septuagint.data.filters import FILTERS
from septuagint.data.manifest import HISTOGRAM_BIN, Corpus, Example, InputFile, OutputFile, Side
from septuagint.data.parts import PartRecord, SideCount, read_encoded, read_records, total_of
from septuagint.data.plan import Bench, PlannedCorpus, input_path
from septuagint.data.shards import write_shard


def join_corpora(
    bench: Bench,
    cleaned: list[CleanCorpus],
    encoded: dict[str, list[PartRecord]],
    id_type: np.dtype,
    shards_name: str,
) -> list[tuple[PlannedCorpus, Corpus]]:
    """Joins the parts of each corpus into its shards, in `work/shards`, and describes it.

    The paths in the result are those that the shards have once their folder is called `shards_name`.
    """
    shards = bench.work / "shards"
    shutil.rmtree(shards, ignore_errors=True)
    calls = [
        (
            _join_side,
            (corpus.plan, bench.encoded_folder(corpus.plan), len(corpus.records), side, shards, id_type, shards_name),
        )
        for corpus in cleaned
        for side in ("source", "target")
    ]
    with bench.report.stage("writing", len(calls), "files") as stage:
        sides: dict[tuple[str, str], Side] = {}
        for name, side, entry in bench.workers.run(calls):
            sides[name, side] = entry
            stage.advance(1)
    return [
        (corpus.plan, _describe(corpus, encoded[corpus.plan.folder_name], sides, bench.config.data))
        for corpus in cleaned
    ]


def _join_side(
    corpus: PlannedCorpus,
    folder: Path,
    num_parts: int,
    side: str,
    shards: Path,
    id_type: np.dtype,
    shards_name: str,
) -> tuple[str, str, Side]:
    lengths_histogram = np.zeros(1, np.int64)
    count = SideCount()

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal lengths_histogram
        for index, record in enumerate(read_records(folder, num_parts)):
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
    prefix = shards_name / target.relative_to(shards)

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
        for block in read_blocks(corpus.config, corpus.scans, WHOLE_LINES):
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
    cleaning, encoding = total_of(corpus.records), total_of(encoded)
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
