"""The curve of validations: how it ends, and whether it has turned."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from septuagint.report.diagnosis.fits import Line, Projection, fit_line, noise, project
from septuagint.report.reading.fields import Floats
from septuagint.report.reading.happenings import Validation

# Evaluations that are called the last ones: half of them, but enough for a slope and no more than a screenful.
_FEWEST_LAST, _MOST_LAST = 4, 10
# Of fewer, the neighbours of the lowest point belong to the bend itself.
_FEWEST_FOR_NEIGHBOURS = 6
# Two percent of perplexity. Less is not seen in translations.
NOTABLE_NATS = 0.02
# Of two or three validations the noise is not known; a rise must be plain to see.
_PLAIN_NATS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One measure over the steps at which it was taken; falling is good."""

    steps: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def noise(self) -> float:
        """Of a single point."""
        return noise(self.values)

    @property
    def last_line(self) -> Line | None:
        """Through the last evaluations."""
        count = min(_MOST_LAST, max(_FEWEST_LAST, len(self) // 2))
        return fit_line(self.steps[-count:], self.values[-count:])

    def projection(self, lowest: float) -> Projection | None:
        """To twice the steps; it cannot fall below `lowest`."""
        found = project(self.steps, self.values)
        return None if found is None else found.at_most(max(0.0, float(self.values[-1]) - lowest))


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """The lowest point, and how far the end lies above it."""

    place: int
    step: int
    lowest: float
    rise: float
    is_beyond_noise: bool


def curve_of(validations: Sequence[Validation], field: str, *, sign: float = 1.0) -> Curve:
    """A field of the validations that have it; `sign` -1 turns a score into something that falls."""
    points = {look.step: getattr(look, field) for look in validations if look.step > 0}
    known = sorted((step, value) for step, value in points.items() if value is not None)
    return Curve(
        steps=np.array([step for step, _ in known], dtype=np.float64),
        values=sign * np.array([value for _, value in known], dtype=np.float64),
    )


def turn_of(curve: Curve) -> Turn:
    """For a curve with at least one point."""
    place = int(np.argmin(curve.values))
    after = curve.values[place + 1 :]
    # The mean of the last few, since one of them may be high by chance.
    rise = float(after[-3:].mean() - curve.values[place]) if len(after) else 0.0
    least = max(3 * curve.noise, NOTABLE_NATS) if len(curve) >= _FEWEST_LAST else _PLAIN_NATS
    # The lowest of many points lies about two deviations below the curve by chance alone; its neighbours do not.
    around = (
        curve.values[max(0, place - 1) : place + 2] if len(curve) >= _FEWEST_FOR_NEIGHBOURS else curve.values[place]
    )
    return Turn(
        place=place,
        step=int(curve.steps[place]),
        lowest=float(curve.values[place]),
        rise=rise,
        is_beyond_noise=rise - float(np.mean(around) - curve.values[place]) > least,
    )
