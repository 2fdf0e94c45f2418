"""What people see of a run: a live line on a terminal, plain lines elsewhere, and the same lines in `log.txt`."""

import contextlib
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text

from septuagint.telemetry.events import Event, LineFile, number
from septuagint.telemetry.wording import describe, status_line, wrap

_REFRESH_SECONDS = 0.25
_STYLES = {"warning": "yellow", "validation": "bold"}


class Display:
    """Shows events on standard error and writes them to `log_path`, if there is one; a sink of the record.

    `is_quiet` leaves only warnings on standard error. The log gets every line all the same.
    """

    def __init__(self, log_path: Path | None = None, *, is_quiet: bool = False, console: Console | None = None) -> None:
        file = cast(TextIO, _Lasting(sys.stderr))
        self._console = console or Console(file=file, highlight=False, soft_wrap=True)
        self._is_quiet = is_quiet
        self._log = LineFile(log_path, self._warn_on_screen) if log_path is not None else None
        self._step = self._start_step = 0
        self._max_steps: int | None = None
        self._best_bleu: float | None = None
        self._train: Event = {}
        self._live: Live | None = None
        self._is_over = threading.Event()
        self._refresher = threading.Thread(target=self._refresh, name="live-line", daemon=True)

    def __enter__(self) -> Self:
        if self._console.is_interactive and not self._is_quiet:
            # Standard output is for results; what libraries say on standard error goes above the line.
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=True
            )
            self._live.start()
            self._refresher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._is_over.set()
            self._refresher.join()
            self._live.stop()
        if self._log is not None:
            self._log.close()

    def show(self, event: Event) -> None:
        """The sink."""
        kind = event["event"]
        self._remember(event)
        if not (lines := describe(event)):
            return
        if self._log is not None:
            stamp = datetime.fromtimestamp(event["time"]).astimezone().isoformat(timespec="seconds")
            self._log.append("\n".join(f"{stamp}  {line}" for line in lines))
        is_on_live_line = kind == "train" and self._live is not None
        if kind == "warning" or not (self._is_quiet or is_on_live_line):
            self._print(lines, _STYLES.get(kind, ""))

    def tick(self, step: int) -> None:
        """Moves the step number of the live line. It may be called at every step: it only takes a note."""
        self._step = step

    def warn(self, message: str) -> None:
        """Something to be seen that the record could not tell."""
        self.show({"time": time.time(), "event": "warning", "message": message})

    def _warn_on_screen(self, message: str) -> None:
        self._print(describe({"event": "warning", "message": message}), _STYLES["warning"])

    def _print(self, lines: Sequence[str], style: str) -> None:
        if self._console.is_terminal:  # it would break words and numbers; who reads a pipe wants whole lines
            lines = [part for line in lines for part in wrap(line, self._console.width)]
        # A Text is taken as it is: brackets in a sample are no markup.
        self._console.print(Text("\n".join(lines), style=style), soft_wrap=True)

    def _remember(self, event: Event) -> None:
        kind = event["event"]
        if kind == "attempt":
            self._step = self._start_step = event.get("start_step", 0)
            self._max_steps = event.get("max_steps")
            self._best_bleu = number(event, "best_bleu")
        elif kind == "train":
            self._train, self._step = event, event["step"]
        elif kind == "validation" and (bleu := number(event, "bleu")) is not None:
            self._best_bleu = bleu if self._best_bleu is None else max(self._best_bleu, bleu)

    def _refresh(self) -> None:
        assert self._live is not None
        shown = ""
        while not self._is_over.wait(_REFRESH_SECONDS):
            line = status_line(
                self._train,
                step=self._step,
                max_steps=self._max_steps,
                best_bleu=self._best_bleu,
                width=self._console.width,
            )
            if not self._train and self._step == self._start_step:
                line += "  starting"
            if line != shown:
                self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
                shown = line


class _Lasting:
    """Standard error that may go away (a closed pipe, a lost terminal, a full disk) without ending the run."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
