"""Attention over sentences laid end to end: each token attends within its own pair, never to a neighbour's.

One function, `packed_attention`, with two backends. `varlen` is torch's kernel for packed sequences (GPUs from compute
capability 8.0, half precision). `padded` works anywhere: sentences of similar length are padded into groups, go
through scaled_dot_product_attention, and come back packed. `reference_attention` is slow and plain, for tests.
A third backend, `tiled`, is for the training pass of `fast`, which has kernels of its own.

T queries, S keys, H heads, D numbers per head, P padded positions.
"""

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.varlen import varlen_attn

from septuagint.batch import PackedBatch
from septuagint.config import ModelConfig

if TYPE_CHECKING:
    from septuagint.model.kernels.attention import Tiles

Backend = Literal["tiled", "varlen", "padded"]

# Lengths within a group differ by at most this factor (and a little more for the shortest): 13 groups up to 256 tokens.
_GROUP_RATIO = 1.3
_GROUP_OFFSET = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class PaddedSide:
    """Where each token of one side stands when its sentences are padded in groups."""

    gather_P: Tensor  # the token at each padded position; a neighbour of the same sentence where there is none
    place_T: Tensor  # the padded position of each token
    groups: tuple[tuple[int, int], ...]  # (sentences, padded length)


@dataclass(frozen=True, kw_only=True, slots=True)
class Padding:
    """The padded form of a relation."""

    queries: PaddedSide
    keys: PaddedSide
    masks: tuple[Tensor | None, ...]  # per group: which keys are real (sentences, 1, 1, length); None where all are


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    """Which queries attend to which keys: those of sentence i to those of sentence i."""

    query_offsets: Tensor
    key_offsets: Tensor
    max_query_length: int
    max_key_length: int
    is_causal: bool
    padding: Padding | None = None
    tiles: "Tiles | None" = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The three relations of a batch."""

    encoder: Relation
    decoder: Relation
    cross: Relation


def choose_backend(device: torch.device, dtype: torch.dtype, head_width: int) -> Backend:
    """The faster backend that this device can run."""
    if device.type != "cuda" or dtype not in (torch.float16, torch.bfloat16) or head_width % 8 or head_width > 256:
        return "padded"
    return "varlen" if torch.cuda.get_device_capability(device) >= (8, 0) else "padded"


def has_kernels(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether `fast` can be used, with its `tiled` backend: are there kernels for this network on this device?"""
    return (
        device.type == "cuda"
        and dtype in (torch.float16, torch.bfloat16)
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and importlib.util.find_spec("triton") is not None
        and config.width // config.num_heads in (32, 64, 128)
        and config.width % 8 == 0
        and config.feedforward_width % 8 == 0
    )


def make_layout(batch: PackedBatch, backend: Backend, max_length: int) -> Layout:
    """Everything about a batch that attention needs to know, made once for all layers.

    No sentence is longer than `max_length`, the same number for the whole run. `padded` reads the offsets on the host.
    """
    source, target = batch.source_offsets, batch.target_offsets
    if backend == "tiled":
        return _make_tiled_layout(batch, max_length)
    return Layout(
        encoder=make_relation(source, source, backend, max_length),
        decoder=make_relation(target, target, backend, max_length, is_causal=True),
        cross=make_relation(target, source, backend, max_length),
    )


def _make_tiled_layout(batch: PackedBatch, max_length: int) -> Layout:
    from septuagint.model.kernels.attention import (
        Tiles,
        make_side,
        make_tiles,
    )  # not before Triton is known to be there

    source = make_side(batch.source_offsets, len(batch.source_ids_S))
    target = make_side(batch.target_offsets, len(batch.target_ids_T))

    def relate(tiles: Tiles, *, is_causal: bool = False) -> Relation:
        return Relation(
            query_offsets=tiles.queries.offsets,
            key_offsets=tiles.keys.offsets,
            max_query_length=max_length,
            max_key_length=max_length,
            is_causal=is_causal,
            tiles=tiles,
        )

    within_source, within_target, across = make_tiles(source, target)
    return Layout(encoder=relate(within_source), decoder=relate(within_target, is_causal=True), cross=relate(across))


