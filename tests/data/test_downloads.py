"""A file from the web is fetched once and is the right one, however often the way to it breaks."""

import contextlib
import email.utils
import functools
import gzip
import hashlib
import itertools
import json
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from septuagint.data import downloads
from septuagint.data.downloads import WebFile, cache_folder, fetch
from septuagint.data.files import signature
from septuagint.errors import DataError, StorageError, UserError
from tests.conftest import need_tool
from tests.data.conftest import Notes

CONTENT = random.Random(1).randbytes(200_000)
OTHER = random.Random(2).randbytes(200_000)
NUMBERS = itertools.count()  # for addresses that no other example of a test has
CHILD = """
import signal
import sys
from pathlib import Path
from septuagint.data.downloads import WebFile, fetch
from septuagint.progress import ProgressReport
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit that it is ignored
fetch(WebFile(url=sys.argv[1]), Path(sys.argv[2]), ProgressReport())
"""


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers as the web's plan says, and as a good server does when there is no plan (left)."""

    protocol_version = "HTTP/1.1"
    web: "Web"

    def do_GET(self) -> None:
        self.web.requests.append((self.path, dict(self.headers.items())))
        answer = self.web.plan.pop(0) if self.web.plan else serve
        answer(self)
        self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        pass

    def begin(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def send(self, body: bytes) -> None:
        self.web.num_bytes_sent += len(body)
        with contextlib.suppress(ConnectionError):  # a client may be killed
            self.wfile.write(body)


Answer = Callable[[Handler], None]


class Web:
    """A server of one file, at whatever address it is asked for, and a list of what it was asked."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.validators: dict[str, str] = {"ETag": '"1"'}
        self.has_ranges = True
        self.plan: list[Answer] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.num_bytes_sent = 0
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("WebHandler", (Handler,), {"web": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/corpora/text.en.gz"

    @property
    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for _, headers in self.requests]

    def speak_tls(self, certificate: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def serve(handler: Handler, cut_at: int | None = None, **headers: object) -> None:
    """Sends the file, or the rest of it that is asked for, but nothing from byte `cut_at` of the file on."""
    web = handler.web
    start, status = 0, 200
    condition = handler.headers.get("If-Range")
    if (wanted := handler.headers.get("Range")) and web.has_ranges and condition in (None, *web.validators.values()):
        start, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
        headers = {"Content_Range": f"bytes {start}-{len(web.content) - 1}/{len(web.content)}", **headers}
    if start and start >= len(web.content):
        handler.begin(416, Content_Range=f"bytes */{len(web.content)}", Content_Type="text/html", Content_Length=0)
        return
    handler.begin(status, **{"Content_Length": len(web.content) - start, **web.validators, **headers})
    handler.send(web.content[start:cut_at])


def cut_at(num_bytes: int) -> Answer:
    return functools.partial(serve, cut_at=num_bytes)


def held_at(num_bytes: int) -> Answer:
    """Sends the first bytes, and the rest only when the web is released."""

    def answer(handler: Handler) -> None:
        serve(handler, cut_at=num_bytes - 10)
        time.sleep(0.05)
        handler.send(handler.web.content[num_bytes - 10 : num_bytes])  # a piece too small for any buffer to let it go
        handler.web.released.wait(20)
        handler.send(handler.web.content[num_bytes:])

    return answer


def reset_at(num_bytes: int) -> Answer:
    """The connection does not end but break."""

    def answer(handler: Handler) -> None:
        serve(handler, cut_at=num_bytes)
        time.sleep(0.05)  # what was sent would be lost with it
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        handler.connection.close()

    return answer


def chunked(*chunks: bytes, is_ended: bool = True) -> Answer:
    def answer(handler: Handler) -> None:
        handler.begin(200, Transfer_Encoding="chunked", **handler.web.validators)
        for chunk in chunks:
            handler.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if is_ended:
            handler.send(b"0\r\n\r\n")

    return answer


def says(status: int, **headers: object) -> Answer:
    return lambda handler: handler.begin(status, Content_Length=0, **headers)


def serves_with(**headers: object) -> Answer:
    return functools.partial(serve, **headers)


@pytest.fixture
def new_web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Web]]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "SEPTUAGINT_MIRROR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(downloads, "_WAITS_SECONDS", (0.0,) * 4)
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(contextlib.closing(Web()))


@pytest.fixture
def web(new_web: Callable[[], Web]) -> Web:
    return new_web()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "a cache"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, which are not waited."""
    waits: list[float] = []
    monkeypatch.setattr(downloads, "_WAITS_SECONDS", (1.0, 2.0, 4.0, 8.0))
    monkeypatch.setattr(downloads.time, "sleep", waits.append)
    return waits


def content(file: WebFile, cache: Path, notes: Notes | None = None) -> bytes:
    return fetch(file, cache, notes or Notes()).read_bytes()


def names(cache: Path) -> list[str]:
    """What lies in the cache, without the hash of the address."""
    return sorted(path.name[17:] for path in (cache / "downloads").iterdir())


def leave_part(web: Web, cache: Path, num_bytes: int) -> Path:
    """Does as much of a download, as if it had been killed then. Returns the path of the part."""
    web.plan = [cut_at(num_bytes), says(404)]
    with pytest.raises(DataError, match="404"):
        fetch(WebFile(url=web.url), cache, Notes())
    web.requests.clear()
    (part,) = (cache / "downloads").glob("*.part")
    assert part.stat().st_size == num_bytes
    return part


class TestCache:
    def test_a_file_is_downloaded_once(self, web, cache, notes):
        path = fetch(WebFile(url=web.url), cache, notes)
        assert path.read_bytes() == CONTENT
        assert path.parent == cache / "downloads"
        assert path.name == f"{sha256_of(web.url.encode())[:16]}-text.en.gz"
        assert json.loads(path.with_name(path.name + ".json").read_bytes()) == {
            "url": web.url,
            "sha256": sha256_of(CONTENT),
            "num_bytes": len(CONTENT),
            "signature": signature(path),
        }
        assert names(cache) == ["text.en.gz", "text.en.gz.json", "text.en.gz.lock"]
        for pin in (None, sha256_of(CONTENT)):
            assert fetch(WebFile(url=web.url, sha256=pin), cache, notes) == path
        assert len(web.requests) == 1

    def test_a_cached_file_needs_neither_server_nor_mirror(self, web, cache, monkeypatch):
        fetch(WebFile(url=web.url), cache, Notes())
        web.close()
        monkeypatch.setenv("SEPTUAGINT_MIRROR", "nonsense")
        assert content(WebFile(url=web.url), cache) == CONTENT

    def test_a_file_whose_hash_is_not_known_is_told_by_it(self, web, cache, notes):
        fetch(WebFile(url=web.url), cache, notes)
        assert f"{web.url}: SHA-256 is {sha256_of(CONTENT)}; pin it" in notes.messages[-1]
        notes.messages.clear()
        web.content = OTHER
        fetch(WebFile(url=f"{web.url}?2", sha256=sha256_of(OTHER)), cache, notes)
        assert not [message for message in notes.messages if "SHA-256" in message]

    def test_addresses_that_end_alike_are_different_files(self, web, cache):
        assert content(WebFile(url=f"{web.url}?a"), cache) == CONTENT
        web.content = OTHER
        assert content(WebFile(url=f"{web.url}?b"), cache) == OTHER
        assert content(WebFile(url=f"{web.url}?a"), cache) == CONTENT

    def test_a_changed_pin_brings_the_new_file(self, web, cache):
        fetch(WebFile(url=web.url), cache, Notes())
        web.content = OTHER
        web.validators = {"ETag": '"2"'}
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert content(WebFile(url=web.url, sha256=sha256_of(OTHER)), cache) == OTHER
        assert content(WebFile(url=web.url), cache) == OTHER
        assert len(web.requests) == 2

    def test_a_wrong_pin_leaves_the_cached_file_alone(self, web, cache):
        before = fetch(WebFile(url=web.url), cache, Notes())
        with pytest.raises(DataError) as caught:
            fetch(WebFile(url=web.url, sha256="0" * 64), cache, Notes())
        assert str(caught.value).startswith(
            f"{web.url}: SHA-256 is {sha256_of(CONTENT)}, but {'0' * 64} was asked for; "
            "the file there has changed, or the pin is wrong: "
        )
        assert before.read_bytes() == CONTENT
        assert names(cache) == ["text.en.gz", "text.en.gz.json", "text.en.gz.lock"]
        assert content(WebFile(url=web.url, sha256=sha256_of(CONTENT)), cache) == CONTENT
        assert len(web.requests) == 2

    def test_a_cached_file_of_another_size_is_downloaded_again_with_a_warning(self, web, cache, notes):
        path = fetch(WebFile(url=web.url), cache, Notes())
        path.write_bytes(CONTENT[:-1])
        assert content(WebFile(url=web.url), cache, notes) == CONTENT
        assert notes.messages[0] == f"{path}: not as it was when it was downloaded; downloading it again"

    @pytest.mark.parametrize("pin", [None, sha256_of(CONTENT)])
    def test_a_cached_file_that_was_changed_is_downloaded_again(self, web, cache, notes, pin):
        path = fetch(WebFile(url=web.url, sha256=pin), cache, Notes())
        path.write_bytes(CONTENT[::-1])  # as long as before
        assert content(WebFile(url=web.url, sha256=pin), cache, notes) == CONTENT
        assert notes.messages[0] == f"{path}: not as it was when it was downloaded; downloading it again"

    def test_a_cached_file_that_was_moved_is_read_once_and_not_downloaded(self, web, cache, tmp_path):
        path = fetch(WebFile(url=web.url), cache, Notes())
        shutil.copytree(cache, tmp_path / "moved")
        record = tmp_path / "moved" / "downloads" / f"{path.name}.json"
        assert content(WebFile(url=web.url), tmp_path / "moved") == CONTENT
        assert json.loads(record.read_bytes())["signature"] == signature(tmp_path / "moved" / "downloads" / path.name)
        assert len(web.requests) == 1

    def test_without_trust_a_cached_file_is_read_again(self, web, cache):
        path = fetch(WebFile(url=web.url), cache, Notes())
        path.write_bytes(CONTENT[::-1])
        record = path.with_name(path.name + ".json")
        told = json.loads(record.read_bytes())
        # A disk that changed a bit leaves no trace.
        record.write_text(json.dumps(told | {"signature": signature(path)}))
        assert fetch(WebFile(url=web.url), cache, Notes()).read_bytes() == CONTENT[::-1]
        assert fetch(WebFile(url=web.url), cache, Notes(), is_trusted=False).read_bytes() == CONTENT

    @pytest.mark.parametrize("record", [b"[]", b"null", b"{", b"\xff", b"{}", b'{"num_bytes": "many"}'])
    def test_a_file_without_a_good_record_is_downloaded_again(self, web, cache, record):
        path = fetch(WebFile(url=web.url), cache, Notes())
        path.with_name(path.name + ".json").write_bytes(record)
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert len(web.requests) == 2

    def test_a_cache_that_may_only_be_read_serves_what_it_has(self, web, small_disk):
        disk = small_disk("size=2m")
        fetch(WebFile(url=web.url), disk, Notes())
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert content(WebFile(url=web.url), disk) == CONTENT
        with pytest.raises(StorageError, match=r"Read-only file system.* choose a folder that you may write to"):
            fetch(WebFile(url=f"{web.url}?2"), disk, Notes())

    def test_a_full_disk_is_told_and_the_download_goes_on_when_there_is_room(self, web, small_disk):
        disk = small_disk("size=300k")
        (disk / "filler").write_bytes(bytes(150_000))
        with pytest.raises(StorageError, match=r"No space left on device.*free some space"):
            fetch(WebFile(url=web.url), disk, Notes())
        (disk / "filler").unlink()
        assert content(WebFile(url=web.url), disk) == CONTENT
        assert web.ranges[0] is None
        assert int(str(web.ranges[1]).strip("bytes=-")) > 50_000
        assert len(web.requests) == 2

    def test_a_file_where_the_cache_should_be_is_told(self, web, tmp_path):
        (tmp_path / "cache").write_bytes(b"")
        with pytest.raises(StorageError, match="a file stands where a folder should be"):
            fetch(WebFile(url=web.url), tmp_path / "cache", Notes())

    @pytest.mark.parametrize("ending", ["", ".json", ".part", ".part.json", ".lock"])
    def test_a_folder_in_the_place_of_a_file_is_told(self, web, cache, ending):
        place = cache / "downloads" / f"{sha256_of(web.url.encode())[:16]}-text.en.gz{ending}"
        place.mkdir(parents=True)
        with pytest.raises(StorageError, match="Is a directory"):
            fetch(WebFile(url=web.url), cache, Notes())
        place.rmdir()
        assert content(WebFile(url=web.url), cache) == CONTENT
        if ending in ("", ".json"):
            assert len(web.requests) == 1  # it had come already

    def test_an_empty_file_is_a_file(self, web, cache):
        web.content = b""
        assert content(WebFile(url=web.url), cache) == b""
        assert content(WebFile(url=web.url), cache) == b""
        assert len(web.requests) == 1


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("SEPTUAGINT_CACHE", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "septuagint"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, and so to be ignored")
    assert cache_folder() == tmp_path / ".cache" / "septuagint"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/septuagint")
    monkeypatch.setenv("SEPTUAGINT_CACHE", "~/own")
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("SEPTUAGINT_CACHE", "~nobody-of-this-name/own")
    with pytest.raises(DataError, match="set SEPTUAGINT_CACHE"):
        cache_folder()


@pytest.mark.parametrize(
    ("ending", "name"),
    [
        ("/a/b.tsv.gz", "b.tsv.gz"),
        ("/a/b.tsv.gz?x=/y#z", "b.tsv.gz"),
        ("/a/", "a"),
        ("", "file"),
        ("/?download=1", "file"),
        ("/a%2F..%2Fb%00%0A.gz", "a_.._b__.gz"),
        ("/..", ".."),
        ("/de en.txt", "de_en.txt"),
        ("/κείμενο.txt", "κείμενο.txt"),
        ("/%CE%BA.txt", "κ.txt"),
        (f"/{'x' * 500}.tar.gz", f"{'x' * 93}.tar.gz"),
        (f"/{'語' * 500}.gz", f"{'語' * 32}.gz"),
    ],
)
def test_a_cached_file_has_a_name_that_people_know_again(web, cache, ending, name):
    path = fetch(WebFile(url=f"http://{web.host}{ending}"), cache, Notes())
    assert path.parent == cache / "downloads"
    assert path.name[17:] == name


class TestResuming:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(cuts=st.lists(st.integers(0, len(CONTENT)), max_size=4), is_pinned=st.booleans())
    def test_a_download_cut_anywhere_brings_every_byte_once(self, web, cache, cuts, is_pinned):
        web.plan = [cut_at(position) for position in cuts]
        web.num_bytes_sent = 0
        pin = sha256_of(CONTENT) if is_pinned else None
        assert content(WebFile(url=f"http://{web.host}/{next(NUMBERS)}", sha256=pin), cache) == CONTENT
        assert web.num_bytes_sent == len(CONTENT)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
    def test_a_process_that_is_stopped_leaves_what_the_next_one_goes_on_with(self, web, cache, number):
        web.plan = [held_at(150_000)]
        with subprocess.Popen([sys.executable, "-c", CHILD, web.url, str(cache)], stderr=subprocess.DEVNULL) as child:
            deadline = time.monotonic() + 20
            while not any(part.stat().st_size == 150_000 for part in cache.glob("downloads/*.part")):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            child.send_signal(number)
        assert child.returncode != 0
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges == [None, "bytes=150000-"]
        assert web.requests[1][1]["If-Range"] == '"1"'
        assert names(cache) == ["text.en.gz", "text.en.gz.json", "text.en.gz.lock"]

    def test_a_broken_connection_loses_no_byte_that_came(self, web, cache):
        web.plan = [reset_at(1_000)]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges == [None, "bytes=1000-"]

    def test_bytes_that_are_there_count_as_done(self, web, cache, notes):
        leave_part(web, cache, 150_000)
        fetch(WebFile(url=web.url), cache, notes)
        assert notes.messages[0].startswith("downloading text.en.gz: 200,000 B, ")

    def test_without_ranges_it_begins_anew(self, web, cache):
        leave_part(web, cache, 1_000)
        web.has_ranges = False
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges == ["bytes=1000-"]

    @pytest.mark.parametrize("validators", [{"ETag": '"2"'}, {"Last-Modified": "Mon, 05 Jan 2026 10:00:00 GMT"}, {}])
    def test_another_file_is_not_joined_to_what_is_there(self, web, cache, validators):
        leave_part(web, cache, 1_000)
        web.content, web.validators = OTHER, validators
        assert content(WebFile(url=web.url), cache) == OTHER

    def test_a_server_that_goes_on_with_another_file_is_noticed(self, web, cache):
        leave_part(web, cache, 1_000)
        web.content = OTHER
        web.plan = [serves_with(ETag='"2"')]
        assert content(WebFile(url=web.url), cache) == OTHER
        assert web.ranges == ["bytes=1000-", None]

    @pytest.mark.parametrize(
        "content_range",
        [
            "bytes 999-199999/200000",
            "bytes 1000-199999/200001",
            "bytes */200000",
            "1000-",
            "",
            f"bytes {'9' * 5000}-{'9' * 5000}/{'9' * 5000}",
        ],
    )
    def test_a_rest_that_is_not_what_was_asked_for_is_not_taken(self, web, cache, content_range):
        leave_part(web, cache, 1_000)
        web.plan = [serves_with(Content_Range=content_range)]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges == ["bytes=1000-", None]

    def test_a_rest_of_a_file_of_untold_size_is_taken(self, web, cache):
        leave_part(web, cache, 1_000)
        web.plan = [serves_with(Content_Range="bytes 1000-199999/*")]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges == ["bytes=1000-"]

    def test_a_weak_etag_is_no_proof_but_the_time_of_change_is(self, web, cache):
        web.validators = {"ETag": 'W/"1"', "Last-Modified": "Mon, 05 Jan 2026 10:00:00 GMT"}
        leave_part(web, cache, 1_000)
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.requests[0][1]["If-Range"] == "Mon, 05 Jan 2026 10:00:00 GMT"

    @pytest.mark.parametrize("etag", ['W/"1"', '"\xe4"', ""])
    def test_without_proof_a_part_is_taken_up_only_for_a_known_hash(self, web, cache, etag):
        web.validators = {"ETag": etag} if etag else {}
        leave_part(web, cache, 1_000)
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges == [None]

    def test_a_known_hash_is_proof_enough(self, web, cache):
        web.validators = {}
        leave_part(web, cache, 1_000)
        assert content(WebFile(url=web.url, sha256=sha256_of(CONTENT)), cache) == CONTENT
        assert web.ranges == ["bytes=1000-"]
        assert "If-Range" not in web.requests[0][1]

    def test_pieces_that_do_not_make_the_file_are_replaced_by_the_whole(self, web, cache, notes):
        part = leave_part(web, cache, 1_000)
        part.write_bytes(bytes(1_000))
        assert content(WebFile(url=web.url, sha256=sha256_of(CONTENT)), cache, notes) == CONTENT
        assert web.ranges == ["bytes=1000-", None]
        assert any("the pieces of several tries do not make the file" in message for message in notes.messages)

    def test_a_wrong_hash_after_resuming_is_told_when_the_whole_has_it_too(self, web, cache):
        leave_part(web, cache, 1_000)
        with pytest.raises(DataError, match="the pin is wrong"):
            fetch(WebFile(url=web.url, sha256="0" * 64), cache, Notes())
        assert web.ranges == ["bytes=1000-", None]
        assert names(cache) == ["text.en.gz.lock"]

    def test_a_whole_part_is_not_asked_for_again(self, web, cache):
        leave_part(web, cache, 1_000).write_bytes(CONTENT)
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.requests == []

    def test_a_part_of_the_right_hash_is_not_asked_for_again(self, web, cache):
        part = leave_part(web, cache, 1_000)
        part.write_bytes(CONTENT)
        part.with_name(part.name + ".json").unlink()
        assert content(WebFile(url=web.url, sha256=sha256_of(CONTENT)), cache) == CONTENT
        assert web.requests == []

    @pytest.mark.parametrize(("total", "ranges"), [(200_000, [None]), (None, ["bytes=200000-", None])])
    def test_a_whole_part_of_the_wrong_content_is_replaced(self, web, cache, total, ranges):
        part = leave_part(web, cache, 1_000)
        part.write_bytes(OTHER)
        part.with_name(part.name + ".json").write_text(json.dumps({"validator": '"1"', "total": total}))
        assert content(WebFile(url=web.url, sha256=sha256_of(CONTENT)), cache) == CONTENT
        assert web.ranges == ranges

    def test_a_whole_part_of_untold_size_is_taken_when_the_server_has_no_more(self, web, cache):
        part = leave_part(web, cache, 1_000)
        part.write_bytes(CONTENT)
        part.with_name(part.name + ".json").write_text(json.dumps({"validator": '"1"', "total": None}))
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges == ["bytes=200000-"]

    @pytest.mark.parametrize("record", [{"validator": '"1"', "total": None}, {"validator": '"1"', "total": 200_000}])
    def test_a_part_longer_than_the_file_is_begun_anew(self, web, cache, record):
        part = leave_part(web, cache, 1_000)
        part.write_bytes(CONTENT + b"more")
        part.with_name(part.name + ".json").write_text(json.dumps(record))
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges[-1] is None

    @pytest.mark.parametrize(
        "record",
        [
            b"",
            b"\xff\0",
            b"[]",
            b"{}",
            b'{"validator": 5, "total": "x"}',
            b'{"validator": "a\\nb", "total": 1}',
            b'{"validator": "\\ud800", "total": 1e99}',
            b'{"validator": "", "total": []}',
        ],
    )
    @pytest.mark.parametrize("pin", [None, sha256_of(CONTENT)])
    def test_a_damaged_record_of_a_part_does_no_harm(self, web, cache, record, pin):
        part = leave_part(web, cache, 1_000)
        part.with_name(part.name + ".json").write_bytes(record)
        assert content(WebFile(url=web.url, sha256=pin), cache) == CONTENT
        assert pin is not None or web.ranges == [None]


class TestRetrying:
    def test_a_server_in_trouble_is_asked_again_and_again(self, web, cache, notes, slept):
        web.plan = [says(500), says(503), says(408), says(429)]
        assert content(WebFile(url=web.url), cache, notes) == CONTENT
        assert slept == [1, 2, 4, 8]
        assert notes.messages[:2] == [
            f"{web.url}: the server says 500 Internal Server Error; trying again in 1 s",
            f"{web.url}: the server says 503 Service Unavailable; trying again in 2 s",
        ]

    def test_a_server_that_stays_in_trouble_is_given_up(self, web, cache, slept):
        web.plan = [says(502)] * 9
        with pytest.raises(DataError, match=r"the server says 502 Bad Gateway.* 5 times in a row; try again later"):
            fetch(WebFile(url=web.url), cache, Notes())
        assert (len(web.requests), slept) == (5, [1, 2, 4, 8])

    def test_a_try_that_brings_bytes_starts_the_count_anew(self, web, cache, slept):
        web.plan = [answer for position in range(1, 8) for answer in (cut_at(position * 1000), says(500), says(500))]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert slept == [1, 1, 2] * 7

    def test_a_server_that_always_cuts_at_the_same_byte_is_given_up(self, web, cache, slept):
        web.has_ranges = False
        web.plan = [cut_at(1_000)] * 20
        with pytest.raises(DataError, match=r"the connection ended at byte 1,000 of 200,000, .* 5 times in a row"):
            fetch(WebFile(url=web.url), cache, Notes())
        assert len(web.requests) == 6

    @pytest.mark.parametrize(
        ("value", "wait"),
        [
            ("7", 7),
            ("0", 0),
            ("86400", 60),
            ("9" * 5000, 60),
            ("soon", 1),
            ("-5", 1),
            ("", 1),
            ("²", 1),
            ("Mon, 05 Jan 2026 10:00:00 -0000", 1),
            ("Mon, 05 Jan 2026 10:00:00 +9999999999999999", 1),
        ],
    )
    def test_a_server_may_say_when_to_come_again(self, web, cache, slept, value, wait):
        web.plan = [says(429, Retry_After=value)]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert slept == [wait]

    @pytest.mark.parametrize(("seconds", "least", "most"), [(30, 28, 30), (-30, 0, 0), (900, 60, 60)])
    def test_a_server_may_say_when_to_come_again_by_date(self, web, cache, slept, seconds, least, most):
        web.plan = [says(503, Retry_After=email.utils.formatdate(time.time() + seconds, usegmt=True))]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert least <= slept[0] <= most

    def test_a_silent_server_is_asked_again(self, web, cache, notes, monkeypatch):
        monkeypatch.setattr(downloads, "_TIMEOUT_SECONDS", 0.4)
        web.plan = [lambda handler: handler.web.released.wait(20), held_at(1_000)]
        assert content(WebFile(url=web.url), cache, notes) == CONTENT
        assert web.ranges == [None, None, "bytes=1000-"]
        assert notes.messages[0] == f"{web.url}: cannot be reached (timed out); trying again in 0 s"
        assert notes.messages[1] == f"{web.url}: the connection was lost (timed out); trying again in 0 s"

    def test_a_server_that_hangs_up_is_asked_again(self, web, cache):
        web.plan = [lambda handler: None, lambda handler: handler.send(b"no HTTP\r\n\r\n")]
        assert content(WebFile(url=web.url), cache) == CONTENT

    def test_a_server_that_is_not_there_is_told(self, web, cache):
        web.close()
        with pytest.raises(DataError, match=r"cannot be reached \(Connection refused\).* set SEPTUAGINT_MIRROR"):
            fetch(WebFile(url=web.url), cache, Notes())
        assert names(cache) == ["text.en.gz.lock", "text.en.gz.part"]

    def test_a_server_that_never_goes_on_is_given_up(self, web, cache):
        web.plan = [says(416)] * 9
        with pytest.raises(DataError, match="does not go on"):
            fetch(WebFile(url=web.url), cache, Notes())

    @pytest.mark.parametrize(
        ("status", "message"),
        [
            (404, r"the server says 404 Not Found; check the address"),
            (410, r"the server says 410 Gone; check the address"),
            (400, r"the server says 400 Bad Request; check the address"),
            (401, r"the server says 401 Unauthorized; .*log in and download it by hand"),
            (403, r"the server says 403 Forbidden; .*log in and download it by hand"),
            (204, r"the server says 204 No Content; check the address"),
            (302, r"the server says 302 Found; check the address"),
            (299, r"the server says 299; check the address"),
        ],
    )
    def test_a_refusal_is_told_at_once(self, web, cache, status, message):
        web.plan = [says(status)]
        with pytest.raises(DataError, match=message):
            fetch(WebFile(url=web.url), cache, Notes())
        assert len(web.requests) == 1


class TestAnswers:
    def test_the_server_is_told_who_asks_and_that_nothing_shall_be_packed(self, web, cache):
        fetch(WebFile(url=web.url), cache, Notes())
        path, headers = web.requests[0]
        assert path == "/corpora/text.en.gz"
        assert headers["User-Agent"].startswith("septuagint/")
        assert headers["Accept-Encoding"] == "identity"

    @pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "TEXT/HTML", "application/xhtml+xml"])
    def test_a_web_page_is_no_file_unless_its_hash_is_known(self, web, cache, content_type):
        web.plan = [serves_with(Content_Type=content_type)] * 2
        with pytest.raises(DataError, match=r"a web page .* came instead of a file"):
            fetch(WebFile(url=web.url), cache, Notes())
        assert content(WebFile(url=web.url, sha256=sha256_of(CONTENT)), cache) == CONTENT

    def test_an_archive_stays_what_it_is(self, web, cache):
        web.content = gzip.compress(b"text")
        web.plan = [serves_with(Content_Encoding="gzip", Content_Type="text/plain")]
        assert content(WebFile(url=web.url), cache) == web.content

    def test_an_encoding_that_nobody_could_read_is_refused(self, web, cache):
        web.plan = [serves_with(Content_Encoding="br")]
        with pytest.raises(DataError, match=r"encoding 'br', unasked; download it by hand"):
            fetch(WebFile(url=web.url), cache, Notes())

    def test_a_file_of_untold_size_comes_whole(self, web, cache):
        web.plan = [chunked(CONTENT[:70_000], CONTENT[70_000:])]
        assert content(WebFile(url=web.url), cache) == CONTENT

    def test_a_file_of_untold_size_that_is_cut_is_taken_up(self, web, cache):
        web.plan = [chunked(CONTENT[:70_000], is_ended=False), cut_at(90_000)]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert web.ranges == [None, "bytes=70000-", "bytes=90000-"]

    def test_a_size_that_is_told_twice_counts(self, web, cache, slept):
        def cut(handler: Handler) -> None:
            handler.begin(200, Content_Length=f"{len(CONTENT)}, {len(CONTENT)}")
            handler.send(CONTENT[:1000])

        web.plan = [cut]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert len(web.requests) == 2

    def test_a_file_shorter_than_the_server_said_before_is_not_taken(self, web, cache, slept):
        def without_length(handler: Handler) -> None:
            handler.begin(200)
            handler.send(CONTENT[:2000])

        web.validators = {}
        web.plan = [functools.partial(serve, cut_at=1000), without_length]
        assert content(WebFile(url=web.url), cache) == CONTENT
        web.plan = [functools.partial(serve, cut_at=1000), *[without_length] * 6]
        with pytest.raises(DataError, match=rf"the connection ended at byte 2,000 of {len(CONTENT):,}, and so 5 times"):
            fetch(WebFile(url=f"{web.url}?2"), cache, Notes())

    def test_a_transfer_encoding_that_nobody_asked_for_is_refused(self, web, cache):
        web.plan = [lambda handler: handler.begin(200, Transfer_Encoding="gzip, chunked")]
        with pytest.raises(DataError, match=r"in the transfer encoding 'gzip, chunked', unasked; download it by hand"):
            fetch(WebFile(url=web.url), cache, Notes())

    def test_what_a_server_says_cannot_move_the_cursor_and_is_short(self, web, cache, notes, slept):
        def rave(handler: Handler) -> None:
            handler.wfile.write(b"\x1b[2J\x1b[31m" + b"x" * 3000 + b"\r\n\r\n")

        web.plan = [rave]
        assert content(WebFile(url=web.url), cache, notes) == CONTENT
        assert notes.messages[0].isprintable()
        assert len(notes.messages[0]) < 400

    def test_a_file_that_ends_with_the_connection_is_taken(self, web, cache):
        web.plan = [lambda handler: (handler.begin(200), handler.send(CONTENT))]
        assert content(WebFile(url=web.url), cache) == CONTENT

    def test_a_shown_title_is_short(self, web, cache, notes):
        fetch(WebFile(url=f"http://{web.host}/{'long' * 20}"), cache, notes)
        assert notes.messages[0].startswith(f"downloading {'long' * 6}: 200,000 B, ")


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_a_redirect_is_followed(self, web, cache, status):
        web.plan = [says(status, Location="../other/κ file?q=a b".encode().decode("latin-1"))]
        path = fetch(WebFile(url=web.url), cache, Notes())
        assert path.name.endswith("-text.en.gz")
        assert web.requests[1][0] == "/other/%CE%BA%20file?q=a%20b"

    def test_a_redirect_keeps_asking_for_the_rest(self, web, new_web, cache):
        leave_part(web, cache, 1_000)
        other = new_web()
        web.plan = [says(302, Location=other.url)]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert other.ranges == ["bytes=1000-"]

    def test_ten_redirects_are_followed_and_no_more(self, web, cache):
        web.plan = [says(302, Location=f"/{number}") for number in range(10)]
        assert content(WebFile(url=web.url), cache) == CONTENT
        web.plan = [says(302, Location="/again")] * 99
        with pytest.raises(DataError, match=r"/again\): redirected more than 10 times; check the address"):
            fetch(WebFile(url=f"{web.url}?2"), cache, Notes())
        assert len(web.requests) == 22

    @pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://host/file", "data:,x", "http://["])
    def test_a_redirect_out_of_the_web_is_refused(self, web, cache, location):
        web.plan = [says(302, Location=location)]
        with pytest.raises(DataError, match=r"redirected to .*, which is no http or https address"):
            fetch(WebFile(url=web.url), cache, Notes())

    def test_a_failure_behind_a_redirect_names_both_addresses_and_no_secret(self, web, cache):
        web.plan = [says(302, Location="/other?token=secret"), says(403)]
        with pytest.raises(DataError) as caught:
            fetch(WebFile(url=web.url), cache, Notes())
        assert str(caught.value).startswith(f"{web.url} (at http://{web.host}/other): the server says 403")


