"""Long work in steps, so that its caller can do other work in between.

The core knows no clock: it offers places to pause, and the caller decides which of them to use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

R = TypeVar("R")
T = TypeVar("T")

Steps = Generator[None, None, R]
"""Work that can pause where it yields, and that returns a result."""

PART: Final = 1024
"""How many items a step handles if one takes almost no time."""

SIZE: Final = 64
"""How many items a step handles if one takes a little time."""


def all_at_once(steps: Steps[R]) -> R:
    """Run all steps without a pause, and return their result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return cast("R", end.value)


def in_pieces(items: Iterable[T], size: int = SIZE) -> Iterator[list[T]]:
    """Yield items in lists of at most ``size``, in order."""
    iterator = iter(items)
    while piece := list(islice(iterator, size)):
        yield piece


def taken(items: deque[T]) -> Iterator[list[T]]:
    """Remove items from a queue, and yield them in lists of at most :data:`SIZE`, in order.

    So the queue is freed in pieces as well: to free a list of a hundred thousand items takes
    milliseconds, even if each item has other users.
    """
    while len(items) > SIZE:
        yield [items.popleft() for _ in range(SIZE)]
    if items:
        rest = list(items)
        items.clear()
        yield rest


def freed(*collections: dict[Any, Any] | list[Any]) -> Steps[None]:
    """Empty maps and lists in steps, because freeing many objects at once takes long."""
    for items in collections:
        while items:
            yield
            if isinstance(items, list):
                del items[-SIZE:]
            else:
                for _ in range(min(SIZE, len(items))):
                    items.popitem()


def in_order(items: Iterable[T], key: Callable[[T], SupportsRichComparison]) -> Steps[list[T]]:
    """Sort any number of items in steps."""
    iterator = iter(items)
    runs: list[list[T]] = []
    while len(run := sorted(islice(iterator, PART), key=key)) == PART:
        runs.append(run)
        yield
    if not runs:
        return run
    found: list[T] = []
    for piece in in_pieces(merge(*runs, run, key=key)):
        yield
        found += piece
    return found
