"""All time is somewhere, and what a rank waits for is told from the others' clocks."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from septuagint.telemetry import stopwatch
from septuagint.telemetry.events import STEP_PARTS
from septuagint.telemetry.stopwatch import Stopwatch, Times, find_bottleneck, find_slowest, split_waits

CPU = torch.device("cpu")


class Clock:
    """The stopwatch's, in place of `time`: it goes on when somebody sleeps, and nobody else takes any time."""

    def __init__(self) -> None:
        self._now = 1000.0

    def perf_counter(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stopwatch, "time", clock)
    return clock


def make_step(watch: Stopwatch, clock: Clock, **seconds: float) -> None:
    watch.begin_step()
    clock.sleep(seconds.pop("data_wait", 0.0))
    for part, duration in seconds.items():
        watch.lap(part)
        clock.sleep(duration)


def test_every_moment_is_accounted_for(clock: Clock):
    watch = Stopwatch(CPU)
    for _ in range(3):
        make_step(watch, clock, data_wait=0.002, compute=0.004, communication=0.003, optimizer=0.001)
        with watch.outside("logging"):
            clock.sleep(0.002)
    with watch.outside("validation"):
        clock.sleep(0.001)
        with watch.outside("checkpoint"):
            clock.sleep(0.003)
    times = watch.take()
    total = times.wall.sum() + sum(times.outside.values())
    assert total == pytest.approx(0.04)
    assert times.num_steps == 3
    assert set(times.parts) == set(STEP_PARTS)
    expected = {"start": 0, "logging": 0.006, "validation": 0.001, "checkpoint": 0.003, "rest": 0}
    assert times.outside == pytest.approx(expected)
    assert times.parts["compute"] == pytest.approx([0.004] * 3)
    assert times.parts["data_wait"] == pytest.approx([0.002] * 3)


def test_a_part_may_come_several_times_in_a_step(clock: Clock):
    watch = Stopwatch(CPU)
    watch.begin_step()
    for _ in range(3):
        watch.lap("to_device")
        clock.sleep(0.002)
        watch.lap("compute")
        clock.sleep(0.001)
    watch.end_step()
    parts = watch.take().parts
    assert parts["to_device"] == pytest.approx([0.006])
    assert parts["compute"] == pytest.approx([0.003])


def test_the_time_before_the_first_step_is_the_start(clock: Clock):
    watch = Stopwatch(CPU)
    clock.sleep(0.003)
    with watch.outside("validation"):
        clock.sleep(0.002)
    clock.sleep(0.001)
    make_step(watch, clock)
    watch.end_step()
    assert watch.take().outside == pytest.approx({"start": 0.004, "validation": 0.002, "rest": 0})


def test_a_lap_without_a_step_is_no_lap(clock: Clock):
    watch = Stopwatch(CPU)
    watch.lap("communication")
    assert watch.take().num_steps == 0


def test_arrival_is_when_the_last_gradients_were_complete(clock: Clock):
    watch = Stopwatch(CPU)
    expected = []
    for _ in range(2):
        watch.begin_step()
        watch.lap("compute")
        clock.sleep(0.002)
        expected.append(clock.perf_counter())
        watch.lap("communication")
        clock.sleep(0.002)
    watch.end_step()
    assert watch.take().arrivals == pytest.approx(expected, rel=1e-9)


def test_in_a_world_of_one_nobody_arrives(clock: Clock):
    watch = Stopwatch(CPU)
    make_step(watch, clock, compute=0.0)
    watch.end_step()
    assert np.isnan(watch.take().arrivals).all()


def test_the_bytes_of_a_step_are_those_that_passed_meanwhile(clock: Clock):
    counters = iter([(100, 10), (150, 30), (400, 35)])
    watch = Stopwatch(CPU, lambda: next(counters))
    make_step(watch, clock)
    make_step(watch, clock)
    watch.end_step()
    assert watch.take().traffic.tolist() == [[50, 20], [250, 5]]


def test_without_a_counter_there_is_no_traffic(clock: Clock):
    watch = Stopwatch(CPU)
    make_step(watch, clock)
    watch.end_step()
    assert watch.take().traffic is None