class TestSecureServers:
    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Path:
        path = tmp_path / "certificate.pem"
        options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=test".split()
        options += [
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(path),
            "-out",
            str(tmp_path / "public.pem"),
        ]
        subprocess.run([need_tool("openssl"), *options], check=True, capture_output=True)
        path.write_bytes(path.read_bytes() + (tmp_path / "public.pem").read_bytes())
        return path

    def test_a_redirect_to_https_is_followed(self, web, new_web, cache, certificate, monkeypatch):
        secure = new_web()
        secure.speak_tls(certificate)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        web.plan = [says(301, Location=f"https://{secure.host}/text.en.gz")]
        assert content(WebFile(url=web.url), cache) == CONTENT
        assert len(secure.requests) == 1

    def test_a_server_that_cannot_be_trusted_is_told_at_once(self, web, cache, certificate, notes):
        web.speak_tls(certificate)
        with pytest.raises(DataError, match=r"certificate verify failed.*check the clock and the certificates"):
            fetch(WebFile(url=f"https://{web.host}/text.en.gz"), cache, notes)
        assert (web.requests, notes.messages) == ([], [])


class TestMirror:
    def test_everything_is_fetched_from_the_mirror(self, web, cache, monkeypatch):
        url = "https://Corpora.example/de en/text.gz?version=1#top"
        for mirror in (f"http://{web.host}/mirror/", f"http://{web.host}/mirror"):
            monkeypatch.setenv("SEPTUAGINT_MIRROR", mirror)
            path = fetch(WebFile(url=url), cache, Notes())
            assert path.name == f"{sha256_of(url.encode())[:16]}-text.gz"
            path.unlink()
        assert {path for path, _ in web.requests} == {"/mirror/corpora.example/de%20en/text.gz?version=1"}
        assert len(web.requests) == 2

    def test_messages_name_the_file_and_where_it_was_looked_for(self, web, cache, monkeypatch):
        monkeypatch.setenv("SEPTUAGINT_MIRROR", f"http://{web.host}")
        web.plan = [says(404)]
        with pytest.raises(DataError) as caught:
            fetch(WebFile(url="https://corpora.example:8443/text.gz"), cache, Notes())
        assert str(caught.value) == (
            f"https://corpora.example:8443/text.gz (at http://{web.host}/corpora.example:8443/text.gz): "
            "the server says 404 Not Found; check the address"
        )

    @pytest.mark.parametrize(
        "mirror", ["mirror.example", "ftp://mirror", "http://", "http://a:b@mirror", "/srv/mirror"]
    )
    def test_a_mirror_that_is_no_address_is_told(self, web, cache, monkeypatch, mirror):
        monkeypatch.setenv("SEPTUAGINT_MIRROR", mirror)
        with pytest.raises(DataError, match=r"^SEPTUAGINT_MIRROR: "):
            fetch(WebFile(url=web.url), cache, Notes())

    def test_a_proxy_of_the_environment_is_used(self, web, cache, monkeypatch):
        monkeypatch.setenv("http_proxy", f"http://{web.host}")
        assert content(WebFile(url="http://corpora.example/text.gz"), cache) == CONTENT
        assert web.requests[0][0] == "http://corpora.example/text.gz"

    @pytest.mark.parametrize(
        ("proxy", "reason"),
        [
            ("http:/127.0.0.1", "proxy URL with no authority"),
            ("http://127.0.0.1:port", "nonnumeric port"),
            ("socks5://127.0.0.1:1", "unknown url type: socks5"),
        ],
    )
    def test_a_proxy_that_cannot_be_used_is_told(self, web, cache, monkeypatch, proxy, reason):
        monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(DataError, match=rf"cannot be reached \({reason}"):
            fetch(WebFile(url="http://corpora.example/text.gz"), cache, Notes())

    def test_an_empty_mirror_is_none(self, web, cache, monkeypatch):
        monkeypatch.setenv("SEPTUAGINT_MIRROR", "")
        assert content(WebFile(url=web.url), cache) == CONTENT


