"""Several hosts on one machine, for tests of training on many: each has its name, its network, its processes.

A host is a process and the namespaces it lives in (mount, UTS, IPC, network, PID). It has an interface `eth0`, joined
to the others by a switch, which is a bridge in a network namespace of its own. Nothing has a name outside of these
namespaces, and nothing outlives the process that built the testbed, however it ends: the kernel kills the hosts'
first processes with it, and whatever lived in their namespaces with them. At most a temporary folder is left.

The hosts see one file system, as a cluster sees its shared storage, but for `/dev/shm` and the private folders. Each
has a TMPDIR of its own: hosts of two testbeds may have the same name and the same process ids, from which programs
such as mpirun make names in there.

    python -m tests.distributed.testbed --hosts 2 --rate 1gbit -- torchrun --nnodes 2 --node-rank {rank} \\
        --master-addr {master} --nproc-per-node 1 train.py
"""

import argparse
import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from tests.distributed import remote_shell

NAMES = ("alpha", "beta", "gamma", "delta")
TOOLS = ("bridge", "ip", "mount", "nsenter", "setpriv", "tc", "unshare")

_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)

# A host's first process. It ignores its children's ends, so that the kernel buries the orphans it inherits.
# /sys is mounted anew for a moment: a mounted one goes on showing the interfaces of the namespace it was mounted in.
_BOOT = """
name=$1 folder=$2
shift 2
echo "$name" > /proc/sys/kernel/hostname
mount --bind "$folder/hosts" /etc/hosts
mount -t tmpfs tmpfs /dev/shm
mount -t sysfs sysfs "$folder/sys"
mount --bind "$folder/sys/class/net" /sys/class/net
mount --bind "$folder/sys/devices/virtual/net" /sys/devices/virtual/net
umount "$folder/sys"
for path; do mount --bind "$folder/disk$path" "$path"; done
ip link set lo up
echo ready
exec env --ignore-signal=CHLD sleep infinity > /dev/null 2>&1
"""
_BOOT_SWITCH = """
ip link add switch type bridge stp_state 0
ip link set switch up
echo ready
exec sleep infinity > /dev/null 2>&1
"""


