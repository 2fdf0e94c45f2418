"""The record of a run: one append-only file of JSON lines per rank. Everything that is shown is made from it.

Every line has `time` (Unix seconds), `event` (its kind) and `attempt` (counted from 1: how often the run was started).
An attempt begins with its `attempt` event. The kinds, and their fields beside these three:

- `attempt`: start_step, max_steps, rank, world_size, host, hosts (all), launcher, interface, num_disks (that hold the
  run folder), device, precision, attention (backend), is_compiled, num_parameters, num_threads, learning_rate (its
  formula), source_budget, target_budget (tokens of a pack), num_microbatches (a step), num_train_pairs (of an epoch),
  best_bleu (so far), source_language, target_language, settings (of [training] and [model]), price_per_hour, currency,
  peak_flops_per_second (of this rank's device), flops_per_source_token, flops_per_target_token, gradient_bytes,
  clock_offset_seconds, clock_error_seconds (of this host's clock against rank 0's)
- `data`: fingerprint, vocabulary_sha256, vocabulary_size, corpora (what each holds and what was dropped)
- `hardware`, of each host: host, cpu_model, cpu_has_bf16 (instructions for products in it), num_cores, memory_bytes,
  disk_free_bytes, disk_total_bytes, interface, stated_bits_per_second, gpus, not_available (what cannot be read here,
  and why)
- `link`, where there are several hosts: bus_bytes_per_second (its capacity), latency_seconds, sizes_bytes, seconds,
  sweep_seconds, stated_bits_per_second
- `rehearsal`, before the first step of compiled code or of several ranks: seconds (compiling and recording among them),
  is_compiled
- `steps`, with every `train` and at the end: step, first_step; of each step its seconds as lists, `wall` and by part
  (STEP_PARTS), sent_bytes, received_bytes; outside_seconds (between steps, by what was done)
- `machine`, of each host, every few seconds: host, step, interval_seconds, cpu_percent, process_cpu_percent,
  memory_used_bytes, process_memory_bytes, disk_read_bytes_per_second, disk_written_bytes_per_second, disk_free_bytes,
  sent_bytes_per_second, received_bytes_per_second, cpu_energy_joules, gpus
- `train`, every `log_every` steps, means since the one before: step, epochs, loss_nats_per_token, learning_rate,
  gradient_norm, seconds_per_step, target_tokens_per_second, source_tokens_per_second, fill_target, fill_source,
  skipped_steps (in all), loss_scale, eta_seconds, <part>_seconds_per_step of each part, bottleneck, bottleneck_share,
  slowest_rank, model_flop_utilisation
- `skipped`: step, loss_nats_per_token, gradient_norm, loss_scale, in_a_row
- `validation`: step, seconds, valid_loss_nats_per_token, train_sample_loss_nats_per_token, bleu, chrf, bleu_signature,
  chrf_signature, num_lines, is_best, sets (where there are several: the scores of each, by name), weights ("current",
  "ema" or "average of N checkpoints")
- `sample`: step, source, reference, translation
- `checkpoint`: step, seconds, bytes, files (bytes of each), path
- `warning`: message
- `stop`: step, reason ("max_steps", "max_hours", "patience", "signal", "not_finite", "lost_peer", "drift" or "error"),
  hours

JSON has no number that is not finite: such a field is null, and `not_finite` tells which it was, as in
`{"loss_nats_per_token": null, "not_finite": {"loss_nats_per_token": "nan"}}`. `number` puts the two together.
"""

import contextlib
import json
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from septuagint.errors import writing_to

STEP_PARTS = ("data_wait", "to_device", "compute", "communication", "straggler_wait", "optimizer", "rest")
"""Where the time of a step goes. `communication` is the wire alone, and only when nothing else is done meanwhile."""

Event: TypeAlias = dict[str, Any]
Sink: TypeAlias = Callable[[Event], None]
Warn: TypeAlias = Callable[[str], None]

# About ten thousand events: days of training while somebody is asked to make space.
_MAX_WAITING_BYTES = 4 * 1024 * 1024
# Plain ASCII, so that text in any script passes every reader, and no sample can move the cursor of who looks at it.
_JSON = json.JSONEncoder(allow_nan=False)
# What moves a cursor, breaks a line, turns the direction of writing, or is only half a character.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def record_path(run_folder: Path, rank: int) -> Path:
    """Where a rank keeps its record."""
    return run_folder / "events" / f"rank-{rank}.jsonl"


def warn_on_stderr(message: str) -> None:
    """For a process that has nobody better to tell."""
    with contextlib.suppress(OSError):
        print(f"warning: {message}", file=sys.stderr, flush=True)


