"""Gangs and their groups as a round sees them: members with a node, missing and pending members.

The topology state of a gang (TOPOLOGY-3 to TOPOLOGY-9) says which domains its members are in, and
what that means for the others. A domain is all nodes with one value of the attribute. A member that
holds a node without the attribute is in no domain, and does not count there.

:mod:`muster_core.view.permits` decides what a round does with gangs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, final

import attrs

from muster_core.gangs import (
    GangDefinition,
    GangMode,
    GangState,
    GangTrigger,
    Topology,
    TopologyRule,
    next_gang_state,
)
from muster_core.nodes.node import Holder, Node
from muster_core.owners.asks import Allocation, Ask
from muster_core.owners.gang import GangTimeout
from muster_core.values.records import MAP
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import Offer, Slot, ViewLimit
from muster_core.view.tree.queue import ViewQueue


@final
@attrs.frozen(eq=False)
class Hold:
    """The hold of a waiting member on a node, or of a bound ask where a function names that.

    Attributes:
        number: Its position in the order in which asks were bound or began to wait.
        bound: Whether it is bound; otherwise it waits.
    """

    app: ViewApp
    allocation: Allocation
    node: Node
    number: int
    bound: bool = False

    def will_fail(self) -> bool:
        """Return whether the next bind of the ask will fail."""
        spoilt = self.app.spoilt
        return bool(spoilt) and self.allocation.ask.name in spoilt


@final
@attrs.define(eq=False)
class ViewGang:
    """One gang.

    Attributes:
        key: Its number; 0 until its owner has reported.
        slots: Its pending members that do not back off, by the key of their application.
        backing_off: Its pending members that back off, so that none of them is picked.
        waiting: Its waiting members by application and name, in the order of their waits.
        timeouts: How many timeouts in a row have marked it.
        timeout: The one that has marked it now, if one has.
    """

    name: str
    key: int = 0
    definition: GangDefinition | None = None
    creation: int | None = None
    state: GangState = GangState.PLACEHOLDER
    cycle_valid: bool = True
    slots: dict[int, Slot[ViewApp]] = attrs.field(factory=MAP)
    backing_off: dict[tuple[int, str], None] = attrs.field(factory=MAP)
    waiting: dict[tuple[int, str], Hold] = attrs.field(factory=MAP)
    parked: dict[tuple[int, str], None] = attrs.field(factory=MAP)
    bound: dict[tuple[int, str], None] = attrs.field(factory=MAP)
    since_us: int | None = None
    timeouts: int = 0
    timeout: GangTimeout | None = None

    @property
    def satisfied(self) -> bool:
        """Whether it is satisfied, so that it constrains no member."""
        return self.state is GangState.SATISFIED

    @property
    def pending(self) -> int:
        """How many of its members are pending and do not back off."""
        return sum(len(slot.members) for slot in self.slots.values())

    @property
    def children(self) -> int:
        """How many members it has."""
        return self.pending + len(self.backing_off) + len(self.parked) + self.held

    @property
    def held(self) -> int:
        """How many of its members are waiting or bound."""
        return len(self.waiting) + len(self.bound)

    def members(self) -> Iterator[tuple[int, str]]:
        """Yield all its members, each with the key of its application; those that lack a node first."""
        for key, slot in self.slots.items():
            for name in slot.members:
                yield key, name
        yield from chain(self.backing_off, self.parked, self.waiting, self.bound)

    # GANG-19
    @property
    def missing(self) -> int:
        """How many more members must hold a node; 0 if it needs none, or is not defined."""
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
        """Return whether the gang itself lets a member through PreFilter."""
        # GANG-49
        if self.satisfied:
            return True
        definition = self.definition
        # GANG-21, GANG-23
        if definition is None or self.state is GangState.TIMED_OUT:
            return False
        # GANG-22
        lack = definition.min_member - len(self.waiting) - len(self.bound) - len(self.parked)
        # BACKOFF-7
        if self.backing_off:
            lack -= len(self.backing_off)
        for slot in self.slots.values():
            if lack <= 0:
                break
            lack -= len(slot.members)
        return lack <= 0

    def is_refused(self) -> bool:
        """Return whether PreFilter refuses every pending member when a round begins."""
        return not self.satisfied and not (self.missing and self.admits())

    # BACKOFF-7
    def is_held_back(self) -> bool:
        """Return whether it lacks nodes for more members than do not back off."""
        return bool(self.backing_off) and self.missing > self.pending

    # GANG-30
    def complete(self) -> bool:
        """Return whether the gang lacks nothing that its group needs to be bound."""
        return self.definition is not None and not self.missing and self.admits()

    def trigger(self, trigger: GangTrigger) -> None:
        """Change its state by a trigger."""
        self.state = next_gang_state(self.state, trigger, defined=self.definition is not None)

    # GANG-50
    def lose(self) -> bool:
        """Become unsatisfied if no member is bound, and those that are left are enough.

        This is called after a step in which a member was evicted, or its bind failed.

        Returns:
            Whether it is unsatisfied again.
        """
        definition = self.definition
        if not self.satisfied or definition is None or self.bound:
            return False
        if self.children < definition.min_member:
            return False
        self.trigger(GangTrigger.ALL_LOST)
        # GANG-51
        self.since_us = None
        return True

    # GANG-47
    def all_fail(self) -> bool:
        """Return whether no member is bound, and the next bind of each waiting one will fail."""
        return not self.bound and all(hold.will_fail() for hold in self.waiting.values())

    def rank(self) -> tuple[bool, int, str]:
        """Return its position in the order of creation; undefined gangs are last."""
        return (self.creation is None, self.creation or 0, self.name)


@final
@attrs.frozen(eq=False)
class CycleFailure:
    """How a cycle of a Strict group became invalid.

    Attributes:
        app: The application of the member that fitted nowhere.
        blocked: Whether its leaf was blocked.
        full: The nearest queue whose ``max`` had no room for it, or None.
        limit: The nearest limit of a user or a group that had no room for it, or None.
        held: How many members of the group held nodes at that time.
        held_back: Whether it fitted a node, but would have delayed a reservation.
        misplaced: Whether a node had room that its gang's topology did not let it take.
    """

    app: ViewApp
    ask: Ask
    blocked: bool
    full: ViewQueue | None
    limit: ViewLimit[ViewApp] | None
    held: int
    held_back: bool = False
    misplaced: bool = False


@final
@attrs.define(eq=False)
class ViewGroup:
    """A group of gangs.

    Attributes:
        names: The names of the gangs that it connects, including names that no gang has.
        gangs: The gangs of these names that exist, in the order of their creation.
        barred: Whether a member of the Strict group fitted nowhere in this round.
        hopeless: Whether the Strict group was found not to fit, and room has not grown since.
        room: The value of :attr:`NodeIndex.grown` at that time.
    """

    names: tuple[str, ...]
    gangs: list[ViewGang]
    barred: bool = False
    hopeless: bool = False
    room: int = -1

    # GANG-8
    @property
    def strict(self) -> bool:
        """Whether all waiting members release their nodes if one member fits nowhere."""
        for gang in self.gangs:  # noqa: SIM110 - asked of every group; a generator takes twice as long
            if gang.strict:
                return True
        return False

    @property
    def creation(self) -> tuple[bool, int, str]:
        """The position of its oldest gang in the order of creation."""
        return self.gangs[0].rank()

    def may_complete(self) -> bool:
        """Return whether all its gangs exist and have enough members that can be picked.

        It may still lack a definition: a Pod that runs satisfies a gang that nothing defines.
        """
        return len(self.gangs) == len(self.names) and all(
            gang.admits() and not gang.is_held_back() for gang in self.gangs
        )

    # BACKFILL-25
    def lacks_only_nodes(self) -> bool:
        """Return whether it can be bound as soon as its members have nodes."""
        return self.may_complete() and all(gang.definition is not None for gang in self.gangs)

    # GANG-30
    def complete(self) -> bool:
        """Return whether it lacks nothing to be bound."""
        if len(self.gangs) != len(self.names):
            return False
        for gang in self.gangs:  # noqa: SIM110 - this is called after each member that gets a node
            if not gang.complete():
                return False
        return True

    def unsatisfied(self) -> list[ViewGang]:
        """Return the gangs that are defined and not satisfied, in the order of creation."""
        return [gang for gang in self.gangs if gang.definition is not None and not gang.satisfied]

    def holds(self) -> list[Hold]:
        """Return all waiting members, in the order of their waits."""
        return holds_of(self.gangs)

    def offer_of(self, gang: ViewGang) -> Offer:
        """Return how the pending members of one of its gangs are to be offered."""
        # GANG-26
        if not gang.admits():
            return Offer.NONE
        if gang.satisfied:
            return Offer.EACH
        # GANG-25, GANG-28
        if self.barred:
            return Offer.NONE
        # A surplus member is refused in its turn; it has one only if its group may be complete then.
        if not gang.missing:
            return Offer.FIRST if self.may_complete() and not self.hopeless else Offer.NONE
        if self.strict:
            return Offer.NONE if self.hopeless else Offer.FIRST
        return Offer.EACH


def holds_of(gangs: Iterable[ViewGang]) -> list[Hold]:
    """Return the waiting members of gangs, in the order of their waits."""
    holds = (hold for gang in gangs for hold in gang.waiting.values())
    return sorted(holds, key=lambda hold: hold.number)


MemberKey = tuple[int, int, int]
"""Which ask it is: the key of its application, and its place in the input."""


@final
class Member(NamedTuple):
    """An ask of a gang or of a party."""

    app: ViewApp
    ask: Ask

    @property
    def key(self) -> MemberKey:
        """What no other ask has."""
        return (self.app.identity.key, self.ask.seq, self.ask.number)

    @property
    def holder(self) -> Holder:
        """What a node knows it by: at any time, no other ask has that."""
        return (self.app.identity.key, self.ask.name)

    def is_pending(self) -> bool:
        """Return whether the ask is pending, so that it may hold its reservation."""
        found = self.app.pending.get(self.ask.name)
        return found is not None and found.is_same(self.ask)


def pending_members(gang: ViewGang) -> list[Member]:
    """Return the pending members of a gang that do not back off, in no particular order."""
    return [
        Member(slot.app, ask) for slot in gang.slots.values() for ask, _ in slot.members.values()
    ]


@final
@attrs.frozen(eq=False)
class TopologyState:
    """The members of a gang in domains, at one moment.

    Attributes:
        counts: How many members hold nodes in each domain; no zeros.
        home: The domain of the earliest assigned of them, or None if there are none.
    """

    topology: Topology
    counts: Mapping[str, int]
    home: str | None

    # TOPOLOGY-2
    def domain_of(self, node: Node) -> str | None:
        """Return the domain of a node, or None if it is in none."""
        return node.attributes.get(self.topology.attribute)

    # TOPOLOGY-7
    @property
    def must_choose(self) -> bool:
        """Whether a domain must be chosen before a member gets a node."""
        return self.home is None and self.topology.rule is not TopologyRule.SPREAD

    # TOPOLOGY-12
    def lets(self, node: Node) -> bool:
        """Return whether the rule lets a member be on a node, whatever domain is chosen."""
        rule = self.topology.rule
        if rule is not TopologyRule.SAME and rule is not TopologyRule.SPREAD:
            return True
        domain = self.domain_of(node)
        if domain is None:
            return False
        # TOPOLOGY-4
        if rule is TopologyRule.SAME:
            return self.home is None or domain == self.home
        # TOPOLOGY-6
        most = self.topology.max
        return most is None or self.counts.get(domain, 0) < most

    def place(self, node: Node, chosen: str | None = None) -> int | None:
        """Return how early a node is taken, before the order of nodes; 0 is the earliest.

        Args:
            node: The node.
            chosen: The chosen domain, if :attr:`must_choose`; None if there is none.

        Returns:
            The place; None if the rule does not let a member be there.
        """
        rule, domain = self.topology.rule, self.domain_of(node)
        # TOPOLOGY-6
        if rule is TopologyRule.SPREAD:
            return self.counts.get(domain or "", 0) if self.lets(node) else None
        # TOPOLOGY-4
        if rule is TopologyRule.SAME:
            return 0 if domain is not None and domain == (self.home or chosen) else None
        # TOPOLOGY-5
        return 0 if domain is not None and (domain in self.counts or domain == chosen) else 1


# TOPOLOGY-3
def topology_of(gang: ViewGang) -> Topology | None:
    """Return the topology of a gang while it is defined, satisfied or not; None without one."""
    return None if gang.definition is None else gang.definition.topology


def topology_state_of(gang: ViewGang, apps: Mapping[int, ViewApp]) -> TopologyState | None:
    """Return the domains of a gang's members now; None without a topology."""
    topology = topology_of(gang)
    if topology is None:
        return None
    return topology_state_from(topology, held_nodes(gang, apps))


def topology_state_from(topology: Topology, held: Iterable[tuple[int, Node]]) -> TopologyState:
    """Return the domains of a gang's members that hold some nodes.

    Args:
        topology: The topology of the gang.
        held: When each of these members was assigned, as the place among all that were, and its
            node.
    """
    counts: dict[str, int] = {}
    home, first = None, -1
    for age, node in held:
        domain = node.attributes.get(topology.attribute)
        if domain is None:
            continue
        counts[domain] = counts.get(domain, 0) + 1
        # TOPOLOGY-4
        if home is None or age < first:
            home, first = domain, age
    return TopologyState(topology, counts, home)


def held_nodes(
    gang: ViewGang, apps: Mapping[int, ViewApp], without: Container[Holder] = ()
) -> Iterator[tuple[int, Node]]:
    """Yield when each waiting and each bound member of a gang was assigned, and its node."""
    for holder in gang.bound:
        if holder not in without:
            key, name = holder
            allocation, node = apps[key].bound[name]
            yield allocation.age, node
    for holder, hold in gang.waiting.items():
        if holder not in without:
            yield hold.allocation.age, hold.node
