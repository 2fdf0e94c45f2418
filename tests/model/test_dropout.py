"""Dropout: the right share, the right factor, the same mask on the way back, drawn or from a hash."""

import itertools

import pytest
import torch

from septuagint.model.dropout import Dropout, dropout

SEEDS = [None, torch.tensor(5, dtype=torch.int32), torch.tensor(2**30, dtype=torch.int32)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_share_of_the_numbers_is_dropped_and_the_mean_stays(share, seed):
    torch.manual_seed(1)
    result = dropout(torch.ones(1000, 1001), share, seed)
    assert (result == 0).float().mean().item() == pytest.approx(share, abs=0.002)
    assert result.mean().item() == pytest.approx(1.0, abs=0.002)
    assert len(result.unique()) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_pass_where_numbers_did(seed):
    x = torch.randn(7, 5).requires_grad_()
    result = dropout(x, 0.4, seed)
    result.sum().backward()
    assert torch.equal(x.grad == 0, result == 0)
    torch.testing.assert_close(x.grad * x, result)


@pytest.mark.parametrize("seed", SEEDS)
def test_neighbours_are_dropped_independently(seed):
    torch.manual_seed(2)
    is_dropped = dropout(torch.ones(400_000), 0.5, seed) == 0
    for distance in (1, 2, 3, 4, 5, 512, 513, 1024):
        together = (is_dropped[distance:] & is_dropped[:-distance]).float().mean().item()
        assert together == pytest.approx(0.25, abs=0.005)


def test_places_and_seeds_are_dropped_independently():
    masks = [dropout(torch.ones(400_000), 0.5, torch.tensor(seed, dtype=torch.int32)) == 0 for seed in range(5)]
    for first, second in itertools.combinations(masks, 2):
        assert (first & second).float().mean().item() == pytest.approx(0.25, abs=0.005)


def test_it_is_seeded_and_off_outside_training():
    x = torch.randn(10, 10)
    torch.manual_seed(3)
    first = dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.5))
    assert dropout(x, 0.0) is x
    assert Dropout(0.5, is_training=False, device=x.device)(x) is x
    assert Dropout(0.5, is_training=True, device=x.device)(x) is not x