def make_relation(
    queries: Tensor, keys: Tensor, backend: Backend, max_length: int, *, is_causal: bool = False
) -> Relation:
    """The relation between the sentences that begin at these offsets."""
    padding = None
    if backend == "padded":
        query_starts, key_starts = (offsets.cpu().numpy().astype(np.int64) for offsets in (queries, keys))
        groups = _groups(np.diff(query_starts), np.diff(key_starts))
        padding = Padding(
            queries=_pad(query_starts, groups, queries.device),
            keys=_pad(key_starts, groups, keys.device),
            # A causal query sees nothing behind itself, so it never sees padding.
            masks=(None,) * len(groups) if is_causal else _key_masks(key_starts, groups, keys.device),
        )
    return Relation(
        query_offsets=queries,
        key_offsets=keys,
        max_query_length=max_length,
        max_key_length=max_length,
        is_causal=is_causal,
        padding=padding,
    )


def packed_attention(query_THD: Tensor, key_SHD: Tensor, value_SHD: Tensor, relation: Relation) -> Tensor:
    """Scaled dot-product attention within each sentence; the shape of the queries."""
    if relation.padding is None:
        return _varlen_attention(query_THD, key_SHD, value_SHD, relation)
    if query_THD.device.type == "cpu" and query_THD.dtype == torch.bfloat16:
        # torch's way back through attention takes four times as long in bf16 there as in float32.
        with torch.autocast("cpu", enabled=False):
            wide = (x.float() for x in (query_THD, key_SHD, value_SHD))
            wide_THD: Tensor = _padded_attention(*wide, relation.padding, relation.is_causal)
        return wide_THD.to(query_THD.dtype)
    result_THD: Tensor = _padded_attention(query_THD, key_SHD, value_SHD, relation.padding, relation.is_causal)
    return result_THD


def reference_attention(query_THD: Tensor, key_SHD: Tensor, value_SHD: Tensor, relation: Relation) -> Tensor:
    """The same, one sentence after the other, in plain arithmetic."""
    result_THD = torch.zeros_like(query_THD)
    for sentence in range(len(relation.query_offsets) - 1):
        first, last = relation.query_offsets[sentence : sentence + 2].tolist()
        first_key, last_key = relation.key_offsets[sentence : sentence + 2].tolist()
        if first == last or first_key == last_key:
            continue
        query_HTD = query_THD[first:last].transpose(0, 1)
        key_HSD, value_HSD = (x[first_key:last_key].transpose(0, 1) for x in (key_SHD, value_SHD))
        scores_HTS = query_HTD @ key_HSD.transpose(1, 2) * query_THD.shape[-1] ** -0.5
        if relation.is_causal:
            is_later_TS = torch.ones_like(scores_HTS[0], dtype=torch.bool).triu(1)
            scores_HTS = scores_HTS.masked_fill(is_later_TS, float("-inf"))
        result_THD[first:last] = (scores_HTS.softmax(-1) @ value_HSD).transpose(0, 1)
    return result_THD


def _varlen_attention(query_THD: Tensor, key_SHD: Tensor, value_SHD: Tensor, relation: Relation) -> Tensor:
    result_THD = varlen_attn(
        query_THD,
        key_SHD,
        value_SHD,
        relation.query_offsets,
        relation.key_offsets,
        relation.max_query_length,
        relation.max_key_length,
        window_size=(-1, 0) if relation.is_causal else (-1, -1),  # how far back and ahead a token sees; -1: all
    )
    assert isinstance(result_THD, Tensor)  # a tuple only where more was asked for
    return result_THD


# Groups differ from batch to batch; compiled code has one shape for the whole run.
@torch.compiler.disable  # type: ignore[untyped-decorator]  # torch does not type it
def _padded_attention(
    query_THD: Tensor, key_SHD: Tensor, value_SHD: Tensor, padding: Padding, is_causal: bool
) -> Tensor:
    queries = _pad_tokens(query_THD, padding.queries)
    keys, values = _pad_tokens(key_SHD, padding.keys), _pad_tokens(value_SHD, padding.keys)
    results = []
    for query_BHTD, key_BHSD, value_BHSD, mask in zip(queries, keys, values, padding.masks, strict=True):
        result_BHTD = F.scaled_dot_product_attention(
            query_BHTD, key_BHSD, value_BHSD, attn_mask=mask, is_causal=is_causal
        )
        results.append(result_BHTD.transpose(1, 2).reshape(-1, *query_THD.shape[1:]))
    result_THD: Tensor = _Unpad.apply(torch.cat(results), padding.queries)  # type: ignore[no-untyped-call]  # as below
    return result_THD


