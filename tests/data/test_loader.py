"""The loader gives the world the same steps on any number of ranks and from any place, and leaves no thread behind."""

import hashlib
import threading
import time
from itertools import islice, pairwise

import numpy as np
import pytest
import torch

from septuagint.batch import IGNORE, Cursor, Microbatch, PackedBatch, StepData
from septuagint.config_file import load_config
from septuagint.data import loader as loaders
from septuagint.data.dataset import ParallelShards, open_dataset
from septuagint.data.loader import Loader, block_pairs, plan_blocks
from septuagint.data.order import EpochOrder
from septuagint.data.packing import PackShape, pack_shape
from septuagint.data.sentences import Sentences, offsets_of
from septuagint.data.vocabulary import EOS
from septuagint.errors import DataError
from septuagint.progress import ProgressReport

SIZES = (300, 70)
SHAPE = PackShape(source_tokens=120, target_tokens=128, max_pairs=20, max_length=20)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 320 pairs, some thirty packs, so that a few steps see several."""
    monkeypatch.setattr(loaders, "_BLOCK_PACKS", 20)
    monkeypatch.setattr(loaders, "_PAIRS_AT_A_TIME", 64)


def invented_shard(num_sentences: int, first_id: int, seed: int) -> Sentences:
    """Sentences whose ids tell all tokens of a side apart, but for the EOS at the end."""
    offsets = offsets_of(2 + np.arange(num_sentences) * (7 + 2 * seed) ** 3 // 5 % 19)
    ids = np.arange(first_id, first_id + offsets[-1]).astype("<u2")
    ids[offsets[1:] - 1] = EOS
    return Sentences(ids=ids, offsets=offsets)


TEXT = ParallelShards(
    sources=(invented_shard(SIZES[0], 10, 1), invented_shard(SIZES[1], 10_000, 2)),
    targets=(invented_shard(SIZES[0], 10, 3), invented_shard(SIZES[1], 10_000, 4)),
)
ORDER = EpochOrder(SIZES, (1.0, 2.5), seed=1)


def read_steps(num_steps: int, *, num_microbatches: int = 4, start: Cursor | None = None, **options) -> list[StepData]:
    with Loader(TEXT, ORDER, SHAPE, num_microbatches=num_microbatches, start=start or Cursor(), **options) as loader:
        return list(islice(loader, num_steps))


def content(microbatch: Microbatch) -> tuple[int, bytes]:
    batch = microbatch.batch
    return microbatch.index, batch.source_ids_S.numpy().tobytes() + batch.labels_T.numpy().tobytes()


def pairs_of(batch: PackedBatch) -> list[tuple[bytes, bytes]]:
    """The pairs of a batch as raw ids."""
    pairs = []
    spans = zip(pairwise(batch.source_offsets.tolist()), pairwise(batch.target_offsets.tolist()), strict=True)
    for (source_start, source_end), (target_start, target_end) in spans:
        labels = batch.labels_T[target_start:target_end]
        if len(labels) and labels[0] != IGNORE:
            source = batch.source_ids_S[source_start:source_end]
            pairs.append((source.numpy().astype("<u2").tobytes(), labels.numpy().astype("<u2").tobytes()))
    return pairs


def test_the_packs_of_a_block_hold_its_stretch_of_the_stream_token_by_token():
    size = block_pairs(SHAPE)
    found: list[tuple[bytes, bytes]] = []
    with Loader(TEXT, ORDER, SHAPE, num_microbatches=1, start=Cursor(block=2)) as loader:
        for step in loader:
            found += pairs_of(step.microbatches[0].batch)
            if step.next.block == 3:
                break
    expected = [
        (TEXT.sources[corpus][pair].tobytes(), TEXT.targets[corpus][pair].tobytes())
        for corpus, pair in zip(*ORDER.pairs(2 * size, 3 * size), strict=True)
    ]
    assert sorted(found) == sorted(expected)
    assert step.next == Cursor(block=3, pack=0)
    assert step.epochs == pytest.approx(3 * size / ORDER.num_pairs)


def test_the_host_knows_what_is_in_a_microbatch():
    for microbatch in read_steps(1)[0].microbatches:
        assert microbatch.num_pairs == len(pairs_of(microbatch.batch))
        assert microbatch.num_target_tokens == (microbatch.batch.labels_T != IGNORE).sum()
        lengths = microbatch.batch.source_offsets.diff()[: microbatch.num_pairs]
        assert microbatch.num_source_tokens == lengths.sum()
        assert microbatch.batch.source_offsets.shape == (SHAPE.num_slots + 1,)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_the_world_reads_the_same_on_any_number_of_ranks(world_size):
    alone = read_steps(20, num_microbatches=6)
    ranks = [read_steps(20, num_microbatches=6, rank=rank, world_size=world_size) for rank in range(world_size)]
    for step, *parts in zip(alone, *ranks, strict=True):
        assert {part.next for part in parts} == {step.next}
        assert {part.epochs for part in parts} == {step.epochs}
        for rank, part in enumerate(parts):
            assert [microbatch.index % world_size for microbatch in part.microbatches] == [rank] * len(
                part.microbatches
            )
        together = [content(microbatch) for part in parts for microbatch in part.microbatches]
        assert sorted(together) == [content(microbatch) for microbatch in step.microbatches]


def test_reading_from_any_place_equals_reading_from_the_start():
    steps = read_steps(40)
    assert steps[-1].next.block >= 3, "the steps must cross the borders of blocks"
    for number in (0, 1, 6, 7, 8, 17, 30):
        rest = read_steps(5, start=steps[number].next)
        for step, expected in zip(rest, steps[number + 1 :], strict=False):
            assert (step.next, step.epochs) == (expected.next, expected.epochs)
            assert [content(each) for each in step.microbatches] == [content(each) for each in expected.microbatches]


def test_a_far_place_is_found_with_the_work_of_a_near_one():
    class Counting(EpochOrder):
        num_asked = 0

        def pairs(self, start, stop):
            self.num_asked += stop - start
            return super().pairs(start, stop)

    for block in (0, 10**9):
        order = Counting(SIZES, (1.0, 2.5), seed=1)
        packs = list(islice(plan_blocks(TEXT, order, SHAPE, block), 10))
        assert packs[-1].place == Cursor(block=block, pack=9)
        assert order.num_asked <= block_pairs(SHAPE)


def test_a_small_corpus_goes_round_many_times_in_a_block():
    text = ParallelShards(sources=(invented_shard(3, 10, 1),), targets=(invented_shard(3, 10, 2),))
    order = EpochOrder([3], [1.0], seed=1)
    with Loader(text, order, SHAPE, num_microbatches=2, start=Cursor()) as loader:
        steps = list(islice(loader, 10))
    num_pairs = sum(microbatch.num_pairs for step in steps for microbatch in step.microbatches)
    assert steps[-1].epochs == pytest.approx(num_pairs / 3) and num_pairs > 100


def test_a_block_is_some_hundred_packs_but_never_long_to_plan(monkeypatch):
    monkeypatch.setattr(loaders, "_BLOCK_PACKS", 512)
    for budget, pairs in ((4096, 256 * 512), (10**6, 10**6)):
        shape = PackShape(source_tokens=budget, target_tokens=budget, max_pairs=budget * 5 // 64, max_length=100)
        assert block_pairs(shape) == pytest.approx(pairs, rel=0.01)


def test_the_packs_never_change():
    """A run that was begun with an older version goes on with this one."""
    digest = hashlib.sha256()
    for step in read_steps(20):
        for microbatch in step.microbatches:
            digest.update(content(microbatch)[1])
    assert digest.hexdigest()[:16] == "b80d4d33cf7e9cb2"


def test_a_prepared_folder_is_read_to_the_last_token(project):
    project.add_text("one", 150, seed=1)
    project.add_text("two", 40, seed=2)
    project.add_text("check", 10, seed=3, split="valid")
    project.prepare()
    dataset = open_dataset(load_config(project.config_path).data, ProgressReport(is_quiet=True))
    shape = pack_shape(512, dataset.totals())
    order = dataset.order(seed=1)
    num_tokens = 0
    with Loader(dataset.train, order, shape, num_microbatches=1, start=Cursor()) as loader:
        for step in loader:
            num_tokens += step.microbatches[0].num_target_tokens
            if step.next.block:
                break
    _, lengths = dataset.train.lengths(*order.pairs(0, block_pairs(shape)))
    assert num_tokens == lengths.sum()


class TestThread:
    def names(self) -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("loader")]

    def test_the_thread_has_a_name_and_ends_with_the_context(self):
        with Loader(TEXT, ORDER, SHAPE, num_microbatches=2, start=Cursor(), rank=1, world_size=2) as loader:
            next(loader)
            assert self.names() == ["loader of rank 1"]
        assert self.names() == []

    @pytest.mark.parametrize("prefetch_steps", [1, 3])
    def test_it_ends_promptly_when_nobody_reads(self, prefetch_steps):
        loader = Loader(TEXT, ORDER, SHAPE, num_microbatches=1, start=Cursor(), prefetch_steps=prefetch_steps)
        with loader:
            while not loader._steps.full():
                time.sleep(0.001)
            time.sleep(0.02)  # it waits for room now
            assert loader._steps.qsize() == prefetch_steps
            start = time.monotonic()
        assert time.monotonic() - start < 1
        assert self.names() == []

    def test_it_ends_promptly_while_it_looks_for_its_place(self, monkeypatch):
        monkeypatch.setattr(loaders, "_BLOCK_PACKS", 100_000)
        start = time.monotonic()
        with Loader(TEXT, ORDER, SHAPE, num_microbatches=1, start=Cursor(pack=90_000)):
            pass
        assert time.monotonic() - start < 1

    def test_an_error_of_the_consumer_ends_it(self):
        with pytest.raises(KeyError), Loader(TEXT, ORDER, SHAPE, num_microbatches=1, start=Cursor()):
            raise KeyError
        assert self.names() == []

    def test_an_error_in_the_thread_is_raised_where_the_steps_are_read(self):
        too_long = EpochOrder([10_000, 70], (1.0, 1.0), seed=1)
        with Loader(TEXT, too_long, SHAPE, num_microbatches=1, start=Cursor(), prefetch_steps=1) as loader:
            for _ in range(2):
                with pytest.raises(IndexError, match="out of bounds"):
                    next(loader)
        assert self.names() == []

    def test_a_place_that_does_not_exist_is_refused_with_the_cure(self):
        with pytest.raises(DataError, match=r"before pack 5,000 of block 7.*data folder and the weights"):
            read_steps(1, start=Cursor(block=7, pack=5000))

    def test_batches_are_pinned_where_it_is_asked_for(self, monkeypatch):
        pinned: list[PackedBatch] = []

        def pin_memory(batch: PackedBatch) -> PackedBatch:
            pinned.append(batch)
            return batch

        monkeypatch.setattr(PackedBatch, "pin_memory", pin_memory)  # real pinned memory needs a GPU
        (step,) = read_steps(1, pin_memory=True)
        assert [microbatch.batch for microbatch in step.microbatches] == pinned[: len(step.microbatches)]
        assert isinstance(pinned[0].labels_T, torch.Tensor)
