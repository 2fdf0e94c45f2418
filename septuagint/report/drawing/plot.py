"""What a picture of the report is, and what all of them share: the axis of steps, restarts, lines for many ranks."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from septuagint.report.drawing.axes import Axis
from septuagint.report.drawing.charts import Series
from septuagint.report.drawing.picture import NO_DATA, Chart
from septuagint.report.drawing.thinning import MAX_POINTS, bin_means, bins_of, in_order
from septuagint.report.reading.fields import Floats
from septuagint.report.reading.record import Record

# More lines than this nobody can tell apart.
_MAX_LINES = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A picture, what it shows, and how to read it."""

    id: str
    title: str
    caption: str
    chart: Chart


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """A picture that there is not, and why."""

    title: str
    reason: str


def drawn(id: str, title: str, caption: str, chart: Chart, *, else_reason: str) -> Plot | Missing:
    """The plot, with what its chart has to say added to the caption; or why there is nothing to draw."""
    if chart is NO_DATA:
        return Missing(title=title, reason=else_reason)
    return Plot(id=id, title=title, caption=" ".join((caption, *chart.notes)), chart=chart)


def steps_axis(*records: Record) -> Axis:
    """The same for all plots, so that they can be laid side by side: from 0, unless the beginning is not known."""
    ends = [(table.step[0], table.step[-1]) for record in records for table in record.steps.values() if len(table)]
    ends += [(record.train.step[0], record.train.step[-1]) for record in records if len(record.train)]
    if not ends:
        return Axis(label="step", is_whole=True)
    first, last = min(float(first) for first, _ in ends), max(float(last) for _, last in ends)
    return Axis(label="step", is_whole=True, span=(0.0 if first < last / 4 else first, last))


def restarts(record: Record) -> list[float]:
    """The steps from which later attempts went on."""
    return [float(attempt.start_step) for attempt in record.attempts[1:] if attempt.start_step is not None]


def values(numbers: list[float | None]) -> Floats:
    """NaN where there is no number."""
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)


def lines_for(named: Mapping[str, tuple[Floats, Floats]], first_color: int = 1) -> list[Series]:
    """A line for each; where they are many, the lowest, the middle and the highest of them all."""
    if len(named) <= _MAX_LINES:
        return [
            Series(name=name, x=x, y=y, color=color) for color, (name, (x, y)) in enumerate(named.items(), first_color)
        ]
    grid, rows = _on_one_grid(list(named.values()))
    of_all = f"of {len(named):,}"
    return [
        Series(name=f"highest {of_all}", x=grid, y=np.max(rows, axis=0, initial=-np.inf), color=2),
        Series(name=f"median {of_all}", x=grid, y=np.median(rows, axis=0), color=1),
        Series(name=f"lowest {of_all}", x=grid, y=np.min(rows, axis=0, initial=np.inf), color=3),
    ]


def _on_one_grid(lines: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """(x, one row a line): means of the same bins of x; where a line has no number, that of its neighbours."""
    xs = np.concatenate([x for x, _ in lines])
    places = np.concatenate([np.full(len(x), index) for index, (x, _) in enumerate(lines)])
    xs, ys, places = in_order(xs, np.concatenate([y for _, y in lines]), places)
    if not len(xs):
        return xs, np.zeros((1, 0))
    bins = bins_of(xs, MAX_POINTS)
    grid = bin_means(xs, bins)
    rows = []
    for index in range(len(lines)):
        means = bin_means(np.where(places == index, ys, np.nan), bins)
        is_number = np.isfinite(means)
        if is_number.any():
            rows.append(np.interp(grid, grid[is_number], means[is_number]))
    return grid, np.array(rows) if rows else np.zeros((1, 0))
