"""Deadlines in order, of which those that no longer apply are removed from time to time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster_core.structures.steps import Steps

E = TypeVar("E", bound=tuple[object, ...])

_KEPT: Final = 64
"""How many deadlines are kept before those that no longer apply are removed."""


class Deadlines(Generic[E]):
    """Deadlines in order, each a tuple that begins with its instant.

    A deadline that no longer applies is removed when it is the first, or when there are twice as
    many deadlines as the last such removal left. So there are never many more than twice as
    many as apply, however distant they are.

    Args:
        stands: Returns whether a deadline still applies; called between two batches.
    """

    __slots__ = ("_heap", "_limit", "_stands")

    def __init__(self, stands: Callable[[E], bool]) -> None:
        self._stands = stands
        self._heap: list[E] = []
        self._limit = _KEPT

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: E) -> None:
        """Add a deadline."""
        heappush(self._heap, deadline)

    def first(self) -> E | None:
        """Return the first deadline that applies, or None; call it between two batches."""
        heap = self._heap
        while heap and not self._stands(heap[0]):
            heappop(heap)
        return heap[0] if heap else None

    def tidy(self) -> Steps[None]:
        """Remove deadlines that no longer apply, if there are many; call it after a batch."""
        if len(self._heap) > self._limit:
            yield from self._tidy()

    def _tidy(self) -> Steps[None]:
        kept: list[E] = []
        for piece in in_pieces(self._heap):
            yield
            kept.extend(filter(self._stands, piece))
        if len(kept) < len(self._heap):
            heapify(kept)
        self._set(kept)

    def all(self) -> Steps[tuple[E, ...]]:
        """Return all deadlines that apply, for :meth:`load`; call it between two batches."""
        yield from self._tidy()
        return tuple(self._heap)

    def load(self, deadlines: Iterable[E]) -> Steps[None]:
        """Replace all deadlines."""
        heap: list[E] = []
        for piece in in_pieces(deadlines):
            yield
            for deadline in piece:  # They come in the order of a heap, so that this is quick.
                heappush(heap, deadline)
        self._set(heap)

    def _set(self, heap: list[E]) -> None:
        self._heap = heap
        self._limit = 2 * len(heap) + _KEPT

    def pop(self) -> None:
        """Remove the first deadline."""
        heappop(self._heap)
