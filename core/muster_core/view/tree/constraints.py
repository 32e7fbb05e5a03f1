"""What restricts which pending asks of an application may be placed: its gangs and its limits.

A slot is a gang's pending members in one application. A round asks applications for the first ask
that could be placed. A gang member is not always offered like any other ask:

- While its gang is satisfied, or its group is NonStrict, it is offered like a plain ask: a member
  that fits nowhere can be passed over, since trying it would do nothing.
- In a Strict group the first of an application's members is offered, whether it fits or not, since
  a member that fits nowhere makes the waiting members of its group release their nodes.
- The first surplus member is offered in the same way while the group may still become complete in
  this round, since its refusal counts as a try.
- Otherwise no member is offered: it would be refused, without effect.

A limit is what one user, or one group, may use in a queue and all below it (LIMIT-5 to LIMIT-13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, final

import attrs

from muster_core.enumerations import quick_members
from muster_core.owners.asks import AppIdentity, Ask, AskOrder
from muster_core.structures.amounts import add_to, sum_of, take_from
from muster_core.structures.shapes import VISIT_BIT, ShapeTable
from muster_core.values.configuration import LimitEntry
from muster_core.values.records import LIST, MAP
from muster_core.values.resources import Resources
from muster_core.values.snapshots import LimitSnapshot


class SlotHost(Protocol):
    """What a slot needs of its application."""

    def has_untried(self, ask: Ask, /) -> bool:
        """Return whether an ask is pending and was not tried in this round."""
        ...

    def push(self, order: AskOrder, ask: Ask, bit: int, /) -> None:
        """Offer an ask under a shape's bit."""

    def clean(self, bits: Iterable[int], /) -> None:
        """Record that asks with these bits are no longer offered."""


A = TypeVar("A", bound=SlotHost)


@final
@quick_members
class Offer(Enum):
    """How the pending members that a gang has in an application are offered to a round."""

    NONE = "not at all"
    EACH = "each as what it needs"
    FIRST = "the first of them, whether it fits or not"


@final
@attrs.define(eq=False)
class Slot(Generic[A]):
    """The pending members that one gang has in one application.

    Attributes:
        creation: The position of the event that defined the gang, or None.
        members: All these members by name, each with the bit of its shape.
        bits: How many of them have each shape; no zeros.
        visit_bit: The bit under which the first member is offered with ``Offer.FIRST``.
        listed: The member that is offered now with ``Offer.FIRST``.
    """

    app: A
    gang: str
    creation: int | None
    members: dict[str, tuple[Ask, int]] = attrs.field(factory=MAP)
    bits: dict[int, int] = attrs.field(factory=MAP)
    offer: Offer = Offer.NONE
    visit_bit: int = VISIT_BIT
    listed: Ask | None = None
    #: All untried members in order, and perhaps others; the top may be out of date.
    _heap: list[tuple[AskOrder, Ask]] = attrs.field(factory=LIST, init=False)

    def order_of(self, ask: Ask) -> AskOrder:
        """Return the position of a member among the asks of its application."""
        return ask.order_in(self.creation)

    def has_order(self, ask: Ask, order: AskOrder) -> bool:
        """Return whether a former position of a member is its position now.

        Only the creation of its gang can have changed.
        """
        creation = order[1]
        return creation == (ask.creation if self.creation is None else self.creation)

    def add(self, ask: Ask, bit: int) -> None:
        """Add a pending member."""
        self.members[ask.name] = (ask, bit)
        self.bits[bit] = self.bits.get(bit, 0) + 1
        self.push(ask)

    def remove(self, ask: Ask) -> None:
        """Remove a member."""
        _, bit = self.members.pop(ask.name)
        self.bits[bit] -= 1
        if not self.bits[bit]:
            del self.bits[bit]

    def push(self, ask: Ask) -> None:
        """Make a member untried."""
        heappush(self._heap, (self.order_of(ask), ask))

    def first(self) -> Ask | None:
        """Return the first untried member, or None."""
        heap, app = self._heap, self.app
        while heap and not app.has_untried(heap[0][1]):
            heappop(heap)
        return heap[0][1] if heap else None

    def untried(self) -> list[Ask]:
        """Return all untried members, in no order."""
        return [ask for ask, _ in self.members.values() if self.app.has_untried(ask)]

    # CHECKPOINT-6
    def names(self) -> tuple[str, ...]:
        """Return the names of all members, in order."""
        asks = sorted((ask for ask, _ in self.members.values()), key=self.order_of)
        return tuple(ask.name for ask in asks)

    def reorder(self, creation: int | None) -> None:
        """Record a new creation of the gang."""
        self.creation = creation
        self._heap = [(self.order_of(ask), ask) for ask in self.untried()]
        heapify(self._heap)

    def set_offer(self, offer: Offer, visit_bit: int = VISIT_BIT) -> None:
        """Change how the members are offered.

        Args:
            offer: The new way.
            visit_bit: The bit under which the first member is offered with ``Offer.FIRST``.
        """
        before, self.offer = self.offer, offer
        if self.listed is not None and (offer is not Offer.FIRST or visit_bit != self.visit_bit):
            self.listed = None
            self.app.clean((self.visit_bit,))
        self.visit_bit = visit_bit
        if before is Offer.EACH and offer is not Offer.EACH:
            self.app.clean(self.bits)
        if offer is Offer.FIRST:
            self.relist()
        elif offer is Offer.EACH and before is not Offer.EACH:
            for ask in self.untried():
                self.app.push(self.order_of(ask), ask, self.members[ask.name][1])

    def relist(self) -> None:
        """Offer the first member with ``Offer.FIRST``, if it is another one now."""
        first = self.first()
        if first is self.listed:
            return
        self.listed = first
        if first is not None:
            order, _ = self._heap[0]
            self.app.push(order, first, self.visit_bit)
        self.app.clean((self.visit_bit,))

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        bits: dict[int, int] = {}
        for name, (ask, bit) in self.members.items():
            assert ask.name == name
            assert ask.gang == self.gang
            bits[bit] = bits.get(bit, 0) + 1
        assert bits == self.bits
        first = self.first()
        untried = self.untried()
        assert first is (min(untried, key=self.order_of) if untried else None)


