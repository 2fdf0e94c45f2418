"""The emulated hosts behave as machines do: in what they share, in what they do not, and in how they fail."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need_tool
from tests.distributed.conftest import BuildTestbed, wait_until_nothing_runs
from tests.distributed.testbed import Host, Testbed

PORT = 5000
# Connects to an address, says so, and keeps the connection until it is told to stop.
CONNECT = f"""
import signal, socket, sys
connection = socket.create_connection((sys.argv[1], {PORT}))
connection.send(b"hello")
signal.pause()
"""


@contextlib.contextmanager
def connected(sender: Host, receiver: Host) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a connection between hosts."""
    with listening(receiver) as server:
        with sender.network():
            near = socket.create_connection((receiver.address, PORT), timeout=10)
        far = server.accept()[0]
        far.settimeout(10)
        with near, far:
            yield near, far


@contextlib.contextmanager
def listening(host: Host) -> Iterator[socket.socket]:
    with host.network():
        server = socket.create_server((host.address, PORT))
    server.settimeout(10)
    with server:
        yield server


def receive(connection: socket.socket, num_bytes: int) -> bytes:
    received = b""
    while len(received) < num_bytes:
        piece = connection.recv(num_bytes - len(received))
        assert piece, "the connection was closed"
        received += piece
    return received


def megabits_per_second(sender: Host, receiver: Host, seconds: float = 1.5) -> float:
    """What a connection carries. The first moments, in which it grows, are left out."""
    with connected(sender, receiver) as (near, far):

        def flood() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near.sendall(bytes(1 << 16))

        flooding = threading.Thread(target=flood, name="flood")
        flooding.start()
        num_bytes, start = 0, time.monotonic()
        while (now := time.monotonic()) < start + 0.5 + seconds:
            piece = far.recv(1 << 20)
            num_bytes += len(piece) if now > start + 0.5 else 0
        far.close()
        flooding.join()
    return num_bytes * 8 / seconds / 1e6


def wait_until_gone(pids: set[int]) -> None:
    """The kernel buries a dead host's processes at once, but not at the same instant."""
    deadline = time.monotonic() + 5
    while left := {pid for pid in pids if Path(f"/proc/{pid}").exists()}:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def namespaces() -> set[str]:
    lines = subprocess.run(
        ["lsns", "--noheadings", "--output", "NS"], capture_output=True, text=True, check=True
    ).stdout
    return set(lines.split())


def test_every_host_knows_its_name_and_all_addresses(build: BuildTestbed) -> None:
    testbed = build(("alpha", "beta", "gamma", "delta"))
    program = "import socket, sys; print(socket.gethostname(), *map(socket.gethostbyname, sys.argv[1:]))"
    addresses = [host.address for host in testbed.hosts]
    assert len(set(addresses)) == 4
    for host in testbed.hosts:
        result = host.run([sys.executable, "-c", program, *(other.name for other in testbed.hosts)])
        assert result.stdout.split() == [host.name, *addresses], result.stderr


def test_a_host_has_one_interface_and_its_loopback(testbed: Testbed) -> None:
    names = testbed["alpha"].run(["ls", "/sys/class/net"]).stdout.split()
    assert names == ["eth0", "lo"]
    with testbed["alpha"].network():
        assert {name for _, name in socket.if_nameindex()} == {"eth0", "lo"}


def test_every_host_reaches_every_other(build: BuildTestbed) -> None:
    testbed = build(("alpha", "beta", "gamma"))
    for sender in testbed.hosts:
        for receiver in testbed.hosts:
            with connected(sender, receiver) as (near, far):
                near.sendall(b"there")
                assert receive(far, 5) == b"there"
                assert far.getpeername()[0] == sender.address


def test_testbeds_at_the_same_time_do_not_meet(build: BuildTestbed) -> None:
    first, second = build(), build()
    with listening(first["beta"]), second["alpha"].network(), pytest.raises(ConnectionRefusedError):
        socket.create_connection((second["beta"].address, PORT), timeout=10)


