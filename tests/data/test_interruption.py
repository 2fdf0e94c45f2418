"""Kill a preparation at any moment, run it again, and the result is that of an undisturbed one."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.data.conftest import Project, folder_content

NUM_LINES = 60_000  # three parts, and about two seconds on two processes
STOPPED = "stopped; run the same command again to go on"


class Undisturbed:
    """A finished preparation, how long it took, and copies of its project to disturb."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._monkeypatch = monkeypatch
        project = self.project("undisturbed")
        start = time.monotonic()
        subprocess.run(command_line(project), check=True)
        self.seconds = time.monotonic() - start
        self.content = folder_content(project.folder)

    def project(self, name: str) -> Project:
        project = Project(self._root / name / "project", self._monkeypatch)
        project.add_text("one", NUM_LINES)
        project.add_text("test", 50, seed=2, split="test")
        return project


def command_line(project: Project) -> list[str]:
    return [*project.command_line("-q"), "--workers", "2"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Undisturbed(tmp_path_factory.mktemp("interruption"), monkeypatch)


def kill_after(project: Project, seconds: float) -> None:
    """Kills the program without warning, and sees to it that its workers end as well."""
    process = subprocess.Popen(command_line(project), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(family, timeout=5)
        for survivor in alive:
            survivor.kill()
        assert not alive


def wait_until_cleaned(project: Project) -> None:
    """Until the program is in the middle of its work, however busy the machine is."""
    deadline = time.monotonic() + 20
    while not (project.folder / "work" / "clean" / "train-one" / "00000.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def finish(project: Project) -> dict[str, bytes]:
    subprocess.run(command_line(project), check=True, stdout=subprocess.DEVNULL)
    return folder_content(project.folder)


def test_a_preparation_killed_twice_ends_as_an_undisturbed_one(undisturbed):
    project = undisturbed.project("twice")
    for share in (0.45, 0.75):
        kill_after(project, share * undisturbed.seconds)
    assert finish(project) == undisturbed.content


@pytest.mark.slow
def test_a_preparation_killed_at_any_moment_ends_as_an_undisturbed_one(undisturbed):
    generator = random.Random(72)
    for number in range(10):
        project = undisturbed.project(f"any{number}")
        kill_after(project, generator.uniform(0, undisturbed.seconds))
        assert finish(project) == undisturbed.content


@pytest.mark.slow
def test_a_preparation_killed_again_and_again_ends_as_an_undisturbed_one(undisturbed):
    generator = random.Random(70)
    project = undisturbed.project("again")
    for _ in range(10):
        kill_after(project, generator.uniform(0.2, 1) * undisturbed.seconds)
    assert finish(project) == undisturbed.content


@pytest.mark.slow
def test_mending_killed_at_any_moment_ends_as_an_undisturbed_one(undisturbed):
    """A finished folder is damaged, and the run that mends it is killed."""
    generator = random.Random(71)
    project = undisturbed.project("mending")
    for _ in range(5):
        finish(project)
        next(project.folder.rglob("source.ids")).write_bytes(b"damaged")
        kill_after(project, generator.uniform(0.2, 1) * undisturbed.seconds)
        assert finish(project) == undisturbed.content


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stops_with_a_short_message_and_the_next_run_goes_on(undisturbed, number, code):
    project = undisturbed.project(f"signal{code}")
    process = subprocess.Popen(command_line(project), stderr=subprocess.PIPE, text=True)
    wait_until_cleaned(project)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, said = process.communicate(timeout=10)
    assert (process.returncode, said.strip()) == (code, STOPPED)
    assert not psutil.wait_procs(family, timeout=5)[1]
    assert finish(project) == undisturbed.content


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.2, 0.4])
def test_an_interrupt_from_the_keyboard_leaves_no_traceback_of_any_process(undisturbed, delay):
    """Ctrl-C goes to the whole group, also to workers that have only begun to start."""
    project = undisturbed.project(f"keyboard{delay}")
    process = subprocess.Popen(command_line(project), stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not any("spawn_main" in " ".join(child.cmdline()) for child in psutil.Process(process.pid).children()):
        time.sleep(0.005)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert (process.returncode, said.strip()) == (130, STOPPED)


def test_an_impatient_second_signal_leaves_no_traceback(undisturbed):
    project = undisturbed.project("impatient")
    process = subprocess.Popen(command_line(project), stderr=subprocess.PIPE, text=True)
    wait_until_cleaned(project)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, said = process.communicate(timeout=10)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in said
