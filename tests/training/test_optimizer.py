"""The learning rate depends on the step alone; the optimizer's memory survives a checkpoint."""

import math

import pytest
import torch

from septuagint.config import TrainingConfig
from septuagint.training.optimizer import (
    describe_learning_rate,
    learning_rate,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
    update_average,
)
from tests.model.conftest import small_model


def settings(**fields: object) -> TrainingConfig:
    return TrainingConfig.model_validate(fields)


@pytest.mark.parametrize("step", [1, 100, 7999, 8000, 8001, 50_000, 10**6])
def test_the_reference_policy_is_the_published_formula(step):
    expected = 2.0 * 512**-0.5 * min(step**-0.5, step * 8000**-1.5)
    assert learning_rate(step, settings(), 512) == pytest.approx(expected)


def test_the_reference_peak_is_about_a_thousandth():
    assert learning_rate(8000, settings(), 512) == pytest.approx(9.9e-4, rel=0.01)


def test_a_peak_of_ones_own_is_reached_at_the_end_of_the_warm_up():
    for schedule in ({"schedule": "constant"}, {"schedule": "cosine", "decay_steps": 1000}, {}):
        chosen = settings(learning_rate=3e-4, warmup_steps=100, **schedule)
        assert learning_rate(100, chosen, 512) == pytest.approx(3e-4)
        assert learning_rate(50, chosen, 512) == pytest.approx(1.5e-4)


def test_cosine_falls_to_a_hundredth_and_stays_there():
    chosen = settings(learning_rate=1.0, warmup_steps=100, schedule="cosine", decay_steps=1100)
    rates = [learning_rate(step, chosen, 512) for step in (100, 350, 600, 1100, 5000)]
    assert rates == sorted(rates, reverse=True)
    assert rates[2] == pytest.approx(0.505)
    assert rates[3] == rates[4] == pytest.approx(0.01)


def test_constant_stays():
    chosen = settings(learning_rate=0.5, warmup_steps=10, schedule="constant")
    assert {learning_rate(step, chosen, 512) for step in (10, 11, 10**6)} == {0.5}


def test_the_formula_is_told_with_the_numbers_of_the_run():
    assert "512^-0.5" in describe_learning_rate(settings(), 512)
    assert "8000^-1.5" in describe_learning_rate(settings(), 512)
    assert "2 times as much for matrices" in describe_learning_rate(settings(optimizer="muon"), 512)
    assert "step 900" in describe_learning_rate(settings(schedule="cosine", decay_steps=900, warmup_steps=9), 64)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_weight_decay_is_for_the_matrices_of_the_layers(name):
    model = small_model()
    optimizer = make_optimizer(model, settings(weight_decay=0.1, optimizer=name))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed = {names[id(p)] for g in optimizer.param_groups if g["weight_decay"] for p in g["params"]}
    assert decayed
    assert not any("norm" in name or "bias" in name or "embeddings" in name for name in decayed)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(names)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_optimizer_goes_on_bit_for_bit_where_it_was(name):
    def steps(model, optimizer, numbers):
        for number in numbers:
            torch.manual_seed(number)
            for parameter in model.parameters():
                parameter.grad = torch.randn_like(parameter)
            for group in optimizer.param_groups:
                group["lr"] = 0.01
            optimizer.step()

    straight = small_model()
    steps(straight, make_optimizer(straight, settings(optimizer=name)), range(6))
    first = small_model()
    optimizer = make_optimizer(first, settings(optimizer=name))
    steps(first, optimizer, range(3))
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(first, optimizer).items()}
    second = small_model()
    second.load_state_dict(first.state_dict())
    resumed = make_optimizer(second, settings(optimizer=name))
    restore_optimizer(second, resumed, saved)
    steps(second, resumed, range(3, 6))
    for ours, theirs in zip(second.parameters(), straight.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_moving_average_follows_quickly_at_first_and_slowly_later():
    average, weights = [torch.zeros(3)], [torch.ones(3)]
    update_average(average, weights, step=1, decay=0.999)
    assert average[0][0] == pytest.approx(1 - 2 / 11)
    average = [torch.zeros(3)]
    update_average(average, weights, step=10**6, decay=0.999)
    assert average[0][0] == pytest.approx(0.001)
    assert math.isclose(weights[0][0], 1.0)