class LineFile:
    """Lines added to the end of a file, each in one write: readers may follow it, and a kill tears the last at most.

    Any thread may append. A disk that is full or fails stops nobody: lines wait in memory, and are written in order
    once that is possible. When too many wait, the newest are given up and counted: the file is then whole up to one
    known place.
    """

    def __init__(self, path: Path, warn: Warn) -> None:
        self._path, self._warn = path, warn
        self._lock = threading.RLock()  # a warning about the file may become a line of it
        with writing_to(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            size = os.fstat(self._descriptor).st_size
            is_torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        self._waiting = bytearray(b"\n" if is_torn else b"")
        self._num_lost = 0
        self._is_failing = False

    def append(self, line: str) -> None:
        """Adds one line, or several with line breaks between them."""
        data = line.encode(errors="backslashreplace") + b"\n"
        with self._lock:
            if self._waiting and len(self._waiting) + len(data) > _MAX_WAITING_BYTES:
                self._num_lost += 1
            else:
                self._waiting += data
            self._write_waiting()

    def close(self) -> None:
        """Tries once more to write what waits."""
        self._write_waiting()
        if self._waiting:
            num_lost = self._num_lost + self._waiting.count(b"\n")
            self._warn(f"{self._path}: the last {num_lost:,} lines could not be written and are lost")
        with contextlib.suppress(OSError):  # a disk over a network may only now say that it is full
            os.close(self._descriptor)

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                # A disk takes what it still has space for; the rest of the line follows later.
                del self._waiting[: os.write(self._descriptor, self._waiting)]
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                self._warn(f"cannot write {self._path}: {error.strerror}; new lines wait in memory until it can be")
            return
        if self._is_failing:
            lost = f"{self._num_lost:,} lines were lost" if self._num_lost else "nothing was lost"
            self._is_failing, self._num_lost = False, 0
            self._warn(f"{self._path} can be written again; {lost}")


class EventLog:
    """Writes the record of one rank, and hands every event on to the sinks, in order. Any thread may emit."""

    def __init__(self, path: Path, attempt: int, sinks: Iterable[Sink] = (), *, warn: Warn = warn_on_stderr) -> None:
        self._attempt, self._sinks, self._tell = attempt, tuple(sinks), warn
        self._lock = threading.RLock()
        self._file = LineFile(path, self._warn)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._file.close()

    def emit(self, event: str, /, **fields: Any) -> None:
        """Records what happened. Sinks see it as a reader of the file would."""
        with self._lock:
            record, line = self._encode(event, fields)
            self._file.append(line)
            for sink in self._sinks:
                sink(record)

    def _warn(self, message: str) -> None:
        """The file is in trouble: the record says so itself, as soon as it can."""
        self._tell(message)
        self._file.append(self._encode("warning", {"message": message})[1])

    def _encode(self, event: str, fields: Event) -> tuple[Event, str]:
        record = {"time": time.time(), "event": event, "attempt": self._attempt, **fields}
        try:
            return record, _JSON.encode(record)
        except ValueError:  # something is not finite, which is rare: only then is every field looked at
            found: dict[str, str] = {}
            record = {key: _finite(value, key, found) for key, value in record.items()} | {"not_finite": found}
            return record, _JSON.encode(record)


def _finite(value: Any, name: str, found: dict[str, str]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        found[name] = str(value)
        return None
    if isinstance(value, dict):
        return {key: _finite(inner, f"{name}.{key}", found) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner, f"{name}.{index}", found) for index, inner in enumerate(value)]
    return value


def read_events(path: Path, damaged_lines: list[int] | None = None) -> Iterator[Event]:
    """The events of a record, oldest first; none where there is no file yet.

    Half a line at the end is being written, or was when the run was killed: it is passed over. So are lines that are
    damaged; `damaged_lines` gathers their numbers, counted from 1.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for number_of_line, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            if (event := _decode(line)) is not None:
                yield event
            elif damaged_lines is not None:
                damaged_lines.append(number_of_line)


def _decode(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
        is_whole = isinstance(event["event"], str) and isinstance(event["attempt"], int) and event["time"] > 0
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return event if is_whole else None


def latest(events: Iterable[Event]) -> list[Event]:
    """What counts, where a killed run did the steps after its last checkpoint again: the later attempt.

    Left out are events beyond the step from which a later attempt began, and those that a later attempt has of the
    same kind at the same step. Events without a step are all kept, and so is the order.
    """
    events = list(events)

    def place(event: Event) -> tuple[str, int, str | None]:
        # The average of checkpoints is validated at the step where the current weights were.
        return event["event"], event["step"], event.get("weights")

    newest: dict[tuple[str, int, str | None], int] = {}
    starts: dict[int, int] = {}
    for event in events:
        if isinstance(start := event.get("start_step"), int):
            starts[event["attempt"]] = start
        if isinstance(event.get("step"), int):
            newest[place(event)] = max(newest.get(place(event), 0), event["attempt"])

    def counts(event: Event) -> bool:
        attempt, step = event["attempt"], event.get("step")
        if not isinstance(step, int):
            return True
        is_redone = any(step > start for later, start in starts.items() if later > attempt)
        return not is_redone and attempt == newest[place(event)]

    return [event for event in events if counts(event)]


def number(event: Event, field: str) -> float | None:
    """A field that is a number, finite or not; None where the event has none."""
    value = event.get(field)
    if value is None and field in event.get("not_finite", ()):
        return float(event["not_finite"][field])
    return value if isinstance(value, (int, float)) else None


def escape_controls(text: str) -> str:
    """Text that may be shown anywhere: control characters become their escapes, `\\x1b` and the like."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
