"""Who has to go for an ask to be placed on a node.

SPEC section 7. The first in order that is useful is taken, and so on until the ask fits;
then each of them is spared again without whom it still fits, from the last to the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.totals import add_to, take_from
from muster_core.view.scopes import Losses
from muster_core.view.search import lack_on
from muster_core.view.units import UnitBook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster_core.nodes import Node
    from muster_core.view.leaves import LeafView
    from muster_core.view.scopes import Key, Side
    from muster_core.view.search import Search
    from muster_core.view.units import Unit
    from muster_core.view.victims import Victim


@final
class Picking:
    """Who has to go for an ask to be placed on one node.

    Args:
        search: The search for a plan.
        node: The node.
    """

    def __init__(self, search: Search, node: Node) -> None:
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

    def pick(self) -> tuple[Victim, ...] | None:
        """Give who has to go, in the order in which they are taken; None if that will not do."""
        while not self._fits():
            unit = self._first()
            if unit is None:
                return None
            self._take(unit)
        for unit in reversed(list(self._taken)):
            self._spare(unit)
        return tuple(victim for unit in self._taken for victim in unit)

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
