"""The same training under every launcher and on any number of ranks: the same batches, and the same weights."""

import functools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from septuagint.data.files import hash_file
from septuagint.machine import available_cores
from septuagint.telemetry.events import Event, latest, read_events, record_path
from septuagint.training.checkpoint import checkpoint_path, find_checkpoints
from septuagint.training.run_folder import ENVIRONMENT
from tests.conftest import need_tool
from tests.distributed.conftest import BuildTestbed, wait_until_nothing_runs
from tests.distributed.slurm import SlurmCluster
from tests.distributed.testbed import Testbed
from tests.training import conftest
from tests.training.conftest import Tiny

prepared, tiny = conftest.prepared, conftest.tiny

MAX_STEPS = 20
# Four microbatches a step, for four ranks. Dropout is on: what it drops must not depend on who does the work.
SETTINGS = (
    "training.tokens_per_step=256",
    f"training.max_steps={MAX_STEPS}",
    "training.validate_every=10",
    "training.checkpoint_every=5",
    "training.log_every=1",
    "model.dropout=0.1",
)
# The number of threads has a say in the last digits.
OPTIONS = ("--quiet", "--threads", "1")
LAUNCHERS = ("torchrun", "openmpi", "mpich", "slurm")
PATIENCE_SECONDS = 240
# What changes with the number of ranks is the order of additions.
FLOAT_TOLERANCE = 1e-5

Trained = Callable[[int], Path]


def train_with_workers(tiny: Tiny, run: str, num_ranks: int, *overrides: str) -> Path:
    """`septuagint train --workers N`, to its end; the run folder."""
    workers = ("--workers", str(num_ranks)) if num_ranks > 1 else ()
    program = tiny.start(*SETTINGS, *overrides, run=run, options=(*OPTIONS, *workers))
    assert program.wait(timeout=PATIENCE_SECONDS) == 0, program.stderr
    return tiny.run_path(run)


