"""Who is missing is named, and nobody waits for ever."""

import os
import signal
import time

import pytest
import torch

from septuagint.errors import DataError
from septuagint.training.watch import Watch
from septuagint.world import World
from tests.ranks import in_ranks


def die_in_phase(world: World, watch: Watch, number: int) -> None:
    watch.enter("data", 7)
    time.sleep(1.5)  # a heartbeat tells of it
    if world.rank == 1:
        os.kill(os.getpid(), number)
    watch.enter("backward and communication", 7)
    world.sum(torch.ones(1)).wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_rank_that_is_gone_is_named_with_its_host_and_phase(number):
    begin = time.monotonic()
    (survivor, *_) = in_survivors(3, die_in_phase, number)
    assert time.monotonic() - begin < 45
    assert survivor.startswith("LostPeerError 75:")
    assert "rank 1 on" in survivor and "at step 7, in phase data" in survivor
    assert "rank 2 on" not in survivor
    assert "Nothing before the last checkpoint is lost" in survivor


def in_survivors(size: int, function, *arguments) -> list[str]:
    """What all ranks but 1 said."""
    found = in_ranks(size, function, *arguments, timeout_seconds=8, lost=1)
    return [text for rank, text in enumerate(found) if rank != 1]


def fail_in_phase(world: World, watch: Watch) -> None:
    if world.rank == 1:
        raise DataError("the disk of this host has no more data; put it back")
    watch.enter("backward and communication", 3)
    world.sum(torch.ones(1)).wait()


def test_a_rank_that_fails_tells_the_others_why():
    found = in_ranks(2, fail_in_phase, timeout_seconds=20)
    assert found[1] == "DataError: the disk of this host has no more data; put it back"
    assert "rank 1 on" in found[0] and "failed: the disk of this host has no more data" in found[0]
    assert found[0].startswith("LostPeerError 2:"), "the mistake of one rank is the exit code of all"


def be_late(world: World, watch: Watch) -> float:
    begin = time.monotonic()
    if world.rank == 1:
        time.sleep(6)
    watch.wait_for_all()
    return time.monotonic() - begin


def test_a_rank_that_is_slow_but_alive_is_waited_for():
    for seconds in in_ranks(2, be_late, timeout_seconds=3):
        assert isinstance(seconds, float) and seconds > 5


def hang(world: World, watch: Watch) -> None:
    watch.enter("data" if world.rank == 1 else "optimizer", 4)
    if world.rank == 1:
        time.sleep(60)
    world.sum(torch.ones(1)).wait()


def test_a_rank_that_lives_but_does_not_come_is_named():
    (survivor,) = in_survivors(2, hang)
    assert "rank 1 on" in survivor and "in phase data" in survivor and "is alive, but not where the others" in survivor


def notice(world: World, watch: Watch) -> bool:
    if world.rank == 1:
        watch.received(signal.SIGTERM)
    deadline = time.monotonic() + 10
    while world.rank == 0 and not watch.has_peer_signal and time.monotonic() < deadline:
        time.sleep(0.05)
    return watch.has_peer_signal


def test_a_signal_of_one_rank_is_known_to_the_others():
    assert in_ranks(2, notice)[0] is True


def test_a_world_of_one_is_not_watched():
    with Watch(World(), None, 1.0) as watch, watch.guarding():
        watch.enter("data", 1)
        watch.wait_for_all()
        assert not watch.has_peer_signal
