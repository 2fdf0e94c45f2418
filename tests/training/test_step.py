"""The step: the mean over all tokens however they are cut, clipped, and not taken where it is not finite."""

import dataclasses

import pytest
import torch

from septuagint.batch import Microbatch
from septuagint.config import Config, ModelConfig, TrainingConfig
from septuagint.training.precision import LossScale
from septuagint.training.state import build_training, go_on_plainly, use_kernels
from septuagint.training.step import dropout_seed, train_step
from septuagint.world import World
from tests.model.conftest import SMALL, VOCABULARY_SIZE, pack, random_pairs

LENGTHS = [(5, 7), (1, 1), (12, 3), (9, 20), (2, 6), (30, 25)]
CPU = torch.device("cpu")


def new_training(dropout=0.0, preset="modern", sizes=SMALL, **settings):
    config = Config.model_construct(
        model=ModelConfig.model_validate({"preset": preset, **sizes, "dropout": dropout}),
        training=TrainingConfig.model_validate({"warmup_steps": 1, "learning_rate": 1e-3, **settings}),
    )
    return build_training(config, VOCABULARY_SIZE, 64, World(device=CPU))


def microbatches(packs, first_index=0):
    return [
        Microbatch(batch=pack(pairs, [2], [3]), index=index, num_pairs=1, num_source_tokens=1, num_target_tokens=1)
        for index, pairs in enumerate(packs, first_index)
    ]


def weights(training):
    return [parameter.detach().clone() for parameter in training.model.parameters()]


def test_the_update_does_not_depend_on_how_pairs_fell_into_microbatches():
    pairs = random_pairs(LENGTHS)
    results = []
    for packs in ([pairs], [pairs[:1], pairs[1:]], [[pair] for pair in pairs]):
        training = new_training(max_gradient_norm=0.1)
        result = train_step(training, microbatches(packs), 1)
        results.append((result, weights(training)))
    for result, after in results[1:]:
        assert result.num_tokens == results[0][0].num_tokens == sum(len(target) for _, target in pairs)
        torch.testing.assert_close(result.loss_sum, results[0][0].loss_sum, rtol=1e-5, atol=0)
        torch.testing.assert_close(result.gradient_norm, results[0][0].gradient_norm, rtol=1e-4, atol=0)
        torch.testing.assert_close(after, results[0][1], rtol=1e-4, atol=2e-5)


def test_dropout_is_decided_by_seed_step_and_microbatch_alone():
    pairs = random_pairs(LENGTHS)

    def loss(step, index, seed=1, disturbance=0):
        training = new_training(dropout=0.3, seed=seed)
        torch.manual_seed(disturbance)
        return float(train_step(training, microbatches([pairs], index), step).loss_sum)

    # The weights at the start depend on the seed too, so seeds are compared by the number they give.
    assert loss(1, 0) == loss(1, 0, disturbance=99)
    assert loss(1, 0) != loss(2, 0)
    assert loss(1, 0) != loss(1, 1)
    assert dropout_seed(1, 1, 0) != dropout_seed(2, 1, 0)


