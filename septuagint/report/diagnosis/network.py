"""Whether the network held the run up: what the wire took of each step, and what it could carry."""

from dataclasses import dataclass

import numpy as np

from septuagint.report.answer import Answer, Figure
from septuagint.report.diagnosis.phrases import (
    bits,
    confidence_from,
    figure,
    listed,
    lower,
    percent,
    seconds,
    share_figure,
    times,
    unknown,
)
from septuagint.report.diagnosis.time_use import TimeUse, main_attempt
from septuagint.report.quantities import quantity
from septuagint.report.reading.attempts import Attempt
from septuagint.report.reading.fields import positive, whole
from septuagint.report.reading.record import Record

QUESTION = "Was the network the bottleneck?"
# Of a step. With a third of it gone, no other change to the run brings as much; a tenth is hardly worth an effort.
YES_SHARE, PARTLY_SHARE = 1 / 3, 0.1
# A link that carries less than half of what its port states is limited somewhere else. TCP itself takes 6%.
_SLOW_LINK = 0.5
# Ports of machines that have GPUs do a gigabit at least: one that states less was set wrong, or got a bad cable.
_USUAL_BITS_PER_SECOND = 1e9
# Counted bytes against those that we sent. Less: another interface carries them. More: somebody else sends, too.
_FEW_BYTES, _MANY_BYTES = 0.5, 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """Of one host's link in one direction, the busier one; None where not known."""

    bytes_per_step: float | None  # as the interface counted
    expected_bytes: float | None  # a step, by what the ranks hand over
    capacity: float | None  # bytes per second, measured at the start
    stated: float | None  # bits per second, as the slowest interface says


def network_bottleneck(record: Record, use: TimeUse) -> Answer:
    """Answers by the share of a step that waits for the wire."""
    attempt = main_attempt(record)
    if attempt is None or not attempt.ranks or attempt.world_size is None:
        return unknown("network_bottleneck", QUESTION, "The record does not tell on which hosts the run was.", _RECORD)
    if attempt.world_size == 1:
        return _nothing_leaves("There is one rank: nothing is exchanged.", [])
    if not use.is_split or use.step_seconds <= 0:
        return unknown(
            "network_bottleneck", QUESTION, "The record does not tell how long steps waited for it.", _RECORD
        )
    share = use.seen["communication"] / use.step_seconds
    exposed = share_figure("communication_share", "exposed communication, of the time in steps", share)
    if len(attempt.hosts) == 1:
        sentence = (
            f"One host: nothing leaves the machine; the exchange between its ranks takes {percent(share)} of a step."
        )
        return _nothing_leaves(sentence, [exposed])
    traffic = traffic_of(record, attempt)
    per_step = use.step_seconds / use.num_steps
    speed_up = 1 / max(1 - share, 1e-3)
    verdict = "yes" if share >= YES_SHARE else "partly" if share >= PARTLY_SHARE else "no"
    sentence = (
        f"Waiting for the network takes {seconds(share * per_step)} of each step's {seconds(per_step)} "
        f"({percent(share)}); an infinitely fast link would make steps {speed_up:.3g} times as fast"
    )
    # A link that is slower than it could be matters only where somebody waits for it.
    warning = (loud_warning(record, traffic) if verdict != "no" else "") or _wrong_bytes(traffic)
    return Answer(
        id="network_bottleneck",
        question=QUESTION,
        verdict=verdict,
        sentence=f"{sentence}{_link_words(traffic, per_step)}.{f' {warning}' if warning else ''}",
        evidence=(
            exposed,
            figure("communication_seconds_per_step", "exposed communication of a step", share * per_step, "s"),
            figure("speed_up", "steps with an infinitely fast link would be so many times as fast", speed_up),
            *_traffic_figures(traffic, per_step),
        ),
        confidence=confidence_from(use.num_steps) if use.source == "steps" else lower(confidence_from(use.num_steps)),
        would_change=_cure(share, verdict, attempt),
    )


_RECORD = "Train with this version: its record has the times of every step on every rank."


def _nothing_leaves(sentence: str, evidence: list[Figure]) -> Answer:
    return Answer(
        id="network_bottleneck",
        question=QUESTION,
        verdict="no",
        sentence=sentence,
        evidence=tuple(evidence),
        confidence="high",
        would_change="Only a run on several hosts uses the network.",
    )


