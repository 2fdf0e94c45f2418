"""Attention over packed sentences, for GPUs: several short sentences in one tile, so that nothing is done for nobody.

A tile holds the queries and keys of whole neighbouring sentences, as many as fit; who may look at whom is decided by
the sentence that a token is of. A sentence that is too long for a tile gets several of its own, and kernels that go
along it. Queries, keys and values are read where the projection left them, and their gradients are written where its
gradient reads them. Rotary positions are turned on the way in, and back on the way out.

T queries, S keys, H heads, K numbers per head, D = H * K.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Tokens of a tile, on either side.
SIZE = 64
# Numbers in a row of the table of tiles: first and last query and key of the tile, then of the sentence.
_FIELDS = 8
# Sentences that are dealt out one after the other; others are dealt out beside them.
_DEALT = 128
# One stage: a program has one tile to do, as a rule, and none to read ahead.
_OPTIONS = {"num_warps": 4, "num_stages": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """The tokens of a language: which sentence each is of, and where in it."""

    offsets: Tensor
    sentences: Tensor
    positions: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Tiles:
    """How the tokens of a relation are dealt to tiles. The table has those of short sentences in front, and those of
    long ones at the end, backwards; `counts` says how many of each there are."""

    queries: Side
    keys: Side
    table: Tensor
    counts: Tensor


def make_side(offsets: Tensor, num_tokens: int) -> Side:
    """The tokens of the sentences that begin at these offsets."""
    tokens = torch.arange(num_tokens, device=offsets.device, dtype=torch.int32)
    sentences = torch.searchsorted(offsets, tokens, right=True, out_int32=True) - 1
    return Side(offsets=offsets, sentences=sentences, positions=tokens - offsets[sentences])


def make_tiles(source: Side, target: Side) -> tuple[Tiles, Tiles, Tiles]:
    """Deals out the sentences, in their order: of the source, of the target, and of both for who looks across."""
    num_sentences = len(source.offsets) - 1
    num_dealers = triton.cdiv(num_sentences, _DEALT)
    num_tokens = len(source.sentences) + len(target.sentences)
    # Two neighbours are more than a tile; a long sentence has a part of a tile to spare, and may cut a tile short.
    num_rows = 3 * num_tokens // SIZE + 2 * num_dealers
    table = torch.empty(3, num_rows, _FIELDS, dtype=torch.int32, device=source.offsets.device)
    counts = torch.zeros(3, 2, dtype=torch.int32, device=table.device)
    _deal[(num_dealers, 3)](
        source.offsets, target.offsets, table, counts, num_sentences, num_rows, SIZE, share=_DEALT, num_warps=1
    )
    pairs = (source, source), (target, target), (target, source)
    within_source, within_target, across = (
        Tiles(queries=queries, keys=keys, table=table[index], counts=counts[index])
        for index, (queries, keys) in enumerate(pairs)
    )
    return within_source, within_target, across


def attend_within(projected_TX: Tensor, tiles: Tiles, rotations: Tensor | None, num_heads: int, causal: bool) -> Tensor:
    """Self-attention (T, D) of queries, keys and values that lie side by side in `projected_TX`, X = 3 D."""
    result: Tensor = _AttendWithin.apply(projected_TX, tiles, rotations, num_heads, causal)
    return result


def attend_across(query_TD: Tensor, key_value_SX: Tensor, tiles: Tiles, num_heads: int) -> Tensor:
    """What the queries find (T, D) in keys and values of another text, side by side in `key_value_SX`, X = 2 D."""
    result: Tensor = _AttendAcross.apply(query_TD, key_value_SX, tiles, num_heads)
    return result


class _AttendWithin(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, projected_TX: Tensor, tiles: Tiles, rotations: Tensor | None, num_heads: int, causal: bool
    ) -> Tensor:
        query, key, value = projected_TX.chunk(3, dim=1)
        output, log_totals = _attend(query, key, value, tiles, rotations, num_heads, causal)
        ctx.save_for_backward(projected_TX, output, log_totals)
        ctx.tiles, ctx.rotations, ctx.num_heads, ctx.causal = tiles, rotations, num_heads, causal
        return output

    @staticmethod
    def backward(ctx: Any, gradient_TD: Tensor) -> tuple[Tensor, None, None, None, None]:
        projected_TX, output, log_totals = ctx.saved_tensors
        result = torch.empty_like(projected_TX)
        inputs, results = projected_TX.chunk(3, dim=1), result.chunk(3, dim=1)
        found = gradient_TD, output, log_totals
        _attend_back(inputs, found, results, ctx.tiles, ctx.rotations, ctx.num_heads, ctx.causal)
        return result, None, None, None, None


class _AttendAcross(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query_TD: Tensor, key_value_SX: Tensor, tiles: Tiles, num_heads: int) -> Tensor:
        key, value = key_value_SX.chunk(2, dim=1)
        output, log_totals = _attend(query_TD, key, value, tiles, None, num_heads, False)
        ctx.save_for_backward(query_TD, key_value_SX, output, log_totals)
        ctx.tiles, ctx.num_heads = tiles, num_heads
        return output

    @staticmethod
    def backward(ctx: Any, gradient_TD: Tensor) -> tuple[Tensor, Tensor, None, None]:
        query_TD, key_value_SX, output, log_totals = ctx.saved_tensors
        query_result, key_value_result = torch.empty_like(query_TD), torch.empty_like(key_value_SX)
        inputs = query_TD, *key_value_SX.chunk(2, dim=1)
        results = query_result, *key_value_result.chunk(2, dim=1)
        found = gradient_TD, output, log_totals
        _attend_back(inputs, found, results, ctx.tiles, None, ctx.num_heads, False)
        return query_result, key_value_result, None, None


def _attend(
    query: Tensor, key: Tensor, value: Tensor, tiles: Tiles, rotations: Tensor | None, num_heads: int, causal: bool
) -> tuple[Tensor, Tensor]:
    """(what was found, the logarithm to base 2 of each softmax's total)."""
    num_queries, width = query.shape
    output = torch.empty(num_queries, width, dtype=query.dtype, device=query.device)
    log_totals = torch.empty(num_heads, num_queries, dtype=torch.float32, device=query.device)
    _attend_tiles[_grid(tiles, num_heads)](
        query,
        key,
        value,
        output,
        log_totals,
        *_arguments(tiles, rotations),
        query.stride(0),
        key.stride(0),
        num_queries,
        width,
        (width // num_heads) ** -0.5,
        causal=causal,
        rotary=rotations is not None,
        size=SIZE,
        head_width=width // num_heads,
        **_OPTIONS,
    )
    return output, log_totals


def _attend_back(
    inputs: Sequence[Tensor],
    found: tuple[Tensor, Tensor, Tensor],
    results: Sequence[Tensor],
    tiles: Tiles,
    rotations: Tensor | None,
    num_heads: int,
    causal: bool,
) -> None:
    """Gradients of queries, keys and values, into `results`; from that of what was found, and from both that was."""
    query, key, _ = inputs
    gradient, output, log_totals = found
    num_queries, width = query.shape
    arguments = (
        *_arguments(tiles, rotations),
        *(query.stride(0), key.stride(0), num_queries, width, (width // num_heads) ** -0.5),
    )
    options = {
        "causal": causal,
        "rotary": rotations is not None,
        "size": SIZE,
        "head_width": width // num_heads,
        **_OPTIONS,
    }
    gradient, grid = gradient.contiguous(), _grid(tiles, num_heads)
    _attend_tiles_back[grid](*inputs, gradient, *results, *arguments, **options)
    _attend_long_back[grid](*inputs, gradient, output, log_totals, *results, *arguments, **options)


def _grid(tiles: Tiles, num_heads: int) -> tuple[int, int]:
    """As many programs as there are tiles in most batches; in others some have two to do."""
    longer = max(len(tiles.queries.sentences), len(tiles.keys.sentences))
    return num_heads, 2 * triton.cdiv(longer, SIZE)


def _arguments(tiles: Tiles, rotations: Tensor | None) -> tuple[Any, ...]:
    queries, keys = tiles.queries, tiles.keys
    turned = queries.positions if rotations is None else rotations  # what is not read can be anything
    return tiles.table, tiles.counts, len(tiles.table), queries.sentences, keys.sentences, queries.positions, turned


@triton.jit
def _deal(source_offsets, target_offsets, table, counts, num_sentences, num_rows, size, share: tl.constexpr):
    """A share of the sentences, one after the other. Which tile comes first is left to chance: it changes nothing."""
    relation = tl.program_id(1)
    table += relation * num_rows * 8
    counts += relation * 2
    query_offsets = source_offsets if relation == 0 else target_offsets
    key_offsets = target_offsets if relation == 1 else source_offsets
    begin = tl.program_id(0) * share
    query_begin = tl.load(query_offsets + begin)
    key_begin = tl.load(key_offsets + begin)
    query_end = query_begin
    key_end = key_begin
    for sentence in range(begin, tl.minimum(begin + share, num_sentences)):
        query_next = tl.load(query_offsets + sentence + 1)
        key_next = tl.load(key_offsets + sentence + 1)
        if (query_next - query_begin > size) | (key_next - key_begin > size):
            _deal_short(table, counts, query_begin, query_end, key_begin, key_end)
            query_begin = query_end
            key_begin = key_end
            longer = tl.maximum(query_next - query_begin, key_next - key_begin)
            if longer > size:
                for part in range(tl.cdiv(longer, size)):
                    query_first = tl.minimum(query_begin + part * size, query_next)
                    key_first = tl.minimum(key_begin + part * size, key_next)
                    row = table + (num_rows - 1 - tl.atomic_add(counts + 1, 1)) * 8
                    _write_range(row, query_first, tl.minimum(query_first + size, query_next))
                    _write_range(row + 2, key_first, tl.minimum(key_first + size, key_next))
                    _write_range(row + 4, query_begin, query_next)
                    _write_range(row + 6, key_begin, key_next)
                query_begin = query_next
                key_begin = key_next
        query_end = query_next
        key_end = key_next
    _deal_short(table, counts, query_begin, query_end, key_begin, key_end)


@triton.jit
def _deal_short(table, counts, query_begin, query_end, key_begin, key_end):
    if (query_end > query_begin) | (key_end > key_begin):
        row = table + tl.atomic_add(counts, 1) * 8
        _write_range(row, query_begin, query_end)
        _write_range(row + 2, key_begin, key_end)
        _write_range(row + 4, query_begin, query_end)
        _write_range(row + 6, key_begin, key_end)


@triton.jit
def _write_range(pointer, first, last):
    tl.store(pointer, first)
    tl.store(pointer + 1, last)


@triton.jit
def _attend_tiles(
    query_ptr,
    key_ptr,
    value_ptr,
    output_ptr,
    log_totals_ptr,
    table,
    counts,
    num_rows,
    query_sentences,
    key_sentences,
    positions,
    rotations,
    query_stride,
    key_stride,
    num_queries,
    width,
    scale,
    causal: tl.constexpr,
    rotary: tl.constexpr,
    size: tl.constexpr,
    head_width: tl.constexpr,
):
    """One head of a tile: its queries look along the keys of its sentences."""
    head = tl.program_id(0)
    num_long = tl.load(counts + 1)
    num_tiles = tl.load(counts) + num_long
    for tile in range(tl.program_id(1), num_tiles, tl.num_programs(1)):
        # What takes longest comes first.
        row = table + tl.where(tile < num_long, num_rows - 1 - tile, tile - num_long) * 8
        query_first = tl.load(row)
        query_last = tl.load(row + 1)
        key_first = tl.load(row + 6)
        key_last = tl.load(row + 7)
        if causal:
            key_last = tl.minimum(key_last, query_last)
        queries = query_first + tl.arange(0, size)
        query_sentence = tl.load(query_sentences + queries, mask=queries < query_last, other=-1)
        angles = _angles(positions, rotations, queries, query_last, rotary, head_width)
        query = _load(query_ptr, angles, queries, query_last, query_stride, head, rotary, head_width)
        largest = tl.full([size], float("-inf"), tl.float32)
        total = tl.zeros([size], tl.float32)
        found = tl.zeros([size, head_width], tl.float32)
        for first in range(key_first, key_last, size):
            keys = first + tl.arange(0, size)
            angles = _angles(positions, rotations, keys, key_last, rotary, head_width)
            key = _load(key_ptr, angles, keys, key_last, key_stride, head, rotary, head_width)
            value, _ = _load(value_ptr, angles, keys, key_last, key_stride, head, False, head_width)
            key_sentence = tl.load(key_sentences + keys, mask=keys < key_last, other=-2)
            scores = _scores(query, key, queries, keys, query_sentence, key_sentence, scale, causal, rotary)
            new_largest = tl.maximum(largest, tl.max(scores, axis=1))
            # A row that has seen no key yet stays as it is; minus infinity from itself would not be a number.
            base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
            shrink = tl.exp2(largest - base)
            weights = tl.exp2(scores - base[:, None])
            total = total * shrink + tl.sum(weights, axis=1)
            found = found * shrink[:, None] + tl.dot(weights.to(value.dtype), value)
            largest = new_largest
        has_keys = total > 0
        found = found / tl.where(has_keys, total, 1.0)[:, None]
        _store(output_ptr, (found, found), angles, queries, query_last, width, head, False, head_width)
        log_total = tl.where(has_keys, largest + tl.log2(tl.where(has_keys, total, 1.0)), 0.0)
        tl.store(log_totals_ptr + head * num_queries + queries, log_total, mask=queries < query_last)


@triton.jit
def _attend_tiles_back(
    query_ptr,
    key_ptr,
    value_ptr,
    gradient_ptr,
    query_result_ptr,
    key_result_ptr,
    value_result_ptr,
    table,
    counts,
    num_rows,
    query_sentences,
    key_sentences,
    positions,
    rotations,
    query_stride,
    key_stride,
    num_queries,
    width,
    scale,
    causal: tl.constexpr,
    rotary: tl.constexpr,
    size: tl.constexpr,
    head_width: tl.constexpr,
):
    """One head of a tile of short sentences: all that they have to do with each other is in it."""
    head = tl.program_id(0)
    for tile in range(tl.program_id(1), tl.load(counts), tl.num_programs(1)):
        row = table + tile * 8
        query_first = tl.load(row)
        query_last = tl.load(row + 1)
        key_first = tl.load(row + 2)
        key_last = tl.load(row + 3)
        queries = query_first + tl.arange(0, size)
        keys = key_first + tl.arange(0, size)
        query_sentence = tl.load(query_sentences + queries, mask=queries < query_last, other=-1)
        key_sentence = tl.load(key_sentences + keys, mask=keys < key_last, other=-2)
        # Where tokens are turned, queries and keys are the same tokens.
        angles = _angles(positions, rotations, queries, query_last, rotary, head_width)
        query = _load(query_ptr, angles, queries, query_last, query_stride, head, rotary, head_width)
        key = _load(key_ptr, angles, keys, key_last, key_stride, head, rotary, head_width)
        value, _ = _load(value_ptr, angles, keys, key_last, key_stride, head, False, head_width)
        gradient, _ = _load(gradient_ptr, angles, queries, query_last, width, head, False, head_width)
        scores = _scores(query, key, queries, keys, query_sentence, key_sentence, scale, causal, rotary)
        largest = tl.max(scores, axis=1)
        weights = tl.exp2(scores - tl.where(largest == float("-inf"), 0.0, largest)[:, None])
        total = tl.sum(weights, axis=1)
        weights = weights / tl.where(total > 0, total, 1.0)[:, None]
        result = tl.dot(tl.trans(weights.to(gradient.dtype)), gradient)
        _store(value_result_ptr, (result, result), angles, keys, key_last, key_stride, head, False, head_width)
        weights_gradient = tl.dot(gradient, tl.trans(value))
        mean = tl.sum(weights * weights_gradient, axis=1)
        scores_gradient = (weights * (weights_gradient - mean[:, None]) * scale).to(gradient.dtype)
        result = _products(scores_gradient, key, rotary)
        _store(query_result_ptr, result, angles, queries, query_last, query_stride, head, rotary, head_width)
        result = _products(tl.trans(scores_gradient), query, rotary)
        _store(key_result_ptr, result, angles, keys, key_last, key_stride, head, rotary, head_width)


@triton.jit
def _attend_long_back(
    query_ptr,
    key_ptr,
    value_ptr,
    gradient_ptr,
    output_ptr,
    log_totals_ptr,
    query_result_ptr,
    key_result_ptr,
    value_result_ptr,
    table,
    counts,
    num_rows,
    query_sentences,
    key_sentences,
    positions,
    rotations,
    query_stride,
    key_stride,
    num_queries,
    width,
    scale,
    causal: tl.constexpr,
    rotary: tl.constexpr,
    size: tl.constexpr,
    head_width: tl.constexpr,
):
    """One head of a part of a long sentence: its queries go along all keys, then its keys along all queries."""
    head = tl.program_id(0)
    for tile in range(tl.program_id(1), tl.load(counts + 1), tl.num_programs(1)):
        row = table + (num_rows - 1 - tile) * 8
        query_first = tl.load(row)
        query_last = tl.load(row + 1)
        key_first = tl.load(row + 2)
        key_last = tl.load(row + 3)
        queries_first = tl.load(row + 4)
        queries_last = tl.load(row + 5)
        keys_first = tl.load(row + 6)
        keys_last = tl.load(row + 7)
        queries = query_first + tl.arange(0, size)
        query_angles = _angles(positions, rotations, queries, query_last, rotary, head_width)
        query = _load(query_ptr, query_angles, queries, query_last, query_stride, head, rotary, head_width)
        gradient, _ = _load(gradient_ptr, query_angles, queries, query_last, width, head, False, head_width)
        output, _ = _load(output_ptr, query_angles, queries, query_last, width, head, False, head_width)
        mean = tl.sum(gradient.to(tl.float32) * output.to(tl.float32), axis=1)
        log_totals = log_totals_ptr + head * num_queries
        log_total = tl.load(log_totals + queries, mask=queries < query_last, other=0.0)
        query_sentence = tl.where(queries < query_last, 0, -1)
        result = _zeros(size, head_width, rotary)
        last = keys_last
        if causal:
            last = tl.minimum(keys_last, query_last)
        for first in range(keys_first, last, size):
            keys = first + tl.arange(0, size)
            angles = _angles(positions, rotations, keys, keys_last, rotary, head_width)
            key = _load(key_ptr, angles, keys, keys_last, key_stride, head, rotary, head_width)
            value, _ = _load(value_ptr, angles, keys, keys_last, key_stride, head, False, head_width)
            key_sentence = tl.where(keys < keys_last, 0, -2)
            scores = _scores(query, key, queries, keys, query_sentence, key_sentence, scale, causal, rotary)
            weights = tl.exp2(scores - log_total[:, None])
            weights_gradient = tl.dot(gradient, tl.trans(value))
            scores_gradient = (weights * (weights_gradient - mean[:, None]) * scale).to(gradient.dtype)
            more = _products(scores_gradient, key, rotary)
            result = result[0] + more[0], result[1] + more[1]
        _store(query_result_ptr, result, query_angles, queries, query_last, query_stride, head, rotary, head_width)

        keys = key_first + tl.arange(0, size)
        key_angles = _angles(positions, rotations, keys, key_last, rotary, head_width)
        key = _load(key_ptr, key_angles, keys, key_last, key_stride, head, rotary, head_width)
        value, _ = _load(value_ptr, key_angles, keys, key_last, key_stride, head, False, head_width)
        key_sentence = tl.where(keys < key_last, 0, -2)
        result = _zeros(size, head_width, rotary)
        value_result = tl.zeros([size, head_width], tl.float32)
        begin = queries_first
        if causal:
            begin = tl.maximum(queries_first, key_first)
        for first in range(begin, tl.where(key_first < key_last, queries_last, begin), size):
            queries = first + tl.arange(0, size)
            angles = _angles(positions, rotations, queries, queries_last, rotary, head_width)
            query = _load(query_ptr, angles, queries, queries_last, query_stride, head, rotary, head_width)
            gradient, _ = _load(gradient_ptr, angles, queries, queries_last, width, head, False, head_width)
            output, _ = _load(output_ptr, angles, queries, queries_last, width, head, False, head_width)
            mean = tl.sum(gradient.to(tl.float32) * output.to(tl.float32), axis=1)
            log_total = tl.load(log_totals + queries, mask=queries < queries_last, other=0.0)
            query_sentence = tl.where(queries < queries_last, 0, -1)
            scores = _scores(query, key, queries, keys, query_sentence, key_sentence, scale, causal, rotary)
            weights = tl.exp2(scores - log_total[:, None])
            value_result += tl.dot(tl.trans(weights.to(gradient.dtype)), gradient)
            weights_gradient = tl.dot(gradient, tl.trans(value))
            scores_gradient = (weights * (weights_gradient - mean[:, None]) * scale).to(gradient.dtype)
            more = _products(tl.trans(scores_gradient), query, rotary)
            result = result[0] + more[0], result[1] + more[1]
        _store(key_result_ptr, result, key_angles, keys, key_last, key_stride, head, rotary, head_width)
        both = value_result, value_result
        _store(value_result_ptr, both, key_angles, keys, key_last, key_stride, head, False, head_width)


# Queries and keys are two matrices each where they are turned, the first and the second half of a head; else one twice.


@triton.jit
def _angles(positions, rotations, rows, last, rotary: tl.constexpr, head_width: tl.constexpr):
    """(cosines, sines) by which the halves of these rows are turned into each other."""
    if rotary:
        half: tl.constexpr = head_width // 2
        position = tl.load(positions + rows, mask=rows < last, other=0)
        places = rotations + position[:, None] * head_width + tl.arange(0, half)[None, :]
        return tl.load(places), tl.load(places + half)
    else:
        return 0.0, 0.0


@triton.jit
def _load(pointer, angles, rows, last, stride, head, rotary: tl.constexpr, head_width: tl.constexpr):
    is_row = (rows < last)[:, None]
    if rotary:
        half: tl.constexpr = head_width // 2
        places = pointer + rows[:, None] * stride + head * head_width + tl.arange(0, half)[None, :]
        first = tl.load(places, mask=is_row, other=0.0)
        second = tl.load(places + half, mask=is_row, other=0.0)
        return _turn(first, second, angles[0], angles[1], first.dtype)
    else:
        places = pointer + rows[:, None] * stride + head * head_width + tl.arange(0, head_width)[None, :]
        whole = tl.load(places, mask=is_row, other=0.0)
        return whole, whole


@triton.jit
def _store(pointer, numbers, angles, rows, last, stride, head, rotary: tl.constexpr, head_width: tl.constexpr):
    """Turned back, where they were turned."""
    is_row = (rows < last)[:, None]
    dtype = pointer.dtype.element_ty
    if rotary:
        half: tl.constexpr = head_width // 2
        first, second = _turn(numbers[0], numbers[1], angles[0], -angles[1], dtype)
        places = pointer + rows[:, None] * stride + head * head_width + tl.arange(0, half)[None, :]
        tl.store(places, first, mask=is_row)
        tl.store(places + half, second, mask=is_row)
    else:
        places = pointer + rows[:, None] * stride + head * head_width + tl.arange(0, head_width)[None, :]
        tl.store(places, numbers[0].to(dtype), mask=is_row)


@triton.jit
def _turn(first, second, cosine, sine, dtype: tl.constexpr):
    first = first.to(tl.float32)
    second = second.to(tl.float32)
    return (first * cosine - second * sine).to(dtype), (second * cosine + first * sine).to(dtype)


@triton.jit
def _scores(query, key, queries, keys, query_sentence, key_sentence, scale, causal: tl.constexpr, rotary: tl.constexpr):
    """Of each query for each key, for a softmax to base 2; minus infinity where it may not look."""
    scores = tl.dot(query[0], tl.trans(key[0]))
    if rotary:
        scores = tl.dot(query[1], tl.trans(key[1]), acc=scores)
    is_visible = query_sentence[:, None] == key_sentence[None, :]
    if causal:
        is_visible = is_visible & (keys[None, :] <= queries[:, None])
    return tl.where(is_visible, scores * (scale * 1.4426950408889634), float("-inf"))


@triton.jit
def _products(left, right, rotary: tl.constexpr):
    first = tl.dot(left, right[0])
    if rotary:
        return first, tl.dot(left, right[1])
    else:
        return first, first


@triton.jit
def _zeros(size: tl.constexpr, head_width: tl.constexpr, rotary: tl.constexpr):
    if rotary:
        half: tl.constexpr = head_width // 2
        return tl.zeros([size, half], tl.float32), tl.zeros([size, half], tl.float32)
    else:
        whole = tl.zeros([size, head_width], tl.float32)
        return whole, whole
