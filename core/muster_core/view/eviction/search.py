"""The search for a plan: the part that all nodes share, and the index of victims that it needs.

Sums of queues bound how much could be taken from each leaf, and the lowest priority of a leaf tells
whether anything could, so that most searches end before a node is looked at. Sums of all victims on
a node are a lower bound of the cost of any plan for it, so that most nodes are excluded without a
plan.

The index holds the victims on the nodes that searches have looked at. The bounds (the most that
any node has free, the lowest priority in a leaf, the largest victim) are updated from one search to
the next, node by node. The victims on a node are listed only when the node is a candidate. After
that only the allocations that have changed are looked at.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import final

import attrs
from typing_extensions import override

from muster_core.nodes.node import DevicesAfter, Node
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import SIZE, Steps, all_at_once, in_order
from muster_core.view.eviction.eligibility import Eligibility, LeafRelation, Rank, VictimRules
from muster_core.view.eviction.victims import (
    LeafOnNode,
    NodeMaxima,
    NodeVictims,
    NumberCounts,
    Victim,
    remove_victim,
    victim_of,
    victim_order,
)
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue


@final
class LeafVictims:
    """All victims of one leaf, on any node."""

    __slots__ = ("_sorted", "members")

    def __init__(self) -> None:
        #: The gang members.
        self.members: dict[Victim, None] = {}
        #: The victims without a gang, by priority, and the newest first.
        self._sorted: dict[bool, list[Victim]] = {}

    def fill(self, victims: Iterable[Victim]) -> Steps[None]:
        """Add all victims of the leaf."""
        self._sorted[True] = yield from in_order(
            self._add_members(victims), victim_order(by_priority=True)
        )

    def _add_members(self, victims: Iterable[Victim]) -> Iterator[Victim]:
        """Add the gang members, and return the others."""
        for victim in victims:
            if victim.gang is None:
                yield victim
            else:
                self.members[victim] = None

    def sort(self, *, by_priority: bool) -> Steps[None]:
        """Sort the victims without a gang in one of the two orders."""
        if by_priority not in self._sorted:
            plain = self._sorted[not by_priority]
            self._sorted[by_priority] = yield from in_order(
                plain, victim_order(by_priority=by_priority)
            )

    def in_order(self, *, by_priority: bool) -> Sequence[Victim]:
        """Return the victims without a gang, in an order in which they were sorted."""
        return self._sorted[by_priority]

    def remove(self, victim: Victim) -> None:
        """Remove a victim."""
        if victim.gang is not None:
            del self.members[victim]
            return
        for by_priority, ordered in self._sorted.items():
            remove_victim(ordered, victim, by_priority=by_priority)

    def add(self, victim: Victim) -> None:
        """Add a victim."""
        if victim.gang is not None:
            self.members[victim] = None
            return
        for by_priority, ordered in self._sorted.items():
            insort(ordered, victim, key=victim_order(by_priority=by_priority))


@final
class VictimIndex:
    """The victims on the nodes."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The most that a node has free, and the most that its asks may hold.
        self.free = NodeMaxima()
        self.room = NodeMaxima()
        #: The victims on each node, as of the last look at it.
        self._by_node: dict[Node, NodeVictims] = {}
        #: The nodes that have changed since the last look, or were never looked at.
        self._unseen: dict[Node, None] = {}
        #: The nodes that the peaks contain, and the room of each.
        self._measured: dict[Node, Mapping[str, int]] = {}
        #: The priorities in each leaf, and the amounts of each type, of all known victims.
        self._priorities: dict[int, NumberCounts] = {}
        self._amounts: dict[str, NumberCounts] = {}
        #: The nodes by the lowest priority of their victims, and the reverse.
        self._levels: dict[int, dict[Node, None]] = {}
        self._lowest: dict[Node, int] = {}
        #: The victims of leaves, for the leaves that a search needed.
        self._by_leaf: dict[int, LeafVictims] = {}

    def refresh(self) -> Steps[None]:
        """Find which nodes have changed; they must not change again until the search ends."""
        nodes = self._state.nodes
        done = 0
        while nodes.touched:
            node, _ = nodes.touched.popitem()
            self._unseen[node] = None
            for name in self._measured.get(node, ()):  # The node may no longer have these types.
                if name not in node.room:
                    self.room.set(node, name, 0)
                    self.free.set(node, name, 0)
            self._measured[node] = node.room
            for name, amount in node.room.items():
                self.room.set(node, name, amount)
                self.free.set(node, name, amount - node.used.get(name, 0))
            done += 1
            if done % SIZE == 0:
                yield
        if len(self._measured) > len(nodes.nodes):
            for node in [node for node in self._measured if not node.present]:
                self._forget(node)

    def _forget(self, node: Node) -> None:
        del self._measured[node]
        self._unseen.pop(node, None)
        self.free.forget(node)
        self.room.forget(node)
        on_node = self._by_node.pop(node, None)
        if on_node is not None:
            for victim in on_node.held.values():
                self._remove(victim)
            self._set_level(node, None)

    @property
    def has_unseen(self) -> bool:
        """Whether nodes have changed since the last look at them."""
        return bool(self._unseen)

    def look(self) -> Steps[None]:
        """Update the victims of all nodes that have changed."""
        while self._unseen:
            yield from self._look_at(next(reversed(self._unseen)))

    def on(self, node: Node) -> NodeVictims:
        """Return the victims on a node."""
        if node in self._unseen:
            all_at_once(self._look_at(node))
        return self._by_node[node]

    def _look_at(self, node: Node) -> Steps[None]:
        on_node = self._by_node.get(node)
        changed = None if on_node is None else node.changed
        if on_node is None:
            on_node = NodeVictims()
        unusable: list[Victim] = []
        come: list[Victim] = []
        for holder in {**on_node.held, **node.held} if changed is None else changed:
            victim = on_node.held.get(holder)
            if victim is not None:
                if victim.is_current():
                    continue
                unusable.append(victim)
            if holder in node.held:
                come.append(victim_of(self._state, *holder))
                if len(come) % SIZE == 0:
                    yield
        self._by_node[node], node.changed = on_node, {}
        if unusable or come:
            on_node.change(unusable, come)
            for victim in unusable:
                self._remove(victim)
            for victim in come:
                self._add(victim)
            self._set_level(node, on_node.lowest())
        del self._unseen[node]
        yield

    def _set_level(self, node: Node, priority: int | None) -> None:
        """Record the lowest priority on a node, or None if it has no victims."""
        before = self._lowest.pop(node, None)
        if before is not None:
            del self._levels[before][node]
            if not self._levels[before]:
                del self._levels[before]
        if priority is not None:
            self._lowest[node] = priority
            self._levels.setdefault(priority, {})[node] = None

    def _add(self, victim: Victim) -> None:
        leaf = victim.leaf
        priorities = self._priorities.get(leaf)
        if priorities is None:
            priorities = self._priorities[leaf] = NumberCounts()
        priorities.add(victim.place[0])
        for name, amount in victim.allocation.ask.resources.items():
            amounts = self._amounts.get(name)
            if amounts is None:
                amounts = self._amounts[name] = NumberCounts()
            amounts.add(amount)
        leaf_victims = self._by_leaf.get(leaf)
        if leaf_victims is not None:
            leaf_victims.add(victim)

    def _remove(self, victim: Victim) -> None:
        leaf = victim.leaf
        priorities = self._priorities[leaf]
        priorities.remove(victim.place[0])
        if not priorities:
            del self._priorities[leaf]
            self._by_leaf.pop(leaf, None)
        elif leaf in self._by_leaf:
            self._by_leaf[leaf].remove(victim)
        for name, amount in victim.allocation.ask.resources.items():
            self._amounts[name].remove(amount)
            if not self._amounts[name]:
                del self._amounts[name]

    # After a look at all nodes

    def levels(self) -> list[tuple[int, Collection[Node]]]:
        """Return the nodes by the lowest priority of their victims, the lowest first."""
        return sorted(self._levels.items(), key=_level)

    def lowest(self) -> int | None:
        """Return the lowest priority of all victims, or None if there are none."""
        return min(self._levels, default=None)

    def lowest_of(self, leaf: int) -> int | None:
        """Return the lowest priority of a leaf's victims, or None if there are none."""
        priorities = self._priorities.get(leaf)
        return None if priorities is None else priorities.ends()[0]

    def largest(self, name: str) -> int:
        """Return the most of a type that one victim has, or 0."""
        amounts = self._amounts.get(name)
        return 0 if amounts is None else amounts.ends()[1]

    def gather(self, leaf: LeafView, *, by_priority: bool) -> Steps[LeafVictims]:
        """Return the victims of a leaf on all nodes, sorted, and keep them up to date."""
        leaf_victims = self._by_leaf.get(leaf.key)
        if leaf_victims is None:
            leaf_victims = LeafVictims()
            yield from leaf_victims.fill(self._victims(leaf))
            self._by_leaf[leaf.key] = leaf_victims
        yield from leaf_victims.sort(by_priority=by_priority)
        return leaf_victims

    def _victims(self, leaf: LeafView) -> Iterator[Victim]:
        by_node = self._by_node
        for key, app in leaf.apps.items():
            for held in (app.bound, app.waiting):
                for name, (_, node) in held.items():
                    yield by_node[node].held[key, name]

    def check(self) -> None:
        """Assert that allocations are as they were if no change is recorded; for tests."""
        for node, on_node in self._by_node.items():
            on_node.check()
            assert self._lowest.get(node) == on_node.lowest()
            if node.changed is not None:
                assert on_node.held.keys() ^ node.held.keys() <= node.changed.keys()
                for holder, victim in on_node.held.items():
                    fresh = None if holder in node.changed else victim_of(self._state, *holder)
                    assert fresh is None or attrs.astuple(fresh, recurse=False) == attrs.astuple(
                        victim, recurse=False
                    )


