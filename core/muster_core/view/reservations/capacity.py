"""Capacity: how much room there will be for the members of a party, remembered until nodes change.

A timeline tells the room at each instant. Of the nodes with room, those that come first for one
member after another are found in the order that they have at that instant.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, TypeVar, final

import attrs

from muster_core.nodes.node import Node
from muster_core.structures.amounts import add_to
from muster_core.structures.ranking import Rank
from muster_core.structures.shapes import Shape
from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.gangs import Member
from muster_core.view.reservations.projection import Instant, Projection, Release, releases_on
from muster_core.view.state.view_state import ViewState

_MOST_REMEMBERED: Final = 256
"""For how many parties, and for how many kinds of members, the room is remembered."""

_MOST_HOLDINGS: Final = 16
"""How many results are remembered of a node, for holders of as much or more there."""

_AT: Final = attrgetter("at")

NOW: Final[Instant] = (False, -1)
"""An instant before all releases."""

_NEVER: Final[Instant] = (True, MAX_QUANTITY)
"""An instant after all releases."""

K = TypeVar("K")
V = TypeVar("V")

Amounts = tuple[tuple[str, int], ...]
"""How much of each type is held, in order."""

Place = tuple["Member", str]
"""A member of a party, and the name of the node that is reserved for it."""

_Kind = tuple[bool, "Shape"]
"""Members for which a node has the same room: whether they are node services, and their shape."""

_Counts = tuple[int, ...]
"""How many members of each kind have room at most, if there are no others."""


@final
class _Stage(NamedTuple):
    """The room on a node from an instant on, until that of its next stage.

    Attributes:
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
        held: What others are to hold there.
        until_us: The first expected end on the node, in microseconds: when that has passed without
            an end, the ends are others.
        ahead: The asks that give the node back, in order, without those of the party's group.
    """

    stages: tuple[_Stage, ...]
    node: Node
    version: int
    held: Amounts
    until_us: int
    ahead: tuple[Release, ...] = ()

    @property
    def first(self) -> Instant:
        """The first instant at which there is any room."""
        return self.stages[0].at if self.stages else _NEVER


_NOTHING: Final[Mapping[str, Amounts]] = {}


@final
class _MembersByKind:
    """The members of a party by kind.

    Args:
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
class _NodeStages:
    """The room on nodes for members of some kinds."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._found: dict[tuple[str, Amounts], _Stages] = {}

    def stages(self, members: _MembersByKind, node: Node, held: Amounts, now_us: int) -> _Stages:
        """Return the stages of a node.

        Args:
            members: The members.
            node: The node.
            held: What others are to hold there.
            now_us: The present instant, in microseconds.
        """
        known = self._found.get((node.name, held))
        if known is not None and known.node is node:
            if known.version == node.version and known.until_us > now_us:
                return known
        elif len(self._found) > _MOST_HOLDINGS * len(self._state.nodes.nodes):
            self._found.clear()
        found = self._found[node.name, held] = self._look_up(members, node, held, now_us)
        return found

    def _look_up(self, members: _MembersByKind, node: Node, held: Amounts, now_us: int) -> _Stages:
        if not node.matching & members.mask:
            return _Stages((), node, node.version, held, MAX_QUANTITY)
        ahead = releases_on(self._state, node, now_us)
        ends = [release.at[1] for release in ahead if not release.at[0]]
        ahead = [one for one in ahead if one.allocation.ask.gang not in members.group]
        has_devices = any(shape.devices for _, shape in members.needs)
        find = self._each if has_devices or node.kept else self._each_plain
        stages = [
            _Stage(at, node.name, room)
            for at, room in find(members, node, held, ahead)
            if any(room)
        ]
        until_us = min(ends, default=MAX_QUANTITY)
        return _Stages(tuple(stages), node, node.version, held, until_us, tuple(ahead))

    def _each(
        self, members: _MembersByKind, node: Node, held: Amounts, ahead: Iterable[Release]
    ) -> Iterator[tuple[Instant, _Counts]]:
        """Yield the room for each kind of members now, and at each instant of a release."""
        projection, examples = Projection(self._state), members.examples.values()
        projection.occupy(node, held)
        yield NOW, tuple([projection.room_for(member, node) for member in examples])
        for at, some in groupby(ahead, key=_AT):
            for release in some:
                projection.free(release.allocation, node)
            yield at, tuple([projection.room_for(member, node) for member in examples])

    def _each_plain(
        self, members: _MembersByKind, node: Node, held: Amounts, ahead: Iterable[Release]
    ) -> Iterator[tuple[Instant, _Counts]]:
        """Do the same where only amounts count, without a projection."""
        free, matching = dict(node.room), node.matching
        add_to(free, node.used, -1)
        add_to(free, dict(held), -1)
        kinds = [
            tuple(member.ask.resources.amounts.items())
            if matching >> self._state.bit_of(member.ask) & 1
            else ()
            for member in members.examples.values()
        ]

        def room() -> _Counts:
            return tuple([_how_often(free, kind) for kind in kinds])

        yield NOW, room()
        for at, some in groupby(ahead, key=_AT):
            for release in some:
                add_to(free, release.allocation.ask.resources.amounts)
            yield at, room()


def _how_often(free: Mapping[str, int], amounts: Amounts) -> int:
    """Return how often amounts fit in the free ones; never if there are none."""
    return max(0, min((free.get(name, 0) // amount for name, amount in amounts), default=0))


@final
class PartyCapacity:
    """The room on all nodes for one party, and where it was found to fit."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Stages] = {}
        #: The stages of all nodes, in order.
        self.stages: list[_Stage] = []
        #: The first expected end on which they depend, in microseconds.
        self.until_us = MAX_QUANTITY
        #: What was asked when the party was last placed, when it fits, and where; None if never.
        self._found: tuple[object, Instant, tuple[Place, ...] | None] | None = None

    def refresh(
        self,
        state: ViewState,
        known: _NodeStages,
        members: _MembersByKind,
        held: Mapping[str, Amounts],
        now_us: int,
    ) -> None:
        """Look again at the nodes that have changed, or are held otherwise."""
        nodes, mine, until_us, touched = state.nodes.nodes, self._nodes, MAX_QUANTITY, _NEVER
        for name, node in nodes.items():
            found, amounts = mine.get(name), held.get(name, ())
            if (
                found is None
                or found.version != node.version
                or found.held != amounts
                or found.until_us <= now_us
                or found.node is not node
            ):
                touched = min(touched, self._forget(found))
                found = mine[name] = known.stages(members, node, amounts, now_us)
                touched = min(touched, found.first)
                for stage in found.stages:
                    insort(self.stages, stage)
            until_us = min(until_us, found.until_us)
        self.until_us = until_us
        if len(mine) > len(nodes):
            for name in [one for one in mine if one not in nodes]:
                touched = min(touched, self._forget(mine.pop(name)))
        # Nodes without room up to a start have no part in it.
        if self._found is not None and touched <= self._found[1] and touched != _NEVER:
            self._found = None

    def _forget(self, found: _Stages | None) -> Instant:
        if found is None:
            return _NEVER
        for stage in found.stages:
            del self.stages[bisect_left(self.stages, stage)]
        return found.first

    def ahead_on(self, name: str) -> tuple[Release, ...]:
        """Return the asks that give a node back, in order, without those of the party's group."""
        return self._nodes[name].ahead

    def remember(self, question: object, found: tuple[Instant, tuple[Place, ...]] | None) -> None:
        """Remember when and where the party fits, as long as no node changes with room up to then."""
        at, places = (_NEVER, None) if found is None else found
        self._found = question, at, places

    def remembered(
        self, question: object
    ) -> tuple[tuple[Instant, tuple[Place, ...]] | None] | None:
        """Return the remembered result in a tuple; None if there is none."""
        if self._found is None or self._found[0] != question:
            return None
        _, at, places = self._found
        return (None,) if places is None else ((at, places),)


