"""A training from its configuration to its end: opens everything, goes on where the run stood, and closes it again."""

import contextlib
import datetime
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from septuagint.config import Config, CostConfig
from septuagint.data.dataset import Dataset, open_dataset
from septuagint.data.packing import pack_shape
from septuagint.errors import CheckpointError, DriftError, LostPeerError, UserError
from septuagint.progress import ProgressReport
from septuagint.telemetry.console import Display
from septuagint.telemetry.events import Event, EventLog, read_events, record_path
from septuagint.telemetry.tensorboard import TensorBoardMirror
from septuagint.training.agreement import check_enough_work, check_same, leaders_first, terms, together
from septuagint.training.best import point_to_best, read_average, to_average, try_average
from septuagint.training.checkpoint import (
    Checkpoint,
    best_path,
    find_checkpoints,
    load_weights,
)
from septuagint.training.checkpoint_writer import CheckpointWriter
from septuagint.training.exchange import (
    Disks,
    RecordExchange,
    find_disks,
    merge_records,
    share_attempts,
    share_checkpoints,
)
from septuagint.training.launcher import Place, share_of_cores
from septuagint.training.loop import Loop, NotFiniteError, why_finished
from septuagint.training.memory import lack_of_memory_explained
from septuagint.training.opening import (
    attempt_fields,
    data_fields,
    open_monitor,
    open_timekeeper,
    record_link,
)
from septuagint.training.precision import device_name
from septuagint.training.rendezvous import join_world
from septuagint.training.retention import check_space, mirror
from septuagint.training.run_folder import RunFolder, check_same_run, identity, open_run
from septuagint.training.setting import Setting
from septuagint.training.signals import Signals
from septuagint.training.state import (
    Progress,
    build_training,
    load_weights_into,
    read_progress,
    restore,
)
from septuagint.training.step import Training
from septuagint.training.synchrony import fingerprint
from septuagint.training.validation import Validation
from septuagint.training.watch import Watch

_LOCK_PATIENCE_SECONDS = 30.0


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
    place: Place | None = None,
    interface: str | None = None,
    num_threads: int | None = None,
    is_quiet: bool = False,
) -> Outcome:
    """Trains, or goes on, until the run is finished or a signal comes. Every rank of a world calls it.

    `place` is what the launcher says; without one, this process is the world.
    """
    place = place or Place(launcher="none")
    timeout = datetime.timedelta(minutes=config.training.timeout_minutes)
    with (
        join_world(place, timeout=timeout, interface=interface) as (world, meeting),
        Watch(world, meeting, timeout.total_seconds()) as watch,
        watch.guarding(),
        contextlib.ExitStack() as stack,
    ):
        share = share_of_cores(world.launcher, world.local_size, os.environ)
        num_threads = num_threads or share
        torch.set_num_threads(num_threads)
        check_same(world, terms(config, world.device, num_threads))
        watch.enter("reading data")
        dataset = leaders_first(world, lambda: _open_dataset(config, is_quiet or world.rank > 0), watch.wait_for_all)
        own = identity(config, dataset.manifest)
        check_same(world, {key: own[key] for key in ("data_fingerprint", "vocabulary_sha256")})
        shape = pack_shape(config.training.microbatch_tokens, dataset.totals())
        check_enough_work(world, config.training, shape)
        disks = find_disks(run_path, world)
        run = together(
            world,
            lambda: _open_run(stack, run_path, config, config_path, overrides, dataset.vocabulary.model, disks, place),
            watch.wait_for_all,
        )
        setting = Setting(
            config=config,
            world=world,
            watch=watch,
            disks=disks,
            dataset=dataset,
            shape=shape,
            run_path=run_path,
            run=run,
            num_threads=num_threads,
            is_quiet=is_quiet,
        )
        outcome = _go_on(setting, world.broadcast(own))
        watch.enter("leaving")
        watch.wait_for_all()
        world.gather(None)  # rank 0 keeps the meeting place: it leaves when all are done
        return outcome


