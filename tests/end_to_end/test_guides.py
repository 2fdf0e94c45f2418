"""The guides, followed from beginning to end: every command is typed as it stands, and every program is run.

Each guide gets a folder of its own with what its first lines say that the reader has. Its blocks are taken in order:
commands by `bash -e`, so that any exit code but 0 fails the test and shows what was said; programs by this Python, or
by that of a fresh environment after a `pip install`. A block of `text` directly after commands must be among what they
said, line by line, but for numbers and "…". Any other block of `text` is an example, and is not compared.

One thing is not as it stands: the first guide's configuration, which is for minutes on a GPU, is made SMALLER.
several-machines.md is followed in tests/distributed/test_guide.py.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from septuagint.config_file import load_config
from tests.environments import Environment
from tests.guides import FOLDER, GUIDES, Block, read_guide, write_own_text, write_project

ROOT = FOLDER.parents[1]
PATIENCE_SECONDS = 120
ARGOS = "Argos Translate and LibreTranslate"  # the section that needs a network, to install it
SMALLER = {
    "width": 32,
    "feedforward_width": 64,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "max_steps": 20,
    "tokens_per_step": 512,
    "microbatch_tokens": 512,
    "decay_steps": 20,
    "warmup_steps": 5,
    "validate_every": 10,
    "checkpoint_every": 10,
}


class Reader:
    """Follows guides in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",  # two threads wait for each other where others use the cores, too
            "HOME": str(folder / "home"),  # where libraries keep things
        }

    def run(self, *command: str | Path) -> str:
        """What a command says; it must end well, and so must all that it left running."""
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            said += f"\nnot finished after {PATIENCE_SECONDS} s"
        assert process.returncode == 0, f"{command[-1]}\nended with {process.returncode} and said:\n{said}"
        return said

    def follow(self, name: str, *, smaller: Mapping[str, int] | None = None, only: str = "", without: str = "") -> None:
        """Does all that a guide says, or a section of it."""
        said, python = "", Path(sys.executable)
        for block in read_guide(FOLDER / name):
            if block.section == without or block.section != (only or block.section):
                continue
            if block.language == "text":
                if block.follows_block:
                    assert_shown(block.content, said)
            elif block.file_name:
                text = make_smaller(block.content, smaller or {})
                (self.folder / block.file_name).write_text(text, encoding="utf-8")
            elif block.language == "python":
                said = self.run(python, "-c", block.content)
            elif block.content.startswith("pip install "):
                python = Environment(self.folder / "environment", *block.content.split()[2:]).programs / "python"
            else:
                said = self.run("bash", "-e", "-c", block.content)


def make_smaller(config: str, values: Mapping[str, int]) -> str:
    for name, value in values.items():
        config, number = re.subn(rf"^{name} = \d+", f"{name} = {value}", config, flags=re.MULTILINE)
        assert number == 1, f"{name} stands {number} times in the configuration"
    return config


def assert_shown(expected: str, said: str) -> None:
    lines = set(map(without_numbers, said.splitlines()))
    for line in map(without_numbers, expected.splitlines()):
        assert line in lines or line == "…", f"the guide shows\n{expected}\nbut the commands said\n{said}"


def without_numbers(line: str) -> str:
    return " ".join(re.sub(r"\d[\d,.]*", "0", line).split())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`news.toml`, prepared, trained and translated with; for reading and copying only."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    reader = Reader(folder)
    reader.run("septuagint", "prepare", "news.toml")
    reader.run("septuagint", "train", "news.toml")
    reader.run("septuagint", "translate", "runs/news", "test.en")
    return folder


def copy(project: Path, folder: Path, *left_out: str) -> Reader:
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns(*left_out), symlinks=True, dirs_exist_ok=True)
    return Reader(folder)


def attempts(run: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((run / "environment.json").read_bytes())["attempts"]
    return found


def num_lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())


@pytest.mark.slow
def test_own_text_becomes_a_scored_model(tmp_path: Path) -> None:
    write_own_text(tmp_path)
    Reader(tmp_path).follow("own-corpus.md", smaller=SMALLER)
    assert [attempt["outcome"] for attempt in attempts(tmp_path / "runs/news")] == ["max_steps"]
    assert num_lines(tmp_path / "memory.tsv") == 60
    assert num_lines(tmp_path / "test.translated") == num_lines(tmp_path / "test.en") == 12


