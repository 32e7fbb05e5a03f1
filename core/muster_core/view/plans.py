"""Plans: on which node an ask could be placed if others went, and who these are.

SPEC section 7. On each node victims are taken, the first in order that is useful each
time, until the ask fits, and then spared again as far as they need not go. Of the nodes
on which that works the one is chosen whose victims stand lowest, then with the fewest,
then the first. A node that cannot work, or cannot be better than what was found, is left
out after a look at sums, without looking at who stands there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.totals import add_to, take_from
from muster_core.view.scopes import Losses
from muster_core.view.units import UnitBook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster_core.nodes import Node
    from muster_core.view.queues import LeafView
    from muster_core.view.scopes import Key, Rank, Scope, Side
    from muster_core.view.state import ViewState
    from muster_core.view.units import Unit
    from muster_core.view.victims import Standing, Standings, Victim


@final
@attrs.frozen(eq=False)
class Plan:
    """What would place an ask.

    Attributes:
        scope: Whose plan it is.
        node: The node.
        victims: Who has to go, in the order in which they are taken.
        rank: The highest rank among them.
    """

    scope: Scope
    node: Node
    victims: tuple[Victim, ...]
    rank: Rank


@final
class Planner:
    """Finds the best plan for an ask that does not fit as things are.

    Args:
        state: The view.
        standings: What stands on the nodes.
    """

    def __init__(self, state: ViewState, standings: Standings) -> None:
        self._state = state
        self._standings = standings
        #: The most that a node has of each type and has free of it, at which change of the nodes.
        self._capacity: dict[str, int] = {}
        self._free: dict[str, int] = {}
        self._measured = -1

    def find(self, scope: Scope, bit: int) -> Plan | None:
        """Find the best plan.

        Args:
            scope: Whose plan.
            bit: The bit of the shape of the ask.
        """
        search = _Search(self._state, self._standings, scope)
        if not search.givers:
            return None
        search.look()
        self._measure()
        app, ask, takings = scope.app.identity.key, scope.ask, self._state.takings
        lost = takings.has_lost(app, ask)
        if not search.may_suffice(self._free, self._capacity):
            return None
        best: Plan | None = None
        for node in self._state.nodes.in_order():
            if not node.matching >> bit & 1 or (lost and takings.lost_on(app, ask, node.name)):
                continue
            least = search.least(node)
            if least is None or (best is not None and least >= _worth(best)):
                continue
            plan = _OnNode(search, node).make()
            if plan is not None and (best is None or _worth(plan) < _worth(best)):
                best = plan
                if _worth(best) <= (search.floor, 1):
                    break
        return best

    def _measure(self) -> None:
        """Find the most that a node has of each type, and has free of it."""
        if self._measured == self._state.nodes.changes:
            return
        self._measured = self._state.nodes.changes
        self._free.clear()
        self._capacity.clear()
        for node in self._state.nodes.nodes.values():
            for name, amount in node.capacity.items():
                free = amount - node.used.get(name, 0)
                if free > self._free.get(name, 0):
                    self._free[name] = free
                if amount > self._capacity.get(name, 0):
                    self._capacity[name] = amount


def _worth(plan: Plan) -> tuple[Rank, int]:
    return (plan.rank, len(plan.victims))


@final
class _Search:
    """What is the same for all nodes."""

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
        self._streams: dict[int, _Stream] = {}
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

    def stream(self, side: Side) -> _Stream:
        """Give the victims of a leaf that stand for themselves, on all nodes, in order."""
        key = side.leaf.key
        if key not in self._streams:
            by_priority = self.scope.sorts_by_priority(side)
            self._streams[key] = _Stream(self.standings.of_leaf(key, by_priority=by_priority))
        return self._streams[key]


@final
class _Stream:
    """What an iterator gives, to be looked at more than once."""

    def __init__(self, source: Iterator[Victim]) -> None:
        self._source = source
        self._given: list[Victim] = []

    def get(self, number: int) -> Victim | None:
        while len(self._given) <= number:
            victim = next(self._source, None)
            if victim is None:
                return None
            self._given.append(victim)
        return self._given[number]


@final
class _OnNode:
    """The search for a plan on one node."""

    def __init__(self, search: _Search, node: Node) -> None:
        self._search = search
        self._scope = search.scope
        self._node = node
        self._losses = Losses()
        self._units = UnitBook(search.state)
        #: What was taken, in order, and what the node has gained by it.
        self._taken: list[Unit] = []
        self._gained: dict[str, int] = {}
        #: How many of the victims of a leaf cannot be taken any more, on the node and anywhere.
        self._passed: dict[tuple[int, bool], int] = {}
        #: What lacks now: on the node, and in the headroom of queues.
        self._lack: Mapping[str, int] = {}
        self._lacking: Mapping[int, set[str]] = {}

    def make(self) -> Plan | None:
        """Make the plan, or find that the ask cannot be placed on the node."""
        while not self._fits():
            unit = self._first()
            if unit is None:
                return None
            self._take(unit)
        for unit in reversed(list(self._taken)):
            self._spare(unit)
        victims = tuple(victim for unit in self._taken for victim in unit)
        if not victims:
            return None
        rank = max(self._scope.rank(self._side(victim), victim) for victim in victims)
        return Plan(self._scope, self._node, victims, rank)

    def _fits(self) -> bool:
        self._lack = lack_on(self._node, self._scope.ask.resources, self._gained)
        self._lacking = self._scope.lacking(self._losses)
        return not self._lack and not self._lacking

    def _take(self, unit: Unit) -> None:
        self._taken.append(unit)
        self._units.take(unit)
        for victim in unit:
            self._losses.take(victim, self._side(victim).leaf)
            if victim.node is self._node:
                add_to(self._gained, victim.allocation.ask.resources)

    def _spare(self, unit: Unit) -> None:
        """Give a unit back, if the ask fits all the same."""
        if self._units.would_break(unit):
            return
        for victim in unit:
            self._losses.spare(victim, self._side(victim).leaf)
            if victim.node is self._node:
                take_from(self._gained, victim.allocation.ask.resources)
        if self._fits():
            self._taken.remove(unit)
            self._units.spare(unit)
            return
        for victim in unit:
            self._losses.take(victim, self._side(victim).leaf)
            if victim.node is self._node:
                add_to(self._gained, victim.allocation.ask.resources)

    def _side(self, victim: Victim) -> Side:
        side = self._scope.side(victim.app.identity.leaf)
        assert side is not None, "a victim that cannot be one"
        return side

    def _first(self) -> Unit | None:
        """Give the first in order of what is useful and may be taken."""
        best: tuple[Key, Unit] | None = None
        for key, unit in (*self._first_plain(), *self._first_units()):
            if best is None or key < best[0]:
                best = (key, unit)
        return None if best is None else best[1]

    def _first_plain(self) -> Iterator[tuple[Key, Unit]]:
        """Give for each leaf the first victim that stands for itself."""
        if self._lack:
            for side, standing in self._search.sides_on(self._node):
                if not self._helps_headroom(side.leaf):
                    by_priority = self._scope.sorts_by_priority(side)
                    victims = standing.in_order(by_priority=by_priority)
                    victim = self._next_here(side, victims)
                    if victim is not None:
                        yield self._keyed(side, victim)
        for side in self._helping():
            victim = self._next_anywhere(side)
            if victim is not None:
                yield self._keyed(side, victim)

    def _helping(self) -> Iterator[Side]:
        """Give the leaves whose asks are useful wherever they are."""
        for leaf in self._search.helping:
            side = self._search.givers[leaf]
            if self._helps_headroom(side.leaf):
                yield side

    def _keyed(self, side: Side, victim: Victim) -> tuple[Key, Unit]:
        return self._scope.key(side, victim, self._losses), (victim,)

    def _next_here(self, side: Side, victims: list[Victim]) -> Victim | None:
        """Give the first victim of a leaf on the node that will do.

        One that will not do now never will in this plan: less and less is lacking, and what
        its queues have only shrinks.
        """
        place = (side.leaf.key, False)
        number = self._passed.get(place, 0)
        while number < len(victims) and not self._will_do(victims[number]):
            beyond = self._is_beyond(side, victims[number])
            number = len(victims) if beyond else number + 1
        self._passed[place] = number
        return victims[number] if number < len(victims) else None

    def _next_anywhere(self, side: Side) -> Victim | None:
        """Give the first victim of a leaf on whatever node that will do."""
        stream, place = self._search.stream(side), (side.leaf.key, True)
        number = self._passed.get(place, 0)
        while (victim := stream.get(number)) is not None and not self._will_do(victim):
            if self._is_beyond(side, victim):
                return None
            number += 1
        self._passed[place] = number
        return victim

    def _is_beyond(self, side: Side, victim: Victim) -> bool:
        """Say whether nobody behind a victim of a leaf may be taken either."""
        return self._scope.is_beyond(side, victim.allocation.ask.priority)

    def _will_do(self, victim: Victim) -> bool:
        return (
            not self._units.is_taken(victim)
            and self._is_useful(victim)
            and self._scope.may_take((victim,), self._losses)
        )

    def _helps_headroom(self, leaf: LeafView) -> bool:
        return any(key in self._lacking for key in self._search.helping.get(leaf.key, ()))

    def _is_useful(self, victim: Victim) -> bool:
        resources = victim.allocation.ask.resources
        if victim.node is self._node and any(resources[name] for name in self._lack):
            return True
        return any(
            resources[name]
            for key in self._search.helping.get(victim.app.identity.leaf, ())
            for name in self._lacking.get(key, ())
        )

    def _first_units(self) -> Iterator[tuple[Key, Unit]]:
        """Give what members of gangs can be taken, each with its place."""
        seen: set[tuple[int, str]] = set()
        for member in self._members():
            if self._units.name(member) in seen or self._units.is_taken(member):
                continue
            unit = self._units.unit_of(member)
            seen.update(map(self._units.name, unit))
            if not any(map(self._is_useful, unit)):
                continue
            if self._scope.may_take(unit, self._losses):
                yield self._in_order(unit)

    def _members(self) -> Iterable[Victim]:
        if self._lack:
            for _, standing in self._search.sides_on(self._node):
                yield from standing.members
        for side in self._helping():
            yield from self._search.standings.members_of_leaf(side.leaf.key)

    def _in_order(self, unit: Unit) -> tuple[Key, Unit]:
        keyed = [
            (self._scope.key(self._side(victim), victim, self._losses), victim) for victim in unit
        ]
        keyed.sort(key=_key)
        return keyed[0][0], tuple(victim for _, victim in keyed)


def _key(keyed: tuple[Key, Victim]) -> Key:
    return keyed[0]


def lack_on(node: Node, resources: Mapping[str, int], gained: Mapping[str, int]) -> dict[str, int]:
    """Give how much of each type a node lacks for an ask, with what it has gained."""
    lack: dict[str, int] = {}
    for name, amount in resources.items():
        free = node.capacity.get(name, 0) - node.used.get(name, 0) + gained.get(name, 0)
        if amount > free:
            lack[name] = amount - free
    return lack
