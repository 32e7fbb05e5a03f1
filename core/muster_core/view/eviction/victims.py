"""The possible victims on a node: its allocations, in the order of victims (EVICTION-13).

The victims on a node are sorted once and kept; sums over them, and their lowest and highest
numbers, are computed when first needed. If few victims change, the order and the sums are updated;
otherwise they are made anew.

A unit is the gang members that must be evicted together (EVICTION-28 to EVICTION-33).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate, chain
from typing import final

import attrs

from muster_core.nodes.node import Holder, Node
from muster_core.owners.asks import Allocation
from muster_core.structures.amounts import add_to, take_from
from muster_core.structures.steps import SIZE
from muster_core.values.records import LIST, MAP
from muster_core.view.gangs import Hold, ViewGang
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp


@final
class NodeMaxima:
    """The most that any node has, of each type."""

    def __init__(self) -> None:
        #: The amount of each node, by type.
        self._now: dict[str, dict[Node, int]] = {}
        #: All current amounts, and perhaps old ones, as heaps with the highest on top.
        self._heaps: dict[str, list[tuple[int, int, Node]]] = {}
        self._numbers = 0

    def set(self, node: Node, name: str, amount: int) -> None:
        """Record the amount of a type on a node."""
        now = self._now.setdefault(name, {})
        if now.get(node) == amount:
            return
        now[node] = amount
        heap = self._heaps.setdefault(name, [])
        self._numbers += 1
        heappush(heap, (-amount, self._numbers, node))
        if len(heap) > 2 * len(now) + SIZE:
            there = enumerate(now.items(), self._numbers + 1)
            heap[:] = [(-amount, at, node) for at, (node, amount) in there]
            heapify(heap)
            self._numbers += len(heap)

    def forget(self, node: Node) -> None:
        """Remove all amounts of a node."""
        for now in self._now.values():
            now.pop(node, None)

    def top(self, name: str) -> int:
        """Return the highest amount of a type, at least 0."""
        heap, now = self._heaps.get(name), self._now.get(name)
        if heap is None or now is None:
            return 0
        while heap and now.get(heap[0][2]) != -heap[0][0]:
            heappop(heap)
        return max(0, -heap[0][0]) if heap else 0


@final
class NumberCounts:
    """Numbers, each with its count; their total, and the lowest and the highest of them."""

    __slots__ = ("_counts", "_ends", "total")

    def __init__(self) -> None:
        #: The sum of all numbers.
        self.total = 0
        self._counts: dict[int, int] = {}
        #: The lowest and the highest; None if they must be computed again.
        self._ends: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        """Return whether there are any numbers."""
        return bool(self._counts)

    def add(self, number: int) -> None:
        """Add a number."""
        self.total += number
        count = self._counts.get(number, 0)
        self._counts[number] = count + 1
        if not count and self._ends is not None:
            least, greatest = self._ends
            self._ends = min(least, number), max(greatest, number)

    def remove(self, number: int) -> None:
        """Remove a number once."""
        self.total -= number
        count = self._counts[number] - 1
        if count:
            self._counts[number] = count
            return
        del self._counts[number]
        if self._ends is not None and number in self._ends:
            self._ends = None

    def ends(self) -> tuple[int, int]:
        """Return the lowest and the highest; there must be at least one number."""
        if self._ends is None:
            self._ends = min(self._counts), max(self._counts)
        return self._ends


VictimPlace = tuple[int, int]
"""The position of a victim among those of its leaf: by priority, then the newest first."""


@final
@attrs.define(eq=False)
class Victim:
    """A bound or waiting ask.

    Attributes:
        bound: Whether it is bound; otherwise it waits.
        place: Its position among the victims of its leaf.
    """

    app: ViewApp
    allocation: Allocation
    node: Node
    gang: ViewGang | None
    bound: bool
    place: VictimPlace = attrs.field(init=False)

    # RECLAIM-11
    def __attrs_post_init__(self) -> None:
        # AGING-8
        self.place = (self.allocation.ask.priority, -self.allocation.age)

    @property
    def age(self) -> int:
        """Its position among all assignments, the newest first."""
        return self.place[1]

    @property
    def leaf(self) -> int:
        """The key of its leaf."""
        return self.app.identity.leaf

    @property
    def holder(self) -> Holder:
        """The key of its application, and its name."""
        return (self.app.identity.key, self.allocation.ask.name)

    def is_current(self) -> bool:
        """Return whether it still has its allocation, and is bound if it was."""
        held = self.app.bound if self.bound else self.app.waiting
        there = held.get(self.allocation.ask.name)
        return there is not None and there[0] is self.allocation and there[1] is self.node

    def hold(self) -> Hold:
        """Return it as a hold."""
        return Hold(self.app, self.allocation, self.node, self.allocation.number, self.bound)


# EVICTION-13
def victim_of(state: ViewState, key: int, name: str) -> Victim:
    """Return an ask with a node as a victim."""
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
        plain: The victims without a gang, by priority, then the newest first.
        members: The gang members, in the same order.
    """

    amounts: dict[str, int] = attrs.field(factory=MAP)
    plain: list[Victim] = attrs.field(factory=LIST)
    members: list[Victim] = attrs.field(factory=LIST)
    #: The amounts of each type of which the largest one was asked for.
    _counts: dict[str, NumberCounts] = attrs.field(factory=MAP, init=False)
    _newest: list[Victim] | None = attrs.field(default=None, init=False)

    def put(self, victim: Victim) -> None:
        """Add a victim that is after all others in order, before anything is asked."""
        add_to(self.amounts, victim.allocation.ask.resources.amounts)
        (self.plain if victim.gang is None else self.members).append(victim)

    def add(self, victim: Victim) -> None:
        """Add a victim."""
        resources = victim.allocation.ask.resources
        add_to(self.amounts, resources.amounts)
        for name, counts in self._counts.items():
            if resources[name]:
                counts.add(resources[name])
        insort(self.plain if victim.gang is None else self.members, victim, key=_place)
        if self._newest is not None and victim.gang is None:
            insort(self._newest, victim, key=_age)

    def remove(self, victim: Victim) -> None:
        """Remove a victim."""
        resources = victim.allocation.ask.resources
        take_from(self.amounts, resources.amounts)
        for name, counts in self._counts.items():
            if resources[name]:
                counts.remove(resources[name])
        remove_victim(self.plain if victim.gang is None else self.members, victim)
        if self._newest is not None and victim.gang is None:
            remove_victim(self._newest, victim, by_priority=False)

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

    def largest(self, name: str) -> int:
        """Return the most of a type that one of them has, or 0."""
        counts = self._counts.get(name)
        if counts is None:
            counts = self._counts[name] = NumberCounts()
            for victim in chain(self.plain, self.members):
                amount = victim.allocation.ask.resources[name]
                if amount:
                    counts.add(amount)
        return counts.ends()[1] if counts else 0

    def check(self, fresh: LeafOnNode) -> None:
        """Assert that it is as if made anew; for tests."""
        assert (self.plain, self.members) == (fresh.plain, fresh.members)
        assert self.amounts == fresh.amounts
        if self._newest is not None:
            assert self._newest == fresh.in_order(by_priority=False)
        for name in self._counts:
            assert self.largest(name) == fresh.largest(name)


