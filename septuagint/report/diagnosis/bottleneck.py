"""What held the run up most, and the one change that would help most."""

from dataclasses import dataclass, replace

import numpy as np

from septuagint.report.answer import Answer
from septuagint.report.diagnosis.network import tokens_factor
from septuagint.report.diagnosis.phrases import (
    confidence_from,
    count,
    figure,
    lower,
    percent,
    seconds,
    share_figure,
    times,
    unknown,
)
from septuagint.report.diagnosis.time_use import SlowRank, TimeUse, main_attempt, slow_rank
from septuagint.report.reading.fields import whole
from septuagint.report.reading.record import Record

QUESTION = "What was the bottleneck?"
# Of the useful time. A fifth is worth a change: it makes the run a quarter faster; below, the arithmetic itself counts.
WASTE_SHARE = 0.2
# Of the useful time in compute and optimizer, for arithmetic to be what counts.
_COMPUTE_SHARE = 0.5
# What validation and checkpoints may take without harm.
_FAIR_SHARE = 0.05
_COMPUTE = ("compute", "optimizer", "to_device")
_LONGER = {
    "data_wait": "it waits longer for data",
    "to_device": "it takes longer to bring data to its device",
    "compute": "its compute takes longer",
    "rest": "it does something else besides",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """Shares of the useful time: steps that count, and what belongs to training between them."""

    data: float
    network: float  # 0 on one host
    exchange: float  # between ranks, whether on one host or on several
    slow_rank: float
    validation: float
    checkpoints: float
    compute: float

    @property
    def wastes(self) -> dict[str, float]:
        """By verdict, the largest first."""
        named = {
            "network": self.network,
            "data": self.data,
            "slow_rank": self.slow_rank,
            "validation": self.validation,
            "checkpoints": self.checkpoints,
        }
        return dict(sorted(named.items(), key=lambda entry: -entry[1]))


def shares_of(record: Record, use: TimeUse, slow: SlowRank | None) -> Shares:
    """Time that ranks waited for each other belongs to the slow rank, or else to what the last one was busy with."""
    total = max(use.useful_seconds, 1e-9)
    by_turns = dict.fromkeys(_LONGER, 0.0)
    if slow is None:
        by_turns = {part: sum(longer[part] for longer in use.longer.values()) for part in _LONGER}
    attempt = main_attempt(record)
    exchange = use.seen["communication"] / total
    return Shares(
        data=(use.seen["data_wait"] + by_turns["data_wait"]) / total,
        network=exchange if attempt is None or len(attempt.hosts) != 1 else 0.0,
        exchange=exchange,
        # Without the record of the others, somebody is slow, but nobody knows who.
        slow_rank=use.seen["straggler_wait"] / total if slow is not None or not use.waited_for else 0.0,
        validation=use.outside.get("validation", 0.0) / total,
        checkpoints=use.outside.get("checkpoint", 0.0) / total,
        compute=(sum(use.seen[part] for part in _COMPUTE) + by_turns["compute"] + by_turns["to_device"]) / total,
    )


def bottleneck(record: Record, use: TimeUse) -> Answer:
    """Answers with one of data, compute, network, slow_rank, validation, checkpoints and none."""
    if use.num_steps == 0 or use.useful_seconds <= 0:
        missing = "No step is on record: there is nothing to divide up."
        return _nothing_known(missing, "Wait for the first line of the log.")
    slow = slow_rank(record, use)
    shares = shares_of(record, use, slow)
    verdict = _verdict(shares, use)
    if verdict == "none" and not use.is_split:
        missing = (
            "The record does not split steps into compute, network and waiting; neither data nor validation stand out."
        )
        return _nothing_known(missing, "Train with this version: it measures every step.")
    wastes = {**shares.wastes, "compute": shares.compute}
    found = confidence_from(use.num_steps)
    return Answer(
        id="bottleneck",
        question=QUESTION,
        verdict=verdict,
        sentence=_sentence(record, use, verdict, shares, slow),
        evidence=(
            *(share_figure(f"{name}_share", f"{_LABELS[name]}, of the useful time", wastes[name]) for name in _LABELS),
            share_figure("exchange_share", "exchange between ranks, of the useful time", shares.exchange),
            figure(
                "useful_seconds", "useful time: steps that count, and what lies between them", use.useful_seconds, "s"
            ),
            figure("start_seconds", "left out: start-up of all attempts", use.start_seconds, "s"),
            figure("lost_seconds", "left out: steps that were done again", use.lost_seconds, "s"),
            figure(
                "gain", "without it, training would be so many times as fast", _gain(shares.wastes.get(verdict, 0.0))
            ),
            figure("slow_rank", "the rank that others wait for", slow.name if slow else None),
        ),
        confidence=found if use.source == "steps" and use.is_split else lower(found),
        would_change=_change(record, use, verdict, wastes.get(verdict, 0.0), slow),
    )


_LABELS = {
    "compute": "compute and optimizer",
    "network": "waiting for the network",
    "data": "waiting for data",
    "slow_rank": "waiting for a slow rank",
    "validation": "validation",
    "checkpoints": "waiting for checkpoints",
}


def _nothing_known(missing: str, cure: str) -> Answer:
    return replace(unknown("bottleneck", QUESTION, missing, cure), verdict="none")


def _verdict(shares: Shares, use: TimeUse) -> str:
    name, share = next(iter(shares.wastes.items()))
    if share >= WASTE_SHARE:
        return name
    return "compute" if use.is_split and shares.compute >= _COMPUTE_SHARE else "none"


def _gain(share: float) -> float | None:
    return 1 / (1 - share) if 0 < share < 0.999 else None


def _sentence(record: Record, use: TimeUse, verdict: str, shares: Shares, slow: SlowRank | None) -> str:
    parts = [f"compute {percent(shares.compute)}"] if use.is_split else []
    parts += [f"{_LABELS[name]} {percent(share)}" for name, share in shares.wastes.items() if share >= 0.01]
    division = f"useful time went into {', '.join(parts)}" if parts else "nothing stands out"
    if verdict == "none":
        exchange = ""
        if shares.exchange > shares.network and shares.exchange >= WASTE_SHARE:
            exchange = f"; the exchange between the ranks of the one host took {percent(shares.exchange)}"
        return f"Nothing stands out: {division}{exchange}."
    if verdict == "slow_rank":
        return f"{_slow_words(slow, shares, use)}; {division}."
    subject = {
        "compute": "The arithmetic itself set the pace",
        "network": "The network held the run up",
        "data": "The ranks waited for data",
        "validation": f"Validation took {percent(shares.validation)} of the time ({_validation_words(record)})",
        "checkpoints": f"Training waited for {count(len(record.checkpoints), 'checkpoint')} to reach the disk",
    }[verdict]
    return f"{subject}: {division}."


def _slow_words(slow: SlowRank | None, shares: Shares, use: TimeUse) -> str:
    if slow is None:
        return (
            f"A rank whose record is missing is slow: the others waited for it {percent(shares.slow_rank)} of the time"
        )
    per_step = slow.seconds / max(use.num_steps, 1)
    return (
        f"The others waited {seconds(per_step)} a step for {slow.name}, which came last in "
        f"{percent(slow.share_of_steps)} of the steps: {_LONGER[slow.part]}"
    )


def _validation_words(record: Record) -> str:
    times_taken = [look.seconds for look in record.validations if look.seconds is not None]
    each = f" of {seconds(float(np.median(times_taken)))}" if times_taken else ""
    return f"{count(len(record.validations), 'validation')}{each}"


def _change(record: Record, use: TimeUse, verdict: str, share: float, slow: SlowRank | None) -> str:
    """The one that helps most, with the gain to expect."""
    gain = f"up to {_gain(share) or 1:.2g} times as fast"
    if verdict == "network":
        factor = times(tokens_factor(use.seen["communication"] / max(use.step_seconds, 1e-9)))
        now = _setting(record, "tokens_per_step")
        return f"A faster link, or {factor} the tokens in each step (training.tokens_per_step{now}): {gain}."
    if verdict == "data":
        return f"A faster disk for the data folder, or more processor cores for the loader: {gain}."
    if verdict == "slow_rank":
        return f"Free {slow.name if slow else 'the slow rank'} of other work, cool it, or replace it: {gain}."
    if verdict == "validation":
        return f"{_more_seldom(record, 'validate_every', share)}: {gain}."
    if verdict == "checkpoints":
        return f"A faster disk. {_more_seldom(record, 'checkpoint_every', share)}: {gain}."
    if verdict == "compute":
        devices = "Faster devices, or more of them: no waste that the record shows would bring as much as a quarter."
        return _unused_bf16(record) + devices
    return f"A waste of {percent(WASTE_SHARE)} of the useful time or more would be named here."


def _unused_bf16(record: Record) -> str:
    """What processors would do faster that compute in float32, as they do unless they are told otherwise."""
    attempt = main_attempt(record)
    fields = {} if attempt is None else attempt.fields
    is_plain = fields.get("device") == "CPU" and fields.get("precision") == "fp32"
    hosts_have_it = [event.get("cpu_has_bf16") is True for event in record.hardware.values()]
    if not is_plain or not hosts_have_it or not all(hosts_have_it):
        return ""
    return 'training.precision = "bf16" in a new run: these processors have instructions for it. '


def _more_seldom(record: Record, name: str, share: float) -> str:
    factor = share / max(1 - share, 1e-3) * (1 - _FAIR_SHARE) / _FAIR_SHARE
    fair, now = percent(_FAIR_SHARE), _setting(record, name)
    return f"A training.{name} {times(factor)} as large{now} would bring it down to {fair}"


def _setting(record: Record, name: str) -> str:
    attempt = main_attempt(record)
    value = whole(attempt.training, name) if attempt else None
    return f" ({value:,} now)" if value else ""
