"""The queue for slots: everyone gets a turn, in order, with pages that nobody else has."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from septuagint.inference.slot_queue import SlotQueue

MOST_PAGES = 4


def make_queue(num_slots, num_pages):
    return SlotQueue(
        num_slots=num_slots,
        num_sentences=30,
        num_pages=num_pages,
        most_pages=MOST_PAGES,
        device=torch.device("cpu"),
    )


def pages_of(queue, slot):
    return [page for page in queue.pages_BX[slot].tolist() if page]


@given(
    num_slots=st.integers(1, 6),
    num_pages=st.integers(MOST_PAGES, 12),
    texts=st.lists(st.lists(st.integers(1, MOST_PAGES), min_size=1, max_size=30), min_size=1, max_size=3),
    seed=st.integers(0, 100),
)
def test_everyone_comes_in_order_and_goes_once_with_pages_of_their_own(num_slots, num_pages, texts, seed):
    queue, generator = make_queue(num_slots, num_pages), np.random.default_rng(seed)
    for needs in texts:
        queue.fill(np.array(needs))
        came, went = [], []
        for _ in range(100 * len(needs)):
            is_done = torch.from_numpy(generator.random(num_slots) < 0.5)
            went += [sentence for sentence in queue.leave(is_done).tolist() if sentence != queue.nobody]
            comes = queue.enter().nonzero().flatten().tolist()
            came += queue.sentences_B[comes].tolist()
            inside = [slot for slot in range(num_slots) if queue.sentences_B[slot] != queue.nobody]
            taken = [page for slot in range(num_slots) for page in pages_of(queue, slot)]
            assert len(set(taken)) == len(taken) <= num_pages
            assert all(1 <= page <= num_pages for page in taken)
            for slot in range(num_slots):
                sentence = int(queue.sentences_B[slot])
                assert len(pages_of(queue, slot)) == (needs[sentence] if slot in inside else 0)
            assert int(queue.num_left) == len(went)
            # Nobody waits without a reason.
            if len(came) < len(needs) and len(inside) < num_slots:
                assert needs[len(came)] > num_pages - len(taken)
            if len(went) == len(needs):
                break
        assert came == list(range(len(needs)))
        assert sorted(went) == came


def test_who_is_not_done_stays():
    queue = make_queue(3, 12)
    queue.fill(np.array([2, 1, 3, 4]))
    assert queue.enter().tolist() == [True] * 3
    pages = queue.pages_BX.clone()
    assert queue.leave(torch.tensor([False, True, False])).tolist() == [queue.nobody, 1, queue.nobody]
    assert queue.enter().tolist() == [False, True, False]
    assert queue.sentences_B.tolist() == [0, 3, 2]
    assert torch.equal(queue.pages_BX[[0, 2]], pages[[0, 2]])


def test_an_empty_slot_has_nobody_who_could_leave():
    queue = make_queue(2, 4)
    assert queue.leave(torch.tensor([True, True])).tolist() == [queue.nobody] * 2
    assert not queue.enter().any()
    assert int(queue.num_left) == 0


def test_there_must_be_pages_for_the_longest():
    with pytest.raises(AssertionError):
        make_queue(2, MOST_PAGES - 1)
