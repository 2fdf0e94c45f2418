import datetime
import re
import time
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from septuagint.report.contents import Report
from septuagint.report.diagnosis.diagnose import diagnose
from septuagint.report.page.comparison_page import comparison_page
from septuagint.report.page.page import html_page
from septuagint.report.reading.record import read_record
from septuagint.report.report import make_comparison, make_report
from septuagint.telemetry.events import escape_controls
from tests.report.full_runs import full_plan, make_hostile, write_full_run
from tests.report.records import Life, Plan, write_run

_VOID = ("meta", "br", "hr", "img", "link", "input")


class _Reader(HTMLParser):
    """Checks that tags are closed in order, and keeps what a browser would show or run."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def read(page: str) -> _Reader:
    """A page, after a look at what every page must keep."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert len(page.encode()) < 1_000_000
    names = {tag for tag, _ in reader.tags}
    assert not names & {"script", "iframe", "object", "embed", "link", "img", "base", "form"}
    for tag, attributes in reader.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "src"], (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in page and "@import" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", page)
    (policy,) = [found.get("content") for _, found in reader.tags if found.get("http-equiv")]
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    identifiers = [found["id"] for _, found in reader.tags if "id" in found]
    assert len(identifiers) == len(set(identifiers))
    for svg in re.findall("<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)
    return reader


@pytest.fixture
def run(tmp_path):
    return write_full_run(tmp_path / "news")


def test_answers_come_first_and_all_parts_are_there(run):
    report = make_report(run)
    page = html_page(report)
    text = read(page).text
    assert len(report.answers) == 13
    for answer in report.answers:
        assert answer.question in text and answer.sentence in text
        assert page.index(f'id="answer-{answer.id}"') < page.index('id="plots"')
    for plot in "loss scores learning_rate gradient_norm run step_split rank_times rank_split tokens use".split():
        assert f'id="plot-{plot}"' in page
    for plot in "memory power network traffic".split():
        assert f'id="plot-{plot}"' in page
    for words in ("Das Haus.", "septuagint train", "torch 2.13.0", "the disk was slow", "training.tokens_per_step"):
        assert words in text


def test_a_hostile_record_is_shown_as_text_and_nothing_of_it_runs(run):
    report = make_report(make_hostile(run))
    page = html_page(report)
    assert "<script" not in page.lower() and "&lt;script&gt;alert(1)" in page
    text = read(page).text
    assert "\\u202e" in text and "\\x1b[2J" in text


def test_answers_with_hostile_text_are_shown_as_text(run):
    record = read_record(make_hostile(run))
    answers = [answer for answer in diagnose(record) if "<script" in str(answer)]
    assert answers, "some answer quotes the record"
    made = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
    text = read(html_page(Report(record=record, answers=tuple(answers), made=made))).text
    assert all(escape_controls(answer.sentence).replace("\uffff", "\ufffd") in text for answer in answers)


def test_what_could_not_be_drawn_is_named_with_its_reason(tmp_path):
    run = write_run(tmp_path / "alone", Plan())
    text = read(html_page(make_report(run))).text
    assert "Not shown" in text
    for words in ("there is only one rank", "the monitor saw no GPU", "no validation has been recorded yet"):
        assert words in text


def test_a_record_of_one_line_gives_a_page(tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "rank-0.jsonl").write_text('{"time": 1.0, "event": "attempt", "attempt": 1}\n')
    report = make_report(tmp_path)
    text = read(html_page(report)).text
    assert all(answer.sentence in text for answer in report.answers)
    assert "What the record does not tell" in text


def test_a_run_without_steps_or_that_has_just_begun_gives_a_page(tmp_path):
    for name, plan in {
        "old": full_plan(has_steps=False),
        "young": full_plan(lives=(Life(last_step=1, stop=None),), validations={}, averages={}),
        "empty": Plan(lives=(Life(last_step=0, stop=None),)),
    }.items():
        read(html_page(make_report(write_run(tmp_path / name, plan))))


def test_many_ranks_are_summed_up(tmp_path):
    plan = full_plan(ranks_per_host=8, lives=(Life(last_step=200),), validations={}, averages={})
    page = html_page(make_report(write_run(tmp_path / "many", plan)))
    text = read(page).text
    assert "median of 16" in text and "of 16 ranks that wait least and most" in text


def test_a_comparison_shows_every_run_every_answer_and_what_differs(tmp_path):
    first = write_full_run(tmp_path / "first")
    second = write_full_run(tmp_path / "second", training={"warmup_steps": 800}, hosts=("alpha",), sent_bytes=None)
    comparison = make_comparison([first, second])
    text = read(comparison_page(comparison)).text
    for report in comparison.reports:
        assert all(answer.sentence in text for answer in report.answers)
    for words in ("first", "second", "training.warmup_steps", "alpha, beta", "BLEU by time of training"):
        assert words in text


def test_a_hostile_comparison_is_shown_as_text(tmp_path):
    runs = [make_hostile(write_full_run(tmp_path / name)) for name in ("a", "<b>|`*", "c")]
    page = comparison_page(make_comparison(runs))
    read(page)
    assert "<script" not in page.lower() and "<b>|" not in page


def test_a_hundred_thousand_steps_take_less_than_three_seconds(tmp_path):
    plan = full_plan(
        ranks_per_host=1,
        lives=(Life(last_step=50_000, stop=None), Life(start_step=49_000, last_step=100_000)),
        validations=dict.fromkeys(range(1000, 100001, 1000), (2.0, 1.9, 25.0)),
        averages={},
    )
    run = write_run(tmp_path / "long", plan)
    begin = time.process_time()  # not the wall's: other tests may run beside this one
    page = html_page(make_report(run))
    assert time.process_time() - begin < 3
    read(page)
    assert "means of about" in page
