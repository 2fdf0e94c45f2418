"""Accidents, one at a time: nothing before the last checkpoint is lost, nobody waits in silence, the end is the same.

Every run folder, and every data folder, is a host's own, unless the test says "shared".
"""

import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from septuagint.telemetry.events import record_path
from septuagint.training.checkpoint import find_checkpoints
from tests.conftest import need_tool
from tests.distributed import scenarios
from tests.distributed.faulty import SLOW_SECONDS
from tests.distributed.scenarios import (
    CHECKPOINT_EVERY,
    DISTURBED_STEP,
    MAX_STEPS,
    TIMEOUT_SECONDS,
    Disks,
    Result,
    Trial,
    make_project,
    open_trial,
    undisturbed,
)
from tests.distributed.testbed import Host

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hosts_possible")]

both_disks = pytest.mark.parametrize("disks", ["own", "shared"])
# Processes that have to notice, to say so and to leave, on a machine that is busy with other things.
SLACK_SECONDS = 30.0

OpenTrial = Callable[..., Trial]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("faults") / "project")


@pytest.fixture(scope="module")
def expected(project: Path) -> tuple[str, dict[int, float]]:
    """The hash, and the loss of each step, of two ranks that nothing happens to."""
    return undisturbed(project, project.parent)


@pytest.fixture
def start(project: Path, tmp_path: Path) -> Iterator[OpenTrial]:
    """Builds the hosts of a trial, which last as long as the test."""
    with contextlib.ExitStack() as stack:
        yield lambda disks="own", **settings: stack.enter_context(
            open_trial(project, tmp_path / "trial", disks, **settings)
        )


def assert_same_batches(result: Result, losses: dict[int, float]) -> None:
    """Every step was made, and of the same sentences, whatever the number of ranks."""
    found = result.losses
    assert sorted(found) == list(range(1, len(found) + 1))
    assert {step: found[step] for step in losses} == pytest.approx(losses, rel=1e-3)


def assert_disks_equal(trial: Trial) -> None:
    """Checkpoints, the link to the best, the record and the list of attempts."""
    first, second = (_describe(trial, host) for host in (trial.alpha, trial.beta))
    assert first == second


def _describe(trial: Trial, host: Host) -> dict[str, object]:
    run = trial.folder_of(host)
    files = [*run.glob("checkpoints/*/*"), *(record_path(run, rank) for rank in (0, 1))]
    attempts = trial.attempts(host)
    del attempts[-1]["end"]  # each host looks at its own clock
    return {
        "best": (run / "best").readlink(),
        "attempts": attempts,
        **{str(path.relative_to(run)): path.read_bytes() for path in files},
    }


@both_disks
def test_killed_rank_is_started_again_and_nothing_differs(
    start: OpenTrial, expected: tuple[str, dict[int, float]], disks: Disks
) -> None:
    trial = start(disks)
    result = scenarios.kill_rank(trial)
    assert result.hash == expected[0]
    assert result.world_sizes == [2, 2]
    assert result.steps_redone < CHECKPOINT_EVERY
    assert "rank 1 on beta" in result.output
    assert result.detected_seconds is not None and result.detected_seconds < TIMEOUT_SECONDS + SLACK_SECONDS
    assert trial.end(trial.beta) == result.hash


@both_disks
def test_run_goes_on_smaller_when_a_host_loses_power(
    start: OpenTrial, expected: tuple[str, dict[int, float]], disks: Disks
) -> None:
    result = scenarios.kill_host(start(disks))
    assert result.world_sizes == [2, 1]
    assert result.steps_redone < CHECKPOINT_EVERY
    assert "rank 1 on beta" in result.output
    assert result.detected_seconds is not None and result.detected_seconds < TIMEOUT_SECONDS + SLACK_SECONDS
    assert_same_batches(result, expected[1])


@both_disks
def test_run_grows_without_losing_a_step_when_a_host_returns(
    start: OpenTrial, expected: tuple[str, dict[int, float]], disks: Disks
) -> None:
    trial = start(disks, max_steps=120)
    result = scenarios.host_returns(trial)
    assert result.world_sizes == [2, 1, 2]
    alone, together = result.attempts[1:]
    assert alone["outcome"] == "signal"
    assert together["start_step"] == alone["end_step"] > alone["start_step"]
    assert result.steps_redone == 0
    assert_same_batches(result, expected[1])
    assert trial.end(trial.beta) == result.hash
    if disks == "own":
        assert_disks_equal(trial)


