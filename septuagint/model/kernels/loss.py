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
    logits_TV: Tensor, labels_T: Tensor, label_smoothing: float, gradient_scale: Tensor | None, *, with_gradient: bool
) -> Tensor:
    """The loss of each token, zero without a label. The logits become their gradient, times the scale."""
    num_tokens, num_pieces = logits_TV.shape
    assert logits_TV.is_contiguous()
    losses_T = torch.empty(num_tokens, dtype=torch.float32, device=logits_TV.device)
    _cross_entropy[(num_tokens,)](
        logits_TV,
        labels_T,
        losses_T,
        losses_T if gradient_scale is None else gradient_scale,
        num_pieces,
        label_smoothing,
        IGNORE,
        has_scale=gradient_scale is not None,
        with_gradient=with_gradient,
        chunk=_CHUNK,
        num_warps=_WARPS,
    )
    return losses_T


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
            for first in range(0, num_pieces, chunk):
                pieces = first + tl.arange(0, chunk)
                tl.store(row + pieces, tl.zeros([chunk], logits_ptr.dtype.element_ty), mask=pieces < num_pieces)
    else:
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
        log2_total = largest + tl.log2(tl.sum(totals, axis=0))
        mean = tl.sum(sums, axis=0) / num_pieces
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
