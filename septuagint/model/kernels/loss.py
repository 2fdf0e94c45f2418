"""Label-smoothed cross-entropy, for GPUs: the logits are read from memory once, and become their gradient in place.

T tokens, V vocabulary.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from septuagint.batch import IGNORE

# Pieces that a program looks at together.
_CHUNK = 4096
_WARPS = 8


def cross_entropy_in_place(
    logits_TV: Tensor,
    labels_T: Tensor,
    label_smoothing: float,
    consistency: float,
    gradient_scale: Tensor | None,
    *,
    with_gradient: bool,
) -> Tensor:
    """The losses, zero without a label. The logits become their gradient, times the scale.

    Without `consistency` there is a loss for each token, with it one for each token of the first half: that of both
    copies, and so many times their divergence. See `loss.token_loss`.
    """
    num_tokens, num_pieces = logits_TV.shape
    assert logits_TV.is_contiguous()
    num_losses = num_tokens // 2 if consistency else num_tokens
    losses = torch.empty(num_losses, dtype=torch.float32, device=logits_TV.device)
    scale = losses if gradient_scale is None else gradient_scale
    kernel, numbers = _cross_entropy, [num_pieces, label_smoothing, IGNORE]
    if consistency:
        kernel, numbers = _consistent_cross_entropy, [*numbers, consistency]
    kernel[(num_losses,)](
        logits_TV,
        labels_T,
        losses,
        scale,
        *numbers,
        has_scale=gradient_scale is not None,
        with_gradient=with_gradient,
        chunk=_CHUNK,
        num_warps=_WARPS,
    )
    return losses


@triton.jit
def _cross_entropy(
    logits_ptr,
    labels_ptr,
    losses_ptr,
    scale_ptr,
    num_pieces,
    label_smoothing,
    ignore,
    has_scale: tl.constexpr,
    with_gradient: tl.constexpr,
    chunk: tl.constexpr,
):
    """One token. The second look at its logits finds them in the cache."""
    token = tl.program_id(0).to(tl.int64)
    row = logits_ptr + token * num_pieces
    label = tl.load(labels_ptr + token)
    log2_e: tl.constexpr = 1.4426950408889634
    if label == ignore:
        tl.store(losses_ptr + token, 0.0)
        if with_gradient:
            _clear(row, num_pieces, chunk)
    else:
        log2_total, mean = _add_up(row, num_pieces, chunk)
        chosen = tl.load(row + label).to(tl.float32)
        loss = log2_total / log2_e - (1 - label_smoothing) * chosen - label_smoothing * mean
        tl.store(losses_ptr + token, loss)
        if with_gradient:
            scale = 1.0
            if has_scale:
                scale = tl.load(scale_ptr)
            tl.debug_barrier()  # all have read the label's logit before one writes over it
            for first in range(0, num_pieces, chunk):
                pieces = first + tl.arange(0, chunk)
                is_piece = pieces < num_pieces
                logits = tl.load(row + pieces, mask=is_piece, other=0.0).to(tl.float32)
                gradient = tl.exp2(logits * log2_e - log2_total) - label_smoothing / num_pieces
                gradient = tl.where(pieces == label, gradient - (1 - label_smoothing), gradient) * scale
                tl.store(row + pieces, gradient.to(logits_ptr.dtype.element_ty), mask=is_piece)


@triton.jit
def _consistent_cross_entropy(
    logits_ptr,
    labels_ptr,
    losses_ptr,
    scale_ptr,
    num_pieces,
    label_smoothing,
    ignore,
    consistency,
    has_scale: tl.constexpr,
    with_gradient: tl.constexpr,
    chunk: tl.constexpr,
):
    """One token in both halves, which say p and q."""
    token = tl.program_id(0).to(tl.int64)
    row_p = logits_ptr + token * num_pieces
    row_q = row_p + tl.num_programs(0).to(tl.int64) * num_pieces
    label = tl.load(labels_ptr + token)
    log2_e: tl.constexpr = 1.4426950408889634
    if label == ignore:
        tl.store(losses_ptr + token, 0.0)
        if with_gradient:
            _clear(row_p, num_pieces, chunk)
            _clear(row_q, num_pieces, chunk)
    else:
        log2_p, mean_p = _add_up(row_p, num_pieces, chunk)
        log2_q, mean_q = _add_up(row_q, num_pieces, chunk)
        parts_p = tl.zeros([chunk], tl.float32)  # of KL(p || q)
        parts_q = tl.zeros([chunk], tl.float32)  # of KL(q || p)
        for first in range(0, num_pieces, chunk):
            pieces = first + tl.arange(0, chunk)
            is_piece = pieces < num_pieces
            exponent_p = tl.load(row_p + pieces, mask=is_piece, other=0.0).to(tl.float32) * log2_e - log2_p
            exponent_q = tl.load(row_q + pieces, mask=is_piece, other=0.0).to(tl.float32) * log2_e - log2_q
            apart = tl.where(is_piece, (exponent_p - exponent_q) / log2_e, 0.0)
            parts_p += tl.exp2(exponent_p) * apart
            parts_q -= tl.exp2(exponent_q) * apart
        divergence_p = tl.sum(parts_p, axis=0)
        divergence_q = tl.sum(parts_q, axis=0)
        chosen = tl.load(row_p + label).to(tl.float32) + tl.load(row_q + label).to(tl.float32)
        loss = (log2_p + log2_q) / log2_e - (1 - label_smoothing) * chosen - label_smoothing * (mean_p + mean_q)
        tl.store(losses_ptr + token, loss + 0.5 * consistency * (divergence_p + divergence_q))
        if with_gradient:
            scale = 1.0
            if has_scale:
                scale = tl.load(scale_ptr)
            tl.debug_barrier()  # all have read the label's logits before one writes over them
            for first in range(0, num_pieces, chunk):
                pieces = first + tl.arange(0, chunk)
                is_piece = pieces < num_pieces
                exponent_p = tl.load(row_p + pieces, mask=is_piece, other=0.0).to(tl.float32) * log2_e - log2_p
                exponent_q = tl.load(row_q + pieces, mask=is_piece, other=0.0).to(tl.float32) * log2_e - log2_q
                p = tl.exp2(exponent_p)
                q = tl.exp2(exponent_q)
                apart = (exponent_p - exponent_q) / log2_e
                wanted = tl.where(pieces == label, 1 - label_smoothing, 0.0) + label_smoothing / num_pieces
                pull_p = p * (apart - divergence_p) + p - q
                pull_q = q * (-apart - divergence_q) + q - p
                gradient_p = (p - wanted + 0.5 * consistency * pull_p) * scale
                gradient_q = (q - wanted + 0.5 * consistency * pull_q) * scale
                tl.store(row_p + pieces, gradient_p.to(logits_ptr.dtype.element_ty), mask=is_piece)
                tl.store(row_q + pieces, gradient_q.to(logits_ptr.dtype.element_ty), mask=is_piece)


@triton.jit
def _add_up(row, num_pieces, chunk: tl.constexpr):
    """(the logarithm to base 2 of the sum of a row's exponentials, the mean of its logits)."""
    log2_e: tl.constexpr = 1.4426950408889634
    largest = tl.full([], float("-inf"), tl.float32)
    totals = tl.zeros([chunk], tl.float32)
    sums = tl.zeros([chunk], tl.float32)
    for first in range(0, num_pieces, chunk):
        pieces = first + tl.arange(0, chunk)
        logits = tl.load(row + pieces, mask=pieces < num_pieces, other=float("-inf")).to(tl.float32)
        sums += tl.where(pieces < num_pieces, logits, 0.0)
        new_largest = tl.maximum(largest, tl.max(logits, axis=0) * log2_e)
        totals = totals * tl.exp2(largest - new_largest) + tl.exp2(logits * log2_e - new_largest)
        largest = new_largest
    return largest + tl.log2(tl.sum(totals, axis=0)), tl.sum(sums, axis=0) / num_pieces


@triton.jit
def _clear(row, num_pieces, chunk: tl.constexpr):
    """No gradient."""
    for first in range(0, num_pieces, chunk):
        pieces = first + tl.arange(0, chunk)
        tl.store(row + pieces, tl.zeros([chunk], row.dtype.element_ty), mask=pieces < num_pieces)
