"""Stacked bars that lie side by side: of what a whole is made, for one thing or for several to be compared."""

from collections.abc import Sequence

import numpy as np

from septuagint.report.drawing.axes import WIDTH, coordinate
from septuagint.report.drawing.markup import text_of
from septuagint.report.drawing.picture import NO_DATA, Chart, Part, legend_key, make_chart
from septuagint.report.quantities import quantity
from septuagint.report.reading.fields import Floats

# A smaller piece of a bar cannot be seen.
_MIN_SHARE = 0.0005


def bar_chart(title: str, names: Sequence[str], parts: Sequence[Part], unit: str = "") -> Chart:
    """Horizontal bars, one for each name, each a whole of its parts. A single bar is read from its legend."""
    values = np.array([np.where(np.isfinite(part.values), np.maximum(part.values, 0.0), 0.0) for part in parts])
    totals = values.sum(axis=0) if len(parts) else np.zeros(0)
    if not len(totals) or not totals.any():
        return NO_DATA
    has_names = len(names) > 1 or bool(names[0])
    height, body, descriptions = 0, [], []
    for index, name in enumerate(names):
        if has_names:
            body.append(f'<text x="0" y="{height + 14}">{text_of(_shortened(name, 48))}</text>')
            height += 20
        pieces = values[:, index] / (totals[index] or 1.0)
        body.append(_bar(parts, pieces, height))
        height += 38
        told = ", ".join(
            f"{part.name} {_percent(share)}" for part, share in zip(parts, pieces, strict=True) if share >= _MIN_SHARE
        )
        descriptions.append(f"{name}: {told}" if has_names else told)
    shares = values / np.where(totals > 0, totals, 1.0)
    seen = [index for index in range(len(parts)) if shares[index].max() >= _MIN_SHARE]
    is_single = len(names) == 1
    keys = [
        legend_key(
            parts[index].name,
            parts[index].color,
            "area",
            *((_percent(float(shares[index, 0])), quantity(float(values[index, 0]), unit)) if is_single else ()),
        )
        for index in seen
    ]
    text = "".join(body)
    return make_chart(title, "; ".join(descriptions), text, keys, (), height=height - 6, has_amounts=is_single)


def _percent(share: float) -> str:
    return f"{100 * share:.{0 if share >= 0.0995 else 1}f}%"


def _bar(parts: Sequence[Part], shares: Floats, top: int) -> str:
    pieces, left = [], 0.0
    for part, share in zip(parts, shares, strict=True):
        width = float(share) * WIDTH
        if width >= 0.3:
            label = _percent(float(share))
            pieces.append(
                f'<rect class="area c{part.color}" x="{coordinate(left)}" y="{top}" width="{coordinate(width)}" '
                f'height="30"><title>{text_of(part.name)}: {_percent(share)}</title></rect>'
            )
            if width > 10 * len(label):
                pieces.append(
                    f'<text class="inside" x="{coordinate(left + width / 2)}" y="{top + 20}" '
                    f'text-anchor="middle">{label}</text>'
                )
        left += width
    return "".join(pieces)


def _shortened(name: str, max_characters: int) -> str:
    return name if len(name) <= max_characters else f"{name[: max_characters - 1]}…"
