"""The search for a start: the first instant at which a party can be placed.

A forecast is such a search as if nothing were reserved for others; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import final

import attrs

from muster_core.gangs import Topology
from muster_core.owners.asks import Ask
from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.gangs import Member, MemberKey, topology_of
from muster_core.view.placement_diff import PlacementDiff
from muster_core.view.placements import Placements
from muster_core.view.reservations.capacity import NOW, CapacityCache, FirstNodes, Place, Timeline
from muster_core.view.reservations.parties import (
    Holdings,
    Party,
    Quota,
    Reservation,
    apps_under,
    group_of,
    party_of,
    quotas_of,
)
from muster_core.view.reservations.projection import Instant, Projection, releases, releases_of
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp


@final
class StartSearch:
    """Looks ahead from the view as it is now.

    Args:
        state: The view; it is up to date.
        rooms: How much room nodes will have for parties.
        holdings: What others are to hold.
    """

    def __init__(
        self,
        state: ViewState,
        now_us: int,
        others: Sequence[Reservation],
        rooms: CapacityCache | None = None,
        holdings: Holdings | None = None,
    ) -> None:
        self._state = state
        self._now_us = now_us
        self._others = others
        self._rooms = CapacityCache(state) if rooms is None else rooms
        self._holdings = Holdings(state) if holdings is None else holdings
        self._holdings.follow(others)
        #: The first known end on which the results depend, in microseconds.
        self.until_us = MAX_QUANTITY

    # BACKFILL-18, BACKFILL-20
    def find(self, party: Party) -> tuple[Instant, tuple[Place, ...]] | None:
        """Return the first instant at which a party can be placed, and where; None if never."""
        if self._opens_nodes():
            return self._find_anywhere(party, NOW)
        since = self._headroom_since(party)
        if since is None:
            return None
        timeline = self._timeline(party, since)
        earliest = next((at for at, _ in timeline), None)
        if earliest is None:
            return None
        # What has room already is not held up by nodes alone.
        if earliest > NOW and self._is_about_nodes_alone(party):
            return self._find_among(party, timeline, since)
        return self._find_anywhere(party, earliest)

    def _opens_nodes(self) -> bool:
        """Return whether a node service is among the others, so that it keeps its node no longer."""
        kept = self._state.kept_nodes
        return bool(kept) and any(
            kept.keeps(*member) for other in self._others for member, _ in other.places
        )

    # BACKFILL-19
    def _headroom_since(self, party: Party) -> Instant | None:
        """Return from when on queues and limits leave enough for a party; None if never.

        Once they do, they do so at any later instant: there is only less that uses them.
        """
        state, since = self._state, NOW
        for one, lacks in lacking(state, party.members, self._others):
            apps = apps_under(state, one)
            ahead = sorted(releases_of(state, apps, self._now_us), key=attrgetter("at"))
            if ahead and not ahead[0].at[0]:
                self.until_us = min(self.until_us, ahead[0].at[1])
            for release in ahead:
                ask = release.allocation.ask
                if ask.gang in party.group:
                    continue
                for name in [name for name in lacks if ask.resources[name]]:
                    lacks[name] -= ask.resources[name]
                    if lacks[name] <= 0:
                        del lacks[name]
                if not lacks:
                    since = max(since, release.at)
                    break
            else:
                return None
        return since

    def _timeline(self, party: Party, since: Instant) -> Timeline:
        """Return the room for a party beside what others hold.

        Which devices others will hold is not known yet; so these count as free.
        """
        held = {} if self._holdings.has_devices else self._holdings.amounts
        return self._rooms.timeline(party.members, party.group, self._now_us, held, since)

    def _is_about_nodes_alone(self, party: Party) -> bool:
        """Return whether nothing but the room on nodes decides where members fit in the headroom.

        Who of them is next does not depend on who is placed then.
        """
        app = party.members[0].app
        return not any(
            one.app is not app or has_topology(self._state, one) for one in party.members
        )

    def _find_among(
        self, party: Party, timeline: Timeline, since: Instant
    ) -> tuple[Instant, tuple[Place, ...]] | None:
        """Return the first start of a party, looking at no nodes but those with room for a member.

        The result is the same as with the releases one by one: other nodes have no effect.
        """
        self.until_us = min(self.until_us, timeline.until_us)
        members = Projection(self._state).order().sorted(party.members)
        # Who of several kinds has which node depends on more than the room for each.
        is_remembered = timeline.is_of_one_kind and not (
            self._holdings.has_devices or self._state.nodes.is_by_ask
        )
        known = timeline.room.remembered((since, members)) if is_remembered else None
        if known is not None:
            return known[0]
        found = self._place_at_first(timeline, members)
        if is_remembered:
            timeline.room.remember((since, members), found)
        return found

    def _place_at_first(
        self, timeline: Timeline, members: Sequence[Member]
    ) -> tuple[Instant, tuple[Place, ...]] | None:
        nodes, holdings = self._state.nodes.nodes, self._holdings
        for at, names in timeline:
            projection, some = Projection(self._state), [nodes[name] for name in names]
            for node in some:
                for release in timeline.room.ahead_on(node.name):
                    if release.at > at:
                        break
                    projection.free(release.allocation, node)
                if not holdings.has_devices:
                    projection.occupy(node, holdings.amounts.get(node.name, ()))
            if holdings.has_devices:
                hold_all(self._state, projection, self._others)
            places = _place_in_turn(FirstNodes(projection, some), members)
            if places is not None:
                return at, places
        return None

    def _find_anywhere(
        self, party: Party, earliest: Instant
    ) -> tuple[Instant, tuple[Place, ...]] | None:
        """Return the first start of a party that is not before an instant."""
        projection = Projection(self._state)
        # BACKFILL-14
        ahead = releases(self._state, self._now_us)
        if ahead and not ahead[0].at[0]:
            self.until_us = min(self.until_us, ahead[0].at[1])
        for at, some in groupby(ahead, key=attrgetter("at")):
            for release in some:
                if release.allocation.ask.gang not in party.group:
                    projection.release(release.app, release.allocation, release.node)
            if at < earliest:
                continue
            with projection.trying():
                hold_all(self._state, projection, self._others)
                places = self._place(projection, party)
            if places is not None:
                return at, places
        return None

    # OUTLOOK-7
    def fits_now(self, party: Party) -> bool:
        """Return whether a party can be placed now."""
        projection = Projection(self._state)
        hold_all(self._state, projection, self._others)
        return self._place(projection, party) is not None

    # BACKFILL-19
    def _place(self, projection: Projection, party: Party) -> tuple[Place, ...] | None:
        """Place a party, one member after another, and take it back; None if one has no room.

        The next member depends on those that are placed, unlike in a domain (TOPOLOGY-8).
        """
        order, left, found = projection.order(), list(party.members), list[Place]()
        with projection.trying():
            while left:
                member = order.first(left)
                node = None
                if projection.difference.has_headroom(*member):
                    node = projection.find_node(member)
                if node is None:
                    return None
                left.remove(member)
                projection.place(member, node)
                found.append((member, node.name))
        return tuple(found)


def _place_in_turn(first: FirstNodes, members: Iterable[Member]) -> tuple[Place, ...] | None:
    """Place members one after another; None if one has no room."""
    found: list[Place] = []
    for member in members:
        node = first.find(member)
        if node is None:
            return None
        first.place(member, node)
        found.append((member, node.name))
    return tuple(found)


def topology_of_member(state: ViewState, member: Member) -> Topology | None:
    """Return the topology of an ask's gang, satisfied or not; None without one."""
    gang = member.ask.gang
    return None if gang is None else topology_of(state.gangs[gang])