@pytest.fixture(scope="module")
def trained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Undisturbed runs by their number of ranks, for reading only; each is made when it is first asked for."""
    undisturbed = Tiny(tmp_path_factory.mktemp("undisturbed"), prepared / "config.toml")
    return functools.cache(lambda num_ranks: train_with_workers(undisturbed, f"of-{num_ranks}", num_ranks))


def hashes(run: Path, step: int = MAX_STEPS) -> dict[str, str]:
    folder = checkpoint_path(run, step)
    return {name: hash_file(folder / name) for name in ("model.safetensors", "optimizer.safetensors")}


def places(run: Path) -> dict[int, dict[str, Any]]:
    """How far each regular checkpoint has come in the text."""
    names = ("cursor", "epochs", "num_pairs", "num_source_tokens", "num_target_tokens")
    states = {step: json.loads((path / "state.json").read_bytes()) for step, path in find_checkpoints(run)}
    return {step: {name: state[name] for name in names} for step, state in states.items() if step % 5 == 0}


def events(run: Path, kind: str, rank: int = 0) -> list[Event]:
    return [event for event in latest(read_events(record_path(run, rank))) if event["event"] == kind]


def losses(run: Path) -> list[float]:
    found = events(run, "train")
    assert [event["step"] for event in found] == list(range(1, len(found) + 1))
    return [event["loss_nats_per_token"] for event in found]


def scores(run: Path) -> list[list[float]]:
    names = ("step", "valid_loss_nats_per_token", "train_sample_loss_nats_per_token", "bleu", "chrf", "num_lines")
    return [[event[name] for name in names] for event in events(run, "validation")]


def attempts(run: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((run / ENVIRONMENT).read_bytes())["attempts"]
    return found


def assert_same_steps(run: Path, expected: Path) -> None:
    """The same batches in the same order, and the same numbers but for rounding."""
    assert sorted(places(expected)) == [5, 10, 15, 20]
    assert places(run) == places(expected)
    assert len(losses(expected)) == MAX_STEPS
    assert losses(run) == pytest.approx(losses(expected), rel=FLOAT_TOLERANCE)
    assert len(scores(expected)) == 3  # the last one is of the averaged weights
    for found, wanted in zip(scores(run), scores(expected), strict=True):
        assert found == pytest.approx(wanted, rel=FLOAT_TOLERANCE)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_two_workers_do_the_same_steps_as_one_process(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    setting = f"training.optimizer={optimizer}"
    tiny.train(*SETTINGS, setting, run="one")
    two = train_with_workers(tiny, "two", 2, setting)
    assert_same_steps(two, tiny.run_path("one"))
    assert [event["rank"] for rank in range(2) for event in events(two, "attempt", rank)] == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_any_number_of_ranks_does_the_same_steps(trained: Trained, num_ranks: int) -> None:
    assert_same_steps(trained(num_ranks), trained(1))
    shares = [events(trained(num_ranks), "attempt", rank)[0]["world_size"] for rank in range(num_ranks)]
    assert shares == [num_ranks] * num_ranks


def command_of(tiny: Tiny, run: str, *overrides: str, options: Sequence[str] = OPTIONS) -> list[str]:
    """What every rank runs."""
    sets = [word for override in (*SETTINGS, *overrides) for word in ("--set", override)]
    return ["septuagint", "train", str(tiny.config_path), "--run", str(tiny.run_path(run)), *sets, *options]


def launch(launcher: str, testbed: Testbed, command: Sequence[str], env: dict[str, str], extra: str = "") -> None:
    """A rank on each host, until all have ended well. `extra` are options of the launcher."""
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **env}
    words = extra.split()
    alpha = testbed["alpha"]
    if launcher == "torchrun":
        line = "torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=alpha:29400 --rdzv-id=run"
        processes = [
            host.pipe([*line.split(), *words, "--no-python", "--", *command], env=env) for host in testbed.hosts
        ]
        said = [process.communicate(timeout=PATIENCE_SECONDS)[0].decode() for process in processes]
        assert [process.returncode for process in processes] == [0, 0], said
        return
    if launcher == "slurm":
        with SlurmCluster(testbed) as slurm:
            result = alpha.run(slurm.srun_command(2, 1, command, words), env=env, timeout=PATIENCE_SECONDS)
    elif launcher == "openmpi":
        line = testbed.mpirun_command(testbed.hosts, 1, command, ["-x", "PATH", *words])
        result = alpha.run(line, env=env, timeout=PATIENCE_SECONDS)
    else:
        line = testbed.mpiexec_command(testbed.hosts, 1, command, words)
        result = alpha.run(line, env=env, timeout=PATIENCE_SECONDS)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def need_launcher(request: pytest.FixtureRequest) -> None:
    """The test's parameter `launcher` is installed."""
    launcher = request.getfixturevalue("launcher")
    if launcher == "slurm":
        request.getfixturevalue("slurm_possible")
    elif launcher == "mpich":
        need_tool("mpiexec.mpich")
    elif launcher == "openmpi":
        # Debian lets every MPI call itself mpirun.
        version = subprocess.run([need_tool("mpirun"), "--version"], capture_output=True, text=True, check=True).stdout
        if "Open MPI" not in version:
            pytest.skip("needs Open MPI under the name of mpirun")


@pytest.mark.slow
@pytest.mark.usefixtures("need_launcher")
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_trains_the_same_weights_on_two_hosts(
    launcher: str, build: BuildTestbed, tiny: Tiny, trained: Trained
) -> None:
    testbed = build(private=[tiny.root / "runs"])
    launch(launcher, testbed, command_of(tiny, "run"), {})
    for host in testbed.hosts:
        run = host.private(tiny.run_path("run"))
        assert hashes(run) == hashes(trained(2))
        for rank, name in enumerate(("alpha", "beta")):
            (attempt,) = events(run, "attempt", rank)
            assert (attempt["rank"], attempt["world_size"], attempt["host"]) == (rank, 2, name)
            assert (attempt["launcher"], attempt["interface"], attempt["num_threads"]) == (launcher, "eth0", 1)
        (recorded,) = attempts(run)
        assert (recorded["launcher"], recorded["world_size"], recorded["num_threads"]) == (launcher, 2, 1)
        assert recorded["hostnames"] == ["alpha", "beta"]
    wait_until_nothing_runs(testbed)


