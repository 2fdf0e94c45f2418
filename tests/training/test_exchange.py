"""Hosts without a common disk: who writes, who lacks what, and records that become one."""

import json
import shutil
from pathlib import Path

import torch

from septuagint.telemetry.events import EventLog, record_path
from septuagint.training.checkpoint import checkpoint_path, load_weights, newest_valid, write_checkpoint, write_weights
from septuagint.training.checkpoint_files import MODEL
from septuagint.training.exchange import (
    RecordExchange,
    find_disks,
    merge_records,
    share_checkpoints,
)
from septuagint.training.watch import Watch
from septuagint.world import World
from tests.ranks import in_ranks


def run_of(world: World, root: Path, disks: list[int]) -> Path:
    """The run folder that a rank sees: `disks` tells which disk each rank has."""
    return root / f"disk-{disks[world.rank]}" / "run"


def as_hosts(world: World) -> World:
    """Every rank a host of its own."""
    return World(rank=world.rank, size=world.size, hosts=tuple("abc"[: world.size]), group=world.group)


def look(world: World, watch: Watch, root: Path, disks: list[int]) -> tuple[list[int], bool]:
    found = find_disks(run_of(world, root, disks), as_hosts(world))
    return list(found.owner), found.is_owner


def test_the_lowest_rank_that_sees_a_disk_owns_it(tmp_path):
    assert in_ranks(3, look, tmp_path, [0, 0, 0]) == [([0, 0, 0], True), ([0, 0, 0], False), ([0, 0, 0], False)]
    owners = [0, 1, 1]
    assert in_ranks(3, look, tmp_path, [0, 5, 5]) == [(owners, True), (owners, True), (owners, False)]
    assert not list(tmp_path.rglob(".mark*"))


def write(run: Path, step: int, value: float = 1.0) -> None:
    weights = {"w": torch.full((3,), value + step)}
    write_checkpoint(run, step, weights, {"exp_avg.w": torch.zeros(3)}, {"cursor": step})


def share(world: World, watch: Watch, root: Path, disks: list[int]) -> tuple[int | None, list[str]]:
    world, run = as_hosts(world), run_of(world, root, disks)
    checkpoint, problems = share_checkpoints(run, find_disks(run, world), world, watch.wait_for_all)
    return None if checkpoint is None else checkpoint.step, problems


def content(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


def test_a_new_disk_gets_every_checkpoint_of_the_one_that_is_furthest(tmp_path):
    full, old = tmp_path / "disk-0/run", tmp_path / "disk-1/run"
    for step in (10, 20, 30):
        write(full, step)
    write_weights(checkpoint_path(full, "averaged"), 30, {"w": torch.ones(3)}, {"of_steps": [20, 30]})
    shutil.copytree(checkpoint_path(full, 10), checkpoint_path(old, 10))
    assert in_ranks(3, share, tmp_path, [0, 1, 2]) == [(30, []), (30, []), (30, [])]
    assert content(tmp_path / "disk-1/run") == content(tmp_path / "disk-2/run") == content(full)


def test_the_newest_may_be_on_any_disk_and_a_damaged_one_is_replaced(tmp_path):
    first, second = tmp_path / "disk-0/run", tmp_path / "disk-1/run"
    for run in (first, second):
        write(run, 10)
        write(run, 20)
    damaged = checkpoint_path(first, 20) / MODEL
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    ((step, problems), other) = in_ranks(2, share, tmp_path, [0, 1])
    assert (step, problems, other) == (20, [], (20, []))
    assert content(first) == content(second)
    write(second, 25)
    assert in_ranks(2, share, tmp_path, [0, 1]) == [(25, []), (25, [])]
    assert newest_valid(first)[0].step == 25


def test_a_damaged_old_checkpoint_is_not_given_away(tmp_path):
    full = tmp_path / "disk-0/run"
    for step in (10, 20):
        write(full, step)
    for damage in (MODEL, "manifest.json"):
        damaged = checkpoint_path(full, 30) / damage
        write(full, 30)
        damaged.write_bytes(damaged.read_bytes()[:-2] + b"??")
        ((step, problems), other) = in_ranks(2, share, tmp_path, [0, 1])
        assert step == 20 and other == (20, []) and "step-00000030" in problems[0]
        assert not checkpoint_path(tmp_path / "disk-1/run", 30).exists()


def test_where_disks_disagree_about_a_step_one_of_them_counts(tmp_path):
    write(tmp_path / "disk-0/run", 10, value=1.0)
    write(tmp_path / "disk-1/run", 10, value=2.0)
    in_ranks(2, share, tmp_path, [0, 1])
    found = [load_weights(checkpoint_path(tmp_path / f"disk-{disk}/run", 10)).weights["w"] for disk in (0, 1)]
    assert torch.equal(found[0], torch.full((3,), 11.0)) and torch.equal(found[0], found[1])


def test_on_one_disk_nothing_is_copied(tmp_path):
    write(tmp_path / "disk-0/run", 10)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert in_ranks(2, share, tmp_path, [0, 0]) == [(10, []), (10, [])]
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}


def merge(world: World, watch: Watch, root: Path, disks: list[int]) -> None:
    world, run = as_hosts(world), run_of(world, root, disks)
    merge_records(run, find_disks(run, world), world)


def test_records_become_one_by_time_and_torn_lines_are_left_out(tmp_path):
    def line(time: float, disk: int) -> str:
        return json.dumps({"time": time, "event": "warning", "attempt": 1, "message": str(disk)}) + "\n"

    first, second = (record_path(tmp_path / f"disk-{disk}/run", 0) for disk in (0, 1))
    for path in (first, second):
        path.parent.mkdir(parents=True)
    first.write_text(line(1, 0) + line(4, 0) + '{"time": 5, "ev')
    second.write_text(line(1, 0) + line(2, 1) + line(3, 1))
    in_ranks(2, merge, tmp_path, [0, 1])
    assert first.read_text() == second.read_text() == line(1, 0) + line(2, 1) + line(3, 1) + line(4, 0)


def record(world: World, watch: Watch, root: Path, disks: list[int]) -> list[str]:
    world, run = as_hosts(world), run_of(world, root, disks)
    shown: list[str] = []
    own = record_path(run, world.rank)
    own.parent.mkdir(parents=True, exist_ok=True)
    exchange = RecordExchange(
        run, find_disks(run, world), world, [lambda event: shown.append(event["message"])], shown.append
    )
    with EventLog(own, 1, [exchange.note]) as events:
        for number in range(3):
            events.emit("warning", message=f"number {number} of rank {world.rank}")
            exchange.exchange()
    exchange.close()
    return shown


def test_new_lines_reach_every_disk_and_warnings_reach_rank_0(tmp_path):
    shown = in_ranks(2, record, tmp_path, [0, 1])
    assert shown == [[f"rank 1 on b: number {number} of rank 1" for number in range(3)], []]
    events = [content(tmp_path / f"disk-{disk}/run") for disk in (0, 1)]
    assert events[0] == events[1]
    assert events[0]["events/rank-1.jsonl"].count(b"\n") == 3


def test_on_one_disk_every_rank_writes_its_own_record_alone(tmp_path):
    in_ranks(2, record, tmp_path, [0, 0])
    for rank in (0, 1):
        assert record_path(tmp_path / "disk-0/run", rank).read_text().count("\n") == 3
