"""Hosts for tests on many machines. They are built by root, from tools that every Linux has or can have."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import need_tool
from tests.distributed import slurm as slurm_module
from tests.distributed.slurm import SlurmCluster
from tests.distributed.testbed import TOOLS, Testbed


@pytest.fixture(scope="session")
def hosts_possible() -> None:
    """The test is skipped where hosts cannot be emulated."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to emulate hosts")
    for tool in TOOLS:
        need_tool(tool)
    attempt = subprocess.run(
        "unshare --mount --uts --ipc --net --pid --fork mount -t sysfs sysfs /sys".split(),
        capture_output=True,
        check=False,
    )
    if attempt.returncode != 0:
        pytest.skip("needs the right to make namespaces: a container must be a privileged one")


def wait_until_nothing_runs(testbed: Testbed) -> None:
    """What a launcher has started may need a moment to end after it."""
    deadline = time.monotonic() + 5
    while any(host.pids() for host in testbed.hosts):
        assert time.monotonic() < deadline, {host.name: host.run(["ps", "ax"]).stdout for host in testbed.hosts}
        time.sleep(0.02)


BuildTestbed = Callable[..., Testbed]


@pytest.fixture
def build(hosts_possible: None) -> Iterator[BuildTestbed]:
    """Builds testbeds, with the arguments of `Testbed`, that last as long as the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, **settings: stack.enter_context(Testbed(*arguments, **settings))


@pytest.fixture
def testbed(build: BuildTestbed) -> Testbed:
    """Two hosts, `alpha` and `beta`, whose cables have no limit."""
    return build()


@pytest.fixture(scope="session")
def slurm_possible() -> None:
    for tool in slurm_module.TOOLS:
        need_tool(tool)


@pytest.fixture
def slurm(testbed: Testbed, slurm_possible: None) -> Iterator[SlurmCluster]:
    """SLURM on these two hosts."""
    with SlurmCluster(testbed) as cluster:
        yield cluster
