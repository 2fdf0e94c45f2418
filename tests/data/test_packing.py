"""Packing keeps every token exactly once, wastes next to nothing, and lays out what the model expects."""

import time
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from septuagint.batch import IGNORE, PackedBatch
from septuagint.data import packing
from septuagint.data.packing import (
    PackShape,
    Totals,
    build_batch,
    evaluation_packs,
    iterate_packs,
    pack_shape,
    plan_packs,
)
from septuagint.data.sentences import Sentences, offsets_of
from septuagint.data.vocabulary import EOS, PAD
from septuagint.errors import DataError

MODEST = settings(max_examples=150, deadline=None)
LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=120)


@st.composite
def shapes(draw, longest: int = 40) -> PackShape:
    return PackShape(
        source_tokens=draw(st.integers(longest, 300)),
        target_tokens=draw(st.integers(longest, 300)),
        max_pairs=draw(st.integers(1, 40)),
        max_length=longest,
    )


def sentences_of(lengths: np.ndarray, first_id: int = 10) -> Sentences:
    """Sentences with ids that tell all tokens apart, but for the EOS at the end."""
    offsets = offsets_of(lengths)
    ids = np.arange(first_id, first_id + offsets[-1])
    ids[offsets[1:] - 1] = EOS
    return Sentences(ids=ids, offsets=offsets)


def split(ids: torch.Tensor, offsets: torch.Tensor) -> list[list[int]]:
    return [ids[start:end].tolist() for start, end in pairwise(offsets)]


