"""The frame of a plot: round ticks, labels that do not collide, and the way from a number to its place.

A picture is 440 units wide and is shown between 300 and 560 pixels wide: text of 12 units (up to 15.5 on a phone, by
the page's style sheet) can be read in all of them. Room is kept for the larger one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from septuagint.report.drawing.markup import text_of
from septuagint.report.quantities import plain
from septuagint.report.reading.fields import Floats

WIDTH, HEIGHT = 440, 264
_TOP, _BOTTOM = 30, 44
# Of one character in the larger size of text: digits are all as wide as this, most letters narrower.
_CHARACTER = 9.0
# What is less is nothing: such numbers have hardly a digit left to divide by.
_LEAST = 1e-300
_MAX_Y_TICKS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """What one direction of a plot shows."""

    label: str
    is_log: bool = False
    from_zero: bool = False
    is_whole: bool = False  # counts: no ticks between whole numbers
    span: tuple[float, float] | None = None  # at least from here to there


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """From numbers to places between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, values: Floats) -> Floats:
        """Numbers beyond the scale stand at its edge. NaN stays NaN."""
        low, high = self.low, self.high
        if self.is_log:
            values = np.log(np.maximum(values, self.low))
            low, high = math.log(low), math.log(high)
        share = np.clip((values - low) / (high - low), 0.0, 1.0)
        return self.start + share * (self.end - self.start)

    def at(self, value: float) -> float:
        """The place of one number."""
        return float(self.place(np.array([value]))[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """Both scales, and the markup of the axes."""

    x: Scale
    y: Scale
    markup: str


def coordinate(value: float) -> str:
    """A place, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def make_frame(x: Axis, xs: tuple[float, float], y: Axis, ys: tuple[float, float]) -> Frame:
    """Axes for numbers between `xs` and `ys` (lowest, highest). x is always linear."""
    y_low, y_high, y_ticks = _extent(y, *ys)
    y_labels = [plain(tick) for tick in y_ticks] if y.is_log else tick_labels(y_ticks)
    left = max(map(len, y_labels)) * _CHARACTER + 8
    x_low, x_high = _apart(*_spanned(x, *xs))
    widest = max(map(len, tick_labels([x_low, x_high], decimals=0)))
    max_x_ticks = int(min(7, (WIDTH - left) / (widest * _CHARACTER + 18)))
    if x.span is None and not x.is_whole:
        x_low, *_, x_high = ticks(x_low, x_high, max(2, max_x_ticks))
    x_ticks = [
        tick for tick in ticks(x_low, x_high, max(2, max_x_ticks), is_whole=x.is_whole) if x_low <= tick <= x_high
    ]
    x_labels = tick_labels(x_ticks)
    right = max(10.0, len(x_labels[-1]) * _CHARACTER / 2 if x_labels else 0.0)
    x_scale = Scale(low=x_low, high=x_high, start=left, end=WIDTH - right)
    y_scale = Scale(low=y_low, high=y_high, start=HEIGHT - _BOTTOM, end=_TOP, is_log=y.is_log)
    end = coordinate(x_scale.end)
    parts = [
        f'<text class="label" x="0" y="14">{text_of(y.label)}</text>',
        f'<text class="label" x="{end}" y="{HEIGHT - 5}" text-anchor="end">{text_of(x.label)}</text>',
        *_y_marks(y_ticks, y_labels, x_scale, y_scale),
        *_x_marks(x_ticks, x_labels, x_scale, y_scale),
    ]
    return Frame(x=x_scale, y=y_scale, markup="".join(parts))


def _y_marks(values: Sequence[float], labels: Sequence[str], x: Scale, y: Scale) -> list[str]:
    lines = "".join(
        f"M{coordinate(x.start)} {coordinate(y.at(value))}H{coordinate(x.end)}" for value in values if value != y.low
    )
    texts = [
        f'<text x="{coordinate(x.start - 6)}" y="{coordinate(y.at(value) + 4)}" text-anchor="end">{label}</text>'
        for value, label in zip(values, labels, strict=True)
    ]
    return [f'<path class="grid" d="{lines}"/>', *texts] if lines else texts


def _x_marks(values: Sequence[float], labels: Sequence[str], x: Scale, y: Scale) -> list[str]:
    base = coordinate(y.start)
    lines = "".join(f"M{coordinate(x.at(value))} {base}v4" for value in values)
    texts = [
        f'<text x="{coordinate(x.at(value))}" y="{coordinate(y.start + 18)}" text-anchor="middle">{label}</text>'
        for value, label in zip(values, labels, strict=True)
    ]
    return [f'<path class="axis" d="M{coordinate(x.start)} {base}H{coordinate(x.end)}{lines}"/>', *texts]


def _extent(axis: Axis, low: float, high: float) -> tuple[float, float, list[float]]:
    """(lowest, highest, ticks): a linear axis begins and ends at a tick."""
    if axis.is_log:
        low, high = max(low, _LEAST), max(high, _LEAST)
        low, high = (low / 1.15, high * 1.15) if low < high else (low / 2, high * 2)
        return low, high, log_ticks(low, high)
    low, high = _apart(*_spanned(axis, low, high))
    found = ticks(low, high, _MAX_Y_TICKS, is_whole=axis.is_whole)
    return found[0], found[-1], found


def _spanned(axis: Axis, low: float, high: float) -> tuple[float, float]:
    ends = [low, high, *(axis.span or ()), *([0.0] if axis.from_zero else [])]
    return min(ends), max(ends)


def _apart(low: float, high: float) -> tuple[float, float]:
    """A range that has a width: numbers that are all the same stand in its middle, or at its foot when they are 0."""
    largest = max(abs(low), abs(high))
    if high - low > max(1e-9 * largest, _LEAST):
        return low, high
    return (low - abs(low) / 2, high + abs(high) / 2) if largest > _LEAST else (0.0, 1.0)


def ticks(low: float, high: float, max_ticks: int, *, is_whole: bool = False) -> list[float]:
    """Round numbers at equal distances, from below `low` to above `high`."""
    distance = (high - low) / max(1, max_ticks - 1)
    size = 10.0 ** math.floor(math.log10(distance))
    steps = (size * factor for factor in (1, 2, 2.5, 5, 10, 20, 25, 50))
    for step in steps:
        is_fine = not is_whole or (step >= 1 and step == round(step))
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if is_fine and last - first + 1 <= max_ticks:
            return [step * index for index in range(first, last + 1)]
    step = max(1.0, 100 * size)
    return [step * index for index in range(math.floor(low / step), math.ceil(high / step) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 between them where there is room; round numbers where the range is small."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / _MAX_Y_TICKS))
    for factors in ((1,), (1, 3), (1, 2, 5)):
        powers = range(first, last + 1, every)
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [tick for tick in found if low <= tick <= high]
        if len(found) >= 3:
            return found
    return [tick for tick in ticks(low, high, _MAX_Y_TICKS) if low <= tick <= high]


def tick_labels(values: Sequence[float], decimals: int | None = None) -> list[str]:
    """The same number of decimals for all, as few as tell them apart."""
    largest = max((abs(value) for value in values), default=0.0)
    if largest >= 1e7 or 0 < largest < 1e-3:
        return [_exponential(value) for value in values]
    if decimals is None:
        decimals = next((count for count in range(6) if all(_is_exact(value, count) for value in values)), 6)
    return [f"{value:,.{decimals}f}" for value in values]


def _is_exact(value: float, decimals: int) -> bool:
    return abs(round(value, decimals) - value) <= 1e-6 * max(abs(value), 10.0**-decimals)


def _exponential(value: float) -> str:
    if value == 0:
        return "0"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}"