@final
class PrioritySums:
    """How much could be taken from a node, up to each priority, from any leaf."""

    __slots__ = ("_counts", "_largest", "_sums", "priorities")

    def __init__(self, victims: Iterable[Victim]) -> None:
        #: The amounts of each type that the victims of each priority have.
        self._counts: defaultdict[tuple[str, int], NumberCounts] = defaultdict(NumberCounts)
        for victim in victims:
            self._add(victim)
        self._add_up()

    def change(self, gone: Iterable[Victim], come: Iterable[Victim]) -> None:
        """Record which victims have left and which have come."""
        for victim in gone:
            self._remove(victim)
        for victim in come:
            self._add(victim)
        self._add_up()

    def _add(self, victim: Victim) -> None:
        counts, priority = self._counts, victim.place[0]
        for name, amount in victim.allocation.ask.resources.amounts.items():
            counts[name, priority].add(amount)

    def _remove(self, victim: Victim) -> None:
        counts, priority = self._counts, victim.place[0]
        for name, amount in victim.allocation.ask.resources.amounts.items():
            counts[name, priority].remove(amount)
            if not counts[name, priority]:
                del counts[name, priority]

    def _add_up(self) -> None:
        """Add up the amounts of all priorities, from the lowest."""
        #: All priorities, the lowest first.
        self.priorities = sorted({priority for _, priority in self._counts})
        #: For each type, the sum of all victims up to each priority, and their largest amount.
        self._sums: dict[str, list[int]] = {}
        self._largest: dict[str, list[int]] = {}
        for name in sorted({name for name, _ in self._counts}):
            levels = [self._counts.get((name, priority)) for priority in self.priorities]
            sums = [0 if counts is None else counts.total for counts in levels]
            largest = [0 if counts is None else counts.ends()[1] for counts in levels]
            self._sums[name] = list(accumulate(sums))
            self._largest[name] = list(accumulate(largest, max))

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

    def check(self, fresh: PrioritySums) -> None:
        """Assert that they are as if made anew; for tests."""
        assert self.priorities == fresh.priorities
        assert (self._sums, self._largest) == (fresh._sums, fresh._largest)


