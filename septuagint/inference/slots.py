"""Beam search on GPUs: a fixed number of slots with a sentence in each; who is finished makes room for who waits.

A host cannot launch the small kernels of a step as fast as a GPU runs them. So every step has the same shape: it is
recorded once, and replayed. The sentences of the slots are at different steps; sources lie end to end, and
the past of a slot in pages that it has while it needs them. So nothing is padded: kernels of our own (`gpu_kernels`)
look for each sentence at as much as it has. Sentences come and go without the host, too (`slot_queue`): it only hears
how many are finished, while the GPU works on.

B slots, W beams of a slot, T steps that a slot can make, X pages that it can have, S source tokens that there is room
for, P steps that all pages have room for, H heads, K numbers of a head, R = B * W, V vocabulary, N sentences.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from septuagint.inference.search import (
    Hypothesis,
    Rules,
    Search,
    best_continuations,
    go_on,
    length_limit,
    read_hypotheses,
)
from septuagint.inference.slot_queue import SlotQueue
from septuagint.model.transformer import DecoderLayer, Transformer, follow_parents

# More rows than this do not make a row cheaper.
_MAX_SLOTS = 1024
# What all beams' past may take, and all sources: at most so much, and at most this share of the GPU's memory.
_PAST_BYTES, _PAST_SHARE = 4 << 30, 1 / 8
_SOURCE_BYTES, _SOURCE_SHARE = 2 << 30, 1 / 16
# The same for the scores over the vocabulary, which decide how many slots there are.
_LOGITS_BYTES, _LOGITS_SHARE = 1 << 30, 1 / 32
# And for what was found.
_FOUND_BYTES, _FOUND_SHARE = 1 << 30, 1 / 32
# Sources that are read by the encoder at once.
_ENCODED_TOKENS = 65_536
# Steps of a page.
_PAGE = 32
# Sentences come and go after so many steps: that costs a part of a step, an empty slot its share of every step.
_STEPS_PER_ROUND = 3
# The host is so many rounds ahead of the GPU.
_ROUNDS_AHEAD = 2


class Kernels(Protocol):
    """What differs from torch's own operations: `gpu_kernels`."""

    def attend_to_past(
        self,
        query_BWHK: Tensor,
        key_BWHK: Tensor,
        value_BWHK: Tensor,
        past: Tensor,
        pages: Tensor,
        ancestors: Tensor,
        steps: Tensor,
    ) -> Tensor: ...

    def attend_to_source(self, query_BWHK: Tensor, source: Tensor, begins: Tensor, counts: Tensor) -> Tensor: ...

    def likeliest(self, logits_RV: Tensor, number: int, steps_B: Tensor) -> tuple[Tensor, Tensor]: ...


def translate_in_slots(
    model: Transformer,
    sources: Sequence[np.ndarray],
    rules: Rules,
    dtype: torch.dtype,
    kernels: Kernels,
    advance: Callable[[int], None],
) -> list[list[Hypothesis]]:
    """The best hypotheses for each source."""
    results: list[list[Hypothesis]] = [[] for _ in sources]
    lengths = [len(source) for source in sources]
    if not sources:
        return results
    most_tokens = _num_bytes(model, _SOURCE_BYTES, _SOURCE_SHARE) // _bytes_per_token(model, dtype)
    bytes_found = 2 * 4 * rules.beam_size * _PAGE * _num_pages(max(lengths))
    most_sentences = _num_bytes(model, _FOUND_BYTES, _FOUND_SHARE) // bytes_found
    shares = list(_shares(lengths, most_tokens, most_sentences))
    slots = Slots(
        model,
        rules,
        dtype,
        kernels,
        longest=max(lengths),
        num_sentences=max(map(len, shares)),
        num_source_tokens=max(sum(lengths[row] for row in rows) for rows in shares),
    )
    for rows in shares:
        found = slots.translate([sources[row] for row in rows], advance)
        for row, hypotheses in zip(rows, found, strict=True):
            results[row] = hypotheses
    return results


def _shares(lengths: Sequence[int], num_tokens: int, num_rows: int = sys.maxsize) -> Iterator[list[int]]:
    """Rows that are read together, the longest first; one at least, and else no more than this."""
    share: list[int] = []
    total = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if share and (total + lengths[row] > num_tokens or len(share) >= num_rows):
            yield share
            share, total = [], 0
        share.append(row)
        total += lengths[row]
    if share:
        yield share


