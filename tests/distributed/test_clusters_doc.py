"""The commands of docs/clusters.md, as they stand there, on two hosts that share nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from septuagint.data.files import hash_file
from septuagint.telemetry.events import read_events, record_path
from septuagint.training.checkpoint import find_checkpoints
from septuagint.training.run_folder import ENVIRONMENT
from tests.conftest import need_tool
from tests.distributed.conftest import BuildTestbed
from tests.distributed.slurm import SlurmCluster
from tests.distributed.testbed import Host, Testbed
from tests.training import conftest

prepared = conftest.prepared

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/clusters.md").read_text(encoding="utf-8")
SCRIPT = ROOT / "configs/slurm.sbatch"
# Where each block is to be run, and what it says.
BLOCKS: list[tuple[str, str]] = re.findall(r"^```sh on ([\w ]+)\n(.*?)^```$", DOCUMENT, flags=re.MULTILINE | re.DOTALL)
PATIENCE_SECONDS = 240

pytestmark = pytest.mark.slow


def blocks_of(program: str) -> list[str]:
    """The blocks whose first command is this program."""
    return [text for _, text in BLOCKS if re.match(rf"(?:(?:export|for) .*\n)*\s*{re.escape(program)} ", text)]


class Site:
    """Two hosts and a project that each has for itself, in the folder where commands are typed."""

    def __init__(self, testbed: Testbed, folder: Path, tools: Path) -> None:
        self.testbed, self._folder, self._tools = testbed, folder, tools

    def run_path(self, host: Host) -> Path:
        return host.private(self._folder / "runs/news")

    def edit(self, setting: str, value: int) -> None:
        for host in self.testbed.hosts:
            edit_config(host.private(self._folder), setting, value)

    def start(self, names: str, text: str, variables: Mapping[str, str] | None = None) -> list[subprocess.Popen[bytes]]:
        """Types a block on "alpha" or on "alpha and beta"; `{rank}` in a variable is the host's number."""
        hosts = [self.testbed[name] for name in names.split(" and ")]
        return [
            host.pipe(
                ["sh", "-c", text],
                env={
                    **self._environment(),
                    **{key: value.format(rank=rank) for key, value in (variables or {}).items()},
                },
                cwd=self._folder,
            )
            for rank, host in enumerate(hosts)
        ]

    def _environment(self) -> dict[str, str]:
        """Its ssh is the testbed's; and Open MPI is told that root may use it."""
        return {
            "PATH": f"{self._tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def run(self, names: str, text: str, variables: Mapping[str, str] | None = None) -> None:
        ends_well(self.start(names, text, variables))


def ends_well(processes: list[subprocess.Popen[bytes]]) -> None:
    said = [process.communicate(timeout=PATIENCE_SECONDS)[0].decode(errors="replace") for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(said)


def copy_project(prepared: Path, folder: Path) -> None:
    """The tiny project under the name that the document uses; with enough microbatches for four ranks."""
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    (folder / "config.toml").rename(folder / "news.toml")
    edit_config(folder, "tokens_per_step", 256)
    edit_config(folder, "max_steps", 6)
    edit_config(folder, "log_every", 1)
    # A rank that is lost while others validate is waited for so long: less than a test's patience.
    config = folder / "news.toml"
    config.write_text(config.read_text().replace("log_every = 1\n", "log_every = 1\ntimeout_minutes = 1\n"))


def edit_config(folder: Path, setting: str, value: int) -> None:
    path = folder / "news.toml"
    text, number = re.subn(rf"^{setting} = .*", f"{setting} = {value}", path.read_text(), flags=re.MULTILINE)
    assert number == 1
    path.write_text(text)


@pytest.fixture
def site(build: BuildTestbed, prepared: Path, tmp_path: Path) -> Site:
    folder, tools = tmp_path / "work", tmp_path / "tools"
    testbed = build(private=[folder])
    for host in testbed.hosts:
        copy_project(prepared, host.private(folder))
    tools.mkdir()
    (tools / "ssh").symlink_to(testbed.agent)
    return Site(testbed, folder, tools)


def attempts(run: Path) -> list[dict[str, Any]]:
    path = run / ENVIRONMENT
    return json.loads(path.read_bytes())["attempts"] if path.exists() else []


def newest_hash(run: Path) -> str:
    return hash_file(find_checkpoints(run)[0][1] / "model.safetensors")


def assert_trained(site: Site, *, launcher: str) -> None:
    """Four ranks have done all steps, and each disk has the result."""
    alpha, beta = (site.run_path(host) for host in site.testbed.hosts)
    (attempt,) = attempts(alpha)
    assert (attempt["outcome"], attempt["world_size"], attempt["launcher"]) == ("max_steps", 4, launcher)
    assert attempt["hostnames"] == ["alpha", "beta"]
    assert attempts(beta) == attempts(alpha)
    assert newest_hash(alpha) == newest_hash(beta)


def wait_until(is_so: Callable[[], object], what: str, said: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain until {what}\n{said()}"
        time.sleep(0.1)


def num_steps(run: Path) -> int:
    return sum(event["event"] == "train" for event in read_events(record_path(run, 0)))


def test_every_command_of_the_document_is_run_by_a_test() -> None:
    programs = ("septuagint", "torchrun", "mpirun", "mpiexec.mpich", "sbatch", "python")
    assert [len(blocks_of(program)) for program in programs] == [1, 2, 2, 1, 1, 1]
    assert len(BLOCKS) == 8


named_septuagint = pytest.mark.skipif(
    " " in sys.executable, reason="a program whose path has a space runs under another name, and pkill misses it"
)


def test_the_workers_of_one_machine(site: Site) -> None:
    site.run("alpha", *blocks_of("septuagint"))
    alpha, beta = (site.run_path(host) for host in site.testbed.hosts)
    (attempt,) = attempts(alpha)
    assert (attempt["outcome"], attempt["world_size"], attempt["launcher"]) == ("max_steps", 4, "workers")
    assert not beta.exists()


@pytest.mark.parametrize("number", [0, 1], ids=["fixed", "elastic"])
def test_torchrun(site: Site, number: int) -> None:
    site.run("alpha and beta", blocks_of("torchrun")[number])
    assert_trained(site, launcher="torchrun")


@named_septuagint
def test_a_signal_to_one_rank_stops_all_and_torchrun_is_content(site: Site) -> None:
    (stop,) = re.findall(r"^pkill .*$", DOCUMENT, flags=re.MULTILINE)
    need_tool("pkill")
    site.edit("max_steps", 100_000)
    processes = site.start("alpha and beta", blocks_of("torchrun")[0])
    alpha, beta = site.testbed.hosts
    wait_until(lambda: num_steps(site.run_path(alpha)) >= 3, "steps are made")
    assert beta.run(["sh", "-c", stop]).returncode == 0
    ends_well(processes)
    for host in site.testbed.hosts:
        (attempt,) = attempts(site.run_path(host))
        assert attempt["outcome"] == "signal"
        assert find_checkpoints(site.run_path(host))[0][0] == attempt["end_step"]


def need_open_mpi() -> None:
    """Debian lets every MPI call itself mpirun."""
    version = subprocess.run([need_tool("mpirun"), "--version"], capture_output=True, text=True, check=True).stdout
    if "Open MPI" not in version:
        pytest.skip("needs Open MPI under the name of mpirun")


def test_mpirun(site: Site) -> None:
    need_open_mpi()
    site.run("alpha", blocks_of("mpirun")[0])
    assert_trained(site, launcher="openmpi")


@named_septuagint
def test_mpirun_in_a_loop_starts_again_when_a_rank_is_lost(site: Site) -> None:
    need_open_mpi()
    need_tool("pkill")
    site.edit("max_steps", 60)
    processes = site.start("alpha", blocks_of("mpirun")[1])
    alpha, beta = site.testbed.hosts
    wait_until(lambda: num_steps(site.run_path(alpha)) >= 4, "steps are made")
    beta.run(["pkill", "-KILL", "-x", "septuagint"])
    ends_well(processes)
    first, second = attempts(site.run_path(alpha))
    assert first["outcome"] != "max_steps"
    assert (second["outcome"], second["world_size"]) == ("max_steps", 4)
    assert second["start_step"] >= 3  # where the first checkpoint is


def test_mpirun_notices_that_a_machine_has_lost_its_power(site: Site) -> None:
    need_open_mpi()
    site.edit("max_steps", 100_000)
    once, loop = blocks_of("mpirun")
    (process,) = site.start("alpha", loop.partition("\n")[0] + "\n" + once)
    alpha, beta = site.testbed.hosts
    wait_until(lambda: num_steps(site.run_path(alpha)) >= 3, "steps are made")
    beta.kill()
    said = process.communicate(timeout=PATIENCE_SECONDS)[0].decode()
    assert process.returncode > 2, said


def test_mpiexec(site: Site) -> None:
    need_tool("mpiexec.mpich")
    site.run("alpha", *blocks_of("mpiexec.mpich"))
    assert_trained(site, launcher="mpich")


def test_what_kubernetes_runs(site: Site) -> None:
    """With the operator's variables. The volume that pods see as /project is the folder of each host here."""
    lists = re.findall(r"^    (?:command|args): (\[.*\])$", DOCUMENT, flags=re.MULTILINE)
    line = " ".join(word.removeprefix("/project/") for found in lists for word in json.loads(found))
    variables = {
        "PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "{rank}", "PET_MASTER_ADDR": "alpha",
        "PET_MASTER_PORT": "29500", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }  # fmt: skip
    site.run("alpha and beta", line, variables)
    assert_trained(site, launcher="torchrun")


def test_what_skypilot_runs(site: Site) -> None:
    (text,) = re.findall(r"^run: \|\n((?:  .*\n)+)", DOCUMENT, flags=re.MULTILINE)
    addresses = "\n".join(host.address for host in site.testbed.hosts)
    variables = {
        "SKYPILOT_NODE_IPS": addresses, "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NUM_GPUS_PER_NODE": "2",
        "SKYPILOT_NODE_RANK": "{rank}",
    }  # fmt: skip
    site.run("alpha and beta", text, variables)
    assert_trained(site, launcher="torchrun")


@pytest.mark.usefixtures("hosts_possible")
def test_the_testbed_can_be_tried_on_one_machine(prepared: Path, tmp_path: Path) -> None:
    copy_project(prepared, tmp_path / "work")
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    (text,) = blocks_of("python")
    result = subprocess.run(
        ["sh", "-c", text],
        cwd=tmp_path / "work",
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (attempt,) = attempts(tmp_path / "work/runs/news")
    assert (attempt["outcome"], attempt["world_size"]) == ("max_steps", 2)


class Shared:
    """A project on a disk that the nodes of a SLURM cluster share, and its batch script."""

    def __init__(self, slurm: SlurmCluster, folder: Path) -> None:
        self._slurm, self.folder = slurm, folder
        self.run_path = folder / "runs/news"

    def submit(self, line: str) -> int:
        """Types the document's line, perhaps with other options."""
        command = ["sh", "-c", 'export PATH="$0:$PATH"; ' + line.replace("sbatch ", "sbatch --parsable ", 1)]
        return int(self._slurm.run(*command, str(Path(sys.executable).parent), cwd=self.folder).stdout)

    def log(self, number: int) -> str:
        return (self.folder / f"septuagint-{number}.log").read_text()


@pytest.fixture
def shared(slurm: SlurmCluster, prepared: Path, tmp_path: Path) -> Shared:
    folder = tmp_path / "work"
    copy_project(prepared, folder)
    (folder / "configs").mkdir()
    shutil.copy(SCRIPT, folder / "configs")
    return Shared(slurm, folder)


def test_sbatch(shared: Shared, slurm: SlurmCluster) -> None:
    number = shared.submit(*blocks_of("sbatch"))
    job = slurm.wait_for_job(number, "COMPLETED", "FAILED", "CANCELLED", timeout=PATIENCE_SECONDS)
    assert (job["JobState"], job["Restarts"]) == ("COMPLETED", "0"), shared.log(number)
    (attempt,) = attempts(shared.run_path)
    assert (attempt["outcome"], attempt["world_size"], attempt["launcher"]) == ("max_steps", 4, "slurm")
    assert attempt["num_threads"] == 1  # as many as the cores of a task


def test_a_job_whose_time_is_up_is_put_back_and_goes_on(shared: Shared, slurm: SlurmCluster) -> None:
    (line,) = blocks_of("sbatch")
    edit_config(shared.folder, "max_steps", 100_000)
    edit_config(shared.folder, "validate_every", 100_000)
    # The time is a minute at least, and SLURM looks at it every half minute: the warning comes in the first half.
    number = shared.submit(line.replace("sbatch ", "sbatch --time=1 --signal=B:USR1@45 ", 1))
    wait_until(
        lambda: (found := attempts(shared.run_path)) and found[0]["outcome"] is not None,
        "the time is up",
        lambda: shared.log(number),
    )
    (first,) = attempts(shared.run_path)
    assert first["outcome"] == "signal", shared.log(number)
    # A job that is put back waits for some seconds. Its second start may take all the time it needs.
    slurm.wait_for_job(number, "PENDING", timeout=PATIENCE_SECONDS)
    slurm.run("scontrol", "update", f"JobId={number}", "TimeLimit=60")
    edit_config(shared.folder, "max_steps", first["end_step"] + 2)
    job = slurm.wait_for_job(number, "COMPLETED", "FAILED", "TIMEOUT", timeout=PATIENCE_SECONDS)
    assert (job["JobState"], job["Restarts"]) == ("COMPLETED", "1"), shared.log(number)
    _, second = attempts(shared.run_path)
    assert (second["start_step"], second["outcome"]) == (first["end_step"], "max_steps")


@named_septuagint
def test_a_job_that_loses_a_rank_is_put_back_and_one_that_is_cancelled_is_not(
    shared: Shared, slurm: SlurmCluster, testbed: Testbed
) -> None:
    need_tool("pkill")
    edit_config(shared.folder, "max_steps", 100_000)
    number = shared.submit(*blocks_of("sbatch"))
    wait_until(lambda: num_steps(shared.run_path) >= 4, "steps are made", lambda: shared.log(number))
    testbed["beta"].run(["pkill", "-KILL", "-x", "septuagint"])
    wait_until(lambda: len(attempts(shared.run_path)) == 2, "it goes on", lambda: shared.log(number))
    assert attempts(shared.run_path)[1]["start_step"] >= 3
    slurm.run("scancel", str(number))
    wait_until(lambda: attempts(shared.run_path)[1]["outcome"], "it is stopped", lambda: shared.log(number))
    job = slurm.wait_for_job(number, "CANCELLED", "PENDING", timeout=PATIENCE_SECONDS)
    assert (job["JobState"], job["Restarts"]) == ("CANCELLED", "1"), shared.log(number)


def test_a_job_with_a_mistake_is_not_put_back(shared: Shared, slurm: SlurmCluster) -> None:
    (line,) = blocks_of("sbatch")
    number = shared.submit(line.replace("news.toml", "old.toml"))
    job = slurm.wait_for_job(number, "COMPLETED", "FAILED", timeout=PATIENCE_SECONDS)
    assert (job["JobState"], job["ExitCode"], job["Restarts"]) == ("FAILED", "2:0", "0"), shared.log(number)
