"""Corpora by address and by name, from a mirror on loopback: no test reaches further."""

import functools
import gzip
import hashlib
import http.server
import importlib.metadata
import io
import json
import lzma
import sys
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.dataset import DATASETS

from septuagint.config_file import load_config
from septuagint.data import named_corpora
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.downloads import cache_folder
from septuagint.data.files import signature
from septuagint.data.kept import keep
from septuagint.data.mtdata_process import Mtdata
from septuagint.data.named_corpora import bring_home
from septuagint.errors import ConfigError, DataError
from septuagint.progress import ProgressReport
from tests.data.conftest import Notes, Project, invented_text

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


def as_tar(files: dict[str, bytes], mode: str = "w:gz", links: Iterable[tarfile.TarInfo] = (), **options: Any) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, **options) as archive:
        for entry in links:
            archive.addfile(entry)
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
        "http://host/x.tgz#md5=12": "behind # stand member=…, sha256=… or both, once each",
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


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_a_flipped_bit_is_found_at_the_end_of_an_archive(project: Project, mirror: Mirror, mode: str) -> None:
    options: dict[str, Any] = {"w:gz": {"compresslevel": 0}}.get(mode, {})
    archive = bytearray(as_tar({"a": as_text(SOURCES), "b": as_text(TARGETS)}, mode, **options))
    archive[len(archive) // 2] ^= 1
    mirror.add("http://host/x.tar", bytes(archive))
    for member in ("a", "b"):
        project.corpora.clear()
        project.add(tsv=f"http://host/x.tar#member={member}")
        assert "damaged" in refusal(project) or "neither tar nor zip, or cut" in refusal(project)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def test_a_member_that_cannot_be_taken_out_is_told_with_the_cure(project: Project, mirror: Mirror) -> None:
    links = [link("a", "../../etc/passwd"), link("b", "/etc/passwd", tarfile.LNKTYPE), link("c", "d"), link("d", "c")]
    links.append(link("e", "", tarfile.DIRTYPE))
    mirror.add("http://host/links.tar", as_tar({}, links=links))
    encrypted = bytearray(as_zip({"a": as_text(SOURCES)}))
    for place in (encrypted.find(b"PK\x03\x04") + 6, encrypted.find(b"PK\x01\x02") + 8):
        encrypted[place] |= 1
    mirror.add("http://host/encrypted.zip", bytes(encrypted))
    packed = bytearray(as_zip({"a": as_text(SOURCES)}))
    for place in (packed.find(b"PK\x03\x04") + 8, packed.find(b"PK\x01\x02") + 10):
        packed[place] = 9  # Deflate64
    mirror.add("http://host/packed.zip", bytes(packed))
    mirror.add("http://host/cut.zip", as_zip({"a": as_text(SOURCES)})[:500])
    cases = {
        "links.tar#member=a": "is a link to what is not in the archive; name another member",
        "links.tar#member=b": "is a link to what is not in the archive",
        "links.tar#member=c": "is a link to what is not in the archive",
        "links.tar#member=e": "e is no file; name one that is",
        "encrypted.zip#member=a": "take the file out by hand, and give its path",
        "packed.zip#member=a": "take the file out by hand, and give its path",
        "cut.zip#member=a": "or delete the file, and it is fetched again",
    }
    for ending, text in cases.items():
        project.corpora.clear()
        project.add(tsv=f"http://host/{ending}")
        assert text in refusal(project), ending


def test_the_name_of_a_member_may_be_long(project: Project, mirror: Mirror) -> None:
    name = "語" * 80 + ".en"
    mirror.add("http://host/x.zip", as_zip({name: as_text(SOURCES)}))
    project.add(source=f"http://host/x.zip#member={name}", target=f"http://host/x.zip#member={name}")
    assert brought(project)[0].read_bytes() == as_text(SOURCES)


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(path.read_bytes()[:100]), Path.unlink])
def test_what_was_taken_out_and_is_not_as_it_was_is_taken_out_again(project: Project, mirror: Mirror, change) -> None:
    mirror.add("http://host/x.tgz", as_tar({"en": as_text(SOURCES), "de": as_text(TARGETS)}))
    project.add(source="http://host/x.tgz#member=en", target="http://host/x.tgz#member=de")
    source, _ = brought(project)
    leftover = source.with_name(f".{source.name}.123456.tmp")  # of a process that was killed
    leftover.write_bytes(b"half")
    change(source)
    assert brought(project)[0].read_bytes() == as_text(SOURCES)
    assert not leftover.exists()
    assert len(mirror.requests) == 1


