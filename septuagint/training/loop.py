"""The loop: what happens at which step. The arithmetic is in `step`, the wiring in `train`."""

import gc
import itertools
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from septuagint.batch import Microbatch, StepData
from septuagint.config import TrainingConfig
from septuagint.data.dataset import Dataset
from septuagint.data.loader import Loader
from septuagint.data.packing import PackShape, evaluation_packs
from septuagint.errors import UserError
from septuagint.inference.beam import positions_needed
from septuagint.telemetry.events import EventLog
from septuagint.training.agreement import together
from septuagint.training.checkpoint import find_checkpoints
from septuagint.training.checkpoint_writer import CheckpointWriter
from septuagint.training.meter import Meter, StepNumbers, Tally
from septuagint.training.optimizer import learning_rate
from septuagint.training.signals import Signals
from septuagint.training.state import Progress, counters, go_on_plainly, snapshot
from septuagint.training.step import Training, rehearse, train_step
from septuagint.training.synchrony import announce_arrival, check_no_drift, check_same_files
from septuagint.training.timekeeper import Timekeeper
from septuagint.training.validation import (
    Validation,
    best_of,
    measure_share,
    num_without_better,
    put_together,
    read_share,
    translate_share,
    weights_for_translation,
    with_weights,
)
from septuagint.training.watch import Watch

Result = TypeVar("Result")

# So many steps in a row that are not finite will not get better by themselves. fp16 needs about ten to find its scale.
MAX_SKIPPED_IN_A_ROW = 50
# Training pairs whose loss is compared with that of the validation set.
_SAMPLE_PAIRS = 2000


class NotFiniteError(UserError):
    """Too many steps in a row had no finite loss or gradient."""


class _Interrupted(Exception):
    """A signal came while something was measured that can be measured again."""