def test_rank_does_not_outlive_its_launcher(start: OpenTrial, expected: tuple[str, dict[int, float]]) -> None:
    result = scenarios.kill_launcher(start())
    assert result.hash == expected[0]
    assert result.world_sizes == [2, 2]
    assert result.steps_redone == 0  # it saved


def test_short_cut_of_the_link_is_sat_out(start: OpenTrial, expected: tuple[str, dict[int, float]]) -> None:
    result = scenarios.cut_link_briefly(start())
    assert result.hash == expected[0]
    assert result.world_sizes == [2]
    assert result.detected_seconds is None
    assert result.resumed_seconds > 4  # there was a cut


def test_long_cut_of_the_link_ends_in_a_clean_stop_and_a_new_start(
    start: OpenTrial, expected: tuple[str, dict[int, float]]
) -> None:
    trial = start()
    result = scenarios.cut_link_for_long(trial)
    assert result.hash == expected[0]
    assert result.world_sizes == [2, 2]
    assert result.steps_redone < CHECKPOINT_EVERY
    assert "rank 0 on alpha stopped at step" in result.output and "rank 1 on beta (last heard of" in result.output
    assert "rank 1 on beta stopped at step" in result.output and "no word from rank 0 on alpha" in result.output
    assert result.detected_seconds is not None and result.detected_seconds < TIMEOUT_SECONDS + SLACK_SECONDS
    assert_disks_equal(trial)


def test_job_of_mpirun_ends_with_its_rank_and_the_same_command_goes_on(
    start: OpenTrial, expected: tuple[str, dict[int, float]]
) -> None:
    need_tool("mpirun")
    result = scenarios.kill_rank_under_mpirun(start())
    assert result.hash == expected[0]
    assert result.world_sizes == [2, 2]
    assert result.steps_redone < CHECKPOINT_EVERY
    assert result.detected_seconds is not None and result.detected_seconds < TIMEOUT_SECONDS + SLACK_SECONDS


def test_killed_worker_is_started_again_by_its_parent(start: OpenTrial, expected: tuple[str, dict[int, float]]) -> None:
    result = scenarios.kill_worker(start())
    assert result.hash == expected[0]
    assert result.world_sizes == [2, 2]
    assert "a rank was killed by SIGKILL; starting all 2 again" in result.output


def test_workers_save_and_leave_with_their_parent(start: OpenTrial, expected: tuple[str, dict[int, float]]) -> None:
    result = scenarios.kill_parent_of_workers(start())
    assert result.hash == expected[0]
    assert result.world_sizes == [2, 2]
    assert result.steps_redone == 0


def test_signal_to_one_rank_has_all_save_the_same_step(start: OpenTrial) -> None:
    need_tool("mpirun")
    trial = start()
    launcher = trial.mpirun()
    trial.wait_for_step(DISTURBED_STEP)
    trial.kill(1, signal.SIGTERM)
    assert trial.wait_for_exit([launcher]) == [128 + signal.SIGTERM], trial.output
    (attempt,) = trial.attempts()
    assert attempt["outcome"] == "signal"
    assert DISTURBED_STEP <= attempt["end_step"] < MAX_STEPS
    for host in (trial.alpha, trial.beta):
        assert find_checkpoints(trial.folder_of(host))[0][0] == attempt["end_step"]
    assert_disks_equal(trial)


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_new_machine_gets_everything_from_the_other(
    start: OpenTrial, expected: tuple[str, dict[int, float]], name: str
) -> None:
    need_tool("mpirun")
    trial = start()
    launcher = trial.mpirun()
    trial.wait_for_step(DISTURBED_STEP)
    trial.kill(1)
    assert trial.wait_for_exit([launcher]) != [0]
    _wipe(trial.folder_of(trial.testbed[name]))
    assert trial.wait_for_exit([trial.mpirun()]) == [0], trial.output
    for host in (trial.alpha, trial.beta):
        assert trial.end(host) == expected[0]
        assert [attempt["number"] for attempt in trial.attempts(host)] == [1, 2]
    assert_disks_equal(trial)
    assert {event["step"] for event in trial.events() if event["event"] == "train"} == set(range(1, MAX_STEPS + 1))


def _wipe(run: Path) -> None:
    for entry in run.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def faulty(trial: Trial, fault: str, *settings: str) -> list[str]:
    """The training, with a fault in one rank: see `faulty`."""
    sets = [f"--set=training.{setting}" for setting in settings]
    return [sys.executable, "-m", "tests.distributed.faulty", fault, *trial.arguments(*sets)]


def steps_of_checkpoints(trial: Trial, host: Host) -> list[int]:
    return [step for step, _ in find_checkpoints(trial.folder_of(host))]