@pytest.mark.slow
def test_a_limited_cable_carries_its_rate_both_ways(testbed: Testbed) -> None:
    alpha, beta = testbed.hosts
    unlimited = megabits_per_second(alpha, beta, 0.5)
    beta.limit("100mbit")
    rates = [megabits_per_second(alpha, beta), megabits_per_second(beta, alpha)]
    beta.limit(None)
    again = megabits_per_second(alpha, beta, 0.5)
    assert all(80 <= rate <= 105 for rate in rates), rates
    assert min(unlimited, again) > 200


@pytest.mark.slow
def test_a_rate_holds_for_every_host_also_after_its_return(build: BuildTestbed) -> None:
    testbed = build(rate="100mbit")
    alpha, beta = testbed.hosts
    rates = [megabits_per_second(alpha, beta)]
    for host in (alpha, beta):
        host.kill()
        host.revive()
    rates.append(megabits_per_second(beta, alpha))
    assert all(80 <= rate <= 105 for rate in rates), rates


@pytest.mark.slow
def test_a_cut_delays_what_is_sent_and_loses_nothing(testbed: Testbed) -> None:
    alpha, beta = testbed.hosts
    with connected(alpha, beta) as (near, far):
        near.sendall(b"before")
        assert receive(far, 6) == b"before"
        beta.cut()
        near.sendall(b"during")
        far.settimeout(2)
        with pytest.raises(TimeoutError):
            far.recv(1)
        beta.mend()
        far.settimeout(10)
        assert receive(far, 6) == b"during"
        far.sendall(b"after")
        assert receive(near, 5) == b"after"


def test_a_cut_host_cannot_be_reached_and_the_others_can(build: BuildTestbed) -> None:
    testbed = build(("alpha", "beta", "gamma"))
    alpha, beta, gamma = testbed.hosts
    beta.cut()
    with listening(beta), alpha.network(), pytest.raises(TimeoutError):
        socket.create_connection((beta.address, PORT), timeout=0.5)
    with connected(alpha, gamma), connected(gamma, alpha):
        pass