def _num_pages(source_length: int) -> int:
    """For the longest translation that a source can have."""
    return -(-length_limit(source_length) // _PAGE)


def _bytes_per_token(model: Transformer, dtype: torch.dtype) -> int:
    """Keys and values of all layers."""
    return 2 * model.config.width * model.config.num_decoder_layers * dtype.itemsize


def _num_bytes(model: Transformer, most: int, share: float) -> int:
    device = model.embeddings.weight.device
    total = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 1 << 34
    return min(most, int(total * share))


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotMemory:
    """What one layer looks back at."""

    kernels: Kernels
    past_PW2HK: Tensor
    source_S2HK: Tensor
    pages_BX: Tensor
    ancestors_BWT: Tensor
    steps_B: Tensor
    begins_B: Tensor
    counts_B: Tensor

    def attend_to_past(self, query_BWHK: Tensor, key_BWHK: Tensor, value_BWHK: Tensor) -> Tensor:
        return self.kernels.attend_to_past(
            query_BWHK, key_BWHK, value_BWHK, self.past_PW2HK, self.pages_BX, self.ancestors_BWT, self.steps_B
        ).flatten(2)

    def attend_to_source(self, query_BWHK: Tensor) -> Tensor:
        return self.kernels.attend_to_source(query_BWHK, self.source_S2HK, self.begins_B, self.counts_B).flatten(2)


class Slots:
    """Room for sentences side by side, with the one step that all of them make over and over."""

    def __init__(
        self,
        model: Transformer,
        rules: Rules,
        dtype: torch.dtype,
        kernels: Kernels,
        *,
        longest: int,
        num_sentences: int,
        num_source_tokens: int,
    ) -> None:
        """For at most so many sentences at a time, and none that is longer."""
        config, device = model.config, model.embeddings.weight.device
        num_beams, head = rules.beam_size, (config.num_heads, config.width // config.num_heads)
        # Not bfloat16: its eight bits are too few to tell the best pieces of a long vocabulary apart.
        self._logits_dtype = torch.float32 if dtype == torch.float32 else torch.float16
        bytes_per_slot = num_beams * model.embeddings.num_embeddings * self._logits_dtype.itemsize
        most_slots = min(_MAX_SLOTS, _num_bytes(model, _LOGITS_BYTES, _LOGITS_SHARE) // bytes_per_slot)
        # A power of two, as products like it. Two thirds of the sentences wait at first: when none waits, slots become
        # empty, and a step costs as much.
        num_slots = 1 << max(1, min(num_sentences // 3, most_slots).bit_length() - 1)
        most_pages = _num_pages(longest)
        budget = _num_bytes(model, _PAST_BYTES, _PAST_SHARE) // (_PAGE * num_beams * _bytes_per_token(model, dtype))
        num_pages = max(most_pages, min(budget, num_slots * most_pages))
        room = most_pages * _PAGE
        self._model, self._rules, self._dtype, self._kernels = model, rules, dtype, kernels
        self._search = Search.begin(torch.full((num_slots,), room, device=device), num_beams=num_beams, room=room)
        self._search.is_done_B.fill_(True)
        self._queue = SlotQueue(
            num_slots=num_slots,
            num_sentences=num_sentences,
            num_pages=num_pages,
            most_pages=most_pages,
            device=device,
        )
        # Of all sentences, and at the end of nobody.
        self._all_begins_N = torch.zeros(num_sentences + 1, dtype=torch.int64, device=device)
        self._all_counts_N = torch.ones_like(self._all_begins_N)
        self._found = Search.begin(torch.full_like(self._all_begins_N, room), num_beams=num_beams, room=room)
        self._steps_B = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self._begins_B = torch.zeros_like(self._steps_B)
        self._counts_B = torch.ones_like(self._steps_B)
        self._ancestors_BWT = torch.zeros(num_slots, num_beams, room, dtype=torch.int32, device=device)
        past_shape = ((num_pages + 1) * _PAGE, num_beams, 2, *head)
        self._memories = [
            SlotMemory(
                kernels=kernels,
                past_PW2HK=torch.zeros(past_shape, dtype=dtype, device=device),
                source_S2HK=torch.zeros(max(2, num_source_tokens), 2, *head, dtype=dtype, device=device),
                pages_BX=self._queue.pages_BX,
                ancestors_BWT=self._ancestors_BWT,
                steps_B=self._steps_B,
                begins_B=self._begins_B,
                counts_B=self._counts_B,
            )
            for _ in model.decoder
        ]
        self._output_DV = model.embeddings.weight.to(self._logits_dtype).t()
        record = _record if device.type == "cuda" else _as_it_is
        self._make_step, self._make_changes = record(self._step), record(self._change)

    def translate(self, sources: Sequence[np.ndarray], advance: Callable[[int], None]) -> list[list[Hypothesis]]:
        """The hypotheses of each source. The first ones have the first turn."""
        self._read(sources)
        lengths = np.array([len(source) for source in sources])
        limits = np.array([length_limit(length) for length in lengths])
        for tensor, values in (
            (self._all_begins_N, np.cumsum(lengths) - lengths),
            (self._all_counts_N, lengths),
            (self._found.limits_B, limits),
        ):
            tensor[: len(sources)] = torch.from_numpy(values).to(tensor.device)
        self._queue.fill(-(-limits // _PAGE))
        num_finished = 0
        under_way: deque[Callable[[], int]] = deque()
        while num_finished < len(sources):
            self._make_changes()
            under_way.append(_fetch(self._queue.num_left))
            for _ in range(_STEPS_PER_ROUND):
                self._make_step()
            if len(under_way) > _ROUNDS_AHEAD:
                before, num_finished = num_finished, under_way.popleft()()
                advance(num_finished - before)
        return read_hypotheses(self._found.select(slice(len(sources))), self._rules)

    def _read(self, sources: Sequence[np.ndarray]) -> None:
        """Fills the keys and values of the sources, from the first to the last."""
        begin = 0
        for rows in _shares([len(source) for source in sources], _ENCODED_TOKENS):
            memory_SD = self._model.encode_sentences([sources[row] for row in rows], self._dtype)
            for layer, memory in zip(self._model.decoder, self._memories, strict=True):
                assert isinstance(layer, DecoderLayer)
                part = memory.source_S2HK[begin : begin + len(memory_SD)]
                part.copy_(layer.cross_attention.key_value(memory_SD).view_as(part))
            begin += len(memory_SD)

    def _change(self) -> None:
        """Sentences come and go, all at once."""
        search, queue = self._search, self._queue
        self._found.put(queue.leave(search.is_done_B), search)
        comes_B = queue.enter()
        search.restart(comes_B, self._found.limits_B[queue.sentences_B])
        # Who has no sentence is at the first step of a source of one token, done, and stays there.
        is_changed_B = comes_B | search.is_done_B
        for tensor, new in (
            (self._steps_B, torch.zeros_like(self._steps_B)),
            (self._begins_B, self._all_begins_N[queue.sentences_B]),
            (self._counts_B, self._all_counts_N[queue.sentences_B]),
        ):
            tensor.copy_(torch.where(is_changed_B, new, tensor))

    def _step(self) -> None:
        """One more piece for every beam. Nothing here waits for a number from the device."""
        search, model = self._search, self._model
        hidden_BWD, rows_B1X = model.embed_next(search.ids_BW, self._steps_B)
        for layer, memory in zip(model.decoder, self._memories, strict=True):
            assert isinstance(layer, DecoderLayer)
            hidden_BWD = layer.decode_next(hidden_BWD, rows_B1X, memory)
        hidden_RD = model.decoder_norm(hidden_BWD).flatten(0, 1).to(self._logits_dtype)
        with torch.autocast(hidden_RD.device.type, enabled=False):
            logits_RV = hidden_RD @ self._output_DV
        likeliest = self._kernels.likeliest(logits_RV, 2 * self._rules.beam_size, self._steps_B)
        candidates = best_continuations(search.scores_BW, *likeliest)
        follow_parents(self._ancestors_BWT, self._steps_B, go_on(search, self._rules, self._steps_B, candidates))
        self._steps_B.add_(~search.is_done_B)  # who is done stays where it is


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _fetch(number: Tensor) -> Callable[[], int]:
    """Begins to copy a number from the device; the result waits for it."""
    copy = number.to("cpu", non_blocking=True, copy=True)
    if number.device.type != "cuda":
        return lambda: int(copy)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch does not type it
    event.record()

    def wait() -> int:
        event.synchronize()
        return int(copy)

    return wait


def _record(function: Callable[[], None]) -> Callable[[], None]:
    """The same, to be replayed on the GPU. It is done once or twice for that: no sentence may be in the slots yet."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch does not type it
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay
