"""Spaces of meanings: values that can be counted, listed and drawn without ever being held in memory together.

A space is built from smaller ones by choice (`any_of`) and combination (`product`), so that its size is a sum or a
product of theirs. `draw` is even at every choice rather than over the whole: a branch with a million meanings is drawn
as often as its neighbour with ten, which is how every word of the lexicon comes up regularly.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product as all_combinations
from random import Random
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Space(Generic[T]):
    """A finite number of values: how many, how to draw one, and how to list them all."""

    size: int
    draw: Callable[[Random], T]
    items: Callable[[], Iterator[T]]


def pick(random: Random, num_choices: int) -> int:
    """An even index. Python promises that `random()` never changes; it does not promise so for `choice`."""
    return int(random.random() * num_choices)


def one_of(values: Sequence[T]) -> Space[T]:
    fixed = tuple(values)
    assert fixed, "a space cannot be empty"
    return Space(len(fixed), lambda random: fixed[pick(random, len(fixed))], lambda: iter(fixed))


def any_of(*spaces: Space[T]) -> Space[T]:
    """A value of any one of the spaces, which must have no value in common."""
    return weighted(*((1, space) for space in spaces))


def weighted(*choices: tuple[int, Space[T]]) -> Space[T]:
    """Like `any_of`, with each space drawn in proportion to its weight."""
    spaces = tuple(space for _, space in choices)
    tickets = tuple(space for weight, space in choices for _ in range(weight))

    def items() -> Iterator[T]:
        for space in spaces:
            yield from space.items()

    return Space(
        sum(space.size for space in spaces),
        lambda random: tickets[pick(random, len(tickets))].draw(random),
        items,
    )


@overload
def product(build: Callable[[A], T], a: Space[A], /) -> Space[T]: ...
@overload
def product(build: Callable[[A, B], T], a: Space[A], b: Space[B], /) -> Space[T]: ...
@overload
def product(build: Callable[[A, B, C], T], a: Space[A], b: Space[B], c: Space[C], /) -> Space[T]: ...
@overload
def product(build: Callable[[A, B, C, D], T], a: Space[A], b: Space[B], c: Space[C], d: Space[D], /) -> Space[T]: ...
@overload
def product(
    build: Callable[[A, B, C, D, E], T], a: Space[A], b: Space[B], c: Space[C], d: Space[D], e: Space[E], /
) -> Space[T]: ...
@overload
def product(
    build: Callable[[A, B, C, D, E, F], T],
    a: Space[A],
    b: Space[B],
    c: Space[C],
    d: Space[D],
    e: Space[E],
    f: Space[F],
    /,
) -> Space[T]: ...
def product(build: Callable[..., T], /, *spaces: Space[Any]) -> Space[T]:
    """Every combination of one value from each space. `build` must give different results for different arguments."""
    size = 1
    for space in spaces:
        size *= space.size

    def items() -> Iterator[T]:
        for values in all_combinations(*(tuple(space.items()) for space in spaces)):
            yield build(*values)

    return Space(size, lambda random: build(*(space.draw(random) for space in spaces)), items)
