"""Kernels of `slots` in Triton: attention that looks at what is there and no further, and the best of a vocabulary.

B slots, W beams, T steps, H heads, K numbers of a head, R = B * W, V vocabulary, N pieces asked for.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from septuagint.data.vocabulary import EOS

# Rows of the matrix units' smallest tile.
_TILE = 16
# Keys that are looked at together, and by how many warps.
_KEYS, _KEY_WARPS = 32, 1
# The vocabulary is looked through in chunks of so many pieces, so many chunks by one program.
_CHUNK = 128
_CHUNKS = 32


def attend_to_past(
    query_BWHK: Tensor,
    key_BWHK: Tensor,
    value_BWHK: Tensor,
    past: Tensor,
    pages: Tensor,
    ancestors: Tensor,
    steps: Tensor,
) -> Tensor:
    """What each beam finds in its own past and in this token (B, W, H, K), which becomes part of the past.

    `past` (P, W, 2, H, K) has keys and values of every beam at every step, T steps in the X `pages` (B, X) of a slot;
    `ancestors` (B, W, T) says which beams a beam's own past is of; the slots are at `steps`.
    """
    output = torch.empty(query_BWHK.shape, dtype=query_BWHK.dtype, device=query_BWHK.device)
    room, page_size = ancestors.shape[-1], ancestors.shape[-1] // pages.shape[-1]
    assert page_size % _KEYS == 0
    _launch(output, query_BWHK, key_BWHK, value_BWHK, past, ancestors, pages, steps, room=room, page_size=page_size)
    return output


def attend_to_source(query_BWHK: Tensor, source: Tensor, begins: Tensor, counts: Tensor) -> Tensor:
    """What each beam finds in its source: `counts` rows of `source` (P, 2, H, K) from `begins` on."""
    output = torch.empty(query_BWHK.shape, dtype=query_BWHK.dtype, device=query_BWHK.device)
    _launch(output, query_BWHK, query_BWHK, query_BWHK, source, begins, begins, counts, room=0, page_size=_KEYS)
    return output


def _launch(
    output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    memory: Tensor,
    ancestors: Tensor,
    begins: Tensor,
    counts: Tensor,
    *,
    room: int,
    page_size: int,
) -> None:
    num_slots, num_beams, num_heads, head_width = query.shape
    for tensor in (query, key, value):  # parts of one projection, or whole
        assert tensor.stride()[2:] == (head_width, 1) and tensor.stride(0) == num_beams * tensor.stride(1)
    _attend[(num_slots, num_heads)](
        output,
        query,
        key,
        value,
        memory,
        ancestors,
        begins,
        counts,
        query.stride(1),
        key.stride(1),
        value.stride(1),
        room,
        head_width**-0.5,
        is_past=room > 0,
        page_size=page_size,
        num_beams=num_beams,
        num_heads=num_heads,
        head_width=head_width,
        beam_block=max(_TILE, triton.next_power_of_2(num_beams)),
        head_block=max(_TILE, triton.next_power_of_2(head_width)),
        key_block=_KEYS,
        num_warps=_KEY_WARPS,
    )


@triton.jit
def _attend(
    output_ptr,
    query_ptr,
    key_ptr,
    value_ptr,
    memory_ptr,
    ancestors_ptr,
    begins_ptr,
    counts_ptr,
    query_stride,
    key_stride,
    value_stride,
    room,
    scale,
    is_past: tl.constexpr,
    page_size: tl.constexpr,
    num_beams: tl.constexpr,
    num_heads: tl.constexpr,
    head_width: tl.constexpr,
    beam_block: tl.constexpr,
    head_block: tl.constexpr,
    key_block: tl.constexpr,
):
    """One head of all beams of a slot, by a softmax that goes along.

    It looks at the past, `counts` steps in the pages that `begins` names, or at a source, `counts` rows from `begins`.
    """
    slot = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    beams = tl.arange(0, beam_block)
    columns = tl.arange(0, head_block)
    is_inside = (beams < num_beams)[:, None] & (columns < head_width)[None, :]
    rows = slot * num_beams + beams
    inside_row = head * head_width + columns
    memory_stride = 2 * num_heads * head_width
    query = tl.load(query_ptr + rows[:, None] * query_stride + inside_row[None, :], mask=is_inside, other=0.0)
    count = tl.load(counts_ptr + slot)
    if is_past:
        # The token itself is the first that is looked at, and is kept for later steps.
        key = tl.load(key_ptr + rows[:, None] * key_stride + inside_row[None, :], mask=is_inside, other=0.0)
        value = tl.load(value_ptr + rows[:, None] * value_stride + inside_row[None, :], mask=is_inside, other=0.0)
        pages_ptr = begins_ptr + slot * (room // page_size)
        step = tl.load(pages_ptr + count // page_size) * page_size + count % page_size
        kept = memory_ptr + (step * num_beams + beams)[:, None] * memory_stride + inside_row[None, :]
        tl.store(kept, key, mask=is_inside)
        tl.store(kept + num_heads * head_width, value, mask=is_inside)
        largest = tl.sum(query.to(tl.float32) * key.to(tl.float32), axis=1) * scale
        total = tl.full([beam_block], 1.0, tl.float32)
        attended = value.to(tl.float32)
        num_keys = count * num_beams
    else:
        pages_ptr = begins_ptr + slot
        largest = tl.full([beam_block], float("-inf"), tl.float32)
        total = tl.zeros([beam_block], tl.float32)
        attended = tl.zeros([beam_block, head_block], tl.float32)
        num_keys = count
    for first in range(0, num_keys, key_block):
        places = first + tl.arange(0, key_block)
        is_place = places < num_keys
        if is_past:  # a block of keys lies in one page
            page = first // (page_size * num_beams)
            moved = (tl.load(pages_ptr + page) - page) * (page_size * num_beams)
        else:
            moved = tl.load(pages_ptr)
        place_ptr = memory_ptr + (moved + places) * memory_stride + head * head_width
        is_key = is_place[None, :] & (columns < head_width)[:, None]
        keys = tl.load(place_ptr[None, :] + columns[:, None], mask=is_key, other=0.0)
        is_value = is_place[:, None] & (columns < head_width)[None, :]
        value_ptrs = place_ptr[:, None] + num_heads * head_width + columns[None, :]
        values = tl.load(value_ptrs, mask=is_value, other=0.0)
        is_visible = (beams < beam_block)[:, None] & is_place[None, :]
        if is_past:
            own_ptr = ancestors_ptr + rows[:, None] * room + (places // num_beams)[None, :]
            own = tl.load(own_ptr, mask=(beams < num_beams)[:, None] & is_place[None, :], other=-1)
            is_visible = is_visible & (own == (places % num_beams)[None, :])
        scores = tl.dot(query, keys, input_precision="ieee") * scale
        scores = tl.where(is_visible, scores, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        shrink = tl.exp(largest - new_largest)
        weights = tl.exp(scores - new_largest[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        found = tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        attended = attended * shrink[:, None] + found
        largest = new_largest
    attended = attended / total[:, None]
    output = output_ptr + rows[:, None] * (num_heads * head_width) + inside_row[None, :]
    tl.store(output, attended.to(query.dtype), mask=is_inside)


def likeliest(logits_RV: Tensor, number: int, steps_B: Tensor) -> tuple[Tensor, Tensor]:
    """(log-probabilities, pieces) of each row's likeliest, the first the likeliest. EOS is left out at step 0.

    The vocabulary is read once, for the largest number of every chunk and the sum of all. The N largest lie in the N
    chunks with the largest maxima, so only these are looked at again.
    """
    num_rows, num_pieces = logits_RV.shape
    num_beams = num_rows // len(steps_B)
    num_parts = triton.cdiv(num_pieces, _CHUNK * _CHUNKS)
    device = logits_RV.device
    maxima = torch.empty(num_rows, num_parts * _CHUNKS, dtype=torch.float32, device=device)
    log_totals = torch.empty(num_rows, num_parts, dtype=torch.float32, device=device)
    log_probs = torch.empty(num_rows, number, dtype=torch.float32, device=device)
    ids = torch.empty(num_rows, number, dtype=torch.int64, device=device)
    _scan[(num_rows, num_parts)](
        logits_RV, maxima, log_totals, steps_B, num_pieces, num_beams, EOS, chunk=_CHUNK, num_chunks=_CHUNKS
    )
    _pick[(num_rows,)](
        logits_RV,
        maxima,
        log_totals,
        log_probs,
        ids,
        steps_B,
        num_pieces,
        num_beams,
        num_parts * _CHUNKS,
        num_parts,
        EOS,
        number=number,
        number_block=triton.next_power_of_2(number),
        chunk=_CHUNK,
        chunks_block=triton.next_power_of_2(num_parts * _CHUNKS),
        parts_block=triton.next_power_of_2(num_parts),
    )
    return log_probs, ids


@triton.jit
def _scan(
    logits_ptr,
    maxima_ptr,
    log_totals_ptr,
    steps_ptr,
    num_pieces,
    num_beams,
    eos,
    chunk: tl.constexpr,
    num_chunks: tl.constexpr,
):
    """Of one part of a row: the largest number of each chunk, and the log of the sum of the exponentials."""
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    chunks = part * num_chunks + tl.arange(0, num_chunks)
    pieces = chunks[:, None] * chunk + tl.arange(0, chunk)[None, :]
    logits = _load_logits(logits_ptr, row, pieces, pieces < num_pieces, steps_ptr, num_pieces, num_beams, eos)
    maxima = tl.max(logits, axis=1)
    largest = tl.max(maxima, axis=0)
    total = tl.sum(tl.sum(tl.exp(logits - largest), axis=1), axis=0)
    tl.store(maxima_ptr + row * tl.num_programs(1) * num_chunks + chunks, maxima)
    tl.store(log_totals_ptr + row * tl.num_programs(1) + part, largest + tl.log(total))


@triton.jit
def _pick(
    logits_ptr,
    maxima_ptr,
    log_totals_ptr,
    log_probs_ptr,
    ids_ptr,
    steps_ptr,
    num_pieces,
    num_beams,
    num_chunks,
    num_parts,
    eos,
    number: tl.constexpr,
    number_block: tl.constexpr,
    chunk: tl.constexpr,
    chunks_block: tl.constexpr,
    parts_block: tl.constexpr,
):
    """The largest numbers of a row, from the chunks with the largest maxima."""
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, parts_block)
    log_totals = tl.load(log_totals_ptr + row * num_parts + parts, mask=parts < num_parts, other=float("-inf"))
    largest = tl.max(log_totals, axis=0)
    log_total = largest + tl.log(tl.sum(tl.exp(log_totals - largest), axis=0))
    all_chunks = tl.arange(0, chunks_block)
    maxima = tl.load(maxima_ptr + row * num_chunks + all_chunks, mask=all_chunks < num_chunks, other=float("-inf"))
    ranks = tl.arange(0, number_block)
    best_chunks = tl.full([number_block], -1, tl.int32)
    for rank in range(number):
        value, where = tl.max(maxima, axis=0, return_indices=True)
        best_chunks = tl.where(ranks == rank, tl.where(value > float("-inf"), where, -1), best_chunks)
        maxima = tl.where(all_chunks == where, float("-inf"), maxima)
    pieces = best_chunks[:, None] * chunk + tl.arange(0, chunk)[None, :]
    is_piece = (best_chunks >= 0)[:, None] & (pieces < num_pieces)
    logits = _load_logits(logits_ptr, row, pieces, is_piece, steps_ptr, num_pieces, num_beams, eos)
    flat_logits = tl.reshape(logits, [number_block * chunk])
    flat_pieces = tl.reshape(pieces, [number_block * chunk])
    for rank in range(number):
        value = tl.max(flat_logits, axis=0)
        piece = tl.min(tl.where(flat_logits == value, flat_pieces, num_pieces - 1), axis=0)
        tl.store(log_probs_ptr + row * number + rank, value - log_total)
        tl.store(ids_ptr + row * number + rank, tl.maximum(piece, 0).to(tl.int64))
        flat_logits = tl.where(flat_pieces == piece, float("-inf"), flat_logits)


@triton.jit
def _load_logits(logits_ptr, row, pieces, is_piece, steps_ptr, num_pieces, num_beams, eos):
    """Numbers of a row, minus infinity where there is none and where EOS would come first."""
    is_first = tl.load(steps_ptr + row // num_beams) == 0
    logits = tl.load(logits_ptr + row * num_pieces + pieces, mask=is_piece, other=float("-inf")).to(tl.float32)
    return tl.where(is_first & (pieces == eos), float("-inf"), logits)
