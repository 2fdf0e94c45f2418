"""How fast a preset translates is known before anything is trained."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides import write_project

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "presets.py"


def run(*command: object, expected: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stderr
    return done


@pytest.mark.slow
def test_presets_are_compared_on_the_lines_of_a_test_set(tmp_path):
    write_project(tmp_path)
    config, told = tmp_path / "news.toml", tmp_path / "told.json"
    run("-m", "septuagint.cli", "prepare", config)
    refused = run(SCRIPT, config, expected=2).stderr
    assert (
        refused
        == f"error: {tmp_path / 'data/news'}: was prepared without test sets; add [[data.test]] and prepare again\n"
    )
    with config.open("a", encoding="utf-8") as file:
        file.write('[[data.test]]\nsource = "test.en"\ntarget = "test.de"\n')
    run("-m", "septuagint.cli", "prepare", config)
    shown = run(SCRIPT, config, "--presets", "modern", "fast", "--lines", 8, "--rounds", 2, "--json", told).stdout
    results = {result["preset"]: result for result in json.loads(told.read_bytes())}
    assert list(results) == ["modern", "fast"]
    for name, result in results.items():
        # int8: a byte for a weight, and some for scales, biases and pieces.
        assert 1.0 <= result["num_bytes"] / result["num_parameters"] < 1.1
        assert len(result["tokens_per_second"]) == 2
        assert f"\n{name} " in shown
    assert run(SCRIPT, config, "--text", "news", expected=2).stderr == (
        f"error: --text news: the test sets of {tmp_path / 'data/news'} are test\n"
    )
