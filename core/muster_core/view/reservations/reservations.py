"""Reservations, as rounds use them: the active ones, their effect, and the search for more.

- The finder looks for reservations in a round, for asks that got no node (BACKFILL-15 to
  BACKFILL-22).
- The renewal decides whether a reservation is kept from round to round (BACKFILL-22).
- In a partition with scopes a round tries the first asks in order whether they fit or not, and
  looks for reservations for them. As long as nothing changes on which this depends, the round would
  do and reserve what the last one did, so that it need not be run again.
- Reservations leave the view in snapshots, in the log and in checkpoints (BACKFILL-30, EXPECT-15,
  CHECKPOINT-4, CHECKPOINT-5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, final

from muster_core.nodes.node import Node
from muster_core.owners.asks import Allocation, Ask
from muster_core.values.decisions import Decision, Kind
from muster_core.values.snapshots import ReservationSnapshot
from muster_core.view.facts import ReservationFacts
from muster_core.view.gangs import Member, ViewGang
from muster_core.view.node_finder import NodeFinder
from muster_core.view.placement_diff import PendingOrder, PlacementDiff
from muster_core.view.reservations.backfill import ActiveReservations, Backfill, StartView
from muster_core.view.reservations.capacity import CapacityCache, Place
from muster_core.view.reservations.parties import Party, Reservation, group_of, party_of
from muster_core.view.reservations.projection import (
    Instant,
    Projection,
    release_of,
    releases,
    releases_on,
)
from muster_core.view.reservations.search import (
    PartyStart,
    SearchCache,
    StartSearch,
    has_topology,
    hold_all,
    lacking,
)
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue

ReservedNodes = dict[tuple[str, str], tuple[str, int | None]]
"""The node and the start in microseconds, if that is known, by application and ask."""


# BACKFILL-30
def reserved_by(reservations: Iterable[Reservation]) -> ReservedNodes:
    """Return the reserved node of each ask, in the order of reservations and of placing."""
    # An ask may be in two parties if members of its group are in two scopes: the last counts.
    return {
        (member.app.identity.name, member.ask.name): (node, one.start_us)
        for one in reservations
        for member, node in one.places
    }


# BACKFILL-30
@final
class ReservationLog:
    """The decisions about reservations: one for each that is new or has changed."""

    def __init__(self) -> None:
        self._logged: ReservedNodes = {}
        #: The reservations in force when the last decisions were made.
        self._last_logged: Collection[Reservation] | None = None

    def changed(self, reservations: Collection[Reservation]) -> list[Decision]:
        """Return a decision for each node that is reserved newly or otherwise; after a batch."""
        if reservations is self._last_logged:  # Those of the last round.
            return []
        self._last_logged, before, self._logged = (
            reservations,
            self._logged,
            reserved_by(reservations),
        )
        return [
            Decision(Kind.RESERVED, app=app, ask=ask, node=place[0], start_us=place[1])
            for (app, ask), place in self._logged.items()
            if before.get((app, ask)) != place
        ]

    # CHECKPOINT-5
    def load(self, reservations: Iterable[Reservation]) -> None:
        """Record that the log has the reservations in force."""
        self._logged = reserved_by(reservations)


# EXPECT-15
def reservation_snapshots(reservations: Sequence[Reservation]) -> dict[str, ReservationSnapshot]:
    """Return the reservations, by ``app/ask``."""
    found: dict[str, ReservationSnapshot] = {}
    for one in sorted(reservations, key=lambda one: one.scope.config.path):
        for member, node in one.places:
            name = f"{member.app.identity.name}/{member.ask.name}"
            found[name] = ReservationSnapshot(node, one.start_us, one.scope.config.path)
    return found


# CHECKPOINT-4
def reservation_facts(reservations: Iterable[Reservation]) -> tuple[ReservationFacts, ...]:
    """Return reservations as facts. Between two batches."""
    return tuple(
        ReservationFacts(
            scope=one.scope.key,
            start_us=one.start_us,
            age=one.start[1] if one.start[0] else 0,
            places=tuple(
                (member.app.identity.key, member.ask.name, node) for member, node in one.places
            ),
        )
        for one in reservations
    )


# CHECKPOINT-5
def reservation_from_facts(state: ViewState, facts: ReservationFacts) -> Reservation:
    """Return a reservation from its facts; everything else is in the view already."""
    places: list[Place] = []
    for key, name, node in facts.places:
        ask = state.apps[key].find(name)
        assert ask is not None, "an ask with a reservation is gone"
        places.append((Member(state.apps[key], ask), node))
    group = group_of(state, places[0][0].ask)
    names = () if group is None else group.names
    party = Party(tuple(member for member, _ in places), names)
    start = (True, facts.age) if facts.start_us is None else (False, facts.start_us)
    return Reservation(state.queues[facts.scope], party, start, tuple(places))


_MOST_RENEWED: Final = 100
"""How many instants are remembered; no scope has more reservations."""


@final
class ReservationRenewal:
    """Decides whether reservations are kept.

    Args:
        state: The view; it is up to date.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The allocations that were found to end at instants that are not known, and their
        #: applications.
        self._known: dict[Instant, tuple[ViewApp, Allocation]] = {}

    # BACKFILL-22
    def is_to_come(self, start: Instant, now_us: int) -> bool:
        """Return whether an instant that was found some time ago is still to come."""
        is_unknown, at = start
        if not is_unknown:
            return at > now_us
        known = self._known.get(start)
        if known is not None and self._gives_back(*known, start, now_us):
            return True
        if len(self._known) >= _MOST_RENEWED:
            self._known.clear()
        for release in releases(self._state, now_us):
            if release.at == start:
                self._known[start] = release.app, release.allocation
                return True
        return False

    def _gives_back(
        self, app: ViewApp, allocation: Allocation, start: Instant, now_us: int
    ) -> bool:
        """Return whether an allocation still holds its node, and gives it back at an instant."""
        if self._state.apps.get(app.identity.key) is not app:
            return False
        name = allocation.ask.name
        for places, bound in ((app.bound, True), (app.waiting, False)):
            if name in places and places[name][0] is allocation:
                return release_of(self._state, app, allocation, now_us, bound=bound) == start
        return False

    # BACKFILL-22
    def still_fits(
        self, before: Reservation, party: Party, others: Sequence[Reservation], now_us: int
    ) -> bool:
        """Return whether a party fits the nodes that it had, at the start that it had."""
        state, places = self._state, current_places(before, party)
        projection, nodes = Projection(state), state.nodes.nodes
        depends_on_more = any(self._needs_more(member) for member, _ in places)
        if depends_on_more:
            ahead = releases(state, now_us)
        else:
            hold_all(state, projection, others)
            if not any(lacking(state, party.members, others)):  # Only these nodes count.
                looked_at = [nodes[name] for _, name in places if name in nodes]
            else:
                looked_at = list(nodes.values())
            every = (releases_on(state, node, now_us) for node in dict.fromkeys(looked_at))
            ahead = [release for some in every for release in some]
        for release in ahead:
            if release.at <= before.start and release.allocation.ask.gang not in party.group:
                projection.release(release.app, release.allocation, release.node)
        if depends_on_more:
            hold_all(state, projection, others)
        return _fit_in_turn(state, projection, places)

    def _needs_more(self, member: Member) -> bool:
        """Return whether it depends on other nodes, or on devices, where an ask fits."""
        return bool(member.ask.shape.devices) or has_topology(self._state, member)


