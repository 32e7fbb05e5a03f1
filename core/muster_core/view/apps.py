"""An application as a round sees it: its pending asks, by shape and in order."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, final

import attrs

from muster_core.lifecycle import RUNNING_STATES, AppState
from muster_core.messages import Allocation, AppIdentity, Ask, AskOrder, Values
from muster_core.priority import PriorityTally
from muster_core.shapes import bits_of
from muster_core.totals import add_to, take_from
from muster_core.view.orders import Listed
from muster_core.view.slots import Offer, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster_core.nodes import Node

Entry = tuple[AskOrder, Ask]


@final
@attrs.define(eq=False)
class ViewApp(Listed):
    """One application.

    Attributes:
        identity: What about it never changes.
        state: Its state.
        stay: How many states it has entered: tells one stay in a state from another.
        pending: All and only its pending asks by name, those tried in this round included.
        parked: All and only its parked asks by name.
        waiting: All and only its waiting asks by name, with their nodes.
        bound: All and only its bound asks by name, with their nodes.
        slots: Its pending asks that are members of gangs, by the name of the gang.
        spoilt: How many of the next binds of an ask will fail.
        tally: The priorities of the pending asks.
        pending_total: The sum of the pending asks.
        allocated: The sum of the bound and the waiting asks.
        counted: The priority with which it counts in its leaf.
        since_us: Since when asks count as pending that were bound once and lost their node,
            in microseconds; all others do since they came.
    """

    identity: AppIdentity
    state: AppState = AppState.NEW
    stay: int = 0
    pending: dict[str, Ask] = attrs.field(factory=dict[str, Ask])
    parked: dict[str, Ask] = attrs.field(factory=dict[str, Ask])
    waiting: dict[str, tuple[Allocation, Node]] = attrs.field(
        factory=dict[str, "tuple[Allocation, Node]"]
    )
    bound: dict[str, tuple[Allocation, Node]] = attrs.field(
        factory=dict[str, "tuple[Allocation, Node]"]
    )
    slots: dict[str, Slot[ViewApp]] = attrs.field(factory=dict[str, "Slot[ViewApp]"])
    spoilt: dict[str, int] = attrs.field(factory=dict[str, int])
    tally: PriorityTally = attrs.field(factory=PriorityTally)
    pending_total: dict[str, int] = attrs.field(factory=dict[str, int])
    allocated: dict[str, int] = attrs.field(factory=dict[str, int])
    counted: int | None = None
    since_us: dict[str, int] = attrs.field(factory=dict[str, int])
    #: For each bit of the mask a heap of the asks offered under it; the top is always one.
    _heaps: dict[int, list[Entry]] = attrs.field(factory=dict[int, "list[Entry]"], init=False)
    #: The asks that were tried in this round and are pending still.
    _tried: dict[str, tuple[int, Ask]] = attrs.field(
        factory=dict[str, "tuple[int, Ask]"], init=False
    )

    @property
    def running(self) -> bool:
        """Whether it counts against ``maxapplications``."""
        return self.state in RUNNING_STATES or bool(self.waiting)

    def knows(self, name: str) -> bool:
        """Say whether it has an ask of this name, in whatever place."""
        places = (self.pending, self.parked, self.waiting, self.bound)
        return any(name in place for place in places)

    def find(self, name: str) -> Ask | None:
        """Give an ask by its name, wherever it is, or None."""
        held = self.waiting.get(name) or self.bound.get(name)
        if held is not None:
            return held[0].ask
        return self.pending.get(name) or self.parked.get(name)

    def order_of(self, ask: Ask) -> AskOrder:
        """Give the place of a pending ask among those of the application."""
        return ask.order if ask.gang is None else self.slots[ask.gang].order_of(ask)

    def pending_since_us(self, ask: Ask) -> int:
        """Give since when an ask counts as pending, in microseconds."""
        since_us = self.since_us.get(ask.name)
        # What stands there may be of an ask of that name that is gone.
        return ask.came_us if since_us is None else max(since_us, ask.came_us)

    def add(self, ask: Ask, bit: int) -> None:
        """List a pending ask, whose shape has ``bit``; a member of a gang has a slot."""
        self.pending[ask.name] = ask
        self.tally.add(ask.priority)
        add_to(self.pending_total, ask.resources)
        if ask.gang is None:
            self.push(ask.order, ask, bit)
        else:
            slot = self.slots[ask.gang]
            slot.add(ask, bit)
            self._offer_member(slot, ask, bit)

    def _offer_member(self, slot: Slot[ViewApp], ask: Ask, bit: int) -> None:
        if slot.offer is Offer.EACH:
            self.push(slot.order_of(ask), ask, bit)
        elif slot.offer is Offer.FIRST:
            slot.relist()

    def remove(self, ask: Ask, bit: int) -> None:
        """Forget a pending ask."""
        del self.pending[ask.name]
        self._tried.pop(ask.name, None)
        self.tally.remove(ask.priority)
        take_from(self.pending_total, ask.resources)
        if ask.gang is not None:
            slot = self.slots[ask.gang]
            slot.remove(ask)
            if slot.offer is Offer.FIRST:
                slot.relist()
        self._clean(bit)

    def best(self, mask: int) -> tuple[int, Ask]:
        """Give the first ask in order among those offered under the bits in ``mask``.

        At least one of the bits must be in the application's own mask.
        """
        best: Entry | None = None
        best_bit = 0
        for bit in bits_of(mask & self.mask):
            top = self._heaps[bit][0]
            if best is None or top[0] < best[0]:
                best, best_bit = top, bit
        assert best is not None, "searched for a shape that is not there"
        return best_bit, best[1]

    def first_of(self, bit: int, accepts: Callable[[Ask], bool]) -> tuple[AskOrder, Ask] | None:
        """Give the first ask with its place among those offered under a bit that is accepted."""
        heap = self._heaps.get(bit)
        if heap is None:
            return None
        if accepts(heap[0][1]):
            return heap[0]
        found = (entry for entry in heap if self._offered(entry, bit) and accepts(entry[1]))
        return min(found, default=None)

    def has_untried(self, ask: Ask) -> bool:
        """Say whether an ask is pending and was not tried in this round."""
        return self.pending.get(ask.name) is ask and ask.name not in self._tried

    def tried(self, ask: Ask, bit: int) -> None:
        """Do not offer a pending ask again in this round."""
        self._tried[ask.name] = (bit, ask)
        slot = None if ask.gang is None else self.slots[ask.gang]
        if slot is not None and slot.offer is Offer.FIRST:
            slot.relist()
        self._clean(bit)

    def start_round(self) -> None:
        """Offer the asks again that were tried in the last round."""
        tried, self._tried = self._tried, {}
        for bit, ask in tried.values():
            if ask.gang is None:
                self.push(ask.order, ask, bit)
            else:
                slot = self.slots[ask.gang]
                slot.push(ask)
                self._offer_member(slot, ask, bit)

    def values(self) -> Values:
        """Give what counts of the application in its queue."""
        return Values(self.tally.top(), dict(self.pending_total), dict(self.allocated))

    def push(self, order: AskOrder, ask: Ask, bit: int) -> None:
        """Offer an ask under a bit."""
        heap = self._heaps.get(bit)
        if heap is None:
            self._heaps[bit] = [(order, ask)]
            self.mask |= 1 << bit
        else:
            heappush(heap, (order, ask))

    def clean(self, bits: Iterable[int]) -> None:
        """Take note that asks of these bits are no longer offered."""
        for bit in bits:
            self._clean(bit)

    def _offered(self, entry: Entry, bit: int) -> bool:
        order, ask = entry
        if not self.has_untried(ask):
            return False
        slot = None if ask.gang is None else self.slots[ask.gang]
        if slot is None:
            return True
        if order != slot.order_of(ask):
            return False
        if slot.offer is Offer.FIRST:
            return slot.listed is ask and bit == slot.visit_bit
        return slot.offer is Offer.EACH and bit == slot.members[ask.name][1]

    def _clean(self, bit: int) -> None:
        """Make the top of a heap an ask that is offered, or drop the heap."""
        heap = self._heaps.get(bit)
        if heap is None:
            return
        while heap and not self._offered(heap[0], bit):
            heappop(heap)
        if not heap:
            del self._heaps[bit]
            self.mask &= ~(1 << bit)
        elif len(heap) > 2 * len(self.pending) + 16:
            offered = {entry[1].name: entry for entry in heap if self._offered(entry, bit)}
            heap[:] = offered.values()
            heapify(heap)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        places = (self.pending, self.parked, self.waiting, self.bound)
        names = [name for place in places for name in place]
        assert len(names) == len(set(names))
        # Only asks that exist can have binds that will fail.
        assert set(self.spoilt) <= set(names)
        assert all(self.spoilt.values())
        # The maximum and the sums are those that a fresh look gives.
        assert self.tally.top() == max(
            (ask.priority for ask in self.pending.values()), default=None
        )
        pending: dict[str, int] = {}
        for ask in self.pending.values():
            add_to(pending, ask.resources)
        assert pending == self.pending_total
        # Every pending ask that was not tried is offered, members as their gang has it.
        for slot in self.slots.values():
            slot.check()
        offered = {
            (entry[1].name, bit)
            for bit, heap in self._heaps.items()
            for entry in heap
            if self._offered(entry, bit)
        }
        names = [name for name, _ in offered]
        assert len(names) == len(set(names))
        assert {name for name, _ in offered} == self._to_offer()
        # The mask has a bit for all and only the heaps, and their tops are offered.
        assert set(bits_of(self.mask)) == set(self._heaps)
        assert all(self._offered(heap[0], bit) for bit, heap in self._heaps.items())
        self.tally.check()

    def _to_offer(self) -> set[str]:
        names = {name for name, ask in self.pending.items() if ask.gang is None}
        for slot in self.slots.values():
            if slot.offer is Offer.EACH:
                names |= set(slot.members)
            elif slot.offer is Offer.FIRST and (first := slot.first()) is not None:
                names.add(first.name)
        return names - set(self._tried)
