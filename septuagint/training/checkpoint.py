"""Checkpoints: folders that hold the whole state of a run at one step.

    checkpoints/step-00000500/model.safetensors      the weights that one translates with, and nothing else, so that
                                                     equal weights have equal hashes
                              optimizer.safetensors  what only training needs; weights kept for averaging go without
                              state.json             step, place in the data, counters, configuration
                              manifest.json          SHA-256 of the other files, and its own
    best                                             a link to one of them

A folder is filled under a temporary name and then renamed: one that has its real name is complete.
"""

import json
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from septuagint.data.files import fsync_folder, json_bytes, written_aside
from septuagint.data.folders import filled_aside, is_temporary, temporary_name
from septuagint.errors import CheckpointError
from septuagint.training.checkpoint_files import (
    CURE,
    MANIFEST,
    MODEL,
    OPTIMIZER,
    STATE,
    FileName,
    NewerFormatError,
    describe_file,
    read_manifest,
    read_tensors,
    verify_file,
    write_manifest,
    write_tensors,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A checkpoint in the memory of the CPU; without the optimizer's tensors where only weights were asked for."""

    step: int
    path: Path
    state: dict[str, Any]
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCheckpoint:
    """A checkpoint that has reached the disk."""

    step: int
    path: Path
    files: dict[str, int]  # bytes of each
    seconds: float

    @property
    def bytes(self) -> int:
        return sum(self.files.values())


def to_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies in the memory of the CPU that nobody else holds. Waits once for all copies from a GPU."""
    copies = {}
    for name, tensor in tensors.items():
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.is_cuda)
        copies[name] = copy.copy_(tensor.detach(), non_blocking=True)
    for device in {tensor.device for tensor in tensors.values() if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    return copies


def checkpoint_path(run: Path, step: int | Literal["averaged"]) -> Path:
    """Where the checkpoint of a step stands, or the average of the last ones."""
    return run / "checkpoints" / (step if isinstance(step, str) else f"step-{step:08d}")


def write_checkpoint(
    run: Path, step: int, weights: dict[str, Tensor], optimizer: dict[str, Tensor], state: dict[str, Any]
) -> SavedCheckpoint:
    """Writes all that training needs to go on from a step. One of that step that is already there is replaced."""
    return _write(checkpoint_path(run, step), step, {MODEL: weights, OPTIMIZER: optimizer}, state)


def write_weights(folder: Path, step: int, weights: dict[str, Tensor], state: dict[str, Any]) -> SavedCheckpoint:
    """Writes a checkpoint to translate with, not to go on from, such as the average of the last ones."""
    return _write(folder, step, {MODEL: weights}, state)


def _write(path: Path, step: int, tensors: dict[FileName, dict[str, Tensor]], state: dict[str, Any]) -> SavedCheckpoint:
    start = time.monotonic()
    with filled_aside(path) as folder:
        with written_aside(folder / STATE) as file:
            file.write(json_bytes({**state, "step": step}))
        entries = {STATE: describe_file(folder / STATE)}
        for name, content in tensors.items():
            write_tensors(folder / name, content)
            entries[name] = describe_file(folder / name)
        write_manifest(folder, entries)
    files: dict[str, int] = {name: entry.bytes for name, entry in entries.items()}
    files[MANIFEST] = (path / MANIFEST).stat().st_size
    return SavedCheckpoint(step=step, path=path, files=files, seconds=time.monotonic() - start)


def find_checkpoints(run: Path) -> list[tuple[int, Path]]:
    """(step, folder) of every checkpoint, whole or not, the newest first."""
    found: dict[int, Path] = {}
    for path in sorted((run / "checkpoints").glob("*step-*")):  # one that is set aside sorts before the real one
        if match := re.fullmatch(r"step-(\d{8,})|\.step-(\d{8,})\.old", path.name):
            found[int(match[1] or match[2])] = path
    return sorted(found.items(), reverse=True)


def newest_valid(run: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that training can go on from, and what is wrong with those passed over on the way."""
    problems: list[str] = []
    for _, path in find_checkpoints(run):
        try:
            if OPTIMIZER in read_manifest(path).files:
                return load_checkpoint(path), problems
        except NewerFormatError:
            raise
        except CheckpointError as error:
            problems.append(_without_cure(error))
    return None, problems


def load_checkpoint(path: Path) -> Checkpoint:
    """All that training needs to go on; the SHA-256 of every file is verified first."""
    if OPTIMIZER not in read_manifest(path).files:
        raise CheckpointError(f"{path}: holds weights alone, training cannot go on from them; {CURE}")
    return _load(path, (STATE, MODEL, OPTIMIZER))


def load_weights(path: Path) -> Checkpoint:
    """The weights of a checkpoint, or of a run: its best, or the newest that is whole where none is called best."""
    is_run = any((path / name).exists() for name in ("checkpoints", "best", "environment.json"))
    chosen = best_path(path) if is_run else path
    if chosen is not None:
        return _load(chosen, (STATE, MODEL))
    if not (found := find_checkpoints(path)):
        raise CheckpointError(
            f"{path}: this run has no checkpoint yet; run `septuagint train` to go on until it has one"
        )
    problems = []
    for _, checkpoint in found:
        try:
            return _load(checkpoint, (STATE, MODEL))
        except CheckpointError as error:
            problems.append("\n  " + _without_cure(error))
    raise CheckpointError(f"{path}: this run has no checkpoint that can be used; train it first{''.join(problems)}")


def _load(path: Path, names: Sequence[FileName]) -> Checkpoint:
    entries = read_manifest(path).files
    for name in names:
        verify_file(path / name, entries.get(name))
    state = _read_state(path / STATE)
    tensors = {name: read_tensors(path / name) for name in names if name != STATE}
    return Checkpoint(
        step=state["step"], path=path, state=state, weights=tensors[MODEL], optimizer=tensors.get(OPTIMIZER, {})
    )


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        state = None
    if not isinstance(state, dict) or not isinstance(state.get("step"), int):
        raise CheckpointError(f"{path}: does not say of which step it is; {CURE}")
    return state


def _without_cure(error: CheckpointError) -> str:
    """Where another checkpoint is tried at once, nobody needs the advice to do so."""
    return str(error).rpartition(";")[0]


def best_path(run: Path) -> Path | None:
    """The checkpoint that is called best, if there is one."""
    best = run / "best"
    path = run / best.readlink() if best.is_symlink() else best
    return path if (path / MANIFEST).exists() else None


def point_best(run: Path, step: int | Literal["averaged"]) -> None:
    """Calls a checkpoint the best: `best` becomes a link to it, all at once."""
    temporary = temporary_name(run / "best")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(checkpoint_path(run, step).relative_to(run))
    temporary.replace(run / "best")
    fsync_folder(run)


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights, summed in float64, one checkpoint in memory at a time."""
    sums: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for path in paths:
        weights = load_weights(path).weights
        if not sums:
            sums = {name: torch.zeros(tensor.shape, dtype=torch.float64) for name, tensor in weights.items()}
            dtypes = {name: tensor.dtype for name, tensor in weights.items()}
        if weights.keys() != sums.keys() or any(weights[name].shape != sums[name].shape for name in sums):
            raise CheckpointError(f"{path}: not the same network as {paths[0]}; average checkpoints of one run")
        for name, tensor in weights.items():
            sums[name] += tensor
    return {name: (total / len(paths)).to(dtypes[name]) for name, total in sums.items()}


def remove_leftovers(run: Path) -> None:
    """Clears up after a process that was killed. For the holder of the run's lock: nobody else is training.

    Somebody may be making the run's artifact: what belongs to that is left alone.
    """
    for aside in list(run.glob("checkpoints/.*.old")):
        real = aside.with_name(aside.name.removeprefix(".").removesuffix(".old"))
        if real.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(real)
    for path in [*run.glob(".*.tmp"), *run.glob("checkpoints/.*.tmp"), *run.glob("checkpoints/*/.*.tmp")]:
        if "artifact" in path.name:
            continue
        if is_temporary(path) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif is_temporary(path):
            path.unlink(missing_ok=True)
    for _, path in find_checkpoints(run):
        try:
            has_weights_alone = OPTIMIZER not in read_manifest(path).files
        except CheckpointError:
            continue
        if has_weights_alone:
            (path / OPTIMIZER).unlink(missing_ok=True)
