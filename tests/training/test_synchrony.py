"""Gradients are the mean over the world's tokens, weights stay the same, and a rank that drifted is named."""

import pytest
import torch

from septuagint.config import Config, ModelConfig, TrainingConfig
from septuagint.errors import DriftError
from septuagint.training.state import build_training
from septuagint.training.step import rehearse, train_step
from septuagint.training.synchrony import check_no_drift, check_same_files, fingerprint
from septuagint.training.watch import Watch
from septuagint.world import World
from tests.model.conftest import SMALL, VOCABULARY_SIZE, random_pairs
from tests.ranks import in_ranks
from tests.training.test_step import microbatches

NUM_STEPS = 3


def train_some(world: World, watch: Watch | None, num_packs: int, dropout: float) -> dict[str, object]:
    """A few steps of packs of very different sizes, shared by the ranks."""
    config = Config.model_construct(
        model=ModelConfig.model_validate({"preset": "modern", **SMALL, "dropout": dropout}),
        training=TrainingConfig.model_validate({"warmup_steps": 1, "learning_rate": 1e-3}),
    )
    torch.set_num_threads(1)
    training = build_training(config, VOCABULARY_SIZE, 64, world)
    packs = microbatches(
        [random_pairs([(3 + index, 2 + 5 * index)] * (index + 1), index) for index in range(num_packs)]
    )
    if world.size > 1:
        rehearse(training, packs[world.rank])
    own = packs[world.rank :: world.size]
    results = [train_step(training, own, step, tally=[1.0, world.rank]) for step in range(1, NUM_STEPS + 1)]
    return {
        "losses": [float(result.loss_sum / result.num_tokens) for result in results],
        "tokens": [float(result.num_tokens) for result in results],
        "norms": [float(result.gradient_norm) for result in results],
        "tally": results[-1].tally.tolist(),
        "weights": [parameter.detach().tolist() for parameter in training.model.parameters()],
        "fingerprint": fingerprint(list(training.model.parameters())),
    }


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("size", [2, 3])
def test_the_update_does_not_depend_on_the_number_of_ranks(size, dropout):
    alone = train_some(World(), None, 5, dropout)  # five packs: some ranks have more than others
    found = in_ranks(size, train_some, 5, dropout)
    assert len({rank["fingerprint"] for rank in found}) == 1
    for rank in found:
        assert rank["tokens"] == alone["tokens"]
        assert rank["losses"] == pytest.approx(alone["losses"], rel=1e-5)
        assert rank["norms"] == pytest.approx(alone["norms"], rel=1e-4)
        assert rank["tally"] == [size, sum(range(size))]
        for mine, theirs in zip(rank["weights"], alone["weights"], strict=True):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), rtol=1e-4, atol=2e-5)


def test_a_flipped_bit_and_exchanged_tensors_change_the_fingerprint():
    tensors = [torch.randn(5, 7), torch.randn(5, 7)]
    before = fingerprint(tensors)
    assert fingerprint([tensor.clone() for tensor in tensors]) == before
    assert fingerprint(tensors[::-1]) != before
    for bit in (0, 13, 31):
        tensors[0].view(torch.int32)[2, 3] ^= 1 << bit if bit < 31 else -(1 << 31)
        assert fingerprint(tensors) != before
        tensors[0].view(torch.int32)[2, 3] ^= 1 << bit if bit < 31 else -(1 << 31)
    assert fingerprint(tensors) == before


def drift(world: World, watch: Watch, drifted: int) -> str:
    weights = [torch.ones(4, 4)]
    weights[0][1, 1] += 1e-6 if world.rank == drifted else 0
    try:
        check_no_drift(weights, 7, world)
    except DriftError as error:
        return str(error)
    return "same"


def test_a_rank_that_drifted_is_named():
    for text in in_ranks(3, drift, 1):
        assert "at step 7: rank 1 on" in text and "drifted from the others" in text and "rank 0" not in text
    for text in in_ranks(2, drift, 1):
        assert "rank 0 on" in text and "rank 1 on" in text and "no majority" in text
    assert in_ranks(2, drift, -1) == ["same", "same"]


def test_checkpoints_that_differ_between_disks_are_named():
    world = World(size=3, hosts=("alpha", "alpha", "beta"))
    check_same_files([(5, "abc"), None, (5, "abc")], world)
    check_same_files([(5, "abc"), None, None], world)
    check_same_files([None, None, None], world)
    with pytest.raises(DriftError, match=r"step 5 .*rank 0 on alpha abc, rank 2 on beta abd"):
        check_same_files([(5, "abc"), None, (5, "abd")], world)
