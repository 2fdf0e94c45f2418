"""Parallel text on disk: plain or compressed files into blocks of raw lines that never lose their alignment.

A line ends at a line feed and nowhere else: a lone carriage return or U+2028 inside a sentence does not shift the pairs
below it. A corpus is two files, one TSV file or one JSON Lines file; a `Block` holds the same lines of both sides.
Every file is read twice: `scan_file` counts and hashes before any work begins, and `read_blocks` hashes again while the
text is used, so that a file which changes in between is noticed.
"""

import bz2
import difflib
import hashlib
import json
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import zstandard

from septuagint.config import CorpusConfig
from septuagint.errors import DataError

# Compressed text can expand a thousandfold, and memory must not follow it: where a decompressor cannot bound what it
# gives back, it is fed in small bites.
_RAW_BYTES = {"plain": 1 << 20, "gz": 1 << 14, "bz2": 1 << 16, "xz": 1 << 16, "zst": 1 << 12}
_TEXT_BYTES = 1 << 22
# The rest of a longer line is passed over. Such a line is dropped anyway, and memory stays bounded.
MAX_LINE_BYTES = 1 << 20
# A block ends after this many lines, or bytes where lines are long; it is cut at every hundredth line.
BLOCK_LINES = 20_000
BLOCK_BYTES = 1 << 24
_GROUP_LINES = 100

_MAGIC = {
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
}


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
    for text in _read_text(path, digest):
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
        same = "are the same file" if corpus.source == corpus.target else "have the same content"
        raise DataError(f"corpus {corpus.name!r}: source and target {same} ({source.path}, {target.path})")


def find_layout(corpus: CorpusConfig, source_language: str, target_language: str) -> Layout:
    """The form of a corpus; the keys of a JSON Lines file are found in its first line when they are not given."""
    if corpus.tsv is not None:
        return Layout(form="tsv", source_field=corpus.source_field or 1, target_field=corpus.target_field or 2)
    if corpus.jsonl is None:
        return Layout(form="two files")
    if corpus.source_field is not None and corpus.target_field is not None:
        return Layout(form="jsonl", source_field=corpus.source_field, target_field=corpus.target_field)
    first = next(_group_lines(_read_text(corpus.jsonl, hashlib.sha256()))).split(b"\n", 1)[0]
    try:
        record = json.loads(first.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        raise DataError(f"{corpus.jsonl}: line 1 is not a JSON object; a .jsonl file has one on each line") from None
    for source, target in (
        (corpus.source_field or "source", corpus.target_field or "target"),
        (corpus.source_field or source_language, corpus.target_field or target_language),
        (f"translation.{source_language}", f"translation.{target_language}"),
        ("src", "tgt"),
    ):
        if isinstance(_look_up(record, source), str) and isinstance(_look_up(record, target), str):
            return Layout(form="jsonl", source_field=source, target_field=target)
    keys = ", ".join(record) if isinstance(record, dict) else "none"
    raise DataError(
        f"{corpus.jsonl}: cannot tell source from target by the keys of line 1 ({keys}); "
        "set source_field and target_field, such as 'translation.en'"
    )


def read_blocks(corpus: CorpusConfig, scans: tuple[ScannedFile, ...]) -> Iterator[Block]:
    """All lines of a corpus in blocks, cut alike on every reading. DataError if a file is not as it was scanned."""
    digests = [hashlib.sha256() for _ in scans]
    sides = [_group_lines(_read_text(path, digest)) for path, digest in zip(corpus.paths, digests, strict=True)]
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
            raise DataError(f"{scan.path}: the file changed while it was being read; run the same command again")
    if groups:
        yield block()


def split_block(block: Block, layout: Layout) -> RawPairs:
    """The pairs of a block. A damaged line is still a pair, marked, so that line numbers and alignment hold."""
    if layout.form == "two files":
        sources, damaged_sources = _decode_lines(block.source)
        targets, damaged_targets = _decode_lines(block.target)
        assert len(sources) == len(targets), "files of the same number of lines give blocks of the same number"
        damage = dict.fromkeys(damaged_sources | damaged_targets, "invalid_utf8")
        return RawPairs(sources=sources, targets=targets, damage=damage)
    lines, damaged_lines = _decode_lines(block.source)
    pairs = RawPairs(sources=[], targets=[], damage=dict.fromkeys(damaged_lines, "invalid_utf8"))
    split = _split_tsv if layout.form == "tsv" else _split_json
    for position, line in enumerate(lines):
        pair = split(line, layout)
        if pair is None:
            pairs.damage[position] = "malformed"
        elif not _is_encodable(pair[0] + pair[1]):
            pairs.damage[position] = "invalid_utf8"
        source, target = pair or (line, "")
        pairs.sources.append(_mend(source))
        pairs.targets.append(_mend(target))
    return pairs


def _read_text(path: Path, digest: Any) -> Iterator[bytes]:
    """The decompressed bytes of a file in pieces of bounded size; `digest` is fed with the bytes on disk."""
    position = 0
    num_text_bytes = 0
    kind = "plain"

    def raw_pieces(file: BinaryIO) -> Iterator[bytes]:
        nonlocal position
        while raw := file.read(_RAW_BYTES[kind]):
            digest.update(raw)
            position += len(raw)
            yield raw

    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(f"{path}: not a regular file; text is read twice, so a pipe will not do")
        with path.open("rb") as file:
            kind = _compression(file.read(6))
            file.seek(0)
            pieces = raw_pieces(file)
            for text in pieces if kind == "plain" else _decompress(kind, pieces):
                if num_text_bytes == 0 and text.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise DataError(f"{path}: this is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8")
                num_text_bytes += len(text)
                yield text
    except FileNotFoundError:
        raise DataError(f"{path}: no such file{_nearest_file(path)}") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, not a file of text") from None
    except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError) as error:
        if kind == "plain":
            raise DataError(f"{path}: cannot be read at byte {position:,}: {error}") from None
        raise DataError(
            f"{path}: damaged {kind} archive, at byte {position:,} of {path.stat().st_size:,} and after "
            f"{num_text_bytes:,} bytes of text ({error}); fetch or make the file again"
        ) from None


