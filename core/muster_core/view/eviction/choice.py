"""Who has to go for an ask to be placed on a node.

EVICTION-20 to EVICTION-24. The first in order that is useful is taken, and so on until the ask fits;
then each of them is spared again without whom it still fits, from the last to the first.

All that could be taken first is in a heap: of each leaf the next that stands for itself, and
the units of members of gangs. In the course of a plan a place only moves back, what may not
be taken never may again, and what is useless stays so. So it is enough to look at what is
on top, and to put it back if its place is another one by now.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, final

import attrs

from muster_core.structures.steps import SIZE
from muster_core.view.eviction.eligibility import Losses
from muster_core.view.eviction.units import UnitTracker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster_core.nodes.node import Node
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.eligibility import Key, Side
    from muster_core.view.eviction.search import Search
    from muster_core.view.eviction.units import Unit
    from muster_core.view.eviction.victims import LeafOnNode, Victim


@final
@attrs.define(eq=False)
class _Line:
    """Victims that stand for themselves, one behind the other.

    Attributes:
        side: Their leaf, or None for those of all leaves.
        victims: They, in order.
        anywhere: They stand on any node, and go for the sake of headroom.
        position: The one whose turn it is.
    """

    side: Side | None
    victims: Sequence[Victim]
    anywhere: bool
    position: int = 0


@final
@attrs.frozen(eq=False)
class _Members:
    """What goes with a member of a gang.

    Attributes:
        member: The member.
    """

    member: Victim


_Entry = tuple["Key", int, _Line | _Members]


@final
class VictimChoice:
    """Who has to go for an ask to be placed on one node.

    Args:
        search: The search for a plan.
        node: The node.
    """

    def __init__(self, search: Search, node: Node) -> None:
        self._search = search
        self._eligibility = search.eligibility
        self._node = node
        self._losses = Losses(search.shares)
        self._units = UnitTracker(search.state)
        #: What was taken, in order.
        self._taken: list[Unit] = []
        #: What lacks: on the node, and in the headroom of queues; of what does not, how much less
        #: than nothing.
        self._lack: dict[str, int] = {}
        for name, amount in search.eligibility.ask.resources.items():
            self._lack[name] = amount - node.capacity.get(name, 0) + node.used.get(name, 0)
        self._over = {key: dict(names) for key, names in search.over.items()}
        #: The types of which there is not enough, on the node and below queues.
        self._lacking: list[str] = []
        self._overfull: dict[int, list[str]] = {}
        self._find_lacking()
        self._heap: list[_Entry] = []
        self._numbers = 0

    def pick(self) -> Steps[tuple[Victim, ...] | None]:
        """Give who has to go, in the order in which they are taken; None if that will not do."""
        yield from self._begin()
        looks = 0
        while self._lacking or self._overfull:
            unit = self._next()
            looks += 1
            if looks % SIZE == 0:
                yield
            if unit is not None:
                self._take(unit)
            elif not self._heap:
                return None
        for number, unit in enumerate(reversed(list(self._taken)), 1):
            if number % SIZE == 0:
                yield
            self._spare(unit)
        return tuple(victim for unit in self._taken for victim in unit)

    # What lacks

    def _find_lacking(self) -> None:
        self._lacking = [name for name, amount in self._lack.items() if amount > 0]
        if self._over:
            overfull = {
                key: [name for name, amount in names.items() if amount > 0]
                for key, names in self._over.items()
            }
            self._overfull = {key: names for key, names in overfull.items() if names}

    def _change(self, victim: Victim, sign: int) -> None:
        """Take note that a victim goes (-1) or stays after all (1)."""
        resources = victim.allocation.ask.resources
        if victim.node is self._node:
            for name in self._lack:
                self._lack[name] += sign * resources[name]
        if self._over:
            for key in self._search.helping.get(victim.leaf, ()):
                names = self._over[key]
                for name in names:
                    names[name] += sign * resources[name]

    def _take(self, unit: Unit) -> None:
        self._taken.append(unit)
        self._units.take(unit)
        for victim in unit:
            self._losses.take(victim, self._side(victim).losing)
            self._change(victim, -1)
        self._find_lacking()
        self._close_ranks(unit)

    def _spare(self, unit: Unit) -> None:
        """Give a unit back, if the ask fits all the same."""
        for victim in unit:
            self._change(victim, 1)
        self._find_lacking()
        if not self._lacking and not self._overfull and not self._units.would_break(unit):
            self._taken.remove(unit)
            self._units.spare(unit)
            return
        for victim in unit:
            self._change(victim, -1)
        self._find_lacking()

    def _side(self, victim: Victim) -> Side:
        side = self._eligibility.side(victim.leaf)
        assert side is not None, "a victim that cannot be one"
        return side

    # The heap

    def _begin(self) -> Steps[None]:
        """Put everything into the heap that could be taken first, as it is now or higher up."""
        search = self._search
        members: dict[Victim, None] = {}
        if search.in_one_order:
            plain, others = search.victim_index.on(self._node).parts()
            members.update((one, None) for one in others if one.leaf in search.givers)
            self._enter_line(_Line(None, plain, anywhere=False))
        for side, standing in self._sides() if self._lacking else ():
            members.update(dict.fromkeys(standing.members))
            if side.leaf.key not in search.helping:
                self._line_up(side, anywhere=False)
        for key in search.helping:
            self._line_up(search.givers[key], anywhere=True)
            members.update(search.rows[key].members)
        seen: set[tuple[int, str]] = set()
        for number, member in enumerate(members, 1):
            if number % SIZE == 0:
                yield
            if self._units.name(member) not in seen:
                seen.update(map(self._units.name, self._enter(member)))

    def _sides(self) -> Iterable[tuple[Side, LeafOnNode]]:
        """Give the leaves that are looked at one by one."""
        return () if self._search.in_one_order else self._search.sides_on(self._node)

    def _line_up(self, side: Side, *, anywhere: bool) -> None:
        """Put the victims of a leaf that stand for themselves in line."""
        search, key = self._search, side.leaf.key
        by_priority = self._eligibility.sorts_by_priority(side)
        if anywhere:
            victims = search.rows[key].in_order(by_priority=by_priority)
        else:
            standing = search.victim_index.on(self._node).by_leaf().get(key)
            victims = () if standing is None else standing.in_order(by_priority=by_priority)
        self._enter_line(_Line(side, victims, anywhere))

    def _enter_line(self, line: _Line) -> None:
        """Put a line into the heap, with the place of the first in it who might go."""
        head = self._head(line)
        if head is not None:
            self._push(self._key(*head), line)

    def _head(self, line: _Line) -> tuple[Side, Victim] | None:
        """Give the first in a line who might go, and leave out those before."""
        victims, givers = line.victims, self._search.givers
        while line.position < len(victims):
            victim = victims[line.position]
            side = givers.get(victim.leaf) if line.side is None else line.side
            if side is not None:
                return side, victim
            line.position += 1
        return None

    def _enter(self, member: Victim) -> Unit:
        """Put what goes with a member of a gang into the heap, if it may; give that."""
        unit = self._units.unit_of(member)
        if len(unit) == 1:
            side = self._eligibility.side(member.leaf)
            if side is not None:
                self._push(self._key(side, member), _Members(member))
        elif self._will_do(unit):
            self._push(min(map(self._key_of, unit)), _Members(member))
        return unit

    def _push(self, key: Key, what: _Line | _Members) -> None:
        self._numbers += 1
        heappush(self._heap, (key, self._numbers, what))

    def _next(self) -> Unit | None:
        """Look at what is on top, and give it if it is the first that will do."""
        if not self._heap:
            return None
        before, _, what = heappop(self._heap)
        if isinstance(what, _Members):
            return self._first_of_members(before, what)
        return self._first_of_line(before, what)

    def _first_of_line(self, before: Key, line: _Line) -> Unit | None:
        own = line.side
        if line.anywhere and own is not None and not self._helps(own.leaf.key):
            if self._lacking:  # From now on only who stands on the node is useful.
                self._line_up(own, anywhere=False)
            return None
        for _ in range(SIZE):
            head = self._head(line)
            if head is None:
                return None
            side, victim = head
            if self._will_do_alone(side, victim):
                key = self._key(side, victim)
                if key > before:
                    self._push(key, line)
                    return None
                line.position += 1
                self._enter_line(line)
                return (victim,)
            if line.side is not None and self._eligibility.is_beyond(side, victim.place[0]):
                return None  # Nobody behind it may be taken either.
            line.position += 1
        self._push(before, line)
        return None

    def _first_of_members(self, before: Key, what: _Members) -> Unit | None:
        if self._units.is_taken(what.member):
            return None
        unit = self._units.unit_of(what.member)
        if not self._will_do(unit):
            return None
        keyed = sorted(((self._key_of(victim), victim) for victim in unit), key=_key)
        if keyed[0][0] > before:
            self._push(keyed[0][0], what)
            return None
        return tuple(victim for _, victim in keyed)

    def _close_ranks(self, unit: Unit) -> None:
        """Let the rest of a gang go as one from now on, if one more would leave too few."""
        if len(unit) == 1 and unit[0].gang is not None and unit[0].bound:
            rest = self._units.rest_of(unit[0].gang)
            if len(rest) > 1 and self._will_do(rest):
                self._push(min(map(self._key_of, rest)), _Members(rest[0]))

    # One by one

    def _key(self, side: Side, victim: Victim) -> Key:
        return self._eligibility.key(side, victim, self._losses)

    def _key_of(self, victim: Victim) -> Key:
        return self._eligibility.key(self._side(victim), victim, self._losses)

    def _will_do(self, unit: Unit) -> bool:
        """Say whether something would be won with a unit that was not taken, and it may go."""
        return any(map(self._is_useful, unit)) and self._eligibility.may_take(unit, self._losses)

    def _will_do_alone(self, side: Side, victim: Victim) -> bool:
        return (
            self._is_useful(victim)
            and not self._units.is_taken(victim)
            and self._eligibility.may_take_one(side, victim, self._losses)
        )

    def _helps(self, leaf: int) -> bool:
        return any(key in self._overfull for key in self._search.helping.get(leaf, ()))

    def _is_useful(self, victim: Victim) -> bool:
        resources = victim.allocation.ask.resources
        if victim.node is self._node:
            for name in self._lacking:
                if resources[name]:
                    return True
        if not self._overfull:
            return False
        return any(
            resources[name]
            for key in self._search.helping.get(victim.leaf, ())
            for name in self._overfull.get(key, ())
        )


def _key(keyed: tuple[Key, Victim]) -> Key:
    return keyed[0]
