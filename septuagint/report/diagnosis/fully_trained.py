"""Whether more steps would bring more: the end of the validation curve against its noise, and where it goes."""

import numpy as np

from septuagint.report.answer import Answer, Figure
from septuagint.report.diagnosis.curves import NOTABLE_NATS, Curve, Turn, curve_of, turn_of
from septuagint.report.diagnosis.fits import Projection
from septuagint.report.diagnosis.phrases import count, figure, lower, unknown
from septuagint.report.diagnosis.time_use import main_attempt
from septuagint.report.quantities import plain
from septuagint.report.reading.fields import whole
from septuagint.report.reading.happenings import Validation
from septuagint.report.reading.record import Record

QUESTION = "Is it fully trained?"
# What twice the steps would bring. The reference runs' loss fell by 0.08 from 50,000 to 100,000 steps, and by 0.04 a
# doubling from there to 300,000.
_DONE_NATS, _NEARLY_NATS = NOTABLE_NATS, 0.06
# A third of a point is the least that a test set of some thousand lines tells apart; a whole one readers notice.
_DONE_BLEU, _NEARLY_BLEU = 0.3, 1.0
# With two or three validations: the last two must not lie further apart than this share of the loss.
_STEADY_SHARE = 0.03
_MANY_VALIDATIONS, _SOME_VALIDATIONS = 8, 4
# A cosine that has come to its end made part of the last fall: what is projected must be plain to see.
_FAR_NATS = 0.2
# A learning rate below this share of its peak teaches hardly anything more.
_SPENT_RATE = 0.1
_VERDICTS = ("yes", "partly", "no")
# Below both of these, nobody could guess what the source said.
_NO_BLEU, _NO_CHRF = 3.0, 15.0
# So much better on its own text, a model has left the plateau; if it still cannot translate, it lacks text, not time.
_KNOWN_NATS = 0.3


def fully_trained(record: Record) -> Answer:
    """Answers by what twice the steps would bring."""
    loss, bleu = curve_of(record.validations, "valid_loss"), curve_of(record.validations, "bleu", sign=-1)
    if len(loss) < 2:
        return _too_few(record, len(loss))
    turn, gain, score_gain = turn_of(loss), loss.projection(0.0), bleu.projection(-100.0)
    level = _together(_loss_level(loss, gain, turn), _score_level(bleu, score_gain))
    is_spent = _is_rate_spent(record)
    if is_spent and gain is not None and gain.least < _FAR_NATS:
        level = min(level, 1)
    premature = None if turn.is_beyond_noise else _why_premature(record)
    if premature is not None:
        level = 2
    return Answer(
        id="fully_trained",
        question=QUESTION,
        verdict=_VERDICTS[level],
        sentence=_sentence(loss, turn, gain, score_gain, level, is_spent=is_spent, premature=premature),
        evidence=tuple(_figures(loss, bleu, turn, gain, score_gain)),
        confidence=_confidence(len(loss), gain, is_spent=is_spent),
        would_change=_cure(record, level, turn, gain, is_spent=is_spent),
    )


def _too_few(record: Record, number: int) -> Answer:
    attempt = main_attempt(record)
    every = whole(attempt.training, "validate_every") if attempt else None
    now = f" (now {every:,})" if every else ""
    return unknown(
        "fully_trained",
        QUESTION,
        f"The record has {count(number, 'validation')} with a loss: a curve needs at least two, better five.",
        f"Set training.validate_every{now} so that the run validates five times or more; it may change on the way.",
        [figure("num_validations", "validations", number)],
    )


def _loss_level(loss: Curve, gain: Projection | None, turn: Turn) -> int:
    """0: done, 1: nearly, 2: far from it. By the loss alone."""
    if turn.is_beyond_noise or gain is None:
        return 0
    if len(loss) < _SOME_VALIDATIONS:
        fall = float(loss.values[-2] - loss.values[-1])
        if fall > max(_STEADY_SHARE * abs(float(loss.values[-2])), _DONE_NATS):
            return 2
    return _level(gain, _DONE_NATS, _NEARLY_NATS)


def _score_level(bleu: Curve, gain: Projection | None) -> int | None:
    """The same by BLEU; None where there are too few scores to tell their noise."""
    return _level(gain, _DONE_BLEU, _NEARLY_BLEU) if gain is not None and len(bleu) >= _SOME_VALIDATIONS else None


def _level(gain: Projection, done: float, nearly: float) -> int:
    level = 0 if gain.fall < done else 1 if gain.fall < nearly else 2
    # A gain that may as well be nothing is less of a reason to go on.
    return max(0, level - 1) if gain.least <= 0 else level


def _together(by_loss: int, by_score: int | None) -> int:
    """What counts is the translation; a loss that still falls while no translation gets better is nearly done."""
    if by_score is None:
        return by_loss
    return min(by_loss, 1) if by_score == 0 else max(by_loss, by_score)


def _why_premature(record: Record) -> str | None:
    """Why a curve that looks flat would be no sign of an end; None where it would be one.

    Translation models rest on a plateau before they learn to look at the source: there the loss alone misleads.
    """
    step = max((look.step for look in record.validations), default=0)
    last = max(record.validations, key=lambda look: look.step)
    attempt = main_attempt(record)
    settings = {} if attempt is None else attempt.training
    warmup, decay, epochs = whole(settings, "warmup_steps"), whole(settings, "decay_steps"), record.train.epochs
    if warmup and step < warmup:
        return f"the learning rate still warms up (step {step:,} of {warmup:,})"
    if decay and settings.get("schedule") == "cosine" and 2 * step < decay:
        return f"its learning rate has only begun to fall (step {step:,} of {decay:,})"
    if _is_useless(last) and not _knows_its_text(last):
        return f"it does not translate yet (BLEU {last.bleu:.1f})"
    if len(epochs) and epochs[-1] < 1:
        return f"it has read only {epochs[-1]:.0%} of its text"
    return None


