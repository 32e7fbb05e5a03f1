"""Long work in steps, so that whoever drives it can do other things in between.

The core knows no clock: it offers places to pause, and the caller decides which of them to use.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from muster_core.decisions import Decision

R = TypeVar("R")
T = TypeVar("T")

Steps = Generator[None, None, R]
"""Work that may be paused wherever it yields, and what comes of it."""

SIZE: Final = 64
"""How much is done in a step where it is of many small things that are alike."""


def all_at_once(steps: Steps[R]) -> R:
    """Do all steps without a pause, and give what comes of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: R = end.value
            return value


def in_pieces(things: Iterable[T]) -> Iterator[list[T]]:
    """Give things in lists of at most :data:`SIZE`, in order."""
    iterator = iter(things)
    while piece := list(islice(iterator, SIZE)):
        yield piece


def in_pauses(steps: Steps[R]) -> Generator[list[Decision], None, R]:
    """Do steps among those of rounds, which give decisions: in a pause there are none."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: R = end.value
            return value
        yield []
