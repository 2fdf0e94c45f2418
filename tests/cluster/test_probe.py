"""The machines are measured: what a device and a link can do, and how far clocks are apart."""

import time

import pytest
import torch

from septuagint.cluster import probe
from septuagint.cluster.probe import ClockOffset, measure_clock, measure_link, measure_peak, ring_bytes
from septuagint.training.watch import Watch
from septuagint.world import World
from tests.ranks import in_ranks


def test_the_peak_is_a_plausible_number():
    peak = measure_peak(torch.device("cpu"), torch.float32)
    assert peak is not None and 1e8 < peak < 1e14


def test_a_device_without_room_has_no_peak(monkeypatch):
    def full(*arguments, **options):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(torch, "empty", full)
    assert measure_peak(torch.device("cpu"), torch.float32) is None


def test_a_ring_sends_nearly_everything_twice():
    assert ring_bytes(100, 2) == 100
    assert ring_bytes(100, 4) == 150


def link_of(world: World, watch: Watch) -> tuple[list[int], list[float], float]:
    link = measure_link(world)
    return link.sizes_bytes, link.seconds, link.bus_bytes_per_second


def test_all_ranks_measure_the_same_link():
    results = in_ranks(3, link_of)
    assert results[0] == results[1] == results[2]
    sizes, seconds, capacity = results[0]
    assert sizes == list(probe._SWEEP_BYTES)
    assert all(value > 0 for value in seconds)
    assert capacity == pytest.approx(ring_bytes(sizes[-1], 3) / seconds[-1])


def slow_link_of(world: World, watch: Watch) -> list[int]:
    add_up, probe._SWEEP_SECONDS = probe._sum_bytes, 1.0

    def slowly(world: World, num_bytes: int) -> float:
        seconds = num_bytes / 2e6  # 16 Mbit/s
        time.sleep(seconds)
        return seconds + add_up(world, num_bytes) * 0

    probe._sum_bytes = slowly
    return measure_link(world).sizes_bytes


def test_a_slow_link_is_not_measured_to_the_end():
    assert in_ranks(2, slow_link_of) == [[2**15, 2**18]] * 2


def clock_of(world: World, watch: Watch, clocks: list[str], ahead: list[float]) -> ClockOffset:
    now = time.perf_counter
    probe.time.perf_counter = lambda: now() + ahead[world.rank]  # type: ignore[assignment]
    return measure_clock(world, clocks[world.rank])


def test_clocks_are_compared_with_that_of_rank_0():
    offsets = in_ranks(3, clock_of, ["a", "b", "b"], [5.0, -2.0, -2.0])
    assert offsets[0] == ClockOffset()
    for offset in offsets[1:]:
        assert offset.seconds == pytest.approx(-7.0, abs=0.01)
        assert 0 < offset.error_seconds < 0.01
    assert offsets[1] == offsets[2]
