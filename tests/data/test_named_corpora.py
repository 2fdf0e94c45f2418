"""Corpora by address and by name, from a mirror on loopback: no test reaches further."""

import functools
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS

from septuagint.config_file import load_config
from septuagint.data.named_corpora import bring_home
from septuagint.errors import ConfigError, DataError
from septuagint.progress import ProgressReport
from tests.data.conftest import Project, invented_text

ROOT = Path(__file__).resolve().parents[2]
SOURCES, TARGETS = invented_text(200)


class Mirror:
    """Files by `host/path`, and which of them were asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[str] = []

    def add(self, address: str, content: bytes) -> str:
        """Puts a file where an address looks for it; its SHA-256."""
        path = self.folder / address.split("://")[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return hashlib.sha256(content).hexdigest()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    found = Mirror(tmp_path / "mirror")
    found.folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            found.requests.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(found.folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("SEPTUAGINT_MIRROR", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("SEPTUAGINT_CACHE", str(tmp_path / "the cache"))
    yield found
    server.shutdown()
    server.server_close()


def as_text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def as_tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def as_zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def brought(project: Project) -> list[Path]:
    """The files of the first training corpus, brought home."""
    data = bring_home(load_config(project.write_config()).data, ProgressReport(is_quiet=True))
    return list(data.train[0].paths)


def refusal(project: Project) -> str:
    with pytest.raises(DataError) as caught:
        brought(project)
    return str(caught.value)


def test_files_at_addresses_are_prepared_and_asked_for_once(project: Project, mirror: Mirror) -> None:
    sha256 = mirror.add("https://host/a%20corpus/news.en.gz".replace("%20", " "), gzip.compress(as_text(SOURCES)))
    mirror.add("https://host/news.de", as_text(TARGETS))
    project.add(source=f"https://host/a%20corpus/news.en.gz#sha256={sha256}", target="https://host/news.de")
    prepared = project.prepare()
    assert [(corpus.name, corpus.pairs) for corpus in prepared.manifest.train] == [("news", 200)]
    assert len(mirror.requests) == 2
    assert not project.prepare().is_new
    assert len(mirror.requests) == 2


@pytest.mark.parametrize("pack", [as_tar, as_zip])
def test_members_of_an_archive(project: Project, mirror: Mirror, pack) -> None:
    mirror.add("http://host/x.archive", pack({"a/corpus.en": as_text(SOURCES), "./a/corpus.de": as_text(TARGETS)}))
    project.add(source="http://host/x.archive#member=a/corpus.en", target="http://host/x.archive#member=a/corpus.de")
    source, target = brought(project)
    assert source.read_bytes() == as_text(SOURCES) and target.read_bytes() == as_text(TARGETS)
    assert len(mirror.requests) == 1
    config = load_config(project.config_path)
    assert config.data.train[0].name == "corpus"


def test_what_is_wrong_with_an_address_is_said(project: Project, mirror: Mirror) -> None:
    mirror.add("http://host/x.tgz", as_tar({"a/corpus.en": b"a\n"}))
    mirror.add("http://host/x.txt", b"a\n")
    cases = {
        "http://host/x.tgz#member=a/corpus.fr": "has no a/corpus.fr; did you mean a/corpus.en?",
        "http://host/x.tgz#member=a": "has no a",
        "http://host/x.txt#member=a": "neither tar nor zip",
        "http://host/x.tgz#sha256=12": "a SHA-256 has 64 digits",
        "http://host/x.tgz#md5=12": "behind # stand member=…, sha256=… or both",
        f"http://host/x.txt#sha256={'0' * 64}": "SHA-256",
        "http://host/gone.txt": "404",
    }
    for address, text in cases.items():
        project.corpora.clear()
        project.add(tsv=address)
        assert text in refusal(project), address


def test_a_damaged_archive_is_named(project: Project, mirror: Mirror) -> None:
    mirror.add("http://host/x.tgz", as_tar({"a": as_text(SOURCES)})[:-200])
    project.add(tsv="http://host/x.tgz#member=a")
    assert "damaged" in refusal(project)


def test_two_forms_at_once_are_refused(project: Project) -> None:
    project.add(mtdata="Statmt-a-1-deu-eng", sacrebleu="wmt14")
    with pytest.raises(ConfigError, match="give either `source` and `target`, or one of"):
        load_config(project.write_config())


def sgm(lines: list[str]) -> bytes:
    segments = "".join(f'<seg id="{number}">{line}</seg>\n' for number, line in enumerate(lines, start=1))
    return f'<srcset setid="x"><doc docid="d" genre="news" origlang="en">\n{segments}</doc></srcset>'.encode()


def test_a_test_set_of_sacrebleu(project: Project, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "test-full/newstest2014-deen-src.en.sgm": sgm(SOURCES),
        "test-full/newstest2014-deen-ref.de.sgm": sgm(TARGETS),
    }
    archive = as_tar(files)
    mirror.add("https://statmt.org/wmt14/test-full.tgz", archive)
    project.add_text(seed=2)
    project.add("test", sacrebleu="wmt14/full")
    with pytest.raises(DataError, match="but sacreBLEU says a8cd784e006feb32ac6f3d9ec7eb389a"):
        project.prepare()  # it is not the real one
    monkeypatch.setattr(DATASETS["wmt14/full"], "md5", [hashlib.md5(archive).hexdigest()])
    project.prepare()
    assert project.corpus("test").name == "wmt14-full"
    text = project.folder / project.corpus("test").target.text.path
    assert text.read_text(encoding="utf-8").splitlines() == TARGETS
    count = len(mirror.requests)
    project.prepare()
    assert len(mirror.requests) == count


def test_a_test_set_that_sacrebleu_does_not_have(project: Project, mirror: Mirror) -> None:
    project.add(sacrebleu="wmt41/full")
    assert "did you mean" in refusal(project)
    project.corpora.clear()
    project.settings["data.target_language"] = "xx"
    project.add(sacrebleu="wmt14/full")
    assert "has no en-xx, but: cs-en" in refusal(project)


@pytest.mark.slow  # its index takes a quarter of a minute to be made
def test_a_corpus_of_mtdata_in_both_directions(project: Project, mirror: Mirror) -> None:
    files = {"training/europarl-v7.de-en.de": as_text(TARGETS), "training/europarl-v7.de-en.en": as_text(SOURCES)}
    mirror.add("http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz", as_tar(files))
    project.add(mtdata="Statmt-europarl_wmt13-7-deu-eng")
    assert [path.read_bytes() for path in brought(project)] == [as_text(SOURCES), as_text(TARGETS)]
    project.settings |= {"data.source_language": "de", "data.target_language": "en"}
    assert [path.read_bytes() for path in brought(project)] == [as_text(TARGETS), as_text(SOURCES)]
    assert len(mirror.requests) == 1
    project.settings["data.target_language"] = "fr"
    assert "is not de and fr" in refusal(project)
    project.corpora.clear()
    project.add(mtdata="Statmt-europarl_wmt31-7-deu-eng")
    assert "did you mean Statmt-europarl_wmt13-7-deu-eng" in refusal(project)


def test_the_reference_corpus_is_prepared_by_its_configuration(
    project: Project, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`configs/wmt16-en-de.toml` as it stands, with small files in place of the large ones."""
    config = tomllib.loads((ROOT / "configs/wmt16-en-de.toml").read_text(encoding="utf-8"))
    archives: dict[str, dict[str, bytes]] = {}
    for seed, corpus in enumerate(config["data"]["train"], start=1):
        for side, lines in zip(("source", "target"), invented_text(200, seed), strict=True):
            address, _, member = corpus[side].partition("#member=")
            archives.setdefault(address, {})[member] = as_text(lines)
    for address, files in archives.items():
        mirror.add(address, as_tar(files))
    for seed, name in enumerate(("wmt13", "wmt14/full", "wmt14"), start=10):
        found = DATASETS[name]
        archive = as_tar(dict(zip(found.langpairs["en-de"], map(sgm, invented_text(50, seed)), strict=True)))
        mirror.add(found.data[0], archive)
        monkeypatch.setattr(found, "md5", [hashlib.md5(archive).hexdigest()])
    copy = project.write("configs/wmt16-en-de.toml", (ROOT / "configs/wmt16-en-de.toml").read_bytes())
    data = bring_home(load_config(copy).data, ProgressReport(is_quiet=True))
    assert [corpus.name for corpus in data.train] == ["europarl-v7", "commoncrawl", "news-commentary-v11"]
    for seed, corpus in enumerate(data.train, start=1):
        assert [path.read_bytes() for path in corpus.paths] == list(map(as_text, invented_text(200, seed)))
    for seed, corpus in enumerate((*data.valid, *data.test), start=10):
        assert [path.read_bytes() for path in corpus.paths] == list(map(as_text, invented_text(50, seed)))
