"""The possible victims on a node: its allocations, in the order of victims.

EVICTION-13. The victims on a node are sorted once and kept; sums over them are computed when
first needed, and kept until the node changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, final

import attrs

from muster_core.view.gangs.gang import Hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from muster_core.nodes.node import Holder, Node
    from muster_core.owners.messages.asks import Allocation
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp

Place = tuple[int, int]
"""The position of a victim among those of its leaf: by priority, then the newest first."""


@final
@attrs.define(eq=False)
class Victim:
    """A bound or waiting ask.

    Attributes:
        app: Its application.
        allocation: Its allocation.
        node: Its node.
        gang: Its gang, or None.
        bound: Whether it is bound; otherwise it waits.
        place: Its position among the victims of its leaf.
    """

    app: ViewApp
    allocation: Allocation
    node: Node
    gang: ViewGang | None
    bound: bool
    place: Place = attrs.field(init=False)

    # RECLAIM-11
    def __attrs_post_init__(self) -> None:
        self.place = (self.allocation.ask.priority, -self.allocation.age)

    @property
    def age(self) -> int:
        """Its position among all assignments, the newest first."""
        return self.place[1]

    @property
    def leaf(self) -> int:
        """The key of its leaf."""
        return self.app.identity.leaf

    def hold(self) -> Hold:
        """Return it as a hold."""
        return Hold(self.app, self.allocation, self.node, self.allocation.number, self.bound)


# EVICTION-13
def victim_of(state: ViewState, key: int, name: str) -> Victim:
    """Return an ask with a node as a victim.

    Args:
        state: The view.
        key: The key of its application.
        name: Its name.
    """
    app = state.apps[key]
    waiting = app.waiting.get(name)
    allocation, node = app.bound[name] if waiting is None else waiting
    gang = allocation.ask.gang
    return Victim(
        app, allocation, node, None if gang is None else state.gangs[gang], waiting is None
    )


@final
@attrs.define(eq=False)
class LeafOnNode:
    """The victims of one leaf on one node.

    Attributes:
        amounts: Their resources in total.
        largest: The most that one of them has of each type.
        plain: The victims without a gang, by priority, then the newest first.
        members: The gang members, in the same order.
    """

    amounts: dict[str, int] = attrs.field(factory=dict[str, int])
    largest: dict[str, int] = attrs.field(factory=dict[str, int])
    plain: list[Victim] = attrs.field(factory=list[Victim])
    members: list[Victim] = attrs.field(factory=list[Victim])
    _newest: list[Victim] | None = attrs.field(default=None, init=False)

    def put(self, victim: Victim) -> None:
        """Add a victim that is after all others in order."""
        amounts, largest = self.amounts, self.largest
        for name, amount in victim.allocation.ask.resources.items():
            amounts[name] = amounts.get(name, 0) + amount
            if amount > largest.get(name, 0):
                largest[name] = amount
        (self.plain if victim.gang is None else self.members).append(victim)

    def in_order(self, *, by_priority: bool) -> list[Victim]:
        """Return the victims without a gang, by priority or only the newest first."""
        if by_priority:
            return self.plain
        if self._newest is None:
            self._newest = sorted(self.plain, key=_age)
        return self._newest

    def lowest(self) -> int:
        """Return the lowest priority."""
        return min(victims[0].place[0] for victims in (self.plain, self.members) if victims)


@final
class PrioritySums:
    """How much could be taken from a node, up to each priority, from any leaf.

    Args:
        victims: All victims on the node, by priority.
    """

    __slots__ = ("_largest", "_sums", "priorities")

    def __init__(self, victims: Iterable[Victim]) -> None:
        #: All priorities, the lowest first.
        self.priorities: list[int] = []
        #: For each type, the sum of all victims up to each priority, and their largest amount.
        self._sums: dict[str, list[int]] = {}
        self._largest: dict[str, list[int]] = {}
        for victim in victims:
            priority = victim.place[0]
            if not self.priorities or self.priorities[-1] != priority:
                self.priorities.append(priority)
                for levels in (*self._sums.values(), *self._largest.values()):
                    levels.append(levels[-1])
            for name, amount in victim.allocation.ask.resources.items():
                sums = self._sums.get(name)
                if sums is None:
                    zeros = [0] * len(self.priorities)
                    sums, self._largest[name] = self._sums.setdefault(name, zeros), list(zeros)
                sums[-1] += amount
                self._largest[name][-1] = max(self._largest[name][-1], amount)

    def level_for(self, lack: Mapping[str, int]) -> int | None:
        """Return the index of the lowest priority up to which the victims suffice.

        Args:
            lack: The amounts to be released; more than 0 of each type.

        Returns:
            The index, or None if all victims together do not suffice.
        """
        level = 0
        for name, amount in lack.items():
            sums = self._sums.get(name)
            if sums is None or sums[-1] < amount:
                return None
            level = max(level, bisect_left(sums, amount))
        return level

    def fewest(self, lack: Mapping[str, int], level: int) -> int:
        """Return a lower bound of the number of victims, with priorities up to a level."""
        return max(-(-amount // self._largest[name][level]) for name, amount in lack.items())


@final
class NodeVictims:
    """All victims on one node."""

    __slots__ = ("_by_leaf", "_parts", "_priority_sums", "held", "victims")

    def __init__(self) -> None:
        #: The victims, by application and name, as of the last look at the node.
        self.held: dict[Holder, Victim] = {}
        #: The same by priority, then the newest first.
        self.victims: list[Victim] = []
        self._by_leaf: dict[int, LeafOnNode] | None = None
        self._priority_sums: PrioritySums | None = None
        self._parts: tuple[list[Victim], list[Victim]] | None = None

    def parts(self) -> tuple[list[Victim], list[Victim]]:
        """Return the victims without a gang, and the gang members, both in order."""
        if self._parts is None:
            plain = [victim for victim in self.victims if victim.gang is None]
            members = [victim for victim in self.victims if victim.gang is not None]
            self._parts = plain, members
        return self._parts

    def by_leaf(self) -> dict[int, LeafOnNode]:
        """Return the victims of each leaf, by the leaf's key."""
        if self._by_leaf is None:
            self._by_leaf = {}
            for victim in self.victims:
                leaf = victim.leaf
                on_node = self._by_leaf.get(leaf)
                if on_node is None:
                    on_node = self._by_leaf[leaf] = LeafOnNode()
                on_node.put(victim)
        return self._by_leaf

    def sums(self) -> PrioritySums:
        """Return how much could be taken, by priority."""
        if self._priority_sums is None:
            self._priority_sums = PrioritySums(self.victims)
        return self._priority_sums

    def change(self, gone: Sequence[Victim], come: Sequence[Victim]) -> None:
        """Record which victims have left and which have come.

        Args:
            gone: The victims that have left.
            come: The victims that have come.
        """
        self._by_leaf = self._priority_sums = self._parts = None
        if len(gone) + len(come) > len(self.held) // _FEW:
            self.victims = sorted(self.held.values(), key=_place)
            return
        for victim in gone:
            take_out(self.victims, victim)
        for victim in come:
            insort(self.victims, victim, key=_place)


_FEW = 8
"""If more than one in so many change, all are sorted again."""


def take_out(victims: list[Victim], victim: Victim, *, by_priority: bool = True) -> None:
    """Remove a victim from a sorted list."""
    key = order(by_priority=by_priority)
    position = bisect_left(victims, key(victim), key=key)
    assert victims[position] is victim, "no two have the same place"
    del victims[position]


def order(*, by_priority: bool) -> Callable[[Victim], Place | int]:
    """Return the sort key for the victims of a leaf: by priority or only the newest first."""
    return _place if by_priority else _age


def _place(victim: Victim) -> Place:
    return victim.place


def _age(victim: Victim) -> int:
    return victim.place[1]