@final
class Timeline:
    """The room for the members of a party at each instant.

    It is an upper bound: the members may not fit all together.

    Args:
        needs: How many members there are of each kind.
        room: The room on all nodes.
        since: The first instant that counts.
    """

    def __init__(self, needs: Sequence[int], room: PartyCapacity, since: Instant) -> None:
        self._needs = needs
        self._since = since
        self.room = room
        self.until_us = room.until_us

    @property
    def is_of_one_kind(self) -> bool:
        """Whether the members are of one kind, so that their order does not matter."""
        return len(self._needs) == 1

    def __iter__(self) -> Iterator[tuple[Instant, Mapping[str, _Counts]]]:
        """Yield each instant at which there may be room for all members, and the nodes with room.

        Instants at which nothing changes on these nodes are left out, and the first may be
        :data:`NOW`, or that from which on instants count. The dictionary of nodes changes afterwards.
        """
        needs, since = self._needs, self._since
        totals, nothing = [0] * len(needs), (0,) * len(needs)
        nodes: dict[str, _Counts] = {}
        is_enough, is_to_come = False, since > NOW
        for at, some in groupby(self.room.stages, key=itemgetter(0)):
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


@final
class CapacityCache:
    """Caches the room for parties."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._known: dict[tuple[object, ...], _NodeStages] = {}
        self._parties: dict[tuple[object, ...], PartyCapacity] = {}
        self._reconfigured = -1

    def timeline(
        self,
        members: Sequence[Member],
        group: Sequence[str],
        now_us: int,
        held: Mapping[str, Amounts] = _NOTHING,
        since: Instant = NOW,
    ) -> Timeline:
        """Return the room for the members of a party.

        Args:
            members: The members.
            group: The names of the gangs whose members keep the nodes that they hold.
            now_us: The present instant, in microseconds.
            held: What others are to hold on nodes, by the names of the nodes.
            since: The first instant that counts.
        """
        state, sought = self._state, _MembersByKind(self._state, members, group)
        if self._reconfigured != state.reconfigured:
            self._reconfigured = state.reconfigured
            self._known.clear()
            self._parties.clear()
        known = _remembered(self._known, sought.key, partial(_NodeStages, state))
        party = (*group, *(member.key for member in members))
        room = _remembered(self._parties, party, PartyCapacity)
        room.refresh(state, known, sought, held, now_us)
        return Timeline(list(sought.needs.values()), room, since)


def _remembered(known: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """Return what is remembered under a key, or make it; if it is too much, forget all."""
    if key not in known:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        known[key] = make()
    return known[key]


_RankedNode = tuple["Rank", int, "Node"]
"""The place of a node with room for a shape, and how many asks were placed on it then."""


@final
class FirstNodes:
    """Finds the first node for members of a party that are placed one after another.

    A projection would compare all nodes for each member.

    Args:
        nodes: The nodes; no topology says which of them a member may take.
    """

    def __init__(self, projection: Projection, nodes: Sequence[Node]) -> None:
        self._projection = projection
        self._nodes = nodes
        #: How many asks were placed on a node.
        self._placed: dict[Node, int] = {}
        #: The nodes with room by the leaf and the shape of members, and one such member. Entries of
        #: a node on which more was placed meanwhile do not count.
        self._heaps: dict[tuple[int, Shape], tuple[Member, list[_RankedNode]]] = {}

    def find(self, member: Member) -> Node | None:
        """Return the first node on which a member has room, or None."""
        key = (member.app.identity.leaf, member.ask.shape)
        if key not in self._heaps:
            has_room = self._projection.has_room
            heap = [self._entry(member, node) for node in self._nodes if has_room(member, node)]
            heapify(heap)
            self._heaps[key] = member, heap
        _, heap = self._heaps[key]
        while heap:
            _, placed, node = heap[0]
            if placed == self._placed.get(node, 0):
                return node
            heappop(heap)
        return None

    def place(self, member: Member, node: Node) -> None:
        """Let a member hold a node."""
        self._projection.place(member, node)
        self._placed[node] = self._placed.get(node, 0) + 1
        for other, heap in self._heaps.values():
            if self._projection.has_room(other, node):
                heappush(heap, self._entry(other, node))

    def _entry(self, member: Member, node: Node) -> _RankedNode:
        rank = self._projection.rank(node, member.ask)
        return rank, self._placed.get(node, 0), node
