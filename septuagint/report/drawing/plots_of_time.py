"""Pictures of where the time went: of the whole run, of the steps along the way, and of each rank."""

from collections.abc import Sequence

import numpy as np

from septuagint.report.diagnosis.time_use import time_use
from septuagint.report.drawing.axes import Axis
from septuagint.report.drawing.bars import bar_chart
from septuagint.report.drawing.charts import Series, area_chart, line_chart
from septuagint.report.drawing.picture import Part
from septuagint.report.drawing.plot import Missing, Plot, drawn, lines_for, restarts, steps_axis
from septuagint.report.drawing.thinning import means_per_x
from septuagint.report.quantities import seconds, unit_for
from septuagint.report.reading.fields import Floats
from septuagint.report.reading.record import Record
from septuagint.report.reading.step_table import StepTable

# From the bottom of a stack to its top: useful work first, then what it waited for.
STEP_PARTS = {
    "compute": ("compute", 1),
    "optimizer": ("optimizer", 6),
    "communication": ("exchange of gradients", 2),
    "straggler_wait": ("waiting for the slowest rank", 4),
    "data_wait": ("waiting for data", 5),
    "to_device": ("copying to the device", 7),
    "rest": ("rest", 8),
}
OUTSIDE_PARTS = {
    "validation": ("validation", 3),
    "checkpoint": ("checkpoints", 7),
    "start": ("starting", 9),
    "lost": ("done again after a restart", 10),
    "other": ("samples, log, rest", 8),
}
_NO_STEPS = "the record has no times of single steps (`steps` events)"
_MAX_RANKS = 8


def seconds_by_part(record: Record) -> dict[str, float]:
    """Where the wall time of all attempts went, as the mean over ranks."""
    use = time_use(record)
    named = {part: use.outside.get(part, 0.0) for part in ("validation", "checkpoint")}
    other = sum(amount for part, amount in use.outside.items() if part not in named)
    return {**use.own, **named, "start": use.start_seconds, "lost": use.lost_seconds, "other": other}


def time_parts(spent: list[dict[str, float]]) -> list[Part]:
    """The pieces of a bar for each run: steps and what lies outside, small kin joined."""
    joined = [_joined(one) for one in spent]
    names = {
        **{part: STEP_PARTS[part] for part in ("compute", "optimizer", "communication", "straggler_wait", "data_wait")},
        **OUTSIDE_PARTS,
    }
    names["data_wait"] = ("data: waiting and copying", 5)
    return [
        Part(name=name, color=color, values=np.array([one[part] for one in joined]))
        for part, (name, color) in names.items()
    ]


def _joined(spent: dict[str, float]) -> dict[str, float]:
    joined = dict(spent)
    joined["data_wait"] += joined.pop("to_device")
    joined["other"] += joined.pop("rest")
    return joined


def plot_run(record: Record) -> Plot | Missing:
    """The whole run as one bar."""
    spent = seconds_by_part(record)
    title = "Where the time of the run went"
    return drawn(
        "run",
        title,
        f"All {seconds(sum(spent.values()))} of training, all attempts together, as the mean over ranks. Pauses "
        "between attempts are not in it.",
        bar_chart(title, [""], time_parts([spent]), "s"),
        else_reason=_NO_STEPS,
    )


def plot_step_split(record: Record) -> Plot | Missing:
    """The parts of a step along the way."""
    title = "Where the time of a step goes"
    if not any(map(len, record.steps.values())):
        return Missing(title=title, reason=_NO_STEPS)
    tables = list(record.steps.values())
    steps, wall = mean_of_ranks(tables, "wall")
    parts = {part: mean_of_ranks(tables, part)[1] for part in STEP_PARTS}
    factor, unit = unit_for(float(np.percentile(wall, 97)), "s")
    layers = [
        Part(name=name, color=color, values=parts[part] / factor)
        for part, (name, color) in STEP_PARTS.items()
        if parts[part].sum() > 0.002 * wall.sum()
    ]
    return drawn(
        "step_split",
        title,
        "Mean over ranks, stacked: the upper edge is the whole step. Validation and checkpoints are between steps. "
        "Parts below 0.2% are left out.",
        area_chart(title, steps, layers, steps_axis(record), Axis(label=f"{unit} per step"), restarts=restarts(record)),
        else_reason=_NO_STEPS,
    )


