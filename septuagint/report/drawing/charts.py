"""Numbers become pictures: inline SVG that scales, prints, and takes its colours from the page.

Every function is pure and returns markup that is valid XML. What a picture had to leave out, its `notes` tell in words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from septuagint.report.drawing.axes import Axis, Frame, coordinate, make_frame
from septuagint.report.drawing.picture import NO_DATA, Chart, Part, legend_key, make_chart
from septuagint.report.drawing.thinning import Thinned, bin_means, bins_of, gather, in_order, thin
from septuagint.report.quantities import plain
from septuagint.report.reading.fields import Floats

# Of the values of a plot that shall not be flattened by a few large ones.
_BULK_PERCENTILE = 97
_MAX_AREAS = 200
_MAX_RESTART_MARKS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """A line of a chart. `y` may have gaps: NaN."""

    name: str
    x: Floats
    y: Floats
    color: int  # 1 to 8
    is_dashed: bool = False
    has_dots: bool = False  # few measurements, each of them shown
    best: int | None = None  # the place of the point to mark


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """A limit: a horizontal line across the whole chart."""

    name: str
    y: float


def line_chart(
    title: str,
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    *,
    levels: Sequence[Level] = (),
    restarts: Sequence[float] = (),
    is_cut: bool = False,
) -> Chart:
    """Lines over a common x. `is_cut`: a few values far above all others do not flatten the rest."""
    thinned = [thin(one.x, _drawable(one.y, y)) for one in series]
    shown = [(one, points) for one, points in zip(series, thinned, strict=True) if np.isfinite(points.mean).any()]
    if not shown:
        return NO_DATA
    values = np.concatenate([np.concatenate((points.low, points.high)) for _, points in shown])
    levels = [level for level in levels if np.isfinite(level.y) and (level.y > 0 or not y.is_log)]
    low, high, notes = _range(values, [level.y for level in levels], y, is_cut=is_cut)
    frame = make_frame(x, _ends([points.x for _, points in shown]), y, (low, high))
    marks, restart_key = _restarts(restarts, frame)
    body = [frame.markup, marks]
    body += [_band(one, points, frame) for one, points in shown]
    body += [_level(level, frame) for level in levels]
    body += [_line(one, points, frame) for one, points in shown]
    body += [_best(one, frame) for one, _ in shown]
    keys = [legend_key(one.name, one.color, "line dashed" if one.is_dashed else "line") for one, _ in shown]
    keys = keys if len(keys) > 1 or levels else []  # the title says what a single line is
    keys += [legend_key(level.name, 8, "line dashed") for level in levels] + restart_key
    description = "; ".join(_describe(one, points) for one, points in shown)
    return make_chart(title, description, "".join(body), keys, (*_means_note([points for _, points in shown]), *notes))


def area_chart(
    title: str, x_values: Floats, parts: Sequence[Part], x: Axis, y: Axis, *, restarts: Sequence[float] = ()
) -> Chart:
    """Layers on top of each other, the first at the bottom: what a step is made of, along the steps."""
    x_values, *layers = in_order(np.asarray(x_values, dtype=np.float64), *(part.values for part in parts))
    is_whole = np.isfinite(layers).all(axis=0) if layers else np.zeros(0, dtype=bool)
    x_values, layers = x_values[is_whole], [np.maximum(layer[is_whole], 0.0) for layer in layers]
    if not len(x_values):
        return NO_DATA
    means: tuple[str, ...] = ()
    if len(x_values) > _MAX_AREAS:
        bins = bins_of(x_values, _MAX_AREAS)
        means = (f"Means of about {len(x_values) / (bins[-1] + 1):,.0f} steps are drawn.",)
        x_values, layers = bin_means(x_values, bins), [bin_means(layer, bins) for layer in layers]
    if len(x_values) == 1:  # an area needs two sides
        x_values, layers = x_values[0] + np.array([-0.5, 0.5]), [np.repeat(layer, 2) for layer in layers]
    tops = np.cumsum(layers, axis=0)
    _, high, notes = _range(tops[-1], [], y, is_cut=True)
    frame = make_frame(x, (x_values[0], x_values[-1]), y, (0.0, high))
    below, areas = np.zeros(len(x_values)), []
    for part, top in zip(parts, tops, strict=True):
        areas.append(f'<path class="area c{part.color}" d="{_closed(frame, x_values, below, top)}"/>')
        below = top
    marks, restart_key = _restarts(restarts, frame)
    keys = [legend_key(part.name, part.color, "area") for part in parts] + restart_key
    total = float(np.sum(layers)) or 1.0
    description = "; ".join(
        f"{part.name} {100 * float(layer.sum()) / total:.0f}%" for part, layer in zip(parts, layers, strict=True)
    )
    return make_chart(title, description, "".join([*areas, frame.markup, marks]), keys, (*means, *notes))


def scatter_chart(title: str, groups: Sequence[Series], x: Axis, y: Axis) -> Chart:
    """Points. Where many fall together, one stronger point stands for them."""
    crowds = [(group, gather(group.x, group.y, 500 // len(groups))) for group in groups]
    crowds = [(group, crowd) for group, crowd in crowds if len(crowd.x)]
    if not crowds:
        return NO_DATA
    xs, ys = np.concatenate([crowd.x for _, crowd in crowds]), np.concatenate([crowd.y for _, crowd in crowds])
    low, high, notes = _range(ys, [], y, is_cut=True)
    frame = make_frame(x, _ends([xs]), y, (low, high))
    body = [frame.markup]
    for group, crowd in crowds:
        places = list(zip(frame.x.place(crowd.x), frame.y.place(crowd.y), crowd.count, strict=True))
        for name, least, most in (("faint", 1, 1), ("half", 2, 9), ("full", 10, np.inf)):
            dots = "".join(
                f"M{coordinate(px)} {coordinate(py)}h0" for px, py, count in places if least <= count <= most
            )
            body += [f'<path class="dots {name} c{group.color}" d="{dots}"/>'] if dots else []
    num_points = sum(int(crowd.count.sum()) for _, crowd in crowds)
    gathered = ("Stronger points stand for several steps.",) if num_points > len(xs) else ()
    keys = [legend_key(group.name, group.color, "dot") for group, _ in crowds] if len(crowds) > 1 else []
    return make_chart(title, f"{num_points:,} points", "".join(body), keys, (*gathered, *notes))


def _drawable(values: Floats, axis: Axis) -> Floats:
    """A logarithm has no place for zero."""
    values = np.asarray(values, dtype=np.float64)
    return np.where(values > 0, values, np.nan) if axis.is_log else values


def _range(values: Floats, others: Sequence[float], y: Axis, *, is_cut: bool) -> tuple[float, float, list[str]]:
    """(lowest, highest, notes) of what shall be seen."""
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    bulk = float(np.percentile(values, _BULK_PERCENTILE))
    notes = []
    if is_cut and bulk > 0 and high > 2 * bulk:
        notes.append(f"Cut above: the highest is {plain(high)} {y.label}.")
        high = 1.3 * bulk
    return min([low, *others]), max([high, *others]), notes


def _ends(xs: Sequence[Floats]) -> tuple[float, float]:
    return min(float(x.min()) for x in xs if len(x)), max(float(x.max()) for x in xs if len(x))


def _pieces(y: Floats) -> list[slice]:
    """Stretches between gaps."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], np.isfinite(y), [False])).astype(np.int8)))
    return [slice(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2], strict=True)]


