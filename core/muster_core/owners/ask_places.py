"""Where the asks of an application are, and the sums over them.

Each ask is in exactly one place: pending, parked, waiting or bound. The highest priority among
the pending ones and the totals of what is pending and allocated follow every change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.owners.ask_rows import counted
from muster_core.structures.totals import add_to, take_from
from muster_core.values.priority import PriorityTally
from muster_core.values.snapshots import AskPlace, AskSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster_core.owners.messages.asks import Allocation, Ask


@final
class AskPlaces:
    """The asks of one application by their places; its machine alone changes it."""

    __slots__ = (
        "allocated_total",
        "bound",
        "parked",
        "pending",
        "pending_total",
        "tally",
        "waiting",
    )

    def __init__(self) -> None:
        #: All and only the asks that wait for a node, by name.
        self.pending: dict[str, Ask] = {}
        #: All and only the members of gangs that are not to be tried, by name.
        self.parked: dict[str, Ask] = {}
        #: All and only the members of gangs that hold a node without being bound, by name.
        self.waiting: dict[str, Allocation] = {}
        #: All and only the bound asks, by name, in bind order.
        self.bound: dict[str, Allocation] = {}
        #: The priorities of the pending asks.
        self.tally = PriorityTally()
        #: The sum of the pending asks; no zeros.
        self.pending_total: dict[str, int] = {}
        #: The sum of the bound and the waiting asks; no zeros.
        self.allocated_total: dict[str, int] = {}

    def knows(self, name: str) -> bool:
        """Say whether there is an ask of this name, in whatever place."""
        return (
            name in self.pending
            or name in self.bound
            or name in self.waiting
            or name in self.parked
        )

    def is_empty(self) -> bool:
        """Say whether no ask is left."""
        return not (self.pending or self.parked or self.waiting or self.bound)

    def held(self, name: str) -> Allocation | None:
        """Give what an ask holds, bound or waiting, or None."""
        return self.bound.get(name) or self.waiting.get(name)

    def everything(self) -> list[Ask]:
        """Give all asks, in no particular order."""
        holding = (*self.waiting.values(), *self.bound.values())
        free = (*self.pending.values(), *self.parked.values())
        return [*free, *(allocation.ask for allocation in holding)]

    def count_pending(self, asks: Sequence[Ask]) -> None:
        """Count asks that were put among the pending ones already, all at once."""
        for priority, times in counted([ask.priority for ask in asks]):
            self.tally.add(priority, times)
        for resources, times in counted([ask.resources for ask in asks]):
            add_to(self.pending_total, resources, times)

    def enter_pending(self, ask: Ask) -> None:
        """Let an ask be pending."""
        self.pending[ask.name] = ask
        self.tally.add(ask.priority)
        add_to(self.pending_total, ask.resources)

    def leave_pending(self, ask: Ask) -> None:
        """Let a pending ask be so no longer."""
        del self.pending[ask.name]
        self.tally.remove(ask.priority)
        take_from(self.pending_total, ask.resources)

    def enter_bound(self, allocation: Allocation) -> None:
        """Let an ask that came with its node be bound."""
        self.bound[allocation.ask.name] = allocation
        add_to(self.allocated_total, allocation.ask.resources)

    def enter_waiting(self, allocation: Allocation) -> None:
        """Let a pending ask hold a node without being bound."""
        self.leave_pending(allocation.ask)
        self.waiting[allocation.ask.name] = allocation
        add_to(self.allocated_total, allocation.ask.resources)

    def leave_node(self, allocation: Allocation) -> None:
        """Let an ask give up the node that it holds, bound or waiting."""
        name = allocation.ask.name
        del (self.bound if name in self.bound else self.waiting)[name]
        take_from(self.allocated_total, allocation.ask.resources)

    def bind(self, bound: tuple[Allocation, ...]) -> None:
        """Let pending and waiting asks be bound; what many have in common is counted once."""
        waiting, pending = self.waiting, self.pending
        asks = [
            allocation.ask
            for allocation in bound
            if not waiting or waiting.pop(allocation.ask.name, None) is None
        ]
        for ask in asks:
            del pending[ask.name]
        for priority, times in counted([ask.priority for ask in asks]):
            self.tally.remove(priority, times)
        for resources, times in counted([ask.resources for ask in asks]):
            take_from(self.pending_total, resources, times)
            add_to(self.allocated_total, resources, times)
        self.bound.update([(allocation.ask.name, allocation) for allocation in bound])

    def snapshots(self) -> Iterator[AskSnapshot]:
        """Give every ask as it is now."""
        asks = [
            *((ask, AskPlace.PENDING, None) for ask in self.pending.values()),
            *((ask, AskPlace.PARKED, None) for ask in self.parked.values()),
            *((held.ask, AskPlace.WAITING, held.node) for held in self.waiting.values()),
            *((held.ask, AskPlace.BOUND, held.node) for held in self.bound.values()),
        ]
        for ask, place, node in asks:
            yield AskSnapshot(ask.name, place, ask.priority, ask.resources, node, ask.gang)

    def names(self) -> list[str]:
        """Give the names of all asks, place by place."""
        places = (self.pending, self.parked, self.waiting, self.bound)
        return [name for place in places for name in place]

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        names = self.names()
        assert len(names) == len(set(names))
        # Only members of gangs are parked or wait.
        assert all(ask.gang is not None for ask in self.parked.values())
        assert all(held.ask.gang is not None for held in self.waiting.values())
        # The cached maximum and the sums are those that a fresh look gives.
        self.tally.check()
        highest = max((ask.priority for ask in self.pending.values()), default=None)
        assert self.tally.top() == highest
        pending: dict[str, int] = {}
        for ask in self.pending.values():
            add_to(pending, ask.resources)
        assert pending == self.pending_total
        allocated: dict[str, int] = {}
        for held in (*self.waiting.values(), *self.bound.values()):
            add_to(allocated, held.ask.resources)
        assert allocated == self.allocated_total
