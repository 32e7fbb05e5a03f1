"""The reservations that are in force in a round, and what they allow (BACKFILL-15 to BACKFILL-30)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.values.decisions import Decision, Kind
from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.reservations.ahead import Ahead
from muster_core.view.reservations.choice import Choice, topology_of_member
from muster_core.view.reservations.openings import Openings
from muster_core.view.reservations.order import Order
from muster_core.view.reservations.party import Member, MemberKey, Party, group_of, pending_of
from muster_core.view.reservations.passing import Passing
from muster_core.view.reservations.projection import Projection
from muster_core.view.reservations.releases import Instant
from muster_core.view.reservations.search import (
    Place,
    Reservation,
    Search,
    at_present,
)
from muster_core.view.reservations.told import Reserved, loaded, reserved_by
from muster_core.view.tree.estimates import Estimates, estimate_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from muster_core.gangs.topology import Topology
    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.facts import ReservationFacts
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.topology.node_finder import NodeFinder
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue


Found = tuple[Instant, tuple[Place, ...]]
"""A start, and the node of each member of a party, in the order of placing."""

_Asked = tuple[MemberKey, int, int, "Topology | None", tuple[tuple[MemberKey, str], ...]]

_Alike = tuple[int, int, str | None, tuple[object, ...]]

_NEVER: Final[Instant] = (True, MAX_QUANTITY)
"""An end that is not known, of an ask that holds no node yet: it is after all others."""


@final
class Reservations:
    """The reservations of all backfill scopes.

    Args:
        state: The view.
        finder: Finds nodes where nothing is reserved.
    """

    def __init__(self, state: ViewState, finder: NodeFinder) -> None:
        self._state = state
        self.finder = finder
        #: Those in force, in the order in which they were made.
        self.in_force: list[Reservation] = []
        #: Those in force at the end of the round before, by party.
        self._before: dict[frozenset[MemberKey], Reservation] = {}
        #: The instant of the last round, in microseconds.
        self._now_us = 0
        #: When nodes have room for plain asks.
        self._openings = Openings(state)
        #: What was found for plain asks, and until when that holds, in microseconds.
        self._searched: dict[_Asked, tuple[Found | None, int]] = {}
        #: Until when rounds find the same if nothing changes, in microseconds.
        self._until_us = 0
        #: Whether all that was in force at the end of a round was so at the end of that before.
        self.is_steady = False
        #: How many rounds there were.
        self._rounds = 0
        #: The round, the changes of nodes and the number of reservations when the next two were
        #: found: what will be at the start of each reservation, and the earliest end with which
        #: asks that are alike were held back (their leaf, shape, gang and limits).
        self._known_at = (0, 0, 0, 0)
        self._starts: dict[int, Ahead] = {}
        self._held_back: dict[_Alike, Instant] = {}
        #: The node and the start of each ask, by application and name, at the end of the last batch.
        self._said: Reserved = {}
        #: Whom the asks of the last batch have passed.
        self.passing = Passing()

    @property
    def now_us(self) -> int:
        """The instant of the last round, in microseconds."""
        return self._now_us

    # BACKFILL-23
    def start_round(self, now_us: int) -> None:
        """Begin a round at an instant, in microseconds: nothing is reserved."""
        self._now_us, self._until_us = now_us, MAX_QUANTITY
        self._rounds += 1
        self.passing.start_round()
        self._before = {one.party.keys: one for one in reversed(self.in_force)}
        self.in_force = []

    def end_round(self) -> None:
        """End a round: note whether the next one would find the same, if nothing changes."""
        known = [one.start_us for one in self.in_force if one.start_us is not None]
        self._until_us = min(self._until_us, *known, MAX_QUANTITY)
        self.is_steady = len(self._before) == len(self.in_force) and all(
            (before := self._before.get(one.party.keys)) is not None
            and (before.scope, before.start) == (one.scope, one.start)
            and before.party.group == one.party.group
            and [node for _, node in before.places] == [node for _, node in one.places]
            for one in self.in_force
        )

    def repeat(self, now_us: int) -> None:
        """Let what is in force stay so, at an instant in microseconds."""
        self._now_us = now_us

    def holds_at(self, now_us: int) -> bool:
        """Return whether a round at an instant would find the same, if nothing has changed."""
        return self.is_steady and now_us < self._until_us

    # Reserving

    # BACKFILL-15
    def seek(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Sequence[tuple[Member, Node]]:
        """Seek a reservation for the party of an ask that was tried and got no node.

        Args:
            leaf: The leaf of its application.
            app: Its application.
            ask: The ask.

        Returns:
            The nodes of a gang's party that fits now where it had a reservation, to be assigned in
            this order; nothing is reserved then.
        """
        scope = self._state.scopes.backfill(leaf)
        if scope is None:
            return ()
        own = [one for one in self.in_force if one.scope is scope]
        if len(own) >= scope.config.settings.backfill_depth:
            return ()
        party = self.party_of(app, ask)
        if party is None or any(one.party.is_that_of(party) for one in own):
            return ()
        before = self._before.get(party.keys)
        if before is not None and party.group:
            now = self._fitting_now(before, party)
            if now is not None:
                return now
        found = self._find(scope, party, before, own)
        if found is not None:
            self.in_force.append(found)
        return ()

    def _find(
        self,
        scope: ViewQueue,
        party: Party,
        before: Reservation | None,
        own: Sequence[Reservation],
    ) -> Reservation | None:
        """Return the reservation that was there before, if it is kept, or a new one."""
        search = Search(self._state, self._now_us, own, self._openings)
        found = self._found(search, party, own)
        # BACKFILL-22
        if (
            before is not None
            and search.is_to_come(before.start)
            and (found is None or found[0] >= before.start)
            and search.still_fits(before, party)
        ):
            return Reservation(scope, party, before.start, at_present(before, party))
        return None if found is None else Reservation(scope, party, *found)

    def _found(self, search: Search, party: Party, own: Sequence[Reservation]) -> Found | None:
        """Return what a search finds for a party; what a plain ask finds is remembered."""
        member, state = party.members[0], self._state
        asked = None
        if not (party.group or member.app.limits):
            # Whoever holds or gives back a node changes it.
            others = tuple((member.key, node) for one in own for member, node in one.places)
            topology = topology_of_member(state, member)
            asked = (member.key, state.nodes.changes, state.reconfigured, topology, others)
        known = self._searched.get(asked) if asked is not None else None
        if known is None or known[1] <= self._now_us:
            found = search.find(party)
            known = found, search.until_us
            if asked is not None:
                if self._searched and next(iter(self._searched))[1:3] != asked[1:3]:
                    self._searched.clear()
                self._searched[asked] = known
        self._until_us = min(self._until_us, known[1])
        return known[0]

    # BACKFILL-16
    def party_of(self, app: ViewApp, ask: Ask) -> Party | None:
        """Return the party of an ask, or None if it has none."""
        group = group_of(self._state, ask)
        if group is None:
            return Party((Member(app, ask),), ())
        if not group.may_complete():
            return None
        order = Order(self._state, Projection(self._state))
        members: list[Member] = []
        for gang in group.gangs:
            if gang.missing:
                members += order.sorted(pending_of(gang))[: gang.missing]
        return Party(tuple(members), group.names)

    # BACKFILL-21
    def _fitting_now(self, before: Reservation, party: Party) -> list[tuple[Member, Node]] | None:
        """Return the nodes that a gang's party had, if it fits them now and delays nobody."""
        state = self._state
        present = Projection(state)
        reserved = {member.key: name for member, name in before.places}
        left, order = list(party.members), Order(state, present)
        ahead: dict[int, list[tuple[Reservation, Ahead]]] = {}
        found: list[tuple[Member, Node]] = []
        while left:
            member = order.first(left)
            left.remove(member)
            app, ask = member
            leaf, node = state.leaf_of(app), state.nodes.nodes.get(reserved[member.key])
            if node is None or not present.has_headroom(app, ask):
                return None
            if not Choice(state, present).fits_on(member, node):
                return None
            for reservation, then in self._ahead(leaf, party.group, ahead):
                if not (self._ends_by(leaf, ask, reservation) or then.admits(member, node)):
                    return None
            present.place(member, node)
            for one in ahead.values():
                for _, then in one:
                    then.place(member, node)
            found.append((member, node))
        return found

    def _ahead(
        self,
        leaf: LeafView,
        group: tuple[str, ...],
        known: dict[int, list[tuple[Reservation, Ahead]]],
    ) -> list[tuple[Reservation, Ahead]]:
        """Return the reservations that the asks of a leaf may not delay, with what will be then."""
        scope = self._state.scopes.backfill(leaf)
        if scope is None:
            return []
        if scope.key not in known:
            known[scope.key] = [
                (one, Ahead(self._state, self._now_us, one, self.in_force))
                for one in self.in_force
                if one.scope is scope and one.party.group != group
            ]
        return known[scope.key]

    # Backfilling

    # BACKFILL-24, BACKFILL-28
    def find_node(self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int) -> Node | None:
        """Return the first node on which an ask fits and delays nobody, or None.

        It has headroom, and fits on some node.

        Args:
            leaf: The leaf of its application.
            app: Its application.
            ask: The ask.
            bit: The bit of its shape.
        """
        may = self.undelayed(leaf, app, ask)
        if may is None:
            return self.finder.find(leaf, app, ask, bit)
        self._forget_if_changed()
        alike, end = (leaf.key, bit, ask.gang, app.limits), self._end_of(leaf, ask)
        is_reserved = self._is_reserved_for(ask)
        if not is_reserved and alike in self._held_back and end >= self._held_back[alike]:
            return None
        node = self.finder.find(leaf, app, ask, bit, may)
        if node is None and not is_reserved:
            self._held_back[alike] = end
            self._hide_longer(leaf, ask, bit, end)
        if node is not None:
            self.passing.note(app, ask, end, self._others(leaf, ask))
        return node

    def _others(self, leaf: LeafView, ask: Ask) -> Iterator[Reservation]:
        """Return the reservations in the scope of a leaf that are not for the group of an ask."""
        scope, group = self._state.scopes.backfill(leaf), group_of(self._state, ask)
        for one in self.in_force:
            if one.scope is scope and (group is None or ask.gang not in one.party.group):
                yield one

    def undelayed(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Callable[[Node], bool] | None:
        """Return what says whether an ask on a node delays nobody; None if it never does.

        Args:
            leaf: The leaf of its application.
            app: Its application.
            ask: The ask.
        """
        if self._state.scopes.backfill(leaf) is None:
            return None
        return lambda node: self.delayed_by(leaf, app, ask, node) is None

    def _hide_longer(self, leaf: LeafView, ask: Ask, bit: int, end: Instant) -> None:
        """Do not let the asks of a leaf be tried in this round that are like one that failed.

        An ask that takes less time may still pass.
        """
        if not leaf.may_hide or leaf.slots or ask.gang is not None:
            return
        scope = self._state.scopes.backfill(leaf)
        if scope is not None and self.is_saturated(scope):
            settings = leaf.config.settings
            if leaf.estimates is None or not leaf.estimates.is_for(settings):
                leaf.estimates = Estimates(settings, self._pending_in(leaf))
            leaf.hide_longer(bit, MAX_QUANTITY if end is _NEVER else end[1] - self._now_us)
            self._state.note_hidden(leaf)

    def _pending_in(self, leaf: LeafView) -> Iterator[tuple[ViewApp, Ask, int]]:
        for app in leaf.apps.values():
            for ask in app.pending.values():
                yield app, ask, self._state.bit_of(ask)

    def is_saturated(self, scope: ViewQueue) -> bool:
        """Return whether no more reservations are sought for a scope in this round."""
        own = sum(one.scope is scope for one in self.in_force)
        return own >= scope.config.settings.backfill_depth

    def delayed_by(self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node) -> Reservation | None:
        """Return the first reservation that a pending ask would delay on a node, or None."""
        if self._state.scopes.backfill(leaf) is None:
            return None
        self._forget_if_changed()
        for one in self._others(leaf, ask):
            if not (
                self._ends_by(leaf, ask, one)
                or self._at_start(one, ask).admits(Member(app, ask), node)
            ):
                return one
        return None

    def _is_reserved_for(self, ask: Ask) -> bool:
        """Return whether something is reserved for an ask itself, which then holds nothing."""
        return any(member.ask is ask for one in self.in_force for member in one.party.members)

    def _forget_if_changed(self) -> None:
        """Forget what was found of starts and of who is held back, if it may differ now."""
        now = (self._rounds, self._state.nodes.changes, len(self.in_force), self._now_us)
        if self._known_at != now:
            self._known_at = now
            self._starts.clear()
            self._held_back.clear()

    # BACKFILL-25
    def _ends_by(self, leaf: LeafView, ask: Ask, reservation: Reservation) -> bool:
        """Return whether an ask that is bound now ends by the start of a reservation."""
        return self._end_of(leaf, ask) <= reservation.start

    def _end_of(self, leaf: LeafView, ask: Ask) -> Instant:
        """Return when an ask that is bound now is expected to end; an unknown end is the last."""
        group = group_of(self._state, ask)
        estimate = estimate_us(leaf.config.settings, ask)
        if estimate is None or (group is not None and not group.strict):
            return _NEVER
        return (False, self._now_us + estimate)

    # BACKFILL-26
    def _at_start(self, reservation: Reservation, ask: Ask) -> Ahead:
        """Return what the view will be when a reservation starts, to see whether an ask fits."""
        state, now_us = self._state, self._now_us
        if self._is_reserved_for(ask):
            return Ahead(state, now_us, reservation, self.in_force, ask)
        known = self._starts.get(id(reservation))
        if known is None:
            known = Ahead(state, now_us, reservation, self.in_force)
            self._starts[id(reservation)] = known
        return known

    # What others see

    # BACKFILL-30
    def changed(self) -> Iterator[Decision]:
        """Return a decision for each node that is reserved newly or otherwise; after a batch."""
        self.passing.end_batch()
        now = reserved_by(self.in_force)
        for key, (node, start_us) in now.items():
            if self._said.get(key) != (node, start_us):
                app, ask = key
                yield Decision(Kind.RESERVED, app=app, ask=ask, node=node, start_us=start_us)
        self._said = now

    # CHECKPOINT-5
    def load(self, facts: Iterable[ReservationFacts], now_us: int) -> None:
        """Take over what was in force; everything else is in the view already.

        Args:
            facts: The reservations, in order.
            now_us: The instant of the last round, in microseconds.
        """
        self._now_us = now_us
        self.in_force = [loaded(self._state, one) for one in facts]
        self._said = reserved_by(self.in_force)