def has_topology(state: ViewState, member: Member) -> bool:
    """Return whether the topology of its gang says which nodes an ask may take."""
    return topology_of_member(state, member) is not None


def has_quotas(state: ViewState, app: ViewApp) -> bool:
    """Return whether a queue or a limit may leave too little for asks of an application."""
    return bool(app.limits) or any(queue.config.max.amounts for queue in state.leaf_of(app).line)


def lacking(
    state: ViewState, members: Iterable[Member], others: Iterable[Reservation]
) -> Iterator[tuple[Quota, dict[str, int]]]:
    """Yield the queues and limits that leave too little for members together, beside others, now.

    Yields:
        A queue or a limit, and how much it lacks of each type.
    """
    apps = {member.app.identity.key: member.app for member in members}
    if not any(has_quotas(state, app) for app in apps.values()):
        return
    difference = PlacementDiff(state)
    for other in others:
        for member, _ in other.places:
            if member.is_pending():
                difference.count(*member, 1)
    wanted: dict[Quota, set[str]] = {}
    for app, ask in members:
        difference.count(app, ask, 1)
        for one in quotas_of(state, app):
            wanted.setdefault(one, set()).update(ask.resources)
    for one, names in wanted.items():
        over = difference.over(one)
        lacks = {name: over[name] for name in over if name in names}
        if lacks:
            yield one, lacks


