"""How long a step takes, with units that nobody can mistake."""

from dataclasses import dataclass

import numpy as np

from septuagint.report.answer import Answer
from septuagint.report.diagnosis.phrases import confidence_from, figure, listed, lower, seconds, unknown
from septuagint.report.diagnosis.time_use import TimeUse, steps_of_lines
from septuagint.report.quantities import plain
from septuagint.report.reading.record import Record
from septuagint.report.reading.step_table import StepTable

QUESTION = "How long did a step take?"
# Attempts whose steps differ by more than this ran under other conditions: one mean for both would mislead.
_OTHER_CONDITIONS = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class _Typical:
    """Seconds of a step."""

    mean: float
    median: float
    p95: float


def step_time(record: Record, use: TimeUse) -> Answer:
    """Answers with the mean, and what lies around it."""
    table = _first(record)
    walls = table.wall if table is not None else record.train.seconds_per_step
    walls = walls[np.isfinite(walls) & (walls >= 0)]
    if len(walls) == 0 or use.num_steps == 0:
        missing = "No step is on record yet." if not len(record.train) else "The record has no times of steps."
        return unknown("step_time", QUESTION, missing, "Wait for the first line of the log.")
    typical = _Typical(
        mean=use.step_seconds / use.num_steps,
        median=float(np.median(walls)),
        p95=float(np.quantile(walls, 0.95)),
    )
    in_all = use.useful_seconds / use.num_steps
    tokens = _tokens_per_second(record)
    sentence = (
        f"A step took {seconds(typical.mean)} on average (median {seconds(typical.median)}, 95% below "
        f"{seconds(typical.p95)}), which makes {plain(60 / max(typical.mean, 1e-9))} steps a minute; "
        f"with validation and checkpoints {seconds(in_all)}"
    )
    by_attempt = _by_attempt(table)
    if by_attempt:
        sentence += f"; attempts differ: {listed(by_attempt)}"
    is_measured = table is not None
    if not is_measured:
        sentence += "; median and 95% are of the means in the log"
    return Answer(
        id="step_time",
        question=QUESTION,
        verdict=seconds(typical.mean),
        sentence=f"{sentence}.",
        evidence=(
            figure("mean_seconds", "mean step time", typical.mean, "s"),
            figure("median_seconds", "median step time", typical.median, "s"),
            figure("p95_seconds", "95% of steps took less than", typical.p95, "s"),
            figure("mean_seconds_with_pauses", "mean with validation, checkpoints and the like", in_all, "s"),
            figure("steps_per_minute", "steps a minute", 60 / max(typical.mean, 1e-9), "steps"),
            figure("target_tokens_per_second", "target tokens a second, in steps", tokens, "tokens/s"),
            figure("num_steps", "steps measured", use.num_steps, "steps"),
        ),
        confidence=confidence_from(use.num_steps) if is_measured else lower(confidence_from(use.num_steps)),
        would_change="The answer to the bottleneck question says what makes steps shorter.",
    )


def _first(record: Record) -> StepTable | None:
    """Of the lowest rank that has steps: a step takes all ranks the same time."""
    ranks = [rank for rank, table in record.steps.items() if len(table)]
    return record.steps[min(ranks)] if ranks else None


def _by_attempt(table: StepTable | None) -> list[str]:
    """The mean of each attempt, where they differ."""
    if table is None:
        return []
    numbers = np.unique(table.attempt)
    means = [float(table.wall[table.attempt == number].mean()) for number in numbers]
    if len(means) < 2 or max(means) < _OTHER_CONDITIONS * min(means):
        return []
    return [f"{seconds(mean)} in attempt {number}" for number, mean in zip(numbers, means, strict=True)]


def _tokens_per_second(record: Record) -> float | None:
    train = record.train
    spent = steps_of_lines(record) * train.seconds_per_step
    tokens = spent * train.target_tokens_per_second
    is_known = np.isfinite(tokens) & (spent > 0) & (tokens >= 0)
    return float(tokens[is_known].sum() / spent[is_known].sum()) if is_known.any() else None
