"""Fully trained and overfitting: verdicts that follow the curves of validations."""

from functools import partial

import numpy as np
import pytest

from tests.report.records import Life, Plan, edit_events, write_run
from tests.report.test_diagnosis import answers, diagnosed, value


def falling(steps, *, start: float, floor: float, power: float = 0.5, noise: float = 0.003):
    """A loss that falls by a power law, with the noise of validations."""
    random = np.random.default_rng(7)
    steps = np.array(steps, dtype=float)
    return (floor + start * steps**-power + noise * random.standard_normal(len(steps))).round(4)


def curve(valid, train=None, bleu=None, every: int = 100):
    rows = zip(valid, valid if train is None else train, [None] * len(valid) if bleu is None else bleu, strict=True)
    return {every * place: tuple(None if x is None else float(x) for x in row) for place, row in enumerate(rows, 1)}


STEPS = range(100, 1001, 100)


@pytest.mark.parametrize(
    ("losses", "bleu", "verdict"),
    [
        (falling(STEPS, start=60, floor=1.0), None, "no"),
        (falling(STEPS, start=1, floor=2.0, power=1), None, "yes"),
        (falling(STEPS, start=3, floor=1.0), None, "partly"),
        (falling(STEPS, start=1, floor=2.0, power=1), 40 - falling(STEPS, start=200, floor=10, noise=0.05), "no"),
        (falling(STEPS, start=60, floor=1.0)[:2], None, "no"),
        (falling(STEPS, start=60, floor=1.0)[:1], None, "unknown"),
        ([], None, "unknown"),
        ([3.0, 2.5, 2.2, 2.1, 2.15, 2.3, 2.4, 2.5], None, "yes"),
    ],
)
def test_fully_trained_follows_the_curve(losses, bleu, verdict, tmp_path):
    answer = answers(tmp_path, Plan(validations=curve(losses, bleu=bleu)))["fully_trained"]
    assert answer.verdict == verdict
    if verdict == "unknown":
        assert "validate_every" in answer.would_change


def test_a_loss_that_would_not_fall_is_told_in_words_and_more_steps_are_not_advised(tmp_path):
    """The general recipe on an H200: the loss creeps up within its noise, while translations gain a little."""
    losses = [2.315, 1.804, 1.660, 1.579, 1.547, 1.539, 1.546, 1.550, 1.557, 1.562]
    bleu = [21.8, 26.6, 28.5, 29.3, 29.8, 30.2, 30.1, 30.3, 30.4, 30.2]
    answer = answers(tmp_path, Plan(validations=curve(losses, bleu=bleu)))["fully_trained"]
    assert answer.verdict == "yes"
    assert "twice the steps would not lower it but raise BLEU by about 0." in answer.sentence
    assert "more steps would not" in answer.would_change


def test_course_curves_are_judged_as_they_were(tmp_path):
    """Loss 1.71, 1.63, 1.56 at 50,000, 100,000 and 300,000 steps: far from done at first, then nearly."""
    for last, verdict in ((50_000, "no"), (100_000, "partly"), (300_000, "partly")):
        steps = np.linspace(last / 10, last, 10)
        # Through those three points: a + b · step^-c.
        losses = 1.497 + 0.2129 * (steps / 50_000) ** -0.68
        run = write_run(tmp_path / str(last), Plan(validations=curve(losses)))

        def stretch(event, factor):
            if event["event"] == "validation":
                event["step"] *= factor

        edit_events(run, partial(stretch, factor=last // 1000))
        assert diagnosed(run)["fully_trained"].verdict == verdict, last


def test_a_flat_end_by_a_spent_cosine_is_told(tmp_path):
    settings = {"schedule": "cosine", "learning_rate": 1e-3, "warmup_steps": 10, "decay_steps": 1000}
    plan = Plan(validations=curve(falling(STEPS, start=1, floor=2.0, power=1)), training=settings)
    run = write_run(tmp_path, plan)

    def fall_in_a_line(event):
        if event["event"] == "train":
            event["learning_rate"] = 1e-3 * (1.01 - event["step"] / 1000)

    edit_events(run, fall_in_a_line)
    found = diagnosed(run)
    assert "learning rate has fallen to nearly nothing" in found["fully_trained"].sentence
    assert "differ from the formula" in found["learning_rate"].sentence


@pytest.mark.parametrize(
    ("valid", "train", "verdict"),
    [
        ([3.0, 2.5, 2.2, 2.1, 2.15, 2.3, 2.4, 2.5], [2.9, 2.3, 1.9, 1.6, 1.3, 1.0, 0.8, 0.6], "yes"),
        ([3.0, 2.5, 2.2, 2.1, 2.1, 2.1, 2.1, 2.1], [2.9, 2.3, 1.9, 1.7, 1.6, 1.5, 1.4, 1.3], "partly"),
        ([3.0, 2.5, 2.2, 2.1, 2.0, 1.95, 1.9, 1.86], [2.9, 2.3, 1.9, 1.7, 1.6, 1.5, 1.4, 1.3], "no"),
        ([3.0, 2.5, 2.2, 2.1, 2.15, 2.3, 2.4, 2.5], [2.9, 2.3, 1.9, 1.6, 1.7, 1.9, 2.0, 2.1], "no"),
        (falling(range(100, 2001, 100), start=1, floor=2, power=1, noise=0.02), None, "no"),
        ([3.0], [2.9], "unknown"),
    ],
)
def test_overfitting_needs_a_rise_beyond_noise_while_training_text_is_learned(valid, train, verdict, tmp_path):
    plan = Plan(lives=(Life(last_step=100 * len(valid)),), validations=curve(valid, train))
    assert answers(tmp_path, plan)["overfitting"].verdict == verdict


def test_averages_do_not_bend_the_curve(tmp_path):
    plan = Plan(validations=curve([3.0, 2.5, 2.2, 2.1, 2.05, 2.0]), averages={1000: (1.2, 1.0, 30.0)})
    assert value(answers(tmp_path, plan)["overfitting"], "best_valid_loss") == 2.0
