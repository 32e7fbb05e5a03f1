"""Asks, allocations and the identities of applications; the places of asks, and sums over them.

Every application and every queue has a unique number (``key``), since a name can be used again
while its former owner still exists. The key of an application is the position of the event that
created it. :class:`FailedBinds` counts the binds of an ask that have failed in a row, and says how
long it backs off after the last of them. Many asks are created and counted at once, as there may be
a million of them.

:class:`AskPlaces` has the asks of one application. Each is in exactly one place: pending, parked,
waiting or bound. Every change updates the highest priority of the pending asks and the totals of
pending and allocated resources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, TypeVar, final

from muster_core.structures.amounts import add_to, take_from
from muster_core.structures.ranking import PriorityTally
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import Steps, in_order
from muster_core.values.affinity import (
    Affinity,
    Toleration,
    in_order_of_terms,
    in_order_of_tolerations,
)
from muster_core.values.devices import DeviceNeeds, TakenDevices
from muster_core.values.event_fields import Work
from muster_core.values.reasons import Passed
from muster_core.values.records import record
from muster_core.values.resources import Resources
from muster_core.values.snapshots import AskPlace, AskSnapshot

_MOST_DOUBLINGS: Final = 6
"""How often the delay is doubled at most."""


# BACKOFF-2
def back_off_us(delay_us: int, times: int) -> int:
    """Return how long to back off after a number of failures in a row, in microseconds."""
    return delay_us << min(times - 1, _MOST_DOUBLINGS)


@final
@record
class FailedBinds:
    """The binds of an ask that have failed in a row.

    Attributes:
        times: How many have failed since the ask came, or was last released from being bound for
            another reason; at least 1.
        last_us: The instant at which the last of them failed, in microseconds.
    """

    times: int
    last_us: int

    # BACKOFF-2, BACKOFF-3
    def until_us(self, delay_us: int) -> int:
        """Return the instant before which the ask is not tried, in microseconds.

        Args:
            delay_us: The ``bind.retry.delay`` of its leaf, in microseconds; 0 is off.
        """
        return self.last_us + back_off_us(delay_us, self.times)


# BACKOFF-1
def one_more(before: FailedBinds | None, now_us: int) -> FailedBinds:
    """Return the failed binds of an ask after one more has failed."""
    return FailedBinds(1 if before is None else before.times + 1, now_us)


Totals = Mapping[str, int]
"""Sums over many asks, by type; unlike a single quantity, they have no upper limit."""


# ORDER-18
AskOrder = tuple[int, int, str, int, int]
"""The place of an ask among those of its application, best first: its ``rank``, ``creation``,
``group``, ``seq`` and ``number``. The last two are unique within an application."""


@final
@record
class Origin:
    """The origin of a request.

    Attributes:
        seq: Its position in the input, which orders all requests.
        index: The index of the event in its feed, from 0, or None.
        line: The line of the event in its feed, from 1, or None.
        event: The position of the whole event if the request is only a part of it, or None.
        at_us: The instant of its batch, in microseconds.
    """

    seq: int
    index: int | None = None
    line: int | None = None
    event: int | None = None
    at_us: int = 0

    # ORDER-19, OBJECT-4
    @property
    def creation(self) -> int:
        """The position that counts as the creation of a new object: that of the whole event."""
        return self.seq if self.event is None else self.event


@final
class Ask(NamedTuple):
    """One ask, as long as it exists.

    It begins with its place among the asks of its application. So asks compare in the order in
    which they are tried, and a heap of a million asks needs no separate keys.

    Attributes:
        rank: Its negated priority, as the highest one comes first; in the view that of a pending
            ask that ages is another one (see :mod:`muster_core.view.tree.aging`).
        creation: The position of the event that counts as its creation. For a member of a
            gang, the creation of the gang counts instead.
        group: The full name of its gang, or an empty text.
        seq: The position in the input at which it was added, alone or with others.
        number: Its number in a ``count``, unique among the asks with the same ``seq``.
        run_for_us: How long after its bind it completes by itself, or None.
        preempts: Whether its priority class had ``PreemptLowerPriority`` when it was added.
        came_us: When it was added, in microseconds.
        retries: How often it is still tried again after its work has failed.
        work: Its work, or None; no decision depends on it.
        estimate_us: How long it is expected to take after its bind, or None if it does not say.
        run_limit_us: How long after its bind it is released and gone, or None if it does not say.
        start_by_us: The instant at which it is gone if it is not bound by then, in microseconds,
            or None.
        once: Whether it is gone after it was bound, whatever takes its node from it.
    """

    rank: int
    creation: int
    group: str
    seq: int
    number: int
    name: str
    resources: Resources
    shape: Shape
    priority: int
    gang: str | None = None
    run_for_us: int | None = None
    preempts: bool = False
    came_us: int = 0
    retries: int = 0
    work: Work | None = None
    estimate_us: int | None = None
    run_limit_us: int | None = None
    start_by_us: int | None = None
    once: bool = False

    @property
    def order(self) -> AskOrder:
        """Its place if it is in no gang; asks compare in the same way."""
        return self[:5]

    def is_same(self, other: Ask) -> bool:
        """Return whether another ask of the application is the same one, whatever their ranks."""
        mine = self.seq, self.number, self.retries
        return mine == (other.seq, other.number, other.retries)

    # ORDER-18
    def order_in(self, defined: int | None) -> AskOrder:
        """Return its place as a member of a gang that was created at ``defined``, or never."""
        rank, creation, group, seq, number = self[:5]
        return (rank, creation if defined is None else defined, group, seq, number)


# TIME-2
def run_limit_us(ask: Ask, of_leaf_us: int) -> int | None:
    """Return how long an ask may be bound that is bound now, in microseconds, or None.

    Args:
        ask: The ask.
        of_leaf_us: The ``run.limit`` of its leaf, in microseconds; 0 is off.
    """
    own_us = ask.run_limit_us
    if not of_leaf_us:
        return own_us
    return of_leaf_us if own_us is None else min(own_us, of_leaf_us)


@final
@record
class Allocation:
    """The allocation of a bound or waiting ask.

    Attributes:
        number: Its place in the order in which asks were bound, or began to wait.
        assigned: Its place in the order in which nodes were chosen: for a bound member of a
            gang, the number with which it began to wait. 0 means ``number``.
        bound_us: When it was bound, in microseconds; 0 while it waits.
        passed: The reservations that its ask did not delay when it got the node.
        limit_us: How long it may be bound, in microseconds, or None.
    """

    ask: Ask
    node: str
    number: int
    assigned: int = 0
    devices: TakenDevices = ()
    bound_us: int = 0
    # OUTLOOK-8
    passed: tuple[Passed, ...] = ()
    # TIME-2
    limit_us: int | None = None

    # RECLAIM-11
    @property
    def age(self) -> int:
        """Its place in the order in which nodes were chosen; the highest is the newest."""
        return self.assigned or self.number

    @property
    def use(self) -> tuple[DeviceNeeds, TakenDevices]:
        """The devices that its ask needs, and those that it holds."""
        return self.ask.shape.devices, self.devices


@final
@record
class AppIdentity:
    """The part of an application that never changes.

    Attributes:
        key: Its key, the position of the event that created it.
        skip_starting: Whether it goes from Accepted to Running directly.
        user: The user who submitted it, or None, and the groups of that user.
    """

    key: int
    name: str
    leaf: int
    path: str
    skip_starting: bool = False
    user: tuple[str | None, tuple[str, ...]] = (None, ())


T = TypeVar("T")

_SHAPES: Final = 4_096
"""How many shapes are cached, so that equal asks share one."""

_MANY: Final = 32
"""With more items than this, counting equal ones saves time."""


@lru_cache(_SHAPES)
def shared_shape(
    resources: Resources,
    selector: tuple[tuple[str, str], ...],
    node: str | None,
    devices: DeviceNeeds = (),
    tolerations: tuple[Toleration, ...] = (),
    affinity: Affinity | None = None,
) -> Shape:
    """Return the shape that equal asks share."""
    if tolerations or affinity is not None:
        # AFFINITY-11
        ordered = in_order_of_tolerations(tolerations)
        terms = None if affinity is None else in_order_of_terms(affinity)
        if (ordered, terms) != (tolerations, affinity):
            return shared_shape(resources, selector, node, devices, ordered, terms)
    return Shape(
        resources, selector, node, devices=devices, tolerations=tolerations, affinity=affinity
    )


# CHECKPOINT-5
def with_shared_shape(ask: Ask) -> Ask:
    """Return an ask that was loaded, with the one object that equal shapes share."""
    own = ask.shape
    shape = shared_shape(
        *(own.resources, own.selector, own.node, own.devices), own.tolerations, own.affinity
    )
    if shape is own and ask.resources is shape.resources:
        return ask
    return ask._replace(shape=shape, resources=shape.resources)


def count_equal(items: list[T]) -> Iterable[tuple[T, int]]:
    """Return items with their counts; if there are few, equal items may be counted separately."""
    return Counter(items).items() if len(items) > _MANY else [(item, 1) for item in items]


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
        for priority, times in count_equal([ask.priority for ask in asks]):
            self.tally.add(priority, times)
        for resources, times in count_equal([ask.resources for ask in asks]):
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

    def load_bound(self, allocations: Sequence[Allocation]) -> None:
        """Add asks that are bound from the start, or were bound when they were saved."""
        self.bound.update([(allocation.ask.name, allocation) for allocation in allocations])
        for resources, times in count_equal([held.ask.resources for held in allocations]):
            add_to(self.allocated_total, resources.amounts, times)

    def load_waiting(self, allocation: Allocation) -> None:
        """Add an ask that waited when it was saved."""
        self.waiting[allocation.ask.name] = allocation
        add_to(self.allocated_total, allocation.ask.resources.amounts)

    # GANG-38
    def enter_waiting(self, allocation: Allocation) -> None:
        """Make a pending ask wait with an allocation."""
        self.leave_pending(allocation.ask)
        self.load_waiting(allocation)

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
        for priority, times in count_equal([ask.priority for ask in asks]):
            self.tally.remove(priority, times)
        for resources, times in count_equal([ask.resources for ask in asks]):
            take_from(self.pending_total, resources.amounts, times)
            add_to(self.allocated_total, resources.amounts, times)
        self.bound.update([(allocation.ask.name, allocation) for allocation in bound])

    def snapshots(self, in_a_row: Mapping[str, FailedBinds]) -> Iterator[AskSnapshot]:
        """Yield a snapshot of each ask.

        Args:
            in_a_row: The binds that have failed in a row, by the names of their asks.
        """
        asks = [
            *((ask, AskPlace.PENDING, None, ()) for ask in self.pending.values()),
            *((ask, AskPlace.PARKED, None, ()) for ask in self.parked.values()),
            *(
                (held.ask, AskPlace.WAITING, held.node, held.devices)
                for held in self.waiting.values()
            ),
            *((held.ask, AskPlace.BOUND, held.node, held.devices) for held in self.bound.values()),
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

    def each_name(self) -> Iterator[str]:
        """Yield the names of all asks, place by place."""
        return chain(self.pending, self.parked, self.waiting, self.bound)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        names = list(self.each_name())
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
