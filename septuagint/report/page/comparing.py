"""Several runs side by side: what differs between them, and the pictures that show all of them."""

from collections.abc import Callable

import numpy as np

from septuagint.report.answer import Answer, Figure
from septuagint.report.contents import Comparison, Report
from septuagint.report.drawing.axes import Axis
from septuagint.report.drawing.bars import bar_chart
from septuagint.report.drawing.charts import Series, line_chart
from septuagint.report.drawing.plot import Missing, Plot, drawn, steps_axis, values
from septuagint.report.drawing.plots_of_time import seconds_by_part, time_parts
from septuagint.report.page.facts import settings
from septuagint.report.quantities import figure_text, plain
from septuagint.report.reading.fields import Floats, number, text
from septuagint.report.reading.record import Record

# Those of the palette that lines can be told apart by; further runs get them again, dashed.
_COLORS = (1, 2, 3, 4, 5, 7)


def color_of(index: int) -> int:
    """The colour of a run."""
    return _COLORS[index % len(_COLORS)]


def find_differences(comparison: Comparison) -> dict[str, list[str]]:
    """What the runs were made with, by name, where it is not the same for all: one value a run."""
    made_with = [_made_with(report.record) for report in comparison.reports]
    names = dict.fromkeys(name for found in made_with for name in found)
    rows = {name: [found.get(name, "not known") for found in made_with] for name in names}
    return {name: row for name, row in rows.items() if len(set(row)) > 1}


def _made_with(record: Record) -> dict[str, str]:
    if not record.attempts:
        return {}
    latest = record.attempts[-1]
    parameters = number(latest.fields, "num_parameters")
    rows = {
        "languages": " → ".join(text(latest.fields, f"{side}_language") or "?" for side in ("source", "target")),
        "ranks": f"{latest.world_size or 1:,}",
        "hosts": ", ".join(latest.hosts),
        "devices": ", ".join(dict.fromkeys(rank.device for rank in latest.ranks)),
        "precision": text(latest.fields, "precision") or "",
        "parameters": "" if parameters is None else plain(parameters),
        "data fingerprint": (text(record.data, "fingerprint") or "")[:16],
    }
    return {**rows, **settings(record)}


def align_answers(comparison: Comparison) -> list[tuple[str, list[Answer | None]]]:
    """(question, one answer a run), in the order of the first run that has it."""
    by_id = [{answer.id: answer for answer in report.answers} for report in comparison.reports]
    ids = dict.fromkeys(id for answers in by_id for id in answers)
    rows = [[answers.get(id) for answers in by_id] for id in ids]
    return [(next(answer.question for answer in row if answer is not None), row) for row in rows]


def align_evidence(answers: list[Answer | None]) -> list[tuple[str, list[str]]]:
    """(label, one value a run) of all evidence that any of the answers has."""
    by_name: list[dict[str, Figure]] = [
        {figure.name: figure for figure in answer.evidence} if answer is not None else {} for answer in answers
    ]
    labels = {name: figure.label for figures in by_name for name, figure in figures.items()}
    return [
        (label, [figure_text(figures[name]) if name in figures else "–" for figures in by_name])
        for name, label in labels.items()
    ]


def comparison_plots(comparison: Comparison) -> tuple[list[Plot], list[Missing]]:
    """Curves of all runs, and where the time of each went."""
    made = [
        _plot_time(comparison),
        _plot_steps(
            comparison,
            "loss",
            "Validation loss",
            "Without dropout and label smoothing. Runs compare where validation text and vocabulary are the same.",
            Axis(label="nats per target token"),
            lambda record: _validations(record, "valid_loss"),
        ),
        _plot_steps(
            comparison,
            "bleu",
            "BLEU by step",
            "Of text that was really translated; runs compare where text and signature are the same.",
            Axis(label="BLEU, 0 to 100", from_zero=True),
            lambda record: _validations(record, "bleu"),
        ),
        _plot_hours(comparison),
        _plot_steps(
            comparison,
            "step_time",
            "Step time",
            "Seconds a step, as the lines of the log have it.",
            Axis(label="s per step", from_zero=True),
            lambda record: (record.train.step.astype(float), record.train.seconds_per_step),
        ),
        _plot_steps(
            comparison,
            "tokens",
            "Target tokens per second",
            "Of all ranks together, without padding.",
            Axis(label="tokens per second", from_zero=True),
            lambda record: (record.train.step.astype(float), record.train.target_tokens_per_second),
        ),
    ]
    return [plot for plot in made if isinstance(plot, Plot)], [plot for plot in made if isinstance(plot, Missing)]


def _plot_time(comparison: Comparison) -> Plot | Missing:
    title = "Where the time of each run went"
    spent = [seconds_by_part(report.record) for report in comparison.reports]
    chart = bar_chart(title, list(comparison.names), time_parts(spent))
    caption = "Each bar is all the time of one run, whatever it was; mean over ranks, all attempts together."
    return drawn("time", title, caption, chart, else_reason="no run tells where its time went")


def _plot_steps(
    comparison: Comparison,
    id: str,
    title: str,
    caption: str,
    y: Axis,
    points: Callable[[Record], tuple[Floats, Floats]],
) -> Plot | Missing:
    x = steps_axis(*(report.record for report in comparison.reports))
    chart = line_chart(title, _series(comparison, points), x, y, is_cut=id in ("step_time", "tokens"))
    return drawn(id, title, caption, chart, else_reason="no run has these numbers")


def _plot_hours(comparison: Comparison) -> Plot | Missing:
    title = "BLEU by time of training"
    chart = line_chart(
        title,
        _series(comparison, lambda record: (_hours(record), _validations(record, "bleu")[1])),
        Axis(label="hours of training", from_zero=True),
        Axis(label="BLEU, 0 to 100", from_zero=True),
    )
    caption = "Pauses between attempts are left out: what matters is what was paid for."
    return drawn("hours", title, caption, chart, else_reason="no run has been validated")


def _series(comparison: Comparison, points: Callable[[Record], tuple[Floats, Floats]]) -> list[Series]:
    found = []
    for index, (name, report) in enumerate(zip(comparison.names, comparison.reports, strict=True)):
        x, y = points(report.record)
        is_dashed = index >= len(_COLORS)
        found.append(Series(name=name, x=x, y=y, color=color_of(index), is_dashed=is_dashed, has_dots=len(x) <= 40))
    return found


def _validations(record: Record, field: str) -> tuple[Floats, Floats]:
    steps = np.array([validation.step for validation in record.validations], dtype=np.float64)
    return steps, values([getattr(validation, field) for validation in record.validations])


def _hours(record: Record) -> Floats:
    """Hours of training until each validation, pauses between attempts left out."""
    before: dict[int, float] = {}
    spent = 0.0
    for attempt in record.attempts:
        before[attempt.number] = spent - attempt.start_time
        spent += attempt.seconds
    times = [validation.time + before.get(validation.attempt, np.nan) for validation in record.validations]
    return np.array(times, dtype=np.float64) / 3600


def best_of(report: Report) -> str:
    """The best BLEU of a run, in a few words."""
    scores = [look.bleu for look in (*report.record.validations, *report.record.averages) if look.bleu is not None]
    return f"best BLEU {max(scores):.1f}" if scores else "no BLEU yet"
