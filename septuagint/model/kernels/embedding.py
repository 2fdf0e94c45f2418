"""Embeddings with their positions and dropout, for GPUs, in one pass.

D numbers per token, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from septuagint.model.kernels.residual import Drops, is_kept


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """What a text says: pieces, and where in its sentence each stands."""

    ids: Tensor
    positions: Tensor


def embed(
    source: Words,
    target: Words,
    weight_VD: Tensor,
    half_VD: Tensor,
    sinusoids: Tensor | None,
    scale: float,
    drops: Drops,
) -> tuple[Tensor, Tensor]:
    """For source and target, the rows of `half_VD`, the rounded `weight_VD`, times the scale; sinusoids added, if any.

    Both at once, so that their gradients are added up at once.
    """
    places = drops.next_place(), drops.next_place()
    result: tuple[Tensor, Tensor] = _Embed.apply(weight_VD, half_VD, (source, target), sinusoids, scale, drops, places)
    return result


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weight_VD: Tensor,
        half_VD: Tensor,
        texts: tuple[Words, Words],
        sinusoids: Tensor | None,
        scale: float,
        drops: Drops,
        places: tuple[int, int],
    ) -> tuple[Tensor, ...]:
        width = half_VD.shape[1]
        results = []
        for text, place in zip(texts, places, strict=True):
            result = torch.empty(len(text.ids), width, dtype=half_VD.dtype, device=half_VD.device)
            _embed[(len(text.ids),)](
                text.ids,
                half_VD,
                text.positions,
                half_VD if sinusoids is None else sinusoids,
                half_VD if drops.seed is None else drops.seed,
                result,
                width,
                scale,
                place,
                drops.num_kept,
                drops.factor,
                has_sinusoids=sinusoids is not None,
                drops=drops.seed is not None,
                block=triton.next_power_of_2(width),
            )
            results.append(result)
        ctx.save_for_backward(*(text.ids for text in texts), drops.seed)
        ctx.num_pieces, ctx.scale, ctx.drops, ctx.places = len(weight_VD), scale, drops, places
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *texts, seed = ctx.saved_tensors
        ids = torch.cat(texts)
        width = gradients[0].shape[1]
        undropped = torch.empty(len(ids), width, dtype=torch.float32, device=ids.device)
        parts = undropped.split([len(text) for text in texts])
        for gradient, part, place in zip(gradients, parts, ctx.places, strict=True):
            _embed_back[(len(gradient),)](
                gradient.contiguous(),
                gradient if seed is None else seed,
                part,
                width,
                ctx.scale,
                place,
                ctx.drops.num_kept,
                ctx.drops.factor,
                drops=seed is not None,
                block=triton.next_power_of_2(width),
            )
        # Torch sorts the pieces and adds up in their order: the same sum every time.
        result_VD = torch.ops.aten.embedding_dense_backward(undropped, ids, ctx.num_pieces, -1, False)
        return result_VD, None, None, None, None, None, None


@triton.jit
def _embed(
    ids_ptr,
    half_ptr,
    positions_ptr,
    sinusoids_ptr,
    seed_ptr,
    result_ptr,
    width,
    scale,
    place,
    num_kept,
    factor,
    has_sinusoids: tl.constexpr,
    drops: tl.constexpr,
    block: tl.constexpr,
):
    token = tl.program_id(0)
    columns = tl.arange(0, block)
    is_column = columns < width
    numbers = tl.load(half_ptr + tl.load(ids_ptr + token) * width + columns, mask=is_column, other=0.0).to(tl.float32)
    numbers *= scale
    if has_sinusoids:
        position = tl.load(positions_ptr + token)
        numbers += tl.load(sinusoids_ptr + position * width + columns, mask=is_column, other=0.0)
    places = token * width + columns
    if drops:
        numbers = tl.where(is_kept(places, seed_ptr, place, num_kept), numbers * factor, 0.0)
    tl.store(result_ptr + places, numbers.to(result_ptr.dtype.element_ty), mask=is_column)


@triton.jit
def _embed_back(
    gradient_ptr,
    seed_ptr,
    result_ptr,
    width,
    scale,
    place,
    num_kept,
    factor,
    drops: tl.constexpr,
    block: tl.constexpr,
):
    columns = tl.arange(0, block)
    is_column = columns < width
    places = tl.program_id(0) * width + columns
    gradient = tl.load(gradient_ptr + places, mask=is_column, other=0.0).to(tl.float32) * scale
    if drops:
        gradient = tl.where(is_kept(places, seed_ptr, place, num_kept), gradient * factor, 0.0)
    tl.store(result_ptr + places, gradient, mask=is_column)