def _is_useless(look: Validation) -> bool:
    return look.bleu is not None and look.bleu < _NO_BLEU and (look.chrf is None or look.chrf < _NO_CHRF)


def _knows_its_text(look: Validation) -> bool:
    losses = look.valid_loss, look.train_sample_loss
    return losses[0] is not None and losses[1] is not None and losses[0] - losses[1] > _KNOWN_NATS


def _is_rate_spent(record: Record) -> bool:
    rates = record.train.learning_rate
    rates = rates[np.isfinite(rates)]
    attempt = main_attempt(record)
    is_cosine = attempt is not None and attempt.training.get("schedule") == "cosine"
    return bool(is_cosine and len(rates) and rates[-1] < _SPENT_RATE * rates.max())


def _sentence(
    loss: Curve,
    turn: Turn,
    gain: Projection | None,
    score_gain: Projection | None,
    level: int,
    *,
    is_spent: bool,
    premature: str | None,
) -> str:
    if turn.is_beyond_noise and level == 0:
        return (
            f"Validation loss was lowest ({turn.lowest:.3f}) at step {turn.step:,} and has risen by {turn.rise:.3f} "
            "since: more steps of the same would not help."
        )
    words = ("It has flattened out", "It still gains a little", "It is still learning")[level]
    now = f"validation loss {loss.values[-1]:.3f} at step {loss.steps[-1]:,.0f}"
    sentence = f"{words}: {now}" if premature is None else f"It is too early to stop: {premature}; {now}"
    if gain is not None and premature is None:
        longer = "a schedule twice as long" if is_spent else "twice the steps"
        sentence += f", and {longer} would {_what_it_would_bring(gain, score_gain)}"
    if is_spent:
        sentence += "; the learning rate has fallen to nearly nothing, which by itself makes the end flat"
    return f"{sentence}."


def _what_it_would_bring(gain: Projection, score_gain: Projection | None) -> str:
    fall, least, most = (f"{max(nats, 0):.3f}" for nats in (gain.fall, gain.least, gain.most))
    is_flat = most == "0.000"
    words = "not lower it" if is_flat else f"lower it by about {fall} (between {least} and {most} nats per token)"
    if score_gain is not None:
        words += f" {'but' if is_flat else 'and'} raise BLEU by about {max(score_gain.fall, 0):.1f}"
    return words


def _figures(
    loss: Curve, bleu: Curve, turn: Turn, gain: Projection | None, score_gain: Projection | None
) -> list[Figure]:
    line, score_line = loss.last_line, bleu.last_line
    nats = "nats per token"
    found = [
        figure("num_validations", "validations", len(loss)),
        figure("valid_loss", "validation loss at the end", float(loss.values[-1]), nats),
        figure("best_step", "step with the lowest validation loss", turn.step, "steps"),
        figure("valid_loss_noise", "noise of a single validation loss", loss.noise, nats),
    ]
    if line is not None:
        found += [
            figure("valid_loss_slope", "slope of the last validations", 1000 * line.slope, f"{nats} per 1,000 steps"),
            figure("valid_loss_slope_error", "its standard error", 1000 * line.slope_error, f"{nats} per 1,000 steps"),
        ]
    if gain is not None:
        found += [
            figure("projected_fall", "fall of the loss with twice the steps", gain.fall, nats),
            figure("projected_fall_least", "at least", gain.least, nats),
            figure("projected_fall_most", "at most", gain.most, nats),
            figure("projection", "projected by", _law(gain)),
        ]
    if len(bleu):
        found.append(figure("bleu", "BLEU at the end", -float(bleu.values[-1]), "BLEU"))
    if score_line is not None:
        found.append(figure("bleu_slope", "its slope", -1000 * score_line.slope, "BLEU per 1,000 steps"))
        found.append(
            figure("bleu_slope_error", "standard error", 1000 * score_line.slope_error, "BLEU per 1,000 steps")
        )
    if score_gain is not None:
        found.append(figure("projected_bleu_gain", "gain of BLEU with twice the steps", score_gain.fall, "BLEU"))
        found.append(figure("projected_bleu_gain_least", "at least", score_gain.least, "BLEU"))
    return found


def _law(gain: Projection) -> str:
    if gain.exponent is None:
        return "what the last two validations say of the next doubling"
    return f"a + b · step^-{plain(round(gain.exponent, 2))}, fitted to the last {gain.num_points:,} validations"


def _confidence(number: int, gain: Projection | None, *, is_spent: bool) -> str:
    found = "high" if number >= _MANY_VALIDATIONS else "medium" if number >= _SOME_VALIDATIONS else "low"
    is_divided = gain is not None and any(gain.least < border < gain.most for border in (_DONE_NATS, _NEARLY_NATS))
    return lower(found) if is_divided or is_spent else found


def _cure(record: Record, level: int, turn: Turn, gain: Projection | None, *, is_spent: bool) -> str:
    is_flat = gain is not None and gain.most <= 0
    if level == 0 and (turn.is_beyond_noise or is_flat):
        return "More or other text, or more dropout, would let it learn on; more steps would not."
    if level == 0 and not is_spent:
        return "Only a larger model or more text would bring more."
    if is_spent:
        return (
            "Its schedule is used up: only a new run with a larger training.decay_steps and max_steps would bring more."
        )
    steps = int(max((look.step for look in record.validations), default=0))
    return (
        f"Raise training.max_steps (to {2 * steps:,}, say) and run the same command again: it goes on where it stopped."
    )
