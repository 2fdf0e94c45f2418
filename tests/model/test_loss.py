"""The chunked loss equals torch's cross-entropy, and so do its gradients."""

import pytest
import torch
from torch.nn import functional as F

from septuagint.batch import IGNORE
from septuagint.model import loss as loss_module
from septuagint.model.loss import token_loss


def example(num_tokens=23, width=8, vocabulary=17):
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(num_tokens, width, generator=generator, dtype=torch.float64)
    embeddings = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, vocabulary, (num_tokens,), generator=generator)
    labels[::5] = IGNORE
    return hidden.requires_grad_(), embeddings.requires_grad_(), labels


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("chunk_tokens", [1, 7, 1000])
def test_loss_and_gradients_are_those_of_cross_entropy_however_it_is_cut(monkeypatch, smoothing, chunk_tokens):
    monkeypatch.setitem(loss_module._CHUNK_NUMBERS, "cpu", 17 * chunk_tokens)
    hidden, embeddings, labels = example()
    loss, count = token_loss(hidden, embeddings, labels, label_smoothing=smoothing)
    loss.backward()
    ours = [hidden.grad.clone(), embeddings.grad.clone()]
    hidden.grad = embeddings.grad = None
    expected = F.cross_entropy(
        hidden @ embeddings.T, labels, ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum"
    )
    expected.backward()
    assert int(count) == (labels != IGNORE).sum()
    torch.testing.assert_close(loss, expected.float())
    # The probabilities are worked out in single precision, as on a GPU.
    torch.testing.assert_close(ours, [hidden.grad, embeddings.grad], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk_tokens", [1, 5, 1000])
def test_copies_of_a_token_are_drawn_together_however_they_are_cut(monkeypatch, chunk_tokens):
    monkeypatch.setitem(loss_module._CHUNK_NUMBERS, "cpu", 17 * 2 * chunk_tokens)
    hidden, embeddings, labels = example(num_tokens=24)
    labels = labels[:12].repeat(2)
    loss, count = token_loss(hidden, embeddings, labels, label_smoothing=0.1, consistency=3.0)
    loss.backward()
    ours = [hidden.grad.clone(), embeddings.grad.clone()]
    hidden.grad = embeddings.grad = None
    logits = hidden @ embeddings.T
    expected = F.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=0.1, reduction="sum")
    p, q = logits.log_softmax(-1)[labels != IGNORE].chunk(2)
    for said, other in ((p, q), (q, p)):
        expected = expected + 1.5 * F.kl_div(other, said, log_target=True, reduction="sum")
    expected.backward()
    assert int(count) == (labels != IGNORE).sum()
    torch.testing.assert_close(loss, expected.float())
    torch.testing.assert_close(ours, [hidden.grad, embeddings.grad], rtol=1e-5, atol=1e-5)


def test_copies_that_agree_cost_nothing_more():
    hidden, embeddings, labels = example()
    loss, _ = token_loss(hidden, embeddings, labels)
    twice, count = token_loss(hidden.repeat(2, 1), embeddings, labels.repeat(2), consistency=3.0)
    assert int(count) == 2 * (labels != IGNORE).sum()
    torch.testing.assert_close(twice, 2 * loss)


def test_only_the_gradient_is_scaled():
    hidden, embeddings, labels = example()
    plain, _ = token_loss(hidden, embeddings, labels)
    plain.backward()
    gradient = hidden.grad.clone()
    hidden.grad = None
    scaled, _ = token_loss(hidden, embeddings, labels, gradient_scale=torch.tensor(64.0))
    scaled.backward()
    assert torch.equal(plain, scaled)
    torch.testing.assert_close(hidden.grad, 64 * gradient)


def test_a_batch_without_labels_costs_nothing():
    hidden, embeddings, labels = example()
    loss, count = token_loss(hidden, embeddings, torch.full_like(labels, IGNORE))
    loss.backward()
    assert loss.item() == 0
    assert count.item() == 0
    assert not hidden.grad.any()


def test_nothing_is_kept_for_a_gradient_that_nobody_wants():
    hidden, embeddings, labels = example()
    with torch.no_grad():
        loss, _ = token_loss(hidden, embeddings, labels)
    assert not loss.requires_grad
