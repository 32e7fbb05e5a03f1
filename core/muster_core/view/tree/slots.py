"""A gang's pending members in one application, and how they are offered to a round.

A round asks applications for the first ask that could be placed. A gang member is not
always offered like any other ask:

- While its gang is satisfied, or its group is NonStrict, it is offered like a plain ask: a
  member that fits nowhere can be passed over, since trying it would do nothing.
- In a Strict group the first of an application's members is offered, whether it fits or
  not, since a member that fits nowhere makes the waiting members of its group release
  their nodes.
- The first surplus member is offered in the same way while the group may still become
  complete in this round, since its refusal counts as a try.
- Otherwise no member is offered: it would be refused, without effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, final

import attrs

from muster_core.structures.shapes import VISIT_BIT

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask, AskOrder


class Host(Protocol):
    """What a slot needs of its application."""

    def has_untried(self, ask: Ask, /) -> bool:
        """Return whether an ask is pending and was not tried in this round."""
        ...

    def push(self, order: AskOrder, ask: Ask, bit: int, /) -> None:
        """Offer an ask under a shape's bit."""

    def clean(self, bits: Iterable[int], /) -> None:
        """Record that asks with these bits are no longer offered."""


A = TypeVar("A", bound=Host)


@final
class Offer(Enum):
    """How the pending members that a gang has in an application are offered to a round."""

    NONE = "not at all"
    EACH = "each as what it needs"
    FIRST = "the first of them, whether it fits or not"


# Looking up a member of an enum takes ten times as long, and this is done for each member.
NONE: Final = Offer.NONE
EACH: Final = Offer.EACH
FIRST: Final = Offer.FIRST


@final
@attrs.define(eq=False)
class Slot(Generic[A]):
    """The pending members that one gang has in one application.

    Attributes:
        app: The application.
        gang: The full name of the gang.
        creation: The position of the event that defined the gang, or None.
        members: All these members by name, each with the bit of its shape.
        bits: How many of them have each shape; no zeros.
        offer: How they are offered.
        visit_bit: The bit under which the first member is offered with ``Offer.FIRST``.
        listed: The member that is offered now with ``Offer.FIRST``.
    """

    app: A
    gang: str
    creation: int | None
    members: dict[str, tuple[Ask, int]] = attrs.field(factory=dict[str, "tuple[Ask, int]"])
    bits: dict[int, int] = attrs.field(factory=dict[int, int])
    offer: Offer = Offer.NONE
    visit_bit: int = VISIT_BIT
    listed: Ask | None = None
    #: All untried members in order, and perhaps others; the top may be out of date.
    _heap: list[tuple[AskOrder, Ask]] = attrs.field(
        factory=list["tuple[AskOrder, Ask]"], init=False
    )

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
        if self.listed is not None and (offer is not FIRST or visit_bit != self.visit_bit):
            self.listed = None
            self.app.clean((self.visit_bit,))
        self.visit_bit = visit_bit
        if before is EACH and offer is not EACH:
            self.app.clean(self.bits)
        if offer is FIRST:
            self.relist()
        elif offer is EACH and before is not EACH:
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
