"""What stands on all nodes, as far as anybody had to know.

A search for victims asks first for bounds: the most that any node has free, the lowest
priority in a leaf, the largest of all. They are kept up to date from one search to the
next, node by node. Who stands on a node is looked at only when it comes into question, and
again only if the node has changed; what has not changed there is kept.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, final

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
    """All that stands of one leaf, on whatever node."""

    __slots__ = ("_sorted", "members")

    def __init__(self) -> None:
        #: The members of gangs.
        self.members: dict[Victim, None] = {}
        #: Those that stand for themselves by priority, and the newest first.
        self._sorted: dict[bool, list[Victim]] = {}

    def fill(self, victims: Iterable[Victim]) -> Steps[None]:
        """Take all in who stand there."""
        self._sorted[True] = yield from in_order(self._sift(victims), order(by_priority=True))

    def _sift(self, victims: Iterable[Victim]) -> Iterator[Victim]:
        """Take in the members of gangs, and give the others."""
        for victim in victims:
            if victim.gang is None:
                yield victim
            else:
                self.members[victim] = None

    def sort(self, *, by_priority: bool) -> Steps[None]:
        """Bring those that stand for themselves into an order."""
        if by_priority not in self._sorted:
            plain = self._sorted[not by_priority]
            self._sorted[by_priority] = yield from in_order(plain, order(by_priority=by_priority))

    def in_order(self, *, by_priority: bool) -> Sequence[Victim]:
        """Give those that stand for themselves, in an order in which they were brought."""
        return self._sorted[by_priority]

    def remove(self, victim: Victim) -> None:
        """Take note that a victim does not stand there any more."""
        if victim.gang is not None:
            del self.members[victim]
            return
        for by_priority, ordered in self._sorted.items():
            take_out(ordered, victim, by_priority=by_priority)

    def add(self, victim: Victim) -> None:
        """Take note of another victim."""
        if victim.gang is not None:
            self.members[victim] = None
            return
        for by_priority, ordered in self._sorted.items():
            insort(ordered, victim, key=order(by_priority=by_priority))


@final
class VictimIndex:
    """What stands on the nodes.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The most that a node has free, and has in all.
        self.free = Peaks()
        self.capacity = Peaks()
        #: Who stands on each node, as it was when that was looked at.
        self._by_node: dict[Node, NodeVictims] = {}
        #: The nodes of which that may be another by now, or was never looked at.
        self._unseen: dict[Node, None] = {}
        #: The nodes of which the peaks know, and what they had then.
        self._measured: dict[Node, Mapping[str, int]] = {}
        #: The priorities in each leaf, and the amounts of each type, of all who were seen.
        self._priorities: dict[int, Counts] = {}
        self._amounts: dict[str, Counts] = {}
        #: The nodes that were looked at by the lowest priority there, and the reverse.
        self._levels: dict[int, dict[Node, None]] = {}
        self._lowest: dict[Node, int] = {}
        #: Who stands of a leaf, for those of which anybody has asked.
        self._rows: dict[int, LeafVictims] = {}

    def refresh(self) -> Steps[None]:
        """Take note of which nodes have changed; afterwards they must not until the search ends."""
        nodes = self._state.nodes
        done = 0
        while nodes.touched:
            node, _ = nodes.touched.popitem()
            self._unseen[node] = None
            for name in self._measured.get(node, ()):  # It may have none of these any more.
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
            for victim in on_node.victims:
                self._remove(victim)
            self._set_level(node, None)

    @property
    def has_unseen(self) -> bool:
        """Whether there are nodes that have changed since they were looked at."""
        return bool(self._unseen)

    def look(self) -> Steps[None]:
        """Look at all nodes that have changed."""
        while self._unseen:
            yield from self._look_at(next(reversed(self._unseen)))

    def on(self, node: Node) -> NodeVictims:
        """Give who stands on a node."""
        if node in self._unseen:
            all_at_once(self._look_at(node))
        return self._by_node[node]

    def _look_at(self, node: Node) -> Steps[None]:
        on_node = self._by_node.get(node)
        if on_node is None:
            on_node = self._by_node[node] = NodeVictims()
        before, apps = on_node.held, self._state.apps
        now: dict[tuple[int, str], Victim] = {}
        come: list[Victim] = []
        for holder in node.held:
            victim = before.get(holder)
            key, name = holder
            if victim is not None:
                held = apps[key].bound if victim.bound else apps[key].waiting
                there = held.get(name)
                if there is None or there[0] is not victim.allocation or there[1] is not node:
                    victim = None
            if victim is None:
                victim = victim_of(self._state, key, name)
                come.append(victim)
                if len(come) % SIZE == 0:
                    yield
            now[holder] = victim
        gone = [victim for holder, victim in before.items() if now.get(holder) is not victim]
        on_node.held = now
        if gone or come:
            on_node.change(gone, come)
            for victim in gone:
                self._remove(victim)
            for victim in come:
                self._add(victim)
            self._set_level(node, on_node.victims[0].place[0] if on_node.victims else None)
        del self._unseen[node]
        yield

    def _set_level(self, node: Node, priority: int | None) -> None:
        """Take note of the lowest priority on a node, or None if nobody stands there."""
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
        row = self._rows.get(leaf)
        if row is not None:
            row.add(victim)

    def _remove(self, victim: Victim) -> None:
        leaf = victim.leaf
        priorities = self._priorities[leaf]
        priorities.remove(victim.place[0])
        if not priorities:
            del self._priorities[leaf]
            self._rows.pop(leaf, None)
        elif leaf in self._rows:
            self._rows[leaf].remove(victim)
        for name, amount in victim.allocation.ask.resources.items():
            self._amounts[name].remove(amount)
            if not self._amounts[name]:
                del self._amounts[name]

    # When all nodes have been looked at

    def levels(self) -> list[tuple[int, Collection[Node]]]:
        """Give the nodes by the lowest priority there, the lowest first."""
        return sorted(self._levels.items(), key=_level)

    def lowest(self) -> int | None:
        """Give the lowest priority of all that stands on nodes, or None if nothing does."""
        return min(self._levels, default=None)

    def lowest_of(self, leaf: int) -> int | None:
        """Give the lowest priority of all that a leaf has on nodes, or None if it has nothing."""
        priorities = self._priorities.get(leaf)
        return None if priorities is None else priorities.ends()[0]

    def largest(self, name: str) -> int:
        """Give the most of a type that anybody has; 0 if nobody has any."""
        amounts = self._amounts.get(name)
        return 0 if amounts is None else amounts.ends()[1]

    def gather(self, leaf: LeafView, *, by_priority: bool) -> Steps[LeafVictims]:
        """Give who stands of a leaf, on whatever node, in an order; it is kept from now on."""
        row = self._rows.get(leaf.key)
        if row is None:
            row = LeafVictims()
            yield from row.fill(self._victims(leaf))
            self._rows[leaf.key] = row
        yield from row.sort(by_priority=by_priority)
        return row

    def _victims(self, leaf: LeafView) -> Iterator[Victim]:
        by_node = self._by_node
        for key, app in leaf.apps.items():
            for held in (app.bound, app.waiting):
                for name, (_, node) in held.items():
                    yield by_node[node].held[key, name]


def _level(level: tuple[int, Collection[Node]]) -> int:
    return level[0]
