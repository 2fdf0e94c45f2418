"""A SLURM cluster on the hosts of a testbed: one partition, its controller on the first host, a node on each.

It takes only the programs and a temporary folder: no system service, no account and no control groups. Every node
takes all of the machine's cores and memory for its own.
"""

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tests.distributed.testbed import Host, Testbed

TOOLS = ("munged", "sbatch", "scancel", "scontrol", "sinfo", "slurmctld", "slurmd", "squeue", "srun")

# Each host has a /dev/shm of its own, so one path serves for a socket on every host.
_SOCKET = "/dev/shm/munge.socket"
# cred_expire: a requeued job waits as long as its old credential is good, two minutes if nothing is said.
# SchedulerParameters: a job that could start is looked for every second, not every half minute.
# SlurmdTimeout: a node that does not answer for so long is down; five minutes if nothing is said.
_CONFIG = """
ClusterName=testbed
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket},cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
PropagateResourceLimits=NONE
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
SlurmdTimeout={node_timeout_seconds}
NodeName={nodes} CPUs={num_cores} RealMemory={memory_megabytes} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """SLURM's daemons, for the time of a `with` block. A host that was killed and revived is added by `start_node`."""

    def __init__(self, testbed: Testbed, *, node_timeout_seconds: int = 10) -> None:
        self._hosts = testbed.hosts
        self._controller = testbed.hosts[0]
        self._folder = testbed.folder / "slurm"
        self._node_timeout_seconds = node_timeout_seconds
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._write_files()
        try:
            for host in self._hosts:
                self.start_node(host)
            self.wait_until_idle()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if self._controller.is_alive:
            with contextlib.suppress(RuntimeError, TimeoutError, subprocess.TimeoutExpired):
                self.run("scancel", "--user=root")
                self._wait("jobs do not end", lambda: not self.run("squeue", "--noheader").stdout)
        self._stop()

    @property
    def log(self) -> str:
        """What all daemons have said."""
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in sorted(self._folder.glob("*.log")))

    def start_node(self, host: Host) -> None:
        """Starts the daemons of a host that has none, as its boot would."""
        files = [f"--{kind}-file={self._folder}/{host.name}.munge.{kind}" for kind in ("pid", "seed")]
        key = f"--key-file={self._folder}/munge.key"
        self._start(host, "munged", "--foreground", "--force", f"--socket={_SOCKET}", key, *files)
        host.run(["sh", "-c", f"until [ -S {_SOCKET} ]; do sleep 0.02; done"], timeout=10)
        if host is self._controller:
            self._start(host, "slurmctld", "-D")
        self._start(host, "slurmd", "-D")

    def wait_until_idle(self) -> None:
        """Returns when all nodes are up and free."""

        def is_idle() -> bool:
            states = self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()
            return states == ["idle"] * len(self._hosts)

        self._wait("nodes are not idle", is_idle)

    def command(self, *words: str) -> list[str]:
        """One of SLURM's commands, to be run on any host."""
        return ["env", f"SLURM_CONF={self._folder}/slurm.conf", *words]

    def srun_command(
        self, num_nodes: int, tasks_per_node: int, command: Sequence[str], extra: Sequence[str] = ()
    ) -> list[str]:
        """The line for tasks on so many nodes, to be run on any host. `extra` are more options of srun.

        The first name in SLURM_STEP_NODELIST, "alpha,beta" or "node[01-02]", has task 0. SLURM_LAUNCH_NODE_IPADDR is
        the address of srun, which need not have any task.
        """
        return self.command("srun", f"--nodes={num_nodes}", f"--ntasks-per-node={tasks_per_node}", *extra, *command)

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs one of SLURM's commands to its end, on the first host."""
        result = self._controller.run(self.command(*words), cwd=cwd)
        if result.returncode != 0:
            raise RuntimeError(f"{shlex.join(words)}: {result.stderr.strip()}")
        return result

    def sbatch(self, script: Path, *options: str) -> int:
        """Submits a script from its own folder and returns the job's number."""
        return int(self.run("sbatch", "--parsable", *options, str(script), cwd=script.parent).stdout)

    def job(self, number: int) -> dict[str, str]:
        """What SLURM tells of a job: JobState, ExitCode, Restarts, Reason and so on."""
        words = self.run("scontrol", "--oneliner", "show", "job", str(number)).stdout.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_for_job(self, number: int, *states: str, timeout: float = 60) -> dict[str, str]:
        """Returns when a job is in one of these states, such as RUNNING, COMPLETED or FAILED."""
        self._wait(f"job {number} is not {states}", lambda: self.job(number)["JobState"] in states, timeout)
        return self.job(number)

    def _write_files(self) -> None:
        for path in (self._folder / "state", *(self._folder / host.name for host in self._hosts)):
            path.mkdir(parents=True)
        key = self._folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        config = _CONFIG.format(
            controller=self._controller.name,
            socket=_SOCKET,
            folder=self._folder,
            node_timeout_seconds=self._node_timeout_seconds,
            nodes=",".join(host.name for host in self._hosts),
            num_cores=os.cpu_count(),
            memory_megabytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        )
        (self._folder / "slurm.conf").write_text(config)

    def _start(self, host: Host, *words: str) -> None:
        log = self._folder / f"{host.name}.{words[0]}.log"
        self._daemons.append(host.start(self.command(*words), output=log))

    def _stop(self) -> None:
        """Stops the daemons, those that depend on others first."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _wait(self, problem: str, is_over: Callable[[], bool], timeout: float = 30) -> None:
        deadline = time.monotonic() + timeout
        while not is_over():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{problem} after {timeout} s\n{self.log}")
            time.sleep(0.1)
