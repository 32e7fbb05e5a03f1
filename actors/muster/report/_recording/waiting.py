"""How long asks waited: a histogram with a logarithmic axis, and the longest waits."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, final

import attrs

from muster.replay import Key, LiveAsk

BINS_PER_DECADE: Final = 5

EDGES_US: Final = tuple(
    round(10 ** (3 + step / BINS_PER_DECADE)) for step in range(BINS_PER_DECADE * 13)
)
"""The waits at which the bins of a histogram begin, in microseconds: from 1 ms to about 300 years.
Waits below the first edge have a bin of their own: such asks did not wait."""

MOST_WAITS: Final = 25
"""How many of the longest waits are shown."""


@final
class Histogram:
    """The number of waits by length.

    Attributes:
        counts: The number of waits in each bin; the first bin is below :data:`EDGES_US`.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_US) + 1)

    def add(self, wait_us: int) -> None:
        """Add a wait, in microseconds."""
        self.counts[bisect_right(EDGES_US, wait_us)] += 1


@final
@attrs.frozen
class Wait:
    """The wait of an ask until its first bind, or until the end if it was not bound.

    Attributes:
        key: Its application and its name.
        queue: The full path of its queue.
        gang: Its gang, or None.
        came_us: When it was added, in microseconds.
        wait_us: How long it waited, in microseconds.
        bound: Whether it was bound.
    """

    key: Key
    queue: str
    gang: str | None
    came_us: int
    wait_us: int
    bound: bool


@final
class LongestWaits:
    """The longest waits of all bound asks; of equally long ones, the first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Wait]] = []
        self._count = 0

    def add(self, ask: LiveAsk, came_us: int, wait_us: int) -> Wait | None:
        """Add a wait; return the one that is no longer among the longest, or None."""
        wait = Wait(ask.key, ask.queue, ask.gang, came_us, wait_us, bound=True)
        self._count += 1
        entry = (wait_us, -self._count, wait)
        if len(self._heap) < MOST_WAITS:
            heapq.heappush(self._heap, entry)
            return None
        return heapq.heappushpop(self._heap, entry)[2]

    def with_pending(self, asks: Iterable[LiveAsk], at_us: int) -> tuple[Wait, ...]:
        """Return the longest waits, unfinished ones included, the longest first."""
        bound = [(wait_us, number, wait) for wait_us, number, wait in self._heap]
        lasting = (
            (at_us - ask.came_us, -number, _lasting(ask, ask.came_us, at_us))
            for number, ask in enumerate(asks, self._count + 1)
            if ask.came_us is not None
        )
        every = [*bound, *heapq.nlargest(MOST_WAITS, lasting, key=lambda entry: entry[:2])]
        every.sort(key=lambda entry: entry[:2], reverse=True)
        return tuple(wait for _, _, wait in every[:MOST_WAITS])


def _lasting(ask: LiveAsk, came_us: int, at_us: int) -> Wait:
    return Wait(ask.key, ask.queue, ask.gang, came_us, at_us - came_us, bound=False)
