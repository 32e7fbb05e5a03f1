"""Parties: the asks of a reservation, their reserved nodes, and their future holdings.

The holdings show whether the parties still have enough beside an ask. Only a projection shows this
for devices, topologies and nodes that node services keep. For all other asks only those
reservations count that are to hold a part of the same node, queue or limit: to any other one there
is as much room as now, or more. So the starts are looked at one after another, with what is
released and what is held up to each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, Union, final

import attrs

from muster_core.nodes.node import Node
from muster_core.owners.asks import Ask
from muster_core.structures.amounts import add_to
from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.gangs import Member, MemberKey, ViewGroup, pending_members
from muster_core.view.placement_diff import PendingOrder, PlacementDiff
from muster_core.view.reservations.capacity import Amounts, Place
from muster_core.view.reservations.projection import Instant, Release, releases_of, releases_on
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import ViewLimit
from muster_core.view.tree.queue import ViewQueue


@final
@attrs.frozen(eq=False)
class Party:
    """The asks that a reservation is for.

    Attributes:
        group: The names of the gangs of the group whose missing members they are; empty for a
            plain ask.
        keys: The keys that distinguish it from parties of other asks.
    """

    members: tuple[Member, ...]
    group: tuple[str, ...]
    keys: frozenset[MemberKey] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find the keys that distinguish it from other parties."""
        object.__setattr__(self, "keys", frozenset(member.key for member in self.members))

    # BACKFILL-15
    def is_that_of(self, other: Party) -> bool:
        """Return whether another party is for the same group, which may have lacked others, or ask.

        A member is an ask alone while its gang is satisfied. It holds one node in either party, so
        one reservation is enough for it.
        """
        is_same_group = bool(self.group) and self.group == other.group
        return is_same_group or not self.keys.isdisjoint(other.keys)


@final
@attrs.frozen(eq=False)
class Reservation:
    """The reservation of a party.

    Attributes:
        scope: The queue to whose scope it belongs.
        places: The node of each member, in the order of placing.
    """

    scope: ViewQueue
    party: Party
    start: Instant
    places: tuple[Place, ...]

    @property
    def start_us(self) -> int | None:
        """When it starts, in microseconds, or None if that is not known."""
        is_unknown, at = self.start
        return None if is_unknown else at


# BACKFILL-16
def group_of(state: ViewState, ask: Ask) -> ViewGroup | None:
    """Return the group of an ask, if its gang constrains it."""
    if ask.gang is None or state.gangs[ask.gang].satisfied:
        return None
    return state.gang_index.group_of(state.gangs[ask.gang])


# BACKFILL-16
def party_of(state: ViewState, app: ViewApp, ask: Ask) -> Party | None:
    """Return the party of an ask, or None if it has none.

    Args:
        state: The view; it is up to date.
        app: The application of the ask.
        ask: The ask.
    """
    group = group_of(state, ask)
    if group is None:
        return Party((Member(app, ask),), ())
    if not group.may_complete():
        return None
    order = PendingOrder(state, PlacementDiff(state))
    return Party(tuple(lacking_members(group, order)), group.names)


# BACKFILL-16, GANG-56
def lacking_members(group: ViewGroup, order: PendingOrder) -> list[Member]:
    """Return the missing members of a group: of each gang the first ones in order, up to ``min_member``."""
    found: list[Member] = []
    for gang in group.gangs:
        if gang.missing:
            found += order.sorted(pending_members(gang))[: gang.missing]
    return found


_START: Final = itemgetter(0)

Quota = Union["ViewQueue", ViewLimit["ViewApp"]]
"""A queue or a limit."""

PendingHold = tuple["Instant", "Ask"]
"""When a pending member is to hold a node, and the member."""


@final
class _ReleaseList(NamedTuple):
    """The asks that release a node, or the room of a queue or a limit.

    Attributes:
        version: The version of the node.
        releases: Their releases, in order.
        until_us: The first end that is known, in microseconds.
    """

    node: Node | None
    version: int
    releases: Sequence[Release]
    until_us: int


