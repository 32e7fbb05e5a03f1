"""The order of a leaf's applications that are in one state."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import attrs

from muster_core.shapes import bits_of

if TYPE_CHECKING:
    from collections.abc import Iterator

OrderKey = tuple[float | tuple[float, ...], ...]
"""The place of an application: the tuple of what is compared, the creation last."""

_STALE: Final = 32
"""How many entries out of date a heap may have beside as many as it has applications."""

_FRONT: Final = 4
"""How many applications at the front are looked at one by one."""


@attrs.define(eq=False)
class Listed:
    """What an order has to know of an application.

    Attributes:
        mask: The shapes of the pending asks that were not tried in this round.
        order: The order that it is listed in, or None.
        key: Its place there.
        listed: The mask with which it is listed there.
    """

    mask: int = attrs.field(default=0, init=False)
    order: object = attrs.field(default=None, init=False)
    key: OrderKey = attrs.field(default=(), init=False)
    listed: int = attrs.field(default=0, init=False)


A = TypeVar("A", bound=Listed)


@final
class AppOrder(Generic[A]):
    """Applications of one leaf in order, all and only those listed that have pending asks.

    One list ranks all of them. For each shape there is also a heap of the
    applications that have it, for when those at the front do not fit; in it an entry
    counts only while it is the application's present key, and what is out of date is
    dropped when it comes to the top.
    """

    __slots__ = ("_counts", "_heaps", "_numbers", "_ranks", "mask")

    def __init__(self) -> None:
        #: The shapes that some application of the order offers.
        self.mask = 0
        #: How many applications offer each shape; no zeros.
        self._counts: dict[int, int] = {}
        self._heaps: dict[int, list[tuple[OrderKey, int, A]]] = {}
        #: Breaks the tie between an entry and a copy of it that is out of date.
        self._numbers = count()
        self._ranks: list[tuple[OrderKey, int, A]] = []

    def add(self, app: A, key: OrderKey) -> None:
        """List an application that is listed nowhere."""
        app.order, app.key, app.listed = self, key, 0
        insort(self._ranks, (key, 0, app))
        self.update(app)

    def remove(self, app: A) -> None:
        """Take an application of this order out."""
        del self._ranks[bisect_left(self._ranks, (app.key,))]
        self._count(app.listed, -1)
        app.order, app.listed = None, 0

    def update(self, app: A) -> None:
        """Bring the shapes with which an application is listed up to date."""
        gained = app.mask & ~app.listed
        self._count(app.listed & ~app.mask, -1)
        app.listed = app.mask
        self._count(gained, 1)
        for bit in bits_of(gained):
            self._push(bit, app)

    def best(self, mask: int) -> A | None:
        """Give the first application that offers a shape in ``mask``."""
        if not mask & self.mask:
            return None
        for _, _, app in self._ranks[:_FRONT]:
            if app.mask & mask:
                return app
        best: tuple[OrderKey, int, A] | None = None
        for bit in bits_of(mask & self.mask):
            top = self._top(bit)
            if best is None or top < best:
                best = top
        return None if best is None else best[2]

    def __iter__(self) -> Iterator[A]:
        """Give the applications, best first."""
        for _, _, app in self._ranks:
            yield app

    def _push(self, bit: int, app: A) -> None:
        heap = self._heaps.setdefault(bit, [])
        heappush(heap, (app.key, next(self._numbers), app))
        if len(heap) > 2 * self._counts[bit] + _STALE:
            current = {entry[0]: entry for entry in heap if self._valid(bit, entry)}
            heap[:] = current.values()
            heapify(heap)

    def _valid(self, bit: int, entry: tuple[OrderKey, int, A]) -> bool:
        key, _, app = entry
        return app.order is self and app.key == key and bool(app.listed >> bit & 1)

    def _top(self, bit: int) -> tuple[OrderKey, int, A]:
        heap = self._heaps[bit]
        while not self._valid(bit, heap[0]):
            heappop(heap)
        return heap[0]

    def _count(self, mask: int, change: int) -> None:
        for bit in bits_of(mask):
            left = self._counts.get(bit, 0) + change
            if left:
                self._counts[bit] = left
                self.mask |= 1 << bit
            else:
                del self._counts[bit]
                self._heaps.pop(bit, None)
                self.mask &= ~(1 << bit)

    def check(self, apps: list[A]) -> None:
        """Assert the invariants, given the applications that should be listed; for tests."""
        assert all(app.order is self and app.listed == app.mask for app in apps)
        counts: dict[int, int] = {}
        for app in apps:
            for bit in bits_of(app.mask):
                counts[bit] = counts.get(bit, 0) + 1
        assert counts == self._counts
        assert set(bits_of(self.mask)) == set(counts)
        # The first of each shape is the one with the least key.
        for bit in counts:
            offering = [app.key for app in apps if app.mask >> bit & 1]
            assert self._top(bit)[0] == min(offering)
        # All are ranked, in order.
        assert [app.key for app in self] == sorted(app.key for app in apps)
