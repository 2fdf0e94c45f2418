import re

from hypothesis import given
from hypothesis import strategies as st

from septuagint.report.page.markdown import escape_markdown, markdown_comparison, markdown_report
from septuagint.report.report import make_comparison, make_report
from tests.report.full_runs import make_hostile, write_full_run
from tests.report.records import Plan, write_run

# A mark that is not escaped: an even number of backslashes stands before it.
_BARE = re.compile(r"(?<!\\)(?:\\\\)*[`*\[\]<>|~#&$@]")


def tables_of(text: str) -> list[list[str]]:
    """The rows of each table."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    return [block for block in blocks if block[0].startswith("|")]


def check_tables(text: str) -> None:
    """Every row has as many cells as its head."""
    for rows in tables_of(text):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, rows


@given(st.text())
def test_nothing_in_escaped_text_is_markup(text):
    escaped = escape_markdown(text)
    assert not _BARE.search(escaped)
    assert len(escaped.splitlines()) <= 1


def test_names_with_underscores_stay_readable():
    assert escape_markdown("training.max_steps") == "training.max_steps"
    assert escape_markdown("_so_ it is") == "\\_so\\_ it is"


def test_answers_stand_in_a_table_and_their_evidence_in_lists(tmp_path):
    report = make_report(write_full_run(tmp_path / "news"))
    text = markdown_report(report)
    check_tables(text)
    answers = tables_of(text)[0]
    assert len(answers) == 2 + len(report.answers)
    for answer in report.answers:
        assert any(row.startswith(f"| {escape_markdown(answer.question)} |") for row in answers)
        assert all(f"- {escape_markdown(figure.label)}: " in text for figure in answer.evidence)
    for words in ("# news: training report", "| compute |", "| 1,000 | average of 5 checkpoints |", "Das Haus."):
        assert words in text


def test_a_hostile_record_breaks_no_table_and_makes_no_markup(tmp_path):
    runs = [make_hostile(write_full_run(tmp_path / name)) for name in ("a|b", "c`d")]
    for text in (markdown_report(make_report(runs[0])), markdown_comparison(make_comparison(runs))):
        check_tables(text)
        assert "<script" not in text.replace("\\<script", "")
        assert "[a](javascript" not in text
        assert "\u202e" not in text and "\x1b" not in text
        text.encode()


def test_an_almost_empty_record_gives_a_text(tmp_path):
    text = markdown_report(make_report(write_run(tmp_path / "run", Plan(has_steps=False))))
    assert "## What the record does not tell" in text
    assert "## Validations" not in text


def test_a_comparison_sets_verdicts_and_differences_side_by_side(tmp_path):
    runs = [write_full_run(tmp_path / "first"), write_full_run(tmp_path / "second", training={"warmup_steps": 800})]
    text = markdown_comparison(make_comparison(runs))
    check_tables(text)
    assert "|   | first | second |" in text
    assert "| training.warmup_steps | 400 | 800 |" in text
