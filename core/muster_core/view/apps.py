"""An application as a round sees it: its pending asks, by shape and in order."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, final

import attrs

from muster_core.lifecycle import RUNNING_STATES, AppState
from muster_core.messages import Allocation, AppIdentity, Ask, Values
from muster_core.priority import PriorityTally
from muster_core.shapes import bits_of
from muster_core.totals import add_to, take_from
from muster_core.view.orders import Listed

if TYPE_CHECKING:
    from muster_core.nodes import Node


@final
@attrs.define(eq=False)
class ViewApp(Listed):
    """One application.

    Attributes:
        identity: What about it never changes.
        state: Its state.
        stay: How many states it has entered: tells one stay in a state from another.
        pending: All and only its pending asks by name, those tried in this round included.
        bound: All and only its allocations by the ask's name, with their nodes.
        spoilt: How many of the next binds of an ask will fail.
        tally: The priorities of the pending asks.
        pending_total: The sum of the pending asks.
        allocated: The sum of the allocations.
        counted: The priority with which it counts in its leaf.
    """

    identity: AppIdentity
    state: AppState = AppState.NEW
    stay: int = 0
    pending: dict[str, Ask] = attrs.field(factory=dict[str, Ask])
    bound: dict[str, tuple[Allocation, Node]] = attrs.field(
        factory=dict[str, "tuple[Allocation, Node]"]
    )
    spoilt: dict[str, int] = attrs.field(factory=dict[str, int])
    tally: PriorityTally = attrs.field(factory=PriorityTally)
    pending_total: dict[str, int] = attrs.field(factory=dict[str, int])
    allocated: dict[str, int] = attrs.field(factory=dict[str, int])
    counted: int | None = None
    #: For each shape of the mask a heap of its untried pending asks; the top is always one.
    _heaps: dict[int, list[tuple[tuple[int, int, str, int, int], Ask]]] = attrs.field(
        factory=dict[int, "list[tuple[tuple[int, int, str, int, int], Ask]]"], init=False
    )
    #: The asks that were tried in this round and are pending still.
    _tried: dict[str, tuple[int, Ask]] = attrs.field(
        factory=dict[str, "tuple[int, Ask]"], init=False
    )

    @property
    def running(self) -> bool:
        """Whether it counts against ``maxapplications``."""
        return self.state in RUNNING_STATES

    def add(self, ask: Ask, bit: int) -> None:
        """List a pending ask, whose shape has ``bit``."""
        self.pending[ask.name] = ask
        self.tally.add(ask.priority)
        add_to(self.pending_total, ask.resources)
        self._push(ask, bit)

    def remove(self, ask: Ask, bit: int) -> None:
        """Forget a pending ask."""
        del self.pending[ask.name]
        self._tried.pop(ask.name, None)
        self.tally.remove(ask.priority)
        take_from(self.pending_total, ask.resources)
        self._clean(bit)

    def best(self, mask: int) -> tuple[int, Ask]:
        """Give the first untried ask in order among those of the shapes in ``mask``.

        At least one of the shapes must be in the application's own mask.
        """
        best: tuple[tuple[int, int, str, int, int], Ask] | None = None
        best_bit = 0
        for bit in bits_of(mask & self.mask):
            top = self._heaps[bit][0]
            if best is None or top[0] < best[0]:
                best, best_bit = top, bit
        assert best is not None, "searched for a shape that is not there"
        return best_bit, best[1]

    def tried(self, ask: Ask, bit: int) -> None:
        """Do not offer a pending ask again in this round."""
        self._tried[ask.name] = (bit, ask)
        self._clean(bit)

    def start_round(self) -> None:
        """Offer the asks again that were tried in the last round."""
        for bit, ask in self._tried.values():
            self._push(ask, bit)
        self._tried.clear()

    def values(self) -> Values:
        """Give what counts of the application in its queue."""
        return Values(self.tally.top(), dict(self.pending_total), dict(self.allocated))

    def _push(self, ask: Ask, bit: int) -> None:
        heap = self._heaps.get(bit)
        if heap is None:
            self._heaps[bit] = [(ask.order, ask)]
            self.mask |= 1 << bit
        else:
            heappush(heap, (ask.order, ask))

    def _offered(self, ask: Ask) -> bool:
        return self.pending.get(ask.name) is ask and ask.name not in self._tried

    def _clean(self, bit: int) -> None:
        """Make the top of a heap an ask that is offered, or drop the heap."""
        heap = self._heaps.get(bit)
        if heap is None:
            return
        while heap and not self._offered(heap[0][1]):
            heappop(heap)
        if not heap:
            del self._heaps[bit]
            self.mask &= ~(1 << bit)
        elif len(heap) > 2 * len(self.pending) + 16:
            heap[:] = [entry for entry in heap if self._offered(entry[1])]
            heapify(heap)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        assert not set(self.pending) & set(self.bound)
        # Only asks that exist can have binds that will fail.
        assert set(self.spoilt) <= set(self.pending) | set(self.bound)
        # The maximum and the sums are those that a fresh look gives.
        assert self.tally.top() == max(
            (ask.priority for ask in self.pending.values()), default=None
        )
        pending: dict[str, int] = {}
        for ask in self.pending.values():
            add_to(pending, ask.resources)
        assert pending == self.pending_total
        # Every pending ask that was not tried is offered.
        offered = {
            entry[1].name
            for heap in self._heaps.values()
            for entry in heap
            if self._offered(entry[1])
        }
        assert offered == set(self.pending) - set(self._tried)
        # The mask has a bit for all and only the heaps, and their tops are offered.
        assert set(bits_of(self.mask)) == set(self._heaps)
        assert all(self._offered(heap[0][1]) for heap in self._heaps.values())
        self.tally.check()