@final
class NodeVictims:
    """All victims on one node."""

    __slots__ = ("_by_leaf", "_sums", "held", "members", "plain")

    def __init__(self) -> None:
        #: The victims, by application and name, as of the last look at the node.
        self.held: dict[Holder, Victim] = {}
        #: Those without a gang, by priority, then the newest first.
        self.plain: list[Victim] = []
        #: The gang members, in the same order.
        self.members: list[Victim] = []
        self._by_leaf: dict[int, LeafOnNode] | None = None
        self._sums: PrioritySums | None = None

    def lowest(self) -> int | None:
        """Return the lowest priority, or None if there are no victims."""
        firsts = [victims[0].place[0] for victims in (self.plain, self.members) if victims]
        return min(firsts, default=None)

    def by_leaf(self) -> dict[int, LeafOnNode]:
        """Return the victims of each leaf, by the leaf's key."""
        if self._by_leaf is None:
            self._by_leaf = {}
            for victim in chain(self.plain, self.members):
                leaf = victim.leaf
                on_node = self._by_leaf.get(leaf)
                if on_node is None:
                    on_node = self._by_leaf[leaf] = LeafOnNode()
                on_node.put(victim)
        return self._by_leaf

    def sums(self) -> PrioritySums:
        """Return how much could be taken, by priority."""
        if self._sums is None:
            self._sums = PrioritySums(self.held.values())
        return self._sums

    def change(self, gone: Sequence[Victim], come: Sequence[Victim]) -> None:
        """Record which victims have left and which have come."""
        for victim in gone:
            del self.held[victim.holder]
        for victim in come:
            self.held[victim.holder] = victim
        if len(gone) + len(come) > len(self.held) // _FEW:
            in_order = sorted(self.held.values(), key=_place)
            self.plain = [victim for victim in in_order if victim.gang is None]
            self.members = [victim for victim in in_order if victim.gang is not None]
            self._by_leaf = self._sums = None
            return
        for victim in gone:
            remove_victim(self.plain if victim.gang is None else self.members, victim)
        for victim in come:
            insort(self.plain if victim.gang is None else self.members, victim, key=_place)
        if self._by_leaf is not None:
            self._change_leaves(self._by_leaf, gone, come)
        if self._sums is not None:
            self._sums.change(gone, come)

    @staticmethod
    def _change_leaves(
        by_leaf: dict[int, LeafOnNode], gone: Iterable[Victim], come: Iterable[Victim]
    ) -> None:
        for victim in gone:
            on_node = by_leaf[victim.leaf]
            on_node.remove(victim)
            if not (on_node.plain or on_node.members):
                del by_leaf[victim.leaf]
        for victim in come:
            by_leaf.setdefault(victim.leaf, LeafOnNode()).add(victim)

    def check(self) -> None:
        """Assert that everything is as if made anew; for tests."""
        fresh = NodeVictims()
        fresh.change((), list(self.held.values()))
        assert (self.plain, self.members) == (fresh.plain, fresh.members)
        if self._sums is not None:
            self._sums.check(fresh.sums())
        if self._by_leaf is not None:
            assert self._by_leaf.keys() == fresh.by_leaf().keys()
            for leaf, on_node in self._by_leaf.items():
                on_node.check(fresh.by_leaf()[leaf])


