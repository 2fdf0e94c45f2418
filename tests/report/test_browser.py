"""The pages in a real browser: nothing complains, everything is there, and nothing is wider than a phone."""

import html
import json
import re
import subprocess
from pathlib import Path

import pytest

from septuagint.report.page.comparison_page import comparison_page
from septuagint.report.page.page import html_page
from septuagint.report.report import make_comparison, make_report
from tests.conftest import need_tool
from tests.report.full_runs import make_hostile, write_full_run

pytestmark = pytest.mark.slow
_DARK, _LIGHT = 0, 1
# Chromium's window is never narrower than 500 pixels: a frame in it is. Only the copy that is measured has a script.
_MEASURE = """
<!DOCTYPE html><body style="margin: 0"><iframe id="phone" width="{width}" height="900" style="border: 0"
srcdoc="{page}"></iframe><p id="widths"></p><script>
document.getElementById("phone").onload = () => {{
  const inner = document.getElementById("phone").contentDocument;
  inner.querySelectorAll("details").forEach((found) => {{ found.open = true; }});
  const wide = [...inner.querySelectorAll("body *")].filter((found) => {{
    const box = found.getBoundingClientRect();
    return box.width > 0 && (box.right > {width} + 0.5 || box.left < -0.5);
  }});
  const small = [...inner.querySelectorAll("svg text")].map((found) => found.getBoundingClientRect().height);
  const page = getComputedStyle(inner.body).backgroundColor;
  document.getElementById("widths").textContent = JSON.stringify([inner.documentElement.scrollWidth, page,
    Math.min(...small), wide.slice(0, 5).map((found) => found.outerHTML.slice(0, 200))]);
}};
</script>
"""


def browse(page: Path, *options: str, scheme: int = _LIGHT) -> subprocess.CompletedProcess[str]:
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
    arguments += [f"--blink-settings=preferredColorScheme={scheme}", f"--user-data-dir={page.parent / 'profile'}"]
    command = [need_tool("chromium"), *arguments, *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


def measure(folder: Path, page: str, width: int, scheme: int) -> tuple[int, str, float, list[str]]:
    """(scroll width, background, height of the smallest text of a chart, elements that stick out)."""
    without_policy = re.sub(r"<meta http-equiv=.*?>", "", page)
    path = folder / "measure.html"
    path.write_text(_MEASURE.format(width=width, page=html.escape(without_policy)), encoding="utf-8")
    dom = browse(path, "--dump-dom", scheme=scheme).stdout
    found = re.search(r'<p id="widths">(.*?)</p>', dom)
    assert found is not None and found[1], "the page was not measured"
    return tuple(json.loads(html.unescape(found[1])))


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    """A plain report, a hostile one, and a comparison."""
    folder = tmp_path_factory.mktemp("runs")
    plain, other = write_full_run(folder / "news"), write_full_run(folder / "other", hosts=("alpha",), sent_bytes=None)
    hostile = make_hostile(write_full_run(folder / "hostile"))
    return {
        "plain": html_page(make_report(plain)),
        "hostile": html_page(make_report(hostile)),
        "comparison": comparison_page(make_comparison([plain, other, hostile])),
    }


@pytest.mark.parametrize("name", ["plain", "hostile", "comparison"])
def test_the_browser_has_nothing_to_complain_about(tmp_path, pages, name):
    path = tmp_path / "page.html"
    path.write_text(pages[name], encoding="utf-8")
    done = browse(path, "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr
    assert done.stdout.count('<article class="') == 13
    assert "<script" not in done.stdout.lower()


@pytest.mark.parametrize("scheme", [_DARK, _LIGHT])
@pytest.mark.parametrize("name", ["plain", "hostile", "comparison"])
def test_nothing_is_wider_than_a_phone_and_charts_can_be_read_on_it(tmp_path, pages, name, scheme):
    scroll_width, background, smallest_text, wide = measure(tmp_path, pages[name], 360, scheme)
    assert wide == [] and scroll_width == 360
    assert smallest_text >= 11
    assert background == {_DARK: "rgb(18, 21, 25)", _LIGHT: "rgb(246, 246, 244)"}[scheme]


def test_a_screenshot_is_not_blank(tmp_path, pages):
    path = tmp_path / "page.html"
    path.write_text(pages["plain"], encoding="utf-8")
    browse(path, f"--screenshot={tmp_path / 'shot.png'}", "--window-size=1280,2000")
    assert (tmp_path / "shot.png").stat().st_size > 50_000
