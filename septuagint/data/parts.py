"""Parts: what is made of one block of lines, first cleaned, then encoded. Each is finished or not there at all.

A part is some files and a record, `00012.json`, written last. The record carries a key, the hash of everything the part
depends on: a part whose key is still right is not made again, so an interrupted preparation goes on where it was, and
changed input redoes just what depends on it. Parts are made in any order and read in the order of the text.

Cleaned:  `00012.tsv.zst` (source, tab, target; a normalised line has no tab) and `00012.hashes` (one uint64 a pair).
Encoded:  `00012.source`, `00012.target` (number of tokens of each sentence as int32, then all ids).
"""

import functools
import hashlib
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from septuagint.config import FilterConfig
from septuagint.data.corpus import Block, Layout, split_block
from septuagint.data.duplicates import HASH_TYPE
from septuagint.data.files import hash_json, read_object, write_json, written_aside
from septuagint.data.filters import EvaluationText, PairFilter, Reason
from septuagint.data.normaliser import normalise
from septuagint.data.vocabulary import Vocabulary
from septuagint.errors import DataError

# Raise it when cleaning, vocabulary or encoding change their result: what was made before is then made again.
REVISION = 2

_LENGTH_TYPE = np.dtype("<i4")
_MAX_EXAMPLES = 3
_MAX_EXAMPLE_CHARACTERS = 120
_MAX_DAMAGED_LINES = 5


@dataclass(frozen=True, kw_only=True)
class CleanJob:
    """How the blocks of one corpus are cleaned. Validation and test text is normalised, but never filtered."""

    folder: Path
    key: str
    paths: tuple[str, ...]
    layout: Layout
    filters: FilterConfig
    source_language: str
    target_language: str
    is_evaluation: bool
    is_strict: bool
    evaluation_keys: Path | None


@dataclass(frozen=True, kw_only=True)
class EncodeJob:
    """How the cleaned parts of one corpus are encoded. `max_pieces` is 0 where nothing may be dropped."""

    clean_folder: Path
    folder: Path
    vocabulary: Path
    max_pieces: int


@dataclass(kw_only=True)
class SideCount:
    """How much text and how many tokens one side of the kept pairs has."""

    words: int = 0
    characters: int = 0
    bytes: int = 0
    tokens: int = 0
    longest: int = 0

    def add(self, other: "SideCount") -> None:
        self.words += other.words
        self.characters += other.characters
        self.bytes += other.bytes
        self.tokens += other.tokens
        self.longest = max(self.longest, other.longest)


@dataclass(kw_only=True)
class PartRecord:
    """What happened to the lines of a part, and the hashes of its files."""

    key: str
    input_sha256: str = ""
    num_pairs: int = 0
    num_characters: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    num_damaged: dict[str, int] = field(default_factory=dict)
    damaged_lines: dict[str, list[int]] = field(default_factory=dict)
    examples: list[dict[str, Any]] = field(default_factory=list)
    source: SideCount = field(default_factory=SideCount)
    target: SideCount = field(default_factory=SideCount)
    files: dict[str, str] = field(default_factory=dict)

    def drop(self, reason: str, line: int | None, source: str, target: str) -> None:
        """Counts a dropped pair, and keeps the first few to show."""
        num_before = self.dropped.get(reason, 0)
        if num_before < _MAX_EXAMPLES:
            self.examples.append(
                {"filter": reason, "line": line, "source": _shortened(source), "target": _shortened(target)}
            )
        self.dropped[reason] = num_before + 1

    def add(self, other: "PartRecord") -> None:
        """Joins the record of the part that follows."""
        self.num_pairs += other.num_pairs
        self.num_characters += other.num_characters
        for reason, count in other.dropped.items():
            shown = [example for example in other.examples if example["filter"] == reason]
            num_before = self.dropped.get(reason, 0)
            self.examples += shown[: max(0, _MAX_EXAMPLES - num_before)]
            self.dropped[reason] = num_before + count
        for kind, count in other.num_damaged.items():
            self.num_damaged[kind] = self.num_damaged.get(kind, 0) + count
        for kind, lines in other.damaged_lines.items():
            self.damaged_lines[kind] = (self.damaged_lines.get(kind, []) + lines)[:_MAX_DAMAGED_LINES]
        self.source.add(other.source)
        self.target.add(other.target)


def part_key(job_key: str, index: int) -> str:
    """The key of one cleaned part."""
    return hash_json([REVISION, job_key, index])


