"""Whether the time of a step goes with the bytes that the network carries."""

from dataclasses import dataclass

import numpy as np

from septuagint.report.answer import Answer, Figure
from septuagint.report.diagnosis.fits import pearson, spearman, variation
from septuagint.report.diagnosis.phrases import bits, confidence_from, figure, percent, unknown
from septuagint.report.diagnosis.time_use import main_attempt
from septuagint.report.quantities import quantity
from septuagint.report.reading.fields import Floats
from septuagint.report.reading.record import Record
from septuagint.report.reading.step_table import StepTable

QUESTION = "How does the time of a step go with the network traffic?"
# Traffic that varies by less than this share of its mean is the same in every step: headers and other people's packets.
_CONSTANT = 0.05
_STRONG, _WEAK = 0.7, 0.3
_MIN_STEPS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class _Together:
    """Step times and bytes of one host."""

    num_steps: int
    bytes_each_way: float  # a step
    bytes_per_second: float  # each way, over whole steps
    varies: float  # deviation of the bytes, as a share of their mean
    pearson: float | None
    spearman: float | None
    with_communication: float | None  # of step time and waiting for the network

    @property
    def is_constant(self) -> bool:
        return self.varies < _CONSTANT or self.pearson is None or self.spearman is None


def step_time_and_traffic(record: Record) -> Answer:
    """Answers with the correlation, or says why there is none to be had."""
    attempt = main_attempt(record)
    if attempt is not None and attempt.ranks and len(attempt.hosts) <= 1:
        what = "one rank exchanges nothing" if attempt.world_size == 1 else "nothing leaves the one host"
        return _nothing(f"There is no traffic to set beside the steps: {what}.")
    tables = [table for table in record.steps.values() if np.isfinite(_both_ways(table)).sum() >= _MIN_STEPS]
    if not tables:
        missing = f"The record has not counted the traffic of {_MIN_STEPS} steps or more."
        return unknown("step_time_and_traffic", QUESTION, missing, "Longer runs on several hosts tell.")
    found = _compare(tables[0].select(np.isfinite(_both_ways(tables[0]))))
    return Answer(
        id="step_time_and_traffic",
        question=QUESTION,
        verdict="constant traffic" if found.is_constant else f"{found.pearson:.2f} ({_strength(found.spearman or 0)})",
        sentence=_sentence(found),
        evidence=tuple(_figures(found)),
        confidence=confidence_from(found.num_steps),
        would_change="Correlation is no proof: the share of a step that waits for the network is, see that question.",
    )


def _both_ways(table: StepTable) -> Floats:
    return table.sent_bytes + table.received_bytes


def _compare(table: StepTable) -> _Together:
    moved, wall = _both_ways(table), table.wall
    return _Together(
        num_steps=len(table),
        bytes_each_way=float(moved.mean()) / 2,
        bytes_per_second=float(moved.sum()) / 2 / max(float(wall.sum()), 1e-9),
        varies=variation(moved),
        pearson=pearson(moved, wall),
        spearman=spearman(moved, wall),
        with_communication=pearson(table.communication, wall),
    )


def _sentence(found: _Together) -> str:
    moved = (
        f"each step moves {quantity(found.bytes_each_way, 'B')} each way, {bits(found.bytes_per_second)} on average "
        "over the step"
    )
    if not found.is_constant:
        return (
            f"Step time and bytes correlate by {found.pearson:.2f} (Pearson) and {found.spearman:.2f} (Spearman), "
            f"{_meaning(found.spearman or 0)}; {moved}."
        )
    sentence = (
        f"Traffic is the same in every step (it varies by {percent(found.varies)}), so it cannot explain why some take "
        f"longer: {moved}"
    )
    if found.with_communication is not None:
        is_wire = found.with_communication >= _STRONG
        what = "what varies is how long that takes" if is_wire else "how long that takes does not explain it either"
        sentence += (
            f"; {what}: step time and waiting for the network correlate by {found.with_communication:.2f} (Pearson)"
        )
    return f"{sentence}."


def _strength(correlation: float) -> str:
    return "strong" if abs(correlation) >= _STRONG else "weak" if abs(correlation) >= _WEAK else "none"


def _meaning(correlation: float) -> str:
    if correlation >= _STRONG:
        return "so steps that move more take longer"
    if correlation <= -_WEAK:
        return "so steps that take longer move less: something else holds them up"
    return "so traffic explains part of it" if correlation >= _WEAK else "so they have little to do with each other"


def _figures(found: _Together) -> list[Figure]:
    return [
        figure("pearson", "correlation of step time and bytes (Pearson)", found.pearson),
        figure("spearman", "correlation of step time and bytes (Spearman, of ranks)", found.spearman),
        figure(
            "pearson_communication", "correlation of step time and waiting for the network", found.with_communication
        ),
        figure("traffic_variation", "deviation of the bytes of a step from their mean", 100 * found.varies, "%"),
        figure("mean_bytes_per_step", "bytes of a step each way", found.bytes_each_way, "B"),
        figure("mean_bits_per_second", "rate each way over whole steps", 8 * found.bytes_per_second, "bit/s"),
        figure("num_steps", "steps with counted traffic", found.num_steps, "steps"),
    ]


def _nothing(sentence: str) -> Answer:
    return Answer(
        id="step_time_and_traffic",
        question=QUESTION,
        verdict="no traffic",
        sentence=sentence,
        evidence=(),
        confidence="high",
        would_change="Only a run on several hosts uses the network.",
    )
