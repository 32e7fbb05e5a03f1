"""The victims on all nodes, as far as searches needed them.

A search for victims first needs bounds: the most that any node has free, the lowest priority
in a leaf, the largest victim. They are updated from one search to the next, node by node.
The victims on a node are listed only when the node is a candidate. After that only the
allocations that have changed are looked at.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, final

import attrs

from muster_core.structures.steps import SIZE, all_at_once, in_order
from muster_core.view.eviction.extremes import Counts, Peaks
from muster_core.view.eviction.victims import NodeVictims, Victim, order, take_out, victim_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from muster_core.nodes.node import Node
    from muster_core.structures.steps import Steps
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.leaf import LeafView


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
            self._add_members(victims), order(by_priority=True)
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
            self._sorted[by_priority] = yield from in_order(plain, order(by_priority=by_priority))

    def in_order(self, *, by_priority: bool) -> Sequence[Victim]:
        """Return the victims without a gang, in an order in which they were sorted."""
        return self._sorted[by_priority]

    def remove(self, victim: Victim) -> None:
        """Remove a victim."""
        if victim.gang is not None:
            del self.members[victim]
            return
        for by_priority, ordered in self._sorted.items():
            take_out(ordered, victim, by_priority=by_priority)

    def add(self, victim: Victim) -> None:
        """Add a victim."""
        if victim.gang is not None:
            self.members[victim] = None
            return
        for by_priority, ordered in self._sorted.items():
            insort(ordered, victim, key=order(by_priority=by_priority))


@final
class VictimIndex:
    """The victims on the nodes.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The most that a node has free, and its largest capacity.
        self.free = Peaks()
        self.capacity = Peaks()
        #: The victims on each node, as of the last look at it.
        self._by_node: dict[Node, NodeVictims] = {}
        #: The nodes that have changed since the last look, or were never looked at.
        self._unseen: dict[Node, None] = {}
        #: The nodes that the peaks contain, and their capacities.
        self._measured: dict[Node, Mapping[str, int]] = {}
        #: The priorities in each leaf, and the amounts of each type, of all known victims.
        self._priorities: dict[int, Counts] = {}
        self._amounts: dict[str, Counts] = {}
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
                if name not in node.capacity:
                    self.capacity.set(node, name, 0)
                    self.free.set(node, name, 0)
            self._measured[node] = node.capacity
            for name, amount in node.capacity.items():
                self.capacity.set(node, name, amount)
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
        self.capacity.forget(node)
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
        gone: list[Victim] = []
        come: list[Victim] = []
        for holder in {**on_node.held, **node.held} if changed is None else changed:
            victim = on_node.held.get(holder)
            if victim is not None:
                if victim.is_current():
                    continue
                gone.append(victim)
            if holder in node.held:
                come.append(victim_of(self._state, *holder))
                if len(come) % SIZE == 0:
                    yield
        self._by_node[node], node.changed = on_node, {}
        if gone or come:
            on_node.change(gone, come)
            for victim in gone:
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
            priorities = self._priorities[leaf] = Counts()
        priorities.add(victim.place[0])
        for name, amount in victim.allocation.ask.resources.items():
            amounts = self._amounts.get(name)
            if amounts is None:
                amounts = self._amounts[name] = Counts()
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