def _level(level: tuple[int, Collection[Node]]) -> int:
    return level[0]


PlanCost = tuple["Rank", int]
"""The cost of a plan: the highest rank of its victims, and their number."""


class VictimSearch:
    """The victims from which a choice is made, on one node or below queues that have too much."""

    def __init__(self, state: ViewState, victim_index: VictimIndex, rules: VictimRules) -> None:
        self.state = state
        self.victim_index = victim_index
        self.rules = rules
        #: How much the queues have that lack headroom, by key and type, beyond their ``max``.
        self.over: dict[int, dict[str, int]] = {}
        #: The leaves that may have victims, and the most of each type that can be taken.
        self.sides: dict[int, LeafRelation] = {}
        self._most: dict[int, Mapping[str, int]] = {}
        #: The givers below queues that lack headroom, with those queues, and their victims.
        self.helping: dict[int, tuple[int, ...]] = {}
        self.rows: dict[int, LeafVictims] = {}
        #: Whether the order of victims does not depend on their leaf.
        self.in_one_order = False
        #: The fair shares of leaves before anything is taken.
        self.shares: dict[int, float] = {}

    # QUOTA-6
    def begin_below(self, queue: ViewQueue, over: Mapping[str, int]) -> Steps[bool]:
        """Find the victims with which a queue would have less of some types.

        Args:
            queue: The queue.
            over: How much of each type it has too much.

        Returns:
            Whether there may be any.
        """
        for number, leaf in enumerate(self.state.leaves_below(queue), 1):
            if any(leaf.allocated):
                self._add_side(self.rules.side(leaf.key))
            if number % SIZE == 0:
                yield
        self.over[queue.key] = dict(over)
        for key, most in self._most.items():
            if not most.keys().isdisjoint(over):
                self.helping[key] = (queue.key,)
        if self.helping:
            yield from self.victim_index.refresh()
            yield from self._gather_helping()
        return bool(self.helping)

    def _gather_helping(self) -> Steps[None]:
        """Collect the victims on all nodes that could make headroom."""
        yield from self.victim_index.look()
        for key in self.helping:
            side = self.sides[key]
            by_priority = self.rules.sorts_by_priority(side)
            self.rows[key] = yield from self.victim_index.gather(side.leaf, by_priority=by_priority)

    def _add_side(self, side: LeafRelation | None) -> None:
        """Compute how much could be taken from a leaf, as its queues allow."""
        if side is None:
            return
        most: Mapping[str, int] = side.leaf.usage()
        if side.guarded:
            most = {
                name: min(amount, surplus)
                for name, amount in most.items()
                if (surplus := side.surplus(name) or 0) > 0
            }
        if most:
            self.sides[side.leaf.key], self._most[side.leaf.key] = side, most

    def missing_on(self, node: Node | None) -> tuple[dict[str, int], DevicesAfter]:
        """Return how much is missing on a node, negative where there is more, and of devices."""
        assert node is None, "no ask is to be placed"
        return {}, DevicesAfter((), None)

    def sides_on(self, node: NodeVictims) -> Iterator[tuple[LeafRelation, LeafOnNode]]:
        """Iterate over the leaves that may have victims and hold something on a node."""
        for key, on_node in node.by_leaf().items():
            side = self.sides.get(key)
            if side is not None:
                yield side, on_node


