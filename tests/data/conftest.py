"""A small project on disk: text of an invented language pair, a configuration, and ways to prepare it."""

import contextlib
import functools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import septuagint.data.prepare
from septuagint.config_file import load_config
from septuagint.data import parts
from septuagint.data.manifest import Corpus, Manifest
from septuagint.data.prepare import Prepared, prepare
from septuagint.progress import ProgressReport

BASE = {
    "data.folder": "out",
    "data.source_language": "en",
    "data.target_language": "de",
    "vocabulary.size": 400,
}


class CallsInThisProcess:
    """Does what `Workers` does without the second that its processes take to start."""

    def __init__(self, num_workers: int) -> None:
        parts._vocabulary.cache_clear()  # processes would be new as well

    def __enter__(self) -> "CallsInThisProcess":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def run(self, calls: Iterable[tuple[Callable[..., Any], tuple[Any, ...]]]) -> Iterator[Any]:
        for function, arguments in calls:
            yield function(*arguments)


class Notes(ProgressReport):
    """A quiet report that remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(is_quiet=True)
        self.messages: list[str] = []

    def say(self, message: str) -> None:
        self.messages.append(message)

    def warn(self, message: str) -> None:
        self.messages.append(message)


class Project:
    """Text files and one configuration in a folder of their own."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.settings: dict[str, Any] = dict(BASE)
        self.corpora: list[tuple[str, dict[str, Any]]] = []
        self._monkeypatch = monkeypatch

    @property
    def config_path(self) -> Path:
        return self.root / "config.toml"

    @property
    def folder(self) -> Path:
        return self.root / str(self.settings["data.folder"])

    def write(self, name: str, content: str | bytes | list[str]) -> Path:
        """Writes a file; a list is lines."""
        if isinstance(content, list):
            content = "".join(f"{line}\n" for line in content)
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def add(self, split: str = "train", **corpus: Any) -> None:
        """Adds a corpus to the configuration: `source="a.en", target="a.de"`, and so on."""
        self.corpora.append((split, corpus))

    def add_text(
        self, stem: str = "corpus", num_lines: int = 200, *, seed: int = 1, split: str = "train"
    ) -> tuple[list[str], list[str]]:
        """Writes two parallel files of invented sentences and adds them."""
        sources, targets = invented_text(num_lines, seed)
        self.write(f"{stem}.en", sources)
        self.write(f"{stem}.de", targets)
        self.add(split, source=f"{stem}.en", target=f"{stem}.de")
        return sources, targets

    def write_config(self) -> Path:
        sections: dict[str, list[str]] = {}
        for key, value in self.settings.items():
            section, _, name = key.partition(".")
            sections.setdefault(section, []).append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
        lines = [line for section, rows in sections.items() for line in (f"[{section}]", *rows)]
        for split, corpus in self.corpora:
            lines += [f"[[data.{split}]]", *(f"{key} = {json.dumps(value)}" for key, value in corpus.items())]
        return self.write("config.toml", lines)

    def prepare(
        self, num_workers: int | None = None, *, report: ProgressReport | None = None, verify: bool = False
    ) -> Prepared:
        """Prepares with worker processes, or in this process where no number is given."""
        config = load_config(self.write_config())
        with self._monkeypatch.context() as patch:
            if num_workers is None:
                patch.setattr(septuagint.data.prepare, "Workers", CallsInThisProcess)
            return prepare(
                config, num_workers=num_workers or 1, report=report or ProgressReport(is_quiet=True), verify=verify
            )

    def command(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs `septuagint prepare` as a user would."""
        return subprocess.run(
            self.command_line(*arguments), cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=30
        )

    def command_line(self, *arguments: str) -> list[str]:
        path = self.write_config()
        return [sys.executable, "-m", "septuagint.cli", "prepare", str(path), "--workers", "1", *arguments]

    def manifest(self) -> Manifest:
        return septuagint.data.manifest.read_manifest(self.folder)

    def corpus(self, split: str = "train", index: int = 0) -> Corpus:
        return self.manifest().splits[split][index]


@functools.cache
def _lexicon() -> tuple[list[str], list[str]]:
    generator = random.Random(0)
    syllables = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < 600:
        words["".join(generator.choices(syllables, k=generator.randint(2, 4)))] = None
    return list(words)[:300], list(words)[300:]


def invented_text(num_lines: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Sentences over some hundred words, each word with one translation. The last three words tell all apart."""
    source_words, target_words = _lexicon()
    generator = random.Random(seed)
    sources, targets = [], []
    for number in range(num_lines):
        chosen = [*generator.choices(range(300), k=generator.randint(3, 12)), seed, number // 300, number % 300]
        sources.append(" ".join(source_words[index] for index in chosen))
        targets.append(" ".join(target_words[index] for index in chosen) + ".")
    return sources, targets


def folder_content(folder: Path) -> dict[str, bytes]:
    """Every file of a data folder by its path, `work/` aside."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.relative_to(folder).parts[0] != "work"
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path / "project", monkeypatch)


@pytest.fixture
def new_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Project]:
    """Projects beside each other, by name."""
    return lambda name: Project(tmp_path / name / "project", monkeypatch)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def content_of() -> Callable[[Path], dict[str, bytes]]:
    return folder_content


@pytest.fixture
def text_of() -> Callable[[int, int], tuple[list[str], list[str]]]:
    return invented_text


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system in memory; only the superuser can."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        done = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)])
        if not done or done.returncode:
            pytest.skip("needs root, to mount a small file system")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def no_process_left() -> Iterator[None]:
    """Fails a test that leaves a process of its own running."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield
    with contextlib.suppress(psutil.NoSuchProcess):
        left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
        _, alive = psutil.wait_procs(left, timeout=5)
        assert not [process for process in alive if "resource_tracker" not in " ".join(process.cmdline())]
