"""The report of one run as one HTML file: answers first, then pictures, samples and facts.

It has no script and loads nothing; its own policy forbids both. Everything that comes from a record is escaped.
"""

import importlib.resources
import re
from collections.abc import Iterable, Sequence

import septuagint
from septuagint.report.answer import Answer, Figure
from septuagint.report.contents import Report
from septuagint.report.drawing.markup import text_of
from septuagint.report.drawing.plot import Missing, Plot
from septuagint.report.drawing.plots import Plots, make_plots
from septuagint.report.page.facts import Facts, gather_facts, moment, summary_line
from septuagint.report.page.highlights import chosen_samples, find_highlights, shortened, verdict_tone, verdict_words
from septuagint.report.quantities import figure_text
from septuagint.report.reading.fields import text
from septuagint.report.reading.happenings import Sample

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
# Longer words of evidence are read from the left.
_SHORT_WORDS = 24
_GUIDE = (
    "<b>Verdicts</b> are yes, partly, no, unknown, or a value. Each rests on the numbers under “Evidence”, and on "
    "nothing else; all of them come from the record of the run (<code>events/</code>).",
    "<b>Confidence</b> tells how far the record carries the verdict: low means that a few more measurements could turn "
    "it.",
    "<b>A step</b> is one update of the weights by all ranks together. Its time is split into arithmetic (compute, "
    "optimizer) and waiting (for the exchange of gradients, for the slowest rank, for data). Only when nothing else is "
    "done meanwhile, it counts as waiting.",
    "<b>Losses</b> are in nats per target token. <b>BLEU</b> and <b>chrF</b> are of text that was really translated, "
    "with sacreBLEU’s signature; they compare only where the signatures are the same.",
    "<b>kB, MB and GB</b> are thousands, millions and thousand millions of bytes.",
)


def html_page(report: Report) -> str:
    """The whole file."""
    plots = make_plots(report.record)
    sections = [
        _section("answers", "Answers", _answers(report.answers)),
        _section("problems", "What the record does not tell", notes_card(report.record.problems)),
        _section("plots", "Plots", _plots(plots)),
        _section("samples", "Translations on the way", _samples(report)),
        _section("facts", "How it was made", fact_groups(gather_facts(report))),
        _section("guide", "How to read this", guide()),
    ]
    return document(
        title=f"{report.name}: training report",
        header=_header(report),
        sections=[section for section in sections if section],
        footer=f"Made by Septuagint {septuagint.__version__} on {moment(report.made.timestamp())} from "
        f"{report.record.run.resolve()}",
    )


