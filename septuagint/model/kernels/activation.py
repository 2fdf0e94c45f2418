"""What stands in the middle of a feed-forward block, for GPUs, in one pass each way.

T tokens, F numbers in the middle.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from septuagint.model.kernels.sums import sum_of_rows

_BLOCK = 1024
# The way back through ReLU adds up the gradient of the bias: rows of a program, and columns.
_ROWS, _COLUMNS, _STEP = 256, 128, 32


def swiglu(both_TX: Tensor) -> Tensor:
    """silu(first half) * second half, (T, F) of (T, 2 F)."""
    num_tokens, width = both_TX.shape
    result_TF = torch.empty(num_tokens, width // 2, dtype=both_TX.dtype, device=both_TX.device)
    _swiglu[(num_tokens, triton.cdiv(width // 2, _BLOCK))](both_TX, result_TF, width // 2, block=_BLOCK)
    return result_TF


def swiglu_back(gradient_TF: Tensor, both_TX: Tensor) -> Tensor:
    """The gradient of `both_TX`."""
    num_tokens, width = both_TX.shape
    result_TX = torch.empty_like(both_TX)
    grid = num_tokens, triton.cdiv(width // 2, _BLOCK)
    _swiglu_back[grid](gradient_TF, both_TX, result_TX, width // 2, block=_BLOCK)
    return result_TX


def relu_back(gradient_TF: Tensor, inner_TF: Tensor) -> Tensor:
    """Sets the gradient to zero, in place, where the result of ReLU is zero; the sum over the tokens (F)."""
    num_tokens, width = inner_TF.shape
    num_parts = triton.cdiv(num_tokens, _ROWS)
    sums = torch.empty(num_parts, width, dtype=torch.float32, device=inner_TF.device)
    _relu_back[(num_parts, triton.cdiv(width, _COLUMNS))](
        gradient_TF, inner_TF, sums, num_tokens, width, rows=_ROWS, step=_STEP, columns_block=_COLUMNS
    )
    return sum_of_rows(sums)


@triton.jit
def _swiglu(both_ptr, result_ptr, width, block: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    is_column = columns < width
    gate = tl.load(both_ptr + token * 2 * width + columns, mask=is_column, other=0.0).to(tl.float32)
    inner = tl.load(both_ptr + (token * 2 + 1) * width + columns, mask=is_column, other=0.0).to(tl.float32)
    result = gate * tl.sigmoid(gate) * inner
    tl.store(result_ptr + token * width + columns, result.to(result_ptr.dtype.element_ty), mask=is_column)


@triton.jit
def _swiglu_back(gradient_ptr, both_ptr, result_ptr, width, block: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    is_column = columns < width
    gradient = tl.load(gradient_ptr + token * width + columns, mask=is_column, other=0.0).to(tl.float32)
    gate = tl.load(both_ptr + token * 2 * width + columns, mask=is_column, other=0.0).to(tl.float32)
    inner = tl.load(both_ptr + (token * 2 + 1) * width + columns, mask=is_column, other=0.0).to(tl.float32)
    share = tl.sigmoid(gate)
    dtype = result_ptr.dtype.element_ty
    gate_gradient = gradient * inner * share * (1 + gate * (1 - share))
    tl.store(result_ptr + token * 2 * width + columns, gate_gradient.to(dtype), mask=is_column)
    tl.store(result_ptr + (token * 2 + 1) * width + columns, (gradient * gate * share).to(dtype), mask=is_column)


@triton.jit
def _relu_back(
    gradient_ptr,
    inner_ptr,
    sums_ptr,
    num_tokens,
    width,
    rows: tl.constexpr,
    step: tl.constexpr,
    columns_block: tl.constexpr,
):
    columns = tl.program_id(1) * columns_block + tl.arange(0, columns_block)
    total = tl.zeros([step, columns_block], tl.float32)
    begin = tl.program_id(0) * rows
    for first in range(begin, begin + rows, step):
        tokens = first + tl.arange(0, step)
        is_inside = (tokens < num_tokens)[:, None] & (columns < width)[None, :]
        places = tokens[:, None] * width + columns[None, :]
        gradient = tl.load(gradient_ptr + places, mask=is_inside, other=0.0)
        inner = tl.load(inner_ptr + places, mask=is_inside, other=0.0)
        gradient = tl.where(inner > 0, gradient, 0.0)
        tl.store(gradient_ptr + places, gradient, mask=is_inside)
        total += gradient.to(tl.float32)
    tl.store(sums_ptr + tl.program_id(0) * width + columns, tl.sum(total, axis=0), mask=columns < width)
