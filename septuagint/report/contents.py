"""What a report and a comparison hold, whatever they are written as."""

import datetime
from dataclasses import dataclass

from septuagint.report.answer import Answer
from septuagint.report.reading.record import Record

_FINISHED = {
    "max_steps": "finished: all steps are done",
    "max_hours": "finished: its hours are used up",
    "patience": "finished: it no longer got better",
}
_STOPPED = {
    "signal": "stopped by a signal",
    "not_finite": "stopped: the loss was no longer a number",
    "lost_peer": "stopped: another rank was lost",
    "drift": "stopped: the weights were not the same on all ranks",
    "error": "stopped by an error",
}
# A run that trains leaves a sign of life at least as often: the monitor's slowest pace, with time to spare.
_ALIVE_SECONDS = 60.0


def stop_words(reason: str) -> str:
    """Why an attempt ended."""
    return _FINISHED.get(reason) or _STOPPED.get(reason) or f"stopped: {reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A record with its answers."""

    record: Record
    answers: tuple[Answer, ...]
    made: datetime.datetime  # in UTC

    @property
    def name(self) -> str:
        """Of the run: that of its folder."""
        return self.record.run.resolve().name

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end by itself; it may still be taken further."""
        return self._stop_reason in _FINISHED

    @property
    def is_running(self) -> bool:
        """Whether it has shown a sign of life just before the report was made."""
        attempts = self.record.attempts
        is_open = bool(attempts) and self._stop_reason is None
        return is_open and self.made.timestamp() - attempts[-1].end_time < _ALIVE_SECONDS

    @property
    def state(self) -> str:
        """In words."""
        if self._stop_reason is None:
            return "still running" if self.is_running else "killed, or still running in silence"
        return stop_words(self._stop_reason)

    @property
    def last_step(self) -> int:
        """As far as it came."""
        record = self.record
        done = [int(table.step[-1]) for table in record.steps.values() if len(table)]
        told = [attempt.last_step for attempt in record.attempts[-1:] if attempt.last_step is not None]
        return max([*done, *told], default=0)

    @property
    def bottleneck(self) -> str | None:
        """data, compute, network, slow_rank, validation, checkpoints, none or unknown."""
        return next((answer.verdict for answer in self.answers if answer.id == "bottleneck"), None)

    @property
    def _stop_reason(self) -> str | None:
        return self.record.attempts[-1].stop_reason if self.record.attempts else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Several runs side by side."""

    reports: tuple[Report, ...]
    names: tuple[str, ...]  # one a report, all different
    made: datetime.datetime


def different_names(reports: tuple[Report, ...]) -> tuple[str, ...]:
    """The name of each run, with as much of the path before it as it takes to tell them apart."""
    paths = [report.record.run.resolve() for report in reports]
    longest = max((len(path.parts) for path in paths), default=1)
    for num_parts in range(1, longest + 1):
        names = ["/".join(path.parts[-num_parts:]) for path in paths]
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{path.name} ({index})" for index, path in enumerate(paths, start=1))