def _open_dataset(config: Config, is_quiet: bool) -> Dataset:
    with ProgressReport(is_quiet=is_quiet) as report:
        return open_dataset(config.data, report)


def _open_run(
    stack: contextlib.ExitStack,
    path: Path,
    config: Config,
    config_path: Path,
    overrides: Sequence[str],
    vocabulary: bytes,
    disks: Disks,
    place: Place,
) -> RunFolder | None:
    """The run folder, on the ranks that write for their disk."""
    if not disks.is_owner:
        return None
    # Ranks of an attempt that has just lost its launcher may still be saving.
    patience_seconds = 0.0 if place.launcher == "none" else _LOCK_PATIENCE_SECONDS
    return stack.enter_context(
        open_run(
            path,
            config,
            config_path=config_path,
            vocabulary=vocabulary,
            overrides=overrides,
            patience_seconds=patience_seconds,
        )
    )


def _go_on(setting: Setting, own: dict[str, Any]) -> Outcome:
    """From the newest checkpoint that any disk has, or from the beginning, to the end."""
    run_path, world = setting.run_path, setting.world
    setting.watch.enter("sharing checkpoints")
    checkpoint, problems = share_checkpoints(run_path, setting.disks, world, setting.watch.wait_for_all)
    share_attempts(setting.run, setting.disks, world)
    merge_records(run_path, setting.disks, world)
    if checkpoint is None:
        together(world, lambda: _check_is_new(run_path, problems) if setting.disks.is_owner else None)
    else:
        state = checkpoint.state
        together(world, lambda: check_same_run(state, own))
        finished = _finished(setting, checkpoint)
        if all(world.gather(finished is not None)):
            assert finished is not None
            _mirror(setting)
            return finished
    return _attempt(setting, checkpoint, problems, own)


def _check_is_new(run: Path, problems: Sequence[str]) -> None:
    """Refuses to begin anew where a run has come a long way: its last good weights would be overwritten."""
    if find_checkpoints(run):
        raise CheckpointError(
            f"{run}: this run has checkpoints, but none that it can go on from:\n"
            + "".join(f"  {problem}\n" for problem in problems or ["weights alone are left, for training.init_from"])
            + "put one back from a copy, or choose another folder with --run"
        )
    has_best = best_path(run) is not None
    if has_best or _has_saved(run):
        start = f', and begin there with its best weights: training.init_from = "{run.absolute()}"' if has_best else ""
        raise CheckpointError(
            f"{run}: this run has written checkpoints, but none is here: it is a mirror, or they were removed; put "
            f"them back from a copy, or choose another folder with --run{start}"
        )


def _has_saved(run: Path) -> bool:
    """Whether the record tells of a checkpoint: a run that was killed before its first one begins again."""
    records = sorted((run / "events").glob("*.jsonl"))
    return any(event["event"] == "checkpoint" for path in records for event in read_events(path))


