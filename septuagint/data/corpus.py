"""Parallel text on disk: plain or compressed files into blocks of raw lines that never lose their alignment.

A line ends at a line feed and nowhere else: a lone carriage return or U+2028 inside a sentence does not shift the pairs
below it. A corpus is two files, one TSV file or one JSON Lines file; a `Block` holds the same lines of both sides.
Every file is read twice: `scan_file` counts and hashes before any work begins, and `read_blocks` hashes again while the
text is used, so that a file which changes in between is noticed.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np

from septuagint.config import CorpusConfig
from septuagint.data.archives import read_text
from septuagint.errors import ChangedFileError, DataError

# Of a longer line in training text the rest is passed over: it is dropped anyway, and memory stays bounded.
MAX_LINE_BYTES = 1 << 20
WHOLE_LINES = 1 << 62
# A block ends after this many lines, or bytes where lines are long; it is cut at every hundredth line.
BLOCK_LINES = 20_000
BLOCK_BYTES = 1 << 24
_GROUP_LINES = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class ScannedFile:
    """What was found on the first reading of a file."""

    path: str
    sha256: str
    num_bytes: int
    num_lines: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How the two sides of a corpus lie in its files. Fields: column numbers from 1, or dotted keys."""

    form: Literal["two files", "tsv", "jsonl"]
    source_field: str | int | None = None
    target_field: str | int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Consecutive lines of a corpus. `target` is empty where one file holds both sides."""

    index: int
    first_line: int
    num_lines: int
    source: bytes
    target: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class RawPairs:
    """The pairs of a block as they stand in the file; `damage`: `invalid_utf8` or `malformed`, by position."""

    sources: list[str]
    targets: list[str]
    damage: dict[int, str]


def scan_file(path: Path) -> ScannedFile:
    """Reads a whole file once: is it there, is it whole, how many lines has it, what is its SHA-256?"""
    digest = hashlib.sha256()
    num_lines = 0
    last = b""
    for text in read_text(path, digest):
        num_lines += text.count(b"\n")
        last = text[-1:]
    if last not in (b"", b"\n"):
        num_lines += 1
    if num_lines == 0:
        raise DataError(f"{path}: the file is empty")
    return ScannedFile(path=str(path), sha256=digest.hexdigest(), num_bytes=path.stat().st_size, num_lines=num_lines)


def check_parallel(corpus: CorpusConfig, scans: tuple[ScannedFile, ...]) -> None:
    """Refuses two files that cannot be translations of each other."""
    if len(scans) < 2:
        return
    source, target = scans
    if source.num_lines != target.num_lines:
        raise DataError(
            f"corpus {corpus.name!r}: {source.path} has {source.num_lines:,} lines but {target.path} has "
            f"{target.num_lines:,}; the files must be parallel, line by line. Nothing was prepared"
        )
    if source.sha256 == target.sha256:
        raise DataError(
            f"corpus {corpus.name!r}: source and target have the same content ({source.path}, {target.path})"
        )


def find_layout(corpus: CorpusConfig, source_language: str, target_language: str) -> Layout:
    """The form of a corpus; the keys of a JSON Lines file are found in its first line when they are not given."""
    if corpus.tsv is not None:
        return Layout(form="tsv", source_field=corpus.source_field or 1, target_field=corpus.target_field or 2)
    if corpus.jsonl is None:
        return Layout(form="two files")
    (path,) = corpus.paths
    first = next(_group_lines(read_text(path, hashlib.sha256()), MAX_LINE_BYTES)).split(b"\n", 1)[0]
    try:
        record = json.loads(first.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        raise DataError(f"{corpus.jsonl}: line 1 is not a JSON object; a .jsonl file has one on each line") from None
    guesses: tuple[tuple[str | int, str | int], ...] = (
        ("source", "target"),
        (source_language, target_language),
        (f"translation.{source_language}", f"translation.{target_language}"),
        ("src", "tgt"),
    )
    for guess in guesses:
        source, target = corpus.source_field or guess[0], corpus.target_field or guess[1]
        if isinstance(_look_up(record, source), str) and isinstance(_look_up(record, target), str):
            return Layout(form="jsonl", source_field=source, target_field=target)
    keys = ", ".join(record) if isinstance(record, dict) else "none"
    wanted = " and ".join(repr(field) for field in (corpus.source_field, corpus.target_field) if field is not None)
    raise DataError(
        f"{corpus.jsonl}: cannot find source and target {f'by {wanted} ' if wanted else ''}in line 1, whose keys are: "
        f"{keys}; set source_field and target_field to the keys that hold the two texts, such as 'translation.en'"
    )


def read_blocks(
    corpus: CorpusConfig, scans: tuple[ScannedFile, ...], max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Block]:
    """All lines of a corpus in blocks, cut alike on every reading. ChangedFileError if a file is not as it was scanned.

    The rest of a line beyond `max_line_bytes` is passed over.
    """
    digests = [hashlib.sha256() for _ in scans]
    sides = [
        _group_lines(read_text(path, digest), max_line_bytes)
        for path, digest in zip(corpus.paths, digests, strict=True)
    ]
    groups: list[tuple[bytes, ...]] = []
    index, first_line, num_lines, num_bytes = 0, 1, 0, 0

    def block() -> Block:
        texts = [b"".join(side) for side in zip(*groups, strict=True)]
        return Block(
            index=index, first_line=first_line, num_lines=num_lines, source=texts[0], target=b"".join(texts[1:])
        )

    for group in zip_longest(*sides, fillvalue=b""):
        counts = {text.count(b"\n") for text in group}
        if len(counts) > 1:
            break  # a file is not what it was; the hashes below tell which
        groups.append(group)
        num_lines += counts.pop()
        num_bytes += sum(map(len, group))
        if num_lines >= BLOCK_LINES or num_bytes >= BLOCK_BYTES:
            yield block()
            index, first_line, num_lines, num_bytes = index + 1, first_line + num_lines, 0, 0
            groups.clear()
    for scan, digest, side in zip(scans, digests, sides, strict=True):
        for _ in side:
            pass  # to the end of the file, where its hash is known
        if digest.hexdigest() != scan.sha256:
            raise ChangedFileError(f"{scan.path}: the file changed while it was being read; run the same command again")
    if groups:
        yield block()


def split_block(block: Block, layout: Layout) -> RawPairs:
    """The pairs of a block. A damaged line is still a pair, marked, so that line numbers and alignment hold."""
    if layout.form == "two files":
        sources, damaged_sources = _decode_lines(block.source)
        targets, damaged_targets = _decode_lines(block.target)
        assert len(sources) == len(targets), "files of the same number of lines give blocks of the same number"
        damage = dict.fromkeys(sorted(damaged_sources | damaged_targets), "invalid_utf8")
        return RawPairs(sources=sources, targets=targets, damage=damage)
    lines, damaged_lines = _decode_lines(block.source)
    pairs = RawPairs(sources=[], targets=[], damage={})
    split = _split_tsv if layout.form == "tsv" else _split_json
    for position, line in enumerate(lines):
        pair = split(line, layout)
        if pair is None and len(line.encode()) > MAX_LINE_BYTES - 4:
            pair = (line, line)  # it was cut, so it is not damaged but too long
        if pair is None:
            pairs.damage[position] = "malformed"
        elif position in damaged_lines or _SURROGATE.search(pair[0]) or _SURROGATE.search(pair[1]):
            pairs.damage[position] = "invalid_utf8"
        source, target = pair or (line, "")
        pairs.sources.append(_mend(source))
        pairs.targets.append(_mend(target))
    return pairs


def _group_lines(texts: Iterator[bytes], max_line_bytes: int) -> Iterator[bytes]:
    """Regroups pieces of text into groups of _GROUP_LINES lines; every group ends with a line feed."""
    pending: list[bytes] = []
    num_pending_lines = 0
    num_line_bytes = 0  # of the line that is not complete yet
    for text in texts:
        ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n")) + 1
        start = 0
        if num_line_bytes > max_line_bytes and len(ends):
            # Of a line that was cut only the end is left to come.
            pending = [_whole_characters(b"".join(pending))]
            start = int(ends[0]) - 1
        while num_pending_lines + len(ends) >= _GROUP_LINES:
            cut = int(ends[_GROUP_LINES - num_pending_lines - 1])
            yield b"".join([*pending, text[start:cut]])
            ends = ends[_GROUP_LINES - num_pending_lines :]
            pending, num_pending_lines, num_line_bytes, start = [], 0, 0, cut
        if len(ends):
            pending.append(text[start : ends[-1]])
            start = int(ends[-1])
            num_line_bytes = 0
        pending.append(text[start:][: max(0, max_line_bytes - num_line_bytes)])
        num_line_bytes += len(text) - start
        num_pending_lines += len(ends)
    rest = b"".join(pending)
    if num_line_bytes > max_line_bytes:
        rest = _whole_characters(rest)
    if rest:
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def _whole_characters(text: bytes) -> bytes:
    """UTF-8 that was cut somewhere, without the part of a character at its end."""
    last = re.search(rb"[\xc0-\xff][\x80-\xbf]{0,2}\Z", text)
    if last is None or len(last[0]) == 2 + (last[0][0] >= 0xE0) + (last[0][0] >= 0xF0):
        return text
    return text[: last.start()]


def _decode_lines(block: bytes) -> tuple[list[str], set[int]]:
    """(lines, positions of those that were not valid UTF-8, where U+FFFD stands for what could not be read)."""
    try:
        return block.decode("utf-8").split("\n")[:-1], set()
    except UnicodeDecodeError:
        lines, damaged = [], set()
        for position, raw in enumerate(block.split(b"\n")[:-1]):
            try:
                lines.append(raw.decode("utf-8"))
            except UnicodeDecodeError:
                lines.append(raw.decode("utf-8", errors="replace"))
                damaged.add(position)
        return lines, damaged


def _split_tsv(line: str, layout: Layout) -> tuple[str, str] | None:
    columns = line.split("\t")
    assert isinstance(layout.source_field, int) and isinstance(layout.target_field, int)
    if max(layout.source_field, layout.target_field) > len(columns):
        return None
    return columns[layout.source_field - 1], columns[layout.target_field - 1]


def _split_json(line: str, layout: Layout) -> tuple[str, str] | None:
    try:
        record = json.loads(line.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    source, target = _look_up(record, layout.source_field), _look_up(record, layout.target_field)
    return (source, target) if isinstance(source, str) and isinstance(target, str) else None


def _look_up(record: Any, key: str | int | None) -> Any:
    """The value at a key, which may itself have dots or lead through objects: `translation.en`."""
    if isinstance(record, dict) and key in record:
        return record[key]
    for part in str(key).split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record


_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can carry half a character as an escape; UTF-8 cannot


def _mend(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)
