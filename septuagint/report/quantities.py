"""Numbers with units, as people read them: 1.95 s, 117.4 MB/s, 4,562,102 lines."""

import math

from septuagint.report.answer import Figure

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
# Units that take a prefix when there are thousands of them.
_SCALED = ("B", "B/s", "bit/s", "FLOP/s", "FLOP")


def plain(value: float) -> str:
    """About four digits, with separators between thousands: 0.369, 26.4, 4,562,102, 9.88e-4."""
    if not math.isfinite(value):
        return "not a number"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 999.95:
        return f"{value:,.0f}"
    if size >= 1e-3:
        decimals = max(0, 3 - math.floor(math.log10(size)))
        return _without_zeros(f"{value:.{decimals}f}")
    digits, exponent = f"{value:.2e}".split("e")
    return f"{_without_zeros(digits)}e{int(exponent)}"


def quantity(value: float, unit: str = "") -> str:
    """A number with its unit, in the prefix that keeps it short."""
    if not math.isfinite(value):
        return "not a number"
    if unit == "s":
        return seconds(value)
    if unit == "%":
        return f"{plain(round(value, 1 if abs(value) >= 1 else 2))}%"
    if unit in _SCALED:
        factor, prefix = prefix_for(abs(value))
        return f"{plain(value / factor)} {prefix}{unit}"
    return f"{plain(value)} {unit}".rstrip()


def seconds(value: float) -> str:
    """Of a step or of a week: 12.3 ms, 1.95 s, 4 min 41 s, 48 min, 3 h 12 min, 2 d 03 h."""
    size = abs(value)
    if 0 < size < 0.09995:
        return f"{plain(1000 * value)} ms"
    if size < 119.95:
        return f"{_without_zeros(f'{value:.{2 if size < 10 else 1}f}')} s"
    if size < 599.5:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes} min {rest:02} s"
    minutes = round(value / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24:02} h"


def prefix_for(size: float) -> tuple[float, str]:
    """(what to divide by, the prefix) for the largest of some numbers."""
    return next(((factor, prefix) for factor, prefix in _PREFIXES if size >= factor), (1.0, ""))


def unit_for(size: float, unit: str) -> tuple[float, str]:
    """(what to divide by, the unit with its prefix) for an axis whose largest number is `size`."""
    if unit == "s" and 0 < size < 1:
        return 1e-3, "ms"
    if unit in _SCALED:
        factor, prefix = prefix_for(size)
        return factor, f"{prefix}{unit}"
    return 1.0, unit


def figure_text(figure: Figure) -> str:
    """The value of a piece of evidence with its unit."""
    value = figure.value
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return f"{value} {figure.unit}".strip()
    if isinstance(value, int) and figure.unit not in (*_SCALED, "s", "%"):
        return f"{value:,} {figure.unit.removesuffix('s') if value == 1 else figure.unit}".rstrip()
    return quantity(float(value), figure.unit)


def _without_zeros(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
