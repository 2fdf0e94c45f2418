"""From a call to an exit code: signals, streams that cannot be written, and mistakes told without a traceback.

Exit 0: good; 2: the user's mistake; 1: ours; 75: another rank was lost; 128 + n: stopped by signal n (but 0 for
SIGUSR1).
"""

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from septuagint.errors import DriftError, LostPeerError, ParityError, UserError


class Stopped(BaseException):
    """A signal asked the program to stop. Not an Exception: nothing on the way may swallow it."""

    advice = "; run the same command again to go on"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_program(call: Callable[[], None]) -> NoReturn:
    """Calls it, and leaves with an exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()  # a shell may have closed them
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names and sentences that a terminal cannot show
    try:
        try:
            call()
        except Stopped as stopped:
            raise _reason(stopped) from None
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as leaving:  # a wrong option, or nobody reads what we write any more
        if leaving.code:
            _leave(int(leaving.code))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        tell(f"error: the result could not be written: {error.strerror}")
        sys.stdout = _nowhere()
        _leave(2)
    except UserError as error:
        if error.is_told:
            tell(f"error: {error}")
        _leave(2)
    except (DriftError, ParityError) as error:
        tell(f"error: {error}")
        _leave(1)
    except LostPeerError as error:
        tell(f"error: {error}")
        _leave(error.exit_code)
    except Stopped as stopped:
        from septuagint.training.signals import exit_code

        tell(f"\nstopped{stopped.advice}")
        _leave(exit_code(signal.Signals(stopped.number)))
    except Exception:
        traceback.print_exc()
        _leave(1)
    sys.exit(0)


def _reason(stopped: Stopped) -> BaseException:
    """The error that was on its way already, if there was one: where a rank fails, its launcher stops the others."""
    error = stopped.__context__
    while error is not None and not isinstance(error, UserError | LostPeerError | DriftError | ParityError):
        error = error.__context__
    return error or stopped


def _leave(code: int) -> NoReturn:
    """Takes nothing apart that would wait: a world for the rank that it lost, CTranslate2 for all that it was given."""
    _end_at_signals()
    torch_distributed = sys.modules.get("torch.distributed")
    is_in_world = torch_distributed is not None and torch_distributed.is_initialized()
    if not is_in_world and "ctranslate2" not in sys.modules:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def tell(message: str) -> None:
    """On standard error, if it can be written."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = _nowhere()


def _nowhere() -> TextIO:
    """Instead of a stream that cannot be written: Python tries again on its way out, and takes that for an error."""
    return Path(os.devnull).open("w")


def stop(number: int, frame: FrameType | None) -> None:
    """The handler of a signal. A second one ends the program at once, wherever it is."""
    _end_at_signals()
    raise Stopped(number)


def _end_at_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
