"""The files of a record, read into lists of events by rank and kind. Damage is passed over, and told."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septuagint.errors import UserError
from septuagint.report.reading.fields import MAX_STEP, whole
from septuagint.report.reading.step_table import StepColumns
from septuagint.telemetry.events import Event, read_events

# A run is not started so often, nor in the year 33658: such lines are damaged.
MAX_ATTEMPT, _MAX_TIME = 1_000_000, 1e12


@dataclass(slots=True)
class Reading:
    """What is gathered while the files are read."""

    problems: list[str] = field(default_factory=list)
    events: dict[int, dict[str, list[Event]]] = field(default_factory=dict)  # by rank and kind, columns left out
    steps: dict[int, StepColumns] = field(default_factory=dict)
    spans: dict[int, dict[int, list[float]]] = field(default_factory=dict)  # first and last time by attempt and rank
    last_steps: dict[int, int] = field(default_factory=dict)  # by attempt

    def of_kind(self, kind: str) -> Iterable[tuple[int, Event]]:
        """With the rank that each event is of."""
        return ((rank, event) for rank, kinds in self.events.items() for event in kinds.get(kind, ()))


def read_files(run: Path) -> Reading:
    """All that the ranks wrote. UserError where there is nothing."""
    if not run.is_dir():
        raise UserError(f"{run}: no such folder; name the folder of a run, such as runs/news")
    paths = {
        int(found[1]): path
        for path in (run / "events").glob("rank-*.jsonl")
        if (found := re.fullmatch(r"rank-(\d{1,6})\.jsonl", path.name))
    }
    if not paths:
        raise UserError(
            f"{run} has no record (events/rank-0.jsonl): it is not a run folder, or its training has not begun yet; "
            "name the folder that `septuagint train` wrote, or wait for its first lines"
        )
    reading = Reading()
    for rank in sorted(paths):
        _read_file(reading, rank, paths[rank])
    if not reading.events:
        raise UserError(
            f"{run / 'events'} holds nothing that can be read ({'; '.join(reading.problems) or 'its files are empty'});"
            " wait until the training has begun, or put the files back from a mirror"
        )
    return reading


def _read_file(reading: Reading, rank: int, path: Path) -> None:
    damaged: list[int] = []
    kinds: dict[str, list[Event]] = defaultdict(list)
    columns = StepColumns()
    num_strange = 0
    try:
        for event in read_events(path, damaged):
            if not _is_sane(event):
                num_strange += 1
            elif event["event"] == "steps":
                columns.add(event)
                _note(reading, rank, event)
            else:
                kinds[event["event"]].append(event)
                _note(reading, rank, event)
    except OSError as error:
        reading.problems.append(f"rank {rank}'s record cannot be read: {error.strerror or type(error).__name__}")
    if damaged:
        reading.problems.append(f"rank {rank}'s record has {_lines(damaged)}, passed over")
    if num_strange:
        reading.problems.append(
            f"rank {rank}'s record has {num_strange:,} events whose time, attempt or step cannot be true, passed over"
        )
    if kinds or columns.outside:
        reading.events[rank], reading.steps[rank] = kinds, columns
    elif not damaged and not num_strange:
        reading.problems.append(f"rank {rank}'s record is empty")


def _is_sane(event: Event) -> bool:
    """What `read_events` lets pass may still be `true`, infinite or enormous."""
    is_time = isinstance(event["time"], (int, float)) and event["time"] < _MAX_TIME
    if isinstance(event.get("step"), int) and not 0 <= event["step"] <= MAX_STEP:
        return False
    if not isinstance(event.get("weights", ""), (str, type(None))):
        return False
    return is_time and 1 <= event["attempt"] <= MAX_ATTEMPT


def _note(reading: Reading, rank: int, event: Event) -> None:
    attempt, time = event["attempt"], float(event["time"])
    span = reading.spans.setdefault(attempt, {}).setdefault(rank, [time, time])
    span[0], span[1] = min(span[0], time), max(span[1], time)
    if (step := whole(event, "step")) is not None:
        reading.last_steps[attempt] = max(step, reading.last_steps.get(attempt, 0))


def _lines(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"{len(numbers):,} damaged lines ({shown})" if len(numbers) > 1 else f"a damaged line ({shown})"


def read_environment(run: Path, problems: list[str]) -> dict[str, Any]:
    """environment.json, or nothing."""
    try:
        environment = json.loads((run / "environment.json").read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"environment.json cannot be read ({type(error).__name__})")
        return {}
    return environment if isinstance(environment, dict) else {}
