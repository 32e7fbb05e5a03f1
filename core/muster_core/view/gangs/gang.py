"""Gangs as a round sees them: who holds a node, what is missing, and who belongs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.gangs.definition import GangDefinition, GangMode
from muster_core.gangs.states import GangState, GangTrigger, next_gang_state
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.slots import Offer, Slot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Allocation, Ask
    from muster_core.view.tree.queue import ViewQueue


@final
@attrs.frozen(eq=False)
class Hold:
    """A waiting member, or where that is said a bound ask.

    Attributes:
        app: Its application.
        allocation: What it holds.
        node: Its node.
        number: Its place in the order in which asks were bound, or began to wait.
        bound: It is bound; else it waits.
    """

    app: ViewApp
    allocation: Allocation
    node: Node
    number: int
    bound: bool = False


@final
@attrs.define(eq=False)
class ViewGang:
    """One gang.

    Attributes:
        name: Its full name.
        key: Its number; 0 while its owner has not been heard of.
        definition: What defines it, or None.
        creation: The position of the event that defined it, or None.
        state: Its state.
        cycle_valid: Its schedule cycle is valid.
        slots: Its pending members, by the key of their application.
        waiting: Its waiting members by application and name, in the order of their waits.
        parked: Its parked members.
        bound: Its bound members.
        since_us: When the present wait began, in microseconds, or None.
    """

    name: str
    key: int = 0
    definition: GangDefinition | None = None
    creation: int | None = None
    state: GangState = GangState.PLACEHOLDER
    cycle_valid: bool = True
    slots: dict[int, Slot[ViewApp]] = attrs.field(factory=dict[int, Slot[ViewApp]])
    waiting: dict[tuple[int, str], Hold] = attrs.field(factory=dict["tuple[int, str]", Hold])
    parked: dict[tuple[int, str], None] = attrs.field(factory=dict["tuple[int, str]", None])
    bound: dict[tuple[int, str], None] = attrs.field(factory=dict["tuple[int, str]", None])
    since_us: int | None = None

    @property
    def satisfied(self) -> bool:
        """Whether it constrains nothing."""
        return self.state is GangState.SATISFIED

    @property
    def pending(self) -> int:
        """How many of its members are pending."""
        return sum(len(slot.members) for slot in self.slots.values())

    @property
    def children(self) -> int:
        """How many members it has."""
        return self.pending + len(self.parked) + self.held

    @property
    def held(self) -> int:
        """How many of its members are waiting or bound."""
        return len(self.waiting) + len(self.bound)

    @property
    def missing(self) -> int:
        """How many more members have to hold a node; 0 if it needs none, or is not defined."""
        definition = self.definition
        if definition is None or self.state is GangState.SATISFIED:
            return 0
        lack = definition.min_member - len(self.waiting) - len(self.bound)
        return lack if lack > 0 else 0  # noqa: FURB136 - a call of max() would double the time

    @property
    def strict(self) -> bool:
        """Whether it makes its group Strict."""
        return self.definition is not None and self.definition.mode is GangMode.STRICT

    def admits(self) -> bool:
        """Say whether PreFilter could let a member through, as far as the gang itself goes."""
        if self.satisfied:
            return True
        definition = self.definition
        if definition is None or self.state is GangState.TIMED_OUT:
            return False
        lack = definition.min_member - len(self.waiting) - len(self.bound) - len(self.parked)
        for slot in self.slots.values():
            if lack <= 0:
                break
            lack -= len(slot.members)
        return lack <= 0

    def complete(self) -> bool:
        """Say whether nothing is missing for its group to be bound."""
        return self.definition is not None and not self.missing and self.admits()

    def trigger(self, trigger: GangTrigger) -> None:
        """Let something happen to it."""
        self.state = next_gang_state(self.state, trigger, defined=self.definition is not None)

    def rank(self) -> tuple[bool, int, str]:
        """Give its place in the order of creation; those that are not defined are last."""
        return (self.creation is None, self.creation or 0, self.name)


@final
@attrs.frozen(eq=False)
class CycleFailure:
    """How a cycle of a Strict group became invalid.

    Attributes:
        app: The application of the member that fitted nowhere.
        ask: The member.
        blocked: Its leaf was blocked.
        full: The nearest queue whose ``max`` had no room for it, or None.
        held: How many members of the group held nodes then.
    """

    app: ViewApp
    ask: Ask
    blocked: bool
    full: ViewQueue | None
    held: int


@final
@attrs.define(eq=False)
class ViewGroup:
    """A group of gangs.

    Attributes:
        names: The names that it connects, those that no gang has included.
        gangs: Those of them that there are, in the order of their creation.
        barred: A member of the Strict group fitted nowhere in this round.
        hopeless: The Strict group was found not to fit, in room that has not grown since.
        room: What :attr:`NodeIndex.grown` was when that was found.
    """

    names: tuple[str, ...]
    gangs: list[ViewGang]
    barred: bool = False
    hopeless: bool = False
    room: int = -1

    @property
    def strict(self) -> bool:
        """Whether one member that fits nowhere takes the waiting ones with it."""
        return any(gang.strict for gang in self.gangs)

    @property
    def creation(self) -> tuple[bool, int, str]:
        """The place of its oldest gang in the order of creation."""
        return self.gangs[0].rank()

    def may_complete(self) -> bool:
        """Say whether every gang of it could have enough members."""
        return len(self.gangs) == len(self.names) and all(gang.admits() for gang in self.gangs)

    def complete(self) -> bool:
        """Say whether nothing is missing for it to be bound."""
        if len(self.gangs) != len(self.names):
            return False
        for gang in self.gangs:  # noqa: SIM110 - this is asked after each member that gets a node
            if not gang.complete():
                return False
        return True

    def unsatisfied(self) -> list[ViewGang]:
        """Give those gangs that are defined and not satisfied, in the order of creation."""
        return [gang for gang in self.gangs if gang.definition is not None and not gang.satisfied]

    def holds(self) -> list[Hold]:
        """Give all waiting members, in the order of their waits."""
        return holds_of(self.gangs)

    def offer_of(self, gang: ViewGang) -> Offer:
        """Say how the pending members of one of its gangs are to be offered."""
        if not gang.admits():
            return Offer.NONE
        if gang.satisfied:
            return Offer.EACH
        if self.barred:
            return Offer.NONE
        if not gang.missing:
            return Offer.FIRST if self.may_complete() and not self.hopeless else Offer.NONE
        if self.strict:
            return Offer.NONE if self.hopeless else Offer.FIRST
        return Offer.EACH


def holds_of(gangs: Iterable[ViewGang]) -> list[Hold]:
    """Give the waiting members of gangs, in the order of their waits."""
    holds = (hold for gang in gangs for hold in gang.waiting.values())
    return sorted(holds, key=lambda hold: hold.number)
