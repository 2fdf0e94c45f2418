"""README and docs are held to what the program does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from septuagint.config import FilterConfig
from septuagint.config_file import load_config
from septuagint.data.demo.corpus import write_demo_corpus
from septuagint.data.filters import FILTERS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DATA_FOLDER = (ROOT / "docs/data-folder.md").read_text(encoding="utf-8")


def code_blocks(text: str, language: str = "") -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [content for found, content in blocks if found == language]


def test_every_command_of_the_readme_exists_with_its_options():
    commands = [line for block in code_blocks(README) for line in block.splitlines() if line.startswith("septuagint ")]
    assert commands
    for command in commands:
        verb, *rest = command.partition("#")[0].split()[1:]
        shown = subprocess.run(
            [sys.executable, "-m", "septuagint.cli", verb, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for option in (word for word in rest if word.startswith("--")):
            assert option in shown, command


def test_the_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\w+)", README, flags=re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_configuration_in_the_readme_is_valid(tmp_path):
    (block,) = code_blocks(README, "toml")
    path = tmp_path / "news.toml"
    path.write_text(block, encoding="utf-8")
    assert len(load_config(path).data.train) == 2


def test_the_file_tree_of_the_readme_is_the_file_tree():
    (tree,) = (block for block in code_blocks(README) if block.startswith("septuagint/\n"))
    listed = set(re.findall(r"^ +([\w]+\.py) ", tree, flags=re.MULTILINE))
    package = ROOT / "septuagint"
    present = {path.name for path in [*package.glob("*.py"), *package.glob("data/*.py")] if path.name != "__init__.py"}
    assert listed == present


def test_the_documentation_describes_every_filter_with_its_default():
    section = DATA_FOLDER.partition("*Filters*")[2].partition("## Running")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, flags=re.MULTILINE))
    assert list(rows) == list(FILTERS)
    for default in rows.values():
        if setting := re.match(r"`(\w+) = ([\w.]+)`", default):
            assert str(getattr(FilterConfig(), setting[1])).lower() == setting[2]


def test_the_python_of_the_documentation_runs(tmp_path, monkeypatch):
    (tmp_path / "configs").mkdir()
    config = tmp_path / "configs/demo.toml"
    config.write_bytes((ROOT / "configs/demo.toml").read_bytes())
    write_demo_corpus(tmp_path / "data/demo", num_train=500, num_valid=10, num_test=10)
    command = [
        sys.executable,
        "-m",
        "septuagint.cli",
        "prepare",
        str(config),
        "--quiet",
        "--set",
        "vocabulary.size=500",
    ]
    subprocess.run(command, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    (snippet,) = code_blocks(DATA_FOLDER, "python")
    result = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("500 [")


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem)
def test_every_configuration_that_ships_is_valid(path):
    load_config(path)
