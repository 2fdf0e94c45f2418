"""A pool of processes for work that is split into many independent calls.

The processes end with the one that started them, however that ends: killed, interrupted or done.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Self, TypeVar

from septuagint.errors import UserError

Result = TypeVar("Result")


class Workers:
    """Runs calls on `num_workers` processes, with a bounded number of them in memory."""

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._processes: set[BaseProcess] = set()
        # A fresh interpreter instead of a fork: threads (the progress bar's) do not survive one.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(num_workers, mp_context=context, initializer=_begin_worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            for process in self._processes:
                process.kill()
        self._pool.shutdown(cancel_futures=True)

    def run(self, calls: Iterable[tuple[Callable[..., Result], tuple[Any, ...]]]) -> Iterator[Result]:
        """Results in the order in which the calls finish. `calls` is drawn from as there is room."""
        pending: set[Future[Result]] = set()
        try:
            for function, arguments in calls:
                pending.add(self._submit(function, arguments))
                if len(pending) >= 2 * self._num_workers:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except BrokenProcessPool:
            raise UserError(
                "a worker process was killed, most likely for want of memory; run the same command again with "
                "fewer of them (--workers 1): finished parts are kept"
            ) from None

    def _submit(self, function: Callable[..., Result], arguments: tuple[Any, ...]) -> Future[Result]:
        if len(self._processes) == self._num_workers:
            return self._pool.submit(function, *arguments)
        # This call starts a process. An interrupt must not reach it before it can refuse: it inherits our mask.
        before = set(multiprocessing.active_children())
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(function, *arguments)
        finally:
            self._processes |= set(multiprocessing.active_children()) - before
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _begin_worker() -> None:
    # An interrupt from the keyboard reaches the whole group; the parent decides what becomes of the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Blocks of text become millions of small objects without cycles; looking for some took a fifth of the time.
    gc.disable()
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in a worker only"
    parent.join()
    os._exit(1)
