"""The stopwatch: where the time of every step went, and the time between steps.

A step is cut into laps: whoever does something says which part it belongs to, and all time until the next word counts
there. On a GPU the word is an event in its queue: what counts is when the device came to it, not when the host asked
for it. Nobody waits for that; a step is read when the device has passed it. Between steps the host's clock counts.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from septuagint.telemetry.events import STEP_PARTS

# A part that takes less of a step than this is not what holds a run up.
CONSIDERABLE = 0.2

Traffic = tuple[int, int]  # bytes sent and received so far, as an interface counts them


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """Where the time went since the last time somebody asked. Arrays have one number a step."""

    parts: dict[str, np.ndarray]  # seconds, by part
    arrivals: np.ndarray  # when this rank had its last gradients: seconds of this host's clock, NaN in a world of one
    traffic: np.ndarray | None  # (steps, 2): bytes sent and received
    outside: dict[str, float]  # seconds between steps, by what was done

    @property
    def wall(self) -> np.ndarray:
        wall: np.ndarray = np.stack([*self.parts.values()]).sum(axis=0)
        return wall

    @property
    def num_steps(self) -> int:
        return len(self.arrivals)


@dataclass(slots=True)
class _Step:
    start: float | None  # on the host's clock; None where it follows on the step before
    traffic: Traffic | None
    laps: list[tuple[str, Any]] = field(default_factory=list)
    end: Any = None
    is_followed: bool = False  # its end is the beginning of the next
    sent_and_received: tuple[float, float] | None = None


class _HostMarks:
    """Moments of a CPU: it does what it is told while it is told."""

    def mark(self) -> float:
        return time.perf_counter()

    def has_passed(self, mark: float) -> bool:
        return True

    def seconds(self, begin: float, end: float) -> float:
        return end - begin

    def wait(self, mark: float) -> None:
        pass

    def free(self, marks: Sequence[float]) -> None:
        pass


class _DeviceMarks:
    """Moments of a GPU: events in the queue of what it has to do."""

    def __init__(self) -> None:
        self._unused: list[torch.cuda.Event] = []

    def mark(self) -> torch.cuda.Event:
        event = self._unused.pop() if self._unused else torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch does not type it
        event.record()
        return event

    def has_passed(self, mark: torch.cuda.Event) -> bool:
        return bool(mark.query())  # type: ignore[no-untyped-call]  # torch does not type it

    def seconds(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return float(begin.elapsed_time(end)) / 1e3

    def wait(self, mark: torch.cuda.Event) -> None:
        mark.synchronize()

    def free(self, marks: Sequence[torch.cuda.Event]) -> None:
        self._unused.extend(marks)


class Stopwatch:
    """Runs from when it is made. The time before the first step is `start`, unless something else is being done."""

    def __init__(self, device: torch.device, read_traffic: Callable[[], Traffic | None] = lambda: None) -> None:
        self._marks: Any = _DeviceMarks() if device.type == "cuda" else _HostMarks()
        self._read_traffic = read_traffic
        self._doing = ["start"]
        self._since = time.perf_counter()  # the last moment between steps that is accounted for
        self._open: _Step | None = None
        self._unread: deque[_Step] = deque()
        self._clear()
        self._next_start = 0.0

    def begin_step(self) -> None:
        """What came before is over. The step begins by waiting for its data."""
        start, mark, traffic = None, self._marks.mark(), self._read_traffic()
        if self._open is None:
            self._marks.wait(mark)  # nothing else is to be done: now is the moment on both clocks
            start = self._account()
            self._doing = []
        else:
            self._close(mark, traffic, is_followed=True)
        self._open = _Step(start, traffic, [("data_wait", mark)])
        self._read()

    def lap(self, part: str) -> None:
        """From now on the time of the step goes to this part. Without a step, nothing happens."""
        if self._open is not None:
            self._open.laps.append((part, self._marks.mark()))

    @contextmanager
    def outside(self, part: str) -> Iterator[None]:
        """A block between steps. The device has nothing left to do when it begins. Blocks may stand in blocks."""
        self.end_step()
        self._account()
        self._doing.append(part)
        try:
            yield
        finally:
            self._account()
            self._doing.pop()

    def end_step(self) -> None:
        """If one is open. The device has nothing left to do."""
        if self._open is not None:
            mark = self._marks.mark()
            self._marks.wait(mark)
            self._close(mark, self._read_traffic(), is_followed=False)
            self._since = time.perf_counter()

    def take(self) -> Times:
        """All since the last time. No step is open."""
        assert self._open is None
        self._account()
        self._read()
        assert not self._unread
        has_traffic = bool(self._traffic) and None not in self._traffic
        times = Times(
            parts={part: np.array(seconds) for part, seconds in self._seconds.items()},
            arrivals=np.array(self._arrivals),
            traffic=np.array(self._traffic) if has_traffic else None,
            outside=dict(self._outside),
        )
        self._clear()
        return times

    def _clear(self) -> None:
        self._seconds: dict[str, list[float]] = {part: [] for part in STEP_PARTS}
        self._arrivals: list[float] = []
        self._traffic: list[tuple[float, float] | None] = []
        self._outside: dict[str, float] = defaultdict(float)

    def _account(self) -> float:
        """What was done between steps until now; the moment."""
        now = time.perf_counter()
        if self._open is None:
            self._outside[self._doing[-1] if self._doing else "rest"] += now - self._since
            self._since = now
        return now

    def _close(self, end: Any, traffic: Traffic | None, *, is_followed: bool) -> None:
        step, self._open = self._open, None
        assert step is not None
        step.end, step.is_followed = end, is_followed
        if traffic is not None and step.traffic is not None:
            step.sent_and_received = traffic[0] - step.traffic[0], traffic[1] - step.traffic[1]
        self._unread.append(step)

    def _read(self) -> None:
        """Takes down the steps that the device has passed."""
        while self._unread and self._marks.has_passed(self._unread[0].end):
            step = self._unread.popleft()
            start = self._next_start if step.start is None else step.start
            seconds = dict.fromkeys(STEP_PARTS, 0.0)
            arrival, now = float("nan"), start
            ends = [mark for _, mark in step.laps[1:]] + [step.end]
            for (part, begin), end in zip(step.laps, ends, strict=True):
                if part == "communication":
                    arrival = now
                duration = self._marks.seconds(begin, end)
                seconds[part] += duration
                now += duration
            for part, value in seconds.items():
                self._seconds[part].append(value)
            self._arrivals.append(arrival)
            self._traffic.append(step.sent_and_received)
            self._next_start = now
            self._marks.free([mark for _, mark in step.laps] + ([] if step.is_followed else [step.end]))


def split_waits(times: Times, rank: int, arrivals: Sequence[Sequence[float]]) -> dict[str, np.ndarray]:
    """The parts of a rank's steps, with waiting for the slowest rank told apart from waiting for the wire.

    `arrivals` are those of all ranks on one clock. Nothing can be complete before the last rank has arrived.
    """
    latest = np.max(np.array(arrivals, dtype=float), axis=0)
    own = np.array(arrivals[rank], dtype=float)
    window = times.parts["communication"]
    waits = np.clip(np.nan_to_num(latest - own), 0.0, window)
    return {**times.parts, "communication": window - waits, "straggler_wait": waits}


def find_slowest(arrivals: Sequence[Sequence[float]]) -> tuple[int, float]:
    """(the rank that the others wait for most, how many seconds a step they do)."""
    if len(arrivals) < 2 or not len(arrivals[0]):
        return 0, 0.0
    times = np.array(arrivals, dtype=float)
    waits = np.nan_to_num(times.max(axis=0) - times).mean(axis=1)
    slowest = int(waits.argmin())
    return slowest, float(np.delete(waits, slowest).mean())


def find_bottleneck(parts: dict[str, float], seconds_for_slowest: float, *, has_network: bool) -> tuple[str, float]:
    """(what holds the steps up, its share of them), from seconds a step by part.

    Ranks on one host have no network between them: what they wait for each other's bytes is called `exchange`.
    """
    wall = max(sum(parts.values()), 1e-9)
    waits = {
        "data": parts["data_wait"] / wall,
        "network" if has_network else "exchange": parts["communication"] / wall,
        "slow_rank": min(1.0, seconds_for_slowest / wall),
    }
    worst = max(waits, key=lambda name: waits[name])
    if waits[worst] >= CONSIDERABLE:
        return worst, waits[worst]
    return "compute", (parts["to_device"] + parts["compute"] + parts["optimizer"]) / wall
