"""The loader: the packs of each step, made ahead of time by a thread of its own.

The endless stream of pairs is cut into blocks, and each block is packed on its own: finding any place again costs the
packing of one block at most. Every rank plans all packs of a step and builds those whose index leaves its rank as the
rest of a division by the number of ranks, so the world reads the same on any number of ranks.
"""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from queue import Empty, Queue
from types import TracebackType
from typing import Self

import numpy as np

from septuagint.batch import Cursor, Microbatch, StepData
from septuagint.data.dataset import ParallelShards
from septuagint.data.order import EpochOrder
from septuagint.data.packing import PackShape, build_microbatch, iterate_packs
from septuagint.errors import DataError

# The last pack of a block is seldom full: one in about 512. A block is also what a resumed run plans again, so the
# second number keeps that below two seconds. Both decide which pairs meet in a pack: changing them changes every run.
_BLOCK_PACKS = 512
_MAX_BLOCK_PAIRS = 1_000_000
_PAIRS_AT_A_TIME = 1 << 14


def block_pairs(shape: PackShape) -> int:
    """Pairs of a block. The shape has room for a quarter more pairs than a pack is likely to hold."""
    return min(_BLOCK_PACKS * shape.max_pairs * 4 // 5, _MAX_BLOCK_PAIRS)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedPack:
    """The pairs of a pack, its place among the packs, and the place after it."""

    place: Cursor
    next: Cursor
    corpora: np.ndarray
    pairs: np.ndarray
    num_pairs_read: int
    """Since the beginning of block 0, this pack included."""


def plan_blocks(text: ParallelShards, order: EpochOrder, shape: PackShape, block: int) -> Iterator[PlannedPack]:
    """The endless sequence of packs from the first of a block on, each planned in the moment it is asked for."""
    while True:
        yield from _plan_block(text, order, shape, block)
        block += 1


def _plan_block(text: ParallelShards, order: EpochOrder, shape: PackShape, block: int) -> Iterator[PlannedPack]:
    size = block_pairs(shape)
    first = block * size
    corpora, pairs = np.empty((2, size), np.int64)

    def lengths() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for begin in range(0, size, _PAIRS_AT_A_TIME):
            end = min(begin + _PAIRS_AT_A_TIME, size)
            corpora[begin:end], pairs[begin:end] = order.pairs(first + begin, first + end)
            yield text.lengths(corpora[begin:end], pairs[begin:end])

    num_pairs_read = first
    packs = iterate_packs(lengths(), shape)
    number = 0
    pack: np.ndarray | None = next(packs)
    while pack is not None:
        following = next(packs, None)
        num_pairs_read += len(pack)
        yield PlannedPack(
            place=Cursor(block=block, pack=number),
            next=Cursor(block=block + 1) if following is None else Cursor(block=block, pack=number + 1),
            corpora=corpora[pack],
            pairs=pairs[pack],
            num_pairs_read=num_pairs_read,
        )
        number, pack = number + 1, following


class Loader:
    """The steps of one rank from a place on, without end. Used in a `with` statement; leaving it ends the thread."""

    def __init__(
        self,
        text: ParallelShards,
        order: EpochOrder,
        shape: PackShape,
        *,
        num_microbatches: int,
        start: Cursor,
        rank: int = 0,
        world_size: int = 1,
        pin_memory: bool = False,
        prefetch_steps: int = 2,
    ) -> None:
        """`num_microbatches` are those of the whole world in a step; `prefetch_steps` is how many wait at most."""
        assert 0 <= rank < world_size and num_microbatches > 0 and prefetch_steps > 0
        self._text, self._order, self._shape = text, order, shape
        self._num_microbatches = num_microbatches
        self._start = start
        self._rank, self._world_size = rank, world_size
        self._pin_memory = pin_memory
        self._steps: Queue[StepData | BaseException] = Queue(prefetch_steps)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"loader of rank {rank}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_closing.set()
        # The thread may wait for room; with some, it puts one step more at most before it sees that we are closing.
        with contextlib.suppress(Empty):
            while True:
                self._steps.get_nowait()
        self._thread.join()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StepData:
        assert self._thread.ident is not None and not self._is_closing.is_set(), "a loader works in a with statement"
        step = self._steps.get()
        if isinstance(step, BaseException):
            self._steps.put(step)  # the thread has ended, and so has every later call
            raise step
        return step

    def _work(self) -> None:
        try:
            for step in self._make_steps():
                self._steps.put(step)
        except BaseException as error:
            self._steps.put(error)

    def _make_steps(self) -> Iterator[StepData]:
        microbatches: list[Microbatch] = []
        index = 0
        for pack in self._packs():
            if index % self._world_size == self._rank:
                microbatches.append(self._build(pack, index))
            index += 1
            if index == self._num_microbatches:
                epochs = pack.num_pairs_read / self._order.num_pairs
                yield StepData(microbatches=tuple(microbatches), next=pack.next, epochs=epochs)
                microbatches, index = [], 0

    def _packs(self) -> Iterator[PlannedPack]:
        """The packs from the start on, until the loader is closed."""
        start = self._start
        is_there = False
        for pack in plan_blocks(self._text, self._order, self._shape, start.block):
            if self._is_closing.is_set():
                return
            if not is_there and pack.place.block > start.block:
                raise DataError(
                    f"the run stopped before pack {start.pack:,} of block {start.block:,} of its data, but that block "
                    "has fewer: go on with the data folder and the weights that the run was started with"
                )
            is_there = is_there or pack.place == start
            if is_there:
                yield pack

    def _build(self, pack: PlannedPack, index: int) -> Microbatch:
        source, target = self._text.gather(pack.corpora, pack.pairs)
        microbatch = build_microbatch(source, target, self._shape, index)
        return replace(microbatch, batch=microbatch.batch.pin_memory()) if self._pin_memory else microbatch