def lognormal_lengths(num_pairs: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Correlated lengths as in the WMT text: 26 and 27 tokens on average, cut at 256."""
    generator = np.random.default_rng(seed)
    length = generator.normal(3.05, 0.6, num_pairs)
    sides = [np.exp(length + generator.normal(0, 0.17, num_pairs)) * scale for scale in (1.0, 1.04)]
    return tuple(np.clip(side.astype(np.int64) + 1, 1, 256) for side in sides)


def shape_for(source: np.ndarray, target: np.ndarray, budget: int) -> PackShape:
    return pack_shape(
        budget,
        Totals(
            num_pairs=len(source),
            num_source_tokens=int(source.sum()),
            num_target_tokens=int(target.sum()),
            longest_source=int(source.max()),
            longest_target=int(target.max()),
        ),
    )


class TestPlan:
    @MODEST
    @given(lengths=LENGTHS, shape=shapes())
    def test_every_pair_is_in_one_pack_and_no_pack_is_over_a_budget(self, lengths, shape):
        source, target = np.array(lengths, np.int64).reshape(-1, 2).T
        packs = plan_packs(source, target, shape)
        assert sorted(index for pack in packs for index in pack) == list(range(len(lengths)))
        for pack in packs:
            assert 0 < len(pack) <= shape.max_pairs
            assert source[pack].sum() <= shape.source_tokens
            assert target[pack].sum() <= shape.target_tokens

    @MODEST
    @given(lengths=LENGTHS, shape=shapes(), size=st.integers(1, 50))
    def test_packs_do_not_depend_on_how_the_lengths_arrive(self, lengths, shape, size):
        source, target = np.array(lengths, np.int64).reshape(-1, 2).T
        parts = [(source[start : start + size], target[start : start + size]) for start in range(0, len(source), size)]
        in_parts = [pack.tolist() for pack in iterate_packs(parts, shape)]
        assert in_parts == [pack.tolist() for pack in plan_packs(source, target, shape)]

    def test_neighbours_in_a_pack_have_similar_lengths(self):
        source, target = lognormal_lengths(2000)
        for pack in plan_packs(source, target, shape_for(source, target, 4096)):
            keys = list(zip(target[pack], source[pack], strict=True))
            assert keys == sorted(keys)

    def test_no_pair_waits_for_long(self):
        source, target = lognormal_lengths(20_000)
        shape = shape_for(source, target, 4096)
        for pack in plan_packs(source, target, shape):
            assert pack.max() - pack.min() < 3 * (shape.max_pairs + packing._NUM_HELD)

    @pytest.mark.parametrize(("budget", "least"), [(4096, 0.98), (16384, 0.99)])
    def test_packs_of_a_block_are_full_on_both_sides(self, budget, least):
        source, target = lognormal_lengths(512 * budget // 27)
        shape = shape_for(source, target, budget)
        packs = plan_packs(source, target, shape)
        assert source.sum() / (len(packs) * shape.source_tokens) > least
        assert target.sum() / (len(packs) * shape.target_tokens) > least

    def test_planning_keeps_up_with_a_fast_gpu(self):
        source, target = lognormal_lengths(60_000)
        start = time.process_time()
        plan_packs(source, target, shape_for(source, target, 8192))
        assert 60_000 / (time.process_time() - start) > 100_000  # 0.9 million a second when nothing else runs


class TestShape:
    TOTALS = Totals(
        num_pairs=1000, num_source_tokens=20_000, num_target_tokens=25_000, longest_source=100, longest_target=110
    )

    def test_the_source_budget_follows_from_the_text(self):
        shape = pack_shape(4096, self.TOTALS)
        assert (shape.source_tokens, shape.target_tokens) == (3280, 4096)  # 4096 * 20 / 25, up to a multiple of 8
        assert shape.max_pairs == 205 + 8  # a quarter more than 4096 / 25
        assert shape.max_length == 110
        assert shape.num_slots == 213 + 38

    def test_a_budget_below_the_longest_sentence_is_refused_with_the_least_that_works(self):
        with pytest.raises(DataError, match=r"training.microbatch_tokens = 64 .* 110 and 100; set it to 121 or more"):
            pack_shape(64, self.TOTALS)

    @MODEST
    @given(
        tokens=st.tuples(st.integers(100, 10**9), st.integers(100, 10**9)),
        longest=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    )
    def test_the_least_budget_that_a_message_names_is_the_least(self, tokens, longest):
        totals = Totals(
            num_pairs=100,
            num_source_tokens=tokens[0],
            num_target_tokens=tokens[1],
            longest_source=longest[0],
            longest_target=longest[1],
        )
        with pytest.raises(DataError) as error:
            pack_shape(0, totals)
        least = int(str(error.value).split("set it to ")[1].split()[0])
        shape = pack_shape(least, totals)
        assert shape.source_tokens >= longest[0] and shape.target_tokens >= longest[1]
        with pytest.raises(DataError):
            pack_shape(least - 1, totals)


class TestBatch:
    @MODEST
    @given(data=st.data(), shape=shapes(longest=12))
    def test_a_batch_holds_every_token_of_its_pairs_once(self, data, shape):
        lengths = data.draw(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60))
        source_lengths, target_lengths = np.array(lengths, np.int64).T
        source, target = sentences_of(source_lengths), sentences_of(target_lengths, 10_000)
        sources, targets = split(source.ids, source.offsets), split(target.ids, target.offsets)
        for pack in plan_packs(source_lengths, target_lengths, shape):
            batch = build_batch(source.take(pack), target.take(pack), shape)
            assert_layout(batch, shape)
            labels = split(batch.labels_T, batch.target_offsets)
            assert split(batch.source_ids_S, batch.source_offsets)[: len(pack)] == [sources[index] for index in pack]
            assert labels[: len(pack)] == [targets[index] for index in pack]
            read = split(batch.target_ids_T, batch.target_offsets)
            assert read[: len(pack)] == [[EOS, *targets[index][:-1]] for index in pack]
            for rest, value in ((split(batch.source_ids_S, batch.source_offsets), PAD), (read, PAD), (labels, IGNORE)):
                assert all(token == value for sentence in rest[len(pack) :] for token in sentence)

    def test_an_unused_tail_becomes_sentences_no_longer_than_the_longest(self):
        shape = PackShape(source_tokens=64, target_tokens=50, max_pairs=4, max_length=12)
        pair = np.array([5, 7])
        batch = build_batch(sentences_of(pair), sentences_of(pair), shape)
        assert batch.source_offsets.tolist() == [0, 5, 12, 24, 36, 48, 60, 64, 64, 64, 64]
        assert batch.target_offsets.tolist() == [0, 5, 12, 24, 36, 48, 50, 50, 50, 50, 50]


def assert_layout(batch: PackedBatch, shape: PackShape) -> None:
    assert batch.source_ids_S.shape == (shape.source_tokens,)
    assert batch.target_ids_T.shape == batch.labels_T.shape == (shape.target_tokens,)
    assert batch.source_ids_S.dtype == batch.target_ids_T.dtype == batch.labels_T.dtype == torch.int64
    for offsets, budget in (
        (batch.source_offsets, shape.source_tokens),
        (batch.target_offsets, shape.target_tokens),
    ):
        assert offsets.dtype == torch.int32 and offsets.shape == (shape.num_slots + 1,)
        assert offsets[0] == 0 and offsets[-1] == budget
        lengths = offsets.diff()
        assert lengths.min() >= 0 and lengths.max() <= shape.max_length


class TestEvaluation:
    SHAPE = PackShape(source_tokens=64, target_tokens=72, max_pairs=8, max_length=20)

    def sentence_sets(self, num_pairs: int, longest: int) -> tuple[Sentences, Sentences]:
        generator = np.random.default_rng(1)
        lengths = generator.integers(1, longest + 1, (2, num_pairs))
        return sentences_of(lengths[0]), sentences_of(lengths[1], 10_000)

    def test_packs_do_not_depend_on_the_order_of_the_pairs(self):
        source, target = self.sentence_sets(80, 20)
        shuffled = np.random.default_rng(2).permutation(80)
        packs = evaluation_packs(source, target, self.SHAPE)
        others = evaluation_packs(source.take(shuffled), target.take(shuffled), self.SHAPE)
        assert [pack.index for pack in packs] == list(range(len(others)))
        for pack, other in zip(packs, others, strict=True):
            assert torch.equal(pack.batch.source_ids_S, other.batch.source_ids_S)
            assert torch.equal(pack.batch.target_ids_T, other.batch.target_ids_T)
            assert torch.equal(pack.batch.target_offsets, other.batch.target_offsets)

    def test_every_pair_is_there_and_counted(self):
        source, target = self.sentence_sets(80, 20)
        packs = evaluation_packs(source, target, self.SHAPE)
        assert sum(pack.num_pairs for pack in packs) == 80
        assert sum(pack.num_source_tokens for pack in packs) == len(source.ids)
        assert sum(pack.num_target_tokens for pack in packs) == len(target.ids)
        labels = torch.cat([pack.batch.labels_T for pack in packs])
        assert sorted(labels[labels != IGNORE].tolist()) == sorted(target.ids.tolist())

    def test_a_pair_that_is_too_long_makes_the_packs_larger(self):
        source, target = self.sentence_sets(30, 100)
        packs = evaluation_packs(source, target, self.SHAPE)
        assert sum(pack.num_pairs for pack in packs) == 30
        longest = max(np.diff(source.offsets).max(), np.diff(target.offsets).max())
        for pack in packs:
            assert pack.batch.source_offsets.diff().max() <= longest
            assert pack.batch.source_offsets[-1] == len(pack.batch.source_ids_S) >= 64

    def test_an_empty_set_gives_no_packs(self):
        nothing = sentences_of(np.zeros(0, np.int64))
        assert evaluation_packs(nothing, nothing, self.SHAPE) == []
