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
"""Where the bins of a histogram begin, in microseconds: from 1 ms to some 300 years. Before the
first edge is a bin of its own: such an ask did not wait."""

MOST_WAITS: Final = 25
"""How many of the longest waits are shown."""


@final
class Histogram:
    """How many waits were how long.

    Attributes:
        counts: How many fell into each bin; the first is what is below :data:`EDGES_US`.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_US) + 1)

    def add(self, wait_us: int) -> None:
        """Note a wait, in microseconds."""
        self.counts[bisect_right(EDGES_US, wait_us)] += 1


@final
@attrs.frozen
class Wait:
    """How long an ask waited until it was bound for the first time, or waits.

    Attributes:
        key: Its application and its name.
        queue: The full path of its queue.
        gang: The gang of which it is a member, or None.
        came_us: When it came, in microseconds.
        wait_us: How long it waited, or has waited at the end, in microseconds.
        bound: Whether it was bound in the end.
    """

    key: Key
    queue: str
    gang: str | None
    came_us: int
    wait_us: int
    bound: bool


@final
class LongestWaits:
    """The longest waits of all asks that were bound; of equally long ones the first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Wait]] = []
        self._count = 0

    def add(self, ask: LiveAsk, came_us: int, wait_us: int) -> Wait | None:
        """Note a wait; give the one that is no longer among the longest, or None."""
        wait = Wait(ask.key, ask.queue, ask.gang, came_us, wait_us, bound=True)
        self._count += 1
        entry = (wait_us, -self._count, wait)
        if len(self._heap) < MOST_WAITS:
            heapq.heappush(self._heap, entry)
            return None
        return heapq.heappushpop(self._heap, entry)[2]

    def with_pending(self, asks: Iterable[LiveAsk], at_us: int) -> tuple[Wait, ...]:
        """Give the longest waits, with those that still last at an instant, the longest first."""
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
