"""Dropout that does not cost a CPU more than the layer it follows, and does not depend on how code was compiled.

Compilers cut a network into pieces, and elsewhere when its gradients are synchronised over ranks; each piece draws
random numbers of its own. What is dropped there comes from a hash instead: of a seed, the place in the network, and the
place in the tensor.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# Chances are rounded to this many parts; four of them are drawn at once.
_PARTS = 1 << 16


class Dropout:
    """The dropout of one forward pass: called at each place of the network in turn."""

    def __init__(self, share: float, *, is_training: bool, device: torch.device) -> None:
        self._share = share if is_training else 0.0
        self._place = 0
        self._seed: Tensor | None = None
        if self._share and torch.compiler.is_compiling():
            self._seed = torch.randint(1 << 30, (), dtype=torch.int32, device=device)

    def __call__(self, x: Tensor) -> Tensor:
        self._place += 1
        seed = None if self._seed is None else self._seed + self._place
        return dropout(x, self._share, seed)


def dropout(x: Tensor, share: float, seed: Tensor | None = None) -> Tensor:
    """Sets a share of the numbers to zero and makes up for it in the others.

    torch draws one random number per element on a CPU, 9 ns each; this draws one for four elements. With a `seed`, a
    whole number, nothing is drawn.
    """
    if share == 0:
        return x
    if seed is not None:
        return _drop_by_hash(x, share, seed)
    if x.device.type != "cpu":
        return F.dropout(x, share)
    result: Tensor = _Dropout.apply(x, share)  # type: ignore[no-untyped-call]  # torch does not type it
    return result


def _drop_by_hash(x: Tensor, share: float, seed: Tensor) -> Tensor:
    """Whole-number arithmetic that a compiler fuses into the kernel around it, and repeats on the way back."""
    index = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)
    bits = _mix(_mix(index) + _mix(seed)) & (_PARTS * 256 - 1)
    num_kept = round((1 - share) * _PARTS * 256)
    return torch.where(bits < num_kept, x * (_PARTS * 256 / num_kept), 0.0)


def _mix(bits: Tensor) -> Tensor:
    """The last step of MurmurHash3: every bit of the result depends on every bit of 32."""
    bits = (bits ^ _shift(bits, 16)) * -2048144789
    bits = (bits ^ _shift(bits, 13)) * -1028477387
    return bits ^ _shift(bits, 16)


def _shift(bits: Tensor, number: int) -> Tensor:
    """To the right, zeros coming in: torch's own repeats the sign."""
    return (bits >> number) & ((1 << (32 - number)) - 1)


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