@final
class Holdings:
    """What the pending members of the parties of a scope are to hold."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The releases for each node, and each queue and limit; the latter until nodes change.
        self._on_nodes: dict[str, _ReleaseList] = {}
        self._in_quotas: dict[Quota, _ReleaseList] = {}
        self._seen = (-1, -1)
        #: The shapes that each node has room for at last, and on what that depends.
        self._last: dict[str, tuple[object, int]] = {}
        self._forget()

    def _forget(self) -> None:
        #: The reservations, in order.
        self._counted: list[Reservation] = []
        #: When pending members are to hold something of each node, queue and limit, and these.
        self._on: dict[str, list[PendingHold]] = {}
        self._in: dict[Quota, list[PendingHold]] = {}
        #: How much they are to hold of each node.
        self.amounts: dict[str, Amounts] = {}
        #: Whether some of them need devices, and whether some group holds nodes already.
        self.has_devices = self._has_nodes = False

    def follow(self, reservations: Sequence[Reservation]) -> None:
        """Follow the reservations; mostly there is one more than before."""
        state, counted = self._state, self._counted
        seen, before = (state.nodes.changes, state.reconfigured), len(counted)
        if seen != self._seen:
            self._in_quotas.clear()
        if seen[1] != self._seen[1]:
            self._on_nodes.clear()
        is_longer = before <= len(reservations) and (
            not before or reservations[before - 1] is counted[-1]
        )
        if seen != self._seen or not is_longer:
            self._forget()
            self._seen, counted, before = seen, self._counted, 0
        for one in reservations[before:]:
            counted.append(one)
            self._count(one)

    def _count(self, one: Reservation) -> None:
        state = self._state
        self._has_nodes = self._has_nodes or any(
            name in state.gangs and state.gangs[name].held for name in one.party.group
        )
        for member, name in one.places:
            if name not in state.nodes.nodes or not member.is_pending():
                continue
            app, ask = member
            amounts, hold = dict(self.amounts.get(name, ())), (one.start, ask)
            add_to(amounts, ask.resources.amounts)
            self.amounts[name] = tuple(sorted(amounts.items()))
            self.has_devices = self.has_devices or bool(ask.shape.devices)
            self._on.setdefault(name, []).append(hold)
            for quota in quotas_of(state, app):
                self._in.setdefault(quota, []).append(hold)

    # BACKFILL-20
    def last_fitting(self) -> int | None:
        """Return the shapes that some node has room for when all that holds nodes now has ended.

        Returns:
            The shapes, and perhaps others; None if it is not known.
        """
        if self.has_devices or self._state.kept_nodes:
            return None
        shapes, found = self._state.shapes, 0
        for name, node in self._state.nodes.nodes.items():
            held = self.amounts.get(name, ())
            question = (node.room, held, shapes.changes)
            known = self._last.get(name)
            if known is None or known[0] != question:
                mask = shapes.fitting_node(node.room, dict(held))
                known = self._last[name] = question, mask
            found |= known[1] & node.matching
        return found

    def show_delays(self, ask: Ask) -> bool:
        """Return whether they show if an ask delays others than its own group."""
        return not (
            self.has_devices or self._has_nodes or ask.shape.devices or self._state.kept_nodes
        )

    # BACKFILL-26
    def have_headroom(self, app: ViewApp, ask: Ask, end: Instant, now_us: int) -> tuple[bool, int]:
        """Return whether queues and limits leave enough for all beside an ask that they admit now.

        Args:
            app: The application of the ask.
            ask: The ask.
            end: When it is expected to end: what starts by then is not looked at.
            now_us: The present instant, in microseconds.

        Returns:
            Whether they do, and until when that is so if nothing changes, in microseconds.
        """
        state, until_us = self._state, MAX_QUANTITY
        for quota in quotas_of(state, app):
            if isinstance(quota, ViewLimit):
                most, used = quota.entry.max.amounts, quota.used
            else:
                most = quota.config.max.amounts
                used = quota.usage() if most else {}
            holds = self._in.get(quota)
            if not most or not holds:
                continue
            ahead = self._ahead_in(quota, now_us)
            until_us = min(until_us, ahead.until_us)
            free = {name: some - used.get(name, 0) for name, some in most}
            if not _is_enough(free, ahead.releases, holds, ask, end):
                return False, until_us
        return True, until_us

    # BACKFILL-26
    def have_room(self, node: Node, ask: Ask, end: Instant, now_us: int) -> tuple[bool, int]:
        """Return whether a node has room for all beside an ask for which it has room now.

        Args:
            node: The node.
            ask: The ask.
            end: When it is expected to end: what starts by then is not looked at.
            now_us: The present instant, in microseconds.

        Returns:
            Whether it does, and until when that is so if nothing changes, in microseconds.
        """
        holds = self._on.get(node.name)
        if not holds:
            return True, MAX_QUANTITY
        ahead, used, room = self._ahead_on(node, now_us), node.used, node.room
        free = {name: room.get(name, 0) - used.get(name, 0) for name in ask.resources.amounts}
        return _is_enough(free, ahead.releases, holds, ask, end), ahead.until_us

    def _ahead_on(self, node: Node, now_us: int) -> _ReleaseList:
        known = self._on_nodes.get(node.name)
        if known is None or (known.node, known.version) != (node, node.version):
            known = None
        if known is None or known.until_us <= now_us:
            found = releases_on(self._state, node, now_us)
            known = _ReleaseList(node, node.version, found, _first_end_us(found))
            self._on_nodes[node.name] = known
        return known

    def _ahead_in(self, quota: Quota, now_us: int) -> _ReleaseList:
        known = self._in_quotas.get(quota)
        if known is None or known.until_us <= now_us:
            found = sorted(
                releases_of(self._state, apps_under(self._state, quota), now_us),
                key=attrgetter("at"),
            )
            known = self._in_quotas[quota] = _ReleaseList(None, 0, found, _first_end_us(found))
        return known


def quotas_of(state: ViewState, app: ViewApp) -> list[Quota]:
    """Return the queues and limits for which an application counts."""
    return [*state.leaf_of(app).line, *app.limits]


def apps_under(state: ViewState, quota: Quota) -> list[ViewApp]:
    """Return the applications that count for a queue or a limit."""
    if isinstance(quota, ViewLimit):
        return list(quota.apps.values())
    return [app for leaf in state.leaves_below(quota) for app in leaf.apps.values()]


def _first_end_us(releases: Sequence[Release]) -> int:
    return next((one.at[1] for one in releases if not one.at[0]), MAX_QUANTITY)


def _is_enough(
    free: Mapping[str, int],
    releases: Sequence[Release],
    holds: Sequence[PendingHold],
    ask: Ask,
    end: Instant,
) -> bool:
    """Return whether an ask leaves enough for all that is held from some starts on.

    Args:
        free: The amounts that are free now, of each type that counts.
        releases: The releases, in order.
        holds: The future holdings, each with its start.
        ask: The ask.
        end: When it is expected to end: what starts by then is not looked at.
    """
    wanted = ask.resources.amounts
    left = {name: free[name] - amount for name, amount in wanted.items() if name in free and amount}
    done, starts = 0, sorted(holds, key=_START)
    for number, (start, held) in enumerate(starts, 1):
        for name in left:
            left[name] -= held.resources[name]
        if number < len(starts) and starts[number][0] == start:
            continue
        while done < len(releases) and releases[done].at <= start:
            given = releases[done].allocation.ask.resources
            for name in left:
                left[name] += given[name]
            done += 1
        if start < end and any(some < 0 for some in left.values()):
            return False
    return True
