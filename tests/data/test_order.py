"""The order of pairs is a pure function: each pair as often as it should be, in an order that looks random."""

import hashlib
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from septuagint.data.order import EpochOrder, copies_per_epoch, key_of, permute, sample_pairs

MODEST = settings(max_examples=100, deadline=None)


def epoch_counts(order: EpochOrder, epoch: int) -> Counter[tuple[int, int]]:
    corpora, pairs = order.pairs(epoch * order.num_pairs, (epoch + 1) * order.num_pairs)
    return Counter(zip(corpora.tolist(), pairs.tolist(), strict=True))


@MODEST
@given(size=st.integers(1, 3000), seed=st.integers(0, 2**70))
def test_a_permutation_takes_each_place_once(size, seed):
    places = permute(np.arange(size, dtype=np.uint64), size, key_of(seed, "test"))
    assert np.array_equal(np.sort(places), np.arange(size))


def test_a_permutation_of_more_than_memory_holds_can_be_asked_anywhere():
    indices = np.arange(10**15 - 1000, 10**15, dtype=np.uint64)
    places = permute(indices, 10**15, key_of(1, "test"))
    assert len(np.unique(places)) == 1000 and places.max() < 10**15


def test_all_orders_of_five_pairs_are_equally_likely():
    order = EpochOrder([5], [1], seed=3)
    _, pairs = order.pairs(0, 5 * 24_000)
    counts = Counter(map(tuple, pairs.reshape(-1, 5).tolist()))
    chi_squared = sum((counts[each] - 200) ** 2 / 200 for each in permutations(range(5)))
    assert 70 < chi_squared < 180  # 119 degrees of freedom: outside once in 2,000 seeds


def test_places_and_neighbours_of_many_pairs_are_uniform():
    size, num_epochs = 97, 8000
    _, pairs = EpochOrder([size], [1], seed=5).pairs(0, size * num_epochs)
    epochs = pairs.reshape(num_epochs, size)
    for column in (0, 50, 96):
        expected = num_epochs / size
        chi_squared = ((np.bincount(epochs[:, column], minlength=size) - expected) ** 2 / expected).sum()
        assert 50 < chi_squared < 155  # 96 degrees of freedom
    for before, after in ((0, 1), (50, 96)):
        # Independent but for being different, which moves the correlation by one hundredth.
        assert abs(np.corrcoef(epochs[:, before], epochs[:, after])[0, 1]) < 0.05


@MODEST
@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any), seed=st.integers(0, 99))
def test_an_epoch_holds_every_pair_once(sizes, seed):
    order = EpochOrder(sizes, [1.0] * len(sizes), seed)
    everything = {(corpus, pair): 1 for corpus, size in enumerate(sizes) for pair in range(size)}
    for epoch in (0, 1, 10**9):
        assert epoch_counts(order, epoch) == everything


def test_a_weight_is_the_expected_number_of_copies():
    sizes, weights = [30, 20, 10, 40], [0.0, 0.5, 1.0, 2.3]
    order = EpochOrder(sizes, weights, seed=1)
    assert order.num_pairs == 0 + 10 + 10 + 92
    total: Counter[tuple[int, int]] = Counter()
    for epoch in range(400):
        counts = epoch_counts(order, epoch)
        total += counts
        by_corpus = [sorted(counts[corpus, pair] for pair in range(size)) for corpus, size in enumerate(sizes)]
        assert by_corpus == [[0] * 30, [0] * 10 + [1] * 10, [1] * 10, [2] * 28 + [3] * 12]
    for corpus, weight in enumerate(weights):
        for pair in range(sizes[corpus]):
            assert abs(total[corpus, pair] / 400 - weight) < 0.12  # 4.5 standard deviations


def test_a_small_corpus_with_a_small_weight_does_not_vanish():
    assert copies_per_epoch(30, 0.001) == 1
    assert copies_per_epoch(30, 0.0) == copies_per_epoch(0, 1.0) == 0


@MODEST
@given(start=st.integers(0, 10**15), length=st.integers(0, 300), cut=st.integers(0, 300))
def test_a_stretch_of_the_stream_does_not_depend_on_how_it_is_asked_for(start, length, cut):
    order = EpochOrder([7, 60], [2.3, 0.5], seed=2)
    whole = np.stack(order.pairs(start, start + length))
    middle = start + min(cut, length)
    parts = [np.stack(order.pairs(start, middle)), np.stack(order.pairs(middle, start + length))]
    assert np.array_equal(whole, np.concatenate(parts, axis=1))


def test_epochs_and_seeds_differ():
    first, again, other = (EpochOrder([50], [1], seed) for seed in (1, 1, 2))
    assert np.array_equal(first.pairs(0, 500), again.pairs(0, 500))
    orders = {tuple(order.pairs(50 * epoch, 50 * epoch + 50)[1]) for order in (first, other) for epoch in range(10)}
    assert len(orders) == 20


def test_the_order_never_changes():
    """A run that was begun with an older version goes on with this one."""
    corpora, pairs = EpochOrder([1000, 300, 7], [1, 0.4, 2.5], seed=1).pairs(0, 20_000)
    digest = hashlib.sha256(corpora.astype("<i8").tobytes() + pairs.astype("<i8").tobytes()).hexdigest()
    assert digest[:16] == "1c1f1393bf3fa153"


@MODEST
@given(
    corpora=st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from([0.0, 0.01, 0.5, 1.0, 7.0])), min_size=1, max_size=4
    ),
    num_pairs=st.integers(0, 120),
)
@example(corpora=[(3, 0.01), (9, 0.5), (19, 0.5), (3, 0.01)], num_pairs=33)  # rounding gives a corpus one too many
def test_a_sample_is_distinct_and_as_large_as_it_can_be(corpora, num_pairs):
    sizes, weights = zip(*corpora, strict=True)
    sample = list(zip(*(part.tolist() for part in sample_pairs(sizes, weights, num_pairs, seed=1)), strict=True))
    assert len(set(sample)) == len(sample)
    assert len(sample) == min(num_pairs, sum(size for size, weight in corpora if weight))
    assert all(weights[corpus] > 0 and 0 <= pair < sizes[corpus] for corpus, pair in sample)


@pytest.mark.parametrize(
    ("num_pairs", "expected"), [(100, [80, 10, 10, 0]), (1100, [800, 100, 200, 0]), (5000, [800, 100, 400, 0])]
)
def test_a_sample_takes_of_each_corpus_its_share(num_pairs, expected):
    corpora, _ = sample_pairs([800, 100, 400, 50], [1.0, 1.0, 0.25, 0.0], num_pairs, seed=1)
    assert np.bincount(corpora, minlength=4).tolist() == expected


def test_a_sample_is_a_function_of_its_seed():
    def sample(seed: int) -> list[int]:
        return sample_pairs([1000], [1.0], 50, seed)[1].tolist()

    assert sample(1) == sample(1) != sample(2)