def current_places(before: Reservation, party: Party) -> tuple[Place, ...]:
    """Return the places of an equal party, with the members as they are now."""
    now = {member.key: member for member in party.members}
    return tuple((now[member.key], node) for member, node in before.places)


def _fit_in_turn(state: ViewState, projection: Projection, places: Iterable[Place]) -> bool:
    """Place members on given nodes, one after another; return whether all of them fit."""
    for member, name in places:
        node = state.nodes.nodes.get(name)
        if node is None or not projection.difference.has_headroom(*member):
            return False
        if not projection.fits_on(member, node):
            return False
        projection.place(member, node)
    return True


@final
class ReservationFinder:
    """Finds new reservations.

    Args:
        in_force: The reservations, to which it adds new ones.
        backfilling: Says when asks end.
    """

    def __init__(
        self, state: ViewState, in_force: ActiveReservations, backfilling: Backfill
    ) -> None:
        self._state = state
        self._in_force = in_force
        self._backfilling = backfilling
        #: How much room nodes have for parties.
        self._rooms = CapacityCache(state)
        self._searches = SearchCache(state)
        self._keeping = ReservationRenewal(state)

    # BACKFILL-15
    def seek(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Sequence[tuple[Member, Node]]:
        """Seek a reservation for the party of an ask that was tried and got no node.

        Returns:
            The nodes of a gang's party that fits now where it had a reservation, to be assigned in
            this order; nothing is reserved then.
        """
        scope = self._state.scopes.backfill(leaf)
        if scope is None:
            return ()
        own = self._in_force.of(scope)
        if len(own) >= scope.config.settings.backfill_depth:
            return ()
        party = party_of(self._state, app, ask)
        if party is None or any(one.party.is_that_of(party) for one in own):
            return ()
        before = self._in_force.before(party)
        if before is not None and party.group:
            now = self._fitting_now(before, party)
            if now is not None:
                return now
        found = self._find(scope, party, before, own)
        if found is not None:
            self._in_force.reservations.append(found)
        return ()

    def _find(
        self,
        scope: ViewQueue,
        party: Party,
        before: Reservation | None,
        own: Sequence[Reservation],
    ) -> Reservation | None:
        """Return the reservation that was there before, if it is kept, or a new one."""
        now_us = self._in_force.now_us
        holdings = self._backfilling.holdings_of(scope)
        search = StartSearch(self._state, now_us, own, self._rooms, holdings)
        found, until_us = self._searches.find(search, party, own, now_us)
        self._in_force.hold_until(until_us)
        # BACKFILL-22
        if (
            before is not None
            and not _is_as_before(found, before)
            and self._keeping.is_to_come(before.start, now_us)
            and (found is None or found[0] >= before.start)
            and self._keeping.still_fits(before, party, own, now_us)
        ):
            return Reservation(scope, party, before.start, current_places(before, party))
        return None if found is None else Reservation(scope, party, *found)

    # BACKFILL-21
    def _fitting_now(self, before: Reservation, party: Party) -> list[tuple[Member, Node]] | None:
        """Return the nodes that a gang's party had, if it fits them now and delays no reservation."""
        state = self._state
        present, starts = Projection(state), self.starts(party.group)
        reserved = {member.key: name for member, name in before.places}
        left, order = list(party.members), present.order()
        found: list[tuple[Member, Node]] = []
        while left:
            member = order.first(left)
            left.remove(member)
            node = state.nodes.nodes.get(reserved[member.key])
            if node is None or not present.difference.has_headroom(*member):
                return None
            if not (present.fits_on(member, node) and starts.admit(member, node)):
                return None
            present.place(member, node)
            starts.place(member, node)
            found.append((member, node))
        return found

    def starts(self, group: tuple[str, ...]) -> StartsAhead:
        """Return the reservations that the members of a group may not delay.

        Args:
            group: The names of the gangs of the group.
        """
        return StartsAhead(self._state, self._in_force, self._backfilling, group)


# BACKFILL-24, BACKFILL-26
@final
class StartsAhead:
    """The starts of reservations, while the members of a group are placed one after another.

    Args:
        group: The names of the group's gangs, whose own reservation does not count.
    """

    def __init__(
        self,
        state: ViewState,
        in_force: ActiveReservations,
        backfilling: Backfill,
        group: tuple[str, ...],
    ) -> None:
        self._state = state
        self._in_force = in_force
        self._backfilling = backfilling
        self._group = group
        #: The reservations of each scope, with what will be at their starts.
        self._known: dict[int, list[tuple[Reservation, StartView]]] = {}

    def admit(self, member: Member, node: Node) -> bool:
        """Return whether a member delays no reservation on a node, beside those placed so far."""
        leaf = self._state.leaf_of(member.app)
        return all(
            self._backfilling.ends_by(leaf, member.ask, one) or then.admits(member, node)
            for one, then in self._of(leaf)
        )

    def place(self, member: Member, node: Node) -> None:
        """Let a member hold a node."""
        for known in self._known.values():
            for _, then in known:
                then.place(member, node)

    def _of(self, leaf: LeafView) -> list[tuple[Reservation, StartView]]:
        scope, in_force = self._state.scopes.backfill(leaf), self._in_force
        if scope is None:
            return []
        if scope.key not in self._known:
            self._known[scope.key] = [
                (one, StartView(self._state, in_force.now_us, one, in_force.reservations))
                for one in in_force.of(scope)
                if one.party.group != self._group
            ]
        return self._known[scope.key]


def _is_as_before(found: PartyStart | None, before: Reservation) -> bool:
    """Return whether a search has found the start and the nodes that were reserved before."""
    if found is None or found[0] != before.start:
        return False
    now, then = ([(member.key, node) for member, node in one] for one in (found[1], before.places))
    return now == then


Changes = tuple[int, ...]
"""Counts that stay the same as long as nothing changes on which rounds depend."""


@final
class RepeatCheck:
    """Compares the present state with that before the last round."""

    def __init__(self, state: ViewState, in_force: ActiveReservations) -> None:
        self._state = state
        self._in_force = in_force
        #: The changes so far when a round has changed nothing; None if the last one did.
        self._known: Changes | None = None
        #: The changes so far when groups were last looked at, and whether one of them is wide.
        self._looked_at: tuple[Changes, bool] = ((), False)
        #: The changes of nodes, of gangs and of all else that attempts of Strict groups have undone.
        self._undone = (0, 0, 0)

    def changes_so_far(self) -> Changes:
        """Return the changes so far without those that were undone; nothing without scopes."""
        state = self._state
        if not state.scopes:
            return ()
        nodes, gangs, moves = self._undone
        return (
            state.nodes.changes - nodes,
            state.gang_index.changes - gangs,
            state.moves - moves,
            state.reconfigured,
        )

    def undo(self, before: Changes) -> None:
        """Note that everything is again as it was when an attempt began."""
        if before:
            state, (nodes, gangs, moves, _) = self._state, before
            self._undone = (
                state.nodes.changes - nodes,
                state.gang_index.changes - gangs,
                state.moves - moves,
            )

    def end_round(self, before: Changes) -> None:
        """Note whether a round has changed anything."""
        self._known = before if before == self.changes_so_far() else None

    # BACKFILL-23
    def would_repeat(self, now_us: int) -> bool:
        """Return whether a round would try and reserve what the last one did, in vain as well."""
        state = self._state
        new, changes = state.scopes.take_new(), self.changes_so_far()
        if not state.scopes or self._known != changes or not self._in_force.holds_at(now_us):
            return False
        # DEVICE-18: the asks may have come with an application that is gone in the same batch.
        if state.learned.is_due:
            return False
        # SERVICE-11: a round may open nodes that services keep.
        return not new or not (
            state.kept_nodes or self._has_wide_group(changes) or self._concern_somebody(new)
        )

    def _concern_somebody(self, new: Sequence[tuple[ViewApp, Sequence[Ask]]]) -> bool:
        """Return whether new asks may fit, or come before asks with a reservation."""
        state = self._state
        state.refresh()
        for app, asks in new:
            leaf = state.leaf_of(app)
            if leaf.under_limits or not leaf.may_hide:
                return True
            scope = state.scopes.of(leaf)
            if scope is not None and not self._comes_late(scope, leaf, app, asks):
                return True
            for ask in asks:
                # DEVICE-18
                if ask.shape.devices or state.nodes.find(state.bit_of(ask)) is not None:
                    return True
        return False

    def _has_wide_group(self, changes: Changes) -> bool:
        """Return whether an unsatisfied group has pending members in several applications.

        Who of them is tried first, and where they are placed, depends on the order of their queues,
        which new asks of any queue may change.
        """
        if self._looked_at[0] != changes:
            self._looked_at = changes, any(map(self._is_wide, self._state.gangs.values()))
        return self._looked_at[1]

    def _is_wide(self, gang: ViewGang) -> bool:
        if gang.satisfied or not gang.slots:
            return False
        group = self._state.gang_index.group_of(gang)
        return len({app for one in group.gangs for app in one.slots}) > 1

    # BACKFILL-15
    def _comes_late(
        self, scope: ViewQueue, leaf: LeafView, app: ViewApp, asks: Iterable[Ask]
    ) -> bool:
        """Return whether a scope has all its reservations before new asks have their turn.

        New asks may move their own queues among their siblings, with all asks there. If such a queue
        came before one with a reservation now, the new asks would come before that as well.
        """
        state, in_force = self._state, self._in_force
        if state.scopes.backfill(leaf) is None or not in_force.is_saturated(scope):
            return False
        # Each is of one application, so that who is placed first is tried first.
        firsts = [one.places[0][0] for one in in_force.of(scope)]
        order = PendingOrder(state, PlacementDiff(state))
        mine = order.first([Member(app, ask) for ask in asks])
        if len(firsts) == 1:
            (first,) = firsts
            if first.app is not app and first.app.order is app.order is not None:
                return first.app.rank < app.rank
        wanted = [*firsts, mine]
        return order.sorted(wanted) == wanted


@final
class Reservations:
    """The reservations of all backfill scopes."""

    def __init__(self, state: ViewState, finder: NodeFinder) -> None:
        self._state = state
        self.in_force = ActiveReservations()
        self.backfilling = Backfill(state, finder, self.in_force)
        self.seeking = ReservationFinder(state, self.in_force, self.backfilling)
        self.repeats = RepeatCheck(state, self.in_force)
        self.log = ReservationLog()

    @property
    def are_idle(self) -> bool:
        """Whether rounds need not deal with them: there are no scopes, and no more reservations."""
        return not (self._state.scopes or self.in_force.reservations)

    # CHECKPOINT-5
    def load(self, facts: Iterable[ReservationFacts], now_us: int) -> None:
        """Load the reservations in force; everything else is in the view already."""
        self.in_force.load((reservation_from_facts(self._state, one) for one in facts), now_us)
        self.log.load(self.in_force.reservations)
