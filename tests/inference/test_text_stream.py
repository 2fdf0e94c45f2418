"""Text is read as lines that only a line feed ends, from files and from pipes, and what is no text is told."""

import bz2
import gzip
import lzma
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from septuagint.errors import DataError
from septuagint.inference import text_stream
from septuagint.inference.text_stream import TextStream, count_lines, read_lines
from tests.inference.conftest import septuagint

MODEST = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
BYTES = st.lists(
    st.sampled_from([b"\n", b"\r", b"a", b"\x00", b"\xc3\xa9", b"\xff", b"\xe2\x80\xa8"]) | st.binary()
).map(b"".join)
MAGIC = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "text"


def lines_of(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    assert count_lines(path) == len(read_lines(path).lines)
    return read_lines(path).lines


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_files_are_read_plain_or_compressed_whatever_their_name(file, pack):
    assert lines_of(file, pack("eins\nzwei äöü\n\ndrei\n".encode())) == ["eins", "zwei äöü", "", "drei"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\n", ["a", ""]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b" \n", [" "]),
    ],
)
def test_the_last_line_needs_no_line_feed(file, content, lines):
    assert lines_of(file, content) == lines


def test_a_carriage_return_before_the_line_feed_makes_no_line(file):
    assert [line.strip() for line in lines_of(file, b"a\r\nb\r\n\r\nc")] == ["a", "b", "", "c"]


@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_a_line_feed_ends_a_line(file, mark):
    assert lines_of(file, f"a{mark}b\nc".encode()) == [f"a{mark}b", "c"]


@MODEST
@given(content=BYTES, num_lines=st.integers(1, 4), num_bytes=st.integers(1, 9))
def test_lines_are_counted_as_they_are_read_and_windows_lose_none(file, content, num_lines, num_bytes):
    assume(not content.startswith(MAGIC))
    assume(len(content) < 256)  # a longer one may be no text
    file.write_bytes(content)
    expected = content.split(b"\n")[: None if content and not content.endswith(b"\n") else -1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_stream, "WINDOW_LINES", num_lines)
        patch.setattr(text_stream, "FIRST_WINDOW_LINES", 1)
        patch.setattr(text_stream, "WINDOW_BYTES", num_bytes)
        stream = TextStream(path=file)
        windows = list(stream.windows())
    assert [line for window in windows for line in window] == [line.decode(errors="replace") for line in expected]
    assert all(0 < len(window) <= num_lines for window in windows)
    assert count_lines(file) == len(expected)


def test_the_first_windows_are_small_so_that_the_first_lines_come_soon(file):
    file.write_bytes(b"x\n" * 20_000)
    sizes = [len(window) for window in TextStream(path=file).windows()]
    assert sizes == [256, 512, 1024, 2048, 4096, 4096, 4096, 3872]


def test_lines_that_reach_over_many_chunks_are_put_together(file):
    lines = ["x" * 3_000_000, "", "y" * 2_500_000, "z"]
    assert lines_of(file, "\n".join(lines).encode()) == lines


def test_what_is_not_utf_8_is_replaced_and_counted(file):
    file.write_bytes(b"gut\nsch\xf6n\n\xff\xff\n\xc3\xa4\nhalf \xe2\x82")
    found = read_lines(file)
    assert found.lines == ["gut", "sch\ufffdn", "\ufffd\ufffd", "ä", "half \ufffd"]
    assert found.num_damaged == 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf_16_is_refused_with_the_way_out(file, encoding):
    file.write_bytes(("" if encoding == "utf-16" else "\ufeff").encode(encoding) + "ein Satz\n".encode(encoding))
    with pytest.raises(DataError, match=r"this is UTF-16.*iconv") as caught:
        read_lines(file)
    assert str(file) in str(caught.value)


def test_a_program_is_no_text(file):
    file.write_bytes(Path(sys.executable).read_bytes()[:100_000])
    with pytest.raises(DataError, match=r"not text: [\d,]+ of its first [\d,]+ bytes are control characters") as caught:
        read_lines(file)
    assert str(file) in str(caught.value)


def test_a_short_text_may_have_control_characters(file):
    assert lines_of(file, b"\x00\x01\x02\x00\n\x00\n") == ["\x00\x01\x02\x00", "\x00"]


def test_a_long_text_may_have_a_few(file):
    content = b"a sentence\n" * 100 + b"\x00\x07\n"
    assert len(lines_of(file, content)) == 101


def test_what_cannot_be_read_is_named(file, tmp_path):
    for path, problem in ((file, "no such file"), (tmp_path, "is a folder")):
        with pytest.raises(DataError, match=problem) as caught:
            read_lines(path)
        assert str(path) in str(caught.value)
    file.write_bytes(gzip.compress(b"text\n" * 1000)[:-20])
    with pytest.raises(DataError, match="damaged gz archive"):
        read_lines(file)


class Pipe:
    """`septuagint translate` that reads what we write, and whose answers come line by line."""

    def __init__(self, model: Path) -> None:
        command = [sys.executable, "-m", "septuagint.cli", "translate", str(model), "--threads", "1", "--quiet"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def write(self, content: bytes) -> None:
        self.stdin.write(content)
        self.stdin.flush()

    def read(self, num_lines: int, timeout: float = 30) -> list[bytes]:
        content = b""
        deadline = time.monotonic() + timeout
        while content.count(b"\n") < num_lines:
            assert select.select([self.stdout], [], [], deadline - time.monotonic())[0], f"only {content!r} came"
            chunk = os.read(self.stdout.fileno(), 1 << 16)
            assert chunk, self.process.communicate()[1]
            content += chunk
        return content.splitlines()

    def has_more(self, seconds: float) -> bool:
        return bool(select.select([self.stdout], [], [], seconds)[0])


def test_a_pipe_that_pauses_gets_what_it_has_said_so_far_translated(artifact_folder):
    pipe = Pipe(artifact_folder)
    pipe.write(b"red dog two\nblue cat one\nthree")
    first = pipe.read(2)
    assert len(first) == 2
    assert not pipe.has_more(0.3)  # a line without its end may go on
    pipe.write(b" bird\n")
    third = pipe.read(1)
    pipe.write(b"sun tree")
    output, errors = pipe.process.communicate(timeout=30)
    assert pipe.process.returncode == 0, errors
    together = septuagint(
        "translate", artifact_folder, text=b"red dog two\nblue cat one\nthree bird\nsun tree\n"
    ).stdout.splitlines()
    assert [*first, *third, *output.splitlines()] == together


def test_a_standard_input_that_cannot_be_read_is_told(artifact_folder):
    command = [sys.executable, "-m", "septuagint.cli", "translate", str(artifact_folder), "--quiet"]
    with Path(os.devnull).open("wb") as write_only:
        result = subprocess.run(command, stdin=write_only, stderr=subprocess.PIPE, timeout=30, check=False)
    assert result.returncode == 2
    assert result.stderr == b"error: standard input cannot be read: Bad file descriptor\n"


def test_utf_16_and_programs_are_refused_from_a_pipe_too(artifact_folder):
    for text, problem in (("ein Satz\n".encode("utf-16"), b"this is UTF-16"), (bytes(range(8)) * 100, b"not text")):
        result = septuagint("translate", artifact_folder, "--quiet", text=text)
        assert result.returncode == 2
        assert result.stderr.startswith(b"error: standard input: " + problem)
        assert result.stdout == b""
