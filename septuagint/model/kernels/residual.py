"""What stands between two products of a layer, for GPUs, in one pass: bias, dropout, the sum, and the norm of the sum.

Dropped is what a hash of a seed, the place in the network and the place in the tensor says: nothing is kept for the way
back. T tokens, D numbers per token.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from septuagint.model.kernels.sums import sum_of_rows

# What is kept is a share of this, rounded; `is_kept` has 24 bits.
CHANCES = 1 << 24
# Numbers that a program holds at a time, on the way there and on the way back.
_TILE, _TILE_BACK = 2048, 1024
# Programs of the way back: each adds up its rows' part of the gradients of bias and norm, and reads two tiles ahead.
_NUM_PROGRAMS = 792
_WARPS_BACK, _STAGES_BACK = 2, 3


@dataclass(kw_only=True, slots=True)
class Drops:
    """The dropout of one forward pass: each place of the network asks for its own number."""

    share: float
    seed: Tensor | None  # a whole number on the device; None where nothing is dropped
    place: int = 0

    @property
    def factor(self) -> float:
        """Makes up for what is dropped."""
        return CHANCES / self.num_kept

    @property
    def num_kept(self) -> int:
        """Of all chances."""
        return round((1 - self.share) * CHANCES)

    def next_place(self) -> int:
        self.place += 1
        return self.place


def add_and_normalise(
    stream_TD: Tensor,
    branch_TD: Tensor | None,
    bias_D: Tensor | None,
    scale_D: Tensor,
    shift_D: Tensor | None,
    drops: Drops,
    epsilon: float,
) -> tuple[Tensor, Tensor]:
    """(the stream with `branch + bias` added, less what is dropped; that normalised, scaled and shifted).

    With a shift it is LayerNorm, without RMSNorm; without a branch the stream stays as it is.
    """
    place = drops.next_place() if branch_TD is not None else 0
    result: tuple[Tensor, Tensor] = _AddAndNormalise.apply(
        stream_TD, branch_TD, bias_D, scale_D, shift_D, drops, place, epsilon
    )
    return result


class _AddAndNormalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        stream_TD: Tensor,
        branch_TD: Tensor | None,
        bias_D: Tensor | None,
        scale_D: Tensor,
        shift_D: Tensor | None,
        drops: Drops,
        place: int,
        epsilon: float,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        num_tokens, width = stream_TD.shape
        normed_TD = torch.empty_like(stream_TD)
        sum_TD = stream_TD if branch_TD is None else torch.empty_like(stream_TD)
        block = triton.next_power_of_2(width)
        rows = max(1, _TILE // block)
        _add_and_normalise[(triton.cdiv(num_tokens, rows),)](
            stream_TD,
            stream_TD if branch_TD is None else branch_TD,
            scale_D if bias_D is None else bias_D,
            scale_D,
            scale_D if shift_D is None else shift_D,
            drops.seed if drops.seed is not None else scale_D,
            sum_TD,
            normed_TD,
            num_tokens,
            width,
            place,
            drops.num_kept,
            drops.factor,
            epsilon,
            has_branch=branch_TD is not None,
            has_bias=bias_D is not None,
            has_shift=shift_D is not None,
            drops=drops.seed is not None and branch_TD is not None,
            rows_block=rows,
            block=block,
        )
        ctx.save_for_backward(sum_TD, scale_D, drops.seed)
        ctx.has_branch, ctx.has_bias, ctx.has_shift = branch_TD is not None, bias_D is not None, shift_D is not None
        ctx.drops, ctx.place, ctx.epsilon = drops, place, epsilon
        return sum_TD, normed_TD

    @staticmethod
    def backward(ctx: Any, sum_gradient: Tensor | None, normed_gradient: Tensor | None) -> tuple[Tensor | None, ...]:
        sum_TD, scale_D, seed = ctx.saved_tensors
        assert normed_gradient is not None
        drops: Drops = ctx.drops
        num_tokens, width = sum_TD.shape
        is_dropped = seed is not None and ctx.has_branch
        stream_gradient = torch.empty_like(sum_TD)
        branch_gradient = torch.empty_like(sum_TD) if is_dropped else stream_gradient
        block = triton.next_power_of_2(width)
        rows = max(1, _TILE_BACK // block)
        num_programs = min(_NUM_PROGRAMS, triton.cdiv(num_tokens, rows))
        sums = torch.empty(num_programs, 3, width, dtype=torch.float32, device=sum_TD.device)
        _add_and_normalise_back[(num_programs,)](
            sum_TD,
            scale_D,
            normed_gradient if sum_gradient is None else sum_gradient.contiguous(),
            normed_gradient.contiguous(),
            scale_D if seed is None else seed,
            stream_gradient,
            branch_gradient,
            sums,
            num_tokens,
            width,
            ctx.place,
            drops.num_kept,
            drops.factor,
            ctx.epsilon,
            has_sum_gradient=sum_gradient is not None,
            has_shift=ctx.has_shift,
            drops=is_dropped,
            rows_block=rows,
            block=block,
            stages=_STAGES_BACK,
            num_warps=_WARPS_BACK,
        )
        scale_gradient, shift_gradient, bias_gradient = sum_of_rows(sums.flatten(1)).view(3, width).unbind(0)
        return (
            stream_gradient,
            branch_gradient if ctx.has_branch else None,
            bias_gradient if ctx.has_bias else None,
            scale_gradient,
            shift_gradient if ctx.has_shift else None,
            None,
            None,
            None,
        )


@triton.jit
def _add_and_normalise(
    stream_ptr,
    branch_ptr,
    bias_ptr,
    scale_ptr,
    shift_ptr,
    seed_ptr,
    sum_ptr,
    normed_ptr,
    num_tokens,
    width,
    place,
    num_kept,
    factor,
    epsilon,
    has_branch: tl.constexpr,
    has_bias: tl.constexpr,
    has_shift: tl.constexpr,
    drops: tl.constexpr,
    rows_block: tl.constexpr,
    block: tl.constexpr,
):
    tokens = tl.program_id(0) * rows_block + tl.arange(0, rows_block)
    columns = tl.arange(0, block)
    is_column = columns < width
    is_inside = (tokens < num_tokens)[:, None] & is_column[None, :]
    places = tokens[:, None] * width + columns[None, :]
    numbers = tl.load(stream_ptr + places, mask=is_inside, other=0.0).to(tl.float32)
    if has_branch:
        branch = tl.load(branch_ptr + places, mask=is_inside, other=0.0).to(tl.float32)
        if has_bias:
            branch += tl.load(bias_ptr + columns, mask=is_column, other=0.0)[None, :]
        if drops:
            branch = tl.where(is_kept(places, seed_ptr, place, num_kept), branch * factor, 0.0)
        # As it is rounded for the next to read, so it is normalised.
        rounded = (numbers + branch).to(sum_ptr.dtype.element_ty)
        tl.store(sum_ptr + places, rounded, mask=is_inside)
        numbers = rounded.to(tl.float32)
    scale = tl.load(scale_ptr + columns, mask=is_column, other=0.0)[None, :]
    normed, _ = _normalise(numbers, is_inside, width, epsilon, has_shift)
    normed *= scale
    if has_shift:
        normed += tl.load(shift_ptr + columns, mask=is_column, other=0.0)[None, :]
    tl.store(normed_ptr + places, normed.to(normed_ptr.dtype.element_ty), mask=is_inside)


@triton.jit
def _add_and_normalise_back(
    sum_ptr,
    scale_ptr,
    sum_gradient_ptr,
    normed_gradient_ptr,
    seed_ptr,
    stream_gradient_ptr,
    branch_gradient_ptr,
    sums_ptr,
    num_tokens,
    width,
    place,
    num_kept,
    factor,
    epsilon,
    has_sum_gradient: tl.constexpr,
    has_shift: tl.constexpr,
    drops: tl.constexpr,
    rows_block: tl.constexpr,
    block: tl.constexpr,
    stages: tl.constexpr,
):
    columns = tl.arange(0, block)
    is_column = columns < width
    scale = tl.load(scale_ptr + columns, mask=is_column, other=0.0)[None, :]
    scale_sum = tl.zeros([rows_block, block], tl.float32)
    shift_sum = tl.zeros([rows_block, block], tl.float32)
    bias_sum = tl.zeros([rows_block, block], tl.float32)
    begin, step = tl.program_id(0) * rows_block, tl.num_programs(0) * rows_block
    for first in tl.range(begin, num_tokens, step, num_stages=stages):
        tokens = first + tl.arange(0, rows_block)
        is_inside = (tokens < num_tokens)[:, None] & is_column[None, :]
        places = tokens[:, None] * width + columns[None, :]
        numbers = tl.load(sum_ptr + places, mask=is_inside, other=0.0).to(tl.float32)
        gradient = tl.load(normed_gradient_ptr + places, mask=is_inside, other=0.0).to(tl.float32)
        normed, rate = _normalise(numbers, is_inside, width, epsilon, has_shift)
        scale_sum += gradient * normed
        if has_shift:
            shift_sum += gradient
        gradient *= scale
        along = tl.sum(gradient * normed, axis=1) / width
        result = gradient - normed * along[:, None]
        if has_shift:
            result -= (tl.sum(gradient, axis=1) / width)[:, None]
        result *= rate[:, None]
        if has_sum_gradient:
            result += tl.load(sum_gradient_ptr + places, mask=is_inside, other=0.0).to(tl.float32)
        result = tl.where(is_inside, result, 0.0)
        tl.store(stream_gradient_ptr + places, result.to(stream_gradient_ptr.dtype.element_ty), mask=is_inside)
        if drops:
            result = tl.where(is_kept(places, seed_ptr, place, num_kept), result * factor, 0.0)
            tl.store(branch_gradient_ptr + places, result.to(branch_gradient_ptr.dtype.element_ty), mask=is_inside)
        bias_sum += result
    own = sums_ptr + tl.program_id(0) * 3 * width + columns
    tl.store(own, tl.sum(scale_sum, axis=0), mask=is_column)
    tl.store(own + width, tl.sum(shift_sum, axis=0), mask=is_column)
    tl.store(own + 2 * width, tl.sum(bias_sum, axis=0), mask=is_column)


@triton.jit
def _normalise(numbers, is_inside, width, epsilon, has_shift: tl.constexpr):
    """(the numbers normalised, the rate of each row): LayerNorm where there is a shift, else RMSNorm."""
    if has_shift:
        mean = tl.sum(numbers, axis=1) / width
        numbers = tl.where(is_inside, numbers - mean[:, None], 0.0)
    rate = tl.rsqrt(tl.sum(numbers * numbers, axis=1) / width + epsilon)
    return numbers * rate[:, None], rate


@triton.jit
def is_kept(places, seed_ptr, place, num_kept):
    """Whether dropout keeps the numbers at these places: by the last step of MurmurHash3, once for each thing mixed."""
    seed = _mix(_mix(tl.load(seed_ptr).to(tl.uint32)) + tl.cast(place, tl.uint32))
    return (_mix(places.to(tl.uint32) ^ seed) >> 8).to(tl.int32) < num_kept


@triton.jit
def _mix(bits):
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)