class TestAddresses:
    @pytest.mark.parametrize(
        "url",
        [
            *("", "text.gz", "/text.gz", "ftp://host/text.gz", "file:///etc/passwd", "http:text.gz", "http:///text.gz"),
            *("http://", "http://:80/x", "http://host:port/x", "http://host:99999/x", "http://[::1/x", "http://[x]/x"),
            *("http://a b/x", "http://a..b/x", f"http://{'a' * 64}.example/x", "http://a%20b/x", "http://ho\nst/x"),
            *("http://host/\ud800", "http://host/a\0b", "http://host/a\tb", "http://\udce4/x", "http://℀.com/x"),
        ],
    )
    def test_what_is_no_web_address_is_told(self, cache, url):
        with pytest.raises(DataError, match=r"not a web address; it should look like https://host/file\.gz") as caught:
            fetch(WebFile(url=url), cache, Notes())
        str(caught.value).encode()
        assert not cache.exists()

    @pytest.mark.parametrize("user", ["user:secret@", "secret@", ":secret@", "a:secret@b@"])
    def test_a_password_is_refused_and_not_shown(self, cache, user):
        with pytest.raises(DataError, match=r"^http://host/x: .*user name or password.*download it by hand") as caught:
            fetch(WebFile(url=f"http://{user}host/x"), cache, Notes())
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        "url",
        [
            *(
                "http://user:SECRET",
                "http://user:SE/CRET@host/x",
                "http://user:SE?CRET@host/x",
                "ftp://user:SECRET@host/x",
            ),
            *("http://user:SECRET@[::1/x", "http://user:SECRET@host:port/x", "user:SECRET@host/x"),
        ],
    )
    def test_what_may_be_a_password_is_not_shown_either(self, cache, url):
        with pytest.raises(DataError, match=r"not a web address|no user name or password") as caught:
            fetch(WebFile(url=url), cache, Notes())
        assert "SE" not in str(caught.value)

    @pytest.mark.parametrize("location", ["ftp://user:SECRET@host/x", "ftp://host/x?token=SECRET"])
    def test_nor_is_one_of_a_redirect(self, web, cache, location):
        web.plan = [says(302, Location=location)]
        with pytest.raises(DataError, match=r"redirected to 'ftp://host/x', which") as caught:
            fetch(WebFile(url=web.url), cache, Notes())
        assert "SECRET" not in str(caught.value)

    def test_nor_is_one_of_a_proxy(self, web, cache, monkeypatch, slept):
        monkeypatch.setenv("http_proxy", "http:/user:SECRET@127.0.0.1")
        with pytest.raises(DataError, match="cannot be reached") as caught:
            fetch(WebFile(url="http://corpora.example/text.gz"), cache, Notes())
        assert "SECRET" not in str(caught.value)

    @pytest.mark.parametrize("pin", ["", "abc", "g" * 64, "A" * 64, "a" * 64 + "\n"])
    def test_what_is_no_hash_is_told(self, web, cache, pin):
        with pytest.raises(DataError, match=r"a SHA-256 is 64 digits"):
            fetch(WebFile(url=web.url, sha256=pin), cache, Notes())

    @pytest.mark.parametrize(
        ("ending", "asked"),
        [
            ("", "/"),
            ("/a b/κ?q=ä&r=%20#part", "/a%20b/%CE%BA?q=%C3%A4&r=%20"),
            ("/100%25/%CE%BA?a=b/c?d", "/100%25/%CE%BA?a=b/c?d"),
            ('/"<>\\^`{|}', "/%22%3C%3E%5C%5E%60%7B%7C%7D"),
        ],
    )
    def test_any_character_can_be_asked_for(self, web, cache, ending, asked):
        assert content(WebFile(url=f"http://{web.host}{ending}"), cache) == CONTENT
        assert web.requests[0][0] == asked


class TestProcesses:
    def test_two_at_once_download_once(self, web, cache):
        web.plan = [held_at(1_000)]
        command = [sys.executable, "-c", CHILD, web.url, str(cache)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as first:
            while not web.requests and first.poll() is None:
                time.sleep(0.01)
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
                assert second.stderr is not None
                assert "waiting for another process" in second.stderr.readline()
                web.released.set()
                assert [process.wait(20) for process in (first, second)] == [0, 0]
        assert len(web.requests) == 1
        assert names(cache) == ["text.en.gz", "text.en.gz.json", "text.en.gz.lock"]

    def test_one_that_takes_too_long_is_named(self, web, cache, monkeypatch):
        monkeypatch.setattr(downloads, "_LOCK_PATIENCE_SECONDS", 0.1)
        web.plan = [held_at(1_000)]
        first = threading.Thread(target=fetch, args=(WebFile(url=web.url), cache, Notes()))
        first.start()
        while not web.requests:
            time.sleep(0.01)
        with pytest.raises(UserError, match=r"another process is downloading this file \(process \d+ on .*stop it"):
            fetch(WebFile(url=web.url), cache, Notes())
        web.released.set()
        first.join()
        assert content(WebFile(url=web.url), cache) == CONTENT
