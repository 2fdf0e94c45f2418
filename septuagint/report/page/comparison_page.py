"""The comparison of several runs as one HTML file, under the same rules as the page of one run."""

import septuagint
from septuagint.report.answer import Answer
from septuagint.report.contents import Comparison
from septuagint.report.drawing.markup import text_of
from septuagint.report.page.comparing import (
    align_answers,
    align_evidence,
    best_of,
    color_of,
    comparison_plots,
    find_differences,
)
from septuagint.report.page.facts import moment, summary_line
from septuagint.report.page.page import badge, document, guide, missing_plots, notes_card, plot_cards


def comparison_page(comparison: Comparison) -> str:
    """The whole file."""
    plots, missing = comparison_plots(comparison)
    problems = [
        f"{name}: {problem}"
        for name, report in zip(comparison.names, comparison.reports, strict=True)
        for problem in report.record.problems
    ]
    sections = [
        ("runs", "Runs", _runs(comparison)),
        ("answers", "Answers", _answers(comparison)),
        ("differences", "What differs", _differences(comparison)),
        ("plots", "Plots", plot_cards(plots) + missing_plots(missing)),
        ("problems", "What the records do not tell", notes_card(problems)),
        ("guide", "How to read this", guide()),
    ]
    return document(
        title=f"{len(comparison.names)} runs compared",
        header='<p class="brand">Septuagint · comparison of training runs</p>'
        f"<h1>{text_of(' · '.join(comparison.names))}</h1>",
        sections=[section for section in sections if section[2]],
        footer=f"Made by Septuagint {septuagint.__version__} on {moment(comparison.made.timestamp())}",
    )


def _runs(comparison: Comparison) -> str:
    cards = "".join(
        f'<div class="fact-group card"><h3 class="swatch c{color_of(index)}">{text_of(name)}</h3>'
        f'<p class="small">{text_of(" · ".join([*summary_line(report), best_of(report)]))}</p>'
        f'<p class="small soft">{text_of(str(report.record.run.resolve()))}</p></div>'
        for index, (name, report) in enumerate(zip(comparison.names, comparison.reports, strict=True))
    )
    return f'<div class="cells">{cards}</div>'


def _answers(comparison: Comparison) -> str:
    rows = "".join(_question(comparison, question, answers) for question, answers in align_answers(comparison))
    return f'<div class="answers card">{rows}</div>' if rows else ""


def _question(comparison: Comparison, question: str, answers: list[Answer | None]) -> str:
    cells = "".join(
        f'<div class="cell c{color_of(index)}"><p class="run">{text_of(name)}</p>{_cell(answer)}</div>'
        for index, (name, answer) in enumerate(zip(comparison.names, answers, strict=True))
    )
    evidence = side_by_side(comparison.names, align_evidence(answers))
    details = f'<details><summary><span class="fold">Evidence</span></summary>{evidence}</details>' if evidence else ""
    return f'<article class="question"><h3>{text_of(question)}</h3><div class="cells">{cells}</div>{details}</article>'


def _cell(answer: Answer | None) -> str:
    if answer is None:
        return '<p class="soft">not asked</p>'
    return (
        f'{badge(answer)}<p class="sentence">{text_of(answer.sentence)}</p>'
        f'<p class="small soft">confidence {text_of(answer.confidence)}</p>'
    )


def _differences(comparison: Comparison) -> str:
    table = side_by_side(comparison.names, list(find_differences(comparison).items()))
    inside = table or '<p class="soft">Machines, data and settings are the same.</p>'
    return f'<div class="table-card card">{inside}</div>'


def side_by_side(names: tuple[str, ...], rows: list[tuple[str, list[str]]]) -> str:
    """A column a run; on a phone a block a row."""
    if not rows:
        return ""
    heads = "".join(f"<th>{text_of(name)}</th>" for name in names)
    body = "".join(
        f"<tr><th>{text_of(label)}</th>"
        + "".join(
            f'<td data-run="{text_of(name)}">{text_of(value)}</td>' for name, value in zip(names, values, strict=True)
        )
        + "</tr>"
        for label, values in rows
    )
    return f'<table class="side"><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>'