def connect(host: Host, server: socket.socket, output: Path) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process on a host that is connected to us, and our end of it."""
    address = server.getsockname()[0]
    process = host.start([sys.executable, "-c", CONNECT, address], output=output)
    connection = server.accept()[0]
    connection.settimeout(2)
    assert receive(connection, 5) == b"hello"
    return process, connection


def test_a_killed_process_closes_its_connections(testbed: Testbed, tmp_path: Path) -> None:
    alpha, beta = testbed.hosts
    with listening(beta) as server:
        process, connection = connect(alpha, server, tmp_path / "output")
        process.kill()
        with connection:
            assert connection.recv(1) == b""


@pytest.mark.slow
def test_a_killed_host_leaves_no_process_and_says_nothing(testbed: Testbed, tmp_path: Path) -> None:
    alpha, beta = testbed.hosts
    with listening(beta) as server:
        process, connection = connect(alpha, server, tmp_path / "output")
        alpha.run(["sh", "-c", "sleep 1000 > /dev/null 2>&1 & setsid sleep 1000 > /dev/null 2>&1 &"])
        pids = set(alpha.pids())
        assert len(pids) == 3
        assert process.pid in pids
        alpha.kill()
        assert process.returncode == -signal.SIGKILL
        assert alpha.pids() == []
        wait_until_gone(pids)
        with connection, pytest.raises(TimeoutError):
            connection.recv(1)


@pytest.mark.slow
def test_a_host_that_comes_back_does_not_know_old_connections(testbed: Testbed, tmp_path: Path) -> None:
    alpha, beta = testbed.hosts
    with listening(beta) as server:
        _, connection = connect(alpha, server, tmp_path / "output")
        alpha.kill()
        alpha.revive()
        with connection:
            connection.sendall(b"still there?")
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
    with connected(alpha, beta), connected(beta, alpha):
        assert alpha.run(["hostname"]).stdout == "alpha\n"


def test_private_folders_differ_and_outlive_the_power_and_all_else_is_shared(
    build: BuildTestbed, tmp_path: Path
) -> None:
    private = tmp_path / "deep" / "runs"
    testbed = build(private=[private])
    for host in testbed.hosts:
        host.run(["sh", "-c", f"hostname > {private}/name; hostname > /dev/shm/name; hostname >> {tmp_path}/names"])
    testbed["alpha"].kill()
    testbed["alpha"].revive()
    for host in testbed.hosts:
        assert host.run(["cat", str(private / "name")]).stdout == f"{host.name}\n"
        assert host.private(private / "name").read_text() == f"{host.name}\n"
    assert list(private.iterdir()) == []
    assert (tmp_path / "names").read_text() == "alpha\nbeta\n"
    assert testbed["beta"].run(["cat", "/dev/shm/name"]).stdout == "beta\n"
    assert testbed["alpha"].run(["cat", "/dev/shm/name"]).returncode != 0
    assert not Path("/dev/shm/name").exists()


def test_a_signal_reaches_the_command(testbed: Testbed, tmp_path: Path) -> None:
    output = tmp_path / "output"
    process = testbed["beta"].start(["sh", "-c", "trap 'exit 7' TERM; echo $$; sleep 100 & wait"], output=output)
    deadline = time.monotonic() + 10
    while not output.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert int(output.read_text()) < process.pid  # inside, it has another number
    process.terminate()
    assert process.wait(10) == 7


def test_an_orphan_that_ends_is_buried(testbed: Testbed) -> None:
    result = testbed["alpha"].run(["sh", "-c", "(sleep 0.1 & echo $!); sleep 0.3; ls /proc"])
    orphan, *entries = result.stdout.split()
    assert "1" in entries
    assert orphan not in entries


def test_a_command_gets_its_environment_and_its_folder(
    testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "kept")
    folder = tmp_path / "a folder"
    folder.mkdir()
    result = testbed["alpha"].run(["sh", "-c", "pwd; echo $OURS $OWN; exit 3"], env={"OWN": "added"}, cwd=folder)
    assert (result.stdout, result.returncode) == (f"{folder}\nkept added\n", 3)


def test_a_command_that_takes_too_long_is_killed(testbed: Testbed) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        testbed["alpha"].run(["sh", "-c", "sleep 100; true"], timeout=0.3)
    wait_until_nothing_runs(testbed)


@pytest.mark.usefixtures("hosts_possible")
def test_nothing_is_left_even_after_a_failure(tmp_path: Path) -> None:
    mounts, names = Path("/proc/self/mounts").read_text(), subprocess.check_output(["ip", "netns", "list"])
    with pytest.raises(ZeroDivisionError), Testbed(rate="1gbit", private=[tmp_path / "runs"]) as testbed:
        for host in testbed.hosts:
            host.start(["sleep", "1000"], output=tmp_path / "output")
        testbed["beta"].cut()
        pids = {pid for host in testbed.hosts for pid in host.pids()} | {testbed.switch_pid}
        network = str(Path(f"/proc/{testbed.switch_pid}/ns/net").stat().st_ino)
        assert len(pids) == 3
        assert network in namespaces()
        _ = 1 / 0
    wait_until_gone(pids)
    assert network not in namespaces()
    assert not testbed.folder.exists()
    assert Path("/proc/self/mounts").read_text() == mounts
    assert subprocess.check_output(["ip", "netns", "list"]) == names


@pytest.mark.usefixtures("hosts_possible")
@pytest.mark.parametrize("settings", [{"rate": "fast"}, {"private": [Path("/proc/1/nowhere")]}])
def test_a_testbed_that_cannot_be_built_says_why_and_leaves_nothing(settings: dict[str, Any]) -> None:
    children = Path("/proc/thread-self/children")
    before = children.read_text()
    testbed = Testbed(**settings)
    with pytest.raises((RuntimeError, OSError), match=r"fast|nowhere"), testbed:
        pass
    assert children.read_text() == before
    assert not testbed.folder.exists()


@pytest.mark.usefixtures("hosts_possible")
def test_hosts_die_with_the_process_that_built_them() -> None:
    program = """
