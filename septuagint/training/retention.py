"""What a run keeps of its checkpoints, whether there is room for them, and a copy of what matters elsewhere.

Kept whole: the two latest and the best. Of the last five regular ones the weights alone, to be averaged. All others
go. A checkpoint is regular where the interval set for them says so: those that a signal or a good validation added
would make the average depend on how often a run was disturbed.
"""

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from septuagint.data.files import read_object, written_aside
from septuagint.data.folders import discard, filled_aside
from septuagint.errors import CheckpointError, StorageError
from septuagint.training.checkpoint import best_path, find_checkpoints, remove_leftovers
from septuagint.training.checkpoint_files import (
    MODEL,
    OPTIMIZER,
    STATE,
    FileEntry,
    FileName,
    read_manifest,
    write_manifest,
)

NUM_WHOLE = 2  # should the latest be damaged, there is another
NUM_WEIGHTS = 5


def prune(run: Path, best_step: int | None, trusted: Collection[int], *, every: int) -> None:
    """Drops what need not be kept. Can be killed at any moment, and called again; `every` so many steps is regular.

    `trusted` are the steps whose checkpoints are known to be good without reading them again: those written by this
    attempt, and the one that it went on from. Others may be damaged, and never count as one of the latest.
    """
    if not trusted:
        return
    first, latest = min(trusted), max(trusted)
    whole = {*sorted(trusted)[-NUM_WHOLE:], best_step}
    rank = 0
    for step, path in find_checkpoints(run):
        if step > latest:
            continue  # passed over when the run went on from an earlier one, which may reach and replace it
        was_passed_over = step > first and step not in trusted
        is_averaged = step % every == 0 and not was_passed_over
        if step not in whole and (not is_averaged or rank >= NUM_WEIGHTS):
            discard(path)
        elif step not in whole:
            _keep_weights(path)
        rank += is_averaged


def _keep_weights(path: Path) -> None:
    """Takes the optimizer out of a checkpoint: first out of its manifest, so that it is valid at any moment."""
    try:
        files = _weights_alone(path)
    except CheckpointError:
        discard(path)  # not even its manifest can be read
        return
    if (path / OPTIMIZER).exists():
        write_manifest(path, files)
        (path / OPTIMIZER).unlink()


def _weights_alone(path: Path) -> dict[FileName, FileEntry]:
    return {name: entry for name, entry in read_manifest(path).files.items() if name != OPTIMIZER}


def check_space(run: Path, needed_bytes: int) -> None:
    """Refuses a run whose disk has no room for two checkpoints of `needed_bytes` and a third while it is written."""
    there = [sum(file.stat().st_size for file in path.glob("*")) for _, path in find_checkpoints(run)]
    needed = 3 * needed_bytes - min(sum(there[:NUM_WHOLE]), NUM_WHOLE * needed_bytes)
    folder = next(folder for folder in (run, *run.absolute().parents) if folder.exists())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"{run}: checkpoints of {megabytes(needed_bytes)} need {megabytes(needed)} more on this disk, to hold two "
            f"and write a third, but {megabytes(free)} are free; free some space, or choose another folder with --run"
        )


def megabytes(num_bytes: int) -> str:
    """A size in a message."""
    return f"{num_bytes / 1e6:,.1f} MB"


def mirror(run: Path, target: Path) -> str | None:
    """Copies the record and the best weights of a run to another place. Returns what went wrong, if anything did."""
    try:
        if target.resolve() == run.resolve():
            return f"{target}: the mirror is the run folder itself; choose another place for training.mirror"
        if (owner := _first_attempt(target)) is not None and owner != _first_attempt(run):
            return f"{target}: holds the mirror of another run; choose another place for training.mirror"
        files = [run / name for name in ("log.txt", "environment.json", "config.toml", "vocabulary.model")]
        for path in [*files, *sorted(run.glob("report.*")), *sorted(run.glob("events/*"))]:
            if path.is_file():
                _copy_if_changed(path, target / path.relative_to(run))
        best = best_path(run)
        if best is not None:
            remove_leftovers(target)
            _mirror_weights(best, target / "best")
    except (OSError, CheckpointError) as error:
        return f"not everything could be copied to the mirror {target}: {error}; trying again at the next checkpoint"
    return None


def _first_attempt(run: Path) -> object:
    """What tells runs apart: when and how each was begun. None where nothing is known of a run."""
    attempts = read_object(run / "environment.json").get("attempts")
    first = attempts[0] if isinstance(attempts, list) and attempts else {}
    return (first["start"], first.get("command_line")) if isinstance(first, dict) and "start" in first else None


def _copy_if_changed(source: Path, target: Path) -> None:
    seen = source.stat()  # before it is read: what is added meanwhile is copied the next time
    if target.exists():
        there = target.stat()
        if (there.st_size, there.st_mtime_ns) == (seen.st_size, seen.st_mtime_ns):
            return
    _copy(source, target)
    os.utime(target, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as original, written_aside(target) as copy:
        shutil.copyfileobj(original, copy)


def _mirror_weights(best: Path, target: Path) -> None:
    """A checkpoint of the weights alone, replaced as a whole: the old one is good until the new one is."""
    files = _weights_alone(best)
    try:
        if read_manifest(target).files == files:
            return
    except CheckpointError:
        pass  # none yet, or none that can be used
    with filled_aside(target) as folder:
        for name in (MODEL, STATE):
            _copy(best / name, folder / name)
        write_manifest(folder, files)
