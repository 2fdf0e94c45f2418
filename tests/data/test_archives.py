"""Archives made by the real programs, as corpora come from the world."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from septuagint.data.archives import read_text
from septuagint.errors import DataError
from tests.conftest import need_tool

TEXT = "".join(f"line {number} mit Umlauten äöü und 日本語\n" for number in range(50_000)).encode()


def read(path: Path) -> bytes:
    return b"".join(read_text(path, hashlib.sha256()))


@pytest.mark.parametrize(
    "command",
    [
        ["gzip", "-c"],
        ["bzip2", "-c"],
        ["xz", "-c", "-T2", "--block-size=100KiB"],
        ["xz", "-c", "--check=sha256"],
        ["zstd", "-q", "-c"],
        ["zstd", "-q", "-c", "-19", "--long=24"],
    ],
    ids=" ".join,
)
def test_what_a_program_packs_is_read_and_a_cut_is_noticed(tmp_path, command):
    need_tool(command[0])
    path = tmp_path / "text"
    packed = subprocess.run(command, input=TEXT, capture_output=True, check=True).stdout
    path.write_bytes(packed)
    assert read(path) == TEXT
    path.write_bytes(packed + packed)
    assert read(path) == TEXT + TEXT
    for num_bytes in (len(packed) - 1, len(packed) // 2, 20):
        path.write_bytes(packed[:num_bytes])
        with pytest.raises(DataError, match=rf"damaged \w+ archive, at byte {num_bytes:,} of {num_bytes:,}"):
            read(path)