def hold_all(state: ViewState, projection: Projection, others: Iterable[Reservation]) -> None:
    """Let the pending members of parties hold their reservations."""
    for other in others:
        hold_places(state, projection, other)


def hold_places(
    state: ViewState,
    projection: Projection,
    reservation: Reservation,
    *,
    without: Ask | None = None,
) -> None:
    """Let the pending members of a party hold their reservation.

    Args:
        state: The view.
        projection: Where they hold it.
        reservation: The reservation of the party.
        without: An ask that holds nothing, or None.
    """
    for member, name in reservation.places:
        node = state.nodes.nodes.get(name)
        if node is not None and member.is_pending() and member.ask is not without:
            projection.place(member, node)


PartyStart = tuple["Instant", tuple["Place", ...]]
"""A start, and the node of each member of a party, in the order of placing."""

_SearchKey = tuple["MemberKey", int, int, "Topology | None", tuple[tuple["MemberKey", str], ...]]
"""An ask, the changes of nodes and of settings so far, its topology, and what others reserve."""


@final
class SearchCache:
    """Remembers what searches have found."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The results, and until when they hold, in microseconds.
        self._known: dict[_SearchKey, tuple[PartyStart | None, int]] = {}

    def find(
        self, search: StartSearch, party: Party, others: Sequence[Reservation], now_us: int
    ) -> tuple[PartyStart | None, int]:
        """Return the result of a search for a party.

        Args:
            search: The search.
            party: The party; the result for a plain ask is remembered.
            others: The other reservations of the scope, which the search knows.
            now_us: The present instant, in microseconds.

        Returns:
            The result, or None; and until when it holds if nothing changes, in microseconds.
        """
        question = self._asked(party, others)
        known = self._known.get(question) if question is not None else None
        if known is None or known[1] <= now_us:
            found = search.find(party)
            known = found, search.until_us
            if question is not None:
                if self._known and next(iter(self._known))[1:3] != question[1:3]:
                    self._known.clear()
                self._known[question] = known
        return known

    def _asked(self, party: Party, others: Sequence[Reservation]) -> _SearchKey | None:
        """Return the key of the result, without time; None if it depends on more."""
        member, state = party.members[0], self._state
        if party.group or member.app.limits:
            return None
        # To take or to release a node changes it.
        places = tuple((member.key, node) for one in others for member, node in one.places)
        topology = topology_of_member(state, member)
        return member.key, state.nodes.changes, state.reconfigured, topology, places


# BACKFILL-18
@final
@attrs.frozen
class StartForecast:
    """Looks ahead between two batches; it changes nothing.

    Args:
        placements: Releases members of Strict gangs for a while.
    """

    _state: ViewState
    _placements: Placements

    def start(self, app: ViewApp, ask: Ask, now_us: int) -> Instant | None:
        """Return the start that a reservation of an ask's party alone would have now.

        Returns:
            The start; None if there is none, or the ask has no party.
        """
        with self._rolled_back(ask):
            party = party_of(self._state, app, ask)
            found = None if party is None else StartSearch(self._state, now_us, ()).find(party)
        return None if found is None else found[0]

    # OUTLOOK-7
    def fits_now(self, app: ViewApp, ask: Ask) -> bool:
        """Return whether the party of a pending ask fits now, ignoring other pending asks."""
        with self._rolled_back(ask):
            party = party_of(self._state, app, ask)
            return party is not None and StartSearch(self._state, 0, ()).fits_now(party)

    # BACKFILL-17
    @contextmanager
    def _rolled_back(self, ask: Ask) -> Generator[None]:
        """Let the Strict group of an ask hold nothing for a while."""
        state, placements = self._state, self._placements
        group = group_of(state, ask)
        holds = group.holds() if group is not None and group.strict else []
        mark, grown = placements.seen_states.mark(), state.nodes.grown
        for hold in reversed(holds):
            placements.release(hold)
        yield
        for hold in holds:
            placements.restore(hold)
        if holds:
            placements.list_apps()
            state.refresh()
            placements.seen_states.go_back(mark)
            state.nodes.grown = grown
