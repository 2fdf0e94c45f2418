"""Whether the model learns its text by heart: two losses that are measured alike, and the gap between them."""

from septuagint.report.answer import Answer, Figure
from septuagint.report.diagnosis.curves import NOTABLE_NATS, Curve, Turn, curve_of, turn_of
from septuagint.report.diagnosis.fits import noise
from septuagint.report.diagnosis.phrases import count, figure, unknown
from septuagint.report.reading.record import Record

QUESTION = "Is it overfitting?"
_MANY_VALIDATIONS, _SOME_VALIDATIONS = 8, 4
_NOT_COMPARABLE = (
    "The train loss of the log does not count here: dropout and label smoothing raise it; both of these are measured "
    "without"
)


def overfitting(record: Record) -> Answer:
    """Answers by validation loss against the loss on the fixed training sample."""
    both = [look for look in record.validations if look.train_sample_loss is not None and look.valid_loss is not None]
    valid, train = curve_of(both, "valid_loss"), curve_of(both, "train_sample_loss")
    if len(valid) < 2:
        return unknown(
            "overfitting",
            QUESTION,
            f"The record has {count(len(valid), 'validation')} with both losses: a trend needs at least two.",
            "Set training.validate_every so that the run validates at least five times.",
            [figure("num_validations", "validations", len(valid))],
        )
    turn = turn_of(valid)
    verdict, words = _judge(valid, train, turn)
    return Answer(
        id="overfitting",
        question=QUESTION,
        verdict=verdict,
        sentence=f"{words}. {_NOT_COMPARABLE}.",
        evidence=tuple(_figures(record, valid, train, turn)),
        confidence="high"
        if len(valid) >= _MANY_VALIDATIONS
        else "medium"
        if len(valid) >= _SOME_VALIDATIONS
        else "low",
        would_change=_cure(verdict, turn),
    )


def _judge(valid: Curve, train: Curve, turn: Turn) -> tuple[str, str]:
    """(verdict, why)."""
    rose = (
        f"Validation loss was lowest ({turn.lowest:.3f}) at step {turn.step:,} and has risen by {turn.rise:.3f} since"
    )
    now, at_best = float(train.values[-1]), float(train.values[turn.place])
    if turn.is_beyond_noise:
        if now <= at_best + 2 * train.noise:
            return "yes", f"{rose}, while the loss on training text went from {at_best:.3f} to {now:.3f}"
        return "no", (
            f"{rose}, but so has the loss on training text ({at_best:.3f} to {now:.3f}): training itself got worse, "
            "which is not overfitting"
        )
    growth, fall = _gap_growth(valid, train), _fall(valid)
    gap = float(valid.values[-1] - train.values[-1])
    if growth is not None and growth > _least_growth(valid, train) and fall < max(2 * valid.noise, NOTABLE_NATS):
        return "partly", (
            f"Validation loss stands still at {valid.values[-1]:.3f} while the gap to the loss on training text grew "
            f"by {growth:.3f} to {gap:.3f} in the second half of the run"
        )
    return "no", (
        f"Validation loss {valid.values[-1]:.3f} is at or near its lowest, {abs(gap):.3f} "
        f"{'above' if gap >= 0 else 'below'} the loss on training text ({now:.3f})"
    )


def _least_growth(valid: Curve, train: Curve) -> float:
    return max(3 * noise(valid.values - train.values), NOTABLE_NATS)


def _gap_growth(valid: Curve, train: Curve) -> float | None:
    """Over the second half of the run; None of fewer validations than tell a trend."""
    if len(valid) < _SOME_VALIDATIONS:
        return None
    gap = valid.values - train.values
    return _fall(Curve(steps=valid.steps, values=-gap))


def _fall(curve: Curve) -> float:
    """From the middle of the run to its end, as the means of two points each."""
    late = curve.values[curve.steps >= curve.steps[-1] / 2]
    if len(late) < 4:
        late = curve.values[-4:]
    half = max(1, len(late) // 2)
    width = min(2, half)
    return float(late[:width].mean() - late[-width:].mean())


def _figures(record: Record, valid: Curve, train: Curve, turn: Turn) -> list[Figure]:
    nats = "nats per token"
    gap = valid.values - train.values
    scores = curve_of(record.validations, "bleu", sign=-1)
    found = [
        figure("num_validations", "validations", len(valid)),
        figure("valid_loss", "validation loss at the end", float(valid.values[-1]), nats),
        figure("train_sample_loss", "loss on the training sample at the end", float(train.values[-1]), nats),
        figure("gap", "gap between the two at the end", float(gap[-1]), nats),
        figure("gap_at_best", "gap at the best step", float(gap[turn.place]), nats),
        figure("gap_growth", "growth of the gap in the second half", _gap_growth(valid, train), nats),
        figure("best_step", "step with the lowest validation loss", turn.step, "steps"),
        figure("best_valid_loss", "the lowest validation loss", turn.lowest, nats),
        figure("rise", "rise of the validation loss since", turn.rise, nats),
        figure("valid_loss_noise", "noise of a single validation loss", valid.noise, nats),
    ]
    if len(scores):
        found.append(figure("best_bleu_step", "step with the highest BLEU", turn_of(scores).step, "steps"))
    return found


def _cure(verdict: str, turn: Turn) -> str:
    if verdict == "yes":
        return (
            f"Use the checkpoint called best, stop near step {turn.step:,} (training.patience does it), and add text "
            "or dropout."
        )
    if verdict == "partly":
        return (
            "Going on is not worth it: stop here, or add text or dropout; a rising validation loss would make it yes."
        )
    return "A validation loss that rises beyond its noise while the loss on training text falls would make it yes."
