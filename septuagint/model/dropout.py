"""Dropout that does not cost a CPU more than the layer it follows."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# Chances are rounded to this many parts; four of them are drawn at once.
_PARTS = 1 << 16


def dropout(x: Tensor, share: float, is_training: bool) -> Tensor:
    """Sets a share of the numbers to zero and makes up for it in the others, in training only.

    torch draws one random number per element on a CPU, 9 ns each; this draws one for four elements.
    """
    if not is_training or share == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, share)
    result: Tensor = _Dropout.apply(x, share)  # type: ignore[no-untyped-call]  # torch does not type it
    return result


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        num_kept = _PARTS - round(share * _PARTS)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
        is_kept = (draws.view(torch.int16)[: x.numel()] < num_kept - _PARTS // 2).view(x.shape)
        ctx.save_for_backward(is_kept)
        ctx.factor = _PARTS / num_kept
        result: Tensor = (x * ctx.factor).mul_(is_kept)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (is_kept,) = ctx.saved_tensors
        return (gradient * ctx.factor).mul_(is_kept), None