@dataclass(kw_only=True)
class Loop:
    """One attempt: everything that `run` needs, made by `train`."""

    run_path: Path
    settings: TrainingConfig
    training: Training
    progress: Progress
    dataset: Dataset
    shape: PackShape
    identity: dict[str, Any]
    events: EventLog
    writer: CheckpointWriter | None  # on the ranks that write for their disk
    signals: Signals
    watch: Watch
    timekeeper: Timekeeper
    tick: Callable[[int], None]
    exchange_records: Callable[[], None]

    def __post_init__(self) -> None:
        self.world = self.training.world
        self.received: signal.Signals | None = None
        """The signal that all ranks stop for."""
        self._started = time.monotonic()
        self._seconds_before = self.progress.seconds
        self._first_step = self.progress.step + 1
        self._saved = self._place()
        self._meter = Meter(
            source_budget=self.shape.source_tokens,
            target_budget=self.shape.target_tokens,
            num_packs=self.settings.num_microbatches,
        )
        self._stopwatch = self.timekeeper.stopwatch
        announce_arrival(self.training.objective, lambda: self._stopwatch.lap("communication"))
        sample = self.dataset.training_sample(_SAMPLE_PAIRS, self.settings.seed)
        self._sample_batches = evaluation_packs(*sample, self.shape)
        self._valid_batches: list[Microbatch] = []
        for text in self.dataset.valid:
            self._valid_batches += evaluation_packs(text.source, text.target, self.shape)
        # Now, and not in the midst of validation: what is compiled or recorded has seen the table.
        longest = max(int(text.source.lengths.max(initial=0)) for text in self.dataset.valid)
        self.training.model.grow_positions(positions_needed(longest))

    def run(self) -> str:
        """Trains until there is a reason to stop, and says which. All that counts is on the disk then."""
        check_no_drift(list(self.training.model.parameters()), self.progress.step, self.world)
        with self._open_loader() as loader:
            if self.progress.step:
                self._validate_and_save()  # at the end of the last attempt a signal may have broken it off
            needs_rehearsal = self.world.size > 1 or self.training.is_compiled
            steps = self._rehearsed(loader) if needs_rehearsal else loader
            while (reason := self._why_stop()) is None:
                self._make_step(steps)
                if self._is_due(self.settings.log_every):
                    self._log()
                if self._is_due(self.settings.sample_every):
                    self._show_sample()
                self._validate_and_save()
        self._note(self._meter.flush())
        is_best = reason != "signal" and self._validate()
        if not self._is_validated():
            reason = "signal"
        self._save(is_best=is_best)
        self._finish_writing()
        return reason

    def _rehearsed(self, loader: Loader) -> Iterator[StepData]:
        """The steps of the loader, after one microbatch for nothing.

        It shows whether all machines reach each other, and lays out the buckets of gradients as they stay: they follow
        the order in which gradients come, and the order of additions follows them. A resumed run adds up as one that
        never stopped. What is compiled is compiled now, so that the first step takes no longer than others.
        """
        self.watch.enter("rehearsal", self.progress.step)
        first = next(loader)
        begin = time.monotonic()
        self._or_uncompiled(lambda: rehearse(self.training, first.microbatches[0]))
        self.events.emit("rehearsal", seconds=time.monotonic() - begin, is_compiled=self.training.is_compiled)
        return itertools.chain([first], loader)

    def _open_loader(self) -> Loader:
        return Loader(
            self.dataset.train,
            self.dataset.order(self.settings.seed),
            self.shape,
            num_microbatches=self.settings.num_microbatches,
            start=self.progress.cursor,
            rank=self.world.rank,
            world_size=self.world.size,
            pin_memory=self.world.device.type == "cuda",
        )

    def _why_stop(self) -> str | None:
        """The same on all ranks: what they agreed on in the last step, or what a world of one knows by itself."""
        if self.world.size == 1:
            self.received = self.signals.received
            self.progress.seconds = self._clock()
        return "signal" if self.received is not None else why_finished(self.progress, self.settings)

    def _clock(self) -> float:
        """Seconds of the run so far. Rank 0's counts for all."""
        return self._seconds_before + time.monotonic() - self._started

    def _is_due(self, every: int) -> bool:
        return self.progress.step % every == 0

    def _is_validated(self) -> bool:
        validations = self.progress.validations
        return bool(validations) and validations[-1].step == self.progress.step

    def _make_step(self, steps: Iterator[StepData]) -> None:
        progress = self.progress
        step = progress.step + 1
        self.watch.enter("data", step)
        self._stopwatch.begin_step()
        data = next(steps)
        self._stopwatch.lap("rest")
        tally = Tally.of(data, seconds=self._clock() if self.world.rank == 0 else 0.0, received=self.signals.received)
        result = self._or_uncompiled(
            lambda: train_step(
                self.training, data.microbatches, step, tally=tally, enter=self.watch.enter, lap=self._stopwatch.lap
            )
        )
        self._stopwatch.lap("rest")
        progress.step, progress.cursor, progress.epochs = step, data.next, data.epochs
        self._note(self._meter.add(step, result))
        self.tick(step)
        if step == self._first_step:
            with self.outside("start"):
                gc.collect()
                gc.freeze()  # what is alive now lives as long as the run: no need to look at it again and again

    @contextmanager
    def outside(self, part: str) -> Iterator[None]:
        """Something that is not part of a step: the steps before it are over, on the device too."""
        self._note(self._meter.flush())
        with self._stopwatch.outside(part):
            yield

    def _make_room(self) -> None:
        """Before translating: the GPU's memory may be full of what training keeps."""
        if self.training.recorder is not None:
            self.training.recorder.make_room()

    def _or_uncompiled(self, action: Callable[[], Result]) -> Result:
        """The first thing that runs compiled code may find that it cannot be compiled here."""
        try:
            return action()
        except Exception as error:
            if self.progress.step >= self._first_step or not _is_of_compiler(error):
                raise
            self.events.emit("warning", message=f"compiling failed ({type(error).__name__}); going on without it")
            go_on_plainly(self.training)
            return action()

    def _note(self, arrived: Iterable[StepNumbers]) -> None:
        """What the world's steps came to, as soon as it is known: the same on all ranks."""
        progress = self.progress
        for numbers in arrived:
            tally = numbers.tally
            progress.num_pairs += int(tally.num_pairs)
            progress.num_source_tokens += int(tally.num_source_tokens)
            progress.num_target_tokens += int(tally.num_target_tokens)
            progress.seconds = tally.seconds
            self.received = self.received or tally.received
            if numbers.skipped_in_a_row and self.world.rank == 0:
                self.events.emit(
                    "skipped",
                    step=numbers.step,
                    loss_nats_per_token=numbers.loss,
                    gradient_norm=numbers.gradient_norm,
                    loss_scale=numbers.loss_scale,
                    in_a_row=numbers.skipped_in_a_row,
                )
            if numbers.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
                self._wait_for_disks()  # the last checkpoint may be on its way, and the message names it
                raise self._not_finite(numbers)

    def _not_finite(self, numbers: StepNumbers) -> NotFiniteError:
        saved, precision = find_checkpoints(self.run_path), self.training.precision
        kept = f"the last checkpoint, {saved[0][1]}, is intact" if saved else "no checkpoint had been written yet"
        instead = "" if precision == "fp32" else f', or use training.precision = "fp32" instead of "{precision}"'
        error = NotFiniteError(
            f"the loss or the gradient was not finite in {numbers.skipped_in_a_row} steps in a row, up to step "
            f"{numbers.step:,} (loss {numbers.loss:.3g}, gradient norm {numbers.gradient_norm:.3g}); none of them "
            f"changed the weights, and {kept}. In a new run folder (--run), lower training.learning_rate, or raise "
            f"training.warmup_steps = {self.settings.warmup_steps}{instead}"
        )
        error.is_told = self.world.is_leader
        return error

    def _log(self) -> None:
        with self.outside("logging"):
            self.watch.enter("logging")
            before, step = self.timekeeper.seconds_in_steps, self.progress.step
            split, means = self.timekeeper.take(step)
            fields = self._meter.take(self.timekeeper.seconds_in_steps - before)
            speeds = fields["source_tokens_per_second"], fields["target_tokens_per_second"]
            self.events.emit("steps", **split)
            self.events.emit(
                "train",
                step=step,
                epochs=self.progress.epochs,
                learning_rate=learning_rate(step, self.settings, self.training.model.config.width),
                **fields,
                **means,
                model_flop_utilisation=self.timekeeper.power.utilisation(*speeds),
                eta_seconds=self._eta_seconds(fields["seconds_per_step"]),
            )
            self.exchange_records()
            check_no_drift(list(self.training.model.parameters()), step, self.world)

    def record_last_times(self) -> None:
        """What there was after the last line of the log, with the wait for those who come last."""
        self.watch.enter("logging")
        with self.outside("logging"):
            self.world.gather(None)
        self.events.emit("steps", **self.timekeeper.take(self.progress.step)[0])

    def _eta_seconds(self, seconds_per_step: float) -> float:
        """At the pace of the latest steps, and with the pauses between steps that this attempt has had so far."""
        num_steps = self.progress.step - self._first_step + 1
        pauses = (time.monotonic() - self._started - self.timekeeper.seconds_in_steps) / num_steps
        seconds = (self.settings.max_steps - self.progress.step) * (seconds_per_step + pauses)
        if self.settings.max_hours is not None:
            seconds = min(seconds, self.settings.max_hours * 3600 - self.progress.seconds)
        return max(0.0, seconds)

    def _show_sample(self) -> None:
        """Rank 0 translates; the others wait here, and not in the midst of the next step."""
        with self.outside("sample"):
            self.watch.enter("sample")
            if self.world.rank == 0:
                self._translate_sample()
            self.watch.wait_for_all()

    def _translate_sample(self) -> None:
        self._make_room()
        text = self.dataset.valid[0]
        row = self.progress.step // self.settings.sample_every % len(text.source)
        languages = self.dataset.manifest.languages
        with weights_for_translation(self.training):
            (translation,) = translate_share(self.training, [text.source[row]], self.dataset.vocabulary, languages)
        self.events.emit(
            "sample",
            step=self.progress.step,
            source=text.source_lines[row],
            reference=text.target_lines[row],
            translation=translation,
        )

    def _validate_and_save(self) -> None:
        """Whatever is due."""
        is_best = self._is_due(self.settings.validate_every) and self._validate()
        if is_best or self._is_due(self.settings.checkpoint_every):
            self._save(is_best=is_best)

    def _validate(self) -> bool:
        """Validates, once at each step, unless a signal breaks it off; whether these weights are the best so far."""
        if self._is_validated():
            return False
        with weights_for_translation(self.training) as weights:
            validation = self.validate_weights(weights)
        if validation is None:
            return False
        is_best = self._is_better(validation)
        self.progress.validations.append(validation)
        return is_best

    def _is_better(self, validation: Validation) -> bool:
        """Than all whose weights are on the disk of rank 0."""
        with self.outside("checkpoint"):
            if self.writer is not None:
                self.writer.wait()
            self.watch.wait_for_all()
        metric = self.settings.best_metric
        best = best_of(with_weights(self.run_path, self.progress.validations), metric)
        return bool(self.world.broadcast(best is None or validation.rank(metric) > best.rank(metric)))

    def validate_weights(self, weights: str) -> Validation | None:
        """Measures the model as it is, each rank a part, and records it; None where a signal broke it off."""
        with self.outside("validation"):
            return self._validate_model(weights)

    def _validate_model(self, weights: str) -> Validation | None:
        begin = time.monotonic()
        self.watch.enter("validation")
        self._make_room()
        try:
            share = asdict(
                measure_share(
                    self.training,
                    valid_batches=self._valid_batches,
                    sample_batches=self._sample_batches,
                    sets=self.dataset.valid,
                    vocabulary=self.dataset.vocabulary,
                    languages=self.dataset.manifest.languages,
                    advance=self._break_off_at_signal,
                )
            )
        except _Interrupted:
            share = None
        self.watch.enter("waiting for others to validate")
        self.watch.wait_for_all()
        shares = self.world.gather({"share": share, "received": self.signals.received})
        if any(entry["share"] is None for entry in shares):
            received = max(entry["received"] or 0 for entry in shares)
            self.received = self.received or (signal.Signals(received) if received else None)
            return None
        validation = put_together(
            [read_share(entry["share"]) for entry in shares],
            self.progress.step,
            sets=self.dataset.valid,
            target_language=self.dataset.manifest.target_language,
            weights=weights,
        )
        seconds, is_best = time.monotonic() - begin, self._is_better(validation)
        if self.world.rank == 0:  # what is the same on all ranks stands in one record alone
            self.events.emit("validation", **validation.fields(), seconds=seconds, is_best=is_best)
        self.exchange_records()
        return validation

    def _break_off_at_signal(self, num_sentences: int) -> None:
        if self.signals.received is not None:
            self.watch.received(self.signals.received)
        if self.signals.received is not None or self.watch.has_peer_signal:
            raise _Interrupted

    def _place(self) -> tuple[int, int, str | None]:
        """What a later attempt sees in a checkpoint: a step, with or without its validation, and whether it ends it."""
        progress = self.progress
        return progress.step, len(progress.validations), why_finished(progress, self.settings)

    def _save(self, *, is_best: bool) -> None:
        """Has the state written, unless it already was."""
        with self.outside("checkpoint"):
            self._save_now(is_best=is_best)

    def _save_now(self, *, is_best: bool) -> None:
        self.watch.enter("checkpoint")
        self._wait_for_disks()
        self.progress.seconds = self.world.broadcast(self._clock())
        is_written = self._saved == self._place() and (self.writer is None or self.writer.last_error is None)
        if not self.world.any(not is_written):
            return
        check_no_drift(list(self.training.model.parameters()), self.progress.step, self.world)
        if self.writer is not None:
            state = {**counters(self.training, self.progress), **self.identity}
            weights, others = snapshot(self.training)
            self.writer.save(self.progress.step, weights, others, state, is_best=is_best)
        self._saved = self._place()

    def _wait_for_disks(self) -> None:
        """One copy of the weights is on its way to a disk at a time; what has arrived must be the same everywhere."""
        if self.writer is not None:
            self.writer.wait()
        self.watch.wait_for_all()
        written = self.world.gather(None if self.writer is None else self.writer.last_written)
        check_same_files(written, self.world)

    def _finish_writing(self) -> None:
        """Waits for the last checkpoint. Whoever could not write it says so, and the run has not ended well."""
        with self.outside("checkpoint"):
            self._wait_for_disks()
        together(self.world, self._raise_if_not_written)
        self.exchange_records()

    def _raise_if_not_written(self) -> None:
        if self.writer is not None and self.writer.last_error is not None:
            raise self.writer.last_error


def why_finished(progress: Progress, settings: TrainingConfig) -> str | None:
    """Why there is nothing left to do, or None. Depends on the progress and the settings alone."""
    if progress.step >= settings.max_steps:
        return "max_steps"
    if settings.max_hours is not None and progress.seconds >= settings.max_hours * 3600:
        return "max_hours"
    if (
        settings.patience is not None
        and num_without_better(progress.validations, settings.best_metric) >= settings.patience
    ):
        return "patience"
    return None


def _is_of_compiler(error: Exception) -> bool:
    """Whether it came up in torch's compiler or in Triton: kinds of errors there are many, a missing gcc is one."""
    frames = traceback.walk_tb(error.__traceback__)
    modules = (str(frame.f_globals.get("__name__", "")) for frame, _ in frames)
    return any(module.startswith(("torch._dynamo", "torch._inductor", "triton.")) for module in modules)
