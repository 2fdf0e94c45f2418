"""The loss: label-smoothed cross-entropy over the vocabulary, as a sum and a count.

T tokens, D numbers per token, V vocabulary; C copies of N tokens.
"""

from typing import Any

import torch
from torch import Tensor

from septuagint.batch import IGNORE

# Logits are made for so many tokens at a time that they hold about this many numbers: with 32,768 pieces, 128 tokens on
# a CPU (16 MB) and 8192 on a GPU. What takes more than 32 MB, the system hands out anew each time, page by page.
_CHUNK_NUMBERS = {"cpu": 1 << 22, "cuda": 1 << 28}


def token_loss(
    hidden_TD: Tensor,
    embeddings_VD: Tensor,
    labels_T: Tensor,
    *,
    label_smoothing: float = 0.0,
    consistency: float = 0.0,
    gradient_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(sum of the losses in nats, number of tokens that have a label).

    With `consistency` the second half of the tokens is the first once more, and for each token in both halves, so many
    times the divergence of its two predictions is added: half of KL(p || q) + KL(q || p).

    Logits exist for a chunk of tokens at a time: the gradient is worked out beside the loss. It comes out multiplied by
    `gradient_scale`, before it is rounded to half precision; the loss itself does not.
    """
    loss: Tensor = _TokenLoss.apply(  # type: ignore[no-untyped-call]  # torch does not type it
        hidden_TD, embeddings_VD, labels_T, label_smoothing, consistency, gradient_scale
    )
    return loss, (labels_T != IGNORE).sum()


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_TD: Tensor,
        embeddings_VD: Tensor,
        labels_T: Tensor,
        label_smoothing: float,
        consistency: float,
        gradient_scale: Tensor | None,
    ) -> Tensor:
        num_copies, num_pieces = 2 if consistency else 1, len(embeddings_VD)
        hidden_CND = hidden_TD.reshape(num_copies, -1, hidden_TD.shape[1])
        labels_CN = labels_T.reshape(num_copies, -1)
        output_VD = embeddings_VD.to(hidden_TD.dtype)
        with_gradient = any(ctx.needs_input_grad[:2])
        total = hidden_TD.new_zeros((), dtype=torch.float32)
        hidden_gradients: list[Tensor] = []
        embeddings_gradient_VD: Tensor | None = None
        chunk = max(1, _CHUNK_NUMBERS[hidden_TD.device.type] // (num_copies * num_pieces))
        for first in range(0, labels_CN.shape[1], chunk):
            hidden, labels = (whole[:, first : first + chunk].flatten(0, 1) for whole in (hidden_CND, labels_CN))
            has_label = labels != IGNORE
            index = labels.clamp_min(0)[:, None]
            logits = (hidden @ output_VD.T).float()
            log_sum = logits.logsumexp(-1)
            losses = log_sum - (1 - label_smoothing) * logits.gather(-1, index).squeeze(-1)
            if label_smoothing:
                losses = losses - label_smoothing * logits.mean(-1)
            if consistency:
                probabilities, divergences, divergence_gradient = _divergences(logits.sub_(log_sum[:, None]))
                losses = losses + consistency * divergences
            total = total + torch.where(has_label, losses, 0.0).sum()
            if not with_gradient:
                continue
            scale = has_label.float() if gradient_scale is None else has_label * gradient_scale
            gradient = probabilities if consistency else logits.sub_(log_sum[:, None]).exp_()
            if label_smoothing:
                gradient = gradient.sub_(label_smoothing / num_pieces)
            gradient = gradient.scatter_add_(-1, index, gradient.new_full((), label_smoothing - 1).expand_as(index))
            if consistency:
                gradient = gradient.add_(divergence_gradient, alpha=consistency)
            gradient = gradient.mul_(scale[:, None]).to(hidden.dtype)
            hidden_gradients.append((gradient @ output_VD).reshape(num_copies, -1, hidden.shape[1]))
            if embeddings_gradient_VD is None:
                embeddings_gradient_VD = (gradient.T @ hidden).to(embeddings_VD.dtype)
            elif hidden.dtype == embeddings_VD.dtype:
                embeddings_gradient_VD.addmm_(gradient.T, hidden)  # a pass over the matrix less than + has
            else:
                embeddings_gradient_VD += gradient.T @ hidden
        if with_gradient:
            assert embeddings_gradient_VD is not None
            ctx.save_for_backward(torch.cat(hidden_gradients, dim=1).flatten(0, 1), embeddings_gradient_VD)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        hidden_gradient_TD, embeddings_gradient_VD = ctx.saved_tensors
        return (
            hidden_gradient_TD * gradient.to(hidden_gradient_TD.dtype),
            embeddings_gradient_VD * gradient.to(embeddings_gradient_VD.dtype),
            None,
            None,
            None,
            None,
        )


def _divergences(log_probabilities_TV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What two copies of each token think: (probabilities, half of what they differ by for either copy, the gradient of
    the whole by their logits)."""
    log_p, log_q = log_probabilities_TV.chunk(2)
    probabilities = log_probabilities_TV.exp()
    p, q = probabilities.chunk(2)
    apart = log_p - log_q
    p_from_q, q_from_p = (p * apart).sum(-1), -(q * apart).sum(-1)  # KL(p || q), KL(q || p)
    pull_p = p * (apart - p_from_q[:, None]) + p - q
    pull_q = q * (-apart - q_from_p[:, None]) + q - p
    both = 0.25 * (p_from_q + q_from_p)
    return probabilities, both.repeat(2), 0.5 * torch.cat([pull_p, pull_q])
