"""Packing: sentence pairs fill fixed budgets of source and target tokens, so that every batch has one shape.

Nothing is padded but what is left of a budget, two or three tokens in a thousand. Whole numbers decide everything: the
same lengths give the same packs on every machine.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from septuagint.batch import IGNORE, Microbatch, PackedBatch
from septuagint.data.sentences import Sentences
from septuagint.data.vocabulary import EOS, PAD
from septuagint.errors import DataError

# Pairs to choose from beyond those of the pack itself. The oldest pair always goes first, so none waits for long.
_NUM_HELD = 256
# The last two pairs of a pack are chosen together from this many; more would hardly fill better, but cost their square.
_NUM_CANDIDATES = 96


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """How much text an epoch holds, for `pack_shape`."""

    num_pairs: int
    num_source_tokens: int
    num_target_tokens: int
    longest_source: int
    longest_target: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PackShape:
    """What every pack of a run has in common."""

    source_tokens: int
    target_tokens: int
    max_pairs: int
    max_length: int
    """Tokens of the longest sentence of either side."""

    @property
    def num_slots(self) -> int:
        """Sentences of a batch: the pairs, and those of PAD that fill the rest of a budget."""
        return self.max_pairs + -(-max(self.source_tokens, self.target_tokens) // self.max_length)


def pack_shape(target_tokens: int, totals: Totals) -> PackShape:
    """The shape of packs with this target budget. The source budget follows from the text, so that both are used up."""
    ratio = totals.num_source_tokens, totals.num_target_tokens
    source_tokens = _source_budget(target_tokens, *ratio)
    if target_tokens < totals.longest_target or source_tokens < totals.longest_source:
        # The inverse of _source_budget: the least target budget that gives the source enough multiples of 8.
        for_source = (math.ceil(totals.longest_source / 8) - 1) * 8 * ratio[1] // ratio[0] + 1
        raise DataError(
            f"training.microbatch_tokens = {target_tokens} gives packs of {target_tokens} target and {source_tokens} "
            f"source tokens, but the longest training sentences have {totals.longest_target} and "
            f"{totals.longest_source}; set it to {max(totals.longest_target, for_source)} or more, or lower "
            "filters.max_pieces and run `septuagint prepare`"
        )
    # A quarter more than the mean: packs of unusually short pairs are full before they run out of slots.
    max_pairs = math.ceil(1.25 * target_tokens * totals.num_pairs / totals.num_target_tokens) + 8
    return PackShape(
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        max_pairs=max_pairs,
        max_length=max(totals.longest_source, totals.longest_target),
    )


def _source_budget(target_tokens: int, num_source_tokens: int, num_target_tokens: int) -> int:
    return -(-target_tokens * num_source_tokens // (8 * num_target_tokens)) * 8


def plan_packs(source_lengths: np.ndarray, target_lengths: np.ndarray, shape: PackShape) -> list[np.ndarray]:
    """Packs of indices of pairs: every pair once, no pack over a budget. Neighbours in a pack have similar lengths."""
    return list(iterate_packs([(source_lengths, target_lengths)], shape))


def iterate_packs(lengths: Iterable[tuple[np.ndarray, np.ndarray]], shape: PackShape) -> Iterator[np.ndarray]:
    """The packs of `plan_packs`, each made when it is asked for, from (source, target) lengths that come in parts.

    The result does not depend on the size of the parts.
    """
    parts = iter(lengths)
    num_read = 0
    # A row for each pair that waits, the oldest first: its index, its source and its target length.
    pool = np.empty((3, 0), np.int64)
    unread = pool
    has_more = True
    wanted = shape.max_pairs + _NUM_HELD
    while True:
        while has_more and pool.shape[1] + unread.shape[1] < wanted:
            part = next(parts, None)
            if part is None:
                has_more = False
            else:
                indices = np.arange(num_read, num_read + len(part[0]))
                num_read += len(indices)
                unread = np.concatenate((unread, np.stack((indices, *part))), axis=1)
        num_new = wanted - pool.shape[1]
        pool = np.concatenate((pool, unread[:, :num_new]), axis=1)
        unread = unread[:, num_new:]
        if not pool.shape[1]:
            return
        is_chosen = _choose(pool[1], pool[2], shape)
        indices, source_lengths, target_lengths = pool[:, is_chosen]
        pool = pool[:, ~is_chosen]
        yield indices[np.lexsort((source_lengths, target_lengths))]


def _choose(source: np.ndarray, target: np.ndarray, shape: PackShape) -> np.ndarray:
    """Which of the waiting pairs make the next pack, as a mask.

    Most are simply the oldest, then come the oldest of those that even out the two sides, and the gap of about two
    pairs that is left goes to the two that fill it best.
    """
    choice = _Choice(source, target, shape)
    source_mean, target_mean = -(-int(source.sum()) // len(source)), -(-int(target.sum()) // len(target))
    num_steering = 2 * math.isqrt(shape.target_tokens // target_mean)
    choice.add(choice.waiting[:1], 0, 0)
    for num_left in (num_steering, 6):
        choice.add(choice.waiting, num_left * source_mean, num_left * target_mean)
        choice.even_out(2 * source_mean, 2 * target_mean)
    choice.add(choice.waiting, 2 * source_mean, 2 * target_mean)
    while choice.add_best():
        pass
    return choice.is_chosen


class _Choice:
    """A pack in the making: which pairs are in it, and the room that is left."""

    def __init__(self, source: np.ndarray, target: np.ndarray, shape: PackShape) -> None:
        self.is_chosen = np.zeros(len(source), bool)
        self._source, self._target = source, target
        self._shape = shape
        self._source_room, self._target_room = shape.source_tokens, shape.target_tokens
        self._pair_room = shape.max_pairs

    @property
    def waiting(self) -> np.ndarray:
        return np.flatnonzero(~self.is_chosen)

    def add(self, pairs: np.ndarray, source_gap: int, target_gap: int) -> None:
        """Adds the first of the pairs, as many as leave a gap on each side."""
        source_ends, target_ends = np.cumsum(self._source[pairs]), np.cumsum(self._target[pairs])
        num_pairs = min(
            int(source_ends.searchsorted(self._source_room - source_gap, side="right")),
            int(target_ends.searchsorted(self._target_room - target_gap, side="right")),
            self._pair_room,
        )
        if num_pairs:
            self.is_chosen[pairs[:num_pairs]] = True
            self._source_room -= int(source_ends[num_pairs - 1])
            self._target_room -= int(target_ends[num_pairs - 1])
            self._pair_room -= num_pairs

    def even_out(self, source_gap: int, target_gap: int) -> None:
        """Adds pairs with more of the side that has too much room, until both have their share."""
        shape = self._shape
        excess = self._source_room * shape.target_tokens - self._target_room * shape.source_tokens
        pairs = self.waiting
        tilts = self._source[pairs] * shape.target_tokens - self._target[pairs] * shape.source_tokens
        if excess < 0:
            excess, tilts = -excess, -tilts
        is_helpful = tilts > 0
        num_pairs = int(np.cumsum(tilts[is_helpful]).searchsorted(excess, side="right"))
        self.add(pairs[is_helpful][:num_pairs], source_gap, target_gap)

    def add_best(self) -> bool:
        """Adds the one or two pairs that leave the least room. False where none fits."""
        fits = ~self.is_chosen & (self._source <= self._source_room) & (self._target <= self._target_room)
        pairs = np.flatnonzero(fits)[:_NUM_CANDIDATES]
        if not len(pairs) or not self._pair_room:
            return False
        # The first row stands for no pair at all.
        source, target = np.zeros((2, len(pairs) + 1), np.int64)
        source[1:], target[1:] = self._source[pairs], self._target[pairs]
        if self._pair_room == 1:
            best = [int(np.argmax(source + target))]
        else:
            sources, targets = source[:, None] + source, target[:, None] + target
            sums = (sources + targets) * ((sources <= self._source_room) & (targets <= self._target_room))
            np.fill_diagonal(sums, 0)
            best = [int(place) for place in np.unravel_index(np.argmax(sums), sums.shape) if place]
        self.add(pairs[np.array(best) - 1], 0, 0)
        return True


def build_batch(source: Sentences, target: Sentences, shape: PackShape) -> PackedBatch:
    """Lays pairs end to end in the tensors that the model reads. Every sentence ends with EOS."""
    num_tokens = len(target.ids)
    labels = np.full(shape.target_tokens, IGNORE, np.int64)
    labels[:num_tokens] = target.ids
    target_ids = np.full(shape.target_tokens, PAD, np.int64)
    # One to the right: before the first token of a sentence stands the EOS of the one before it.
    target_ids[:1] = EOS
    target_ids[1:num_tokens] = target.ids[:-1]
    source_ids = np.full(shape.source_tokens, PAD, np.int64)
    source_ids[: len(source.ids)] = source.ids
    return PackedBatch(
        source_ids_S=torch.from_numpy(source_ids),
        source_offsets=torch.from_numpy(_with_padding(source.offsets, shape.source_tokens, shape)),
        target_ids_T=torch.from_numpy(target_ids),
        target_offsets=torch.from_numpy(_with_padding(target.offsets, shape.target_tokens, shape)),
        labels_T=torch.from_numpy(labels),
    )


def _with_padding(offsets: np.ndarray, budget: int, shape: PackShape) -> np.ndarray:
    """The offsets, those of sentences of PAD up to the budget, and the end repeated for slots that are not needed."""
    num_more = shape.num_slots + 1 - len(offsets)
    padding = offsets[-1] + shape.max_length * np.arange(1, num_more + 1)
    return np.concatenate((offsets, np.minimum(padding, budget))).astype(np.int32)


def build_microbatch(source: Sentences, target: Sentences, shape: PackShape, index: int) -> Microbatch:
    """A batch with what the host knows about it."""
    return Microbatch(
        batch=build_batch(source, target, shape),
        index=index,
        num_pairs=len(source),
        num_source_tokens=len(source.ids),
        num_target_tokens=len(target.ids),
    )


def evaluation_packs(source: Sentences, target: Sentences, shape: PackShape) -> list[Microbatch]:
    """All pairs of a set, in packs that do not depend on the order of the pairs.

    Evaluation is not compiled, so a pair that is too long for the shape makes the packs larger instead of failing.
    """
    source_lengths, target_lengths = source.lengths, target.lengths
    longest_source, longest_target = int(source_lengths.max(initial=0)), int(target_lengths.max(initial=0))
    shape = replace(
        shape,
        source_tokens=max(shape.source_tokens, longest_source),
        target_tokens=max(shape.target_tokens, longest_target),
        max_length=max(shape.max_length, longest_source, longest_target),
    )
    order = _order_by_content(source, target)
    packs = plan_packs(source_lengths[order], target_lengths[order], shape)
    return [
        build_microbatch(source.take(order[pack]), target.take(order[pack]), shape, index)
        for index, pack in enumerate(packs)
    ]


def _order_by_content(source: Sentences, target: Sentences) -> np.ndarray:
    keys = [(source_ids.tobytes(), target_ids.tobytes()) for source_ids, target_ids in zip(source, target, strict=True)]
    return np.array(sorted(range(len(source)), key=keys.__getitem__), np.int64)