class Host:
    """One emulated machine. Its private folders are its disk: they outlive `kill`, and nothing else does."""

    def __init__(self, name: str, *, index: int, testbed: "Testbed") -> None:
        self.name = name
        self.address = f"10.77.0.{index + 1}"
        self._testbed = testbed
        self._folder = testbed.folder / name
        self._port = f"port{index}"
        # The same card after a restart: the others need not ask for its address again.
        self._hardware_address = f"02:00:00:00:00:{index + 1:02x}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._first: subprocess.Popen[bytes] | None = None
        self._shell: subprocess.Popen[bytes] | None = None
        for folder in ("sys", "disk", "tmp"):
            (self._folder / folder).mkdir(parents=True)
        for path in testbed.private:
            self.private(path).mkdir(parents=True)
        (self._folder / "hosts").write_text(testbed.hosts_file)

    def private(self, path: Path) -> Path:
        """Where a private folder of this host, or a path in it, lies for everyone else."""
        return self._folder / "disk" / path.relative_to("/")

    @property
    def hosts_path(self) -> Path:
        """What this host sees as /etc/hosts; to be written over, not replaced, by those who want to confuse it."""
        return self._folder / "hosts"

    @property
    def is_alive(self) -> bool:
        return self._first is not None

    def start(
        self, command: Sequence[str], *, output: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a command in a session of its own; standard output and error are added to a file.

        The process id is that of the command, so signals reach it. `env` is added to our own environment.
        """
        with output.open("ab") as file:
            return self._spawn(command, file, subprocess.STDOUT, env, cwd)

    def pipe(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """The same, with standard output and error together in a pipe."""
        return self._spawn(command, subprocess.PIPE, subprocess.STDOUT, env, cwd)

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end. Where it takes longer than `timeout` seconds, it is killed and this raises."""
        process = self._spawn(command, subprocess.PIPE, subprocess.PIPE, env, cwd)
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, stdout.decode(), stderr.decode())

    def pids(self) -> list[int]:
        """The processes that live in this host, by the numbers they have outside of it; its own two are left out."""
        if self._first is None:
            return []
        own = {process.pid for process in (self._first, self._shell) if process is not None}
        return sorted(_living_in(self._first.pid) - own)

    def network(self) -> contextlib.AbstractContextManager[None]:
        """Sockets that this thread makes in the block are this host's, for good. Use addresses: names are not known."""
        assert self._first is not None, f"{self.name} is dead"
        return _namespace("net", _CLONE_NEWNET, self._first.pid)

    def cut(self) -> None:
        """Takes the cable out of the switch: packets are lost both ways, and neither end is told."""
        self._switch("bridge", "link", "set", "dev", self._port, "state", "disabled")

    def mend(self) -> None:
        self._switch("bridge", "link", "set", "dev", self._port, "state", "forwarding")

    def limit(self, rate: str | None) -> None:
        """Limits what is sent and what is received to a rate such as "100mbit", each for itself; `None`: no limit."""
        assert self._first is not None, f"{self.name} is dead"
        for pid, device in ((self._first.pid, "eth0"), (self._testbed.switch_pid, self._port)):
            if rate is None:
                _in_network(pid, "tc", "qdisc", "delete", "dev", device, "root", check=False)
            else:
                # The burst must hold the largest packet a card takes from the kernel at once, which is 64 kB.
                settings = ("rate", rate, "burst", "128kb", "latency", "50ms")
                _in_network(pid, "tc", "qdisc", "replace", "dev", device, "root", "tbf", *settings)

    def kill(self) -> None:
        """The machine loses power: nothing of it is left, and no packet tells the others."""
        if self._first is None:
            return
        with contextlib.suppress(RuntimeError):  # it was only half built: there is no cable yet
            self.cut()
        self._first.kill()
        # The first process ends when all others are buried; those that are our children, we bury.
        for process in self._processes:
            process.wait()
        self._first.wait()
        self._first, self._shell, self._processes = None, None, []
        # The kernel takes its time to remove the other end of the cable.
        _in_network(self._testbed.switch_pid, "ip", "link", "delete", self._port, check=False)

    def revive(self) -> None:
        """The machine is switched on (again)."""
        assert self._first is None, f"{self.name} is alive"
        private = [str(path) for path in self._testbed.private]
        self._first = _boot("--mount --uts --ipc --mount-proc", _BOOT, self.name, str(self._folder), *private)
        peer = ("name", "eth0", "address", self._hardware_address, "netns", str(self._first.pid))
        self._switch("ip", "link", "add", self._port, "type", "veth", "peer", *peer)
        self._switch("ip", "link", "set", self._port, "master", "switch", "up")
        _in_network(self._first.pid, "ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        _in_network(self._first.pid, "ip", "link", "set", "eth0", "up")
        if self._testbed.rate is not None:
            self.limit(self._testbed.rate)
        self._shell = self.pipe([sys.executable, "-I", str(Path(remote_shell.__file__)), "--serve"])
        _wait_until_ready(self._shell)

    def _switch(self, *command: str) -> None:
        _in_network(self._testbed.switch_pid, *command)

    def _spawn(
        self,
        command: Sequence[str],
        stdout: IO[bytes] | int,
        stderr: int,
        env: Mapping[str, str] | None,
        cwd: Path | None,
    ) -> subprocess.Popen[bytes]:
        assert self._first is not None, f"{self.name} is dead"
        # In a mount namespace a process begins at the root; so its folder is entered last.
        enter = f"nsenter --target {self._first.pid} --mount --uts --ipc --net -- env".split()
        with _born_in(self._first.pid):
            process = subprocess.Popen(
                [*enter, f"--chdir={(cwd or Path.cwd()).absolute()}", "--", *command],
                env={**os.environ, "TMPDIR": str(self._folder / "tmp"), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self._processes = [*(process for process in self._processes if process.poll() is None), process]
        return process


class Testbed:
    """Two to four hosts and the switch between them, for the time of a `with` block.

    It belongs to the thread that enters it: the hosts die with that thread.
    """

    __test__ = False  # for pytest: the name begins like a test's

    def __init__(
        self, names: Sequence[str] = NAMES[:2], *, rate: str | None = None, private: Sequence[Path] = ()
    ) -> None:
        """`rate` limits every cable; each path of `private` shows another folder on every host, empty at first."""
        self.rate = rate
        self.private = sorted(path.absolute() for path in private)
        self._names = tuple(names)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="testbed-", ignore_cleanup_errors=True))
            self.folder = Path(folder)
            for path in self.private:
                assert not self.folder.is_relative_to(path), f"{path} would hide the testbed's own files"
                path.mkdir(parents=True, exist_ok=True)
            self._write_agent()
            switch = _boot("", _BOOT_SWITCH)
            self.switch_pid = switch.pid
            stack.callback(switch.wait)
            stack.callback(switch.kill)
            self.hosts = [Host(name, index=index, testbed=self) for index, name in enumerate(self._names)]
            for host in self.hosts:
                stack.callback(host.kill)
                host.revive()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def __getitem__(self, name: str) -> Host:
        return self.hosts[self._names.index(name)]

    @property
    def hosts_file(self) -> str:
        # A name with a domain has its short form too, which is how Open MPI calls it.
        names = [" ".join(dict.fromkeys([name, name.split(".")[0]])) for name in self._names]
        lines = [f"10.77.0.{index + 1} {name}" for index, name in enumerate(names)]
        return "\n".join(["127.0.0.1 localhost", *lines, ""])

    @property
    def agent(self) -> Path:
        """A program to be called like ssh: options, a host, the words of a command."""
        return self.folder / "agent"

    def mpirun_command(
        self, hosts: Sequence[Host], ranks_per_host: int, command: Sequence[str], extra: Sequence[str] = ()
    ) -> list[str]:
        """Open MPI's line for ranks on these hosts; it may be run on any host. `extra` are more of its options.

        As under ssh, the ranks of other hosts get of the environment what is named by `-x NAME`. The hosts share the
        machine's cores, which each would think its own; so ranks are not bound to any.

        A rank knows the address of mpirun (OMPI_MCA_orte_hnp_uri, "1234.0;tcp://10.77.0.1:36319"), not of rank 0.
        Where mpirun's own host is among `hosts`, it comes first whatever their order, and has rank 0. Where it is not,
        rank 0 is on the second name of OMPI_MCA_orte_node_regex, "gamma,alpha,beta@0(3)" or "node[2:3,1-2]@0(3)";
        then OMPI_MCA_ess_base_num_procs is greater than OMPI_MCA_orte_num_nodes. Ranks on mpirun's own host have
        neither the list nor the number of daemons, and need none.
        """
        slots = ",".join(f"{host.name}:{ranks_per_host}" for host in hosts)
        line = f"mpirun --allow-run-as-root --oversubscribe --bind-to none -n {len(hosts) * ranks_per_host} -H {slots}"
        return [*line.split(), "--mca", "plm_rsh_agent", str(self.agent), *extra, *command]

    def mpiexec_command(
        self, hosts: Sequence[Host], ranks_per_host: int, command: Sequence[str], extra: Sequence[str] = ()
    ) -> list[str]:
        """MPICH's line for the same. It hands the whole environment on, and keeps the order of the hosts.

        No variable names another host: there are PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS, and PMI_FD, a
        socket on which ranks can exchange words through the launcher.
        """
        slots = ",".join(f"{host.name}:{ranks_per_host}" for host in hosts)
        line = (
            f"mpiexec.mpich -launcher ssh -launcher-exec {self.agent} -n {len(hosts) * ranks_per_host} -hosts {slots}"
        )
        return [*line.split(), *extra, *command]

    def _write_agent(self) -> None:
        words = [sys.executable, "-I", str(Path(remote_shell.__file__))]
        self.agent.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        self.agent.chmod(0o755)


@contextlib.contextmanager
def _namespace(kind: str, flag: int, pid: int | None) -> Iterator[None]:
    """Moves this thread into a namespace of a process, or, with `None`, into a new one, and back again."""
    own = os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY)
    try:
        if pid is None:
            _check(_LIBC.unshare(flag))
        else:
            other = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            try:
                _check(_LIBC.setns(other, flag))
            finally:
                os.close(other)
        yield
    finally:
        _check(_LIBC.setns(own, flag))
        os.close(own)


def _born_in(pid: int | None) -> contextlib.AbstractContextManager[None]:
    """What this thread starts in the block is born in the PID namespace of a process, or, with `None`, in a new one."""
    return _namespace("pid", _CLONE_NEWPID, pid)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _boot(namespaces: str, script: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts the first process of a new PID and network namespace; it lives as long as we do."""
    enter = f"setpriv --pdeathsig KILL unshare --net {namespaces} sh -euc".split()
    with _born_in(None):
        process = subprocess.Popen(
            [*enter, script, "sh", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _wait_until_ready(process)
    return process


def _wait_until_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    with process.stdout as stream:
        if (line := stream.readline()) != b"ready\n":
            process.kill()
            process.wait()
            raise RuntimeError((line + stream.read()).decode())


def _in_network(pid: int, *command: str, check: bool = True) -> None:
    result = subprocess.run(
        ["nsenter", "--target", str(pid), "--net", "--", *command], capture_output=True, text=True, check=False
    )
    if check and result.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {result.stderr.strip()}")


def _living_in(pid: int) -> set[int]:
    """All processes of a PID namespace but the dead that are not yet buried."""
    found, namespace = set(), Path(f"/proc/{pid}/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has just ended
                is_dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                if not is_dead and (entry / "ns" / "pid").readlink() == namespace:
                    found.add(int(entry.name))
    return found


def _show(host: Host, process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        # One write: `print` would end the line with a second one, and another host's line may come between.
        sys.stdout.write(f"{host.name}: {line.decode(errors='replace').rstrip()}\n")
        sys.stdout.flush()


def run_everywhere(testbed: Testbed, command: Sequence[str]) -> int:
    """Runs a command on all hosts at once, shows what they write, and returns the worst exit code.

    An interruption is handed on to the commands, as it is to programs in a terminal; they decide what becomes of it.
    """
    processes: list[subprocess.Popen[bytes]] = []
    threads: list[threading.Thread] = []

    def hand_on(*_: object) -> None:
        for process in processes:
            process.send_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, hand_on)
    for rank, host in enumerate(testbed.hosts):
        words = [word.replace("{rank}", str(rank)).replace("{master}", testbed.hosts[0].name) for word in command]
        processes.append(host.pipe(words, env={"PYTHONUNBUFFERED": "1"}))
        threads.append(threading.Thread(target=_show, args=(host, processes[-1]), name=f"output of {host.name}"))
        threads[-1].start()
    codes = [process.wait() for process in processes]
    for host in testbed.hosts:
        host.kill()  # a process left behind would keep the pipe open
    for thread in threads:
        thread.join()
    return max(code if code >= 0 else 128 - code for code in codes)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command on several emulated hosts at once.")
    parser.add_argument("--hosts", type=int, default=2, choices=(2, 3, 4), help="how many")
    parser.add_argument("--rate", help='limit of every cable, each way, such as "1gbit"; none by default')
    parser.add_argument("--private", type=Path, action="append", default=[], help="a folder each host has for itself")
    parser.add_argument("command", nargs="+", help="{rank}: the host's number; {master}: the first host's name")
    options = parser.parse_args()
    with Testbed(NAMES[: options.hosts], rate=options.rate, private=options.private) as testbed:
        for host in testbed.hosts:
            print(f"{host.name}: {host.address}", flush=True)
        return run_everywhere(testbed, options.command)


if __name__ == "__main__":
    sys.exit(main())
