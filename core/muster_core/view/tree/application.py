"""An application as a round sees it: its pending asks, by shape and in order.

The applications of a leaf that are in one state are kept in an order, which finds the first of them
that has an ask of an open shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any, Final, Generic, TypeVar, final

from muster_core.nodes.node import Node
from muster_core.owners.app_messages import Values
from muster_core.owners.asks import Allocation, AppIdentity, Ask, AskOrder, FailedBinds
from muster_core.structures.amounts import add_to, sum_of, take_from
from muster_core.structures.ranking import PriorityTally, Rank, Ranked, Ranking
from muster_core.structures.shapes import EVERY_SHAPE, MaskCounts, Shape, ShapeTable, bits_of
from muster_core.structures.steps import Steps, freed
from muster_core.values.application_states import RUNNING_STATES, AppState
from muster_core.values.snapshots import AskPlace
from muster_core.view.tree.constraints import Offer, Slot, ViewLimit


class Listed(Ranked):
    """What an order needs of an application.

    Its rank has the shapes of the pending asks that were not tried in this round.

    Attributes:
        listed: The mask with which that order counts it.
    """

    __slots__ = ("listed", "order")

    def __init__(self) -> None:
        super().__init__()
        self.order: AppOrder[Any] | None = None
        self.listed = 0


A = TypeVar("A", bound=Listed)


@final
class AppOrder(Generic[A]):
    """All and only the applications of a leaf, or of one state in it, that have pending asks."""

    __slots__ = ("counts", "ranking")

    def __init__(self) -> None:
        #: How many applications offer each shape.
        self.counts = MaskCounts()
        #: The applications, with the shapes that they offer.
        self.ranking: Ranking[A] = Ranking()

    @property
    def mask(self) -> int:
        """The shapes that some application of the order offers."""
        return self.counts.mask

    def add(self, app: A, rank: Rank) -> None:
        """List an application that no order lists."""
        app.order, app.listed = self, 0
        self.ranking.add(app, rank)
        self.update(app)

    def remove(self, app: A) -> None:
        """Remove an application from this order."""
        self.ranking.remove(app)
        self.counts.replace(app.listed, 0)
        app.order, app.listed = None, 0

    def move(self, app: A, rank: Rank) -> None:
        """Change the position of an application in this order."""
        self.ranking.move(app, rank)
        if app.mask != app.listed:
            self.counts.replace(app.listed, app.mask)
            app.listed = app.mask

    def update(self, app: A) -> None:
        """Update the shapes with which an application is listed."""
        if app.mask != app.listed:
            self.counts.replace(app.listed, app.mask)
            app.listed = app.mask
            self.ranking.widen(app)

    def best(self, mask: int) -> A | None:
        """Return the first application that offers a shape in ``mask``."""
        return self.ranking.first(mask) if mask & self.mask else None

    def __iter__(self) -> Iterator[A]:
        """Iterate over the applications, best first."""
        return iter(self.ranking)

    def check(self, apps: list[A]) -> None:
        """Assert the invariants, given the applications that should be listed; for tests."""
        assert all(app.order is self and app.listed == app.mask for app in apps)
        self.counts.check(app.mask for app in apps)
        # All are ranked, in order.
        self.ranking.check()
        assert {id(app) for app in self} == {id(app) for app in apps}


_STALE: Final = 16
"""How many more entries than twice the pending asks a heap may have."""

Entry = tuple[AskOrder, Ask, int]
"""An offered gang member: its position among the asks of the application, the ask, and its bit."""

FailedOn = tuple[Ask, str, str | None]
"""The last failed bind of an ask: the ask, its node, and why it failed, if that is known."""


@final
class ViewApp(Listed):
    """One application.

    Attributes:
        stay: The number of its current stay in a state, unique among all applications.
        pending: All and only its pending asks by name that do not back off, including those tried
            in this round.
        backing_off: All and only its pending asks by name that back off, so that nothing picks
            them; they count in ``tally`` and ``pending_total``.
        parked: All and only its parked asks by name.
        waiting: All and only its waiting asks by name, with their nodes.
        bound: All and only its bound asks by name, with their nodes.
        slots: Its pending gang members, by the name of the gang.
        spoilt: How many of the next binds of an ask will fail.
        tally: The priorities of its pending asks; their levels if they age (see
            :mod:`muster_core.view.tree.aging`).
        counted: The priority, or the level, with which it counts in its leaf.
        since_us: The instant from which an ask counts as pending that was bound and lost its
            node, in microseconds; other asks count from their submission.
        to_relist: The slots whose first member may be another one now, by gang.
        failed_on: The last failed bind of each ask that has held no node since, by name; entries
            may be of former asks with the same name.
        in_a_row: The binds of an ask that have failed in a row.
        allowed: The shapes that these limits let a round try.
    """

    __slots__ = (
        "_bits",
        "_by_shape",
        "_counts",
        "_member_mask",
        "_members",
        "_plain",
        "_plain_mask",
        "_tried",
        "allocated",
        "allowed",
        "backing_off",
        "bound",
        "counted",
        "failed_on",
        "group",
        "identity",
        "in_a_row",
        "limits",
        "parked",
        "pending",
        "pending_total",
        "since_us",
        "slots",
        "spoilt",
        "state",
        "stay",
        "tally",
        "to_relist",
        "waiting",
    )

    def __init__(
        self,
        identity: AppIdentity,
        state: AppState = AppState.NEW,
        allocated: dict[str, int] | None = None,
        counted: int | None = None,
    ) -> None:
        super().__init__()
        self.identity = identity
        self.state = state
        self.stay = 0
        self.pending: dict[str, Ask] = {}
        self.backing_off: dict[str, Ask] = {}
        self.parked: dict[str, Ask] = {}
        self.waiting: dict[str, tuple[Allocation, Node]] = {}
        self.bound: dict[str, tuple[Allocation, Node]] = {}
        self.slots: dict[str, Slot[ViewApp]] = {}
        self.spoilt: dict[str, int] = {}
        self.tally = PriorityTally()
        self.pending_total: dict[str, int] = {}
        self.allocated: dict[str, int] = {} if allocated is None else allocated
        self.counted = counted
        self.since_us: dict[str, int] = {}
        self.to_relist: dict[str, Slot[ViewApp]] = {}
        self.failed_on: dict[str, FailedOn] = {}
        self.in_a_row: dict[str, FailedBinds] = {}
        self.group: str | None = None
        self.limits: tuple[ViewLimit[ViewApp], ...] = ()
        self.allowed = EVERY_SHAPE
        #: All untried plain asks, as a heap whose top is always untried; and the same by shape,
        #: or None until first needed.
        self._plain: list[Ask] = []
        self._by_shape: dict[int, list[Ask]] | None = None
        #: The bits of the shapes of plain pending asks, and perhaps of others.
        self._bits: dict[Shape, int] = {}
        #: How many untried plain asks have each shape, without zeros, and the mask of these shapes.
        self._counts: dict[int, int] = {}
        self._plain_mask = 0
        #: The offered gang members, by bit; the top is always an offered one. Their mask.
        self._members: dict[int, list[Entry]] = {}
        self._member_mask = 0
        #: The asks that were tried in this round and are still pending.
        self._tried: dict[str, tuple[int, Ask]] = {}

    # QUEUE-8
    @property
    def running(self) -> bool:
        """Whether it counts for ``maxapplications``."""
        return self.state in RUNNING_STATES or bool(self.waiting)

    # LIMIT-13
    def must_wait(self) -> bool:
        """Return whether a limit on applications keeps its asks from being tried."""
        return bool(self.limits) and not self.running and any(one.is_full for one in self.limits)

    # LIMIT-9
    def is_within_limits(self, ask: Ask) -> bool:
        """Return whether an ask fits in the free amounts of its limits of users and groups."""
        return all(limit.admits_more(ask) for limit in self.limits)

    # LIMIT-9
    def refused(self, shapes: ShapeTable) -> int:
        """Return the shapes that its limits leave too little for."""
        mask = 0
        for limit in self.limits:
            mask |= limit.lacking(shapes)
        return mask

    @property
    def offered(self) -> int:
        """The shapes that it would offer without limits."""
        return self._plain_mask | self._member_mask

    def restrict(self) -> None:
        """Offer only asks that its limits allow, before a round reads them."""
        self.mask = self.offered & self.allowed

    def settle(self) -> None:
        """Offer the asks that its gangs and its limits allow, before it gets its position."""
        if self.to_relist:
            self.relist()
        if self.limits:
            self.restrict()

    def knows(self, name: str) -> bool:
        """Return whether it has an ask of this name, in any state."""
        places = (self.pending, self.parked, self.waiting, self.bound, self.backing_off)
        return any(name in place for place in places)

    def count(self) -> int:
        """Return how many asks it has, in any state."""
        places = (self.pending, self.parked, self.waiting, self.bound, self.backing_off)
        return sum(len(place) for place in places)

    def has_no_node(self, name: str) -> bool:
        """Return whether it has an ask of this name that holds no node."""
        return name in self.pending or name in self.parked or name in self.backing_off

    # CHECKPOINT-4
    def last_failures(self) -> Iterator[tuple[str, str, str | None]]:
        """Iterate over the present asks in ``failed_on``: their names, the nodes, and why."""
        for name, (ask, node, message) in self.failed_on.items():
            found = self.find(name)
            if found is not None and found.is_same(ask):
                yield name, node, message

    def allocation(self, name: str) -> Allocation | None:
        """Return the allocation of a waiting or bound ask, or None."""
        held = self.waiting.get(name) or self.bound.get(name)
        return None if held is None else held[0]

    def place(self, name: str) -> AskPlace | None:
        """Return the place of an ask, or None."""
        if name in self.bound:
            return AskPlace.BOUND
        if name in self.pending or name in self.backing_off:
            return AskPlace.PENDING
        if name in self.waiting:
            return AskPlace.WAITING
        return AskPlace.PARKED if name in self.parked else None

    def pending_ask(self, name: str) -> Ask | None:
        """Return an ask if it is pending, whether it backs off or not."""
        return self.pending.get(name) or self.backing_off.get(name)

    def find(self, name: str) -> Ask | None:
        """Return an ask by its name, in any state, or None."""
        allocation = self.allocation(name)
        if allocation is not None:
            return allocation.ask
        return self.pending_ask(name) or self.parked.get(name)

    def each_pending(self) -> Iterator[Ask]:
        """Iterate over all its pending asks, those that back off included."""
        return chain(self.pending.values(), self.backing_off.values())

    def order_of(self, ask: Ask) -> AskOrder:
        """Return the position of a pending ask among those of the application."""
        return ask.order if ask.gang is None else self.slots[ask.gang].order_of(ask)

    # EVICTION-6, AGING-3
    def pending_since_us(self, ask: Ask) -> int:
        """Return the instant from which an ask counts as pending, in microseconds."""
        since_us = self.since_us.get(ask.name)
        # The entry may be of a former ask with the same name.
        return ask.came_us if since_us is None else max(since_us, ask.came_us)

    def add(self, ask: Ask, bit: int) -> None:
        """Add a pending ask whose shape has ``bit``; a gang member must have a slot."""
        self.pending[ask.name] = ask
        self.tally.add(-ask.rank)
        add_to(self.pending_total, ask.resources.amounts)
        if ask.gang is None:
            self._offer_plain(ask, bit)
        else:
            slot = self.slots[ask.gang]
            slot.add(ask, bit)
            self._offer_member(slot, ask, bit)

    def add_row(
        self, asks: Sequence[Ask], bits: Mapping[Shape, int], times: Mapping[Shape, int]
    ) -> None:
        """Add plain asks, given the bit of each shape and how many asks have it."""
        self.pending.update([(ask.name, ask) for ask in asks])
        for rank, count in Counter([ask.rank for ask in asks]).items():
            self.tally.add(-rank, count)
        for shape, bit in bits.items():
            add_to(self.pending_total, shape.resources.amounts, times[shape])
            self._count_plain(shape, bit, times[shape])
        if self._plain:
            for ask in asks:
                heappush(self._plain, ask)
        else:
            self._plain.extend(asks)
            heapify(self._plain)
        if self._by_shape is not None:
            for ask in asks:
                heappush(self._by_shape.setdefault(bits[ask.shape], []), ask)

    def _offer_plain(self, ask: Ask, bit: int) -> None:
        heappush(self._plain, ask)  # Asks compare by their order.
        if self._by_shape is not None:
            heappush(self._by_shape.setdefault(bit, []), ask)
        self._count_plain(ask.shape, bit, 1)

    def _count_plain(self, shape: Shape, bit: int, times: int) -> None:
        counts = self._counts
        if bit in counts:
            counts[bit] += times
        else:
            counts[bit] = times
            self._bits[shape] = bit
            self._plain_mask |= 1 << bit
            self.mask |= 1 << bit

    def _offer_member(self, slot: Slot[ViewApp], ask: Ask, bit: int) -> None:
        if slot.offer is Offer.EACH:
            self.push(slot.order_of(ask), ask, bit)
        elif slot.offer is Offer.FIRST:
            if slot.listed is ask:  # It held a node meanwhile, and may have been dropped.
                slot.listed = None
            slot.relist()

    def remove(self, ask: Ask, bit: int) -> None:
        """Remove a pending ask, which may be known here with another rank."""
        name, total = ask.name, self.pending_total
        ask = self.pending.pop(name)
        self.tally.remove(-ask.rank)
        for kind, amount in ask.resources.amounts.items():
            if total[kind] > amount:
                total[kind] -= amount
            else:
                del total[kind]
        untried = self._tried.pop(name, None) is None if self._tried else True
        if ask.gang is None:
            if self._plain and self._plain[0] is ask:  # As the asks are mostly placed in order.
                heappop(self._plain)
            self._withdraw_plain(bit, counted=untried)
            return
        slot = self.slots[ask.gang]
        slot.remove(ask)
        if slot.offer is Offer.FIRST:
            self.to_relist[ask.gang] = slot
            if not slot.members:  # The slot ends, and its bit may become that of another slot.
                self.relist()
        self._clean(bit)

    # AGING-5
    def rerank(self, ask: Ask, bit: int) -> None:
        """Take over a pending ask with another rank, in whatever order it is."""
        name = ask.name
        if name in self.backing_off:
            self.tally.replace(-self.backing_off[name].rank, -ask.rank)
            self.backing_off[name] = ask
        elif ask.gang is not None:
            self.remove(ask, bit)
            self.add(ask, bit)
        else:
            before, self.pending[name] = self.pending[name], ask
            self.tally.replace(-before.rank, -ask.rank)
            if name in self._tried:
                self._tried[name] = bit, ask
                return
            heappush(self._plain, ask)
            if self._plain[0] is before or len(self._plain) > 2 * len(self.pending) + _STALE:
                self._tidy(self._plain)
            if self._by_shape is not None:
                heap = self._by_shape[bit]
                heappush(heap, ask)
                if heap[0] is before or len(heap) > 2 * len(self.pending) + _STALE:
                    self._tidy(heap)

    # BACKOFF-6
    def set_aside(self, ask: Ask, bit: int) -> None:
        """Do not offer a pending ask, but count it."""
        ask = self.pending[ask.name]
        self.remove(ask, bit)
        self.backing_off[ask.name] = ask
        self.tally.add(-ask.rank)
        add_to(self.pending_total, ask.resources.amounts)

    def take_back(self, ask: Ask, bit: int) -> None:
        """Undo :meth:`set_aside`; a gang member must have a slot."""
        ask = self.backing_off.pop(ask.name)
        self.tally.remove(-ask.rank)
        take_from(self.pending_total, ask.resources.amounts)
        self.add(ask, bit)

    def relist(self) -> None:
        """Offer the first members of the slots that have lost members, before a round reads them.

        A group takes the nodes for its members one after the other, and no round looks at the
        application in between.
        """
        for slot in self.to_relist.values():
            if slot.offer is Offer.FIRST:
                slot.relist()
        self.to_relist.clear()

    def _withdraw_plain(self, bit: int, counted: bool) -> None:
        """Stop offering a plain ask; ``counted`` is whether it was untried until now."""
        if counted:
            counts = self._counts
            if counts[bit] > 1:
                counts[bit] -= 1
            else:
                del counts[bit]
                self._plain_mask ^= 1 << bit
                self.mask = self._plain_mask | self._member_mask
        plain = self._plain
        # Mostly the next ask is offered, and nothing is to be tidied.
        is_offered = plain and self.pending.get(plain[0].name) is plain[0] and not self._tried
        if not is_offered or len(plain) > 2 * len(self.pending) + _STALE:
            self._tidy(plain)
        if self._by_shape is not None:
            heap = self._by_shape.get(bit)
            if heap is not None:
                self._tidy(heap)
                if not heap:
                    del self._by_shape[bit]

    def _tidy(self, heap: list[Ask]) -> None:
        """Remove asks from the top of a heap of plain asks until the top is offered."""
        pending, tried = self.pending, self._tried
        while heap:
            ask = heap[0]
            if pending.get(ask.name) is ask and ask.name not in tried:
                break
            heappop(heap)
        if len(heap) > 2 * len(pending) + _STALE:
            heap[:] = {ask.name: ask for ask in heap if self.has_untried(ask)}.values()
            heapify(heap)

    def best(self, mask: int) -> tuple[int, Ask]:
        """Return the first ask in order of those offered under the bits in ``mask``.

        At least one of the bits must be in the application's own mask.
        """
        mask &= self.allowed
        best: Ask | None = None
        best_bit = 0
        if self._plain_mask & mask:
            best = self._plain[0]
            best_bit = self._bits[best.shape]
            if not mask >> best_bit & 1:
                best_bit, best = self._best_of_shapes(mask & self._plain_mask)
        if self._member_mask & mask:
            order = None if best is None else best.order
            for bit in bits_of(mask & self._member_mask):
                top = self._members[bit][0]
                if order is None or top[0] < order:
                    order, best, best_bit = top
        assert best is not None, "searched for a shape that is not there"
        return best_bit, best

    def _best_of_shapes(self, mask: int) -> tuple[int, Ask]:
        heaps = self._shape_heaps()
        best, bit = min([(heaps[bit][0], bit) for bit in bits_of(mask)])
        return bit, best

    def _shape_heaps(self) -> dict[int, list[Ask]]:
        if self._by_shape is None:
            heaps: dict[int, list[Ask]] = {}
            for ask in sorted(filter(self.has_untried, self._plain)):  # A sorted list is a heap.
                heaps.setdefault(self._bits[ask.shape], []).append(ask)
            self._by_shape = heaps
        return self._by_shape

    def first_of(
        self, bit: int, accepts: Callable[[Ask], bool], order_of: Callable[[Ask], AskOrder]
    ) -> tuple[AskOrder, Ask] | None:
        """Return the first accepted ask offered under a bit, with its position, or None."""
        found: list[tuple[AskOrder, Ask]] = []
        plain, members = self._shape_heaps().get(bit), self._members.get(bit)
        if plain:
            ask = plain[0]
            if accepts(ask):
                found.append((order_of(ask), ask))
            else:
                rest = (one for one in plain if self.has_untried(one) and accepts(one))
                found.extend((order_of(one), one) for one in rest)
        if members:
            offered = (entry for entry in members if self._offered(entry) and accepts(entry[1]))
            found.extend((order, ask) for order, ask, _ in offered)
        return min(found, default=None)

    def each_of(self, bit: int) -> Iterator[Ask]:
        """Iterate over the asks that are offered under the bit of a shape, in any order."""
        yield from filter(self.has_untried, self._shape_heaps().get(bit, ()))
        for entry in self._members.get(bit, ()):
            if self._offered(entry):
                yield entry[1]

    # ROUND-11
    def has_untried(self, ask: Ask) -> bool:
        """Return whether an ask is pending and was not tried in this round."""
        return self.pending.get(ask.name) is ask and ask.name not in self._tried

    # PRIORITY-17, ROUND-11
    def tried(self, ask: Ask, bit: int) -> None:
        """Do not offer a pending ask again in this round."""
        self._tried[ask.name] = (bit, ask)
        if ask.gang is None:
            self._withdraw_plain(bit, counted=True)
            return
        slot = self.slots[ask.gang]
        if slot.offer is Offer.FIRST:
            slot.relist()
        self._clean(bit)

    def start_round(self) -> None:
        """Offer again the asks that were tried in the last round."""
        tried, self._tried = self._tried, {}
        for bit, ask in tried.values():
            if ask.gang is None:
                self._offer_plain(ask, bit)
            else:
                slot = self.slots[ask.gang]
                slot.push(ask)
                self._offer_member(slot, ask, bit)

    def values(self) -> Values:
        """Return the values of the application that its queue counts."""
        return Values(self.tally.top(), dict(self.pending_total), dict(self.allocated))

    def free(self) -> Steps[None]:
        """Free the memory in steps, when the scheduler ends; nothing may follow."""
        yield from freed(self.pending, self.parked, self.waiting, self.bound, self.backing_off)
        yield from freed(self._plain, *(self._by_shape or {}).values(), *self._members.values())

    def push(self, order: AskOrder, ask: Ask, bit: int) -> None:
        """Offer a gang member under a bit."""
        heap = self._members.get(bit)
        if heap is None:
            self._members[bit] = [(order, ask, bit)]
            self._member_mask |= 1 << bit
            self.mask |= 1 << bit
        else:
            heappush(heap, (order, ask, bit))

    def clean(self, bits: Iterable[int]) -> None:
        """Record that gang members are no longer offered under these bits."""
        for bit in bits:
            self._clean(bit)

    def _offered(self, entry: Entry) -> bool:
        order, ask, bit = entry
        if not self.has_untried(ask):
            return False
        slot = self.slots[ask.gang or ""]
        if not slot.has_order(ask, order):
            return False
        if slot.offer is Offer.FIRST:
            return slot.listed is ask and bit == slot.visit_bit
        return slot.offer is Offer.EACH and bit == slot.members[ask.name][1]

    def _clean(self, bit: int) -> None:
        """Remove members from the top of a heap until the top is offered; drop an empty heap."""
        heap = self._members.get(bit)
        if heap is None:
            return
        while heap and not self._offered(heap[0]):
            heappop(heap)
        if not heap:
            del self._members[bit]
            self._member_mask &= ~(1 << bit)
            self.mask = self._plain_mask | self._member_mask
        elif len(heap) > 2 * len(self.pending) + _STALE:
            offered = {entry[1].name: entry for entry in heap if self._offered(entry)}
            heap[:] = offered.values()
            heapify(heap)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        places = (self.pending, self.parked, self.waiting, self.bound, self.backing_off)
        names = [name for place in places for name in place]
        assert len(names) == len(set(names))
        # Only asks that exist can have binds that will fail.
        assert set(self.spoilt) <= set(names)
        assert all(self.spoilt.values())
        # Nothing is kept for asks that are gone or hold a node.
        assert all(self.has_no_node(name) for name in self.failed_on)
        # Only asks that exist have binds that failed.
        assert set(self.in_a_row) <= set(names)
        # No slot has to be listed again.
        assert not self.to_relist
        # The cached maximum and sums equal newly computed ones.
        assert self.tally.top() == max((-ask.rank for ask in self.each_pending()), default=None)
        assert sum_of(ask.resources for ask in self.each_pending()) == self.pending_total
        # Every pending ask that was not tried is offered, members as their slot says.
        for slot in self.slots.values():
            slot.check()
        plain = {(ask.name, self._bits[ask.shape]) for ask in self._plain if self.has_untried(ask)}
        members = {
            (entry[1].name, entry[2])
            for heap in self._members.values()
            for entry in heap
            if self._offered(entry)
        }
        names = [name for name, _ in (*plain, *members)]
        assert len(names) == len(set(names))
        assert set(names) == self._to_offer()
        # The masks have a bit for all and only the offered asks, and tops are offered.
        counts = Counter(bit for _, bit in plain)
        assert counts == self._counts
        assert set(bits_of(self._plain_mask)) == set(counts)
        assert set(bits_of(self._member_mask)) == set(self._members) == {bit for _, bit in members}
        assert self.mask == self.offered & self.allowed
        assert all(self._offered(heap[0]) for heap in self._members.values())
        assert not self._plain or self.has_untried(self._plain[0])
        if self._by_shape is not None:
            assert set(self._by_shape) == set(counts)
            for bit, heap in self._by_shape.items():
                assert self.has_untried(heap[0])
                assert {(ask.name, bit) for ask in heap if self.has_untried(ask)} <= plain
                assert len(set(filter(self.has_untried, heap))) == counts[bit]
        self.tally.check()

    def _to_offer(self) -> set[str]:
        names = {name for name, ask in self.pending.items() if ask.gang is None}
        for slot in self.slots.values():
            if slot.offer is Offer.EACH:
                names |= set(slot.members)
            elif slot.offer is Offer.FIRST and (first := slot.first()) is not None:
                names.add(first.name)
        return names - set(self._tried)
