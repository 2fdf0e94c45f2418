"""Writes checkpoints beside the training, on a thread of its own. A disk that fails does not stop the run."""

import errno
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from septuagint.data.files import hash_file
from septuagint.errors import StorageError
from septuagint.training.checkpoint import SavedCheckpoint, point_best, write_checkpoint
from septuagint.training.checkpoint_files import MANIFEST
from septuagint.training.retention import megabytes, mirror, prune


class CheckpointWriter:
    """One thread, and at most one checkpoint on its way to the disk. The callbacks are called on that thread."""

    def __init__(
        self,
        run: Path,
        *,
        every: int,
        resumed_step: int | None,
        best_step: int | None,
        on_saved: Callable[[SavedCheckpoint], None],
        on_failure: Callable[[str], None],
        mirror_folder: Path | None = None,
    ) -> None:
        """`every` is the number of steps between regular checkpoints: see `retention`."""
        self.last_error: StorageError | None = None
        """Why the latest checkpoint is not on the disk; None when it is."""
        self.last_written: tuple[int, str] | None = None
        """(step, SHA-256 of the manifest) of the latest checkpoint that is."""
        self._run, self._every = run, every
        self._trusted = set() if resumed_step is None else {resumed_step}
        self._best_step = best_step
        self._on_saved = on_saved
        self._on_failure = on_failure
        self._mirror_folder = mirror_folder
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._executor.shutdown()

    def save(
        self,
        step: int,
        weights: dict[str, Tensor],
        optimizer: dict[str, Tensor],
        state: dict[str, Any],
        *,
        is_best: bool = False,
    ) -> None:
        """Begins to write. The tensors, on the CPU, are the writer's from now on: see `to_host`."""
        self.wait()
        self._pending = self._executor.submit(self._write, step, weights, optimizer, state, is_best)

    def wait(self) -> None:
        """Until the checkpoint on its way has been written or has failed. An error of our own is raised here."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _write(
        self,
        step: int,
        weights: dict[str, Tensor],
        optimizer: dict[str, Tensor],
        state: dict[str, Any],
        is_best: bool,
    ) -> None:
        try:
            saved = write_checkpoint(self._run, step, weights, optimizer, state)
        except OSError as error:
            num_bytes = sum(tensor.nbytes for tensor in (*weights.values(), *optimizer.values()))
            problem = _problem(self._run / "checkpoints", step, num_bytes, error)
            self.last_error = StorageError(f"{problem}, then run the same command again")
            self._on_failure(f"{problem}; trying again at the next checkpoint")
            return
        self.last_error = None
        self.last_written = step, hash_file(saved.path / MANIFEST)
        self._trusted.add(step)
        self._tidy(step, is_best)
        self._on_saved(saved)
        if self._mirror_folder is not None and (warning := mirror(self._run, self._mirror_folder)):
            self._on_failure(warning)

    def _tidy(self, step: int, is_best: bool) -> None:
        try:
            if is_best:
                self._best_step = step
                point_best(self._run, step)
        except OSError as error:
            self._on_failure(
                f"checkpoint {step} is the best, but {self._run / 'best'} could not be linked to it: {error}"
            )
        try:
            prune(self._run, self._best_step, self._trusted, every=self._every)
        except OSError as error:
            self._on_failure(f"checkpoint {step} is written, but older ones could not be cleared up: {error}")


def _problem(folder: Path, step: int, num_bytes: int, error: OSError) -> str:
    problem = f"{folder}: the checkpoint of step {step} was not written: {error.strerror or error}"
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return f"{problem} ({error.filename or 'while writing'}); put that right"
    there = next(there for there in (folder, *folder.absolute().parents) if there.exists())
    free = shutil.disk_usage(there).free
    return f"{problem} (it needs {megabytes(num_bytes)}, {megabytes(free)} are free); free some space"