def test_bits_that_a_disk_changed_are_found_by_verify(project: Project, mirror: Mirror) -> None:
    mirror.add("http://host/x.tgz", as_tar({"en": as_text(SOURCES), "de": as_text(TARGETS)}))
    project.add(source="http://host/x.tgz#member=en", target="http://host/x.tgz#member=de")
    source, _ = brought(project)
    record = source.with_name(f"{source.name}.json")
    source.write_bytes(as_text(SOURCES)[::-1])
    told = json.loads(record.read_bytes()) | {"signature": signature(source)}
    record.write_text(json.dumps(told), encoding="utf-8")  # as if nothing had happened
    assert brought(project)[0].read_bytes() == as_text(SOURCES)[::-1]
    data = load_config(project.config_path).data
    found = bring_home(data, ProgressReport(is_quiet=True), verify=True).train[0].paths
    assert found[0].read_bytes() == as_text(SOURCES)


def test_a_file_has_one_hash(project: Project, mirror: Mirror) -> None:
    sha256 = mirror.add("http://host/a", as_text(SOURCES))
    project.add(source=f"http://host/a#sha256={sha256}", target=f"http://host/a#sha256={'0' * 64}")
    assert f"both {sha256} and {'0' * 64} are asked for" in refusal(project)
    project.corpora.clear()
    project.add(tsv=f"http://host/a#sha256={sha256}&sha256={sha256}")
    assert "once each" in refusal(project)


def test_an_archive_is_no_text(project: Project, mirror: Mirror) -> None:
    mirror.add("http://host/x.tgz", as_tar({"en": as_text(SOURCES)}))
    mirror.add("http://host/x.zip", as_zip({"en": as_text(SOURCES)}))
    for kind, address in (("tar", "http://host/x.tgz"), ("zip", "http://host/x.zip")):
        project.corpora.clear()
        project.add(tsv=address)
        with pytest.raises(DataError, match=f"this is a {kind} archive; unpack it, or .* name the file in it"):
            project.prepare()


@pytest.mark.parametrize("fragment", ["#foo=1", "#sha256=12", "CRET@host/en"])
def test_a_password_is_not_shown_for_what_stands_behind_it(project: Project, mirror: Mirror, fragment: str) -> None:
    project.add(tsv=f"http://user:SECRET@host/en{fragment}")
    assert "SECRET" not in refusal(project)


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


