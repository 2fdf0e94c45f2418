"""What each launcher tells a process is read right. The environments are recorded from real ones on two hosts."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from septuagint.errors import UserError
from septuagint.machine import available_cores
from septuagint.training import launcher
from septuagint.training.launcher import Place, find_place, first_node, is_own_address, rank_0_by_pmi, share_of_cores

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1",
    "MASTER_ADDR": "alpha", "MASTER_PORT": "40217", "TORCHELASTIC_RUN_ID": "news",
    "TORCHELASTIC_USE_AGENT_STORE": "False", "OMP_NUM_THREADS": "1",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_MCA_orte_hnp_uri": "4229431296.0;tcp://10.77.0.1:36319",
    "OMPI_MCA_ess_base_jobid": "4229431297", "PMIX_NAMESPACE": "4229431297",
}  # fmt: skip
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
SRUN = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "alpha,beta", "SLURM_PROCID": "1",
    "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
}  # fmt: skip
# A script of sbatch, before it calls srun.
SBATCH = {
    "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "alpha,beta", "SLURM_PROCID": "0", "SLURM_NTASKS": "2",
    "SLURM_LOCALID": "0", "SLURM_TASKS_PER_NODE": "1(x2)",
}  # fmt: skip
# The shell that salloc opens on the first node: a step of one task in a job of two.
SALLOC = {
    **SBATCH, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_NODELIST": "alpha",
    "SLURM_STEP_TASKS_PER_NODE": "1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process of MPI is asked, although its libraries may be installed."""
    monkeypatch.setattr(launcher, "rank_0_by_pmix", lambda namespace: None)
    monkeypatch.setattr(launcher, "_rank_0_by_mpi4py", lambda: None)


def test_without_a_launcher_a_process_is_alone():
    assert find_place({"PATH": "/bin", "OMP_NUM_THREADS": "4"}) == Place(launcher="none")


def test_torchrun_tells_everything():
    place = find_place(TORCHRUN)
    assert place == Place(
        launcher="torchrun",
        rank=3,
        size=4,
        local_rank=1,
        addresses=("alpha",),
        port=40217,
        is_keeper=False,
    )


@pytest.mark.parametrize(("shares_store", "is_keeper"), [("True", False), ("False", True)])
def test_rank_0_keeps_the_meeting_place_unless_torchrun_does(shares_store, is_keeper):
    place = find_place({**TORCHRUN, "RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": shares_store})
    assert place.is_keeper == is_keeper


def test_workers_are_told_from_torchrun():
    assert find_place({**TORCHRUN, launcher.WORKERS: "4"}).launcher == "workers"


def test_variables_set_by_hand_suffice():
    by_hand = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "alpha"}
    place = find_place(by_hand)
    assert (place.launcher, place.rank, place.size, place.addresses) == ("environment", 1, 2, ("alpha",))
    assert place.local_rank is None
    assert place.port == find_place({**by_hand, "RANK": "0"}).port


