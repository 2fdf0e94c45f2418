"""The report of a run, and the comparison of several: made from the record, and written as HTML, Markdown and JSON.

`report.json` has `format` ("septuagint-report"), `version` (1), and

- `run` (the folder), `name`, `made` (ISO 8601, UTC), `state` (in words), `is_finished`, `is_running`, `step`
- `bottleneck`: data, compute, network, slow_rank, validation, checkpoints, none or unknown; null where it was not asked
- `answers`: a list of objects with `id`, `question`, `verdict` (yes, partly, no, unknown, or a value), `sentence`,
  `evidence` (a list of `name`, `label`, `value`, `unit`), `confidence` (high, medium, low) and `would_change`
- `problems`: sentences on what the record does not tell

`comparison.json` has `format` ("septuagint-comparison"), `version` (1), `made`, `names`, `runs` (a report each, in the
same order) and `differences`: an object of lists, one value a run, of settings and machines that are not the same.
Both are strict JSON in plain ASCII: a number that is not finite is null.
"""

import datetime
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from septuagint.data.files import written_aside
from septuagint.errors import UserError, writing_to
from septuagint.report.answer import Answer
from septuagint.report.contents import Comparison, Report, different_names
from septuagint.report.diagnosis.diagnose import diagnose
from septuagint.report.page.comparing import align_answers, best_of, find_differences
from septuagint.report.page.comparison_page import comparison_page
from septuagint.report.page.facts import summary_line
from septuagint.report.page.highlights import verdict_tone, verdict_words
from septuagint.report.page.markdown import markdown_comparison, markdown_report
from septuagint.report.page.page import html_page
from septuagint.report.reading.record import read_record
from septuagint.telemetry.events import escape_controls

FORMAT_VERSION = 1
_WIDTH = 80


def make_report(run: Path) -> Report:
    """Reads the record of a run folder and answers every question. UserError where there is no record."""
    record = read_record(run)
    return Report(record=record, answers=tuple(diagnose(record)), made=datetime.datetime.now(datetime.UTC))


def make_comparison(runs: Sequence[Path]) -> Comparison:
    """The reports of several runs, in the order given."""
    folders = list(dict.fromkeys(run.resolve() for run in runs))
    if len(folders) < 2:
        raise UserError("a comparison needs two different run folders, such as runs/first runs/second")
    reports = tuple(make_report(run) for run in folders)
    return Comparison(reports=reports, names=different_names(reports), made=datetime.datetime.now(datetime.UTC))


def write_report(run: Path, to: Path | None = None) -> list[Path]:
    """Writes report.html, report.md and report.json into the run folder, or another one; their paths."""
    return save_report(make_report(run), run if to is None else to)


def save_report(report: Report, folder: Path) -> list[Path]:
    """The three files of a report that has been made already."""
    contents = {
        "report.html": html_page(report),
        "report.md": markdown_report(report),
        "report.json": as_json(report_json(report)),
    }
    return _write(folder, contents)


def write_comparison(runs: Sequence[Path], to: Path) -> list[Path]:
    """Writes comparison.html, comparison.md and comparison.json into a folder; their paths."""
    return save_comparison(make_comparison(runs), to)


def save_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """The three files of a comparison that has been made already."""
    contents = {
        "comparison.html": comparison_page(comparison),
        "comparison.md": markdown_comparison(comparison),
        "comparison.json": as_json(comparison_json(comparison)),
    }
    return _write(folder, contents)


def report_json(report: Report) -> dict[str, Any]:
    """For programs; the module's text tells what is in it."""
    return {
        "format": "septuagint-report",
        "version": FORMAT_VERSION,
        "run": str(report.record.run.resolve()),
        "name": report.name,
        "made": report.made.isoformat(timespec="seconds"),
        "state": report.state,
        "is_finished": report.is_finished,
        "is_running": report.is_running,
        "step": report.last_step,
        "bottleneck": report.bottleneck,
        "answers": [_answer_json(answer) for answer in report.answers],
        "problems": list(report.record.problems),
    }


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """For programs; the module's text tells what is in it."""
    return {
        "format": "septuagint-comparison",
        "version": FORMAT_VERSION,
        "made": comparison.made.isoformat(timespec="seconds"),
        "names": list(comparison.names),
        "runs": [report_json(report) for report in comparison.reports],
        "differences": find_differences(comparison),
    }


def as_json(value: Mapping[str, Any]) -> str:
    """Plain ASCII, so that no text of strangers can move the cursor of who looks at it."""
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def print_report(report: Report) -> None:
    """Every question with its verdict, its sentence, and a cure where one is needed; at most 80 columns wide."""
    _print_wrapped(f"{report.name}: {', '.join(summary_line(report))}")
    for answer in report.answers:
        print()
        _print_wrapped(f"{answer.question} {verdict_words(answer.verdict)}")
        _print_wrapped(answer.sentence, indent="    ")
        if verdict_tone(answer) in ("middle", "bad", "unknown"):
            _print_wrapped(f"→ {answer.would_change}", indent="      ", first="    ")
    for problem in report.record.problems:
        print()
        _print_wrapped(f"note: {problem}", indent="    ", first="")


def print_verdicts(report: Report) -> None:
    """A line for each question: what the end of a training shows."""
    width = max(len(answer.question) for answer in report.answers)
    for answer in report.answers:
        line = f"{answer.question:<{width}}  {verdict_words(answer.verdict)}"
        print(escape_controls(line))


def print_comparison(comparison: Comparison) -> None:
    """What the runs are, what differs between them, and the verdicts on each, at most 80 columns wide."""
    names = comparison.names
    for name, report in zip(names, comparison.reports, strict=True):
        _print_wrapped(f"{name}: {', '.join([*summary_line(report), best_of(report)])}", indent="    ", first="")
    differences = find_differences(comparison)
    print("\nWhat differs" if differences else "\nNothing that they were made with differs")
    for title, values in differences.items():
        told = ", ".join(f"{value or 'none'} ({name})" for name, value in zip(names, values, strict=True))
        _print_wrapped(f"{title}: {told}", indent="        ", first="    ")
    for question, answers in align_answers(comparison):
        print()
        _print_wrapped(question)
        for name, answer in zip(names, answers, strict=True):
            told = "not asked" if answer is None else verdict_words(answer.verdict)
            _print_wrapped(f"{name}: {told}", indent="        ", first="    ")


def _print_wrapped(text: str, indent: str = "", first: str | None = None) -> None:
    lines = textwrap.wrap(
        escape_controls(text),
        width=_WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    print("\n".join(lines))


def _answer_json(answer: Answer) -> dict[str, Any]:
    return {
        "id": answer.id,
        "question": answer.question,
        "verdict": answer.verdict,
        "sentence": answer.sentence,
        "evidence": [
            {"name": figure.name, "label": figure.label, "value": _finite(figure.value), "unit": figure.unit}
            for figure in answer.evidence
        ],
        "confidence": answer.confidence,
        "would_change": answer.would_change,
    }


def _finite(value: float | int | str | bool | None) -> float | int | str | bool | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write(folder: Path, contents: Mapping[str, str]) -> list[Path]:
    with writing_to(folder):
        for name, text in contents.items():
            with written_aside(folder / name) as file:
                file.write(text.encode())
    return [folder / name for name in contents]