_NOTHING: Final[Mapping[str, int]] = {}


@final
class LimitKey(NamedTuple):
    """The key of a limit: its queue, and its user or group.

    Attributes:
        of_group: Whether it is that of a group.
        name: The user or the group; None for the nameless user.
    """

    queue: int
    of_group: bool
    name: str | None


class LimitedApp(Protocol):
    """What a limit needs of an application."""

    @property
    def identity(self) -> AppIdentity:
        """What never changes about it."""
        ...

    @property
    def allocated(self) -> dict[str, int]:
        """The resources of its bound and waiting asks."""
        ...

    @property
    def running(self) -> bool:
        """Whether it counts for ``maxapplications``."""
        ...

    @property
    def offered(self) -> int:
        """The shapes of its untried asks, allowed or not."""
        ...


LimitedT = TypeVar("LimitedT", bound=LimitedApp)


@final
@attrs.define(eq=False)
class ViewLimit(Generic[LimitedT]):
    """A limit of one user, or of one group, in a queue and all below it.

    Attributes:
        entry: The entry of the configuration.
        apps: The applications that count for it, by key.
        used: The resources of their bound and waiting asks.
        refuses: The shapes of single asks that do not fit in its free amounts, while ``stale`` is
            false. Members of gangs that are offered together are tried one by one.
        stale: Whether something has changed since ``refuses`` was computed.
    """

    key: LimitKey
    path: str
    entry: LimitEntry
    apps: dict[int, LimitedT] = attrs.field(factory=MAP)
    used: dict[str, int] = attrs.field(factory=MAP)
    running: int = 0
    refuses: int = 0
    stale: bool = True
    #: Whether applications that do not run had to wait when ``refuses`` was computed.
    _is_full: bool = attrs.field(default=False, init=False)
    #: What :meth:`lacking` has returned, until something changes.
    _lacking: int | None = attrs.field(default=None, init=False)

    def add(self, app: LimitedT) -> None:
        """Count an application."""
        self.apps[app.identity.key] = app
        add_to(self.used, app.allocated)
        self.running += app.running

    def remove(self, app: LimitedT) -> None:
        """Count an application no longer."""
        del self.apps[app.identity.key]
        take_from(self.used, app.allocated)
        self.running -= app.running

    # LIMIT-9
    def admits_more(self, ask: Ask) -> bool:
        """Return whether an ask fits in the rest of ``maxresources``."""
        return self.has_room_for(ask.resources)

    def has_room_for(self, resources: Resources, more: Mapping[str, int] = _NOTHING) -> bool:
        """Return whether resources fit in the rest of ``maxresources``.

        Args:
            resources: The resources.
            more: How much more would be used; less, if negative.
        """
        for name, most in self.entry.max.amounts:
            amount = resources[name]
            if amount and self.used.get(name, 0) + more.get(name, 0) + amount > most:
                return False
        return True

    # LIMIT-13
    @property
    def is_full(self) -> bool:
        """Whether as many applications run as may, so that the others wait."""
        most = self.entry.max_applications
        return 0 < most <= self.running

    def refresh(self, shapes: ShapeTable) -> bool:
        """Compute the refused shapes; return whether they have changed."""
        self.stale, self._lacking = False, None
        before, was_full = self.refuses, self._is_full
        self.refuses, self._is_full = self._refused(shapes), self.is_full
        return self.refuses != before or self._is_full is not was_full

    def _refused(self, shapes: ShapeTable) -> int:
        return shapes.singles & ~self._fitting(shapes)

    def _fitting(self, shapes: ShapeTable) -> int:
        used = self.used
        room = {name: most - used.get(name, 0) for name, most in self.entry.max.amounts}
        return shapes.fitting_headroom(room)

    def lacking(self, shapes: ShapeTable) -> int:
        """Return the shapes that do not fit in the rest, those of gangs too; perhaps fewer."""
        if self._lacking is None:
            self._lacking = (shapes.singles | shapes.gangs) & ~self._fitting(shapes)
        return self._lacking

    def snapshot(self) -> LimitSnapshot:
        """Return its usage by the user or the group."""
        of_group, name = self.key.of_group, self.key.name
        return LimitSnapshot(
            queue=self.path,
            user=None if of_group else name,
            group=name if of_group else None,
            max=dict(self.entry.max.amounts),
            max_applications=self.entry.max_applications,
            allocated=dict(self.used),
            running=self.running,
        )

    def check(self, shapes: ShapeTable) -> None:
        """Assert the invariants; for tests."""
        # It refuses what it should; shapes that came later are of no ask that counts for it.
        offered = 0
        for app in self.apps.values():
            offered |= app.offered
        assert not (self.refuses ^ self._refused(shapes)) & offered
        assert self._is_full is self.is_full
        # The cached sums equal newly computed ones.
        used = sum_of(app.allocated for app in self.apps.values())
        assert self.used == used
        assert self.running == sum(app.running for app in self.apps.values())
