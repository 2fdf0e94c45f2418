"""Launchers: what torchrun, mpirun, mpiexec and srun tell a process of its place among the others.

Each sets variables of its own; the first that is found counts: explicit ones (RANK and WORLD_SIZE, as torchrun sets
them, too), Open MPI, MPICH and its kin, SLURM. MPI comes before SLURM, because mpirun inside an allocation sees both.
"""

import contextlib
import ctypes
import importlib.util
import os
import re
import signal
import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from septuagint.errors import UserError
from septuagint.machine import available_cores

Launcher = Literal["none", "workers", "torchrun", "environment", "openmpi", "mpich", "slurm"]

WORKERS = "SEPTUAGINT_WORKERS"
"""Set by `--workers` for the ranks that it starts."""
_LOOPBACK = "127.0.0.1"
_PMIX_STRING = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A process among the others, and where they meet."""

    launcher: Launcher
    rank: int = 0
    size: int = 1
    local_rank: int | None = None  # None: to be found out when all have met
    addresses: tuple[str, ...] = ()  # of the meeting place; the first that answers counts
    port: int = 0
    is_keeper: bool = True  # whether this process keeps the meeting place


def find_place(environment: Mapping[str, str]) -> Place:
    """Reads the launcher's variables; a UserError where they do not suffice."""
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return _from_torchrun(environment)
    if "OMPI_COMM_WORLD_RANK" in environment:
        return _from_open_mpi(environment)
    is_step = "SLURM_STEP_ID" in environment and _num_tasks(environment) > 1
    is_mpiexec = "MPI_LOCALRANKID" in environment  # srun --mpi=pmi2 sets the other variables of PMI, too
    if "PMI_RANK" in environment and "PMI_SIZE" in environment and (is_mpiexec or not is_step):
        return _from_mpich(environment)
    if is_step:
        return _from_slurm(environment)
    return Place(launcher="none")


def _from_torchrun(environment: Mapping[str, str]) -> Place:
    """Or from whoever sets the same variables, such as an operator of Kubernetes."""
    rank, size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if rank >= size:
        raise UserError(f"RANK = {rank}, but WORLD_SIZE = {size}: ranks are counted from 0")
    address = environment.get("MASTER_ADDR")
    if size > 1 and address is None:
        raise UserError(
            "RANK and WORLD_SIZE are set, but not MASTER_ADDR: set it to the host of rank 0 (and MASTER_PORT to a free "
            "port there), or unset RANK and WORLD_SIZE to train on this machine alone"
        )
    is_torchrun = "TORCHELASTIC_RUN_ID" in environment
    launcher: Launcher = "environment"
    if is_torchrun:
        launcher = "workers" if WORKERS in environment else "torchrun"
    return Place(
        launcher=launcher,
        rank=rank,
        size=size,
        local_rank=_optional(environment, "LOCAL_RANK"),
        addresses=(address or _LOOPBACK,),
        port=_port(environment, 29500),
        is_keeper=rank == 0 and environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
    )


def _from_open_mpi(environment: Mapping[str, str]) -> Place:
    rank, size = _number(environment, "OMPI_COMM_WORLD_RANK"), _number(environment, "OMPI_COMM_WORLD_SIZE")
    local_rank = _number(environment, "OMPI_COMM_WORLD_LOCAL_RANK")
    local_size = _number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE")
    is_keeper, addresses = rank == 0, tuple[str, ...]()
    if "MASTER_ADDR" in environment or local_size == size:
        addresses = (environment.get("MASTER_ADDR", _LOOPBACK),)
    elif (found := rank_0_by_pmix(environment.get("PMIX_NAMESPACE", "")) or _rank_0_by_mpi4py()) is not None:
        addresses = (found,)
    else:
        # Where mpirun itself runs is known to all; a rank of that host keeps the meeting place, whatever its number.
        addresses = _addresses_of_mpirun(environment.get("OMPI_MCA_orte_hnp_uri", ""))
        is_keeper = local_rank == 0 and all(is_own_address(address) for address in addresses)
        if not addresses:
            raise UserError(
                "this Open MPI does not tell where rank 0 runs: add `-x MASTER_ADDR=<first host>` to mpirun"
            )
    job = environment.get("OMPI_MCA_ess_base_jobid") or environment.get("PMIX_NAMESPACE", "")
    return Place(
        launcher="openmpi",
        rank=rank,
        size=size,
        local_rank=local_rank,
        addresses=addresses,
        port=_port(environment, _port_of_job(job)),
        is_keeper=is_keeper,
    )


def _from_mpich(environment: Mapping[str, str]) -> Place:
    rank, size = _number(environment, "PMI_RANK"), _number(environment, "PMI_SIZE")
    local_size = _optional(environment, "MPI_LOCALNRANKS")
    found, job = rank_0_by_pmi(environment.get("PMI_FD", ""), rank)
    address = environment.get("MASTER_ADDR") or (_LOOPBACK if local_size == size else found or _rank_0_by_mpi4py())
    if address is None:
        raise UserError(
            "mpiexec does not tell where rank 0 runs: add `-genv MASTER_ADDR <first host>`, or install mpi4py"
        )
    return Place(
        launcher="mpich",
        rank=rank,
        size=size,
        local_rank=_optional(environment, "MPI_LOCALRANKID"),
        addresses=(address,),
        port=_port(environment, _port_of_job(job)),
        is_keeper=rank == 0,
    )


