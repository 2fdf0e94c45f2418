"""Spaces: the size is the number of items, and draws reach all of them evenly."""

from collections import Counter
from random import Random

from septuagint.data.demo.spaces import any_of, one_of, pick, product, weighted


def test_size_is_the_number_of_items():
    letters = one_of("abc")
    words = product(lambda first, second: first + second, letters, any_of(letters, one_of("xy")))
    assert words.size == 15
    assert sorted(words.items()) == sorted(a + b for a in "abc" for b in "abcxy")


def test_draws_reach_every_item_and_nothing_else():
    space = product(lambda letter, digit: f"{letter}{digit}", any_of(one_of("ab"), one_of("c")), one_of(range(3)))
    random = Random(5)
    assert {space.draw(random) for _ in range(500)} == set(space.items())


def test_choice_is_even_between_branches_of_unequal_size():
    space = any_of(one_of("a"), one_of(range(1000)))
    random = Random(5)
    counts = Counter(space.draw(random) == "a" for _ in range(2000))
    assert 900 < counts[True] < 1100


def test_weights_change_draws_but_not_the_size():
    space = weighted((3, one_of("a")), (1, one_of("b")))
    random = Random(5)
    counts = Counter(space.draw(random) for _ in range(4000))
    assert space.size == 2
    assert 2800 < counts["a"] < 3200


def test_pick_stays_below_the_number_of_choices():
    random = Random(1)
    assert {pick(random, 3) for _ in range(100)} == {0, 1, 2}