def _finished(setting: Setting, checkpoint: Checkpoint) -> Outcome | None:
    """The outcome of a run that has nothing left to do."""
    run, config = setting.run_path, setting.config
    progress = read_progress(checkpoint.state)
    reason = why_finished(progress, config.training)
    if reason is None or not progress.validations or progress.validations[-1].step != progress.step:
        return None
    asked = [step for step, _ in to_average(run, config.training, progress.step)]
    averaged = read_average(run, asked)
    if averaged is None and len(asked) > 1:
        return None
    best = _point_to_best(setting, [*progress.validations, *filter(None, [averaged])])
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
    setting: Setting, checkpoint: Checkpoint | None, passed_over: Sequence[str], own: dict[str, Any]
) -> Outcome:
    config, world, run_path = setting.config, setting.world, setting.run_path
    setting.watch.enter("building the network")
    with lack_of_memory_explained(config.training, setting.shape, world.device):
        training, progress = _begin(setting, checkpoint, own)
    best = _point_to_best(setting, progress.validations)
    together(world, lambda: check_space(run_path, _checkpoint_bytes(training)) if setting.disks.is_owner else None)
    attempts = _begin_attempt(setting, training, progress)
    setting.watch.dump_into(run_path, len(attempts))
    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(Signals(is_launched=world.launcher != "none"))
        display, sinks = _open_display(stack, setting, progress.step)
        records = RecordExchange(run_path, setting.disks, world, sinks, display.warn)
        stack.callback(records.close)
        path = record_path(run_path, world.rank)
        events = stack.enter_context(EventLog(path, len(attempts), [*sinks, records.note], warn=display.warn))
        timekeeper, peak = open_timekeeper(stack, setting, training)
        events.emit("attempt", **attempt_fields(setting, training, progress, timekeeper, peak))
        if world.rank == 0:
            events.emit("data", **data_fields(setting))
        for problem in passed_over:
            events.emit("warning", message=f"{problem}; passed over, going on from step {progress.step:,}")
        if world.rank == 0:
            _warn_at_start(attempts, setting, training, events)
        record_link(setting, events)
        writer = None
        if setting.disks.is_owner:
            writer = stack.enter_context(_open_writer(setting, checkpoint, best, events))
        loop = Loop(
            run_path=run_path,
            settings=config.training,
            training=training,
            progress=progress,
            dataset=setting.dataset,
            shape=setting.shape,
            identity=own,
            events=events,
            writer=writer,
            signals=signals,
            watch=setting.watch,
            timekeeper=timekeeper,
            tick=display.tick,
            exchange_records=records.exchange,
        )
        with open_monitor(setting, progress, events):  # its last look is exchanged, too
            reason, best = _run(setting, loop)
            loop.record_last_times()
        events.emit("stop", step=progress.step, reason=reason, hours=progress.seconds / 3600)
        records.exchange()
    if setting.run is not None:
        setting.run.end_attempt(end_step=progress.step, outcome=reason)
    _mirror(setting)  # the last lines of the record, too
    return Outcome(
        run=run_path,
        reason=reason,
        received=loop.received,
        progress=progress,
        best=best,
        cost=_cost(config.cost, progress),
        was_finished=False,
    )


def _begin_attempt(setting: Setting, training: Training, progress: Progress) -> list[dict[str, Any]]:
    """Every disk records the attempt; all attempts so far."""
    world = setting.world
    ranks = world.gather([device_name(world.device), setting.num_threads])
    if setting.run is not None and world.rank == 0:
        setting.run.begin_attempt(
            world_size=world.size,
            start_step=progress.step,
            launcher=world.launcher,
            hostnames=list(dict.fromkeys(world.hosts)),
            device_names=[name for name, _ in ranks],
            num_threads=setting.num_threads,
            precision=training.precision,
        )
    attempts: list[dict[str, Any]] = world.broadcast(None if setting.run is None else setting.run.attempts)
    if setting.run is not None and world.rank > 0:
        setting.run.adopt(attempts, is_begun=True)
    return attempts


def _open_display(
    stack: contextlib.ExitStack, setting: Setting, start_step: int
) -> tuple[Display, list[Callable[[Event], None]]]:
    """What people see is rank 0's to show; the others only say aloud what they cannot write down."""
    if setting.world.rank > 0:
        return Display(is_quiet=True), []
    display = stack.enter_context(Display(setting.run_path / "log.txt", is_quiet=setting.is_quiet))
    tensorboard = stack.enter_context(TensorBoardMirror(setting.run_path / "tensorboard", start_step, display.warn))
    return display, [display.show, tensorboard.write]


def _cost(cost: CostConfig, progress: Progress) -> float | None:
    return None if cost.price_per_hour is None else cost.price_per_hour * progress.seconds / 3600