def document(*, title: str, header: str, sections: Sequence[tuple[str, str, str]], footer: str) -> str:
    """A page of sections (id, heading, markup)."""
    links = "".join(f'<li><a href="#{id}">{heading}</a></li>' for id, heading, _ in sections)
    body = "".join(
        f'<section id="{id}" aria-labelledby="{id}-heading"><h2 id="{id}-heading">{heading}</h2>{markup}</section>'
        for id, heading, markup in sections
    )
    style = importlib.resources.files("septuagint.report.page").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{text_of(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f'<header>{header}<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n{body}\n'
        f"<footer>{text_of(footer)}</footer>\n</main>\n</body>\n</html>\n"
    )


def _section(id: str, heading: str, markup: str) -> tuple[str, str, str] | None:
    return (id, heading, markup) if markup else None


def _header(report: Report) -> str:
    tiles = "".join(
        f'<div class="tile card"><dt>{text_of(found.label)}</dt><dd>{text_of(found.value)}'
        f'<span class="unit">{text_of(found.remark)}</span></dd></div>'
        for found in find_highlights(report)
    )
    return (
        f'<p class="brand">Septuagint · training report</p><h1>{text_of(report.name)}</h1>'
        f"{facts_line(summary_line(report))}" + (f'<dl class="tiles">{tiles}</dl>' if tiles else "")
    )


def facts_line(parts: Iterable[str]) -> str:
    """A few words each, in one line."""
    return f'<ul class="facts-line">{"".join(f"<li>{text_of(part)}</li>" for part in parts)}</ul>'


def badge(answer: Answer) -> str:
    """The verdict; its colour says whether it is what one hopes for."""
    return f'<span class="badge {verdict_tone(answer)}">{text_of(verdict_words(answer.verdict))}</span>'


def _answers(answers: Sequence[Answer]) -> str:
    rows = "".join(
        f'<article class="answer" id="answer-{text_of(answer.id)}"><div>{badge(answer)}</div><div>'
        f'<h3>{text_of(answer.question)}</h3><p class="sentence">{text_of(answer.sentence)}</p>'
        f'<details><summary><span class="fold">Evidence · </span>confidence {text_of(answer.confidence)}</summary>'
        f"{_evidence(answer.evidence)}{_why(answer)}</details></div></article>"
        for answer in answers
    )
    return f'<div class="answers card">{rows}</div>' if rows else ""


def _evidence(figures: Sequence[Figure]) -> str:
    rows = "".join(f"<tr><th>{text_of(figure.label)}</th>{_value(figure)}</tr>" for figure in figures)
    return f'<table class="evidence"><tbody>{rows}</tbody></table>' if rows else ""


def _value(figure: Figure) -> str:
    """Numbers stand to the right, one under the other; words begin at the left."""
    kind = ' class="words"' if isinstance(figure.value, str) and len(figure.value) > _SHORT_WORDS else ""
    return f"<td{kind}>{text_of(figure_text(figure))}</td>"


def _why(answer: Answer) -> str:
    if not answer.would_change:
        return ""
    return f'<dl class="why"><dt>What would change it</dt><dd>{text_of(answer.would_change)}</dd></dl>'


def notes_card(notes: Sequence[str]) -> str:
    """A list of sentences; nothing where there are none."""
    rows = "".join(f"<li>{text_of(note)}</li>" for note in notes)
    return f'<ul class="notes card">{rows}</ul>' if rows else ""


def plot_cards(plots: Iterable[Plot]) -> str:
    """Pictures beside each other, or below each other on a phone."""
    cards = "".join(
        f'<figure class="plot card" id="plot-{plot.id}"><h4>{text_of(plot.title)}</h4>{plot.chart.markup}'
        f"<figcaption>{text_of(plot.caption)}</figcaption></figure>"
        for plot in plots
    )
    return f'<div class="plots">{cards}</div>' if cards else ""


def _plots(plots: Plots) -> str:
    groups = [f'<h3 class="group">{name}</h3>{plot_cards(found)}' for name, found in plots.groups.items()]
    return "".join([*groups, missing_plots(plots.missing)])


def missing_plots(missing: Sequence[Missing]) -> str:
    """Which pictures there are not, and why."""
    if not missing:
        return ""
    rows = "".join(f"<li>{text_of(plot.title)}: {text_of(plot.reason)}</li>" for plot in missing)
    return f'<h3 class="group">Not shown</h3><ul class="notes card small soft">{rows}</ul>'


def _samples(report: Report) -> str:
    event = report.record.attempts[-1].fields if report.record.attempts else {}
    source, target = (_language(text(event, f"{side}_language")) for side in ("source", "target"))
    rows = "".join(_sample(sample, source, target) for sample in chosen_samples(report.record))
    return f'<div class="samples">{rows}</div>' if rows else ""


def _sample(sample: Sample, source: str, target: str) -> str:
    lines = (("source", sample.source, source), ("reference", sample.reference, target))
    rows = "".join(f'<dt>{name}</dt><dd dir="auto"{language}>{_excerpt(value)}</dd>' for name, value, language in lines)
    return (
        f'<div class="sample card"><dl>{rows}<dt>step {sample.step:,}</dt>'
        f'<dd class="translation" dir="auto"{target}>{_excerpt(sample.translation)}</dd></dl></div>'
    )


def _excerpt(value: str) -> str:
    return text_of(shortened(value)) if value else '<span class="soft">(nothing)</span>'


def _language(code: str | None) -> str:
    """An attribute that tells browsers how to write it: Chinese and Japanese share characters, but not their shapes."""
    return f' lang="{code}"' if code is not None and _LANGUAGE.fullmatch(code) else ""


def fact_groups(groups: Sequence[Facts]) -> str:
    """Names and values; long lists are folded away."""
    cards = "".join(_fact_group(facts) for facts in groups)
    return f'<div class="fact-groups">{cards}</div>' if cards else ""


def _fact_group(facts: Facts) -> str:
    rows = "".join(f"<dt>{text_of(name)}</dt><dd>{text_of(value)}</dd>" for name, value in facts.entries)
    heading = f"<h3>{text_of(facts.title)}</h3>"
    if not facts.is_long:
        return f'<div class="fact-group card">{heading}<dl>{rows}</dl></div>'
    return (
        f'<div class="fact-group settings card">{heading}<details><summary>{len(facts.entries):,} entries</summary>'
        f"<dl>{rows}</dl></details></div>"
    )


def guide() -> str:
    """How to read it."""
    return f'<div class="guide card small">{"".join(f"<p>{paragraph}</p>" for paragraph in _GUIDE)}</div>'
