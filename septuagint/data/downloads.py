"""Files of text from the web, in a cache: fetched once, taken up again where a download was cut, told by SHA-256.

downloads/<hash of the address>-<name>   a file as it was served; the .json beside it makes it valid (see `kept`)
… .part, … .part.json                    what has arrived of it, and what tells whether a server can go on with it
… .lock                                  held by the process that downloads
"""

import contextlib
import datetime
import email.utils
import hashlib
import itertools
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException, HTTPResponse, responses
from pathlib import Path
from urllib.error import URLError
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, UnknownHandler

from septuagint import __version__
from septuagint.data.addresses import BY_HAND, MIRROR, base_name, first_address, place, redirected
from septuagint.data.files import fsync_folder, hash_bytes, locked, read_object, write_json
from septuagint.data.kept import forget, keep, kept
from septuagint.errors import DataError, UserError, writing_to
from septuagint.progress import ProgressReport

_PIECE_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60.0
_WAITS_SECONDS = (1.0, 2.0, 4.0, 8.0)  # between tries in a row that bring nothing; one more, and we give up
_MAX_WAIT_SECONDS = 60.0
_LOCK_PATIENCE_SECONDS = 3600.0
_MAX_REDIRECTS = 10
_MAX_REASON = 200

_CHECK_NETWORK = f"check the address and the network, or set {MIRROR} to a server that has the file"
_CHECK_CERTIFICATES = "check the clock and the certificates of this computer (SSL_CERT_FILE names others)"
# Bytes are kept as they come: many a server calls a .gz a text in this encoding, and readers see what a file is.
_READABLE_ENCODINGS = ("", "identity", "gzip", "x-gzip", "zstd")


@dataclass(frozen=True, kw_only=True, slots=True)
class WebFile:
    """A file that a web server has. `sha256` is of the file as it is served; None where it is not known."""

    url: str
    sha256: str | None = None
    is_listed: bool = True  # by its address, so that it can be pinned there


def cache_folder() -> Path:
    """Where this user's downloads are kept."""
    own, base = os.environ.get("SEPTUAGINT_CACHE"), Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        if own:
            return Path(own).expanduser()
        return (base if base.is_absolute() else Path.home() / ".cache") / "septuagint"
    except RuntimeError as error:
        raise DataError(f"there is no folder for downloads ({error}); set SEPTUAGINT_CACHE to one") from None


def fetch(file: WebFile, cache: Path, report: ProgressReport, *, is_trusted: bool = True) -> Path:
    """The file on disk. A cached one with the SHA-256 that is wanted is not asked for again.

    A cached one with another SHA-256 is replaced, but not before the new one is whole and right. Not `is_trusted`:
    a cached one is read again, whether it was touched or not.
    """
    if file.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", file.sha256):
        raise DataError(f"{file.url}: a SHA-256 is 64 digits of 0-9 and a-f, and not {file.sha256!r}")
    name = base_name(file.url)
    path = cache / "downloads" / f"{hash_bytes(file.url.encode())[:16]}-{name}"
    with writing_to(cache):
        if not kept(path, sha256=file.sha256, is_trusted=is_trusted):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _only_downloader(path, file.url, report):
                # Whoever held the lock may have brought it.
                if not kept(path, sha256=file.sha256, is_trusted=is_trusted):
                    _download(path, file, report)
    return path


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


@contextlib.contextmanager
def _only_downloader(path: Path, url: str, report: ProgressReport) -> Iterator[None]:
    """Holds the lock of one file. Whoever has to wait for it is told."""
    lock = _beside(path, ".lock")
    refusal = f"{url}: another process is downloading this file ({{holder}}); wait until it has finished, or stop it"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(lock, refusal))
        except UserError:
            report.say(f"{url}: waiting for another process that is downloading this file")
            stack.enter_context(locked(lock, refusal, _LOCK_PATIENCE_SECONDS))
        yield