def plot_rank_times(record: Record) -> Plot | Missing:
    """What each rank worked in a step before it waited for the others."""
    title = "Step time of each rank, without waiting for others"
    tables = {rank: table for rank, table in record.steps.items() if len(table)}
    if len(tables) < 2:
        return Missing(title=title, reason="there is only one rank" if tables else _NO_STEPS)
    own = {rank: table.wall - table.communication - table.straggler_wait for rank, table in tables.items()}
    factor, unit = unit_for(float(np.percentile(np.concatenate(list(own.values())), 97)), "s")
    names = rank_names(record)
    lines = {names[rank]: (tables[rank].step.astype(float), own[rank] / factor) for rank in tables}
    return drawn(
        "rank_times",
        title,
        "The whole step is as long for one rank as for another, because they wait for each other. Here the waiting is "
        "taken out: a line above the others is the rank that all wait for.",
        line_chart(
            title,
            lines_for(lines),
            steps_axis(record),
            Axis(label=f"{unit} per step", from_zero=True),
            restarts=restarts(record),
            is_cut=True,
        ),
        else_reason=_NO_STEPS,
    )


def plot_rank_split(record: Record) -> Plot | Missing | None:
    """The parts of a step, rank by rank."""
    tables = {rank: table for rank, table in record.steps.items() if len(table)}
    if len(tables) < 2:
        return None
    title = "Where the time of a step goes, rank by rank"
    shown = _most_telling(tables)
    names = rank_names(record)
    parts = [
        Part(name=name, color=color, values=np.array([float(tables[rank].part(part).sum()) for rank in shown]))
        for part, (name, color) in STEP_PARTS.items()
    ]
    left_out = (
        f" The {len(shown)} of {len(tables):,} ranks that wait least and most." if len(shown) < len(tables) else ""
    )
    return drawn(
        "rank_split",
        title,
        f"All steps together. The rank that waits least for others is the one that they wait for.{left_out}",
        bar_chart(title, [names[rank] for rank in shown], parts),
        else_reason=_NO_STEPS,
    )


def plot_tokens(record: Record) -> Plot | Missing:
    """The speed of the whole world."""
    train = record.train
    x = train.step.astype(float)
    series = [
        Series(name="target tokens", x=x, y=train.target_tokens_per_second, color=1),
        Series(name="source tokens", x=x, y=train.source_tokens_per_second, color=2, is_dashed=True),
    ]
    title = "Tokens per second"
    return drawn(
        "tokens",
        title,
        "Real tokens of all ranks together, without padding; validation and checkpoints are not in it.",
        line_chart(
            title,
            series,
            steps_axis(record),
            Axis(label="tokens per second", from_zero=True),
            restarts=restarts(record),
            is_cut=True,
        ),
        else_reason="no line of the log (`train` event) has been recorded yet",
    )


def rank_names(record: Record) -> dict[int, str]:
    """Rank and host, as of the latest attempt that tells."""
    names = {rank: f"rank {rank}" for rank in record.steps}
    for attempt in record.attempts:
        names |= {found.rank: f"rank {found.rank} on {found.host}" for found in attempt.ranks if found.host}
    return names


def mean_of_ranks(tables: Sequence[StepTable], part: str) -> tuple[Floats, Floats]:
    """(steps, seconds): a column, as the mean over the ranks that have the step."""
    first = tables[0].step
    if all(np.array_equal(table.step, first) for table in tables):
        return first.astype(np.float64), sum((table.part(part) for table in tables), np.zeros(len(first))) / len(tables)
    steps = np.concatenate([table.step for table in tables]).astype(np.float64)
    return means_per_x(steps, np.concatenate([table.part(part) for table in tables]))


def useful_share(tables: Sequence[StepTable]) -> tuple[Floats, Floats]:
    """(steps, percent): the share of each step that is arithmetic of the model, over all ranks."""
    steps, wall = mean_of_ranks(tables, "wall")
    useful = mean_of_ranks(tables, "compute")[1] + mean_of_ranks(tables, "optimizer")[1]
    return steps, 100 * useful / np.maximum(wall, 1e-9)


def _most_telling(tables: dict[int, StepTable]) -> list[int]:
    """All ranks; of many those that wait least, whom the others wait for, and those that wait most."""
    if len(tables) <= _MAX_RANKS:
        return sorted(tables)
    by_waiting = sorted(tables, key=lambda rank: float(tables[rank].straggler_wait.mean()))
    return by_waiting[: _MAX_RANKS // 2] + by_waiting[-_MAX_RANKS // 2 :]
