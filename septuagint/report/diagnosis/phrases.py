"""Words and numbers that several answers share."""

from collections.abc import Sequence

from septuagint.report.answer import Answer, Figure
from septuagint.report.quantities import quantity

# Steps from which on a share of time is known well, and from which on it is a first impression.
MANY_STEPS, SOME_STEPS = 200, 30


def percent(share: float) -> str:
    """A share of 1 as people read it."""
    value = 100 * share
    return f"{value:.0f}%" if abs(value) >= 10 else f"{value:.1f}%"


def bits(bytes_per_second: float) -> str:
    """A rate of the network, in the unit that ports are sold in."""
    value = 8 * bytes_per_second
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} bit/s"


def times(factor: float) -> str:
    """How often: 1.4 times."""
    return f"{factor:.1f} times" if factor < 10 else f"{factor:.0f} times"


def count(number: int, one: str, many: str | None = None) -> str:
    """1 step, 2 steps."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(words: Sequence[str], most: int = 4) -> str:
    """a, b and c."""
    words = [*words[:most], f"{len(words) - most:,} more"] if len(words) > most else list(words)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def seconds(value: float) -> str:
    """A time with its unit."""
    return quantity(value, "s")


def figure(name: str, label: str, value: float | int | str | bool | None, unit: str = "") -> Figure:
    """Evidence. Six digits of a measurement are enough; a count keeps all of its own."""
    if isinstance(value, float):
        value = int(value) if value.is_integer() else float(f"{value:.6g}")
    return Figure(name=name, label=label, value=value, unit=unit)


def share_figure(name: str, label: str, share: float | None) -> Figure:
    """Evidence that is a share of 1, shown in percent."""
    return figure(name, label, None if share is None else 100 * share, "%")


def unknown(id: str, question: str, missing: str, cure: str, evidence: Sequence[Figure] = ()) -> Answer:
    """Where the record cannot tell."""
    return Answer(
        id=id,
        question=question,
        verdict="unknown",
        sentence=missing,
        evidence=tuple(evidence),
        confidence="low",
        would_change=cure,
    )


def confidence_from(num_steps: int) -> str:
    """How far so many steps can be trusted."""
    return "high" if num_steps >= MANY_STEPS else "medium" if num_steps >= SOME_STEPS else "low"


def lower(confidence: str) -> str:
    """One less."""
    return {"high": "medium"}.get(confidence, "low")