def _begin(setting: Setting, checkpoint: Checkpoint | None, own: dict[str, Any]) -> tuple[Training, Progress]:
    """The training as the checkpoint left it, or as it is before its first step."""
    config = setting.config
    training = build_training(config, setting.dataset.vocabulary.size, setting.shape.max_length, setting.world)
    # "auto" depends on the device.
    check_same(setting.world, {"training.precision": training.precision, "the device": setting.world.device.type})
    progress = Progress() if checkpoint is None else restore(training, checkpoint)
    if checkpoint is None and (start := config.training.init_from) is not None:
        together(setting.world, lambda: _start_from(training, start, own))
        weights = fingerprint(list(training.model.parameters()))
        check_same(setting.world, {"the checksum of the weights in training.init_from": weights})
    return training, progress


def _open_writer(
    setting: Setting, checkpoint: Checkpoint | None, best: Validation | None, events: EventLog
) -> CheckpointWriter:
    run, settings = setting.run_path, setting.config.training
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
            files=saved.files,
            path=str(saved.path.relative_to(run)),
        ),
        on_failure=lambda message: events.emit("warning", message=message),
        mirror_folder=settings.mirror if setting.world.rank == 0 else None,
    )


def _run(setting: Setting, loop: Loop) -> tuple[str, Validation | None]:
    """(why it stopped, the best validation). An error is on record before it goes further."""
    progress = loop.progress
    try:
        with (
            setting.watch.guarding(),
            lack_of_memory_explained(setting.config.training, setting.shape, setting.world.device),
        ):
            reason = loop.run()
            with loop.outside("validation"):
                averaged = None if reason == "signal" else try_average(loop)
        best = _point_to_best(setting, [*progress.validations, *filter(None, [averaged])])
    except (UserError, LostPeerError, DriftError) as error:
        causes: dict[type[Exception], str] = {
            NotFiniteError: "not_finite",
            LostPeerError: "lost_peer",
            DriftError: "drift",
        }
        cause = next((cause for kind, cause in causes.items() if isinstance(error, kind)), "error")
        loop.events.emit("stop", step=progress.step, reason=cause, hours=progress.seconds / 3600)
        raise
    return "signal" if loop.received is not None else reason, best


def _mirror(setting: Setting) -> None:
    target = setting.config.training.mirror
    if setting.world.rank == 0 and target is not None and (warning := mirror(setting.run_path, target)):
        ProgressReport().warn(warning)


def _point_to_best(setting: Setting, validations: Sequence[Validation]) -> Validation | None:
    settings, is_owner = setting.config.training, setting.disks.is_owner
    return point_to_best(setting.run_path, validations, settings, is_owner=is_owner)


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


def _warn_at_start(attempts: Sequence[dict[str, Any]], setting: Setting, training: Training, events: EventLog) -> None:
    """What may differ from the attempt before, and has a say in the last digits; and what makes losing hosts worse."""
    if len(set(setting.world.hosts)) > 1 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        events.emit(
            "warning",
            message="a host that is lost could not come back to this run: start torchrun with "
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment, on all hosts",
        )
    if len(attempts) < 2:
        return
    before, device = attempts[-2], setting.world.device
    if before.get("precision") != training.precision:
        events.emit(
            "warning",
            message=f"this attempt computes in {training.precision}, the last one in {before.get('precision')}: the "
            "device is another; set training.precision in a run that is to move between devices",
        )
    for key, now, what in (
        ("world_size", setting.world.size, "rank"),
        ("num_threads", setting.num_threads, "thread"),
    ):
        if before.get(key) != now and (key == "world_size" or device.type == "cpu"):
            events.emit(
                "warning",
                message=f"this attempt has {now} {what}{'s' * (now != 1)}, the last one had {before.get(key)}: the "
                "result will differ in its last digits from that of a run with the same number throughout",
            )


def _checkpoint_bytes(training: Training) -> int:
    weights = sum(parameter.nbytes for parameter in training.model.parameters())
    return weights * (3 if training.average is None else 4)
