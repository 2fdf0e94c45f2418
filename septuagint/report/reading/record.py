"""The record of a run, read back: columns and small values from which every answer and plot is made.

Works on what there is: a run that still goes on, was killed and resumed, or whose record is damaged. What is missing is
said in `Record.problems`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septuagint.report.reading.attempts import Attempt, gather_attempts
from septuagint.report.reading.fields import mappings, positive, text, whole
from septuagint.report.reading.happenings import (
    Link,
    Sample,
    SavedCheckpoint,
    Skipped,
    Stop,
    Validation,
    Warned,
    is_on_curve,
    once_for_all_ranks,
    read_checkpoint,
    read_link,
    read_sample,
    read_skipped,
    read_stop,
    read_validation,
)
from septuagint.report.reading.machine_table import MachineTable, machine_table
from septuagint.report.reading.record_files import MAX_ATTEMPT, Reading, read_environment, read_files
from septuagint.report.reading.step_table import StepTable, split_latest
from septuagint.report.reading.train_table import TrainTable, train_table
from septuagint.telemetry.events import Event, latest

# Kinds of which the later attempt's counts, where steps were done again.
_REDONE = ("train", "validation", "sample", "checkpoint", "skipped")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """All that is known of a run. Ranks and attempts are those that left something behind."""

    run: Path
    problems: tuple[str, ...]  # sentences: what is missing or damaged
    attempts: tuple[Attempt, ...]
    train: TrainTable  # of rank 0, or the lowest rank that there is
    trains: dict[int, TrainTable]  # by rank
    validations: tuple[Validation, ...]  # of the weights in training, in the order of steps
    averages: tuple[Validation, ...]  # of the mean of checkpoints
    samples: tuple[Sample, ...]
    checkpoints: tuple[SavedCheckpoint, ...]
    warnings: tuple[Warned, ...]
    skipped: tuple[Skipped, ...]
    stops: tuple[Stop, ...]
    steps: dict[int, StepTable]  # by rank: the steps that count
    lost_steps: dict[int, StepTable]  # by rank: those that a later attempt did again
    outside: dict[int, dict[int, dict[str, float]]]  # seconds outside steps by rank, attempt and part
    machines: dict[str, MachineTable]  # by host
    hardware: dict[str, Event]  # by host: the latest `hardware` event
    links: tuple[Link, ...]  # one an attempt
    rehearsal_seconds: float  # compiling included: of all attempts, as the rank that took longest saw it
    data: Event  # the latest `data` event; empty where there is none
    environment: dict[str, Any]  # environment.json; empty where there is none


def read_record(run: Path) -> Record:
    """The record of a run folder. UserError where there is none; whatever else is wrong is one of its problems."""
    reading = read_files(run)
    environment = read_environment(run, reading.problems)
    starts = _start_steps(reading, environment)
    kept = {rank: _keep_latest(kinds, starts) for rank, kinds in reading.events.items()}
    first = kept[min(kept)]
    steps, lost = _step_tables(reading, starts)
    attempts = _attempts(reading, starts)
    reading.problems += _missing_ranks(attempts, kept)
    validations = sorted(map(read_validation, first["validation"]), key=lambda validation: validation.step)
    links = {event["attempt"]: read_link(event) for _, event in reading.of_kind("link")}
    trains = {rank: train_table(kinds["train"]) for rank, kinds in kept.items()}
    return Record(
        run=run,
        problems=tuple(reading.problems),
        attempts=attempts,
        train=trains[min(trains)],
        trains=trains,
        validations=tuple(filter(is_on_curve, validations)),
        averages=tuple(validation for validation in validations if not is_on_curve(validation)),
        samples=tuple(map(read_sample, first["sample"])),
        checkpoints=tuple(map(read_checkpoint, first["checkpoint"])),
        warnings=_warnings(reading),
        skipped=tuple(map(read_skipped, first["skipped"])),
        stops=tuple(read_stop(event, rank) for rank, event in reading.of_kind("stop")),
        steps=steps,
        lost_steps=lost,
        outside={rank: columns.outside for rank, columns in reading.steps.items()},
        machines=_machines(reading),
        hardware={text(event, "host") or f"rank {rank}": event for rank, event in reading.of_kind("hardware")},
        links=tuple(links[attempt] for attempt in sorted(links)),
        rehearsal_seconds=_rehearsal_seconds(reading),
        data=max((event for _, event in reading.of_kind("data")), key=lambda event: event["attempt"], default={}),
        environment=environment,
    )


def _start_steps(reading: Reading, environment: dict[str, Any]) -> dict[int, int]:
    """Where each attempt went on from: as any rank tells, or else environment.json."""
    starts: dict[int, int] = {}
    for entry in mappings(environment, "attempts"):
        number, start = whole(entry, "number", most=MAX_ATTEMPT), whole(entry, "start_step")
        if number in reading.spans and number is not None and start is not None:
            starts[number] = start
    for _, event in reading.of_kind("attempt"):
        if (start := whole(event, "start_step")) is not None:
            starts[event["attempt"]] = start
    return starts


def _keep_latest(kinds: dict[str, list[Event]], starts: dict[int, int]) -> dict[str, list[Event]]:
    """The events of each kind that count, where steps were done again. They all have a step."""
    marks = [{"event": "start", "attempt": attempt, "start_step": start} for attempt, start in starts.items()]
    kept: dict[str, list[Event]] = {}
    for kind in _REDONE:
        events = [event for event in kinds.get(kind, ()) if whole(event, "step") is not None]
        kept[kind] = [event for event in latest([*marks, *events]) if event["event"] == kind]
    return kept


def _step_tables(reading: Reading, starts: dict[int, int]) -> tuple[dict[int, StepTable], dict[int, StepTable]]:
    steps: dict[int, StepTable] = {}
    lost: dict[int, StepTable] = {}
    for rank, columns in reading.steps.items():
        table, num_wrong = columns.table()
        steps[rank], lost[rank] = split_latest(table, starts)
        num_missing = _num_missing(steps[rank])
        if columns.num_passed_over:
            reading.problems.append(
                f"{columns.num_passed_over:,} `steps` events of rank {rank} cannot be read, passed over"
            )
        if num_wrong:
            reading.problems.append(
                f"{num_wrong:,} steps of rank {rank} have times that cannot be true, counted as rest"
            )
        if num_missing > 0:
            reading.problems.append(f"rank {rank}'s record does not tell the times of {num_missing:,} steps")
    if not any(map(len, steps.values())):
        reading.problems.append(
            "the record does not tell where the time of each step went (no `steps` events): an older version made it, "
            "or no line of the log has been written yet"
        )
    return steps, lost


def _num_missing(table: StepTable) -> int:
    return int(table.step[-1] - table.step[0]) + 1 - len(table) if len(table) else 0


def _attempts(reading: Reading, starts: dict[int, int]) -> tuple[Attempt, ...]:
    attempts = gather_attempts(
        spans=reading.spans,
        starts=starts,
        last_steps=reading.last_steps,
        begins=list(reading.of_kind("attempt")),
        stops=list(reading.of_kind("stop")),
    )
    for attempt in attempts:
        if not attempt.ranks:
            reading.problems.append(f"the beginning of attempt {attempt.number} is missing from the record")
    return attempts


def _missing_ranks(attempts: Sequence[Attempt], kept: dict[int, Any]) -> list[str]:
    world = max((attempt.world_size or 0 for attempt in attempts), default=0)
    num_missing = world - sum(rank < world for rank in kept)
    if num_missing <= 0:
        return []
    shown = [str(rank) for rank in range(min(world, len(kept) + 3)) if rank not in kept][:3]
    more = f" and {num_missing - len(shown):,} more" if num_missing > len(shown) else ""
    what = "the record of rank" if num_missing == 1 else "the records of ranks"
    return [f"{what} {', '.join(shown)}{more} {'is' if num_missing == 1 else 'are'} missing (events/rank-N.jsonl)"]


def _warnings(reading: Reading) -> tuple[Warned, ...]:
    return once_for_all_ranks(
        [
            Warned(
                time=float(event["time"]),
                attempt=event["attempt"],
                rank=rank,
                message=text(event, "message") or "(no text)",
            )
            for rank, event in reading.of_kind("warning")
        ]
    )


def _rehearsal_seconds(reading: Reading) -> float:
    longest: dict[int, float] = defaultdict(float)
    for _, event in reading.of_kind("rehearsal"):
        longest[event["attempt"]] = max(longest[event["attempt"]], positive(event, "seconds") or 0.0)
    return sum(longest.values())


def _machines(reading: Reading) -> dict[str, MachineTable]:
    by_host: dict[str, list[Event]] = defaultdict(list)
    for rank, event in reading.of_kind("machine"):
        by_host[text(event, "host") or f"rank {rank}"].append(event)
    return {host: machine_table(events) for host, events in by_host.items()}