_FEW = 8
"""The part of victims that may change before all are sorted again: one in this many."""


def remove_victim(victims: list[Victim], victim: Victim, *, by_priority: bool = True) -> None:
    """Remove a victim from a sorted list."""
    key = victim_order(by_priority=by_priority)
    position = bisect_left(victims, key(victim), key=key)
    assert victims[position] is victim, "no two have the same place"
    del victims[position]


def victim_order(*, by_priority: bool) -> Callable[[Victim], VictimPlace | int]:
    """Return the sort key for the victims of a leaf: by priority or only the newest first."""
    return _place if by_priority else _age


def _place(victim: Victim) -> VictimPlace:
    return victim.place


def _age(victim: Victim) -> int:
    return victim.place[1]


VictimUnit = tuple[Victim, ...]
"""The victims that are taken or spared together; a single one if it has no gang."""


@final
class UnitTracker:
    """The victims that a plan has taken, and the units that it can still take."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._taken: set[tuple[int, str]] = set()
        #: How many bound members of each gang are taken.
        self._counts: dict[str, int] = {}

    def is_taken(self, victim: Victim) -> bool:
        """Return whether a victim is taken."""
        return victim.holder in self._taken

    def take(self, unit: VictimUnit) -> None:
        """Record that a unit is taken."""
        self._taken.update(victim.holder for victim in unit)
        self._count(unit, 1)

    def spare(self, unit: VictimUnit) -> None:
        """Record that a unit is spared."""
        self._taken.difference_update(victim.holder for victim in unit)
        self._count(unit, -1)

    def _count(self, unit: VictimUnit, change: int) -> None:
        for victim in unit:
            if victim.gang is not None and victim.bound:
                name = victim.gang.name
                self._counts[name] = self._counts.get(name, 0) + change

    def unit_of(self, victim: Victim) -> VictimUnit:
        """Return the unit of a gang member that is not taken.

        The unit of a waiting member is all waiting members of its group. A bound member of a
        satisfied gang goes alone while more than ``min_member`` are left; otherwise all go.
        """
        gang = victim.gang
        assert gang is not None, "what is no member of a gang stands for itself"
        # EVICTION-28
        if not victim.bound:
            group = self._state.gang_index.group_of(gang)
            return tuple(self._victim(key) for one in group.gangs for key in one.waiting)
        return self.rest_of(gang) or (victim,)

    # EVICTION-29, EVICTION-30
    def rest_of(self, gang: ViewGang) -> VictimUnit:
        """Return the bound members of a gang that are left, if they are one unit; else nothing."""
        if len(gang.bound) - self._counts.get(gang.name, 0) > _required(gang):
            return ()
        return tuple(self._victim(key) for key in gang.bound if key not in self._taken)

    def _victim(self, key: tuple[int, str]) -> Victim:
        return victim_of(self._state, *key)

    # EVICTION-24
    def would_break(self, unit: VictimUnit) -> bool:
        """Return whether sparing a taken unit would leave a gang in part.

        Such a gang would have fewer bound members than it needs, while others are still taken.
        """
        holders = {victim.holder for victim in unit}
        for gang in {id(victim.gang): victim.gang for victim in unit if victim.bound}.values():
            if gang is None:
                continue
            left = [key for key in gang.bound if key not in self._taken or key in holders]
            if len(left) < len(gang.bound) and len(left) < _required(gang):
                return True
        return False


# EVICTION-34
def _required(gang: ViewGang) -> int:
    """Return how many members of a gang must stay bound, or 0."""
    if gang.definition is None or not gang.satisfied:
        return 0
    return gang.definition.min_member