import os, sys, time
from pathlib import Path
from tests.distributed.testbed import Testbed

with Testbed() as testbed:
    for host in testbed.hosts:
        host.start(["sleep", "1000"], output=Path(os.devnull))
    print(testbed.folder, testbed.switch_pid, *(pid for host in testbed.hosts for pid in host.pids()), flush=True)
    time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder, *pids = process.stdout.readline().split()
        process.kill()
    assert len(pids) == 3
    wait_until_gone(set(map(int, pids)))
    shutil.rmtree(folder)


@pytest.mark.parametrize("launcher", ["alpha", "gamma"])
def test_mpirun_starts_a_rank_on_each_host(build: BuildTestbed, launcher: str) -> None:
    need_tool("mpirun")
    testbed = build(("alpha", "beta", "gamma"))
    ranks = ["sh", "-c", 'echo "$(hostname) $OMPI_COMM_WORLD_RANK $OMPI_MCA_orte_hnp_uri"']
    command = testbed.mpirun_command([testbed["alpha"], testbed["beta"]], 1, ranks)
    result = testbed[launcher].run(command)
    assert result.returncode == 0, result.stderr
    first, second = sorted(line.split() for line in result.stdout.splitlines())
    assert (first[:2], second[:2]) == (["alpha", "0"], ["beta", "1"])
    # It listens on no other interface: the addresses would be here, between commas.
    assert first[2].split("//")[1].split(":")[0] == testbed[launcher].address
    wait_until_nothing_runs(testbed)


@pytest.mark.slow
def test_mpirun_ends_with_the_code_of_a_rank_that_fails_elsewhere(testbed: Testbed) -> None:
    need_tool("mpirun")
    command = testbed.mpirun_command(testbed.hosts, 2, ["sh", "-c", "[ $(hostname) = beta ] && exit 5; sleep 100"])
    assert testbed["alpha"].run(command).returncode == 5


@pytest.mark.parametrize("launcher", ["alpha", "gamma"])
def test_mpich_starts_a_rank_on_each_host(build: BuildTestbed, launcher: str) -> None:
    need_tool("mpiexec.mpich")
    testbed = build(("alpha", "beta", "gamma"))
    ranks = ["sh", "-c", 'echo "$(hostname) $PMI_RANK"']
    result = testbed[launcher].run(testbed.mpiexec_command([testbed["alpha"], testbed["beta"]], 1, ranks))
    assert (sorted(result.stdout.splitlines()), result.returncode) == (["alpha 0", "beta 1"], 0), result.stderr


@pytest.mark.usefixtures("hosts_possible")
def test_command_line_runs_on_all_hosts_and_ends_with_the_worst_code() -> None:
    command = ["sh", "-c", "echo {rank} of {master}; exit $((4 * (1 - {rank})))"]
    result = subprocess.run(
        [sys.executable, "-m", "tests.distributed.testbed", "--hosts", "2", "--rate", "1gbit", "--", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (4, "")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["alpha: 10.77.0.1", "beta: 10.77.0.2"]
    assert sorted(lines[2:]) == ["alpha: 0 of alpha", "beta: 1 of alpha"]


@pytest.mark.usefixtures("hosts_possible")
def test_interrupted_command_line_interrupts_the_hosts() -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.distributed.testbed",
            "--",
            "sh",
            "-c",
            "trap 'exit 9' INT; echo on; sleep 99 & wait",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline() for _ in range(4)]
        assert sorted(lines[2:]) == ["alpha: on\n", "beta: on\n"]
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(10) == 9
