"""Where the time of each step went, as columns: made from the `steps` events of one rank.

A row is one step. Its parts add up to its wall time: what a damaged record leaves unknown is counted as `rest`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from septuagint.report.reading.fields import MAX_STEP, Floats, Integers, column, number, numbers_by_name, whole
from septuagint.telemetry.events import STEP_PARTS, Event

_TRAFFIC = ("sent_bytes", "received_bytes")
_COLUMNS = ("wall", *STEP_PARTS, *_TRAFFIC)
# Parts are rounded to the microsecond, each for itself.
_ROUNDING_SECONDS = 1e-3
# A step of more than a month is a slip of the record.
_MAX_WALL_SECONDS = 3e6


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTable:
    """Steps of one rank, in the order of their numbers. Seconds, and bytes; NaN where traffic was not counted."""

    step: Integers
    attempt: Integers
    time: Floats  # Unix seconds at the end of the step, as near as the record tells
    wall: Floats
    data_wait: Floats
    to_device: Floats
    compute: Floats
    communication: Floats
    straggler_wait: Floats
    optimizer: Floats
    rest: Floats
    sent_bytes: Floats
    received_bytes: Floats

    def __len__(self) -> int:
        return len(self.step)

    def part(self, name: str) -> Floats:
        """A column of seconds by its name."""
        values: Floats = getattr(self, name)
        return values

    def select(self, rows: NDArray[Any]) -> "StepTable":
        """Some of the rows: a mask, or their places."""
        return StepTable(**{entry.name: getattr(self, entry.name)[rows] for entry in fields(self)})


@dataclass(slots=True)
class StepColumns:
    """Gathers the `steps` events of one rank."""

    num_passed_over: int = 0
    outside: dict[int, dict[str, float]] = field(default_factory=dict)  # seconds by attempt and part
    _columns: dict[str, list[object]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})
    _firsts: list[int] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)
    _attempts: list[int] = field(default_factory=list)
    _times: list[float] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Takes one event in; what it does not say stays unknown."""
        spent = self.outside.setdefault(event["attempt"], {})
        for part, seconds in numbers_by_name(event, "outside_seconds").items():
            if 0 <= seconds < _MAX_WALL_SECONDS:
                spent[part] = spent.get(part, 0.0) + seconds
        walls = event.get("wall")
        count = len(walls) if isinstance(walls, list) else None
        first = _first_step(event, count)
        if count is None or first is None:
            self.num_passed_over += 1
            return
        self._firsts.append(first)
        self._counts.append(count)
        self._attempts.append(event["attempt"])
        self._times.append(number(event, "time") or 0.0)
        for name, gathered in self._columns.items():
            values = event.get(name)
            is_whole = isinstance(values, list) and len(values) == count
            gathered.extend(values if is_whole and values is not None else [None] * count)

    def table(self) -> tuple[StepTable, int]:
        """All steps, those done again too, and how many had a part that could not be true."""
        counts = np.array(self._counts, dtype=np.int64)
        ends = np.cumsum(counts)
        # Places within each event: 0, 1, 2 ... and again.
        places = np.arange(len(self._columns["wall"]), dtype=np.int64) - np.repeat(ends - counts, counts)
        columns = {name: column(values) for name, values in self._columns.items()}
        wall = columns["wall"]
        is_told = (wall >= 0) & (wall < _MAX_WALL_SECONDS)
        num_wrong = _repair(columns, is_told)
        columns["wall"] = np.where(is_told, wall, 0.0)
        passed = np.cumsum(columns["wall"])
        # An event is written when the last of its steps has ended; what lay between steps came before the first.
        until = np.repeat(passed[np.maximum(ends - 1, 0)] if len(passed) else np.zeros(len(counts)), counts)
        table = StepTable(
            step=np.repeat(np.array(self._firsts, dtype=np.int64), counts) + places,
            attempt=np.repeat(np.array(self._attempts, dtype=np.int64), counts),
            time=np.repeat(np.array(self._times, dtype=np.float64), counts) - (until - passed),
            **columns,
        )
        return table.select(is_told), num_wrong


def _first_step(event: Event, count: int | None) -> int | None:
    if count is None:
        return None
    last, first = whole(event, "step"), whole(event, "first_step")
    if last is not None and last - count + 1 >= 0:
        return last - count + 1
    return first if first is not None and first + count < MAX_STEP else None


def _repair(columns: dict[str, Floats], is_told: NDArray[np.bool_]) -> int:
    """Parts that cannot be true become rest; bytes that cannot be are unknown. The number of steps concerned."""
    wall = columns["wall"]
    is_wrong = np.zeros(len(wall), dtype=bool)
    known = np.zeros(len(wall))
    for name in STEP_PARTS[:-1]:
        values = columns[name]
        is_bad = ~((values >= -_ROUNDING_SECONDS) & (values <= wall + _ROUNDING_SECONDS))
        is_wrong |= is_bad
        columns[name] = np.where(is_bad, 0.0, values)
        known += columns[name]
    rest = columns["rest"]
    is_wrong |= ~(np.abs(known + rest - wall) <= 10 * _ROUNDING_SECONDS + 0.01 * np.abs(wall))
    columns["rest"] = np.where(is_wrong, wall - known, rest)
    for name in _TRAFFIC:
        columns[name] = np.where(columns[name] >= 0, columns[name], np.nan)
    return int(np.count_nonzero(is_wrong & is_told))


def split_latest(table: StepTable, starts: Mapping[int, int]) -> tuple[StepTable, StepTable]:
    """(the steps that count, those that a later attempt did again)."""
    counts = np.ones(len(table), dtype=bool)
    for attempt, start in starts.items():
        counts &= ~((table.attempt < attempt) & (table.step > start))
    order = np.lexsort((table.attempt, table.step))
    step = table.step[order]
    is_newest = np.ones(len(table), dtype=bool)
    # Where no attempt says where it began, the later of two equal steps still counts. The sort is stable.
    later_counts = counts[order][1:]
    is_newest[:-1] = ~((step[1:] == step[:-1]) & later_counts)
    is_kept = counts[order] & is_newest
    return table.select(order[is_kept]), table.select(order[~is_kept])