def _download(path: Path, file: WebFile, report: ProgressReport) -> None:
    if path.is_file() and not kept(path, is_trusted=False):
        report.warn(f"{path}: not as it was when it was downloaded; downloading it again")
    with contextlib.closing(_Part(path, file)) as part:
        _transfer(part, report)
        if part.is_patched and not part.is_right:
            report.say(f"{file.url}: the pieces of several tries do not make the file; downloading it in one")
            part.begin(validator=None, total=None)
            _transfer(part, report)
        if not part.is_right:
            part.remove()
            raise DataError(
                f"{file.url}: SHA-256 is {part.sha256}, but {file.sha256} was asked for; the file there has changed, "
                "or the pin is wrong: ask the publisher which it should be, and pin that"
            )
        part.sync()
    # Whoever is killed before the new record is there downloads again, but never takes this file for the one before.
    forget(path)
    _beside(path, ".part").replace(path)
    keep(path, sha256=part.sha256, url=file.url)
    _beside(path, ".part.json").unlink(missing_ok=True)
    fsync_folder(path.parent)
    if file.sha256 is None and file.is_listed:
        report.say(f"{file.url}: SHA-256 is {part.sha256}; pin it, and everyone gets this very file")


class _Part:
    """What has arrived of a file, its hash, and what tells whether a server can go on with it.

    It outlives the process. The .part.json is written while the part is empty, so it never speaks of other bytes.
    """

    def __init__(self, path: Path, file: WebFile) -> None:
        self.url = file.url
        self.pin = file.sha256
        self._path, self._record_path = _beside(path, ".part"), _beside(path, ".part.json")
        record = read_object(self._record_path)
        self._validator = _usable(record.get("validator"))
        self.total: int | None = total if isinstance(total := record.get("total"), int) else None
        self._once_told: int | None = None  # the last total that any answer told
        self._file = self._path.open("a+b")
        self._file.seek(0)
        self._digest = hashlib.file_digest(self._file, "sha256")
        self.num_bytes = self._file.tell()
        self.is_whole = self.total == self.num_bytes or self.pin == self.sha256
        self.is_patched = self.is_whole  # whether more than one answer, or an earlier call, brought its bytes

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def is_right(self) -> bool:
        return self.pin in (None, self.sha256)

    def range_headers(self) -> dict[str, str]:
        """Asks for the rest alone, where something can show that it belongs to the same file."""
        is_provable = self._validator is not None or self.pin is not None
        if not is_provable or self.num_bytes == 0:
            return {}
        condition = {} if self._validator is None else {"If-Range": self._validator}
        return {"Range": f"bytes={self.num_bytes}-", **condition}

    def try_to_go_on(self, headers: Message) -> bool:
        """Takes an answer to `range_headers`. False where it does not bring the bytes that come next."""
        start, total = _content_range(headers)
        is_other_size = None not in (total, self.total) and total != self.total
        is_other_state = self._validator is not None and _validator(headers) not in (None, self._validator)
        if start != self.num_bytes or is_other_size or is_other_state:
            return False
        self.total = self._once_told = self.total if total is None else total
        self.is_patched = True
        return True

    def begin(self, *, validator: str | None, total: int | None) -> None:
        """Forgets the bytes that are there. `total` is None where the server does not tell."""
        self._file.truncate(0)
        self._digest = hashlib.sha256()
        self.num_bytes = 0
        self.is_whole = self.is_patched = False
        self._validator, self.total = validator, total
        self._once_told = self._once_told if total is None else total
        write_json(self._record_path, {"url": self.url, "validator": validator, "total": total})

    @property
    def expected_bytes(self) -> int | None:
        """How long it should be: as the server says now, or where it does not, as it said before."""
        return self._once_told if self.total is None else self.total

    def write(self, piece: bytes) -> None:
        self._file.write(piece)
        self._file.flush()  # whoever is killed now leaves it to the next
        self._digest.update(piece)
        self.num_bytes += len(piece)

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        self._path.unlink()
        self._record_path.unlink(missing_ok=True)

    def close(self) -> None:
        self._file.close()


