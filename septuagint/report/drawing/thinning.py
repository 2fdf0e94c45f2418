"""Long series made short enough to draw, without losing the spikes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from septuagint.report.reading.fields import Floats, Integers

# A plot is about 370 units wide: more points than that nobody can see.
MAX_POINTS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Thinned:
    """Means of bins, and the lowest and highest value of each. NaN where a bin has no number: the line has a gap."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    num_each: float = 1.0  # values behind each point

    @property
    def is_thinned(self) -> bool:
        """Whether points are means."""
        return self.num_each > 1


def in_order(x: Floats, *ys: Floats) -> tuple[Floats, ...]:
    """Points sorted by x; those whose x is no number are left out, and a y that is not finite becomes NaN."""
    order = np.argsort(x, kind="stable")
    order = order[np.isfinite(x[order])]
    return x[order], *(np.where(np.isfinite(y[order]), y[order], np.nan) for y in ys)


def thin(x: Floats, y: Floats, max_points: int = MAX_POINTS) -> Thinned:
    """At most `max_points` points. A short series stays as it is."""
    x, y = in_order(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    if len(x) <= max_points:
        return Thinned(x=x, mean=y, low=y, high=y)
    bins = bins_of(x, max_points)
    begins = np.flatnonzero(np.diff(bins, prepend=-1))
    low = np.fmin.reduceat(y, begins)
    high = np.fmax.reduceat(y, begins)
    return Thinned(x=bin_means(x, bins), mean=bin_means(y, bins), low=low, high=high, num_each=len(x) / len(begins))


def pick(y: Floats, max_points: int = MAX_POINTS) -> Integers:
    """Places of some of the points, the highest and the lowest among them: for a curve that is smooth by nature."""
    places = np.linspace(0, len(y) - 1, min(len(y), max_points - 2)).astype(np.int64)
    finite = np.flatnonzero(np.isfinite(y))
    extremes = [finite[y[finite].argmax()], finite[y[finite].argmin()]] if len(finite) else []
    return np.union1d(places, np.array(extremes, dtype=np.int64))


def bins_of(x: Floats, max_bins: int) -> Integers:
    """The bin of each point: equal widths of x, counted from 0, the empty ones left out. `x` is in order."""
    width = x[-1] - x[0] or 1.0
    raw = np.minimum((max_bins * ((x - x[0]) / width)).astype(np.int64), max_bins - 1)
    return np.cumsum(np.diff(raw, prepend=raw[:1]) > 0, dtype=np.int64)


def bin_means(y: Floats, bins: Integers) -> Floats:
    """The mean of the numbers in each bin; NaN where it has none."""
    is_number = np.isfinite(y)
    counts = np.bincount(bins[is_number], minlength=bins[-1] + 1)
    sums = np.bincount(bins[is_number], weights=y[is_number], minlength=bins[-1] + 1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def means_per_x(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """One point for each x: the mean of those that share it."""
    x, y = in_order(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    if not len(x):
        return x, y
    bins = np.cumsum(np.diff(x, prepend=x[:1]) > 0, dtype=np.int64)
    return bin_means(x, bins), bin_means(y, bins)


@dataclass(frozen=True, kw_only=True, slots=True)
class Crowd:
    """Points of a scatter plot, one for each small cell that has any, with the number it stands for."""

    x: Floats
    y: Floats
    count: Integers


def gather(x: Floats, y: Floats, max_points: int = 500) -> Crowd:
    """Neighbours become one point; a point far from all others keeps its place."""
    is_number = np.isfinite(x) & np.isfinite(y)
    x, y = x[is_number], y[is_number]
    if not len(x):
        return Crowd(x=x, y=y, count=np.zeros(0, dtype=np.int64))
    num_columns = 96
    while True:
        cells = _cell(x, num_columns) * num_columns + _cell(y, num_columns)
        found, places, count = np.unique(cells, return_inverse=True, return_counts=True)
        if len(found) <= max_points:
            places = places.reshape(-1)
            mean_x = np.bincount(places, weights=x) / count
            return Crowd(x=mean_x, y=np.bincount(places, weights=y) / count, count=count)
        num_columns = num_columns * 3 // 4


def _cell(values: Floats, num_cells: int) -> Integers:
    width = np.ptp(values) or 1.0
    cells: NDArray[np.int64] = np.minimum(
        (num_cells * ((values - values.min()) / width)).astype(np.int64), num_cells - 1
    )
    return cells
