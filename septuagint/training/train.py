"""A training from its configuration to its end: opens everything, goes on where the run stood, and closes it again."""

import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from septuagint.config import Config
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.packing import PackShape, pack_shape
from septuagint.data.workers import available_cores
from septuagint.errors import CheckpointError, UserError
from septuagint.progress import ProgressReport
from septuagint.telemetry.console import Display
from septuagint.telemetry.events import EventLog, record_path
from septuagint.telemetry.tensorboard import TensorBoardMirror
from septuagint.training.checkpoint import (
    Checkpoint,
    average_weights,
    find_checkpoints,
    load_weights,
    newest_valid,
    point_best,
    write_weights,
)
from septuagint.training.checkpoint_writer import CheckpointWriter
from septuagint.training.loop import Loop, why_finished
from septuagint.training.optimizer import describe_learning_rate
from septuagint.training.precision import choose_device
from septuagint.training.retention import check_space, mirror
from septuagint.training.run_folder import RunFolder, check_same_run, identity, open_run
from septuagint.training.signals import Signals
from septuagint.training.state import (
    Progress,
    build_training,
    compile_forward,
    load_weights_into,
    read_progress,
    read_validation,
    restore,
    should_compile,
)
from septuagint.training.step import Training
from septuagint.training.validation import Validation, best_of
from septuagint.world import World


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a training ended. `was_finished`: there was nothing left to do."""

    run: Path
    reason: str
    received: signal.Signals | None
    progress: Progress
    best: Validation | None
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
        for problem in problems:
            report.warn(problem)
        own = identity(config, dataset.manifest)
        if checkpoint is not None:
            check_same_run(checkpoint.state, own)
            if (finished := _finished(run.path, config, checkpoint)) is not None:
                return finished
        return _attempt(run, config, dataset, shape, checkpoint, own, is_quiet=is_quiet)


def _finished(run: Path, config: Config, checkpoint: Checkpoint) -> Outcome | None:
    """The outcome of a run that has nothing left to do."""
    progress = read_progress(checkpoint.state)
    reason = why_finished(progress, config.training)
    if reason is None or not progress.validations or progress.validations[-1].step != progress.step:
        return None
    averaged = _read_average(run, progress.step)
    if averaged is None and len(_to_average(run, config, progress.step)) > 1:
        return None
    return Outcome(
        run=run,
        reason=reason,
        received=None,
        progress=progress,
        best=best_of([*progress.validations, *filter(None, [averaged])], config.training.best_metric),
        was_finished=True,
    )


def _attempt(
    run: RunFolder,
    config: Config,
    dataset: Dataset,
    shape: PackShape,
    checkpoint: Checkpoint | None,
    own: dict[str, Any],
    *,
    is_quiet: bool,
) -> Outcome:
    world = World(device=choose_device())
    num_threads = _set_threads()
    training = build_training(config, dataset.vocabulary.size, shape.max_length, world.device)
    progress = Progress() if checkpoint is None else restore(training, checkpoint)
    if checkpoint is None and config.training.init_from is not None:
        _start_from(training, config.training.init_from, own)
    check_space(run.path, _checkpoint_bytes(training))
    is_compiled = should_compile(config.training.compile, world.device)
    if is_compiled:
        compile_forward(training)
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
        best = best_of(progress.validations, "bleu")
        events.emit(
            "attempt",
            start_step=progress.step,
            max_steps=config.training.max_steps,
            device=_device_name(world.device),
            precision=training.precision,
            attention=training.backend,
            is_compiled=is_compiled,
            num_parameters=sum(parameter.numel() for parameter in training.model.parameters()),
            num_threads=num_threads,
            world_size=world.size,
            learning_rate=describe_learning_rate(config.training, config.model.width),
            source_budget=shape.source_tokens,
            target_budget=shape.target_tokens,
            num_microbatches=config.training.num_microbatches,
            num_train_pairs=dataset.totals().num_pairs,
            best_bleu=None if best is None else best.scores.bleu,
        )
        _warn_of_other_threads(run, num_threads, world.device, events)
        with CheckpointWriter(
            run.path,
            resumed_step=None if checkpoint is None else checkpoint.step,
            on_saved=lambda saved: events.emit(
                "checkpoint",
                step=saved.step,
                seconds=saved.seconds,
                bytes=saved.bytes,
                path=str(saved.path.relative_to(run.path)),
            ),
            on_failure=lambda message: events.emit("warning", message=message),
            mirror_folder=config.training.mirror,
        ) as writer:
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
            try:
                reason = loop.run()
                best = best_of(progress.validations, config.training.best_metric)
                if reason != "signal":
                    best = _try_average(run.path, config, loop, best)
            except UserError:
                events.emit("stop", step=progress.step, reason="error", hours=progress.seconds / 3600)
                raise
        events.emit("stop", step=progress.step, reason=reason, hours=progress.seconds / 3600)
    run.end_attempt(end_step=progress.step, outcome=reason)
    if config.training.mirror is not None:
        mirror(run.path, config.training.mirror)  # the last lines of the record, too
    return Outcome(
        run=run.path, reason=reason, received=signals.received, progress=progress, best=best, was_finished=False
    )


def _try_average(run: Path, config: Config, loop: Loop, best: Validation | None) -> Validation | None:
    """Validates the mean of the last checkpoints' weights, keeps it, and calls it the best if it is."""
    steps = _to_average(run, config, loop.progress.step)
    if len(steps) < 2:
        return best
    try:
        weights = average_weights([path for _, path in steps])
    except CheckpointError as error:
        loop.events.emit("warning", message=f"the last checkpoints were not averaged: {error}")
        return best
    load_weights_into(loop.training.model, weights, "the average")
    validation = loop.validate_weights(f"average of {len(steps)} checkpoints")
    if validation is None:
        return best
    folder = run / "checkpoints" / "averaged"
    state = {"of_steps": [step for step, _ in steps], "validation": asdict(validation), **loop.identity}
    write_weights(folder, loop.progress.step, weights, state)
    if not loop.is_better(validation):
        return best
    point_best(run, "averaged")
    return validation


def _to_average(run: Path, config: Config, step: int) -> list[tuple[int, Path]]:
    return [found for found in find_checkpoints(run) if found[0] <= step][: config.training.average_checkpoints]


def _read_average(run: Path, step: int) -> Validation | None:
    """How the average of the run's last checkpoints did, if it was made at this step."""
    try:
        state = load_weights(run / "checkpoints" / "averaged").state
    except CheckpointError:
        return None
    return read_validation(state["validation"]) if state["step"] == step else None


def _start_from(training: Training, path: Path, own: dict[str, Any]) -> None:
    """New training, old weights."""
    start = load_weights(path)
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


def _warn_of_other_threads(run: RunFolder, num_threads: int, device: torch.device, events: EventLog) -> None:
    before = {attempt.get("num_threads") for attempt in run.attempts} - {num_threads}
    if device.type == "cpu" and before:
        events.emit(
            "warning",
            message=f"this attempt has {num_threads} threads, an earlier one had {min(filter(None, before))}: the "
            "result will differ in its last digits from that of a run with the same number throughout",
        )


def _checkpoint_bytes(training: Training) -> int:
    weights = sum(parameter.nbytes for parameter in training.model.parameters())
    return weights * (3 if training.average is None else 4)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