class _TryAgainError(Exception):
    """A try has failed, and another may not. `wait_seconds` is what the server asks for, where it does."""

    def __init__(self, message: str, *, cure: str = _CHECK_NETWORK, wait_seconds: float | None = None) -> None:
        super().__init__(message)
        self.cure = cure
        self.wait_seconds = wait_seconds


def _transfer(part: _Part, report: ProgressReport) -> None:
    if part.is_whole:
        return
    arrivals = _arrivals(part, report)
    first = next(arrivals, 0)  # the total is known from here on
    with report.stage(f"downloading {base_name(part.url)[:24]}", part.total, "B") as stage:
        num_shown = 0
        for num_bytes in itertools.chain([first], arrivals):
            stage.advance(num_bytes - num_shown)  # less than nothing where the server made us begin anew
            num_shown = num_bytes


def _arrivals(part: _Part, report: ProgressReport) -> Iterator[int]:
    """Tries until the part is whole, and tells after every piece how many bytes are there.

    A try is fruitless unless it gets beyond all before it: a server that cuts every answer short comes to an end, too.
    """
    num_fruitless, most_bytes = 0, part.num_bytes
    while True:
        try:
            for piece in _rest(part):
                part.write(piece)
                yield part.num_bytes
            return
        except _TryAgainError as trouble:
            num_fruitless = 0 if part.num_bytes > most_bytes else num_fruitless + 1
            most_bytes = max(most_bytes, part.num_bytes)
            if num_fruitless > len(_WAITS_SECONDS):
                raise DataError(f"{trouble}, and so {num_fruitless} times in a row; {trouble.cure}") from None
            wait_seconds = trouble.wait_seconds
            if wait_seconds is None:
                wait_seconds = _WAITS_SECONDS[max(num_fruitless - 1, 0)]
            report.say(f"{trouble}; trying again in {wait_seconds:.0f} s")
            time.sleep(wait_seconds)


def _rest(part: _Part) -> Iterator[bytes]:
    """The bytes that the part lacks. It is emptied first where the server does not go on with it."""
    with _ask(part.url, part.range_headers()) as response:
        _check_answer(part, response)
        where = place(part.url, response.url)
        if response.status == 200:
            part.begin(validator=_validator(response.headers), total=_content_length(response))
        elif response.status == 416 and _content_range(response.headers)[1] == part.num_bytes:
            part.is_patched = True
            return
        elif response.status == 416 or not part.try_to_go_on(response.headers):
            part.begin(validator=None, total=None)
            raise _TryAgainError(f"{where}: the server does not go on with what is there", wait_seconds=0)
        try:
            while piece := response.read1(_PIECE_BYTES):
                yield piece
        except (OSError, HTTPException) as error:
            raise _TryAgainError(f"{where}: the connection was lost ({_reason(error)})") from None
        if part.total not in (None, part.num_bytes) or part.num_bytes < (part.expected_bytes or 0):
            raise _TryAgainError(f"{where}: the connection ended at byte {part.num_bytes:,} of {part.expected_bytes:,}")


