"""The report as Markdown: for a repository, a mail or a chat. The same answers, without the pictures."""

import re
from collections.abc import Iterable, Sequence

import septuagint
from septuagint.report.answer import Answer
from septuagint.report.contents import Comparison, Report
from septuagint.report.drawing.plots_of_time import OUTSIDE_PARTS, STEP_PARTS, seconds_by_part
from septuagint.report.page.comparing import align_answers, align_evidence, best_of, find_differences
from septuagint.report.page.facts import gather_facts, moment, summary_line
from septuagint.report.page.highlights import chosen_samples, shortened, verdict_words
from septuagint.report.quantities import figure_text, seconds
from septuagint.report.reading.happenings import Validation
from septuagint.report.reading.record import Record
from septuagint.telemetry.events import escape_controls

# What could become a table, a link, a tag, a formula, a mention or emphasis. A name with an underscore inside is none.
_MARKS = re.compile(r"[\\`*\[\]<>|~#&$@]|(?<!\w)_|_(?!\w)")
_MAX_VALIDATIONS = 20


def markdown_report(report: Report) -> str:
    """The whole file."""
    record = report.record
    blocks = [
        f"# {escape_markdown(report.name)}: training report",
        escape_markdown(" · ".join(summary_line(report))),
        *_section("Answers", [_answer_table(report.answers)] if report.answers else []),
        *_section("What the record does not tell", [_list(record.problems)] if record.problems else []),
        *_section("Evidence", [_evidence(answer) for answer in report.answers]),
        *_section("Where the time went", _time(record)),
        *_section("Validations", _validations(record)),
        *_section("Translations on the way", _samples(record)),
        *_section("How it was made", _facts(report)),
        _footer(moment(report.made.timestamp())),
    ]
    return "\n\n".join(blocks) + "\n"


def markdown_comparison(comparison: Comparison) -> str:
    """Several runs side by side."""
    runs = zip(comparison.names, comparison.reports, strict=True)
    summaries = [f"{name}: {' · '.join([*summary_line(report), best_of(report)])}" for name, report in runs]
    problems = [
        f"{name}: {problem}"
        for name, report in zip(comparison.names, comparison.reports, strict=True)
        for problem in report.record.problems
    ]
    aligned = align_answers(comparison)
    verdicts = [(question, [_verdict(answer) for answer in answers]) for question, answers in aligned]
    differences = list(find_differences(comparison).items())
    same = "Machines, data and settings are the same."
    blocks = [
        f"# {escape_markdown(' · '.join(comparison.names))}: runs compared",
        _list(summaries),
        *_section("Answers", [_side_by_side(comparison.names, verdicts)] if verdicts else []),
        *_section("What differs", [_side_by_side(comparison.names, differences) if differences else same]),
        *_section("What the records do not tell", [_list(problems)] if problems else []),
        *_section("Evidence", [_compared(comparison.names, question, answers) for question, answers in aligned]),
        _footer(moment(comparison.made.timestamp())),
    ]
    return "\n\n".join(blocks) + "\n"


def escape_markdown(value: str) -> str:
    """Text of strangers, in one line, in which nothing is markup."""
    return _MARKS.sub(lambda found: f"\\{found[0]}", escape_controls(value))


def _section(heading: str, blocks: Sequence[str]) -> list[str]:
    return [f"## {heading}", *blocks] if blocks else []


def _list(entries: Iterable[str]) -> str:
    return "\n".join(f"- {escape_markdown(entry)}" for entry in entries)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([escape_markdown(cell) or " " for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _side_by_side(names: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    return _table([" ", *map(escape_markdown, names)], [(label, *values) for label, values in rows])


def _answer_table(answers: Sequence[Answer]) -> str:
    rows = [(answer.question, verdict_words(answer.verdict), answer.sentence) for answer in answers]
    return _table(("question", "verdict", "why"), rows)


def _verdict(answer: Answer | None) -> str:
    return "not asked" if answer is None else verdict_words(answer.verdict)


def _evidence(answer: Answer) -> str:
    figures = [f"{figure.label}: {figure_text(figure)}" for figure in answer.evidence]
    turn = [f"what would change it: {answer.would_change}"] if answer.would_change else []
    entries = [*figures, f"confidence: {answer.confidence}", *turn]
    return f"### {escape_markdown(f'{answer.question} {verdict_words(answer.verdict)}')}\n\n{_list(entries)}"


def _compared(names: Sequence[str], question: str, answers: list[Answer | None]) -> str:
    sentences = [
        f"{name}: {answer.sentence} (confidence {answer.confidence})"
        for name, answer in zip(names, answers, strict=True)
        if answer is not None
    ]
    evidence = align_evidence(answers)
    table = f"\n\n{_side_by_side(names, evidence)}" if evidence else ""
    return f"### {escape_markdown(question)}\n\n{_list(sentences)}{table}"


def _time(record: Record) -> list[str]:
    spent = seconds_by_part(record)
    total = sum(spent.values())
    names = {part: name for part, (name, _) in (STEP_PARTS | OUTSIDE_PARTS).items()}
    rows = [
        (names[part], seconds(amount), f"{100 * amount / total:.1f}%") for part, amount in spent.items() if amount > 0
    ]
    return [_table(("part", "time", "share"), rows)] if rows else []


def _validations(record: Record) -> list[str]:
    found: list[Validation] = [*record.validations, *record.averages]
    if not found:
        return []
    shown = found[-_MAX_VALIDATIONS:]
    rows = [
        (
            f"{look.step:,}",
            look.weights,
            *("" if loss is None else f"{loss:.3f}" for loss in (look.valid_loss, look.train_sample_loss)),
            *("" if score is None else f"{score:.2f}" for score in (look.bleu, look.chrf)),
        )
        for look in shown
    ]
    heads = ("step", "weights", "validation loss", "loss on training text", "BLEU", "chrF")
    left_out = [f"The last {len(shown)} of {len(found):,}."] if len(shown) < len(found) else []
    return [*left_out, _table(heads, rows)]


def _samples(record: Record) -> list[str]:
    blocks = []
    for sample in chosen_samples(record):
        texts = (("source", sample.source), ("reference", sample.reference), ("translation", sample.translation))
        lines = _list(f"{name}: {shortened(value)}" for name, value in texts)
        blocks.append(f"### Step {sample.step:,}\n\n{lines}")
    return blocks


def _facts(report: Report) -> list[str]:
    return [
        f"### {escape_markdown(facts.title)}\n\n{_list(f'{name}: {value}' for name, value in facts.entries)}"
        for facts in gather_facts(report)
    ]


def _footer(made: str) -> str:
    return f"Made by Septuagint {septuagint.__version__} on {made}."