# torchrun sets the variable where it starts several ranks on a host; here each has a host for itself.
@pytest.mark.slow
@pytest.mark.skipif(available_cores() < 2, reason="one core cannot be shared")
@pytest.mark.usefixtures("need_launcher")
@pytest.mark.parametrize(
    ("launcher", "env", "extra"),
    [("torchrun", {"OMP_NUM_THREADS": "1"}, ""), ("openmpi", {}, "--bind-to core")],
    ids=["torchrun", "openmpi"],
)
def test_a_rank_has_all_cores_of_its_host_although_its_launcher_gives_it_one(
    launcher: str, env: dict[str, str], extra: str, build: BuildTestbed, tiny: Tiny
) -> None:
    testbed = build()
    output = tiny.root / "given"
    given = f'echo "${{OMP_NUM_THREADS:-$(nproc)}}" >> {shlex.quote(str(output))}'
    launch(launcher, testbed, ["sh", "-c", given], env, extra)
    assert output.read_text().split() == ["1", "1"]
    launch(launcher, testbed, command_of(tiny, "run", "training.max_steps=1", options=["--quiet"]), env, extra)
    threads = [events(tiny.run_path("run"), "attempt", rank)[0]["num_threads"] for rank in range(2)]
    assert threads == [available_cores()] * 2


@pytest.mark.slow
def test_ranks_of_one_host_share_its_cores(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    program = tiny.start(*SETTINGS, "training.max_steps=1", options=("--quiet", "--workers", "2"))
    assert program.wait(timeout=PATIENCE_SECONDS) == 0, program.stderr
    (attempt,) = attempts(tiny.run_path("run"))
    assert (attempt["launcher"], attempt["num_threads"]) == ("workers", max(1, available_cores() // 2))


@pytest.mark.slow
def test_a_run_goes_on_with_two_then_one_then_four_ranks(tiny: Tiny, trained: Trained) -> None:
    for num_ranks, max_steps in ((2, 7), (1, 12), (4, MAX_STEPS)):
        run = train_with_workers(tiny, "run", num_ranks, f"training.max_steps={max_steps}")
    assert places(run) == places(trained(2))
    assert losses(run) == pytest.approx(losses(trained(2)), rel=FLOAT_TOLERANCE)
    recorded = attempts(run)
    assert [attempt["world_size"] for attempt in recorded] == [2, 1, 4]
    assert [attempt["launcher"] for attempt in recorded] == ["workers", "none", "workers"]
    assert [(attempt["start_step"], attempt["end_step"]) for attempt in recorded] == [(0, 7), (7, 12), (12, 20)]
    told = [event["message"] for event in events(run, "warning")]
    assert sum("1 rank, the last one had 2" in message for message in told) == 1, told
    assert sum("4 ranks, the last one had 1" in message for message in told) == 1, told


@pytest.mark.slow
def test_four_ranks_that_are_stopped_end_where_undisturbed_ones_end(tiny: Tiny, trained: Trained) -> None:
    program = tiny.start(*SETTINGS, options=(*OPTIONS, "--workers", "4"))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(events(tiny.run_path("run"), "train")) < 3:
        assert program.exit_code is None and time.monotonic() < deadline, program.stderr
        time.sleep(0.01)
    program.signal(signal.SIGTERM)
    assert program.wait(timeout=PATIENCE_SECONDS) == 128 + signal.SIGTERM, program.stderr
    run = train_with_workers(tiny, "run", 4)
    first, second = attempts(run)
    assert (first["world_size"], first["outcome"], second["world_size"]) == (4, "signal", 4)
    assert 3 <= first["end_step"] == second["start_step"] < MAX_STEPS
    assert hashes(run) == hashes(trained(4))
    assert places(run) == places(trained(4))
    assert losses(run) == losses(trained(4))
