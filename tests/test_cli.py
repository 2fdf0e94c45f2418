import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORDS = "house garden river window table morning evening letter summer winter bread water road forest bird".split()


def septuagint(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "septuagint.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    lines = [f"the {a} and the {b} near a {c}" for a in WORDS for b in WORDS for c in WORDS[:3] if a != b]
    (tmp_path / "text.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "text.de").write_text(
        "\n".join(line.replace("the ", "das ") for line in lines) + "\n", encoding="utf-8"
    )
    path = tmp_path / "run.toml"
    path.write_text(
        '[data]\nfolder = "data folder"\nsource_language = "en"\ntarget_language = "de"\n'
        '[[data.train]]\nsource = "text.en"\ntarget = "text.de"\n[vocabulary]\nsize = 300\n',
        encoding="utf-8",
    )
    return path


def test_help_comes_at_once():
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        septuagint("--help")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.4


def test_help_loads_nothing_heavy():
    code = "import sys, septuagint.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pydantic", "sentencepiece", "torch", "rich.console"} & set(loaded)


def test_every_verb_of_the_help_has_a_help_of_its_own():
    listing = septuagint("--help").stdout.partition("Commands:")[2]
    verbs = re.findall(r"^  (\w+) ", listing, flags=re.MULTILINE)
    assert "prepare" in verbs
    for verb in verbs:
        assert septuagint(verb, "--help").returncode == 0


def test_each_value_has_a_set_of_its_own(config):
    done = septuagint("config", config, "--set", "vocabulary.size=400", "training.max_steps=5")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: training.max_steps=5: write --set before this value, too\n"
    assert septuagint("config", "--set", "vocabulary.size=400", config).returncode == 0


def test_the_help_fits_a_terminal_of_80_columns():
    for verb in ((), ("prepare",), ("config",), ("demo",)):
        assert max(map(len, septuagint(*verb, "--help").stdout.splitlines())) <= 80


def test_a_misspelt_verb_is_answered_with_the_nearest_one():
    result = septuagint("prepar")
    assert result.returncode == 2
    assert "Did you mean 'prepare'" in result.stderr


def test_the_version_is_the_packages():
    import septuagint as package

    assert septuagint("--version").stdout == f"septuagint {package.__version__}\n"


def test_prepare_prints_tables_on_standard_output_and_progress_on_standard_error(config):
    result = septuagint("prepare", config)
    assert result.returncode == 0, result.stderr
    assert "lines" in result.stdout and "kept" in result.stdout and "dropped by filter" in result.stdout
    assert "cleaning" in result.stderr and "cleaning" not in result.stdout
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 80


def test_json_is_the_only_thing_on_standard_output(config):
    first = json.loads(septuagint("prepare", config, "--json").stdout)
    assert first["is_new"] is True
    assert first["train"]["pairs"] + sum(first["train"]["dropped"].values()) == first["train"]["lines"]
    again = json.loads(septuagint("prepare", config, "--json", "--quiet").stdout)
    assert again["is_new"] is False
    assert again["fingerprint"] == first["fingerprint"]


def test_quiet_says_nothing_on_standard_error(config):
    assert septuagint("prepare", config, "--quiet").stderr == ""


def test_the_resolved_configuration_is_printed_with_its_origins(config):
    result = septuagint("config", config, "--set", "vocabulary.seed=7")
    assert "seed = 7  # --set" in result.stdout
    assert f"size = 300  # {config}" in result.stdout
    assert "max_pieces = 256  # default" in result.stdout
    rows = json.loads(septuagint("config", config, "--json").stdout)
    assert {"key": "vocabulary.size", "value": 300, "origin": str(config)} in rows


def test_the_users_mistake_exits_2_without_a_traceback(config):
    result = septuagint("prepare", config, "--set", "vocabulary.siez=1")
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert "did you mean 'size'?" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_result_that_cannot_be_written_is_told(config):
    septuagint("prepare", config, "--quiet")
    command = [sys.executable, "-m", "septuagint.cli", "prepare", str(config), "--json", "--quiet"]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "error: the result could not be written: No space left on device\n"


def test_a_mistake_is_a_mistake_even_where_it_cannot_be_told(config):
    command = [sys.executable, "-m", "septuagint.cli", "prepare", str(config), "--set", "vocabulary.siez=1"]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(command, stderr=full, check=False).returncode == 2


def test_what_a_terminal_cannot_show_is_escaped(config):
    command = [sys.executable, "-m", "septuagint.cli", "config", str(config), "--set", "data.folder=日本"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    assert "\\u65e5" in result.stdout


def test_what_a_filter_dropped_can_be_shown(config):
    source = config.with_name("text.en")
    source.write_text(source.read_text(encoding="utf-8").replace("the house", "", 1), encoding="utf-8")
    with source.open("a", encoding="utf-8") as file:
        file.write("[bold]same[/bold] text\n")
    with config.with_name("text.de").open("a", encoding="utf-8") as file:
        file.write("[bold]same[/bold] text\n")
    result = septuagint("prepare", config, "--examples")
    assert "copied_source (text line" in result.stdout
    assert "[bold]same[/bold] text" in result.stdout
