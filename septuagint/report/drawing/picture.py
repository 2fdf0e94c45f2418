"""What a picture is: inline SVG with a legend, and the colours by name.

Colours are classes (`c1` to `c10`) that the style sheet fills for light, dark and paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from septuagint.report.drawing.axes import HEIGHT, WIDTH
from septuagint.report.drawing.markup import text_of
from septuagint.report.reading.fields import Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One layer of a stack, or one piece of a bar."""

    name: str
    color: int
    values: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A picture with its legend, and what has to be said about it."""

    markup: str
    notes: tuple[str, ...] = ()


NO_DATA = Chart(markup='<p class="no-data">no data</p>')


def make_chart(
    title: str,
    description: str,
    body: str,
    keys: Sequence[str],
    notes: Sequence[str],
    *,
    height: int = HEIGHT,
    has_amounts: bool = False,
) -> Chart:
    """The picture with its legend above it. `body` is markup; the other text is not."""
    kind = "legend amounts" if has_amounts else "legend"
    legend = f'<ul class="{kind}" aria-hidden="true">{"".join(keys)}</ul>' if keys else ""
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>{text_of(title)}</title><desc>{text_of(description)}</desc>{body}</svg>"
    )
    return Chart(markup=f'<div class="chart">{legend}{svg}</div>', notes=tuple(notes))


def legend_key(name: str, color: int, shape: str, *amounts: str) -> str:
    """One entry of a legend, with what it comes to. `shape`: line, line dashed, area or dot."""
    told = "".join(f"<b>{text_of(amount)}</b>" for amount in amounts)
    return f'<li><i class="{shape} c{color}"></i><span>{text_of(name)}</span>{told}</li>'
