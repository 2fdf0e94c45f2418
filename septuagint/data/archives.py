"""Files of text, plain or compressed, as streams of bytes: any archive, in bounded memory, with damage named."""

import bz2
import difflib
import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from septuagint.errors import DataError

_RAW_BYTES = {"plain": 1 << 20, "gz": 1 << 16, "bz2": 1 << 16, "xz": 1 << 16, "zst": 1 << 12}
# Compressed text can expand a thousandfold, and memory must not follow it: where a decompressor cannot bound what it
# gives back, it is fed in small bites.
_BITE_BYTES = {"gz": 1 << 13, "bz2": 1 << 16, "xz": 1 << 16, "zst": 1 << 8}
_TEXT_BYTES = 1 << 22
_BEGINNING_BYTES = 512

# What an archive begins with. Text may begin with "BZh" too, but does not go on as a bzip2 archive does.
_MAGIC = {
    "gz": re.compile(rb"\x1f\x8b"),
    "bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zst": re.compile(rb"\x28\xb5\x2f\xfd"),
}


def read_text(path: Path, digest: Any) -> Iterator[bytes]:
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
            kind = _compression(file.read(10))
            file.seek(0)
            pieces = raw_pieces(file)
            for text in _with_long_beginning(pieces if kind == "plain" else _decompress(kind, pieces)):
                if num_text_bytes == 0:
                    _check_beginning(path, text)
                num_text_bytes += len(text)
                if text:
                    yield text
    except FileNotFoundError:
        raise DataError(f"{path}: no such file{_nearest_file(path)}") from None
    except NotADirectoryError:
        raise DataError(f"{path}: no such file, as there is a file where a folder should be") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, not a file of text") from None
    except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError) as error:
        if kind == "plain":
            raise DataError(f"{path}: cannot be read at byte {position:,}: {error}") from None
        raise DataError(
            f"{path}: damaged {kind} archive, at byte {position:,} of {path.stat().st_size:,} and after "
            f"{num_text_bytes:,} bytes of text ({error}); fetch or make the file again"
        ) from None


def _with_long_beginning(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes; the first piece is long enough to see what they are, if there are so many."""
    beginning = b""
    for piece in pieces:
        beginning += piece
        if len(beginning) >= _BEGINNING_BYTES:
            break
    yield beginning
    yield from pieces


def _check_beginning(path: Path, text: bytes) -> None:
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: this is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8")
    box = "tar" if text[257:262] == b"ustar" else "zip" if text.startswith(b"PK\x03\x04") else None
    if box is not None:
        raise DataError(
            f"{path}: this is a {box} archive; unpack it, or if it has an address, name the file in it: #member=…"
        )


def _compression(first_bytes: bytes) -> str:
    """Told by the content, not by the name: a .gz that a browser unpacked on the way is plain text."""
    return next((kind for kind, magic in _MAGIC.items() if magic.match(first_bytes)), "plain")


def _decompress(kind: str, raw_pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompresses piece by piece, also where a file is several archives end to end, and notices a cut one."""
    stream: Any = None  # zlib, bz2, lzma and zstandard share these names, but no type
    has_bound = kind in ("bz2", "xz")
    for raw in raw_pieces:
        while raw:
            if stream is None:
                if kind != "bz2" and not (raw := raw.lstrip(b"\0")):
                    break  # padding behind an archive
                stream = _new_stream(kind)
            bite, raw = raw[: _BITE_BYTES[kind]], raw[_BITE_BYTES[kind] :]
            if has_bound:
                yield stream.decompress(bite, _TEXT_BYTES)
                while not stream.eof and not stream.needs_input:
                    yield stream.decompress(b"", _TEXT_BYTES)
            else:
                yield stream.decompress(bite)
            if stream.eof:
                raw = stream.unused_data + raw
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


def _nearest_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except FileNotFoundError:
        return (
            f" (nor is there a folder {path.parent}); relative paths begin at the configuration's folder, or where "
            "--set data.root=DIR says"
        )
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, [name for name in names if name != path.name], n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""