def _compression(first_bytes: bytes) -> str:
    """Told by the content, not by the name: a .gz that a browser unpacked on the way is plain text."""
    for magic, kind in _MAGIC.items():
        if first_bytes.startswith(magic):
            return kind
    return "plain"


def _decompress(kind: str, raw_pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompresses piece by piece, also where a file is several archives end to end, and notices a cut one."""
    stream: Any = None  # zlib, bz2, lzma and zstandard share these names, but no type
    has_bound = kind in ("bz2", "xz")
    for raw in raw_pieces:
        while raw:
            if stream is None and kind != "bz2" and not raw.strip(b"\0"):
                break  # padding behind the last archive
            if stream is None:
                stream = _new_stream(kind)
            if has_bound:
                yield stream.decompress(raw, _TEXT_BYTES)
                while not stream.eof and not stream.needs_input:
                    yield stream.decompress(b"", _TEXT_BYTES)
            else:
                yield stream.decompress(raw)
            raw = b""
            if stream.eof:
                raw = stream.unused_data
                stream = None
    if stream is not None:
        raise EOFError("it ends too early")


def _new_stream(kind: str) -> Any:
    match kind:
        case "gz":
            return zlib.decompressobj(wbits=31)
        case "bz2":
            return bz2.BZ2Decompressor()
        case "xz":
            return lzma.LZMADecompressor()
        case _:
            return zstandard.ZstdDecompressor().decompressobj()


def _group_lines(texts: Iterator[bytes]) -> Iterator[bytes]:
    """Regroups pieces of text into groups of _GROUP_LINES lines; every group ends with a line feed."""
    pending: list[bytes] = []
    num_pending_lines = 0
    num_line_bytes = 0  # of the line that is not complete yet
    for text in texts:
        ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n")) + 1
        start = 0
        while num_pending_lines + len(ends) >= _GROUP_LINES:
            cut = int(ends[_GROUP_LINES - num_pending_lines - 1])
            yield b"".join([*pending, text[start:cut]])
            ends = ends[_GROUP_LINES - num_pending_lines :]
            pending, num_pending_lines, num_line_bytes, start = [], 0, 0, cut
        last_end = int(ends[-1]) if len(ends) else start
        if len(ends):
            pending.append(text[start:last_end])
            num_line_bytes = 0
        tail = text[last_end:][: max(0, MAX_LINE_BYTES - num_line_bytes)]
        num_line_bytes += len(tail)
        if tail:
            pending.append(tail)
        num_pending_lines += len(ends)
    if pending:
        rest = b"".join(pending)
        yield rest if rest.endswith(b"\n") else rest + b"\n"


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


def _is_encodable(text: str) -> bool:
    """Whether text has no lone surrogate. JSON can carry one as an escape; UTF-8 cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _mend(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _nearest_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f" (nor is there a folder {path.parent})"
    near = difflib.get_close_matches(path.name, [name for name in names if name != path.name], n=1)
    return f"; did you mean {near[0]}?" if near else ""
