"""How much room there will be for the members of a party, remembered until nodes change."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, final

import attrs

from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.reservations.later.projection import Projection
from muster_core.view.reservations.later.releases import releases_on

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from muster_core.nodes.node import Node
    from muster_core.structures.shapes import Shape
    from muster_core.view.gangs.member import Member
    from muster_core.view.reservations.later.releases import Instant
    from muster_core.view.state.view_state import ViewState


_MOST: Final = 32
"""For how many parties the room is remembered."""

NOW: Final[Instant] = (False, -1)
"""An instant before all releases."""

_Kind = tuple[bool, "Shape"]
"""Members for which a node has the same room: whether they are node services, and their shape."""

_Counts = tuple[int, ...]
"""How many members of each kind have room at most, if there are no others."""


@final
class _Stage(NamedTuple):
    """The room on a node from an instant on, until that of its next stage.

    Attributes:
        at: The instant.
        name: The name of the node.
        room: The room for each kind of members.
    """

    at: Instant
    name: str
    room: _Counts


@final
@attrs.frozen(eq=False)
class _Stages:
    """The stages of a node.

    Attributes:
        stages: Those with any room, in order.
        version: The version of the node.
        until_us: The first expected end on the node, in microseconds: when that has passed without
            an end, the ends are others.
    """

    stages: tuple[_Stage, ...]
    version: int
    until_us: int


@final
class _Members:
    """The members of a party by kind.

    Args:
        state: The view.
        members: The members.
        group: The names of the gangs whose members keep the nodes that they hold.
    """

    def __init__(self, state: ViewState, members: Sequence[Member], group: Sequence[str]) -> None:
        self.group = group
        #: How many there are of each kind, and one of them.
        self.needs: dict[_Kind, int] = {}
        self.examples: dict[_Kind, Member] = {}
        for member in members:
            # Not by leaf: a scope may have many, and each would have all nodes looked at again.
            is_service = state.kept_nodes.is_service(state.leaf_of(member.app), member.ask)
            kind = (is_service, member.ask.shape)
            self.examples.setdefault(kind, member)
            self.needs[kind] = self.needs.get(kind, 0) + 1
        self.mask = 0
        for member in self.examples.values():
            self.mask |= 1 << state.bit_of(member.ask)

    @property
    def key(self) -> tuple[object, ...]:
        """All of the party on which its room depends."""
        return (*self.group, *self.needs)


@final
class _Known:
    """The room on all nodes for one party.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._nodes: dict[Node, _Stages] = {}
        #: The stages of all nodes, in order.
        self.stages: list[_Stage] = []
        #: The first expected end on which they depend, in microseconds.
        self.until_us = MAX_QUANTITY

    def refresh(self, members: _Members, now_us: int) -> None:
        """Look again at the nodes that have changed, or where an end is overdue."""
        nodes, known = self._state.nodes.nodes, self._nodes
        until_us = MAX_QUANTITY
        for node in nodes.values():
            found = known.get(node)
            if found is None or found.version != node.version or found.until_us <= now_us:
                self._forget(found)
                found = known[node] = stages_of(self._state, members, node, now_us)
                for stage in found.stages:
                    insort(self.stages, stage)
            until_us = min(until_us, found.until_us)
        self.until_us = until_us
        if len(known) > len(nodes):
            for node in [one for one in known if nodes.get(one.name) is not one]:
                self._forget(known.pop(node))

    def _forget(self, found: _Stages | None) -> None:
        for stage in () if found is None else found.stages:
            del self.stages[bisect_left(self.stages, stage)]


def stages_of(
    state: ViewState,
    members: _Members,
    node: Node,
    now_us: int,
    projection: Projection | None = None,
) -> _Stages:
    """Find out how much room a node has for the members of a party, and will have.

    Args:
        state: The view.
        members: The members.
        node: The node.
        now_us: The present instant, in microseconds.
        projection: The view, in which others may hold the node; it changes.
    """
    if not node.matching & members.mask:
        return _Stages((), node.version, MAX_QUANTITY)
    then = Projection(state) if projection is None else projection
    releases, examples = releases_on(state, node, now_us), members.examples.values()
    ends = [release.at[1] for release in releases if not release.at[0]]
    stages: list[_Stage] = []

    def look(at: Instant) -> None:
        room = tuple([then.room_for(member, node) for member in examples])
        if any(room):
            stages.append(_Stage(at, node.name, room))

    look(NOW)
    for at, some in groupby(releases, key=lambda release: release.at):
        for release in some:
            if release.allocation.ask.gang not in members.group:
                then.free(release.allocation, node)
        look(at)
    return _Stages(tuple(stages), node.version, min(ends, default=MAX_QUANTITY))


