"""Curves through points: a line with its error, a decay that projects, and how two series go together."""

from dataclasses import dataclass, replace

import numpy as np

from septuagint.report.reading.fields import Floats

# What is tried as c in a + b · step^-c. Translation losses lie between a tenth (nearly a logarithm) and two.
_EXPONENTS = np.arange(0.1, 2.01, 0.05)
# A decay is fitted from a quarter of the way on: the first steps fall by another law. Where what is left still falls
# more steeply than any law that is tried, from half of the way on.
_FITTED_SHARES = (0.25, 0.5)
_MIN_POINTS = 4
# Of a curve that falls with 1/√step, which is in the middle of what is seen, a doubling brings so much of the last one.
_NEXT_DOUBLING = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Least squares through points."""

    slope: float
    slope_error: float  # standard error

    @property
    def is_rising(self) -> bool:
        """Beyond its noise."""
        return self.slope > 2 * self.slope_error

    @property
    def is_falling(self) -> bool:
        """Beyond its noise."""
        return -self.slope > 2 * self.slope_error


@dataclass(frozen=True, kw_only=True, slots=True)
class Projection:
    """By how much a falling curve will have fallen at twice the steps, and between which bounds (about 95%)."""

    fall: float
    least: float
    most: float
    exponent: float | None  # None: from the fall between the last two points
    num_points: int

    def at_most(self, room: float) -> "Projection":
        """The same, where a curve cannot fall by more than this."""
        return replace(self, fall=min(self.fall, room), least=min(self.least, room), most=min(self.most, room))


def fit_line(x: Floats, y: Floats) -> Line | None:
    """None for fewer than three points, or points at one place."""
    if len(x) < 3:
        return None
    deviation = x - x.mean()
    spread = float(deviation @ deviation)
    if spread <= 0:
        return None
    slope = float(deviation @ y) / spread
    residual = y - y.mean() - slope * deviation
    variance = float(residual @ residual) / (len(x) - 2)
    return Line(slope=slope, slope_error=float(np.sqrt(variance / spread)))


def noise(y: Floats) -> float:
    """The standard deviation of single points around a smooth curve, whatever curve it is.

    From second differences, which a smooth curve leaves small; their median, so that a bend does not count.
    """
    if len(y) < 4:
        return 0.0
    second = y[:-2] - 2 * y[1:-1] + y[2:]
    return float(1.4826 * np.median(np.abs(second)) / np.sqrt(6))


def project(steps: Floats, values: Floats) -> Projection | None:
    """Where a falling curve goes: a + b · step^-c with the best c; of two or three points, the last doubling again."""
    if len(steps) < 2 or steps[-1] <= 0:
        return None
    if len(steps) < _MIN_POINTS:
        return _last_doubling(steps, values)
    found = None
    for share in _FITTED_SHARES:
        is_late = steps >= share * steps[-1]
        if np.count_nonzero(is_late) < _MIN_POINTS:
            is_late = np.arange(len(steps)) >= len(steps) - _MIN_POINTS
        found = _decay(steps[is_late & (steps > 0)], values[is_late & (steps > 0)])
        if found is None or (found.exponent or 0.0) < _EXPONENTS[-1]:
            break
    return found


def _last_doubling(steps: Floats, values: Floats) -> Projection | None:
    if steps[-2] <= 0 or steps[-2] >= steps[-1]:
        return None
    fall = float((values[-2] - values[-1]) / np.log2(steps[-1] / steps[-2]))
    bounds = sorted((fall / 2, fall))
    return Projection(fall=_NEXT_DOUBLING * fall, least=bounds[0], most=bounds[1], exponent=None, num_points=len(steps))


def _decay(steps: Floats, values: Floats) -> Projection | None:
    count = len(steps)
    if count < _MIN_POINTS or steps[0] == steps[-1]:
        return None
    errors, falls, spreads = [], [], []
    for exponent in _EXPONENTS:
        shape = (steps / steps[-1]) ** -exponent
        deviation = shape - shape.mean()
        spread = float(deviation @ deviation) or 1e-300
        scale = float(deviation @ values) / spread
        residual = values - values.mean() - scale * deviation
        errors.append(float(residual @ residual))
        falls.append(scale * (1 - 2**-exponent))
        spreads.append((1 - 2**-exponent) / np.sqrt(spread))
    return _bounded(np.array(errors), np.array(falls), np.array(spreads), count)


def _bounded(errors: Floats, falls: Floats, spreads: Floats, count: int) -> Projection:
    """The best exponent, and the bounds over all that fit nearly as well."""
    best = int(np.argmin(errors))
    deviation = np.sqrt(errors[best] / max(1, count - 3))
    fits = errors <= errors[best] * (1 + 4 / max(1, count - 3)) + 1e-18
    return Projection(
        fall=float(falls[best]),
        least=float((falls - 2 * deviation * spreads)[fits].min()),
        most=float((falls + 2 * deviation * spreads)[fits].max()),
        exponent=float(_EXPONENTS[best]),
        num_points=count,
    )


def pearson(x: Floats, y: Floats) -> float | None:
    """The correlation coefficient; None where one of the two does not vary."""
    if len(x) < 3:
        return None
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt(x @ x) * np.sqrt(y @ y))
    return float(np.clip(x @ y / scale, -1, 1)) if scale > 0 else None


def spearman(x: Floats, y: Floats) -> float | None:
    """The same of the ranks: whether one grows with the other, in whatever way."""
    return pearson(_ranks(x), _ranks(y))


def _ranks(values: Floats) -> Floats:
    """Places in the order; equal values share theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places].astype(np.float64)


def variation(values: Floats) -> float:
    """The standard deviation as a share of the mean."""
    mean = float(values.mean()) if len(values) else 0.0
    return float(values.std() / mean) if mean > 0 else 0.0
