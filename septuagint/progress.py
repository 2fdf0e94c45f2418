"""What people see while long work is done: bars on a terminal, plain lines elsewhere, all on standard error."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

# Without a terminal, a long stage says where it stands this often.
_PLAIN_INTERVAL_SECONDS = 15.0


class Stage(Protocol):
    """One stretch of work whose end is known."""

    def advance(self, amount: int) -> None: ...


class ProgressReport:
    """Stages one after the other, and messages in between. `is_quiet` leaves only the warnings."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._is_quiet = is_quiet
        self._bars: Progress | None = None
        if self.console.is_terminal and not is_quiet:
            self._bars = Progress(
                SpinnerColumn(finished_text="[green]✓"),
                TextColumn("{task.description:<14}"),
                BarColumn(bar_width=None),
                _Count(),
                _Rate(),
                TimeElapsedColumn(),
                TimeRemainingColumn(elapsed_when_finished=False),
                console=self.console,
                expand=True,
            )

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def say(self, message: str) -> None:
        """A message that stays on the screen."""
        if not self._is_quiet:
            self.console.print(message, markup=False)

    def warn(self, message: str) -> None:
        """A message that even a quiet run shows."""
        self.console.print(f"warning: {message}", markup=False, style="yellow")

    @contextmanager
    def stage(self, title: str, total: int | None, unit: str) -> Iterator[Stage]:
        """Shows the progress of one stage; `total` None where nobody can tell how much there is."""
        if self._bars is None:
            yield from self._plain_stage(title, total, unit)
            return
        task = self._bars.add_task(title, total=total, unit=unit)
        stage = _Bar(self._bars, task)
        yield stage
        if total is None:
            self._bars.update(task, total=1, completed=1)

    def _plain_stage(self, title: str, total: int | None, unit: str) -> Iterator[Stage]:
        stage = _Lines(self, title, total, unit)
        yield stage
        self.say(stage.summary())


class _Bar:
    def __init__(self, bars: Progress, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def advance(self, amount: int) -> None:
        self._bars.advance(self._task, amount)


class _Count(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.total in (None, 1) else f"{_short(task.completed)}/{_short(task.total or 0)}")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        unit = task.fields["unit"]
        shown = unit if unit == "B" else f" {unit}"
        return Text("" if speed is None else f"{_short(speed)}{shown}/s", style="dim")


class _Lines:
    """A stage where there is no terminal."""

    def __init__(self, report: ProgressReport, title: str, total: int | None, unit: str) -> None:
        self._report = report
        self._title, self._total, self._unit = title, total, unit
        self._done = 0
        self._start = self._last_said = time.monotonic()

    def advance(self, amount: int) -> None:
        self._done += amount
        now = time.monotonic()
        if self._total and now - self._last_said >= _PLAIN_INTERVAL_SECONDS:
            self._last_said = now
            seconds = now - self._start
            rest = (self._total - self._done) * seconds / self._done if self._done else 0.0
            self._report.say(
                f"{self._title}: {self._done:,} of {self._total:,} {self._unit}, "
                f"{_short(self._done / seconds)}/s, about {rest:.0f} s to go"
            )

    def summary(self) -> str:
        seconds = time.monotonic() - self._start
        amount = f"{self._done:,} {self._unit}, " if self._total else ""
        return f"{self._title}: {amount}{seconds:.1f} s"


def _short(number: float) -> str:
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{suffix}"
    return f"{number:.0f}"
