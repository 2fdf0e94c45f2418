import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from septuagint.report.drawing.axes import WIDTH, Axis, log_ticks, tick_labels, ticks
from septuagint.report.drawing.bars import bar_chart
from septuagint.report.drawing.charts import Level, Series, area_chart, line_chart, scatter_chart
from septuagint.report.drawing.picture import NO_DATA, Chart, Part
from septuagint.report.drawing.thinning import gather, means_per_x, pick, thin

SVG = "{http://www.w3.org/2000/svg}"
STEP, Y = Axis(label="step", is_whole=True), Axis(label="nats")
HOSTILE = '<script>alert(1)</script>]]>" onload="x\u202e\x1b[2J\x00\uffff&\ud800'
# Whatever a record may hold once it has been read: no number above 1e30 passes.
ANYTHING = st.one_of(
    st.floats(min_value=-1e30, max_value=1e30), st.sampled_from([np.nan, np.inf, -np.inf, 0.0, 1e30, 1e-300])
)


def svg_of(chart: Chart) -> ElementTree.Element:
    """The picture, after a look at what every picture must keep."""
    root = ElementTree.fromstring(chart.markup)
    svg = root.find(f"{SVG}svg")
    assert svg is not None and svg.get("role") == "img" and svg.find(f"{SVG}title") is not None
    for element in svg.iter():
        for name in ("d", "x", "y", "cx", "cy", "width", "height", "r"):
            value = element.get(name, "")
            assert not re.search("nan|inf|none", value.lower()), f"{name}={value}"
            assert all(np.isfinite(float(found)) for found in re.findall(r"-?\d+\.?\d*", value))
    return svg


def points_of(svg: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    paths = [path.get("d", "") for path in svg.iter(f"{SVG}path") if kind in path.get("class", "").split()]
    return [(float(x), float(y)) for path in paths for x, y in re.findall(r"[ML]?(-?[\d.]+) (-?[\d.]+)", path)]


def line(x, y, **options) -> Series:
    return Series(name="line", x=np.asarray(x, dtype=float), y=np.asarray(y, dtype=float), color=1, **options)


@settings(deadline=None)
@example((np.array([5e-324, 1e-320]), 2), True)
@given(st.integers(0, 30).flatmap(lambda n: st.tuples(arrays(float, n, elements=ANYTHING), st.just(n))), st.booleans())
def test_a_line_of_any_numbers_is_valid_and_stays_in_its_frame(drawn, is_log):
    y, num_points = drawn
    chart = line_chart("title", [line(np.arange(num_points), y)], STEP, Axis(label="y", is_log=is_log))
    if chart is not NO_DATA:
        assert all(-1 <= px <= WIDTH + 1 for px, _ in points_of(svg_of(chart), "line"))


@settings(deadline=None)
@given(arrays(float, (3, 12), elements=ANYTHING))
@example(np.full((3, 12), 5e-324))
@example(np.full((3, 12), -5e-324))
def test_stacks_bars_and_points_of_any_numbers_are_valid(values):
    parts = [Part(name=f"part {index}", color=index + 1, values=row) for index, row in enumerate(values)]
    for chart in (
        area_chart("title", np.arange(12.0), parts, STEP, Y),
        bar_chart("title", [f"run {index}" for index in range(12)], parts),
        scatter_chart("title", [line(values[0], values[1])], Axis(label="MB"), Y),
    ):
        if chart is not NO_DATA:
            svg_of(chart)


def test_nothing_to_draw_is_said_instead_of_drawn():
    empty, unknown = line([], []), line([1, 2], [np.nan, np.nan])
    for chart in (
        line_chart("title", [], STEP, Y),
        line_chart("title", [empty, unknown], STEP, Y),
        line_chart("title", [line([1], [-1])], STEP, Axis(label="y", is_log=True)),
        area_chart("title", np.zeros(0), [Part(name="a", color=1, values=np.zeros(0))], STEP, Y),
        scatter_chart("title", [empty], STEP, Y),
        bar_chart("title", ["run"], [Part(name="a", color=1, values=np.zeros(1))]),
    ):
        assert chart is NO_DATA and "no data" in chart.markup


def test_a_gap_breaks_the_line_and_a_lonely_number_becomes_a_dot():
    svg = svg_of(line_chart("title", [line(range(6), [1, 2, np.nan, 3, np.nan, 4])], STEP, Y))
    (path,) = [found.get("d") for found in svg.iter(f"{SVG}path") if found.get("class") == "line c1"]
    assert path is not None and path.count("M") == 3
    assert len(points_of(svg, "dots")) == 2


def test_a_long_series_is_thinned_but_its_spike_is_still_to_be_seen():
    y = np.ones(100_000)
    y[54_321] = 50
    chart = line_chart("title", [line(np.arange(100_000), y)], STEP, Axis(label="y", from_zero=True))
    svg = svg_of(chart)
    assert len(points_of(svg, "line")) <= 400 and len(chart.markup) < 20_000
    highest = min(py for _, py in points_of(svg, "band"))
    assert highest < 40, "the band reaches to the top of the frame"
    assert any("means of about 333 values" in note for note in chart.notes)


def test_a_few_high_values_do_not_flatten_the_others_and_are_told():
    y = np.concatenate([[1000.0], np.full(99, 10.0)])
    chart = line_chart("title", [line(np.arange(100), y)], STEP, Axis(label="ms", from_zero=True), is_cut=True)
    assert chart.notes == ("Cut above: the highest is 1,000 ms.",)
    assert min(py for _, py in points_of(svg_of(chart), "line")[50:]) < 130


def test_best_point_limits_and_restarts_are_marked():
    series = line([0, 50, 100], [3.0, 1.5, 2.0], best=1)
    svg = svg_of(line_chart("title", [series], STEP, Y, levels=[Level(name="limit", y=4.0)], restarts=[60, 1e9]))
    assert [found.text for found in svg.iter(f"{SVG}text") if found.get("class") == "halo"] == ["best 1.5"]
    assert len([found for found in svg.iter(f"{SVG}path") if found.get("class") == "restart"]) == 1
    assert len(points_of(svg, "restart")) == 1, "a restart beyond the frame is not drawn"


def test_the_layers_of_a_stack_add_up():
    parts = [Part(name=name, color=1, values=np.full(10, value)) for name, value in (("a", 1.0), ("b", 3.0))]
    svg = svg_of(area_chart("title", np.arange(10.0), parts, STEP, Axis(label="s", from_zero=True)))
    below, above = (found.get("d", "") for found in svg.iter(f"{SVG}path") if found.get("class", "").startswith("area"))
    tops = [float(path.split("L")[0].split(" ")[1]) for path in (below, above)]
    base = float(below.removesuffix("Z").split("L")[-1].split(" ")[1])
    assert (base - tops[1]) / (base - tops[0]) == pytest.approx(4, rel=0.01)
    assert svg.findtext(f"{SVG}desc") == "a 25%; b 75%"


def test_the_pieces_of_a_bar_fill_it():
    parts = [Part(name=str(value), color=1, values=np.array([value])) for value in (1.0, 2.0, 5.0)]
    widths = [float(found.get("width", 0)) for found in svg_of(bar_chart("title", [""], parts, "s")).iter(f"{SVG}rect")]
    assert sum(widths) == pytest.approx(WIDTH, abs=0.3)


def test_text_of_strangers_stays_text():
    series = Series(name=HOSTILE, x=np.arange(3.0), y=np.arange(3.0), color=1)
    part = Part(name=HOSTILE, color=1, values=np.ones(3))
    axis = Axis(label=HOSTILE)
    for chart in (
        line_chart(HOSTILE, [series, series], axis, axis, levels=[Level(name=HOSTILE, y=1.0)]),
        area_chart(HOSTILE, np.arange(3.0), [part], axis, axis),
        scatter_chart(HOSTILE, [series, series], axis, axis),
        bar_chart(HOSTILE, [HOSTILE] * 3, [part]),
    ):
        svg_of(chart)
        assert "<script" not in chart.markup and 'onload="' not in chart.markup
        assert not re.search("[\x00-\x08\x1b\u202e\uffff\ud800]", chart.markup)
        chart.markup.encode()


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 8))
def test_ticks_are_round_even_and_enclose_the_numbers(low, width, max_ticks):
    found = ticks(low, low + width, max_ticks)
    assert found[0] <= low + 1e-6 * width + 1e-6 and found[-1] >= low + width - 1e-6 * width - 1e-6
    assert len(found) >= 2


