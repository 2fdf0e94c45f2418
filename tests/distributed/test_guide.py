"""docs/guides/several-machines.md, followed on two emulated hosts: every command as it stands, on the hosts it names.

Who follows it chooses one launcher, here torchrun. The commands of all three are those of docs/clusters.md, letter for
letter, which `test_clusters_doc` runs, too: a test for each launcher, skipped where it is missing.
"""

from pathlib import Path

import pytest

from septuagint.data.manifest import MANIFEST
from tests.distributed.conftest import BuildTestbed
from tests.distributed.test_clusters_doc import BLOCKS, Site, attempts
from tests.guides import FOLDER, read_guide, write_project

COMMANDS = [block for block in read_guide(FOLDER / "several-machines.md") if block.language == "sh"]
LAUNCHERS = ("torchrun", "mpirun", "SLURM")


def test_the_launchers_are_started_as_the_reference_has_it() -> None:
    found = {block.section: (" and ".join(block.hosts), block.content) for block in COMMANDS}
    assert set(LAUNCHERS) < set(found)
    assert all(found[launcher] in BLOCKS for launcher in LAUNCHERS)


@pytest.fixture
def site(build: BuildTestbed, tmp_path: Path) -> Site:
    """Two hosts with disks of their own, and the same project on each."""
    folder = tmp_path / "work"
    testbed = build(private=[folder])
    for host in testbed.hosts:
        write_project(host.private(folder), max_steps=10)
    return Site(testbed, folder, tmp_path)


@pytest.mark.slow
def test_a_run_on_one_machine_and_then_on_two(site: Site) -> None:
    for block in COMMANDS:
        if block.section not in ("mpirun", "SLURM"):
            site.run(" and ".join(block.hosts), f"set -e\n{block.content}")
    alpha, beta = (site.run_path(host) for host in site.testbed.hosts)
    (one,) = attempts(alpha.parent / "one")
    assert (one["outcome"], one["world_size"], one["launcher"]) == ("max_steps", 2, "workers")
    (two,) = attempts(alpha)
    assert (two["outcome"], two["world_size"], two["launcher"]) == ("max_steps", 4, "torchrun")
    assert attempts(beta) == [two]
    first, second = ((run.parents[1] / "data/news" / MANIFEST).read_bytes() for run in (alpha, beta))
    assert first == second