@final
class Timeline:
    """The room for the members of a party at each instant.

    It is an upper bound: the members may not fit all together.

    Args:
        needs: How many members there are of each kind.
        stages: The stages of all nodes, in order.
        until_us: The first expected end on which they depend, in microseconds.
        instead: The stages of some nodes that others hold, in order, to be taken instead.
        names: The names of these nodes.
        since: The first instant that counts.
    """

    def __init__(
        self,
        needs: Sequence[int],
        stages: Sequence[_Stage],
        until_us: int,
        instead: Sequence[_Stage] = (),
        names: Collection[str] = (),
        *,
        since: Instant = NOW,
    ) -> None:
        self._needs = needs
        self._stages = stages
        self._instead = instead
        self._names = names
        self._since = since
        self.until_us = until_us

    def __iter__(self) -> Iterator[tuple[Instant, Mapping[str, _Counts]]]:
        """Yield each instant at which there may be room for all members, and the nodes with room.

        Instants at which nothing changes on these nodes are left out, and the first may be
        :data:`NOW`, or that from which on instants count. The dictionary of nodes changes afterwards.
        """
        needs, since = self._needs, self._since
        totals, nothing = [0] * len(needs), (0,) * len(needs)
        nodes: dict[str, _Counts] = {}
        is_enough, is_to_come = False, since > NOW
        for at, some in groupby(self._in_order(), key=itemgetter(0)):
            if is_to_come and at >= since:
                is_to_come = False
                if is_enough and at > since:
                    yield since, nodes
            for _, name, room in some:
                before = nodes.get(name, nothing)
                for number, count in enumerate(room):
                    totals[number] += count - before[number]
                nodes[name] = room
            is_enough = all(map(int.__ge__, totals, needs))
            if is_enough and at >= since:
                yield at, nodes
        if is_enough and is_to_come:
            yield since, nodes

    def _in_order(self) -> Iterable[_Stage]:
        if not self._names:
            return self._stages
        # Mostly few of them are looked at.
        return merge((one for one in self._stages if one.name not in self._names), self._instead)


@final
class Rooms:
    """Remembers the room for the parties for which somebody has asked.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._known: dict[tuple[object, ...], _Known] = {}
        self._reconfigured = -1

    def timeline(
        self,
        members: Sequence[Member],
        group: Sequence[str],
        now_us: int,
        held: Projection | None = None,
        names: Collection[str] = (),
        *,
        since: Instant = NOW,
    ) -> Timeline:
        """Return the room for the members of a party.

        Args:
            members: The members.
            group: The names of the gangs whose members keep the nodes that they hold.
            now_us: The present instant, in microseconds.
            held: The view, in which others hold some nodes; it changes.
            names: The names of these nodes.
            since: The first instant that counts.
        """
        state, sought = self._state, _Members(self._state, members, group)
        known = self._of(sought.key)
        known.refresh(sought, now_us)
        needs = list(sought.needs.values())
        if held is None:
            return Timeline(needs, known.stages, known.until_us, since=since)
        there = [state.nodes.nodes[name] for name in names if name in state.nodes.nodes]
        with_others = [stages_of(state, sought, node, now_us, held) for node in there]
        instead = sorted(stage for one in with_others for stage in one.stages)
        return Timeline(needs, known.stages, known.until_us, instead, names, since=since)

    def _of(self, key: tuple[object, ...]) -> _Known:
        if self._reconfigured != self._state.reconfigured or len(self._known) > _MOST:
            self._reconfigured = self._state.reconfigured
            self._known.clear()
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(self._state)
        return known
