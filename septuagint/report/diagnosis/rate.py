"""The learning rate: its formula with a run's numbers, set against what was recorded."""

import math
from dataclasses import dataclass

import numpy as np

from septuagint.report.answer import Answer
from septuagint.report.diagnosis.phrases import figure, share_figure, unknown
from septuagint.report.diagnosis.time_use import main_attempt
from septuagint.report.quantities import plain
from septuagint.report.reading.attempts import Attempt
from septuagint.report.reading.fields import positive, text, whole
from septuagint.report.reading.record import Record

QUESTION = "How did the learning rate go, and why?"
# As in training.optimizer: where a cosine ends, as a share of the peak.
_COSINE_FLOOR = 0.01
_SCHEDULES = ("inverse_sqrt", "cosine", "constant")
# The record has every digit of a rate: what is further off was made by another formula.
_SAME = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """What the learning rate of a run depends on."""

    name: str
    peak: float
    warmup_steps: int
    decay_steps: int | None
    width: int | None  # where the peak follows from the model

    def at(self, step: float) -> float:
        """The rate of an update, counted from 1."""
        if step <= self.warmup_steps:
            return self.peak * step / self.warmup_steps
        if self.name == "inverse_sqrt":
            return self.peak * math.sqrt(self.warmup_steps / step)
        if self.name == "cosine" and self.decay_steps is not None:
            progress = min(1.0, (step - self.warmup_steps) / max(1, self.decay_steps - self.warmup_steps))
            return self.peak * (_COSINE_FLOOR + (1 - _COSINE_FLOOR) * (1 + math.cos(math.pi * progress)) / 2)
        return self.peak

    @property
    def formula(self) -> str:
        """With this run's numbers."""
        warmup = self.warmup_steps
        if self.name == "inverse_sqrt" and self.width is not None:
            return f"2.0 · {self.width}^-0.5 · min(step^-0.5, step · {warmup}^-1.5)"
        if self.name == "inverse_sqrt":
            return f"{plain(self.peak)} · min(sqrt({warmup} / step), step / {warmup})"
        rise = f"{plain(self.peak)} · step / {warmup} up to step {warmup:,}"
        if self.name == "cosine":
            return f"{rise}, then half a cosine down to {_COSINE_FLOOR:.0%} of it at step {self.decay_steps:,}"
        return f"{rise}, then constant"

    @property
    def story(self) -> str:
        """In words."""
        after = {
            "inverse_sqrt": "then it falls with 1/√step",
            "cosine": "then it falls along half a cosine",
            "constant": "then it stays",
        }
        return f"a linear warm-up of {self.warmup_steps:,} steps to {plain(self.peak)}, {after[self.name]}"


def schedule_of(attempt: Attempt | None) -> Schedule | None:
    """From the settings in the record; None where they are not there."""
    if attempt is None:
        return None
    training = attempt.training
    name, warmup = text(training, "schedule"), whole(training, "warmup_steps")
    peak, width = positive(training, "learning_rate"), whole(attempt.model, "width")
    decay = whole(training, "decay_steps")
    if name not in _SCHEDULES or not warmup or (peak is None and not width) or (name == "cosine" and decay is None):
        return None
    follows = peak is None
    return Schedule(
        name=name,
        peak=peak if peak is not None else 2.0 * (width or 1) ** -0.5 * warmup**-0.5,
        warmup_steps=warmup,
        decay_steps=decay,
        width=width if follows else None,
    )


def learning_rate(record: Record) -> Answer:
    """Answers with the peak and where it stands."""
    attempt = main_attempt(record)
    schedule = schedule_of(attempt)
    is_known = np.isfinite(record.train.learning_rate) & (record.train.step > 0)
    steps, rates = record.train.step[is_known], record.train.learning_rate[is_known]
    if schedule is None:
        return _from_the_log(attempt, steps, rates)
    last = int(steps[-1]) if len(steps) else 0
    now = schedule.at(last) if last else None
    expected = np.array([schedule.at(float(step)) for step in steps])
    deviation = float(np.max(np.abs(rates - expected) / np.maximum(expected, 1e-30))) if len(steps) else None
    sentence = f"It depends on the step alone, not on the loss: {schedule.story}"
    if now is not None:
        is_warming = last < schedule.warmup_steps
        sentence += f"; at step {last:,} it is {plain(now)}{', still warming up' if is_warming else ''}"
    is_same = deviation is None or deviation < _SAME
    if not is_same:
        sentence += f". The recorded rates differ from the formula by up to {100 * (deviation or 0):.2g}%"
    return Answer(
        id="learning_rate",
        question=QUESTION,
        verdict=f"peak {plain(schedule.peak)} at step {schedule.warmup_steps:,}",
        sentence=f"{sentence}.",
        evidence=(
            figure("formula", "formula", schedule.formula),
            figure("schedule", "schedule", schedule.name),
            figure("peak", "peak", schedule.peak),
            figure("peak_step", "step of the peak", schedule.warmup_steps, "steps"),
            figure("current", "where it stands", now),
            share_figure("share_of_peak", "of the peak", None if now is None else now / schedule.peak),
            share_figure("largest_deviation", "largest deviation of the record from the formula", deviation),
        ),
        confidence="high" if is_same and len(steps) else "medium",
        would_change="The settings training.schedule, learning_rate, warmup_steps and decay_steps, in a new run.",
    )


def _from_the_log(
    attempt: Attempt | None,
    steps: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    rates: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> Answer:
    """Where the settings are not in the record: what was seen."""
    told = text(attempt.fields, "learning_rate") if attempt else None
    cure = "A record of this version has the settings."
    if not len(steps) and told is None:
        return unknown("learning_rate", QUESTION, "The record has neither settings nor learning rates.", cure)
    words, evidence = [], [figure("formula", "formula", told)]
    verdict = "see the formula"
    if told is not None:
        words.append(f"it depends on the step alone, not on the loss: {told}")
    if len(steps):
        top = int(np.argmax(rates))
        verdict = f"peak {plain(float(rates[top]))} at step {int(steps[top]):,}"
        words.append(f"the log shows {verdict} and {plain(float(rates[-1]))} at step {int(steps[-1]):,}")
        evidence += [
            figure("peak", "highest in the log", float(rates[top])),
            figure("peak_step", "step of it", int(steps[top]), "steps"),
            figure("current", "where it stands", float(rates[-1])),
        ]
    joined = "; ".join(words)
    return Answer(
        id="learning_rate",
        question=QUESTION,
        verdict=verdict,
        sentence=f"{joined[0].upper()}{joined[1:]}.",
        evidence=tuple(evidence),
        confidence="medium",
        would_change=cure,
    )
