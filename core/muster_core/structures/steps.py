"""Long work in steps, so that whoever drives it can do other things in between.

The core knows no clock: it offers places to pause, and the caller decides which of them to use.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

R = TypeVar("R")
T = TypeVar("T")

Steps = Generator[None, None, R]
"""Work that may be paused wherever it yields, and what comes of it."""

PART: Final = 1024
"""How much is done in a step of what takes next to nothing for each."""

SIZE: Final = 64
"""How much is done in a step where it is of many small things that are alike."""


@final
class Driven(Generic[R]):
    """Steps that a loop takes one by one; afterwards it has what came of them.

    Args:
        steps: The steps.
    """

    __slots__ = ("_steps", "value")

    def __init__(self, steps: Steps[R]) -> None:
        self._steps = steps
        #: What came of them, when they have all been taken.
        self.value: R

    def __iter__(self) -> Iterator[None]:
        """Take the steps."""
        self.value = yield from self._steps


def all_at_once(steps: Steps[R]) -> R:
    """Do all steps without a pause, and give what comes of them."""
    driven = Driven(steps)
    for _ in driven:
        pass
    return driven.value


def in_pieces(things: Iterable[T]) -> Iterator[list[T]]:
    """Give things in lists of at most :data:`SIZE`, in order."""
    iterator = iter(things)
    while piece := list(islice(iterator, SIZE)):
        yield piece


def in_order(things: Iterable[T], key: Callable[[T], SupportsRichComparison]) -> Steps[list[T]]:
    """Sort things, however many there are.

    Args:
        things: The things.
        key: What they are sorted by.
    """
    iterator, runs = iter(things), list[list[T]]()
    while run := list(islice(iterator, PART)):
        yield
        runs.append(sorted(run, key=key))
    found: list[T] = []
    for piece in in_pieces(merge(*runs, key=key)):
        yield
        found += piece
    return found