def _points(xs: Floats, ys: Floats) -> str:
    return "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in zip(xs, ys, strict=True))


def _closed(frame: Frame, x: Floats, low: Floats, high: Floats) -> str:
    places = frame.x.place(x)
    return f"M{_points(places, frame.y.place(high))}L{_points(places[::-1], frame.y.place(low)[::-1])}Z"


def _band(series: Series, points: Thinned, frame: Frame) -> str:
    """From the lowest to the highest value of each bin."""
    if not points.is_thinned:
        return ""
    outlines = (
        _closed(frame, points.x[piece], points.low[piece], points.high[piece]) for piece in _pieces(points.mean)
    )
    return f'<path class="band c{series.color}" d="{"".join(outlines)}"/>'


def _line(series: Series, points: Thinned, frame: Frame) -> str:
    xs, ys = frame.x.place(points.x), frame.y.place(points.mean)
    outlines = "".join(f"M{_points(xs[piece], ys[piece])}" for piece in _pieces(points.mean))
    # A number alone between gaps has no length: it is drawn as a dot.
    alone = [piece.start for piece in _pieces(points.mean) if piece.stop - piece.start == 1]
    dashed = " dashed" if series.is_dashed else ""
    markup = f'<path class="line{dashed} c{series.color}" d="{outlines}"/>'
    is_dotted = series.has_dots and len(xs) <= 40
    dots = np.flatnonzero(np.isfinite(ys)) if is_dotted else alone
    if len(dots):
        places = "".join(f"M{coordinate(xs[dot])} {coordinate(ys[dot])}h0" for dot in dots)
        markup += f'<path class="dots c{series.color}" d="{places}"/>'
    return markup


def _level(level: Level, frame: Frame) -> str:
    y = coordinate(frame.y.at(level.y))
    return f'<path class="line dashed c8" d="M{coordinate(frame.x.start)} {y}H{coordinate(frame.x.end)}"/>'


def _best(series: Series, frame: Frame) -> str:
    """A ring around the best point, with its number."""
    if series.best is None or not np.isfinite(series.y[series.best]):
        return ""
    x, y = frame.x.at(float(series.x[series.best])), frame.y.at(float(series.y[series.best]))
    share = (x - frame.x.start) / (frame.x.end - frame.x.start)
    anchor = "start" if share < 0.15 else "end" if share > 0.85 else "middle"
    label_y = y - 11 if y > frame.y.end + 16 else y + 22
    return (
        f'<circle class="best c{series.color}" cx="{coordinate(x)}" cy="{coordinate(y)}" r="5"/>'
        f'<text class="halo" x="{coordinate(x)}" y="{coordinate(label_y)}" text-anchor="{anchor}">'
        f"best {plain(float(series.y[series.best]))}</text>"
    )


def _restarts(steps: Sequence[float], frame: Frame) -> tuple[str, list[str]]:
    """(marks, entry of the legend) of where a later attempt went on."""
    inside = sorted({step for step in steps if frame.x.low <= step <= frame.x.high})[:_MAX_RESTART_MARKS]
    if not inside:
        return "", []
    lines = "".join(
        f"M{coordinate(frame.x.at(step))} {coordinate(frame.y.start)}V{coordinate(frame.y.end)}" for step in inside
    )
    return f'<path class="restart" d="{lines}"/>', ['<li><i class="restart"></i>restart</li>']


def _describe(series: Series, points: Thinned) -> str:
    """For those who cannot see it."""
    numbers = points.mean[np.isfinite(points.mean)]
    return (
        f"{series.name}: {plain(float(numbers[0]))} at first, {plain(float(numbers[-1]))} at the end, "
        f"between {plain(float(np.nanmin(points.low)))} and {plain(float(np.nanmax(points.high)))}"
    )


def _means_note(thinned: Sequence[Thinned]) -> tuple[str, ...]:
    num_each = max(points.num_each for points in thinned)
    if num_each <= 1:
        return ()
    return (f"Lines are means of about {max(2, round(num_each)):,} values; pale bands show their range.",)
