"""Dropout: the right share, the right factor, the same mask on the way back."""

import pytest
import torch

from septuagint.model.dropout import dropout


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_share_of_the_numbers_is_dropped_and_the_mean_stays(share):
    torch.manual_seed(1)
    result = dropout(torch.ones(1000, 1001), share, True)
    assert (result == 0).float().mean().item() == pytest.approx(share, abs=0.002)
    assert result.mean().item() == pytest.approx(1.0, abs=0.002)
    assert len(result.unique()) == 2


def test_gradients_pass_where_numbers_did():
    x = torch.randn(7, 5).requires_grad_()
    result = dropout(x, 0.4, True)
    result.sum().backward()
    assert torch.equal(x.grad == 0, result == 0)
    torch.testing.assert_close(x.grad * x, result)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(2)
    is_dropped = dropout(torch.ones(400_000), 0.5, True) == 0
    for distance in (1, 2, 3, 4, 5):
        together = (is_dropped[distance:] & is_dropped[:-distance]).float().mean().item()
        assert together == pytest.approx(0.25, abs=0.005)


def test_it_is_seeded_and_off_outside_training():
    x = torch.randn(10, 10)
    torch.manual_seed(3)
    first = dropout(x, 0.5, True)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.5, True))
    assert dropout(x, 0.5, False) is x
    assert dropout(x, 0.0, True) is x
