"""The loop: what happens at which step. The arithmetic is in `step`, the wiring in `train`."""

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septuagint.batch import Microbatch, StepData
from septuagint.config import TrainingConfig
from septuagint.data.dataset import Dataset
from septuagint.data.loader import Loader
from septuagint.data.packing import PackShape, evaluation_packs
from septuagint.errors import UserError
from septuagint.inference.greedy import length_limit, translate_greedily
from septuagint.telemetry.events import EventLog
from septuagint.training.checkpoint import find_checkpoints
from septuagint.training.checkpoint_writer import CheckpointWriter
from septuagint.training.meter import Meter, StepNumbers
from septuagint.training.optimizer import learning_rate
from septuagint.training.precision import DTYPES
from septuagint.training.signals import Signals
from septuagint.training.state import Progress, counters, snapshot
from septuagint.training.step import StepResult, Training, make_forward, train_step
from septuagint.training.validation import (
    Validation,
    best_of,
    num_without_better,
    validate,
    weights_for_translation,
    with_weights,
)
from septuagint.world import World

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
    writer: CheckpointWriter
    signals: Signals
    tick: Callable[[int], None]
    world: World

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._seconds_before = self.progress.seconds
        self._first_step = self.progress.step + 1
        self._seconds_in_steps = 0.0
        self._saved = self._place()
        self._meter = Meter(source_budget=self.shape.source_tokens, target_budget=self.shape.target_tokens)
        sample = self.dataset.training_sample(_SAMPLE_PAIRS, self.settings.seed)
        self._sample_batches = evaluation_packs(*sample, self.shape)
        self._valid_batches: list[Microbatch] = []
        for text in self.dataset.valid:
            self._valid_batches += evaluation_packs(text.source, text.target, self.shape)
        # Now, and not in the midst of decoding: what is compiled has seen the table, and would be compiled again.
        longest = max(int(text.source.lengths.max(initial=0)) for text in self.dataset.valid)
        self.training.model.grow_positions(max(longest, length_limit(longest)))

    def run(self) -> str:
        """Trains until there is a reason to stop, and says which. All that counts is on the disk then."""
        with self._open_loader() as loader:
            if self.progress.step:
                self._validate_and_save()  # at the end of the last attempt a signal may have broken it off
            while (reason := self._why_stop()) is None:
                self._make_step(loader)
                if self._is_due(self.settings.log_every):
                    self._log()
                if self._is_due(self.settings.sample_every):
                    self._show_sample()
                self._validate_and_save()
        self._watch(self._meter.flush())
        is_best = reason != "signal" and self._validate()
        if not self._is_validated():
            reason = "signal"
        self._save(is_best=is_best)
        self.writer.wait()
        if self.writer.last_error is not None:
            raise self.writer.last_error
        return reason

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
        if self.signals.received is not None:
            return "signal"
        self._take_time()
        return why_finished(self.progress, self.settings)

    def _take_time(self) -> None:
        self.progress.seconds = self._seconds_before + time.monotonic() - self._started

    def _is_due(self, every: int) -> bool:
        return self.progress.step % every == 0

    def _is_validated(self) -> bool:
        validations = self.progress.validations
        return bool(validations) and validations[-1].step == self.progress.step

    def _make_step(self, loader: Loader) -> None:
        progress, begin = self.progress, time.monotonic()
        data = next(loader)
        data_wait_seconds = time.monotonic() - begin
        step = progress.step + 1
        result = self._step_or_uncompiled(data, step)
        progress.step, progress.cursor, progress.epochs = step, data.next, data.epochs
        for microbatch in data.microbatches:
            progress.num_pairs += microbatch.num_pairs
            progress.num_source_tokens += microbatch.num_source_tokens
            progress.num_target_tokens += microbatch.num_target_tokens
        if step == self._first_step:
            gc.collect()
            gc.freeze()  # what is alive now lives as long as the run: no need to look at it again and again
        self._watch(self._meter.add(step, result, data, data_wait_seconds=data_wait_seconds))
        self._spend(time.monotonic() - begin)
        self.tick(step)

    def _spend(self, seconds: float) -> None:
        self._seconds_in_steps += seconds
        self._meter.spend(seconds)

    def _step_or_uncompiled(self, data: StepData, step: int) -> StepResult:
        try:
            return train_step(self.training, data.microbatches, step)
        except Exception as error:
            origin = type(error).__module__
            if step != self._first_step or not origin.startswith(("torch._dynamo", "torch._inductor")):
                raise
            self.events.emit("warning", message=f"torch.compile failed ({type(error).__name__}); going on without it")
            self.training.forward = make_forward(
                self.training.model, self.settings.label_smoothing, self.training.precision
            )
            self.training.is_compiled = False
            self.training.optimizer.zero_grad(set_to_none=True)
            return train_step(self.training, data.microbatches, step)

    def _watch(self, arrived: Iterable[StepNumbers]) -> None:
        for numbers in arrived:
            if numbers.skipped_in_a_row == 0:
                continue
            self.events.emit(
                "skipped",
                step=numbers.step,
                loss_nats_per_token=numbers.loss,
                gradient_norm=numbers.gradient_norm,
                loss_scale=numbers.loss_scale,
                in_a_row=numbers.skipped_in_a_row,
            )
            if numbers.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
                raise NotFiniteError(_not_finite(self.run_path, numbers, self.settings))

    def _log(self) -> None:
        begin = time.monotonic()
        self._watch(self._meter.flush())
        self._spend(time.monotonic() - begin)
        step = self.progress.step
        fields = self._meter.take()
        self.events.emit(
            "train",
            step=step,
            epochs=self.progress.epochs,
            learning_rate=learning_rate(step, self.settings, self.training.model.config.width),
            **fields,
            eta_seconds=self._eta_seconds(fields["seconds_per_step"]),
        )

    def _eta_seconds(self, seconds_per_step: float) -> float:
        """At the pace of the latest steps, and with the pauses between steps that this attempt has had so far."""
        num_steps = self.progress.step - self._first_step + 1
        pauses = (time.monotonic() - self._started - self._seconds_in_steps) / num_steps
        seconds = (self.settings.max_steps - self.progress.step) * (seconds_per_step + pauses)
        if self.settings.max_hours is not None:
            seconds = min(seconds, self.settings.max_hours * 3600 - self.progress.seconds)
        return max(0.0, seconds)

    def _show_sample(self) -> None:
        text = self.dataset.valid[0]
        row = self.progress.step // self.settings.sample_every % len(text.source)
        with weights_for_translation(self.training):
            (ids,) = translate_greedily(self.training.model, [text.source[row]], dtype=DTYPES[self.training.precision])
        self.events.emit(
            "sample",
            step=self.progress.step,
            source=text.source_lines[row],
            reference=text.target_lines[row],
            translation=self.dataset.vocabulary.decode(ids),
        )

    def _validate_and_save(self) -> None:
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
        """Than all whose weights are on the disk."""
        self.writer.wait()
        metric = self.settings.best_metric
        best = best_of(with_weights(self.run_path, self.progress.validations), metric)
        return best is None or validation.rank(metric) > best.rank(metric)

    def validate_weights(self, weights: str) -> Validation | None:
        """Measures the model as it is and records it; None where a signal broke it off."""
        begin = time.monotonic()
        try:
            validation = validate(
                self.training,
                self.progress.step,
                valid_batches=self._valid_batches,
                sample_batches=self._sample_batches,
                sets=self.dataset.valid,
                vocabulary=self.dataset.vocabulary,
                target_language=self.dataset.manifest.target_language,
                weights=weights,
                advance=self._break_off_at_signal,
            )
        except _Interrupted:
            return None
        seconds, is_best = time.monotonic() - begin, self._is_better(validation)
        self.events.emit("validation", **validation.fields(), seconds=seconds, is_best=is_best)
        return validation

    def _break_off_at_signal(self, num_sentences: int) -> None:
        if self.signals.received is not None:
            raise _Interrupted

    def _place(self) -> tuple[int, int, str | None]:
        """What a later attempt sees in a checkpoint: a step, with or without its validation, and whether it ends it."""
        progress = self.progress
        return progress.step, len(progress.validations), why_finished(progress, self.settings)

    def _save(self, *, is_best: bool) -> None:
        """Has the state written, unless it already was."""
        self._watch(self._meter.flush())
        self._take_time()
        self.writer.wait()  # one copy of the weights is on its way to the disk at a time
        if self._saved == self._place() and self.writer.last_error is None:
            return
        state = {**counters(self.training, self.progress), **self.identity}
        weights, others = snapshot(self.training)
        self.writer.save(self.progress.step, weights, others, state, is_best=is_best)
        self._saved = self._place()


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


def _not_finite(run: Path, numbers: StepNumbers, settings: TrainingConfig) -> str:
    saved = find_checkpoints(run)
    kept = f"the last checkpoint, {saved[0][1]}, is intact" if saved else "no checkpoint had been written yet"
    return (
        f"the loss or the gradient was not finite in {numbers.skipped_in_a_row} steps in a row, up to step "
        f"{numbers.step:,} (loss {numbers.loss:.3g}, gradient norm {numbers.gradient_norm:.3g}); none of them "
        f"changed the weights, and {kept}. Lower training.learning_rate, raise training.warmup_steps = "
        f'{settings.warmup_steps}, or use training.precision = "fp32", in a new run folder (--run)'
    )