def times_of(communication: list[float]) -> Times:
    parts = {part: np.zeros(len(communication)) for part in STEP_PARTS}
    parts["communication"] = np.array(communication)
    return Times(parts=parts, arrivals=np.zeros(len(communication)), traffic=None, outside={})


def test_what_is_left_after_the_last_arrival_is_the_wire():
    # Rank 0 is there at 10.0 and waits 0.5 s; rank 1 comes at 10.3.
    parts = split_waits(times_of([0.5]), 0, [[10.0], [10.3]])
    assert parts["straggler_wait"] == pytest.approx([0.3])
    assert parts["communication"] == pytest.approx([0.2])


def test_the_last_one_waits_for_nobody():
    parts = split_waits(times_of([0.2]), 1, [[10.0], [10.3]])
    assert parts["straggler_wait"] == [0.0]
    assert parts["communication"] == [0.2]


@given(
    st.lists(st.floats(0, 10), min_size=2, max_size=5),
    st.floats(0, 5),
    st.integers(0, 4),
)
def test_waiting_and_wire_are_the_whole_window(arrivals, window, rank):
    rank %= len(arrivals)
    parts = split_waits(times_of([window]), rank, [[arrival] for arrival in arrivals])
    assert parts["straggler_wait"][0] >= 0
    assert parts["communication"][0] >= 0
    assert parts["straggler_wait"][0] + parts["communication"][0] == pytest.approx(window)


def test_the_slowest_is_the_one_that_the_others_wait_for():
    assert find_slowest([[0.0, 1.0], [0.2, 1.2], [0.0, 1.0]]) == (1, pytest.approx(0.2))
    assert find_slowest([[0.0, 1.0]]) == (0, 0.0)


@pytest.mark.parametrize(
    ("seconds", "for_slowest", "verdict"),
    [
        ({"compute": 0.22, "communication": 0.78}, 0.0, ("network", 0.78)),
        ({"compute": 0.6, "data_wait": 0.4}, 0.0, ("data", 0.4)),
        ({"compute": 1.0}, 0.5, ("slow_rank", 0.5)),
        ({"compute": 0.8, "communication": 0.1, "optimizer": 0.1}, 0.1, ("compute", 0.9)),
    ],
)
def test_the_verdict_names_what_holds_the_steps_up(seconds, for_slowest, verdict):
    parts = dict.fromkeys(STEP_PARTS, 0.0) | seconds
    name, share = find_bottleneck(parts, for_slowest, has_network=True)
    assert (name, share) == (verdict[0], pytest.approx(verdict[1]))


def test_within_one_host_there_is_no_network():
    parts = dict.fromkeys(STEP_PARTS, 0.0) | {"compute": 0.2, "communication": 0.8}
    assert find_bottleneck(parts, 0.0, has_network=False)[0] == "exchange"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_parts_are_what_the_device_did_and_nobody_waits():
    device = torch.device("cuda")
    watch, matrix = Stopwatch(device), torch.ones(4096, 4096, device=device)
    torch.cuda.synchronize()

    def multiply(number: int) -> None:
        for _ in range(number):
            torch.mm(matrix, matrix)

    multiply(3)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(5):
        watch.begin_step()
        watch.lap("compute")
        multiply(30)
        watch.lap("optimizer")
        multiply(10)
    launched = time.perf_counter() - begin
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - begin
    watch.end_step()
    times = watch.take()
    assert launched < elapsed / 2
    assert times.wall.sum() == pytest.approx(elapsed, rel=0.1)
    assert times.parts["compute"].sum() / times.parts["optimizer"].sum() == pytest.approx(3, rel=0.2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_that_waits_for_its_data_is_seen_to_wait():
    device = torch.device("cuda")
    watch, matrix = Stopwatch(device), torch.ones(1024, 1024, device=device)
    for _ in range(3):
        watch.begin_step()
        time.sleep(0.02)
        watch.lap("compute")
        torch.mm(matrix, matrix)
    torch.cuda.synchronize()
    watch.end_step()
    assert (watch.take().parts["data_wait"] > 0.015).all()
