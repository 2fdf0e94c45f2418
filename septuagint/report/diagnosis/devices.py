"""Whether the GPUs, or processors, did useful work, which is not what `nvidia-smi` shows."""

from dataclasses import dataclass

import numpy as np

from septuagint.report.answer import Answer, Figure
from septuagint.report.diagnosis.duration import span
from septuagint.report.diagnosis.phrases import confidence_from, figure, lower, percent, share_figure, unknown
from septuagint.report.diagnosis.time_use import TimeUse, main_attempt, steps_of_lines
from septuagint.report.quantities import quantity
from septuagint.report.reading.attempts import Attempt
from septuagint.report.reading.fields import Floats, positive
from septuagint.report.reading.machine_table import MachineTable
from septuagint.report.reading.record import Record

# Of all the time that machines were held. A fifth for start-up, validation and waiting is what good runs show.
_FULL_SHARE, _HALF_SHARE = 0.8, 0.5
# Of a measured matrix product. Good implementations of models of this size reach a third to a half; a tenth says that
# the device mostly waits for memory, for the host or for others, whatever the clock says.
_FULL_FLOPS, _POOR_FLOPS = 0.3, 0.1
# Points of percent between what tools show and what is useful that need an explanation.
_WORTH_EXPLAINING = 15.0

FORMULA = (
    "(source tokens × their FLOPs + target tokens × theirs, matrix products of forward and backward) ÷ "
    "(seconds × peak of all ranks, as a matrix product measured it)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flops:
    """Model FLOP utilisation, as shares of the measured peak."""

    in_steps: float | None
    in_all: float | None  # start-up, validation and the like included
    peak: float | None  # of all ranks, per second


def gpus_used(record: Record, use: TimeUse) -> Answer:
    """Answers by the share of time in compute, and by how much of the peak it came to."""
    attempt = main_attempt(record)
    is_cpu = attempt is None or all(rank.device in ("CPU", "") for rank in attempt.ranks)
    noun = "processors" if is_cpu else "GPUs"
    question = f"Were the {noun} fully used?"
    flops, shown, tools = flop_utilisation(record, use, attempt), _shown(record, attempt, is_cpu), _tools(is_cpu)
    evidence = [
        *_flop_figures(flops),
        figure("shown_utilisation_percent", f"utilisation as {tools} shows it", shown, "%"),
    ]
    evidence += _activity(record)
    if not use.is_split or not record.attempts or span(record).held <= 0:
        missing = f"The record does not tell how much of the time the {noun} computed."
        return unknown("gpus_used", question, missing, "Train with this version: it measures every step.", evidence)
    held = max(span(record).held, use.step_seconds)
    useful = (use.own["compute"] + use.own["optimizer"]) / held
    sentence = f"The {noun} did useful work (compute, optimizer) in {percent(useful)} of the time that they were held"
    if flops.in_all is not None and flops.peak is not None:
        peak = quantity(flops.peak, "FLOP/s")
        sentence += f", and reached {percent(flops.in_all)} of the {peak} that they can do"
        if flops.in_steps is not None and flops.in_steps > 1.2 * flops.in_all:
            sentence += f" ({percent(flops.in_steps)} within steps)"
    if shown is not None and shown - 100 * useful >= _WORTH_EXPLAINING:
        sentence += f"; {tools} shows {shown:.0f}%, because {_why(is_cpu)}"
    return Answer(
        id="gpus_used",
        question=question,
        verdict=_verdict(useful, flops.in_all),
        sentence=f"{sentence}.",
        evidence=(
            share_figure("useful_share", "time in compute and optimizer, of all time in attempts", useful),
            share_figure("useful_share_of_steps", "the same, of the time in steps", _in_steps(use)),
            *evidence,
        ),
        confidence=confidence_from(use.num_steps) if use.source == "steps" else lower(confidence_from(use.num_steps)),
        would_change=_cure(use, held, flops),
    )


def _verdict(useful: float, flops: float | None) -> str:
    if useful < _HALF_SHARE or (flops is not None and flops < _POOR_FLOPS):
        return "no"
    return "yes" if useful >= _FULL_SHARE and (flops is None or flops >= _FULL_FLOPS) else "partly"


def _in_steps(use: TimeUse) -> float | None:
    return (use.own["compute"] + use.own["optimizer"]) / use.step_seconds if use.step_seconds > 0 else None


def flop_utilisation(record: Record, use: TimeUse, attempt: Attempt | None) -> Flops:
    """From the tokens of the log, the FLOPs of a token and the peak of the ranks."""
    if attempt is None:
        return Flops(in_steps=None, in_all=None, peak=None)
    peaks = [rank.peak_flops_per_second for rank in attempt.ranks]
    known = [peak for peak in peaks if peak is not None]
    # A rank whose record is missing is taken to be like the others.
    peak = sum(known) / len(known) * max(len(peaks), attempt.world_size or 0) if known else None
    source, target = (positive(attempt.fields, f"flops_per_{side}_token") for side in ("source", "target"))
    held = span(record).held
    if peak is None or source is None or target is None or use.step_seconds <= 0 or held <= 0:
        return Flops(in_steps=None, in_all=None, peak=peak)
    train = record.train
    rate = train.source_tokens_per_second * source + train.target_tokens_per_second * target
    done = _positive_sum(steps_of_lines(record) * train.seconds_per_step * rate)
    seconds = _positive_sum(np.where(rate > 0, steps_of_lines(record) * train.seconds_per_step, 0.0))
    if done <= 0:
        return Flops(in_steps=None, in_all=None, peak=peak)
    return Flops(in_steps=done / (peak * seconds), in_all=done / (peak * max(held, seconds)), peak=peak)


def _positive_sum(values: Floats) -> float:
    return float(values[np.isfinite(values) & (values > 0)].sum())


def _flop_figures(flops: Flops) -> list[Figure]:
    return [
        share_figure("model_flop_utilisation", "model FLOP utilisation of the whole run", flops.in_all),
        share_figure("model_flop_utilisation_in_steps", "model FLOP utilisation within steps", flops.in_steps),
        figure("model_flop_utilisation_formula", "formula", FORMULA),
        figure("peak_flops_per_second", "peak of all ranks, measured", flops.peak, "FLOP/s"),
    ]


def _tools(is_cpu: bool) -> str:
    return "the system monitor" if is_cpu else "nvidia-smi"


def _why(is_cpu: bool) -> str:
    if is_cpu:
        return "a processor that polls the network, validates or prepares data counts as busy, too"
    return "a GPU counts as busy while a kernel on it waits for the network or for another rank"


def _shown(record: Record, attempt: Attempt | None, is_cpu: bool) -> float | None:
    """Mean utilisation in percent. A host may have GPUs that have nothing to do with the run: the busiest count."""
    means: list[float] = []
    for host, table in record.machines.items():
        if is_cpu:
            means += _means(table, [table.cpu_percent])
            continue
        num_ranks = sum(rank.host == host for rank in attempt.ranks) if attempt else 0
        gpus = sorted(_means(table, [gpu.utilisation_percent for gpu in table.gpus.values()]), reverse=True)
        means += gpus[: num_ranks or None]
    return sum(means) / len(means) if means else None


def _means(table: MachineTable, columns: list[Floats]) -> list[float]:
    """Of each column, every sample weighted by the time it stands for."""
    found = []
    for values in columns:
        weights = np.where(table.interval_seconds > 0, table.interval_seconds, 0.0)
        weights = np.where(np.isfinite(values), weights, 0.0)
        if weights.sum() > 0:
            found.append(float((np.where(weights > 0, values, 0.0) * weights).sum() / weights.sum()))
    return found


def _activity(record: Record) -> list[Figure]:
    found = []
    for name, label in (
        ("sm_activity_percent", "multiprocessors at work"),
        ("tensor_activity_percent", "tensor cores at work"),
        ("memory_activity_percent", "memory at work"),
    ):
        tables = [(table, [getattr(gpu, name) for gpu in table.gpus.values()]) for table in record.machines.values()]
        means = [mean for table, columns in tables for mean in _means(table, columns)]
        if means:
            found.append(figure(name, f"{label}, as the GPUs count it", sum(means) / len(means), "%"))
    return found


def _cure(use: TimeUse, held: float, flops: Flops) -> str:
    wastes = {
        "the network": use.own["communication"],
        "waiting for the slowest rank": use.own["straggler_wait"],
        "waiting for data": use.own["data_wait"],
        "validation": use.outside.get("validation", 0.0),
        "checkpoints": use.outside.get("checkpoint", 0.0),
        "start-up and steps done again": use.start_seconds + use.lost_seconds,
    }
    name = max(wastes, key=lambda name: wastes[name])
    share = wastes[name] / held
    if share >= 0.05:
        return f"The largest share that was not compute is {name}: {percent(share)} of the time."
    if flops.in_steps is not None and flops.in_steps < _FULL_FLOPS:
        return "Nearly all the time is compute: larger packs (training.microbatch_tokens) would use the device better."
    return "Nothing: the time is compute."
