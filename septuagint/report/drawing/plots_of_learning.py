"""Pictures of how the model learned: losses, scores, learning rate and gradients."""

import numpy as np

from septuagint.report.drawing.axes import Axis
from septuagint.report.drawing.charts import Series, line_chart
from septuagint.report.drawing.plot import Missing, Plot, drawn, lines_for, restarts, steps_axis, values
from septuagint.report.drawing.thinning import pick
from septuagint.report.reading.fields import Floats, text
from septuagint.report.reading.record import Record

_NO_VALIDATION = "no validation has been recorded yet"
_NO_LINES = "no line of the log (`train` event) has been recorded yet"
# Gradients that differ so much are drawn on a logarithmic axis.
_WIDE = 12


def plot_losses(record: Record) -> Plot | Missing:
    """Training, validation, and the same measure on training text."""
    train, steps = record.train, _steps(record)
    valid = values([validation.valid_loss for validation in record.validations])
    sample = values([validation.train_sample_loss for validation in record.validations])
    best = int(np.nanargmin(valid)) if np.isfinite(valid).any() else None
    series = [
        Series(name="training, as optimised", x=train.step.astype(float), y=train.loss, color=8),
        Series(name="validation", x=steps, y=valid, color=1, has_dots=True, best=best),
        Series(name="training text, measured alike", x=steps, y=sample, color=2, is_dashed=True, has_dots=True),
    ]
    title = "Loss"
    return drawn(
        "loss",
        title,
        "Only the two coloured lines may be compared: both are without dropout and label smoothing. A gap between them "
        "that grows while validation rises is overfitting; the grey line is what the optimizer sees, and lies higher.",
        line_chart(title, series, steps_axis(record), Axis(label="nats per target token"), restarts=restarts(record)),
        else_reason=_NO_LINES,
    )


def plot_scores(record: Record) -> Plot | Missing:
    """BLEU and chrF of really translated text."""
    bleu = values([validation.bleu for validation in record.validations])
    chrf = values([validation.chrf for validation in record.validations])
    steps = _steps(record)
    best = int(np.nanargmax(bleu)) if np.nanmax(bleu, initial=0.0) > 0 else None
    series = [
        Series(name="chrF", x=steps, y=chrf, color=3, is_dashed=True, has_dots=True),
        Series(name="BLEU", x=steps, y=bleu, color=1, has_dots=True, best=best),
    ]
    if record.averages:
        averages = values([validation.bleu for validation in record.averages])
        x = np.array([validation.step for validation in record.averages], dtype=np.float64)
        series.append(Series(name="BLEU of averaged checkpoints", x=x, y=averages, color=2, has_dots=True))
    signature = next((found.bleu_signature for found in reversed(record.validations) if found.bleu_signature), "")
    title = "BLEU and chrF on validation text"
    return drawn(
        "scores",
        title,
        f"Of text that was really translated and put together again. sacreBLEU {signature}".rstrip() + ".",
        line_chart(
            title, series, steps_axis(record), Axis(label="score, 0 to 100", from_zero=True), restarts=restarts(record)
        ),
        else_reason=_NO_VALIDATION,
    )


def plot_sets(record: Record) -> Plot | Missing | None:
    """BLEU of each set, where there are several."""
    names = sorted({name for validation in record.validations for name in validation.sets})
    if len(names) < 2:
        return None
    steps = _steps(record)
    found = {
        name: values([validation.sets.get(name, {}).get("bleu") for validation in record.validations]) for name in names
    }
    title = "BLEU of each validation set"
    return drawn(
        "sets",
        title,
        "The same validations, set by set.",
        line_chart(
            title,
            lines_for({name: (steps, bleu) for name, bleu in found.items()}),
            steps_axis(record),
            Axis(label="BLEU, 0 to 100", from_zero=True),
            restarts=restarts(record),
        ),
        else_reason=_NO_VALIDATION,
    )


def plot_learning_rate(record: Record) -> Plot | Missing:
    """As each line of the log has it."""
    train = record.train
    formula = text(record.attempts[-1].fields, "learning_rate") if record.attempts else None
    title = "Learning rate"
    shown = pick(train.learning_rate)
    series = [Series(name=title, x=train.step[shown].astype(float), y=train.learning_rate[shown], color=1)]
    return drawn(
        "learning_rate",
        title,
        f"It depends on the step alone: {formula}." if formula else "It depends on the step alone.",
        line_chart(
            title, series, steps_axis(record), Axis(label="learning rate", from_zero=True), restarts=restarts(record)
        ),
        else_reason=_NO_LINES,
    )


def plot_gradient_norm(record: Record) -> Plot | Missing:
    """Before clipping, with the steps that were skipped."""
    train = record.train
    series = [Series(name="gradient norm", x=train.step.astype(float), y=train.gradient_norm, color=1)]
    title = "Gradient norm"
    skipped = len(record.skipped)
    told = {0: "No step was skipped.", 1: "One step was skipped."}.get(skipped, f"{skipped:,} steps were skipped.")
    return drawn(
        "gradient_norm",
        title,
        f"Of the mean loss, before clipping, averaged over the steps between two lines of the log. {told}",
        line_chart(
            title,
            series,
            steps_axis(record),
            Axis(label="norm", is_log=_is_wide(train.gradient_norm), from_zero=True),
            restarts=restarts(record),
        ),
        else_reason=_NO_LINES,
    )


def _steps(record: Record) -> Floats:
    return np.array([validation.step for validation in record.validations], dtype=np.float64)


def _is_wide(numbers: Floats) -> bool:
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    return bool(len(numbers)) and float(numbers.max()) > _WIDE * float(np.median(numbers))