@pytest.mark.parametrize(
    ("num_hosts", "log_every", "culprits"),
    [(3, 7, "rank 1 on beta drifted from the others"), (2, 1000, "rank 0 on alpha has .* rank 1 on beta has")],
    ids=["found by the log", "found before saving"],
)
def test_rank_that_drifts_is_named_and_not_saved(
    start: OpenTrial, num_hosts: int, log_every: int, culprits: str
) -> None:
    need_tool("mpirun")
    trial = start(num_hosts=num_hosts)
    launcher = trial.mpirun(faulty(trial, "flip@1:23", f"log_every={log_every}"))
    assert trial.wait_for_exit([launcher]) == [1], trial.output
    assert re.search(culprits, trial.output), trial.output
    for host in trial.testbed.hosts:
        assert steps_of_checkpoints(trial, host) == [20, 10]


def test_step_with_a_gradient_that_is_no_number_is_skipped_by_all(start: OpenTrial) -> None:
    need_tool("mpirun")
    trial = start()
    launcher = trial.mpirun(faulty(trial, "nan@1:23"))
    assert trial.wait_for_exit([launcher]) == [0], trial.output
    assert [event["step"] for event in trial.events() if event["event"] == "skipped"] == [23]
    assert trial.end(trial.alpha) == trial.end(trial.beta)


def test_rank_that_hangs_is_named_with_its_phase(start: OpenTrial) -> None:
    need_tool("mpirun")
    trial = start()
    launcher = trial.mpirun(faulty(trial, "hang@1:23", "timeout_minutes=0.1"))
    trial.wait_for_step(22)
    trial.begin_fault()
    assert trial.wait_for_exit([launcher]) == [75], trial.output
    assert "rank 0 on alpha stopped at step 23" in trial.output
    assert "at step 23, in phase data) is alive, but not where the others wait" in trial.output
    assert trial.detected_seconds is not None and trial.detected_seconds < TIMEOUT_SECONDS + SLACK_SECONDS
    stacks = (trial.folder_of(trial.alpha) / "stacks" / "attempt-1-rank-0.txt").read_text()
    assert "train_step" in stacks


def test_rank_that_stands_still_is_named(start: OpenTrial) -> None:
    need_tool("mpirun")
    trial = start()
    launcher = trial.mpirun(trial.command("--set=training.timeout_minutes=0.1"))
    trial.wait_for_step(DISTURBED_STEP)
    trial.begin_fault()
    trial.kill(1, signal.SIGSTOP)
    assert trial.wait_for_exit([launcher]) == [75], trial.output
    assert "rank 0 on alpha stopped at step" in trial.output and "rank 1 on beta (last heard of" in trial.output
    assert trial.detected_seconds is not None and trial.detected_seconds < TIMEOUT_SECONDS + SLACK_SECONDS
    assert (trial.folder_of(trial.alpha) / "stacks" / "attempt-1-rank-0.txt").exists()


def test_slow_validation_is_waited_for(start: OpenTrial, expected: tuple[str, dict[int, float]]) -> None:
    need_tool("mpirun")
    timeout_seconds = SLOW_SECONDS / 2
    trial = start()
    launcher = trial.mpirun(faulty(trial, "slow-validation@1:20", f"timeout_minutes={timeout_seconds / 60}"))
    assert trial.wait_for_exit([launcher]) == [0], trial.output
    (validation, *_) = [event for event in trial.events() if event["event"] == "validation"]
    assert validation["seconds"] > SLOW_SECONDS
    assert trial.end() == expected[0]


def test_full_disk_of_one_host_is_told_and_stops_nobody(
    start: OpenTrial, expected: tuple[str, dict[int, float]]
) -> None:
    need_tool("mpirun")
    trial = start()
    disk, filler = trial.beta, str(trial.run / "filler.tmp")
    disk.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(trial.run)]).check_returncode()
    launcher = trial.mpirun()
    trial.wait_for_step(21)
    free = os.statvfs(f"/proc/{disk.pids()[0]}/root{trial.run}")
    # A checkpoint, of 2 MB, has no room any more; lines of the record have.
    disk.run(["fallocate", "--length", str(free.f_bavail * free.f_frsize - 500_000), filler]).check_returncode()
    trial.wait_for_step(32)
    disk.run(["rm", filler]).check_returncode()
    assert trial.wait_for_exit([launcher]) == [0], trial.output
    assert "warning: rank 1 on beta: " in trial.output
    assert "the checkpoint of step 30 was not written: No space left on device" in trial.output
    assert trial.end() == expected[0]
    assert str(MAX_STEPS) in disk.run(["ls", str(trial.run / "checkpoints")]).stdout
