"""Where the time of a run went, over all ranks and attempts.

A step takes all ranks the same time; they differ in what they did with it. The rank that arrives last never waits: who
wants to know what a slow rank costs must look at the others. So there are two accounts of the time in steps: `own`, the
mean of all ranks (what the processors did), and `seen`, the mean of the ranks that were not last (what the step waited
for). Both add up to the time in steps.
"""

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from septuagint.report.reading.attempts import Attempt
from septuagint.report.reading.fields import Floats
from septuagint.report.reading.record import Record
from septuagint.report.reading.step_table import StepTable
from septuagint.telemetry.events import STEP_PARTS

# What a rank does before it meets the others: one of these is longer on the rank that comes last.
_BEFORE_MEETING = ("data_wait", "to_device", "compute", "rest")
# A rank is slow when the others wait for it most of the time that they wait, and in most steps: jitter goes around.
_SLOW_SHARE_OF_WAITS = 2 / 3
_SLOW_SHARE_OF_STEPS = 0.5


@dataclass(slots=True)
class TimeUse:
    """Seconds, all attempts together. Start-up and steps that were done again stand apart."""

    source: str = "steps"  # "steps": each one was measured; "train": means of the log; "none"
    is_split: bool = False  # whether compute, network and waiting are told apart
    num_steps: int = 0
    step_seconds: float = 0.0
    own: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEP_PARTS, 0.0))
    seen: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEP_PARTS, 0.0))
    outside: dict[str, float] = field(default_factory=dict)  # validation, checkpoint ... but not the start
    start_seconds: float = 0.0
    lost_seconds: float = 0.0  # in steps that were done again
    num_lost_steps: int = 0
    waited_for: dict[int, float] = field(default_factory=dict)  # seconds that the others waited, by rank
    was_last: dict[int, int] = field(default_factory=dict)  # steps, by rank
    longer: dict[int, dict[str, float]] = field(default_factory=dict)  # the same seconds by rank and part: in what

    @property
    def useful_seconds(self) -> float:
        """In steps that count, and in what belongs to training between them."""
        return self.step_seconds + sum(self.outside.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowRank:
    """A rank, or all ranks of a host, for which the others wait."""

    name: str  # rank 1 on host beta
    seconds: float
    share_of_steps: float  # in which it came last
    part: str  # in which it took longer than the others


def time_use(record: Record) -> TimeUse:
    """From the steps where each was measured, else from the means in the log."""
    use = TimeUse()
    for number in sorted({int(number) for table in record.steps.values() for number in np.unique(table.attempt)}):
        _add_steps(use, {rank: table.select(table.attempt == number) for rank, table in record.steps.items()})
    if use.num_steps == 0:
        _add_log(use, record)
    _add_outside(use, record)
    _move_compiling(use, record)
    lost = [table for table in record.lost_steps.values() if len(table)]
    if lost:
        use.lost_seconds = float(np.mean([table.wall.sum() for table in lost]))
        use.num_lost_steps = max(map(len, lost))
    return use


def _add_steps(use: TimeUse, tables: dict[int, StepTable]) -> None:
    """The steps of one attempt, as far as all ranks that have any tell of them."""
    tables = {rank: table for rank, table in tables.items() if len(table)}
    common = reduce(np.intersect1d, [table.step for table in tables.values()])
    if len(common) == 0:
        lowest = min(tables)
        tables, common = {lowest: tables[lowest]}, tables[lowest].step
    ranks = sorted(tables)
    rows = {rank: tables[rank].select(np.searchsorted(tables[rank].step, common)) for rank in ranks}
    use.is_split = True
    use.num_steps += len(common)
    use.step_seconds += float(np.mean([rows[rank].wall.sum() for rank in ranks]))
    waits = np.stack([rows[rank].straggler_wait for rank in ranks])
    last = waits.argmin(axis=0)
    excess: dict[str, Floats] = {}
    for part in STEP_PARTS:
        values = np.stack([rows[rank].part(part) for rank in ranks])
        use.own[part] += float(values.mean(axis=0).sum())
        others, of_last = _others(values, last)
        use.seen[part] += float(others.sum())
        excess[part] = np.maximum(of_last - others, 0.0)
    if len(ranks) > 1:
        _add_waits(use, ranks, last, _others(waits, last)[0], excess)


def _others(values: Floats, last: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> tuple[Floats, Floats]:
    """(mean of the ranks that were not last, of the one that was); the same twice for one rank. Rows are ranks."""
    of_last: Floats = values[last, np.arange(values.shape[1])]
    if len(values) == 1:
        return of_last, of_last
    return (values.sum(axis=0) - of_last) / (len(values) - 1), of_last


def _add_waits(
    use: TimeUse,
    ranks: list[int],
    last: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    waits: Floats,
    excess: dict[str, Floats],
) -> None:
    total = sum((excess[part] for part in _BEFORE_MEETING), np.zeros(len(waits)))
    scale = np.divide(waits, total, out=np.zeros(len(waits)), where=total > 0)
    seconds = np.bincount(last, weights=waits, minlength=len(ranks))
    steps = np.bincount(last, minlength=len(ranks))
    for place, rank in enumerate(ranks):
        use.waited_for[rank] = use.waited_for.get(rank, 0.0) + float(seconds[place])
        use.was_last[rank] = use.was_last.get(rank, 0) + int(steps[place])
        longer = use.longer.setdefault(rank, dict.fromkeys(_BEFORE_MEETING, 0.0))
        for part in _BEFORE_MEETING:
            longer[part] += float((excess[part] * scale)[last == place].sum())


def _add_log(use: TimeUse, record: Record) -> None:
    """The means of the lines of the log, each for the steps since the line before."""
    train = record.train
    counts = steps_of_lines(record)
    use.source = "train" if len(train) else "none"
    is_told = np.isfinite(train.seconds_per_step) & (train.seconds_per_step >= 0)
    use.num_steps = int(counts[is_told].sum())
    use.step_seconds = float((counts * train.seconds_per_step)[is_told].sum())
    use.is_split = bool(np.isfinite(train.communication_seconds_per_step).any())
    for part in STEP_PARTS:
        values = getattr(train, f"{part}_seconds_per_step")
        is_known = is_told & np.isfinite(values) & (values >= 0)
        use.own[part] = use.seen[part] = float((counts * values)[is_known].sum())


def steps_of_lines(record: Record) -> Floats:
    """How many steps each line of the log is the mean of."""
    train = record.train
    if not len(train):
        return np.zeros(0)
    starts = {attempt.number: attempt.start_step or 0 for attempt in record.attempts}
    before = np.concatenate([[starts.get(int(train.attempt[0]), 0)], train.step[:-1]])
    counts: Floats = np.maximum(train.step - before, 0).astype(np.float64)
    return counts


def _add_outside(use: TimeUse, record: Record) -> None:
    """What passed between steps: the mean of the ranks that tell, attempt by attempt."""
    told: dict[tuple[int, str], list[float]] = {}
    for attempts in record.outside.values():
        for number, parts in attempts.items():
            for part, seconds in parts.items():
                told.setdefault((number, part), []).append(seconds)
    for (_, part), values in told.items():
        if part == "start":
            use.start_seconds += float(np.mean(values))
        else:
            use.outside[part] = use.outside.get(part, 0.0) + float(np.mean(values))
    if use.source == "train" and not told:
        use.outside["validation"] = sum(max(0.0, look.seconds or 0.0) for look in record.validations)


def _move_compiling(use: TimeUse, record: Record) -> None:
    """The first validation of an attempt compiles its search: what it takes beyond the others belongs to the start."""
    compiled = {attempt.number for attempt in record.attempts if attempt.fields.get("is_compiled") is True}
    looks = [look for look in record.validations if look.attempt in compiled and look.seconds is not None]
    firsts = {look.attempt: look for look in reversed(looks)}
    others = [look.seconds for look in looks if look is not firsts[look.attempt] and look.seconds is not None]
    if not others:
        return
    usual = float(np.median(others))
    excess = sum(max(0.0, (look.seconds or 0.0) - usual) for look in firsts.values())
    excess = min(excess, use.outside.get("validation", 0.0))
    use.outside["validation"] = use.outside.get("validation", 0.0) - excess
    use.start_seconds += excess


def slow_rank(record: Record, use: TimeUse) -> SlowRank | None:
    """The rank, or the host, that is last most of the time; None where it is now one and now another."""
    total, steps = sum(use.waited_for.values()), sum(use.was_last.values())
    if total <= 0 or steps == 0:
        return None
    hosts = {rank.rank: rank.host for attempt in record.attempts for rank in attempt.ranks}
    groups = {_name(rank, hosts): [rank] for rank in use.waited_for}
    if len(set(hosts.values())) > 1:
        for rank in use.waited_for:
            groups.setdefault(f"host {hosts.get(rank)}", []).append(rank)
    for name, ranks in groups.items():  # ranks come first: the smallest that explains it
        seconds, times = sum(use.waited_for[rank] for rank in ranks), sum(use.was_last[rank] for rank in ranks)
        if seconds >= _SLOW_SHARE_OF_WAITS * total and times > _SLOW_SHARE_OF_STEPS * steps:
            longer = {part: sum(use.longer[rank][part] for rank in ranks) for part in _BEFORE_MEETING}
            part = max(longer, key=lambda part: longer[part])
            return SlowRank(name=name, seconds=seconds, share_of_steps=times / steps, part=part)
    return None


def _name(rank: int, hosts: dict[int, str]) -> str:
    return f"rank {rank} on host {hosts[rank]}" if hosts.get(rank) else f"rank {rank}"


def main_attempt(record: Record) -> Attempt | None:
    """The attempt that did most of the steps that count: its settings and machines stand for the run."""
    if not record.attempts:
        return None
    table = record.steps[min(record.steps)] if record.steps else None
    numbers = record.train.attempt if table is None or not len(table) else table.attempt
    done = {attempt.number: int(np.count_nonzero(numbers == attempt.number)) for attempt in record.attempts}
    return max(record.attempts, key=lambda attempt: (bool(attempt.ranks), done[attempt.number], attempt.number))