def hash_block(block: Block) -> str:
    """SHA-256 of a block's text: a part of a file that has changed since is not taken for one of today's."""
    return hashlib.sha256(block.source + block.target).hexdigest()


def encoded_key(clean: PartRecord, is_duplicate: bytes, vocabulary_sha256: str, max_pieces: int) -> str:
    """The key of one encoded part: the cleaned text, which of it stays, and what encodes it."""
    return hash_json([REVISION, clean.files, hashlib.sha256(is_duplicate).hexdigest(), vocabulary_sha256, max_pieces])


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_EXAMPLE_CHARACTERS else f"{text[:_MAX_EXAMPLE_CHARACTERS]}…"


def read_record(folder: Path, index: int, key: str | None = None) -> PartRecord | None:
    """The record of a finished part; None where there is none with this key, or a file of it is gone."""
    content = read_object(folder / f"{index:05}.json")
    if content.pop("sha256", None) != hash_json(content):
        return None
    try:
        sides = {side: SideCount(**content[side]) for side in ("source", "target")}
        record = PartRecord(**{**content, **sides})
    except (AttributeError, KeyError, TypeError):
        return None
    if key is not None and record.key != key:
        return None
    return record if all((folder / name).is_file() for name in record.files) else None


def read_records(folder: Path, num_parts: int) -> list[PartRecord]:
    """The records of all parts of a corpus, in the order of the text."""
    records = []
    for index in range(num_parts):
        record = read_record(folder, index)
        if record is None:
            raise DataError(f"{folder}: part {index} vanished while it was needed; run the same command again")
        records.append(record)
    return records


def total_of(records: list[PartRecord]) -> PartRecord:
    """The records of several parts as one."""
    total = PartRecord(key="")
    for record in records:
        total.add(record)
    return total


def clean_block(job: CleanJob, block: Block) -> int:
    """Makes the cleaned part of a block of raw lines; the number of lines it had."""
    record = PartRecord(key=part_key(job.key, block.index), input_sha256=hash_block(block))
    pairs = split_block(block, job.layout)
    for position, damage in pairs.damage.items():
        _note_damage(job, record, damage, block.first_line + position)
    sources = [normalise(line) for line in pairs.sources]
    targets = [normalise(line) for line in pairs.targets]
    reasons: list[Reason] = [None] * len(sources)
    if not job.is_evaluation:
        reasons = _pair_filter(job).reasons(sources, targets)
        for position, damage in pairs.damage.items():
            reasons[position] = damage
    kept: list[str] = []
    for position, (source, target, reason) in enumerate(zip(sources, targets, reasons, strict=True)):
        if reason is None:
            kept.append(f"{source}\t{target}\n")
        else:
            record.drop(reason, block.first_line + position, source, target)
    encoded = [line.encode() for line in kept]
    hashes = b"".join([hashlib.blake2b(line, digest_size=HASH_TYPE.itemsize).digest() for line in encoded])
    record.num_pairs = len(kept)
    record.num_characters = sum(map(len, kept)) - 2 * len(kept)
    text = zstandard.compress(b"".join(encoded), 1)
    _write_part(job.folder, block.index, record, {"tsv.zst": text, "hashes": hashes})
    return len(sources)


def read_clean_lines(folder: Path, index: int, record: PartRecord) -> list[str]:
    """The pairs of a cleaned part, source and target with a tab between them."""
    raw = _read_checked(folder, f"{index:05}.tsv.zst", record)
    return zstandard.decompress(raw, max_output_size=1 << 31).decode().split("\n")[:-1]


def hashes_path(folder: Path, index: int, record: PartRecord) -> Path:
    """The file of hashes of a cleaned part's pairs, found to be undamaged."""
    name = f"{index:05}.hashes"
    _read_checked(folder, name, record)
    return folder / name


