"""Text to be translated, as windows of lines: from a file, compressed or not, or from a pipe while it is written.

A line ends at a line feed and nowhere else, and the last one needs none. What is not UTF-8 is replaced by U+FFFD and
counted. Memory holds a few windows, however long the text is.
"""

import hashlib
import os
import re
import select
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from septuagint.data.archives import read_text
from septuagint.errors import DataError

# Enough to find sentences of similar length among, and little enough to hold. The first windows are smaller, so that
# the first lines of a long text are seen soon.
WINDOW_LINES = 4096
FIRST_WINDOW_LINES = 256
WINDOW_BYTES = 1 << 20
_READ_BYTES = 1 << 16
# A program that writes into our pipe has paused when it has said nothing for so long: what it said is translated.
_PAUSE_SECONDS = 0.05
# Text has hardly any control characters; programs and pictures have many. A short text may have what it likes.
_SAMPLE_BYTES = 1 << 16
_FEWEST_BYTES = 256
_MAX_CONTROL_SHARE = 0.05
_CONTROL = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextLines:
    """A whole text."""

    lines: list[str]
    num_damaged: int  # lines that were not UTF-8


@dataclass(kw_only=True, slots=True)
class TextStream:
    """Where text comes from: a file, or standard input for None. Counts what it reads."""

    path: Path | None
    num_damaged: int = field(default=0, init=False)
    """Lines that were not UTF-8."""

    def windows(self) -> Iterator[list[str]]:
        """Lines in windows; an empty window when standard input has nothing more for now."""
        lines: list[bytes] = []
        num_bytes, rest, is_first, most_lines = 0, bytearray(), True, FIRST_WINDOW_LINES
        for chunk in _read_input() if self.path is None else read_text(self.path, hashlib.sha256()):
            if is_first and chunk:
                _check_is_text(chunk[:_SAMPLE_BYTES], self.path)
                is_first = False
            first, *others = chunk.split(b"\n")
            rest += first
            for line in others:
                lines.append(bytes(rest))
                num_bytes += len(rest)
                rest = bytearray(line)
                if len(lines) >= most_lines or num_bytes >= WINDOW_BYTES:
                    yield self._decode(lines)
                    lines, num_bytes, most_lines = [], 0, min(2 * most_lines, WINDOW_LINES)
            if not chunk:
                if lines:
                    yield self._decode(lines)
                    lines, num_bytes = [], 0
                yield []
        if rest:
            lines.append(bytes(rest))
        if lines:
            yield self._decode(lines)

    def _decode(self, lines: list[bytes]) -> list[str]:
        decoded = []
        for line in lines:
            try:
                decoded.append(line.decode())
            except UnicodeDecodeError:
                decoded.append(line.decode(errors="replace"))
                self.num_damaged += 1
        return decoded


def read_lines(path: Path) -> TextLines:
    """All lines of a file at once."""
    stream = TextStream(path=path)
    lines = [line for window in stream.windows() for line in window]
    return TextLines(lines=lines, num_damaged=stream.num_damaged)


def count_lines(path: Path) -> int:
    """As many as `TextStream` will find."""
    number, last = 0, b"\n"
    for chunk in read_text(path, hashlib.sha256()):
        number += chunk.count(b"\n")
        last = chunk[-1:]
    return number + (last != b"\n")


def _read_input() -> Iterator[bytes]:
    """Standard input as it comes; nothing where it pauses."""
    descriptor = 0
    has_more = True
    while True:
        try:
            if has_more and not select.select([descriptor], [], [], _PAUSE_SECONDS)[0]:
                has_more = False
                yield b""
            chunk = os.read(descriptor, _READ_BYTES)
        except OSError as error:
            raise DataError(f"standard input cannot be read: {error.strerror}") from None
        if not chunk:
            return
        has_more = True
        yield chunk


def _check_is_text(sample: bytes, path: Path | None) -> None:
    name = path or "standard input"
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{name}: this is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8")
    num_control = len(_CONTROL.findall(sample))
    if len(sample) >= _FEWEST_BYTES and num_control > _MAX_CONTROL_SHARE * len(sample):
        raise DataError(
            f"{name}: not text: {num_control:,} of its first {len(sample):,} bytes are control characters; "
            "text is UTF-8, one sentence a line"
        )