@given(st.floats(1e-9, 1e9), st.floats(1.01, 1e9))
def test_logarithmic_ticks_lie_inside(low, factor):
    assert all(low <= tick <= low * factor for tick in log_ticks(low, low * factor))


def test_labels_have_separators_and_no_more_decimals_than_needed():
    assert tick_labels([0, 20_000, 40_000]) == ["0", "20,000", "40,000"]
    assert tick_labels([0.0, 0.25, 0.5]) == ["0.00", "0.25", "0.50"]
    assert tick_labels([0, 2e-4, 4e-4]) == ["0", "2e-4", "4e-4"]


def test_labels_of_an_axis_do_not_collide():
    for last in (7, 300, 5_000, 100_000, 1_234_567):
        svg = svg_of(line_chart("title", [line([0, last], [1.0, 2.0])], STEP, Y))
        labels = [found for found in svg.iter(f"{SVG}text") if found.get("text-anchor") == "middle"]
        # 9 units a character is the widest that the style sheet ever makes them.
        spans = sorted((float(found.get("x", 0)), 4.5 * len(found.text or "")) for found in labels)
        assert len(spans) >= 2
        assert all(x + half <= next_x - next_half for (x, half), (next_x, next_half) in itertools.pairwise(spans))
        assert spans[-1][0] + spans[-1][1] <= WIDTH + 1


def test_thinning_keeps_the_mean_and_the_extremes():
    random = np.random.default_rng(1)
    y = random.standard_normal(10_000)
    thinned = thin(np.arange(10_000.0), y, 100)
    assert len(thinned.x) == 100
    assert thinned.mean.mean() == pytest.approx(y.mean())
    assert (thinned.low.min(), thinned.high.max()) == (y.min(), y.max())


def test_picking_keeps_the_peak_of_a_smooth_curve():
    steps = np.arange(1.0, 50_001)
    rates = np.minimum(steps / 777, np.sqrt(777 / steps))
    found = pick(rates)
    assert len(found) <= 300 and rates[found].max() == rates.max() and {0, 49_999} <= set(found.tolist())
    assert len(pick(np.zeros(0))) == 0 and len(pick(np.full(5, np.nan))) == 5


def test_points_at_the_same_place_become_their_mean():
    x, y = means_per_x(np.array([2.0, 1.0, 2.0]), np.array([1.0, 5.0, 3.0]))
    assert x.tolist() == [1.0, 2.0] and y.tolist() == [5.0, 2.0]


def test_a_crowd_keeps_its_outlier():
    random = np.random.default_rng(1)
    x, y = random.standard_normal((2, 50_000))
    x[7], y[7] = 40.0, 40.0
    crowd = gather(x, y, 300)
    assert len(crowd.x) <= 300 and crowd.count.sum() == 50_000
    assert (crowd.x.max(), crowd.y.max()) == (40.0, 40.0)
