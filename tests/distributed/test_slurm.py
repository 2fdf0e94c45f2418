"""SLURM on emulated hosts starts, requeues and ends jobs, and leaves nothing running."""

import time
from pathlib import Path

import pytest

from tests.distributed.conftest import wait_until_nothing_runs
from tests.distributed.slurm import SlurmCluster
from tests.distributed.testbed import Testbed


@pytest.mark.slow
def test_srun_starts_a_task_on_each_host(testbed: Testbed, slurm: SlurmCluster) -> None:
    for host in testbed.hosts:
        result = host.run(slurm.srun_command(2, 1, ["sh", "-c", 'echo "$(hostname) $SLURM_PROCID"']))
        assert (sorted(result.stdout.splitlines()), result.returncode) == (["alpha 0", "beta 1"], 0), result.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("slurm_possible")
def test_tasks_and_daemons_end_with_the_cluster(testbed: Testbed, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with SlurmCluster(testbed) as slurm:
        command = slurm.srun_command(2, 1, ["sh", "-c", "echo on; exec sleep 1000"])
        process = testbed["beta"].start(command, output=output)
        deadline = time.monotonic() + 10
        while output.read_text().split() != ["on", "on"]:
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)
    assert process.wait(10) != 0
    wait_until_nothing_runs(testbed)


@pytest.mark.slow
def test_srun_ends_with_the_code_of_a_task(testbed: Testbed, slurm: SlurmCluster) -> None:
    command = slurm.srun_command(2, 1, ["sh", "-c", "exit $((5 * SLURM_PROCID))"])
    assert testbed["alpha"].run(command).returncode == 5


@pytest.mark.slow
def test_a_requeued_job_starts_again_soon(slurm: SlurmCluster, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\necho start ${SLURM_RESTART_COUNT:-0}\n[ $SLURM_RESTART_COUNT ] || srun sleep 1000\n")
    number = slurm.sbatch(script, "--nodes=2", "--ntasks-per-node=1", "--output=output", "--open-mode=append")
    slurm.wait_for_job(number, "RUNNING")
    slurm.run("scontrol", "requeue", str(number))
    job = slurm.wait_for_job(number, "COMPLETED")
    assert (job["Restarts"], job["NodeList"]) == ("1", "alpha,beta")
    lines = (tmp_path / "output").read_text().splitlines()
    assert [line for line in lines if line.startswith("start")] == ["start 0", "start 1"]


@pytest.mark.slow
def test_a_host_that_comes_back_takes_tasks_again(testbed: Testbed, slurm: SlurmCluster) -> None:
    testbed["beta"].kill()
    testbed["beta"].revive()
    slurm.start_node(testbed["beta"])
    slurm.wait_until_idle()
    result = testbed["beta"].run(slurm.srun_command(2, 1, ["hostname"]))
    assert sorted(result.stdout.split()) == ["alpha", "beta"], result.stderr
