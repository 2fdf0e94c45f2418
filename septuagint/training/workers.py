"""`--workers N`: N ranks on this machine, through torch's own elastic launcher, and started again when one is lost."""

import contextlib
import dataclasses
import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from septuagint.training.launcher import WORKERS
from septuagint.training.signals import LOST_PEER_EXIT_CODE, exit_code

_MAX_RESTARTS = 3
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# A rank that lives so long had work to do; losing it later is another accident, and not the same one again.
_LASTING_SECONDS = 300.0
# To finish a step, and to write a large checkpoint to a slow disk.
_SHUTDOWN_SECONDS = 600


def run_workers(number: int, arguments: Sequence[str], *, has_result: bool = True) -> int:
    """Runs `septuagint` with these arguments as every rank; returns its exit code. The result may be kept back.

    A rank that was killed, or lost another, is started again with all others, and goes on from the last checkpoint.
    """
    logging.disable(logging.CRITICAL)  # what matters the ranks say themselves
    os.environ[WORKERS] = str(number)
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    restarts = 0
    while True:
        begin = time.monotonic()
        code = _run_once(number, arguments, has_result)
        if code >= 0 and code != LOST_PEER_EXIT_CODE:
            return code
        restarts = 1 if time.monotonic() - begin > _LASTING_SECONDS else restarts + 1
        what = f"killed by {signal.Signals(-code).name}" if code < 0 else "lost"
        if restarts > _MAX_RESTARTS:
            print(f"error: a rank was {what} {restarts} times in a row; see above", file=sys.stderr, flush=True)
            return LOST_PEER_EXIT_CODE if code >= 0 else 128 - code
        print(f"warning: a rank was {what}; starting all {number} again", file=sys.stderr, flush=True)


def _run_once(number: int, arguments: Sequence[str], has_result: bool) -> int:
    """The exit code; negative where a signal that nobody sent us killed a rank."""
    with tempfile.TemporaryDirectory(prefix="septuagint-") as logs, _handlers_kept():
        launch = elastic_launch(_settings(number, Path(logs), has_result), sys.executable)
        try:
            launch("-m", "septuagint.cli", *arguments)
        except ChildFailedError as error:
            return _cause([failure.exitcode for failure in error.failures.values()])
        except SignalException as error:
            return exit_code(error.sigval)
    return 0


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """The launcher handles signals while it runs, and leaves it at that."""
    before = {number: signal.getsignal(number) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _settings(number: int, logs: Path, has_result: bool) -> LaunchConfig:
    known = {field.name for field in dataclasses.fields(LaunchConfig)}
    newer: dict[str, Any] = {
        "shutdown_timeout": _SHUTDOWN_SECONDS,
        "signals_to_handle": ",".join(number.name for number in _FORWARDED),
    }
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=number,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(log_dir=str(logs), redirects=Std.NONE if has_result else Std.OUT),
        **{name: value for name, value in newer.items() if name in known},  # not all versions of torch have them
    )


def _cause(codes: Sequence[int]) -> int:
    """Of several ranks that failed, what tells most: a user's mistake, our own, a kill, a lost peer."""
    ours = [code for code in codes if code in (1, 2)]
    killed = [code for code in codes if code < 0 and code != -signal.SIGTERM]  # SIGTERM is the launcher's own
    return (
        sorted(ours, reverse=True) or killed or [LOST_PEER_EXIT_CODE if LOST_PEER_EXIT_CODE in codes else codes[0]]
    )[0]