@pytest.mark.slow
def test_the_report_is_read_and_runs_are_compared(project: Path, tmp_path: Path) -> None:
    copy(project, tmp_path).follow("reading-the-report.md")
    assert (tmp_path / "reports/comparison.html").exists()
    guide = (FOLDER / "reading-the-report.md").read_text(encoding="utf-8")
    for answer in json.loads((tmp_path / "runs/news/report.json").read_bytes())["answers"]:
        assert f"**{answer['question'].replace('processors', 'GPUs')}**" in guide


@pytest.mark.slow
def test_a_model_translates_and_is_given_away(project: Path, tmp_path: Path) -> None:
    reader = copy(project, tmp_path)
    shutil.copy(project / "test.en", tmp_path / "input.txt")
    shutil.copy(project / "test.de", tmp_path / "others.de")
    reader.follow("translating.md", without=ARGOS)
    assert num_lines(tmp_path / "output.txt") == num_lines(tmp_path / "input.txt") == 16
    assert num_lines(tmp_path / "output.jsonl") == 3


@pytest.mark.slow
def test_a_model_is_given_to_argos_translate(project: Path, tmp_path: Path) -> None:
    copy(project, tmp_path).follow("translating.md", only=ARGOS)


@pytest.mark.slow
def test_a_run_is_stopped_killed_damaged_and_goes_on(project: Path, tmp_path: Path) -> None:
    reader = copy(project, tmp_path, "runs")
    for side in ("en", "de"):
        shutil.copy(project / f"test.{side}", tmp_path / f"speeches.{side}")
    reader.follow("resuming.md")
    found = attempts(tmp_path / "runs/news")
    assert [attempt["outcome"] for attempt in found] == ["signal", None, "max_steps", "max_steps", "max_steps"]
    assert [attempt["end_step"] for attempt in found[2:]] == [120, 140, 150]
    assert [attempt["world_size"] for attempt in found] == [1, 1, 1, 2, 1]
    assert attempts(tmp_path / "runs/speeches")[0]["outcome"] == "max_steps"


@pytest.mark.slow
def test_every_format_is_read(project: Path, tmp_path: Path) -> None:
    reader = copy(project, tmp_path)
    shutil.copytree(project / "runs/news/artifact", tmp_path / "news-en-de")
    reader.follow("formats.md")


def test_every_guide_is_followed_by_a_test() -> None:
    here, there = (
        Path(path).read_text(encoding="utf-8") for path in (__file__, ROOT / "tests/distributed/test_guide.py")
    )
    assert all(f'"{path.name}"' in here + there for path in GUIDES)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_every_block_of_a_guide_is_one_that_is_run_or_shown(path: Path, tmp_path: Path) -> None:
    blocks = read_guide(path)
    assert len(blocks) == path.read_text(encoding="utf-8").count("\n```") / 2
    for block in blocks:
        check_block(block, tmp_path)


def check_block(block: Block, folder: Path) -> None:
    assert block.language in ("sh", "toml", "python", "text"), block
    if block.language == "python":
        compile(block.content, "guide", "exec")
    if block.language == "toml":
        assert block.file_name, block
        (folder / block.file_name).write_text(block.content, encoding="utf-8")
        load_config(folder / block.file_name)


def test_the_sizes_of_the_first_guide_are_those_of_the_configurations() -> None:
    guide = (FOLDER / "own-corpus.md").read_text(encoding="utf-8")
    table = re.findall(
        r"^\|.*?\((\S+\.toml)\).*\| ([\d,]+) \| `([\w-]+)`.*\| ([\d,]+) × ([\d,]+) \|$", guide, flags=re.M
    )
    assert len(table) == 4
    for link, *cells in table:
        config = load_config(FOLDER / link)
        numbers = config.vocabulary.size, config.training.max_steps, config.training.tokens_per_step
        size, steps, tokens = (f"{number:,}" for number in numbers)
        assert cells == [size, config.model.preset, steps, tokens], link