def _from_slurm(environment: Mapping[str, str]) -> Place:
    rank = _number(environment, "SLURM_PROCID")
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    address = environment.get("MASTER_ADDR") or first_node(nodes)
    if not address:
        raise UserError("SLURM does not tell its nodes (SLURM_JOB_NODELIST): set MASTER_ADDR to the host of rank 0")
    job = f"{environment.get('SLURM_JOB_ID', '')}.{environment['SLURM_STEP_ID']}"
    return Place(
        launcher="slurm",
        rank=rank,
        size=_num_tasks(environment),
        local_rank=_optional(environment, "SLURM_LOCALID"),
        addresses=(address,),
        port=_port(environment, _port_of_job(job)),
        is_keeper=rank == 0,
    )


def _num_tasks(environment: Mapping[str, str]) -> int:
    """Of this step: the shell of salloc is a step of one task, in a job of several."""
    return _number(environment, "SLURM_STEP_NUM_TASKS", _number(environment, "SLURM_NTASKS", 1))


def first_node(node_list: str) -> str:
    """The first of `gpu[03-05,9],login`: gpu03."""
    match = re.match(r"([^,\[]+)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", node_list)
    return f"{match[1]}{match[2] or ''}{match[3] or ''}" if match else ""


def _addresses_of_mpirun(uri: str) -> tuple[str, ...]:
    """`1811349504.0;tcp://10.0.0.1,172.17.0.1:53613;tcp6://…`: 10.0.0.1 and 172.17.0.1."""
    match = re.search(r";tcp://([0-9.,]+):\d+", uri)
    return tuple(match[1].split(",")) if match else ()


def rank_0_by_pmix(namespace: str) -> str | None:
    """Where rank 0 runs, asked of Open MPI's daemon through the library that MPI itself uses, if it is there."""

    class Process(ctypes.Structure):
        _fields_ = (("namespace", ctypes.c_char * 256), ("rank", ctypes.c_uint32))

    class Value(ctypes.Structure):
        _fields_ = (("type", ctypes.c_uint16), ("text", ctypes.c_char_p))

    try:
        library = ctypes.CDLL("libpmix.so.2")
    except OSError:
        return None
    own, value = Process(), ctypes.POINTER(Value)()
    if library.PMIx_Init(ctypes.byref(own), None, ctypes.c_size_t(0)) != 0:
        return None
    rank_0 = Process(namespace=namespace.encode(), rank=0)
    code = library.PMIx_Get(ctypes.byref(rank_0), b"pmix.hname", None, ctypes.c_size_t(0), ctypes.byref(value))
    name = value.contents.text if code == 0 and value.contents.type == _PMIX_STRING else None
    library.PMIx_Finalize(None, ctypes.c_size_t(0))
    return None if name is None else name.decode()


def rank_0_by_pmi(descriptor: str, rank: int) -> tuple[str | None, str]:
    """(where rank 0 runs, the name of the job), told through the socket that mpiexec opens for its processes.

    They speak lines of text. None and an empty name where there is no such socket.
    """
    if not descriptor.isdecimal():
        return None, ""
    with contextlib.suppress(OSError, KeyError), socket.socket(fileno=int(descriptor)) as line:
        lines = line.makefile("rw")

        def ask(command: str) -> dict[str, str]:
            lines.write(f"cmd={command}\n")
            lines.flush()
            return dict(word.partition("=")[::2] for word in lines.readline().split())

        ask("init pmi_version=1 pmi_subversion=1")
        space = ask("get_my_kvsname")["kvsname"]
        if rank == 0:
            ask(f"put kvsname={space} key=septuagint value={socket.gethostname()}")
        ask("barrier_in")
        found = ask(f"get kvsname={space} key=septuagint")["value"]
        ask("finalize")
        return found, space
    return None, ""


def _rank_0_by_mpi4py() -> str | None:
    """Where rank 0 runs, told through MPI itself where Python can speak it."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    from mpi4py import MPI  # type: ignore[import-not-found]  # used where it is, never asked for

    return str(MPI.COMM_WORLD.bcast(socket.gethostname()))


def is_own_address(address: str) -> bool:
    """Whether an address belongs to this machine."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _port_of_job(job: str) -> int:
    """A port that all ranks of a job know and other jobs seldom have, below those that systems hand out."""
    return 20_000 + zlib.crc32(job.encode()) % 10_000 if job else 29_500


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "" if default is None else str(default))
    if not text.isdecimal():
        raise UserError(f"{name} = {text!r} is not a number; start the ranks with torchrun, mpirun or srun")
    return int(text)


def _port(environment: Mapping[str, str], default: int) -> int:
    port = _number(environment, "MASTER_PORT", default)
    if not 0 < port < 1 << 16:
        raise UserError(f"MASTER_PORT = {port} is not a port: choose a free one between 1024 and 65535")
    return port


def _optional(environment: Mapping[str, str], name: str) -> int | None:
    return _number(environment, name) if name in environment else None


def share_of_cores(launcher: str, local_size: int, environment: Mapping[str, str]) -> int:
    """Threads of one of `local_size` ranks of a host: its part of the cores, whatever the launcher says or binds.

    torchrun sets OMP_NUM_THREADS to 1, mpirun binds each process to one core: both would leave most cores idle.
    """
    if launcher == "none":
        wanted = environment.get("OMP_NUM_THREADS", "")
        return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else available_cores()
    if launcher == "slurm" and "SLURM_CPUS_PER_TASK" in environment:
        return _number(environment, "SLURM_CPUS_PER_TASK")
    if launcher == "openmpi":
        _leave_binding()
    return max(1, available_cores() // local_size)


def _leave_binding() -> None:
    """Takes the cores that mpirun itself may use, and not the one that it bound this process to."""
    with contextlib.suppress(OSError):  # somebody else's process; then the binding stays
        os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))


def die_with_launcher() -> None:
    """Has the system send SIGTERM to this process when the one that started it is gone: it saves, and leaves.

    A torchrun that is killed would otherwise leave its ranks behind, and they would hold the run folder.
    """
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM)
