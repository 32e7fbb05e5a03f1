"""The places of the asks of an application, and the sums over them.

Each ask is in exactly one place: pending, parked, waiting or bound. Every change updates the
highest priority of the pending asks and the totals of pending and allocated resources.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, final

from muster_core.owners.ask_rows import counted
from muster_core.structures.steps import in_order
from muster_core.structures.totals import add_to, take_from
from muster_core.values.priority import PriorityTally
from muster_core.values.snapshots import AskPlace, AskSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from muster_core.owners.messages.asks import Allocation, Ask
    from muster_core.owners.messages.failed_binds import FailedBinds
    from muster_core.structures.steps import Steps


# Looking up a member of an enum takes ten times as long.
_PENDING: Final = AskPlace.PENDING
_PARKED: Final = AskPlace.PARKED
_WAITING: Final = AskPlace.WAITING
_BOUND: Final = AskPlace.BOUND


@final
class AskPlaces:
    """The asks of one application by their places; only its machine changes them."""

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
        #: All and only the pending asks, by name.
        self.pending: dict[str, Ask] = {}
        #: All and only the parked members of gangs, by name.
        self.parked: dict[str, Ask] = {}
        #: All and only the waiting members of gangs, by name.
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
        """Return whether there is an ask of this name, in any place."""
        return (
            name in self.pending
            or name in self.bound
            or name in self.waiting
            or name in self.parked
        )

    def is_empty(self) -> bool:
        """Return whether no ask is left."""
        return not (self.pending or self.parked or self.waiting or self.bound)

    def held(self, name: str) -> Allocation | None:
        """Return the allocation of a bound or waiting ask, or None."""
        return self.bound.get(name) or self.waiting.get(name)

    def __len__(self) -> int:
        """Return how many asks there are."""
        return len(self.pending) + len(self.parked) + len(self.waiting) + len(self.bound)

    def in_order_of_arrival(self) -> Steps[list[Ask]]:
        """Return all asks in the order in which they were added."""
        holding = (*self.waiting.values(), *self.bound.values())
        free = (*self.pending.values(), *self.parked.values())
        asks = [*free, *(allocation.ask for allocation in holding)]
        return (yield from in_order(asks, lambda ask: (ask.seq, ask.number)))

    def count_pending(self, asks: Sequence[Ask]) -> None:
        """Add asks that are in ``pending`` already to the sums, all at once."""
        for priority, times in counted([ask.priority for ask in asks]):
            self.tally.add(priority, times)
        for resources, times in counted([ask.resources for ask in asks]):
            add_to(self.pending_total, resources.amounts, times)

    def enter_pending(self, ask: Ask) -> None:
        """Add a pending ask."""
        self.pending[ask.name] = ask
        self.tally.add(ask.priority)
        add_to(self.pending_total, ask.resources.amounts)

    def leave_pending(self, ask: Ask) -> None:
        """Remove a pending ask."""
        del self.pending[ask.name]
        self.tally.remove(ask.priority)
        take_from(self.pending_total, ask.resources.amounts)

    def enter_bound(self, allocation: Allocation) -> None:
        """Add an ask that is bound from the start."""
        self.bound[allocation.ask.name] = allocation
        add_to(self.allocated_total, allocation.ask.resources.amounts)

    def load_bound(self, allocations: Sequence[Allocation]) -> None:
        """Add asks that were bound when they were saved."""
        self.bound.update([(allocation.ask.name, allocation) for allocation in allocations])
        for resources, times in counted([held.ask.resources for held in allocations]):
            add_to(self.allocated_total, resources.amounts, times)

    def load_waiting(self, allocation: Allocation) -> None:
        """Add an ask that waited when it was saved."""
        self.waiting[allocation.ask.name] = allocation
        add_to(self.allocated_total, allocation.ask.resources.amounts)

    # GANG-38
    def enter_waiting(self, allocation: Allocation) -> None:
        """Make a pending ask wait with an allocation."""
        self.leave_pending(allocation.ask)
        self.waiting[allocation.ask.name] = allocation
        add_to(self.allocated_total, allocation.ask.resources.amounts)

    def leave_node(self, allocation: Allocation) -> None:
        """Remove the allocation of a bound or waiting ask."""
        name = allocation.ask.name
        del (self.bound if name in self.bound else self.waiting)[name]
        take_from(self.allocated_total, allocation.ask.resources.amounts)

    def bind(self, bound: tuple[Allocation, ...]) -> None:
        """Bind pending and waiting asks; equal priorities and resources are counted together."""
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
            take_from(self.pending_total, resources.amounts, times)
            add_to(self.allocated_total, resources.amounts, times)
        self.bound.update([(allocation.ask.name, allocation) for allocation in bound])

    def snapshots(self, in_a_row: Mapping[str, FailedBinds]) -> Iterator[AskSnapshot]:
        """Yield a snapshot of each ask.

        Args:
            in_a_row: The binds that have failed in a row, by the names of their asks.
        """
        asks = [
            *((ask, _PENDING, None, ()) for ask in self.pending.values()),
            *((ask, _PARKED, None, ()) for ask in self.parked.values()),
            *((held.ask, _WAITING, held.node, held.devices) for held in self.waiting.values()),
            *((held.ask, _BOUND, held.node, held.devices) for held in self.bound.values()),
        ]
        for ask, place, node, devices in asks:
            failed = in_a_row.get(ask.name)
            yield AskSnapshot(
                name=ask.name,
                place=place,
                priority=ask.priority,
                resources=ask.resources,
                node=node,
                gang=ask.gang,
                retries=ask.retries,
                work=ask.work,
                failed_binds=0 if failed is None else failed.times,
                last_failed_us=None if failed is None else failed.last_us,
                devices=dict(devices),
            )

    def names(self) -> list[str]:
        """Return the names of all asks, place by place."""
        return list(self.each_name())

    def each_name(self) -> Iterator[str]:
        """Yield the names of all asks, place by place."""
        return chain(self.pending, self.parked, self.waiting, self.bound)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        names = self.names()
        assert len(names) == len(set(names))
        # Only members of gangs are parked or waiting.
        assert all(ask.gang is not None for ask in self.parked.values())
        assert all(held.ask.gang is not None for held in self.waiting.values())
        # The cached maximum and the sums are the recomputed ones.
        self.tally.check()
        highest = max((ask.priority for ask in self.pending.values()), default=None)
        assert self.tally.top() == highest
        pending: dict[str, int] = {}
        for ask in self.pending.values():
            add_to(pending, ask.resources.amounts)
        assert pending == self.pending_total
        allocated: dict[str, int] = {}
        for held in (*self.waiting.values(), *self.bound.values()):
            add_to(allocated, held.ask.resources.amounts)
        assert allocated == self.allocated_total
