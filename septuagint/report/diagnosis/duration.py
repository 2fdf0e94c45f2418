"""How long a run took, and what it cost: hours, money, energy."""

from dataclasses import dataclass

import numpy as np

from septuagint.report.answer import Answer, Figure
from septuagint.report.diagnosis.phrases import (
    confidence_from,
    count,
    figure,
    lower,
    percent,
    seconds,
    share_figure,
    unknown,
)
from septuagint.report.diagnosis.time_use import TimeUse, steps_of_lines
from septuagint.report.reading.fields import Floats, positive, text
from septuagint.report.reading.record import Record

QUESTION = "How long did it take, and what did it cost?"
_JOULES_PER_KILOWATT_HOUR = 3.6e6


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Seconds of a whole run."""

    wall: float  # from the first start to the last sign of life
    held: float  # in attempts: the machines were there for it
    paused: float  # between attempts


def span(record: Record) -> Span:
    """Of all attempts."""
    held = sum(attempt.seconds for attempt in record.attempts)
    begin = min(attempt.start_time for attempt in record.attempts)
    end = max(attempt.end_time for attempt in record.attempts)
    # Clocks that were set in between may let attempts overlap.
    wall = max(end - begin, held)
    return Span(wall=wall, held=held, paused=wall - held)


def duration(record: Record, use: TimeUse) -> Answer:
    """Answers with a time."""
    if not record.attempts:
        return unknown("duration", QUESTION, "The record names no attempt.", "A whole record would tell.")
    total = span(record)
    steps = last_step(record)
    effective = use.step_seconds / total.wall if total.wall > 0 and use.num_steps else None
    sentence = (
        f"The run took {seconds(total.wall)} for {count(steps, 'step')} in {count(len(record.attempts), 'attempt')}"
    )
    if effective is not None:
        sentence += f"; {percent(min(effective, 1))} of that time went into steps that count"
    restarts = _restart_figures(record, use, total)
    if len(record.attempts) > 1:
        sentence += f"; restarts cost {seconds(float(restarts[0].value or 0))}, pauses between attempts included"
    money = _money(record, total, steps)
    energy = _energy(record, total)
    if money:
        sentence += f"; it cost {float(money[0].value or 0):,.2f} {money[0].unit}".rstrip()
    if energy:
        sentence += f"; it took {_energy_words(float(energy[0].value or 0))} of energy"
    has_ended = record.attempts[-1].stop_reason is not None
    if not has_ended:
        sentence += "; it is still running, or was killed"
    return Answer(
        id="duration",
        question=QUESTION,
        verdict=seconds(total.wall),
        sentence=f"{sentence}.",
        evidence=(
            figure("wall_seconds", "from the first start to the last sign of life", total.wall, "s"),
            figure("num_attempts", "attempts", len(record.attempts)),
            figure("num_steps", "steps done", steps, "steps"),
            share_figure("effective_share", "effective training time: steps that count, of all that time", effective),
            *restarts,
            *money,
            *energy,
        ),
        confidence="high" if has_ended else lower(confidence_from(use.num_steps)),
        would_change=_cure(record, use, bool(money)),
    )


def _energy_words(kilowatt_hours: float) -> str:
    return f"{kilowatt_hours:,.2f} kWh" if kilowatt_hours >= 0.1 else f"{1000 * kilowatt_hours:,.1f} Wh"


def last_step(record: Record) -> int:
    """The number of the last step that is known to be done."""
    ends = [int(table.step[-1]) for table in record.steps.values() if len(table)]
    ends += [int(table.step.max()) for table in record.trains.values() if len(table)]
    ends += [checkpoint.step for checkpoint in record.checkpoints] + [look.step for look in record.validations]
    return max([*ends, *[attempt.start_step or 0 for attempt in record.attempts[-1:]]], default=0)


def num_target_tokens(record: Record) -> float:
    """That all steps which count have learned from, as the log tells."""
    train = record.train
    tokens = steps_of_lines(record) * train.seconds_per_step * train.target_tokens_per_second
    return float(np.nansum(np.where(tokens > 0, tokens, 0.0)))


def _restart_figures(record: Record, use: TimeUse, total: Span) -> list[Figure]:
    starts = _restart_seconds(record)
    return [
        figure("restart_seconds", "lost to restarts in all", total.paused + starts + use.lost_seconds, "s"),
        figure("paused_seconds", "of it between attempts", total.paused, "s"),
        figure("restarting_seconds", "of it starting up again", starts, "s"),
        figure("lost_seconds", "of it in steps that had to be done again", use.lost_seconds, "s"),
        figure("num_lost_steps", "steps that had to be done again", use.num_lost_steps, "steps"),
        figure("start_seconds", "start-up of all attempts", use.start_seconds, "s"),
        figure("rehearsal_seconds", "of it compiling, and a pass for nothing", record.rehearsal_seconds, "s"),
    ]


def _restart_seconds(record: Record) -> float:
    """Start-up of all attempts but the first, as the rank that tells most of it saw it."""
    later = [attempt.number for attempt in record.attempts[1:]]
    told = [[parts.get(number, {}).get("start", 0.0) for parts in record.outside.values()] for number in later]
    return sum(max(values, default=0.0) for values in told)


def _money(record: Record, total: Span, steps: int) -> list[Figure]:
    priced = [(attempt.seconds, positive(attempt.fields, "price_per_hour")) for attempt in record.attempts]
    if not any(price for _, price in priced):
        return []
    # An attempt whose price is not known cost what the others cost.
    known = [price for _, price in priced if price]
    cost = sum(length / 3600 * (price or known[-1]) for length, price in priced)
    currency = next((text(attempt.fields, "currency") for attempt in reversed(record.attempts)), None) or ""
    tokens = num_target_tokens(record)
    figures = [
        figure("cost", "price per hour × hours in which the machines trained", cost, currency),
        figure("price_per_hour", "price of all machines together", known[-1], f"{currency} per hour"),
        figure("held_seconds", "the machines were held for, pauses between attempts left out", total.held, "s"),
    ]
    if steps:
        figures.append(figure("cost_per_1000_steps", "cost of 1,000 steps", 1000 * cost / steps, currency))
    if tokens:
        million = 1e6 * cost / tokens
        figures.append(figure("cost_per_million_target_tokens", "cost of a million target tokens", million, currency))
    return figures


def _energy(record: Record, total: Span) -> list[Figure]:
    gpu = cpu = covered = 0.0
    for table in record.machines.values():
        for counters in table.gpus.values():
            power = counters.power_watts * table.interval_seconds
            gpu += _sum(np.where(np.isfinite(counters.energy_joules), counters.energy_joules, power))
        cpu += _sum(table.cpu_energy_joules)
        covered = max(covered, _sum(table.interval_seconds))
    if gpu + cpu <= 0:
        return []
    missing = [name for name, joules in (("GPUs", gpu), ("processors", cpu)) if joules <= 0]
    left_out = ", ".join([*missing, "memory, disks, fans and power supplies"])
    coverage = min(1.0, covered / max(total.held, 1e-9))
    return [
        figure("energy_kilowatt_hours", "energy as counted", (gpu + cpu) / _JOULES_PER_KILOWATT_HOUR, "kWh"),
        figure("gpu_energy_kilowatt_hours", "of it GPUs", gpu / _JOULES_PER_KILOWATT_HOUR, "kWh"),
        figure("cpu_energy_kilowatt_hours", "of it processors", cpu / _JOULES_PER_KILOWATT_HOUR, "kWh"),
        share_figure("energy_coverage", "share of the time that was measured", coverage),
        figure("energy_not_counted", "not counted", left_out),
    ]


def _sum(values: Floats) -> float:
    return float(values[np.isfinite(values) & (values > 0)].sum())


def _cure(record: Record, use: TimeUse, has_price: bool) -> str:
    advice = []
    if use.lost_seconds > 0.05 * max(use.step_seconds, 1e-9):
        advice.append(
            f"a shorter training.checkpoint_every would have saved part of the {seconds(use.lost_seconds)} done again"
        )
    if not has_price:
        advice.append("set cost.price_per_hour to see what it costs")
    advice.append("the answer to the bottleneck question says what would make it shorter")
    joined = "; ".join(advice)
    return f"{joined[0].upper()}{joined[1:]}."
