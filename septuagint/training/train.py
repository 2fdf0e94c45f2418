"""A training from its configuration to its end: opens everything, goes on where the run stood, and closes it again."""

import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from septuagint.config import Config, CostConfig, TrainingConfig
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.packing import PackShape, pack_shape
from septuagint.data.workers import available_cores
from septuagint.errors import CheckpointError, UserError, writing_to
from septuagint.progress import ProgressReport
from septuagint.telemetry.console import Display
from septuagint.telemetry.events import EventLog, record_path
from septuagint.telemetry.tensorboard import TensorBoardMirror
from septuagint.training.checkpoint import (
    Checkpoint,
    average_weights,
    best_path,
    checkpoint_path,
    find_checkpoints,
    load_weights,
    newest_valid,
    point_best,
    write_weights,
)
from septuagint.training.checkpoint_writer import CheckpointWriter
from septuagint.training.loop import Loop, NotFiniteError, why_finished
from septuagint.training.memory import lack_of_memory_explained
from septuagint.training.optimizer import describe_learning_rate
from septuagint.training.precision import choose_device
from septuagint.training.retention import check_space, mirror
from septuagint.training.run_folder import RunFolder, check_same_run, identity, open_run
from septuagint.training.signals import Signals
from septuagint.training.state import (
    Progress,
    build_training,
    load_weights_into,
    read_progress,
    read_validation,
    restore,
)
from septuagint.training.step import Training
from septuagint.training.validation import Validation, best_of, weights_path, with_weights
from septuagint.world import World


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a training ended. `was_finished`: there was nothing left to do."""

    run: Path
    reason: str
    received: signal.Signals | None
    progress: Progress
    best: Validation | None
    cost: float | None  # of the hours so far, in the configuration's currency
    was_finished: bool


def train(
    config: Config,
    *,
    config_path: Path,
    run_path: Path,
    overrides: Sequence[str] = (),
    is_quiet: bool = False,
) -> Outcome:
    """Trains, or goes on, until the run is finished or a signal comes."""
    with ProgressReport(is_quiet=is_quiet) as report:
        dataset = open_dataset(config.data, report)
    shape = pack_shape(config.training.microbatch_tokens, dataset.totals())
    with open_run(run_path, config, config_path=config_path, overrides=overrides) as run:
        checkpoint, problems = newest_valid(run.path)
        own = identity(config, dataset.manifest)
        if checkpoint is None:
            _check_is_new(run.path, problems)
        else:
            check_same_run(checkpoint.state, own)
            if (finished := _finished(run.path, config, checkpoint)) is not None:
                _mirror(run.path, config.training)
                return finished
        return _attempt(run, config, dataset, shape, checkpoint, problems, own, is_quiet=is_quiet)


def _check_is_new(run: Path, problems: Sequence[str]) -> None:
    """Refuses to begin anew where a run has come a long way: its last good weights would be overwritten."""
    if find_checkpoints(run):
        raise CheckpointError(
            f"{run}: this run has checkpoints, but none that it can go on from:\n"
            + "".join(f"  {problem}\n" for problem in problems or ["weights alone are left, for training.init_from"])
            + "put one back from a copy, or choose another folder with --run"
        )


def _finished(run: Path, config: Config, checkpoint: Checkpoint) -> Outcome | None:
    """The outcome of a run that has nothing left to do."""
    progress = read_progress(checkpoint.state)
    reason = why_finished(progress, config.training)
    if reason is None or not progress.validations or progress.validations[-1].step != progress.step:
        return None
    asked = [step for step, _ in _to_average(run, config, progress.step)]
    averaged = _read_average(run, asked)
    if averaged is None and len(asked) > 1:
        return None
    best = _point_to_best(run, [*progress.validations, *filter(None, [averaged])], config)
    return Outcome(
        run=run,
        reason=reason,
        received=None,
        progress=progress,
        best=best,
        cost=_cost(config.cost, progress),
        was_finished=True,
    )


def _attempt(
    run: RunFolder,
    config: Config,
    dataset: Dataset,
    shape: PackShape,
    checkpoint: Checkpoint | None,
    passed_over: Sequence[str],
    own: dict[str, Any],
    *,
    is_quiet: bool,
) -> Outcome:
    world, num_threads = World(device=choose_device()), _set_threads()
    with lack_of_memory_explained(config.training, shape, world.device):
        training, progress = _begin(config, dataset, shape, checkpoint, world, own)
    best = _point_to_best(run.path, progress.validations, config)
    check_space(run.path, _checkpoint_bytes(training))
    number = run.begin_attempt(
        world_size=world.size,
        start_step=progress.step,
        launcher="none",
        hostnames=[socket.gethostname()],
        device_names=[_device_name(world.device)],
        num_threads=num_threads,
        precision=training.precision,
    )
    with (
        Signals() as signals,
        Display(run.path / "log.txt", is_quiet=is_quiet) as display,
        TensorBoardMirror(run.path / "tensorboard", progress.step, display.warn) as tensorboard,
        EventLog(
            record_path(run.path, world.rank), number, [display.show, tensorboard.write], warn=display.warn
        ) as events,
    ):
        events.emit("attempt", **_attempt_fields(config, dataset, shape, training, progress, world))
        for problem in passed_over:
            events.emit("warning", message=f"{problem}; passed over, going on from step {progress.step:,}")
        _warn_of_differences(run, num_threads, training, events)
        with _open_writer(run.path, config.training, checkpoint, best, events) as writer:
            loop = Loop(
                run_path=run.path,
                settings=config.training,
                training=training,
                progress=progress,
                dataset=dataset,
                shape=shape,
                identity=own,
                events=events,
                writer=writer,
                signals=signals,
                tick=display.tick,
                world=world,
            )
            reason, best = _run(run.path, config, loop)
        events.emit("stop", step=progress.step, reason=reason, hours=progress.seconds / 3600)
    run.end_attempt(end_step=progress.step, outcome=reason)
    _mirror(run.path, config.training)  # the last lines of the record, too
    return Outcome(
        run=run.path,
        reason=reason,
        received=signals.received,
        progress=progress,
        best=best,
        cost=_cost(config.cost, progress),
        was_finished=False,
    )


def _cost(cost: CostConfig, progress: Progress) -> float | None:
    return None if cost.price_per_hour is None else cost.price_per_hour * progress.seconds / 3600


def _begin(
    config: Config, dataset: Dataset, shape: PackShape, checkpoint: Checkpoint | None, world: World, own: dict[str, Any]
) -> tuple[Training, Progress]:
    """The training as the checkpoint left it, or as it is before its first step."""
    training = build_training(config, dataset.vocabulary.size, shape.max_length, world.device)
    progress = Progress() if checkpoint is None else restore(training, checkpoint)
    if checkpoint is None and config.training.init_from is not None:
        _start_from(training, config.training.init_from, own)
    return training, progress


def _attempt_fields(
    config: Config, dataset: Dataset, shape: PackShape, training: Training, progress: Progress, world: World
) -> dict[str, Any]:
    """What the record says first."""
    best = best_of(progress.validations, "bleu")
    return {
        "start_step": progress.step,
        "max_steps": config.training.max_steps,
        "device": _device_name(world.device),
        "precision": training.precision,
        "attention": training.backend,
        "is_compiled": training.is_compiled,
        "num_parameters": sum(parameter.numel() for parameter in training.model.parameters()),
        "num_threads": torch.get_num_threads(),
        "world_size": world.size,
        "learning_rate": describe_learning_rate(config.training, config.model.width),
        "source_budget": shape.source_tokens,
        "target_budget": shape.target_tokens,
        "num_microbatches": config.training.num_microbatches,
        "num_train_pairs": dataset.totals().num_pairs,
        "best_bleu": None if best is None else best.scores.bleu,
    }


def _open_writer(
    run: Path, settings: TrainingConfig, checkpoint: Checkpoint | None, best: Validation | None, events: EventLog
) -> CheckpointWriter:
    return CheckpointWriter(
        run,
        every=settings.checkpoint_every,
        resumed_step=None if checkpoint is None else checkpoint.step,
        best_step=None if best is None else best.step,
        on_saved=lambda saved: events.emit(
            "checkpoint",
            step=saved.step,
            seconds=saved.seconds,
            bytes=saved.bytes,
            path=str(saved.path.relative_to(run)),
        ),
        on_failure=lambda message: events.emit("warning", message=message),
        mirror_folder=settings.mirror,
    )


def _run(run: Path, config: Config, loop: Loop) -> tuple[str, Validation | None]:
    """(why it stopped, the best validation). An error is on record before it goes further."""
    progress = loop.progress
    try:
        with lack_of_memory_explained(config.training, loop.shape, loop.world.device):
            reason = loop.run()
            averaged = None if reason == "signal" else _try_average(run, config, loop)
        best = _point_to_best(run, [*progress.validations, *filter(None, [averaged])], config)
    except UserError as error:
        cause = "not_finite" if isinstance(error, NotFiniteError) else "error"
        loop.events.emit("stop", step=progress.step, reason=cause, hours=progress.seconds / 3600)
        raise
    return "signal" if loop.signals.received is not None else reason, best


def _mirror(run: Path, settings: TrainingConfig) -> None:
    if settings.mirror is not None and (warning := mirror(run, settings.mirror)):
        ProgressReport().warn(warning)


def _try_average(run: Path, config: Config, loop: Loop) -> Validation | None:
    """Validates the mean of the last checkpoints' weights and keeps it; None where there is none, or a signal came."""
    asked = _to_average(run, config, loop.progress.step)
    steps = []
    for step, path in asked:
        try:
            load_weights(path)
            steps.append((step, path))
        except CheckpointError as error:
            loop.events.emit("warning", message=f"left out of the average: {error}")
    if len(steps) < 2:
        return None
    weights = average_weights([path for _, path in steps])
    load_weights_into(loop.training.model, weights, "the average")
    validation = loop.validate_weights(f"average of {len(steps)} checkpoints")
    if validation is not None:
        state = {
            "asked_steps": [step for step, _ in asked],
            "of_steps": [step for step, _ in steps],
            "validation": asdict(validation),
            **loop.identity,
        }
        with writing_to(run):
            write_weights(checkpoint_path(run, "averaged"), loop.progress.step, weights, state)
    return validation