def _check_answer(part: _Part, response: HTTPResponse) -> None:
    where = place(part.url, response.url)
    said = f"{where}: the server says {response.status} {responses.get(response.status, '')}".rstrip()
    if response.status >= 500 or response.status in (408, 429):
        wait_seconds = _retry_after(response.headers.get("Retry-After", ""))
        raise _TryAgainError(said, cure="try again later", wait_seconds=wait_seconds)
    if response.status not in (200, 206, 416):
        may_want_login = response.status in (401, 403, 407, 451)
        raise DataError(f"{said}; check the address" + (f", or log in and {BY_HAND}" if may_want_login else ""))
    if response.status == 416:
        return
    framing = response.headers.get("Transfer-Encoding", "identity").strip().lower()
    if framing not in ("identity", "chunked"):
        raise DataError(f"{where}: the server sends it in the transfer encoding {framing!a}, unasked; {BY_HAND}")
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _READABLE_ENCODINGS:
        raise DataError(f"{where}: the server sends it in the encoding {encoding!a}, unasked; {BY_HAND}")
    content_type = response.headers.get_content_type()
    if part.pin is None and content_type in ("text/html", "application/xhtml+xml"):
        raise DataError(f"{where}: a web page ({content_type}) came instead of a file; check the address, or {BY_HAND}")


def _ask(url: str, range_headers: dict[str, str]) -> HTTPResponse:
    """What a server answers in the end, be it good or bad."""
    headers = {"User-Agent": f"septuagint/{__version__}", "Accept-Encoding": "identity", **range_headers}
    address = first_address(url, os.environ.get(MIRROR))
    for _ in range(_MAX_REDIRECTS + 1):
        response = _open(url, address, headers)
        location = response.headers.get("Location")
        if location is None or response.status not in (301, 302, 303, 307, 308):
            return response
        response.close()
        address = redirected(url, address, location)
    raise DataError(f"{place(url, address)}: redirected more than {_MAX_REDIRECTS} times; check the address")


def _open(url: str, address: str, headers: dict[str, str]) -> HTTPResponse:
    opener = OpenerDirector()  # of http and https alone: redirects and refusals are our own to judge
    try:
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), UnknownHandler()):
            opener.add_handler(handler)
        response: HTTPResponse = opener.open(Request(address, headers=headers), timeout=_TIMEOUT_SECONDS)
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        message = f"{place(url, address)}: cannot be reached ({_reason(reason)})"
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise DataError(f"{message}; {_CHECK_CERTIFICATES}") from None
        if isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME:
            raise DataError(f"{message}; {_CHECK_NETWORK}") from None
        raise _TryAgainError(message) from None
    return response


def _reason(error: object) -> str:
    """In a few words that a terminal can show: a server may have chosen them, and a proxy's address has passwords."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    text = re.sub(r"\S*@", "…@", "".join(letter if letter.isprintable() else "?" for letter in text))
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…"


def _usable(validator: object) -> str | None:
    is_usable = isinstance(validator, str) and validator != "" and validator.isascii() and validator.isprintable()
    return str(validator) if is_usable else None


def _validator(headers: Message) -> str | None:
    """What tells one state of a file from another: a strong ETag, or else when it was last changed."""
    etag = headers.get("ETag", "")
    return _usable(etag if etag.startswith('"') else headers.get("Last-Modified"))


def _content_range(headers: Message) -> tuple[int | None, int | None]:
    """(first byte, size of the whole file), each None where the header does not say."""
    found = re.fullmatch(r"bytes (?:(\d{1,18})-\d+|\*)/(?:(\d{1,18})|\*)", headers.get("Content-Range", "").strip())
    start, total = found.groups() if found else (None, None)
    return (None if start is None else int(start)), (None if total is None else int(total))


def _content_length(response: HTTPResponse) -> int | None:
    """The size that the server tells. `http.client` knows none where a header stands twice, or says it twice."""
    told = {part.strip() for header in response.headers.get_all("Content-Length", []) for part in header.split(",")}
    if response.length is None and not response.chunked and len(told) == 1:
        (size,) = told
        return int(size) if re.fullmatch(r"\d{1,18}", size, re.ASCII) else None
    return response.length


def _retry_after(value: str) -> float | None:
    """Seconds, given as such or as a date."""
    try:
        if value.strip().isdecimal():
            seconds = float(value)
        else:
            seconds = (email.utils.parsedate_to_datetime(value) - datetime.datetime.now(datetime.UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), _MAX_WAIT_SECONDS)
