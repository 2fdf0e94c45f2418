"""The demo as a newcomer runs it: text, vocabulary, network and score in one go, and nothing twice."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from septuagint.inference.artifact import read_manifest
from septuagint.telemetry.events import read_events, record_path


def septuagint(folder: Path, verb: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "septuagint.cli", verb, "--quiet", *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def attempts(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "runs/demo/environment.json").read_bytes())["attempts"]
    return found


def check_time_is_named(run: Path) -> None:
    """Law 5: what is measured on its own covers the steps, and the record covers the attempt."""
    record = list(read_events(record_path(run, 0)))
    splits = [event for event in record if event["event"] == "steps"]
    wall, rest = (sum(sum(split[name]) for split in splits) for name in ("wall", "rest"))
    assert rest < 0.05 * wall
    outside = sum(sum(split["outside_seconds"].values()) for split in splits)
    assert wall + outside == pytest.approx(splits[-1]["time"] - record[0]["time"], rel=0.01)


@pytest.mark.slow
def test_the_demo_learns_its_grammar_and_a_second_run_finds_nothing_to_do(tmp_path):
    folder = tmp_path / "a folder of my own"
    folder.mkdir()
    first = json.loads(septuagint(folder, "demo", "--json"))
    (test,) = first["tests"]
    assert test["bleu"] >= 85
    assert test["num_lines"] == 500
    assert test["bleu_signature"].startswith("nrefs:1|case:mixed|")
    assert len(test["samples"]) == 5
    begin = time.monotonic()
    again = json.loads(septuagint(folder, "demo", "--json"))
    assert time.monotonic() - begin < 20
    assert again["training"]["was_finished"]
    assert again["tests"] == first["tests"]
    assert "(nothing was left to do)" in septuagint(folder, "demo")
    check_time_is_named(folder / "runs/demo")
    (attempt,) = attempts(folder)
    assert attempt["outcome"] == "max_steps"
    assert read_manifest(folder / "runs/demo/artifact").kind == "ctranslate2"
    translations = septuagint(folder, "translate", "runs/demo", "data/demo/test.en").splitlines()
    assert len(translations) == 500
    assert translations[::100] == [translation for _, _, translation in test["samples"]]
