"""The recipe of the strongest model is a script that anyone can run, and run again."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from septuagint.data.files import hash_file
from septuagint.data.manifest import read_manifest
from septuagint.inference.artifact import Artifact
from septuagint.telemetry.events import read_events, record_path
from tests.guides import write_project

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(*command: object) -> str:
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(command: list[object]) -> dict[str, Any]:
    """What the script told in a file."""
    run(*command)
    told: dict[str, Any] = json.loads(Path(str(command[command.index("--json") + 1])).read_bytes())
    return told


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """With text to test on, prepared."""
    folder = tmp_path / "my project"
    folder.mkdir()
    write_project(folder, max_steps=20)
    with (folder / "news.toml").open("a", encoding="utf-8") as file:
        file.write('[[data.test]]\nsource = "test.en"\ntarget = "test.de"\n')
    run("-m", "septuagint.cli", "prepare", folder / "news.toml")
    return folder


@pytest.mark.slow
def test_a_network_goes_on_from_its_own_weights(project, tmp_path):
    folder = tmp_path / "strong"
    command = [BENCHMARKS / "strongest.py", project / "news.toml", "--folder", folder, "--json", tmp_path / "told.json"]
    command += ["--finished", "training.max_steps=40"]
    told = build(command)
    assert {name: part["validations"][-1]["step"] for name, part in told["parts"].items()} == {
        "forward": 20,
        "finished": 40,
    }
    (attempt,) = (event for event in read_events(record_path(folder / "finished", 0)) if event["event"] == "attempt")
    assert attempt["settings"]["training"]["init_from"] == str(folder / "forward")
    found = {name: part["validation_bleu"] for name, part in told["parts"].items()}
    assert found[told["strongest"]] == max(found.values()) == told["runs"][0]["validation_bleu"]
    weights = hash_file(folder / told["strongest"] / "best/model.safetensors")
    assert Artifact(folder / "artifact").manifest.origin.weights_sha256 == weights
    assert not (folder / "text").exists()


@pytest.mark.slow
def test_a_network_learns_both_directions_and_is_finished_in_one(project, tmp_path):
    folder = tmp_path / "strong"
    command = [BENCHMARKS / "strongest.py", project / "news.toml", "--folder", folder, "--json", tmp_path / "told.json"]
    command += ["--beside", "turned"]
    command += ["--both", "training.max_steps=10", "--finished", "training.max_steps=40"]
    first = build(command)
    last_steps = {name: part["validations"][-1]["step"] for name, part in first["parts"].items()}
    assert last_steps == {"forward": 20, "both": 10, "finished": 40}
    (attempt,) = (event for event in read_events(record_path(folder / "finished", 0)) if event["event"] == "attempt")
    assert attempt["settings"]["training"]["init_from"] == str(folder / "both")

    # Each corpus stands there twice, whole, the second time with its sides exchanged.
    own, both = read_manifest(project / "data/news"), read_manifest(folder / "both-data")
    sides = [(corpus.name, corpus.source.tokens, corpus.target.tokens) for corpus in own.train]
    turned = [(f"turned-{name}", target, source) for name, source, target in sides]
    assert [(corpus.name, corpus.source.tokens, corpus.target.tokens) for corpus in both.train] == [*sides, *turned]
    assert both.vocabulary.file.sha256 == own.vocabulary.file.sha256
    assert (both.source_language, both.target_language) == ("en", "de")
    finished = read_manifest(Path(tomllib.loads((folder / "finished/config.toml").read_text())["data"]["folder"]))
    assert finished.fingerprint == own.fingerprint

    # The card says where the weights come from.
    found = {name: part["validation_bleu"] for name, part in first["parts"].items()}
    assert found[first["strongest"]] == max(found.values())
    run("-m", "septuagint.cli", "export", folder / "finished", "--to", tmp_path / "exported")
    card = (tmp_path / "exported/README.md").read_text(encoding="utf-8")
    assert "- Begun with: the weights of both, trained before\n- Training: 40 steps" in card

    # Nothing is done twice.
    weights = [hash_file(folder / name / "best/model.safetensors") for name in first["parts"]]
    assert build(command)["runs"] == first["runs"]
    assert [hash_file(folder / name / "best/model.safetensors") for name in first["parts"]] == weights


@pytest.mark.slow
def test_a_student_learns_from_the_text_and_from_what_two_teachers_say_of_it(project, tmp_path):
    folder, told = tmp_path / "strong", tmp_path / "told.json"
    command = [BENCHMARKS / "strongest.py", project / "news.toml", "--folder", folder, "--json", told]
    command += ["--beside", "translations"]
    command += ["--backward", "training.max_steps=10", "--finished", "training.max_steps=5"]
    first = build(command)
    own = read_manifest(project / "data/news")
    num_pairs = sum(corpus.pairs for corpus in own.train)
    assert [(name, found["lines"]) for name, found in first["said"].items()] == [
        ("forward", num_pairs),
        ("backward", num_pairs),
    ]
    last_steps = {name: part["validations"][-1]["step"] for name, part in first["parts"].items()}
    assert last_steps == {"backward": 10, "forward": 20, "student": 20, "finished": 5}
    (attempt,) = (event for event in read_events(record_path(folder / "finished", 0)) if event["event"] == "attempt")
    assert attempt["settings"]["training"]["init_from"] == str(folder / "student")

    # Validation alone decides which model is translated with.
    found = {name: part["validation_bleu"] for name, part in first["parts"].items() if name != "backward"}
    assert found[first["strongest"]] == max(found.values()) == first["runs"][0]["validation_bleu"]

    # What a teacher says stands beside what it was told, line by line, and the student learns from all of it.
    names = [corpus.name for corpus in own.train]
    student = read_manifest(folder / "student-data")
    assert [corpus.name for corpus in student.train] == [
        *names,
        *(f"forward-{name}" for name in names),
        *(f"backward-{name}" for name in names),
    ]
    (forward,), (backward,) = (list((folder / "said").glob(f"{teacher}-*")) for teacher in ("forward", "backward"))
    for name in names:
        sides = [folder / f"text/{own.fingerprint[:12]}/train.{name}.{side}" for side in ("source", "target")]
        said = [forward / f"{name}.target", backward / f"{name}.source"]
        assert len({len(path.read_text(encoding="utf-8").splitlines()) for path in (*sides, *said)}) == 1
    assert student.vocabulary.file.sha256 == own.vocabulary.file.sha256
    swapped = read_manifest(folder / "backward-data")
    assert [(corpus.source.tokens, corpus.target.tokens) for corpus in swapped.train] == [
        (corpus.target.tokens, corpus.source.tokens) for corpus in own.train
    ]

    # The strongest is an artifact, which says what the checkpoint says.
    artifact = Artifact(folder / "artifact")
    strongest = hash_file(folder / first["strongest"] / "best/model.safetensors")
    assert artifact.manifest.origin.weights_sha256 == strongest
    assert artifact.manifest.name == "news"
    scores = first["artifact"]["checks"]["test_sets"]["scores"]
    assert scores.keys() == first["runs"][0]["scores"].keys()
    card = (folder / "artifact/README.md").read_text(encoding="utf-8")
    assert all(f"| {name} | {found['num_lines']:,} | " in card for name, found in scores.items())

    # Nothing is done twice.
    made = (folder / "artifact/artifact.json").stat()
    weights = [hash_file(folder / name / "best/model.safetensors") for name in first["parts"]]
    second = build(command)
    assert second["said"] == {}
    assert second["runs"] == first["runs"]
    assert (second["artifact"], (folder / "artifact/artifact.json").stat()) == (first["artifact"], made)
    assert [hash_file(folder / name / "best/model.safetensors") for name in second["parts"]] == weights
    assert "BLEU" in run(BENCHMARKS / "results.py", "show", told)

    # A student of other text is not taken for one of this.
    command += ["--teacher-beams", "1", "--no-artifact"]
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "student: the training ended with exit code 2" in done.stderr
    assert "the data folder was prepared anew from other text" in done.stderr


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["results.py", "train", "news.toml", "--beams", "0"], "argument --beams: 0: must be 1 or more"),
        (["results.py", "train", "news.toml", "--json", "no/x"], "argument --json: no/x: there is no folder"),
        (["results.py", "show", "no.json"], "error: no.json: cannot be shown: No such file or directory"),
        (["results.py", "show", "news.toml"], "error: news.toml: cannot be shown: not what `--json` wrote"),
        (["results.py", "show", "."], "error: .: cannot be shown: Is a directory"),
        (["strongest.py", "--folder", "unused", "--json", "no/x", "news.toml"], "argument --json: no/x: there is no"),
        (
            ["strongest.py", "--folder", "unused", "--student", "training.max_steps=5", "--", "news.toml"],
            "--student goes with --beside translations",
        ),
        (
            ["strongest.py", "--folder", "unused", "--beside", "translations", "--both", "a=b", "--", "news.toml"],
            "--both goes with --beside turned",
        ),
        (
            ["strongest.py", "--folder", "unused", "--teacher-beams", "4", "news.toml"],
            "--teacher-beams goes with --beside translations",
        ),
    ],
)
def test_mistakes_are_told_before_any_work(tmp_path, command, problem):
    (tmp_path / "news.toml").write_text("[data]\n", encoding="utf-8")
    script, *options = command
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert problem in done.stderr.splitlines()[-1]


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
    assert done.returncode == 2
    assert done.stderr == "error: news.toml: has no test sets; add [[data.test]], and prepare again\n"
    assert not (tmp_path / "unused").exists()
