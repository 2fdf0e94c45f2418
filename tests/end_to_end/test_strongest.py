"""The recipe of the strongest model is a script that anyone can run, and run again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from septuagint.data.files import hash_file
from septuagint.data.manifest import read_manifest
from tests.guides import write_project

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(*command: object) -> str:
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_student_learns_from_the_text_and_from_what_two_teachers_say_of_it(tmp_path):
    project, folder, told = tmp_path / "my project", tmp_path / "strong", tmp_path / "told.json"
    project.mkdir()
    write_project(project, max_steps=20)
    with (project / "news.toml").open("a", encoding="utf-8") as file:
        file.write('[[data.test]]\nsource = "test.en"\ntarget = "test.de"\n')
    run("-m", "septuagint.cli", "prepare", project / "news.toml")

    def build() -> dict[str, Any]:
        options = ["--folder", folder, "--json", told, "--backward", "training.max_steps=10"]
        run(BENCHMARKS / "strongest.py", project / "news.toml", *options)
        result: dict[str, Any] = json.loads(told.read_bytes())
        return result

    first = build()
    own = read_manifest(project / "data/news")
    num_pairs = sum(corpus.pairs for corpus in own.train)
    assert [(name, found["lines"]) for name, found in first["said"].items()] == [
        ("forward", num_pairs),
        ("backward", num_pairs),
    ]
    last_steps = {name: part["validations"][-1]["step"] for name, part in first["parts"].items()}
    assert last_steps == {"backward": 10, "forward": 20, "student": 20}

    # Validation alone decides which model is translated with.
    found = {name: first["parts"][name]["validation_bleu"] for name in ("forward", "student")}
    assert found[first["strongest"]] == max(found.values()) == first["runs"][0]["validation_bleu"]

    # What a teacher says stands beside what it was told, line by line, and the student learns from all of it.
    names = [corpus.name for corpus in own.train]
    student = read_manifest(folder / "student-data")
    assert [corpus.name for corpus in student.train] == [
        *names,
        *(f"forward-{name}" for name in names),
        *(f"backward-{name}" for name in names),
    ]
    for name in names:
        lengths = {
            len((folder / path).read_text(encoding="utf-8").splitlines())
            for path in (
                f"text/train.{name}.source",
                f"text/train.{name}.target",
                f"said/forward-{name}.target",
                f"said/backward-{name}.source",
            )
        }
        assert len(lengths) == 1
    assert student.vocabulary.file.sha256 == own.vocabulary.file.sha256
    backward = read_manifest(folder / "backward-data")
    assert [(corpus.source.tokens, corpus.target.tokens) for corpus in backward.train] == [
        (corpus.target.tokens, corpus.source.tokens) for corpus in own.train
    ]

    # Nothing is done twice.
    weights = [hash_file(folder / name / "best/model.safetensors") for name in first["parts"]]
    second = build()
    assert second["said"] == {}
    assert second["runs"] == first["runs"]
    assert [hash_file(folder / name / "best/model.safetensors") for name in second["parts"]] == weights
    assert "BLEU" in run(BENCHMARKS / "results.py", "show", told)


@pytest.mark.parametrize("command", [["results.py", "train"], ["strongest.py", "--folder", "unused"]])
def test_text_without_test_sets_is_refused_before_anything_is_trained(tmp_path, command):
    write_project(tmp_path)
    run("-m", "septuagint.cli", "prepare", tmp_path / "news.toml")
    script, *options = command
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *options, "news.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "news.toml: has no test sets; add [[data.test]], and prepare again\n"
    assert not (tmp_path / "unused").exists()
