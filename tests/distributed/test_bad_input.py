"""What people get wrong with several ranks: each mistake is named within a minute, with its cure, and exits 2."""

import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training import conftest
from tests.training.conftest import Program, Tiny

prepared, tiny, own_tiny, one_thread = conftest.prepared, conftest.tiny, conftest.own_tiny, conftest.one_thread

SECONDS_TO_NAME_IT = 60
Start = Callable[..., Program]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts one rank by hand, as people do who have no launcher; variables may be set beside."""
    port = free_port()

    def start_rank(
        project: Tiny,
        rank: int,
        *overrides: str,
        size: int = 2,
        run: str = "run",
        options: tuple[str, ...] = (),
        **variables: str,
    ) -> Program:
        own = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        with monkeypatch.context() as patch:
            for name, value in (own | variables).items():
                patch.setenv(name, value)
            return project.start(*overrides, run=run, options=("--quiet", "--threads", "1", *options))

    return start_rank


def refused(programs: list[Program]) -> str:
    """What the ranks say, when all have left with exit code 2 in time, and without a traceback."""
    begin = time.monotonic()
    for program in programs:
        assert program.wait(timeout=2 * SECONDS_TO_NAME_IT) == 2, program.stderr
    assert time.monotonic() - begin < SECONDS_TO_NAME_IT
    said = "".join(program.stderr for program in programs)
    assert "Traceback" not in said
    return said


def test_a_host_whose_name_is_not_known(tiny, start):
    said = refused([start(tiny, 1, MASTER_ADDR="no-such-host.invalid")])
    assert "no-such-host.invalid: its name cannot be resolved" in said
    assert "/etc/hosts" in said and "MASTER_ADDR" in said


@pytest.mark.slow  # a rank is given most of a minute to appear
def test_ranks_that_never_come(tiny, start):
    said = refused([start(tiny, 0, size=3), start(tiny, 1, size=3)])
    assert "of 3 ranks, these did not come within 50 s: 2" in said


@pytest.mark.slow
def test_a_host_where_nobody_waits(tiny, start):
    said = refused([start(tiny, 1)])
    assert "rank 1" in said and "connection refused" in said and "is rank 0 running" in said


def test_a_port_that_somebody_has(tiny, start):
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        said = refused([start(tiny, 0, MASTER_PORT=str(port))])
    assert f"port {port}" in said and "in use" in said and "MASTER_PORT" in said


def test_another_configuration_on_one_rank(tiny, start):
    said = refused([start(tiny, 0, size=3), start(tiny, 1, "training.seed=2", size=3), start(tiny, 2, size=3)])
    assert "rank 1 on" in said and "training.seed is 2, on the others 1" in said
    assert said.count("would not train the same") == 1, "one rank of a host says it"
    assert not list(tiny.run_path("run").glob("checkpoints/*"))


def test_other_data_on_one_rank(tiny, own_tiny, start):
    source = own_tiny.config_path.parent / "train.en"
    source.write_text(source.read_text().replace("red", "blue"))
    assert Program(own_tiny.root, ["prepare", str(own_tiny.config_path), "--quiet"]).wait() == 0
    run = ("--run", str(tiny.run_path("run")))
    said = refused([start(tiny, 0), start(own_tiny, 1, options=run)])
    assert "data_fingerprint" in said and "rank 1 on" in said


def test_data_that_one_rank_lacks(tiny, own_tiny, start):
    shutil.rmtree(own_tiny.data)
    said = refused([start(tiny, 0), start(own_tiny, 1)])
    assert "rank 1 on" in said and "septuagint prepare" in said


def test_an_interface_that_is_not_there(tiny, start):
    said = refused([start(tiny, 0, options=("--interface", "eth99"))])
    assert "no network interface 'eth99'" in said and "it has" in said and "lo" in said


def test_more_ranks_than_microbatches(tiny, start):
    said = refused([start(tiny, rank, size=3) for rank in range(3)])
    assert "3 ranks, but a step has 2 microbatches" in said and "at most 2 ranks" in said
    assert "set training.tokens_per_step = 192, or training.microbatch_tokens = 32" in said


def test_a_rank_that_was_started_twice(tiny, start):
    ranks = [start(tiny, 0), start(tiny, 1), start(tiny, 1)]
    codes = [program.wait(timeout=2 * SECONDS_TO_NAME_IT) for program in ranks]
    said = "".join(program.stderr for program in ranks)
    assert "rank 1 was started twice" in said and "rank of its own" in said
    assert sorted(codes) in ([0, 0, 2], [2, 2, 2]), said


def test_variables_that_do_not_suffice(tiny, start, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    for variables, expected in (
        ({"RANK": "one"}, "RANK = 'one' is not a number"),
        ({"WORLD_SIZE": "-2"}, "WORLD_SIZE = '-2' is not a number"),
        ({"RANK": "5"}, "RANK = 5"),
        ({"MASTER_PORT": "99999"}, "MASTER_PORT"),
    ):
        assert expected in refused([start(tiny, 0, **variables)])


@pytest.mark.slow  # the other one is given half a minute to leave
def test_a_run_folder_that_another_world_holds(tiny, start):
    first = tiny.start("training.max_steps=100000", run="run")
    first.wait_until(lambda: tiny.events("run", "train"))
    second = [start(tiny, rank) for rank in range(2)]
    try:
        said = refused(second)
    finally:
        first.signal(conftest.signal.SIGTERM)
        first.wait()
    assert "another process is training in this folder" in said


def test_workers_under_a_launcher_and_a_mistake_of_the_user(tiny, start):
    said = refused([start(tiny, 0, options=("--workers", "2"))])
    assert "--workers starts ranks" in said
    program = tiny.command("training.max_steps=0", options=("--workers", "2"))
    assert program.exit_code == 2 and "max_steps" in program.stderr
    missing = tiny.command("data.folder=nowhere", options=("--workers", "2"))
    assert missing.exit_code == 2 and missing.stderr.count("error:") == 1 and "Traceback" not in missing.stderr


def test_run_folders_that_ranks_of_a_host_do_not_share(tiny, start, tmp_path: Path):
    said = refused([start(tiny, 0), start(tiny, 1, options=("--run", str(tmp_path / "other")))])
    assert "does not see" in said and "--run" in said
