"""Every script that figures come from runs, also where nobody has measured for a while.

Here they only have to do their work on a small project; what has tests of its own is not repeated: presets.py,
strongest.py, scaling.py and kill_and_resume.py. faults.py plays the scenarios that tests/distributed plays.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.guides import write_project

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared and trained, with text to test on."""
    folder = tmp_path_factory.mktemp("a project")
    write_project(folder)
    with (folder / "news.toml").open("a", encoding="utf-8") as file:
        file.write('[[data.test]]\nsource = "test.en"\ntarget = "test.de"\n')
    for verb in ("prepare", "train"):
        call(folder, "-m", "septuagint.cli", verb, "news.toml")
    return folder


def call(folder: Path, *command: object, expected: int = 0) -> str:
    """What it shows; of a mistake, what it says."""
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == expected, done.stderr
    return done.stderr if expected else done.stdout


def measure(project: Path, script: str, *arguments: object) -> str:
    return call(project, BENCHMARKS / script, *arguments)


def numbers(pattern: str, shown: str) -> list[float]:
    """The groups of the one place in the text that looks so."""
    (found,) = re.findall(pattern, shown)
    return [float(number.replace(",", "")) for number in ([found] if isinstance(found, str) else found)]


def test_preparation_is_measured_on_given_text_as_on_the_demo(project):
    small = ["--pairs", 500, "--memory-pairs", 400, 800, "--repeats", 1]
    for given in ([], ["--source", "train.en", "--target", "train.de"]):
        found: dict[str, Any] = json.loads(measure(project, "prepare.py", *small, *given))
        assert found["pairs"] == 500
        assert [row["pairs"] for row in found["memory"]] == [400, 800]
    told = call(project, BENCHMARKS / "prepare.py", "--source", "train.en", expected=2)
    assert told.endswith("error: --source and --target go together, as often the one as the other\n")


def test_vocabularies_are_compared(project):
    shown = measure(project, "vocabulary.py", "train.en", "train.de", "--size", 400, "--rounds", 1)
    assert "760 lines to learn from, 40 held out" in shown
    pieces = {name: numbers(rf"(?m)^{name} +([\d,]+) ", shown)[0] for name in ("sentences", "words", "words, seeds")}
    assert len(set(pieces.values())) < 3 or max(pieces.values()) < 1.1 * min(pieces.values())


def test_packs_are_filled(project):
    shown = measure(project, "packing.py", "news.toml", "--budgets", 128, "--blocks", 1)
    assert numbers(r" 128 +[\d,]+ +([\d.]+)% +([\d.]+)% ", shown)[1] > 95


def test_what_watches_a_step_is_timed(project):
    assert numbers(
        r"of a step of 50 ms with a line every 1?0?0 steps: ([\d.]+)%", measure(project, "record.py", "--events", 3)
    )
    shown = measure(project, "stopwatch.py", "news.toml", "--steps", 3, "--rounds", 2)
    assert 0.2 < numbers(r"with / without: ([\d.]+) ", shown)[0] < 5


def test_steps_are_timed_beside_another_implementation(project):
    small = ["--device", "cpu", "--steps", 2, "--rounds", 2, "--warmup", 1, "--marian", "--budgets", 256, "--json"]
    rows = json.loads(measure(project, "train_step.py", "news.toml", *small))["rows"]
    assert [row["name"] for row in rows] == ["base", "base: marian", "256 target tokens"]


def test_optimizers_race(project):
    rates = ["--rates", "adamw=0.005,0.01", "muon=0.01"]
    small = ["--steps", 20, "--validate-every", 10, "--seeds", 1, 2, "--json", "muon.json"]
    small += ["--set", "training.warmup_steps=5"]
    shown = measure(project, "muon.py", "news.toml", *small, *rates)
    assert "muon / adamw" in shown
    assert len(json.loads((project / "muon.json").read_bytes())["runs"]) == 5
    assert measure(project, "muon.py", "news.toml", *small, *rates) == shown  # nothing is made again


def test_losses_of_two_paths_are_compared(project):
    paths = ["--path", "one=", "two=training.learning_rate=0.02"]
    shown = measure(project, "curves.py", "loss", "news.toml", "--steps", 10, "--seeds", 1, *paths, "--svg", "loss.svg")
    assert "final validation loss" in shown
    assert (project / "loss.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_recipe_is_trained_and_shown(project):
    train = ["train", "news.toml", "--seeds", 1, 2, "--set", "training.max_steps=10", "--translations", "translated"]
    measure(project, "results.py", *train, "--json", "results.json")
    shown = measure(project, "results.py", "show", "results.json", "--markdown", "--svg", "bleu.svg")
    assert re.search(r"(?m)^\| test \| 16 \| [\d.]+ \| [\d.]+-[\d.]+ \|", shown)
    assert len((project / "translated/test.2.txt").read_text(encoding="utf-8").splitlines()) == 16
    assert measure(project, "scoring.py", "translated/test.1.txt", "test.de", "--rounds", 1).startswith("16 lines, ")


def test_all_forms_of_a_model_translate(project):
    shown = measure(project, "agreement.py", "runs/news", "--source", "test.en", "--lines", 8)
    differing = dict(re.findall(r"(?m)^(beam \d, [^:]+): (\d+) of 8 lines differ$", shown))
    assert len(differing) == 6
    # The others cut off what does not end at lengths of their own, and so young a model does not always come to an end.
    assert differing["beam 1, CTranslate2"] == differing["beam 4, CTranslate2"] == "0"
    shown = measure(project, "long_text.py", "runs/news", "--source", "test.en", "--lines", 200)
    assert "20 lines in, 20 out, 0 not as on their own" in shown
    assert "200 lines in, 200 out, 0 not as on their own" in shown


def test_engines_take_turns(project):
    text = ["--source", "test.en", "--reference", "test.de", "--lines", 8]
    found = json.loads(measure(project, "translate.py", "runs/news", *text, "--rounds", 1, "--json"))
    assert {"torch", "translate int8", "huggingface"} <= found.keys()


def test_mistakes_are_told_in_one_line(project):
    for script, arguments, mistake in [
        ("packing.py", ["none.toml"], "none.toml"),
        ("stopwatch.py", ["none.toml"], "none.toml"),
        ("agreement.py", ["runs/none", "--source", "test.en"], "runs/none"),
        ("scoring.py", ["train.de", "test.de"], "train.de has 400 lines, but test.de has 16"),
        ("translate.py", ["runs/news", "--source", "train.en", "--reference", "test.de"], "test.de has 16"),
        ("long_text.py", ["runs/none", "--source", "test.en"], "runs/none"),
    ]:
        told = call(project, BENCHMARKS / script, *arguments, expected=2)
        assert "Traceback" not in told
        assert mistake in told