def _pad_tokens(x_THD: Tensor, side: PaddedSide) -> list[Tensor]:
    """The groups, each (sentences, heads, length, numbers)."""
    x_PHD: Tensor = _Pad.apply(x_THD, side)  # type: ignore[no-untyped-call]  # torch does not type it
    # Split, not sliced: the gradient of a slice is as large as what it was cut from, for every group anew.
    parts = torch.split(x_PHD, [count * length for count, length in side.groups])
    return [part.view(*group, *x_THD.shape[1:]).transpose(1, 2) for part, group in zip(parts, side.groups, strict=True)]


class _Pad(torch.autograd.Function):
    """Copies tokens to their padded positions. What flows back to padding is zero, so going back is a copy too."""

    @staticmethod
    def forward(ctx: Any, x_T: Tensor, side: PaddedSide) -> Tensor:
        ctx.side = side
        return x_T.index_select(0, side.gather_P)

    @staticmethod
    def backward(ctx: Any, gradient_P: Tensor) -> tuple[Tensor, None]:
        return gradient_P.index_select(0, ctx.side.place_T), None


class _Unpad(torch.autograd.Function):
    """Takes tokens back from their padded positions."""

    @staticmethod
    def forward(ctx: Any, x_P: Tensor, side: PaddedSide) -> Tensor:
        ctx.side = side
        return x_P.index_select(0, side.place_T)

    @staticmethod
    def backward(ctx: Any, gradient_T: Tensor) -> tuple[Tensor, None]:
        gradient_P = gradient_T.new_zeros(len(ctx.side.gather_P), *gradient_T.shape[1:])
        return gradient_P.index_copy_(0, ctx.side.place_T, gradient_T), None


def _groups(query_lengths: np.ndarray, key_lengths: np.ndarray) -> list[np.ndarray]:
    """Sentences with a similar number of queries, by their numbers; one without queries and keys belongs nowhere."""
    growth = np.log((query_lengths + _GROUP_OFFSET) / _GROUP_OFFSET)
    buckets = np.floor(growth / np.log(_GROUP_RATIO)).astype(np.int64)
    buckets[(query_lengths == 0) & (key_lengths == 0)] = -1
    order = np.argsort(buckets, kind="stable")
    starts = np.flatnonzero(np.diff(buckets[order], prepend=-1))
    return [group for group in np.split(order, starts)[1:] if len(group)]


def _pad(starts: np.ndarray, groups: list[np.ndarray], device: torch.device) -> PaddedSide:
    num_tokens = int(starts[-1])
    gathered: list[np.ndarray] = []
    place = np.zeros(num_tokens, np.int64)
    shapes: list[tuple[int, int]] = []
    first = 0
    for group in groups:
        begins, lengths = starts[group], starts[group + 1] - starts[group]
        longest = max(1, int(lengths.max()))
        steps = np.arange(longest)
        tokens = begins[:, None] + np.minimum(steps, np.maximum(lengths[:, None] - 1, 0))
        gathered.append(np.minimum(tokens, num_tokens - 1).ravel())
        is_real = steps < lengths[:, None]
        positions = first + np.arange(len(group) * longest).reshape(len(group), longest)
        place[tokens[is_real]] = positions[is_real]
        shapes.append((len(group), longest))
        first += len(group) * longest
    return PaddedSide(
        gather_P=torch.from_numpy(np.concatenate(gathered)).to(device),
        place_T=torch.from_numpy(place).to(device),
        groups=tuple(shapes),
    )


def _key_masks(starts: np.ndarray, groups: list[np.ndarray], device: torch.device) -> tuple[Tensor | None, ...]:
    masks: list[Tensor | None] = []
    for group in groups:
        lengths = starts[group + 1] - starts[group]
        longest = max(1, int(lengths.max()))
        if (lengths == longest).all():
            masks.append(None)
            continue
        is_real = np.arange(longest) < lengths[:, None]
        is_real[:, 0] = True  # PAD may face no key at all; a softmax over nothing would not be a number
        masks.append(torch.from_numpy(is_real[:, None, None, :]).to(device))
    return tuple(masks)