def test_of_several_references_sacrebleu_says_which(
    project: Project, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Any = DATASETS["wmt21/C"]
    (wanted,) = found._get_langpair_allowed_refs("en-de")  # such as ref:C
    sources = "".join(f'<seg id="{number}">{line}</seg>' for number, line in enumerate(SOURCES))
    references = "".join(
        f'<ref lang="de" translator="{name}"><p>'
        + "".join(f'<seg id="{number}">{name} {line}</seg>' for number, line in enumerate(TARGETS))
        + "</p></ref>"
        for name in "ABCDEFGH"
    )
    text = f'<src lang="en"><p>{sources}</p></src>{references}'
    xml = f'<dataset id="x"><collection id="g"><doc id="d" origlang="en">{text}</doc></collection></dataset>'
    archive = as_tar({found._get_langpair_metadata("en-de")["en-de"][0]: xml.encode()})
    mirror.add(found.data[0], archive)
    monkeypatch.setattr(found, "md5", [hashlib.md5(archive).hexdigest()])
    project.add("test", sacrebleu="wmt21/C")
    project.add_text(seed=2)
    data = bring_home(load_config(project.write_config()).data, ProgressReport(is_quiet=True))
    source, target = data.test[0].paths
    assert source.read_text(encoding="utf-8").splitlines() == SOURCES
    assert target.read_text(encoding="utf-8").splitlines() == [f"{wanted[-1]} {line}" for line in TARGETS]


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


@pytest.mark.slow  # the index again
def test_what_mtdata_would_take_for_whole_is_refused_and_every_byte_is_kept(project: Project, mirror: Mirror) -> None:
    rows = "".join(f"{target}\t{source}\n" for source, target in zip(SOURCES, TARGETS, strict=True)).encode()
    name, address = "EU-dcep-1-deu-eng", "https://data.statmt.org/DCEP/DE-EN.tsv.xz"
    project.add(mtdata=name)
    for broken in (lzma.compress(rows)[:-400], b"<html>gone</html>", lzma.compress(b"")):
        mirror.add(address, broken)
        message = refusal(project)
        assert message.startswith(f"mtdata could not read {name} (")
        (download,) = (path for path in (cache_folder() / "downloads").iterdir() if path.name.endswith(".tsv.xz"))
        assert f"if the download is damaged, delete {download}, and it is fetched again" in message
        assert not list((cache_folder() / "mtdata").glob(f"{name}*"))
        download.unlink()
    mirror.add(address, lzma.compress(rows + b"Das ist \xff\xfe kaputt\tThis is broken\n"))
    source, target = brought(project)
    assert source.read_bytes() == as_text([*SOURCES, "This is broken"])
    assert target.read_bytes() == as_text(TARGETS) + b"Das ist \xff\xfe kaputt\n"
    # What a full disk or a kill left of the index does no harm, and another order of languages is seen.
    (index,) = (cache_folder() / "mtdata").glob("mtdata.index.*.pkl")
    index.write_bytes(index.read_bytes()[:100_000])
    project.corpora.clear()
    project.add(mtdata="EU-dcep-1-eng-deu")
    assert "(did you mean EU-dcep-1-deu-eng?)" in refusal(project)


RECIPE = {"train": ["A-one-1-deu-eng", "A-two-1-deu-eng"], "valid": ["A-check-1-deu-eng"], "test": ["A-test-1-deu-eng"]}


def keep_recipe(name: str, *, version: str | None = None, monolingual: tuple[str, ...] = (), **splits: Any) -> None:
    """Puts into the cache what mtdata would answer, and the text of the corpora."""
    question = {
        "verb": "recipe",
        "name": name,
        "languages": ["en", "de"],
        "version": version or importlib.metadata.version("mtdata"),
        "recipes": [],
    }
    folder = cache_folder() / "mtdata"
    (folder / "recipes").mkdir(parents=True, exist_ok=True)
    answer = {**RECIPE, "monolingual": list(monolingual), **splits}
    content = json.dumps({"question": question, "answer": answer})
    (folder / "recipes" / f"{name}.en-de.json").write_text(content, encoding="utf-8")
    for seed, corpus in enumerate((name for split in RECIPE.values() for name in split), start=20):
        for language, lines in zip(("en", "de"), invented_text(50, seed), strict=True):
            path = folder / f"{corpus}.en-de.{language}"
            path.write_bytes(as_text(lines))
            keep(path)


def prepared_names(project: Project) -> dict[str, list[str]]:
    return {split: [corpus.name for corpus in corpora] for split, corpora in project.manifest().splits.items()}


def opened(project: Project) -> Dataset:
    return open_dataset(load_config(project.write_config()).data, ProgressReport(is_quiet=True))


def not_opened(project: Project) -> str:
    with pytest.raises(DataError) as caught:
        opened(project)
    return str(caught.value)


@pytest.fixture
def recipe(project: Project, mirror: Mirror) -> Project:
    """A project of a recipe that has been asked for, and no corpus of its own."""
    keep_recipe("mine")
    project.settings["data.recipe"] = "mine"
    return project


def test_a_recipe_alone_is_prepared_and_trained_on(recipe: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe.prepare()
    assert prepared_names(recipe) == RECIPE
    monkeypatch.setitem(sys.modules, "mtdata", None)  # whoever trains need not have it
    dataset = opened(recipe)
    assert dataset.weights == (1, 1)
    assert dataset.train.sizes == (50, 50) and [text.name for text in dataset.test] == RECIPE["test"]
    assert dataset.valid[0].target_lines == invented_text(50, 22)[1]


def test_a_recipe_comes_behind_what_is_listed_and_repeats_nothing_of_it(recipe: Project) -> None:
    recipe.add_text()
    recipe.add(mtdata="A-two-1-deu-eng", name="second", weight=3)
    recipe.add("valid", mtdata="A-test-1-deu-eng")  # the file decides what a corpus is for
    recipe.prepare()
    assert prepared_names(recipe) == {
        "train": ["corpus", "second", "A-one-1-deu-eng"],
        "valid": ["A-test-1-deu-eng", "A-check-1-deu-eng"],
        "test": [],
    }
    assert opened(recipe).weights == (1, 3, 1)


def test_a_corpus_of_a_recipe_does_not_take_the_name_of_another(recipe: Project) -> None:
    recipe.add_text("A-one-1-deu-eng")
    recipe.prepare()
    assert prepared_names(recipe)["train"] == ["A-one-1-deu-eng", "A-one-1-deu-eng-2", "A-two-1-deu-eng"]
    assert recipe.corpus().pairs == 200


def test_a_corpus_of_a_recipe_can_be_given_a_weight_without_preparing_anew(recipe: Project) -> None:
    recipe.prepare()
    recipe.add(mtdata="A-two-1-deu-eng", weight=0.5)
    assert opened(recipe).weights == (1, 0.5)


def test_a_corpus_that_is_listed_no_more_is_not_taken_for_the_recipes(recipe: Project) -> None:
    recipe.add_text()
    recipe.prepare()
    recipe.corpora.clear()
    assert "data.train: prepared but not listed: corpus; run `septuagint prepare`" in not_opened(recipe)
    recipe.add_text("other")
    assert "prepared but not listed: corpus; listed but not prepared: other; run" in not_opened(recipe)


def test_the_recipe_of_folder_and_configuration_must_be_the_same(recipe: Project) -> None:
    recipe.prepare()
    recipe.settings["data.recipe"] = "yours"
    message = "prepared with data.recipe = 'mine', but the configuration has data.recipe = 'yours'; run"
    assert message in not_opened(recipe)
    del recipe.settings["data.recipe"]
    recipe.add(mtdata="A-one-1-deu-eng")
    assert "prepared with data.recipe = 'mine', but the configuration has no data.recipe; run" in not_opened(recipe)


def test_the_same_corpora_without_the_recipe_are_not_prepared_anew(recipe: Project) -> None:
    recipe.prepare()
    fingerprint = recipe.manifest().fingerprint
    del recipe.settings["data.recipe"]
    for split, names in RECIPE.items():
        for name in names:
            recipe.add(split, mtdata=name)
    assert not recipe.prepare().is_new
    assert opened(recipe).weights == (1, 1)
    assert recipe.manifest().settings.keys() == {"source_language", "target_language", "filters", "vocabulary"}
    recipe.settings["data.recipe"] = "mine"
    assert "prepared with no data.recipe, but" in not_opened(recipe)
    assert not recipe.prepare().is_new
    assert opened(recipe).manifest.fingerprint == fingerprint


def test_what_a_recipe_changes_is_said(recipe: Project, notes: Notes) -> None:
    recipe.prepare()
    keep_recipe("yours", train=["A-one-1-deu-eng"], monolingual=("A-mono-1-deu", "A-mono-1-eng"))
    recipe.settings["data.recipe"] = "yours"
    recipe.prepare(report=notes)
    assert notes.messages[0] == "recipe yours: monolingual text is not used: A-mono-1-deu, A-mono-1-eng"
    assert "setting changed: recipe was mine, is now yours" in notes.messages
    assert not [message for message in notes.messages if "recipe_corpora" in message]
    assert sum("no longer used" in message and "A-two-1-deu-eng" in message for message in notes.messages) == 2


def test_a_recipe_without_training_text_is_refused(recipe: Project) -> None:
    keep_recipe("mine", train=[])
    assert "recipe = 'mine' has no training text to add; list some in [[data.train]]" in refusal(recipe)


def test_another_mtdata_is_asked_again(recipe: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = []

    def ask(mtdata: object, question: dict[str, Any]) -> dict[str, Any]:
        questions.append(question)
        return {**RECIPE, "train": ["A-two-1-deu-eng"], "monolingual": []}

    monkeypatch.setattr(Mtdata, "ask", ask)
    assert brought(recipe)[0].name == "A-one-1-deu-eng.en-de.en"
    assert not questions
    keep_recipe("mine", version="0.0.1")
    for _ in range(2):  # the second time it is known
        assert brought(recipe)[0].name == "A-two-1-deu-eng.en-de.en"
    assert [(question["verb"], question["name"]) for question in questions] == [("recipe", "mine")]


def test_a_recipe_needs_mtdata(recipe: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtdata", None)
    assert refusal(recipe) == "recipe = 'mine' needs mtdata: pip install 'septuagint[corpora]'"


@pytest.mark.slow  # mtdata's index again
def test_a_recipe_of_mtdata_from_its_name_to_the_open_data_folder(project: Project, mirror: Mirror) -> None:
    train = {
        "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz": "commoncrawl.de-en",
        "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz": "training/europarl-v7.de-en",
        "http://data.statmt.org/wmt18/translation-task/training-parallel-nc-v13.tgz": (
            "training-parallel-nc-v13/news-commentary-v13.de-en"
        ),
    }
    for seed, (address, stem) in enumerate(train.items(), start=1):
        sources, targets = invented_text(100 * seed, seed)
        mirror.add(address, as_tar({f"{stem}.de": as_text(targets), f"{stem}.en": as_text(sources)}))
    (check, check_targets), (test, test_targets) = invented_text(50, 10), invented_text(60, 11)
    evaluation = {
        "dev/newstest2013.en": as_text(check),
        "dev/newstest2013.de": as_text(check_targets),
        "dev/newstest2014-deen-src.de.sgm": sgm(test_targets),
        "dev/newstest2014-deen-ref.en.sgm": sgm(test),
    }
    mirror.add("http://data.statmt.org/wmt20/translation-task/dev.tgz", as_tar(evaluation))
    project.settings["data.recipe"] = "vaswani_etal_2017_ende"
    project.add(mtdata="Statmt-europarl_wmt13-7-deu-eng", name="europarl", weight=2)
    project.prepare()
    dataset = opened(project)
    assert dataset.weights == (2, 1, 1)
    assert [(corpus.name, corpus.pairs) for corpus in dataset.manifest.train] == [
        ("europarl", 200),
        ("Statmt-commoncrawl_wmt13-1-deu-eng", 100),
        ("Statmt-news_commentary_wmt18-13-deu-eng", 300),
    ]
    (valid,), (tested,) = dataset.valid, dataset.test
    assert (valid.name, valid.source_lines) == ("Statmt-newstest-2013-eng-deu", check)
    assert (tested.name, tested.source_lines) == ("Statmt-newstest_deen-2014-deu-eng", test)
    assert tested.target_lines == test_targets
    assert len(mirror.requests) == 4
    assert not project.prepare().is_new
    assert len(mirror.requests) == 4
    project.settings["data.recipe"] = "test_02_with_mono"
    assert "prepared with data.recipe = 'vaswani_etal_2017_ende'" in not_opened(project)


def asked_recipe(project: Project, notes: Notes) -> dict[str, list[str]]:
    data = load_config(project.write_config()).data
    assert data.recipe is not None
    with Mtdata(cache_folder()) as mtdata:
        languages = data.source_language, data.target_language
        return named_corpora._Home(cache_folder(), *languages, mtdata, notes).recipe(data.recipe)


OWN_RECIPE = """
- id: own
  langs: deu-eng
  train: Statmt-europarl-10-deu-eng
"""


@pytest.mark.slow  # mtdata's index again
def test_what_mtdata_says_of_its_recipes(
    project: Project, mirror: Mirror, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str) -> str:
        project.settings["data.recipe"] = name
        return refusal(project)

    monkeypatch.chdir(project.root)
    monkeypatch.setenv("SEPTUAGINT_CACHE", "a relative cache")
    message = refused("vaswani_2017")
    assert "no recipe 'vaswani_2017' (did you mean vaswani_etal_2017_ende?); `mtdata list-recipe` shows" in message
    assert "tg01_2to1_test is mul-eng, and a recipe must be of two languages" in refused("tg01_2to1_test")
    project.settings |= {"data.source_language": "de", "data.target_language": "en"}
    project.settings["data.recipe"] = "test_02_with_mono"
    assert asked_recipe(project, notes)["valid"] == ["Statmt-newstest_deen-2020-deu-eng"]
    said = "recipe test_02_with_mono: monolingual text is not used: Statmt-news_crawl-2021-eng, "
    assert notes.messages[-1].startswith(said)
    project.settings["data.target_language"] = "fr"
    assert "vaswani_etal_2017_ende is eng and deu, not de and fr; set data." in refused("vaswani_etal_2017_ende")
    # Recipes of one's own, in a folder that mtdata's variable names.
    own = project.write("recipes/mtdata.recipes.own.yml", OWN_RECIPE)
    monkeypatch.setenv("MTDATA_RECIPES", "recipes")
    project.settings |= {"data.target_language": "en", "data.recipe": "own"}
    answer = {"train": ["Statmt-europarl-10-deu-eng"], "valid": [], "test": [], "monolingual": []}
    assert asked_recipe(project, notes) == answer
    own.write_text(OWN_RECIPE.replace("europarl-10", "europarl-9"), encoding="utf-8")
    assert asked_recipe(project, notes)["train"] == ["Statmt-europarl-9-deu-eng"]
    own.write_text(OWN_RECIPE.replace("europarl-10", "europarl-99"), encoding="utf-8")
    assert "recipe own lists what mtdata does not know: Statmt-europarl-99-deu-eng" in refused("own")


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
