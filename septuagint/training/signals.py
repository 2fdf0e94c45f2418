"""Signals and exit codes: the step in hand is saved before the program leaves; a second signal does not wait."""

import contextlib
import os
import signal
from types import FrameType, TracebackType
from typing import Self

LOST_PEER_EXIT_CODE = 75
"""The run is whole, the world is not: start it again (EX_TEMPFAIL)."""
_STDERR = 2
_SHOW_CURSOR = b"\x1b[?25h"
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


class Signals:
    """Takes note of the first signal while it is open. SIGUSR1 is what batch systems send before the time is up,
    SIGHUP what a lost connection leaves behind."""

    def __init__(self, *, is_launched: bool = False) -> None:
        """A launcher passes on signals that reached us already, and kills what does not leave: no second one counts."""
        self.received: signal.Signals | None = None
        self._is_launched = is_launched
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for number in _HANDLED:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup has SIGHUP ignored
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal itself gave us

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
        if (
            number != signal.SIGUSR1 and not self._is_launched
        ):  # batch systems send SIGTERM some time after it, and mean the same
            for again in (signal.SIGINT, signal.SIGTERM):
                signal.signal(again, signal.SIG_DFL)
        with contextlib.suppress(OSError):
            if number == signal.SIGINT and os.isatty(_STDERR) and not self._is_launched:
                # The live line has hidden the cursor, and after a second signal nobody would bring it back.
                os.write(_STDERR, _SHOW_CURSOR + b"\nfinishing the step, then saving; Ctrl-C again ends it at once\n")


def exit_code(received: signal.Signals) -> int:
    """What the shell is told: 130 for SIGINT, 143 for SIGTERM, 0 for SIGUSR1, after which the job is to be put back."""
    return 0 if received == signal.SIGUSR1 else 128 + received
