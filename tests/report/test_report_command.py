"""`septuagint report`, and the report that every training leaves behind."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training import conftest
from tests.training.conftest import Tiny

prepared, tiny, one_thread, undisturbed = conftest.prepared, conftest.tiny, conftest.one_thread, conftest.undisturbed

IDS = (
    "duration fully_trained overfitting gpus_used network_bottleneck learning_rate training_set checkpoint_files "
    "checkpoint_size step_time step_time_and_traffic bottleneck incidents"
).split()


def report(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "septuagint.cli", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def written(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_bytes())
    return found


def test_a_training_leaves_its_report_and_shows_the_verdicts(tiny: Tiny):
    program = tiny.command(options=("--quiet",))
    assert program.exit_code == 0, program.stderr
    run = tiny.run_path("run")
    assert {path.name for path in run.glob("report.*")} == {"report.html", "report.md", "report.json"}
    assert [answer["id"] for answer in written(run)["answers"]] == IDS
    assert f"report: {run / 'report.html'}" in program.stdout
    assert re.search(r"^What was the bottleneck\? +\w+$", program.stdout, flags=re.MULTILINE)


def test_json_on_standard_output_stays_json(tiny: Tiny):
    program = tiny.command(options=("--quiet", "--json"))
    assert json.loads(program.stdout)["reason"] == "max_steps"
    assert written(tiny.run_path("run"))["is_finished"]


def test_a_finished_run_keeps_the_report_that_it_has(tiny: Tiny):
    tiny.command()
    before = tiny.content()
    assert tiny.command().exit_code == 0
    assert tiny.content() == before


def test_a_training_that_fails_leaves_a_report_of_it(tiny: Tiny):
    program = tiny.command("training.learning_rate=1e30", "training.max_steps=200", "training.warmup_steps=1")
    assert program.exit_code == 2
    found = written(tiny.run_path("run"))
    assert not found["is_finished"]
    incidents = next(answer for answer in found["answers"] if answer["id"] == "incidents")
    assert "skipped" in incidents["sentence"]


def test_a_mistake_before_the_first_attempt_leaves_no_report(tiny: Tiny):
    assert tiny.command("data.folder=/nowhere").exit_code == 2
    assert not tiny.run_path("run").exists() or not list(tiny.run_path("run").glob("report.*"))


def test_a_training_that_is_refused_leaves_the_run_as_it_was(tiny: Tiny):
    tiny.train()
    before = tiny.content()
    assert tiny.command("training.learning_rate=0.5", "training.max_steps=20").exit_code == 2
    assert tiny.content() == before


def test_a_stopped_training_has_a_report(tiny: Tiny):
    program = tiny.start("training.max_steps=100000")
    program.wait_until(lambda: tiny.events(kind="train"))
    running = report(tiny.run_path("run"), "--json")
    assert running.returncode == 0, running.stderr
    assert json.loads(running.stdout)["is_running"]
    program.signal(signal.SIGTERM)
    assert program.wait() == 128 + signal.SIGTERM
    found = written(tiny.run_path("run"))
    assert (found["is_finished"], found["is_running"]) == (False, False)


def test_the_mirror_has_the_report(tiny: Tiny, tmp_path: Path):
    tiny.command(f"training.mirror={tmp_path / 'mirror'}")
    own, copy = tiny.run_path("run") / "report.html", tmp_path / "mirror" / "report.html"
    assert own.read_bytes() == copy.read_bytes()


def test_the_report_answers_on_the_screen_within_80_columns(undisturbed: Tiny, tmp_path: Path):
    result = report(undisturbed.run_path("run"), "--to", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if not line.startswith(str(tmp_path))) <= 80
    assert result.stdout.count("?") >= len(IDS)
    assert lines[-3:] == [str(tmp_path / name) for name in ("report.html", "report.md", "report.json")]


def test_several_runs_are_set_side_by_side(undisturbed: Tiny, tmp_path: Path):
    tiny = Tiny(tmp_path, undisturbed.config_path)
    tiny.train("training.max_steps=6", run="other")
    runs = undisturbed.run_path("run"), tiny.run_path("other")
    result = report(*runs, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    comparison = json.loads((tmp_path / "comparison.json").read_bytes())
    assert len(comparison["runs"]) == 2
    assert "max_steps" in str(comparison["differences"])


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_what_is_no_run_is_refused_with_a_sentence(tmp_path: Path, name: str):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("a file")
    result = report(tmp_path / name)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and name in result.stderr
    assert "Traceback" not in result.stderr


def test_the_report_needs_no_torch(undisturbed: Tiny, tmp_path: Path):
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from septuagint.cli import main\n"
        f"sys.argv = ['septuagint', 'report', {str(undisturbed.run_path('run'))!r}, '--to', {str(tmp_path)!r}]\n"
        "main()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
