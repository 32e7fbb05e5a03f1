"""The search for a plan, as far as it is the same for all nodes.

Sums of queues say how much could be taken from each leaf, and the lowest priority that a
leaf has anywhere whether anything could; so most searches end before a node is looked at,
and a node that cannot work, or cannot be better than what was found, is left out without
looking at who stands there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.scopes import Losses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster_core.nodes import Node
    from muster_core.view.leaves import LeafView
    from muster_core.view.scopes import Rank, Scope, Side
    from muster_core.view.state import ViewState
    from muster_core.view.victims import Standing, Standings, Victim


@final
class Search:
    """What is the same for all nodes.

    Args:
        state: The view.
        standings: What stands on the nodes.
        scope: Whose plan is looked for.
    """

    def __init__(self, state: ViewState, standings: Standings, scope: Scope) -> None:
        self.state = state
        self.standings = standings
        self.scope = scope
        self.lacking = scope.lacking(Losses())
        #: The leaves of which something might be taken, and how much of each type at most.
        self.givers: dict[int, Side] = {}
        self._most: dict[int, dict[str, int]] = {}
        #: Of them those below queues that lack headroom, and those queues.
        self.helping: dict[int, list[int]] = {}
        #: A rank that no victim is below.
        self.floor: Rank = ()
        self._streams: dict[int, Stream] = {}
        for leaf in state.leaves_below(scope.fence()):
            if leaf.allocated:
                self._ask(leaf)

    def _ask(self, leaf: LeafView) -> None:
        """Find out how much might be taken from a leaf, as far as queues say."""
        side = self.scope.side(leaf.key)
        if side is None:
            return
        most: dict[str, int] = {}
        for name, amount in leaf.allocated.items():
            surplus = side.surplus(name)
            if surplus is None or surplus > 0:
                most[name] = amount if surplus is None else min(amount, surplus)
        if most:
            self.givers[leaf.key], self._most[leaf.key] = side, most

    def look(self) -> None:
        """Find out from which of the leaves anything might be taken, as far as priorities say."""
        self.standings.refresh()
        floors: list[Rank] = []
        for key, side in list(self.givers.items()):
            lowest = self.standings.lowest_of(key)
            assert lowest is not None, "a leaf that holds something stands on no node"
            if self.scope.is_beyond(side, lowest):
                del self.givers[key], self._most[key]
                continue
            floors.append(self.scope.floor(side, lowest))
            queues = [queue.key for queue in side.leaf.upward() if queue.key in self.lacking]
            if queues:
                self.helping[key] = queues
        self.floor = min(floors, default=())

    def sides_on(self, node: Node) -> Iterator[tuple[Side, Standing]]:
        """Give the leaves that might give something and have anything on a node."""
        for key, standing in self.standings.on(node).items():
            side = self.givers.get(key)
            if side is not None:
                yield side, standing

    def may_suffice(self, free: Mapping[str, int], capacity: Mapping[str, int]) -> bool:
        """Say whether it could be enough if all that might be taken went.

        Args:
            free: The most that a node has free of each type.
            capacity: The most that a node has of each type.
        """
        resources = self.scope.ask.resources
        for name, amount in resources.items():
            if amount > capacity.get(name, 0):
                return False
            lack = amount - free.get(name, 0)
            if lack > 0 and sum(most.get(name, 0) for most in self._most.values()) < lack:
                return False
        for key, names in self.lacking.items():
            queue = self.state.queues[key]
            limits = dict(queue.config.max.amounts)
            for name in names:
                over = queue.allocated.get(name, 0) + resources[name] - limits[name]
                if self._most_below(key, name) < over:
                    return False
        return True

    def _most_below(self, key: int, name: str) -> int:
        return sum(
            self._most[leaf].get(name, 0) for leaf, queues in self.helping.items() if key in queues
        )

    def least(self, node: Node) -> tuple[Rank, int] | None:
        """Give a rank and a number of victims that no plan for a node is below.

        Returns:
            None if no plan can work there.
        """
        lack = lack_on(node, self.scope.ask.resources, {})
        if not lack:
            return (self.floor, 1) if self.lacking else None
        sides = list(self.sides_on(node))
        count = 1
        for name, amount in lack.items():
            most = largest = 0
            for side, standing in sides:
                there = standing.amounts.get(name, 0)
                if there:
                    most += min(there, self._most[side.leaf.key].get(name, 0))
                    largest = max(largest, standing.largest[name])
            if most < amount:
                return None
            count = max(count, -(-amount // largest))
        if self.lacking:  # Who goes for the sake of headroom may stand anywhere.
            return (self.floor, count)
        floor = min(self.scope.floor(side, standing.lowest()) for side, standing in sides)
        return floor, count

    def stream(self, side: Side) -> Stream:
        """Give the victims of a leaf that stand for themselves, on all nodes, in order."""
        key = side.leaf.key
        if key not in self._streams:
            by_priority = self.scope.sorts_by_priority(side)
            self._streams[key] = Stream(self.standings.of_leaf(key, by_priority=by_priority))
        return self._streams[key]


@final
class Stream:
    """What an iterator gives, to be looked at more than once.

    Args:
        source: The iterator.
    """

    def __init__(self, source: Iterator[Victim]) -> None:
        self._source = source
        self._given: list[Victim] = []

    def get(self, number: int) -> Victim | None:
        """Give a victim by its position, from 0; None if there are not so many."""
        while len(self._given) <= number:
            victim = next(self._source, None)
            if victim is None:
                return None
            self._given.append(victim)
        return self._given[number]


def lack_on(node: Node, resources: Mapping[str, int], gained: Mapping[str, int]) -> dict[str, int]:
    """Give how much of each type a node lacks for an ask, with what it has gained."""
    lack: dict[str, int] = {}
    for name, amount in resources.items():
        free = node.capacity.get(name, 0) - node.used.get(name, 0) + gained.get(name, 0)
        if amount > free:
            lack[name] = amount - free
    return lack
