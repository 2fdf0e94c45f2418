"""Which weights of a run are the best: those of its best validation, or the mean of its last checkpoints."""

import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from septuagint.config import TrainingConfig
from septuagint.errors import CheckpointError, writing_to
from septuagint.training.checkpoint import (
    average_weights,
    best_path,
    checkpoint_path,
    find_checkpoints,
    load_weights,
    point_best,
    write_weights,
)
from septuagint.training.loop import Loop
from septuagint.training.state import load_weights_into
from septuagint.training.validation import Validation, best_of, read_validation, weights_path, with_weights


def point_to_best(
    run: Path, validations: Sequence[Validation], settings: TrainingConfig, *, is_owner: bool
) -> Validation | None:
    """The best validation; the owner of the disk makes the link `best` agree with it.

    A kill between a checkpoint and its link leaves the old one, and a run that goes on leaves its average behind. Where
    the disk knows no links, or has no space for one, that has been said when the checkpoint was written.
    """
    best = best_of(with_weights(run, validations), settings.best_metric)
    if is_owner and best is not None and best_path(run) != weights_path(run, best):
        with contextlib.suppress(OSError):
            point_best(run, "averaged" if best.is_average else best.step)
    return best


def to_average(run: Path, settings: TrainingConfig, last: int) -> list[tuple[int, Path]]:
    """The last regular checkpoints, and that of the last step."""
    every, number = settings.checkpoint_every, settings.average_checkpoints
    found = find_checkpoints(run)
    return [(step, path) for step, path in found if step == last or (step < last and step % every == 0)][:number]


def read_average(run: Path, asked: list[int]) -> Validation | None:
    """How the average of these checkpoints did, if it was made."""
    try:
        state = load_weights(checkpoint_path(run, "averaged")).state
    except CheckpointError:
        return None
    return read_validation(state["validation"]) if state.get("asked_steps") == asked else None


def try_average(loop: Loop) -> Validation | None:
    """Validates the mean of the last checkpoints' weights and keeps it; None where there is none, or a signal came.

    The weights are taken from the disk of each rank; what is not whole on all of them is left out.
    """
    run = loop.run_path
    loop.watch.enter("averaging")
    asked = to_average(run, loop.settings, loop.progress.step)
    whole = []
    for step, path in asked:
        try:
            load_weights(path)
            whole.append(step)
        except CheckpointError as error:
            loop.events.emit("warning", message=f"left out of the average: {error}")
    loop.watch.wait_for_all()
    on_all = set.intersection(*map(set, loop.world.gather(whole)))
    paths = [path for step, path in asked if step in on_all]
    if len(paths) < 2:
        return None
    weights = average_weights(paths)
    load_weights_into(loop.training.model, weights, "the average")
    validation = loop.validate_weights(f"average of {len(paths)} checkpoints")
    if validation is not None and loop.writer is not None:
        loop.watch.enter("averaging")
        state = {
            "asked_steps": [step for step, _ in asked],
            "of_steps": [step for step, _ in asked if step in on_all],
            "validation": asdict(validation),
            "seconds": loop.progress.seconds,
            "num_target_tokens": loop.progress.num_target_tokens,
            **loop.identity,
        }
        with writing_to(run):
            write_weights(checkpoint_path(run, "averaged"), loop.progress.step, weights, state)
    loop.watch.wait_for_all()
    return validation