def traffic_of(record: Record, attempt: Attempt) -> Traffic:
    """What the links of the hosts carried."""
    per_step = []
    for table in record.steps.values():
        means = [_mean(table.sent_bytes), _mean(table.received_bytes)]
        per_step += [max(mean for mean in means if mean is not None)] if any(means) else []
    world, gradient = attempt.world_size or 1, positive(attempt.fields, "gradient_bytes")
    links = [link for link in record.links if link.attempt == attempt.number] or list(record.links[-1:])
    stated = [positive(hardware, "stated_bits_per_second") for hardware in record.hardware.values()]
    stated += [link.stated_bits_per_second for link in links]
    known = [speed for speed in stated if speed]
    return Traffic(
        bytes_per_step=max(per_step, default=None),
        expected_bytes=None if gradient is None else 2 * (world - 1) / world * gradient,
        capacity=links[-1].bus_bytes_per_second if links else None,
        stated=min(known, default=None),
    )


def _mean(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _link_words(traffic: Traffic, per_step: float) -> str:
    carried = traffic.bytes_per_step or traffic.expected_bytes
    if not carried or per_step <= 0:
        return ""
    rate = carried / per_step
    words = f"; each way the link carries {quantity(carried, 'B')} a step, {bits(rate)} over the whole step"
    if traffic.capacity is None:
        return words
    return f"{words}: {percent(rate / traffic.capacity)} of the {bits(traffic.capacity)} that it was measured to carry"


def loud_warning(record: Record, traffic: Traffic) -> str:
    """What is wrong with the link itself; empty where nothing is."""
    if traffic.capacity and traffic.stated and 8 * traffic.capacity < _SLOW_LINK * traffic.stated:
        return (
            f"CHECK THE LINK: its interface states {bits(traffic.stated / 8)}, but only {bits(traffic.capacity)} come "
            "through: look at the switch, the cable, limits of the provider, and who else uses it."
        )
    if traffic.stated and traffic.stated < _USUAL_BITS_PER_SECOND:
        slow = [
            host
            for host, hardware in record.hardware.items()
            if (positive(hardware, "stated_bits_per_second") or np.inf) <= traffic.stated
        ]
        where = f" of {listed(slow)}" if slow else ""
        return (
            f"CHECK THE PORT{where}: it is set to {bits(traffic.stated / 8)}; most can do 1 Gbit/s or more, and the "
            "exchange would be as many times faster."
        )
    return ""


def _wrong_bytes(traffic: Traffic) -> str:
    if not traffic.bytes_per_step or not traffic.expected_bytes:
        return ""
    ratio = traffic.bytes_per_step / traffic.expected_bytes
    both = (
        f"the interface counted {quantity(traffic.bytes_per_step, 'B')} a step each way, the ranks exchange "
        f"{quantity(traffic.expected_bytes, 'B')}"
    )
    if ratio < _FEW_BYTES:
        return f"Look again: {both}, so the gradients go another way than through the interface that was watched."
    return f"The link is shared: {both}, so somebody else sends, too." if ratio > _MANY_BYTES else ""


def _traffic_figures(traffic: Traffic, per_step: float) -> list[Figure]:
    counted, expected, capacity = traffic.bytes_per_step, traffic.expected_bytes, traffic.capacity
    carried = counted or expected
    rate = carried / per_step if carried and per_step > 0 else None
    wire = carried / capacity if carried and capacity else None
    return [
        figure("bytes_per_step", "each way, counted by the interface, a step", counted, "B"),
        figure("expected_bytes_per_step", "each way, by what we send: 2(n-1)/n × gradient, a step", expected, "B"),
        figure("bits_per_second", "rate each way over whole steps", None if rate is None else 8 * rate, "bit/s"),
        figure(
            "capacity_bits_per_second", "capacity each way, measured", None if not capacity else 8 * capacity, "bit/s"
        ),
        figure("stated_bits_per_second", "speed that the interface states", traffic.stated, "bit/s"),
        share_figure(
            "link_use", "rate over whole steps, of the capacity", wire / per_step if wire and per_step else None
        ),
        figure("wire_seconds_per_step", "that the wire needs for a step's bytes at its capacity", wire, "s"),
    ]


def tokens_factor(share: float) -> float:
    """How many times the tokens of a step, or the speed of the link, bring the network down to a tenth of a step."""
    return share / max(1 - share, 1e-3) * (1 - PARTLY_SHARE) / PARTLY_SHARE


def _cure(share: float, verdict: str, attempt: Attempt) -> str:
    if verdict == "no":
        return f"Above {percent(PARTLY_SHARE)} of a step it would be called partly, above {percent(YES_SHARE)} yes."
    factor = tokens_factor(share)
    tokens = whole(attempt.training, "tokens_per_step")
    now = f" ({tokens:,} now)" if tokens else ""
    return (
        f"A link {times(factor)} as fast, or {times(factor)} the tokens in each step (training.tokens_per_step{now}; "
        f"in a new run, with fewer steps), would bring the network down to {percent(PARTLY_SHARE)} of a step."
    )