def test_under_mpirun_a_rank_meets_the_others_where_rank_0_runs(monkeypatch):
    monkeypatch.setattr(launcher, "rank_0_by_pmix", {"4229431297": "alpha"}.get)
    place = find_place(OPEN_MPI)
    assert (place.launcher, place.rank, place.size, place.local_rank) == ("openmpi", 1, 2, 0)
    assert (place.addresses, place.is_keeper) == (("alpha",), False)
    assert find_place({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0"}).is_keeper


def test_where_open_mpi_does_not_say_the_ranks_meet_at_mpirun():
    place = find_place(OPEN_MPI)
    assert (place.addresses, place.is_keeper) == (("10.77.0.1",), False)
    several = {**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "1811349504.0;tcp://127.0.0.2,127.0.0.1:53613;tcp6://[::1]:1"}
    place = find_place(several)
    # All addresses are ours, so mpirun runs here, and we keep the meeting place, whatever our number.
    assert (place.addresses, place.is_keeper) == (("127.0.0.2", "127.0.0.1"), True)
    assert not find_place({**several, "OMPI_COMM_WORLD_LOCAL_RANK": "1"}).is_keeper
    # The bridge of Docker has the same address on every host.
    shared = {**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "1811349504.0;tcp://192.0.2.1,127.0.0.1:53613"}
    assert not find_place(shared).is_keeper


def test_ranks_of_one_host_need_no_network():
    place = find_place({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert (place.addresses, place.is_keeper) == (("127.0.0.1",), False)
    assert find_place({**MPICH, "MPI_LOCALNRANKS": "2"}).addresses == ("127.0.0.1",)


def test_all_ranks_of_a_job_come_to_the_same_port_and_those_of_another_to_another():
    ranks = [find_place({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": rank}).port for rank in "01"]
    another = find_place({**OPEN_MPI, "OMPI_MCA_ess_base_jobid": "99"}).port
    steps = [find_place({**SRUN, "SLURM_STEP_ID": step, "SLURM_PROCID": rank}).port for step in "01" for rank in "01"]
    assert ranks[0] == ranks[1] != another
    assert steps[0] == steps[1] != steps[2] == steps[3]
    assert all(20_000 <= port < 30_000 for port in [*ranks, another, *steps])


@contextlib.contextmanager
def mpiexec(name_of_job: str, known: dict[str, str]) -> Iterator[str]:
    """The other end of the socket that mpiexec opens for a process; gives the number that stands in PMI_FD."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with ours, ours.makefile("rw") as lines:
            for line in lines:
                words = dict(word.partition("=")[::2] for word in line.split())
                if words["cmd"] == "put":
                    known[words["key"]] = words["value"]
                answers = {
                    "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                    "get_my_kvsname": f"cmd=my_kvsname kvsname={name_of_job}",
                    "put": "cmd=put_result rc=0 msg=success",
                    "barrier_in": "cmd=barrier_out",
                    "get": f"cmd=get_result rc=0 msg=success value={known.get(words.get('key', ''))}",
                    "finalize": "cmd=finalize_ack",
                }
                lines.write(answers[words["cmd"]] + "\n")
                lines.flush()

    thread = threading.Thread(target=answer, name="mpiexec")
    thread.start()
    yield str(theirs.detach())
    thread.join(10)
    assert not thread.is_alive(), "the process did not close its end"


def test_under_mpiexec_the_ranks_ask_each_other_through_it():
    known: dict[str, str] = {}
    with mpiexec("kvs_7_0", known) as descriptor:
        assert rank_0_by_pmi(descriptor, rank=0) == (socket.gethostname(), "kvs_7_0")
    with mpiexec("kvs_7_0", {"septuagint": "alpha"}) as descriptor:
        place = find_place({**MPICH, "PMI_FD": descriptor})
    assert list(known.values()) == [socket.gethostname()]
    assert (place.launcher, place.rank, place.size, place.local_rank) == ("mpich", 1, 2, 0)
    assert (place.addresses, place.is_keeper) == (("alpha",), False)


@pytest.mark.parametrize("descriptor", ["", "none", str(1 << 20)])
def test_a_socket_that_is_not_there_tells_nothing(descriptor):
    assert rank_0_by_pmi(descriptor, rank=1) == (None, "")


def test_srun_tells_its_nodes():
    place = find_place(SRUN)
    assert (place.launcher, place.rank, place.size, place.local_rank) == ("slurm", 1, 2, 0)
    assert (place.addresses, place.is_keeper) == (("alpha",), False)
    assert find_place({**SRUN, "SLURM_PROCID": "0"}).is_keeper


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({**SRUN, **OPEN_MPI, "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"}, "openmpi"),
        ({**SBATCH, **OPEN_MPI}, "openmpi"),
        ({**SRUN, "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_JOBID": "7.0"}, "slurm"),
        ({**SRUN, **MPICH, "MASTER_ADDR": "alpha"}, "mpich"),
        ({**SRUN, **TORCHRUN}, "torchrun"),
        ({**OPEN_MPI, **TORCHRUN}, "torchrun"),
        (SBATCH, "none"),
        ({**SRUN, "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"}, "none"),
    ],
    ids=[
        "mpirun in salloc",
        "mpirun in sbatch",
        "srun --mpi=pmi2",
        "mpiexec by srun",
        "torchrun by srun",
        "torchrun by mpirun",
        "sbatch without srun",
        "srun of one task",
    ],
)
def test_of_several_launchers_the_one_that_started_the_ranks_counts(environment, expected):
    assert find_place(environment).launcher == expected


def test_the_shell_of_salloc_is_no_rank():
    assert find_place(SALLOC).launcher == "none"


@pytest.mark.parametrize("environment", [TORCHRUN, OPEN_MPI, MPICH, SRUN])
def test_an_address_and_a_port_that_are_named_count(environment):
    place = find_place({**environment, "MASTER_ADDR": "gamma", "MASTER_PORT": "1234"})
    assert (place.addresses, place.port) == (("gamma",), 1234)


@pytest.mark.parametrize(
    ("environment", "cure"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, "set it to the host of rank 0"),
        ({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": ""}, "-x MASTER_ADDR=<first host>"),
        (MPICH, "-genv MASTER_ADDR <first host>"),
        ({**SRUN, "SLURM_STEP_NODELIST": ""}, "set MASTER_ADDR to the host of rank 0"),
    ],
    ids=["environment", "openmpi", "mpich", "slurm"],
)
def test_where_nobody_says_where_rank_0_runs_the_message_says_what_to_pass(environment, cure):
    with pytest.raises(UserError) as refusal:
        find_place(environment)
    assert cure in str(refusal.value)


@pytest.mark.parametrize("value", ["", "-1", "two"])
def test_a_rank_that_is_no_number_is_refused(value):
    with pytest.raises(UserError, match="is not a number"):
        find_place({**TORCHRUN, "RANK": value})


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("alpha,beta", "alpha"),
        ("alpha", "alpha"),
        ("node[01-02]", "node01"),
        ("gpu[03-05,9],login", "gpu03"),
        ("gpu[7,9-12]", "gpu7"),
        ("rack1-node[2-3]-ib,other", "rack1-node2-ib"),
        ("login,gpu[1-2]", "login"),
        ("", ""),
    ],
)
def test_the_first_node_of_a_list(nodes, first):
    assert first_node(nodes) == first


def test_a_machine_knows_its_addresses():
    assert is_own_address("127.0.0.1")
    assert not is_own_address("192.0.2.1")  # kept for documentation: nobody has it


@pytest.mark.parametrize("name", ["workers", "torchrun", "environment", "mpich", "slurm"])
@pytest.mark.parametrize("local_size", [1, 2, 1000])
def test_ranks_share_the_cores_of_their_host_whatever_the_launcher_says(name, local_size):
    threads = share_of_cores(name, local_size, {"OMP_NUM_THREADS": "77"})
    assert threads == max(1, available_cores() // local_size)


def test_alone_a_process_uses_what_it_is_told_or_all_cores():
    assert share_of_cores("none", 1, {"OMP_NUM_THREADS": "3"}) == 3
    for nothing in ({}, {"OMP_NUM_THREADS": ""}, {"OMP_NUM_THREADS": "0"}):
        assert share_of_cores("none", 1, nothing) == available_cores()


def test_the_cores_that_slurm_gives_a_task_count():
    assert share_of_cores("slurm", 1, {"SLURM_CPUS_PER_TASK": "6"}) == 6


@pytest.mark.skipif(available_cores() < 2, reason="one core cannot be shared")
def test_a_rank_leaves_the_core_that_mpirun_bound_it_to():
    program = """
import os
from septuagint.training.launcher import share_of_cores
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(share_of_cores("openmpi", 1, {}), len(os.sched_getaffinity(0)))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == [str(len(os.sched_getaffinity(0)))] * 2