def _point_to_best(run: Path, validations: Sequence[Validation], config: Config) -> Validation | None:
    """The best validation; the link `best` is made to agree with it.

    A kill between a checkpoint and its link leaves the old one, and a run that goes on leaves its average behind. Where
    the disk knows no links, or has no space for one, that has been said when the checkpoint was written.
    """
    best = best_of(with_weights(run, validations), config.training.best_metric)
    if best is not None and best_path(run) != weights_path(run, best):
        with contextlib.suppress(OSError):
            point_best(run, "averaged" if best.is_average else best.step)
    return best


def _to_average(run: Path, config: Config, last: int) -> list[tuple[int, Path]]:
    """The last regular checkpoints, and that of the last step."""
    every, number = config.training.checkpoint_every, config.training.average_checkpoints
    found = find_checkpoints(run)
    return [(step, path) for step, path in found if step == last or (step < last and step % every == 0)][:number]


def _read_average(run: Path, asked: list[int]) -> Validation | None:
    """How the average of these checkpoints did, if it was made."""
    try:
        state = load_weights(checkpoint_path(run, "averaged")).state
    except CheckpointError:
        return None
    return read_validation(state["validation"]) if state.get("asked_steps") == asked else None


def _start_from(training: Training, path: Path, own: dict[str, Any]) -> None:
    """New training, old weights."""
    try:
        start = load_weights(path)
    except CheckpointError as error:
        raise CheckpointError(f"training.init_from: {error}") from error
    if start.state.get("vocabulary_sha256", own["vocabulary_sha256"]) != own["vocabulary_sha256"]:
        raise CheckpointError(
            f"training.init_from = {path}: its vocabulary is not that of the data folder; prepare the text with "
            "vocabulary.model set to the vocabulary it was trained with"
        )
    load_weights_into(training.model, start.weights, f"training.init_from = {path}")
    if training.average is not None:
        for name, parameter in training.model.named_parameters():
            training.average[name].copy_(parameter.detach())


def _set_threads() -> int:
    """As many as there are cores to use, or as the user says. Results on a CPU depend on it in their last digits."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    num_threads = int(wanted) if wanted.isdecimal() and int(wanted) > 0 else available_cores()
    torch.set_num_threads(num_threads)
    return num_threads


def _warn_of_differences(run: RunFolder, num_threads: int, training: Training, events: EventLog) -> None:
    """What may differ from the attempt before, and has a say in the last digits."""
    if len(run.attempts) < 2:
        return
    before = run.attempts[-2]
    if before.get("precision") != training.precision:
        events.emit(
            "warning",
            message=f"this attempt computes in {training.precision}, the last one in {before.get('precision')}: the "
            "device is another; set training.precision in a run that is to move between devices",
        )
    if training.skipped_steps.device.type == "cpu" and before.get("num_threads") != num_threads:
        events.emit(
            "warning",
            message=f"this attempt has {num_threads} threads, the last one had {before.get('num_threads')}: the result "
            "will differ in its last digits from that of a run with the same number throughout",
        )


def _checkpoint_bytes(training: Training) -> int:
    weights = sum(parameter.nbytes for parameter in training.model.parameters())
    return weights * (3 if training.average is None else 4)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