def test_a_step_by_our_own_kernels_is_the_plain_step_and_so_is_the_one_without_them_again():
    pytest.importorskip("triton", reason="needs triton")
    batches = microbatches([random_pairs(LENGTHS[:3]), random_pairs(LENGTHS[2:4])])
    sizes = {**SMALL, "width": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    plain, ours = new_training(sizes=sizes), new_training(sizes=sizes)
    use_kernels(ours)
    assert (ours.backend, ours.is_compiled, ours.recorder) == ("tiled", True, None)  # there is no GPU to record for
    for step in (1, 2):
        expected, found = (train_step(training, batches, step) for training in (plain, ours))
        torch.testing.assert_close(found.loss_sum, expected.loss_sum, rtol=1e-5, atol=0)
        torch.testing.assert_close(found.gradient_norm, expected.gradient_norm, rtol=1e-4, atol=0)
        torch.testing.assert_close(weights(ours), weights(plain), rtol=1e-4, atol=2e-5)
        go_on_plainly(ours)
        assert (ours.backend, ours.is_compiled, ours.halves) == ("padded", False, None)


@pytest.mark.parametrize("with_kernels", [False, True])
def test_two_looks_that_agree_are_as_good_as_one(with_kernels):
    sizes = {**SMALL, "width": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    batches = microbatches([random_pairs(LENGTHS[:3]), random_pairs(LENGTHS[2:4])])
    one, two = new_training(sizes=sizes), new_training(sizes=sizes, consistency=5.0)
    if with_kernels:
        pytest.importorskip("triton", reason="needs triton")
        use_kernels(two)
    expected, found = (train_step(training, batches, 1) for training in (one, two))
    assert found.num_tokens == 2 * expected.num_tokens
    torch.testing.assert_close(found.loss_sum, 2 * expected.loss_sum, rtol=1e-5, atol=0)
    torch.testing.assert_close(weights(two), weights(one), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("with_kernels", [False, True])
def test_dropout_drops_other_numbers_at_the_second_look(with_kernels):
    sizes = {**SMALL, "width": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    losses = []
    for consistency in (1.0, 100.0):
        training = new_training(dropout=0.3, sizes=sizes, consistency=consistency)
        if with_kernels:
            pytest.importorskip("triton", reason="needs triton")
            use_kernels(training)
        losses.append(float(train_step(training, microbatches([random_pairs(LENGTHS[:3])]), 1).loss_sum))
    assert losses[1] > 1.5 * losses[0]  # the same looks: what they differ by counts more


def test_dropout_by_our_own_kernels_is_decided_by_the_same_things():
    pytest.importorskip("triton", reason="needs triton")
    batches = [microbatches([random_pairs(LENGTHS[:2])], index) for index in (0, 1)]

    def loss(step, index):
        sizes = {**SMALL, "num_heads": 1, "num_encoder_layers": 1, "num_decoder_layers": 1}
        training = new_training(dropout=0.3, sizes=sizes)
        use_kernels(training)
        return float(train_step(training, batches[index], step).loss_sum)

    assert loss(1, 0) == loss(1, 0)
    assert len({loss(1, 0), loss(2, 0), loss(1, 1)}) == 3


def test_a_long_gradient_is_shortened():
    pairs = random_pairs(LENGTHS)
    plain, clipped = new_training(max_gradient_norm=0), new_training(max_gradient_norm=1e-3)
    first, second = (train_step(training, microbatches([pairs]), 1) for training in (plain, clipped))
    assert first.gradient_norm == second.gradient_norm > 1e-3
    ratios = [
        (ours / theirs).nanmean()
        for ours, theirs in zip(
            (clipped.optimizer.state[p]["exp_avg"] for p in clipped.model.parameters()),
            (plain.optimizer.state[p]["exp_avg"] for p in plain.model.parameters()),
            strict=True,
        )
    ]
    assert torch.stack(ratios).mean() == pytest.approx(1e-3 / float(first.gradient_norm), rel=1e-3)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(value):
    training = new_training(ema_decay=0.9)
    batches = microbatches([random_pairs(LENGTHS)])
    train_step(training, batches, 1)
    before, moments = weights(training), training.optimizer.state[training.model.embeddings.weight]["exp_avg"].clone()
    forward = training.forward
    training.forward = lambda batch, layout, scale: (forward(batch, layout, scale)[0] * value, torch.tensor(7))
    for number in (2, 3):
        result = train_step(training, batches, number)
        assert int(result.skipped_in_a_row) == number - 1
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(weights(training), before, strict=True))
    assert torch.equal(training.optimizer.state[training.model.embeddings.weight]["exp_avg"], moments)
    training.forward = forward
    result = train_step(training, batches, 4)
    assert int(result.skipped_in_a_row) == 0
    assert int(result.skipped_steps) == 2
    assert not all(torch.equal(ours, theirs) for ours, theirs in zip(weights(training), before, strict=True))


def test_the_loss_scale_does_not_change_the_update_and_halves_on_overflow():
    pairs = random_pairs(LENGTHS)
    plain, scaled = new_training(), new_training()
    scaled.loss_scale = LossScale.start(CPU)
    for step in (1, 2):
        train_step(plain, microbatches([pairs]), step)
        result = train_step(scaled, microbatches([pairs]), step)
    torch.testing.assert_close(weights(plain), weights(scaled), rtol=1e-4, atol=1e-6)
    assert result.loss_scale == 2**14
    scaled.loss_scale.scale = torch.tensor(1e38)
    result = train_step(scaled, microbatches([pairs]), 3)
    assert int(result.skipped_in_a_row) == 1
    assert scaled.loss_scale.scale == pytest.approx(5e37)


def test_the_moving_average_lags_behind_the_weights():
    training = new_training(ema_decay=0.5)
    train_step(training, microbatches([random_pairs(LENGTHS)]), 1)
    assert training.average is not None
    assert not any(tensor.requires_grad for tensor in training.average.values())  # or every step would be remembered
    current = dict(training.model.named_parameters())
    assert any(not torch.equal(training.average[name], current[name]) for name in current)


def test_a_microbatch_without_tokens_is_harmless():
    training = new_training()
    batch = microbatches([random_pairs(LENGTHS)])[0]
    empty = dataclasses.replace(
        batch, batch=dataclasses.replace(batch.batch, labels_T=torch.full_like(batch.batch.labels_T, -100))
    )
    before = weights(training)
    result = train_step(training, [empty], 1)
    assert int(result.num_tokens) == 0
    assert int(result.skipped_steps) == 0
    torch.testing.assert_close(weights(training), before)