def encode_part(job: EncodeJob, index: int, key: str, is_duplicate: bytes) -> int:
    """Makes the encoded part of a cleaned one; the number of pairs it had. `is_duplicate`: one bit a pair."""
    clean = read_record(job.clean_folder, index)
    assert clean is not None, "cleaning comes before encoding"
    lines = read_clean_lines(job.clean_folder, index, clean)
    drop = np.unpackbits(np.frombuffer(is_duplicate, np.uint8), count=len(lines)).astype(bool)
    record = PartRecord(key=key)
    columns = "\t".join(lines).split("\t") if lines else []
    sides = [columns[0::2], columns[1::2]]
    for position in np.flatnonzero(drop):
        record.drop("duplicate", None, sides[0][position], sides[1][position])
    sides = [_without(side, drop) for side in sides]
    vocabulary = _vocabulary(job.vocabulary)
    encoded = [vocabulary.encode(side) for side in sides]
    if job.max_pieces:
        is_kept = np.all([lengths <= job.max_pieces + 1 for _, lengths in encoded], axis=0)
        for position in np.flatnonzero(~is_kept):
            record.drop("too_many_pieces", None, sides[0][position], sides[1][position])
        encoded = [(ids[np.repeat(is_kept, lengths)], lengths[is_kept]) for ids, lengths in encoded]
        sides = [_without(side, ~is_kept) for side in sides]
    record.num_pairs = len(sides[0])
    for count, texts, (_, lengths) in zip((record.source, record.target), sides, encoded, strict=True):
        count.add(_count(texts, lengths))
    raw = [lengths.astype(_LENGTH_TYPE).tobytes() + ids.tobytes() for ids, lengths in encoded]
    _write_part(job.folder, index, record, {"source": raw[0], "target": raw[1]})
    return len(lines)


def read_encoded(
    folder: Path, index: int, record: PartRecord, side: str, id_type: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """(ids, lengths) of one side of an encoded part."""
    raw = _read_checked(folder, f"{index:05}.{side}", record)
    num_length_bytes = record.num_pairs * _LENGTH_TYPE.itemsize
    lengths = np.frombuffer(raw[:num_length_bytes], _LENGTH_TYPE).astype(np.int64)
    return np.frombuffer(raw[num_length_bytes:], id_type), lengths


@functools.lru_cache(maxsize=8)
def _pair_filter(job: CleanJob) -> PairFilter:
    keys = job.evaluation_keys.read_bytes().split(b"\n") if job.evaluation_keys is not None else ()
    return PairFilter(job.filters, job.source_language, job.target_language, EvaluationText(keys))


@functools.lru_cache(maxsize=1)
def _vocabulary(path: Path) -> Vocabulary:
    return Vocabulary.load(path)


def _note_damage(job: CleanJob, record: PartRecord, damage: str, line: int) -> None:
    files = " and ".join(job.paths)
    what = "is not valid UTF-8"
    if damage == "malformed":
        what = f"does not have both fields, {job.layout.source_field!r} and {job.layout.target_field!r}"
    if job.is_strict:
        raise DataError(f"{files}: line {line:,} {what}; mend the file, or set data.strict = false to drop such lines")
    if job.is_evaluation and damage == "malformed":
        raise DataError(f"{files}: line {line:,} {what}; validation and test text must be whole")
    record.num_damaged[damage] = record.num_damaged.get(damage, 0) + 1
    lines = record.damaged_lines.setdefault(damage, [])
    if len(lines) < _MAX_DAMAGED_LINES:
        lines.append(line)


def _without(lines: list[str], is_dropped: np.ndarray) -> list[str]:
    return list(compress(lines, ~is_dropped)) if is_dropped.any() else lines


def _count(lines: list[str], lengths: np.ndarray) -> SideCount:
    text = "\n".join(lines)
    num_breaks = max(0, len(lines) - 1)
    return SideCount(
        words=text.count(" ") + len(lines) - lines.count(""),
        characters=len(text) - num_breaks,
        bytes=len(text.encode()) - num_breaks,
        tokens=int(lengths.sum()),
        longest=int(lengths.max(initial=0)),
    )


def _write_part(folder: Path, index: int, record: PartRecord, contents: dict[str, bytes]) -> None:
    for suffix, content in contents.items():
        name = f"{index:05}.{suffix}"
        with written_aside(folder / name) as file:
            file.write(content)
        record.files[name] = hashlib.sha256(content).hexdigest()
    fields = asdict(record)
    write_json(folder / f"{index:05}.json", {**fields, "sha256": hash_json(fields)})


def _read_checked(folder: Path, name: str, record: PartRecord) -> bytes:
    raw = (folder / name).read_bytes()
    if hashlib.sha256(raw).hexdigest() != record.files[name]:
        # With its record gone the part counts as never made.
        (folder / name).with_name(f"{name[:5]}.json").unlink(missing_ok=True)
        raise DataError(f"{folder / name}: damaged on disk; run the same command again and it is made anew")
    return raw