@final
class PlanSearch(VictimSearch):
    """The data of one search that all nodes share."""

    def __init__(
        self, state: ViewState, victim_index: VictimIndex, eligibility: Eligibility
    ) -> None:
        super().__init__(state, victim_index, eligibility)
        self.eligibility = eligibility
        #: Whether much of all allocated resources cannot be taken.
        self.partial = False
        #: A lower bound of the ranks of all victims.
        self.floor: Rank = ()
        #: One side for each effect on ranks, and the lowest rank for each priority.
        self._kinds: dict[tuple[Rank, int, int | None], LeafRelation] = {}
        self._ranks: dict[int, Rank] = {}

    def begin(self) -> Steps[bool]:
        """Prepare the search for an ask, before a node is looked at.

        Returns:
            Whether there may be a plan.
        """
        for number, leaf in enumerate(self.state.leaves_below(self.eligibility.fence), 1):
            if any(leaf.allocated):
                self._add_side(self.eligibility.side(leaf.key))
            if number % SIZE == 0:
                yield
        if not self.sides:
            return False
        yield from self.victim_index.refresh()
        if self.eligibility.ranks_by_priority:
            yield from self.victim_index.look()
            self._remove_beyond()
            if not self.sides:
                return False
        for side in self.sides.values():
            self._kinds.setdefault((side.queue_rank, side.added, side.fixed), side)
        self._find_floor()
        self._find_over()
        self._compare()
        if not self._may_suffice():
            return False
        if self.over:
            yield from self._gather_helping()
        return True

    # SERVICE-7
    def begin_on(self, node: Node) -> Steps[bool]:
        """Prepare the search for an ask that has headroom, before one node is looked at.

        Args:
            node: The only node that counts, which lacks something for the ask.

        Returns:
            Whether there may be a plan.
        """
        yield from self.victim_index.refresh()
        lack, sums = self.lack(node), self.victim_index.on(node).sums()
        level = sums.level_for(lack)
        if level is None:
            return False
        for key in self.victim_index.on(node).by_leaf():
            side = self.eligibility.side(key)
            if side is not None and not self.eligibility.is_beyond(side, sums.priorities[level]):
                self.sides[key] = side
        return bool(self.sides)

    def _remove_beyond(self) -> None:
        for key, side in list(self.sides.items()):
            lowest = self.victim_index.lowest_of(key)
            assert lowest is not None, "a leaf that holds something stands on no node"
            if self.eligibility.is_beyond(side, lowest):
                del self.sides[key], self._most[key]

    def _find_floor(self) -> None:
        floors: list[Rank] = []
        for key, side in self.sides.items():
            lowest = (
                self.victim_index.lowest_of(key) if self.eligibility.ranks_by_priority else None
            )
            floors.append(self.eligibility.floor(side, lowest or 0))
        self.floor = min(floors, default=())

    # EVICTION-21
    def _find_over(self) -> None:
        """Find the queues above the ask that lack headroom for it."""
        resources = self.eligibility.ask.resources
        for queue in self.eligibility.leaf.upward():
            for name, most in queue.config.max.amounts:
                amount = resources[name]
                over = queue.used(name) + amount - most
                if amount and over > 0:
                    self.over.setdefault(queue.key, {})[name] = over
        if self.over:
            for key, side in self.sides.items():
                queues = tuple(queue.key for queue in side.leaf.upward() if queue.key in self.over)
                if queues:
                    self.helping[key] = queues

    def _compare(self) -> None:
        """Compute how much of all resources could be taken, and whether one order serves all."""
        for name in self.eligibility.ask.resources:
            most = sum(most.get(name, 0) for most in self._most.values())
            self.partial |= 4 * most < 3 * self.state.root.used(name)
        if self.eligibility.ranks_by_priority and not self.helping:
            kinds = {(side.added, side.fixed) for side in self._kinds.values()}
            self.in_one_order = len(kinds) == 1 and next(iter(kinds))[1] is None

    def _may_suffice(self) -> bool:
        """Return whether it could suffice to take everything that may be taken."""
        for name, amount in self.eligibility.ask.resources.items():
            if amount > self.victim_index.room.top(name):
                return False
            lack = amount - self.victim_index.free.top(name)
            if lack > 0 and not self._suffice(self._most, name, lack):
                return False
        for key, names in self.over.items():
            below = [leaf for leaf, queues in self.helping.items() if key in queues]
            for name, over in names.items():
                if not self._suffice(below, name, over):
                    return False
        return True

    def _suffice(self, leaves: Iterable[int], name: str, wanted: int) -> bool:
        """Return whether an amount of a type can be taken from leaves."""
        for leaf in leaves:
            wanted -= self._most[leaf].get(name, 0)
            if wanted <= 0:
                return True
        return False

    def least(self) -> PlanCost:
        """Return a lower bound of the cost of all plans, on any node."""
        if self.victim_index.has_unseen:
            return self.floor, 1
        victim_index = self.victim_index
        count = self._fewest_over()
        for name, amount in self.eligibility.ask.resources.items():
            lack = amount - victim_index.free.top(name)
            if lack > 0 and victim_index.largest(name):
                count = max(count, -(-lack // victim_index.largest(name)))
        return self.floor, count

    def _fewest_over(self) -> int:
        """Return a lower bound of the number of victims that make headroom, at least 1."""
        count = 1
        for names in self.over.values():
            for name, over in names.items():
                largest = self.victim_index.largest(name)
                if largest:
                    count = max(count, -(-over // largest))
        return count

    # One node

    @override
    def missing_on(self, node: Node | None) -> tuple[dict[str, int], DevicesAfter]:
        assert node is not None, "an ask is placed on no node"
        shape = self.eligibility.ask.shape
        lack = {
            name: amount - node.room.get(name, 0) + node.used.get(name, 0)
            for name, amount in self.eligibility.ask.resources.items()
        }
        return lack, DevicesAfter(shape.devices, node.devices)

    def lack(self, node: Node) -> dict[str, int]:
        """Return how much of each type a node lacks for the ask."""
        return lack_on(node, self.eligibility.ask.shape)

    def bound(self, node: Node, lack: Mapping[str, int]) -> PlanCost | None:
        """Return a lower bound of the cost of a plan for a node that lacks something.

        Returns:
            The bound, or None if no plan is possible there.
        """
        sums = self.victim_index.on(node).sums()
        level = sums.level_for(lack)
        if level is None:
            return None
        priorities = sums.priorities
        rank = max(self.floor, self.rank_of(priorities[level]))
        # Any victim up to this rank could be in the plan, and could be large.
        while level + 1 < len(priorities) and self.rank_of(priorities[level + 1]) <= rank:
            level += 1
        count = sums.fewest(lack, level)
        return rank, max(count, self._fewest_over()) if self.over else count

    def rank_of(self, priority: int) -> Rank:
        """Return a lower bound of the ranks of victims of a priority."""
        rank = self._ranks.get(priority)
        if rank is None:
            eligibility, sides = self.eligibility, self._kinds.values()
            rank = self._ranks[priority] = min(eligibility.floor(side, priority) for side in sides)
        return rank

    def closer_bound(self, node: Node, lack: Mapping[str, int]) -> PlanCost | None:
        """Return a closer bound than :meth:`bound`, from the leaves that may have victims."""
        sides = list(self.sides_on(self.victim_index.on(node)))
        count = 1
        for name, amount in lack.items():
            most = largest = 0
            for side, on_node in sides:
                there = on_node.amounts.get(name, 0)
                if there:
                    most += min(there, self._most[side.leaf.key].get(name, 0))
                    largest = max(largest, on_node.largest(name))
            if most < amount:
                return None
            count = max(count, -(-amount // largest))
        if self.over:  # Victims that make headroom may be on any node.
            return self.floor, count
        return min(self.eligibility.floor(side, one.lowest()) for side, one in sides), count


# RESERVED-5
def lack_on(node: Node, shape: Shape) -> dict[str, int]:
    """Return how much of each type a node lacks for an ask; of devices, a lower bound."""
    lack: dict[str, int] = {}
    for name, amount in shape.resources.items():
        free = node.room.get(name, 0) - node.used.get(name, 0)
        if amount > free:
            lack[name] = amount - free
    # DEVICE-10
    if shape.devices:
        for name, amount in node.lack_of_devices(shape).items():
            lack[name] = max(amount, lack.get(name, 0))
    return lack
