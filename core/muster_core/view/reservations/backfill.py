"""Backfill: what the active reservations allow (BACKFILL-15, BACKFILL-23 to BACKFILL-28).

An ask may take a node if it delays no reservation. What the view will be when a reservation starts
is found node by node as it is asked for. An allocation keeps which reservations its ask did not
delay (OUTLOOK-8).

The ask filter hides asks that need not be tried in a round with scopes, since they are sure to fail
without an effect. In such a round every ask is tried in its turn, as the first that fails in a
scope has a reservation, or blocks the scope. Once a backfill scope has all the reservations that it
may have, an ask of it that fits nowhere affects no other ask, like one outside all scopes. Of such
asks those are hidden that have a shape for which no node or no headroom is left, until there may be
more room; so are Strict gangs for which there is too little of either, and what a limit of a user or a
group refuses. Before that, only those are hidden for which nothing can be reserved: what is
reserved for others leaves no node with room for them, even when everything that runs now has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

import attrs

from muster_core.nodes.node import Node
from muster_core.owners.asks import Ask
from muster_core.structures.shapes import EVERY_SHAPE
from muster_core.values.reasons import Passed
from muster_core.values.records import MAP
from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.gangs import Member, MemberKey
from muster_core.view.node_finder import NodeFinder
from muster_core.view.placements import Placements
from muster_core.view.reservations.parties import Holdings, Party, Reservation, group_of
from muster_core.view.reservations.projection import Instant, Projection, releases_on
from muster_core.view.reservations.search import has_topology, hold_places
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import Estimates, LeafView, estimate_now_us
from muster_core.view.tree.queue import ViewQueue


@final
class ActiveReservations:
    """The reservations of all backfill scopes."""

    def __init__(self) -> None:
        #: Those in force, in the order in which they were made. None is taken out in a round.
        self.reservations: list[Reservation] = []
        #: The instant of the last round, in microseconds.
        self.now_us = 0
        #: How many rounds there were.
        self.rounds = 0
        #: Those in force at the end of the round before, by party.
        self._before: dict[frozenset[MemberKey], Reservation] = {}
        #: Until when rounds find the same if nothing changes, in microseconds.
        self._until_us = 0
        #: Whether all that was in force at the end of a round was so at the end of that before.
        self._is_steady = False

    # BACKFILL-23
    def start_round(self, now_us: int) -> None:
        """Begin a round at an instant, in microseconds: nothing is reserved."""
        self.now_us, self._until_us = now_us, MAX_QUANTITY
        self.rounds += 1
        self._before = {one.party.keys: one for one in reversed(self.reservations)}
        self.reservations = []

    def end_round(self) -> None:
        """End a round: note whether the next one would find the same, if nothing changes."""
        now = self.reservations
        known = [one.start_us for one in now if one.start_us is not None]
        self._until_us = min(self._until_us, *known, MAX_QUANTITY)
        self._is_steady = len(self._before) == len(now) and all(map(self._was_there, now))

    def _was_there(self, one: Reservation) -> bool:
        before = self.before(one.party)
        return (
            before is not None
            and (before.scope, before.start) == (one.scope, one.start)
            and before.party.group == one.party.group
            and [node for _, node in before.places] == [node for _, node in one.places]
        )

    def holds_at(self, now_us: int) -> bool:
        """Return whether a round at an instant would find the same, if nothing has changed."""
        return self._is_steady and now_us < self._until_us

    def hold_until(self, until_us: int) -> None:
        """Note that a round would find something else from an instant on, in microseconds."""
        self._until_us = min(self._until_us, until_us)

    def before(self, party: Party) -> Reservation | None:
        """Return the reservation for the same asks at the end of the round before, or None."""
        return self._before.get(party.keys)

    def of(self, scope: ViewQueue) -> list[Reservation]:
        """Return the reservations of a scope, in order."""
        return [one for one in self.reservations if one.scope is scope]

    # BACKFILL-15
    def is_saturated(self, scope: ViewQueue) -> bool:
        """Return whether no more reservations are sought for a scope in this round."""
        return len(self.of(scope)) >= scope.config.settings.backfill_depth

    def has_one_for(self, ask: Ask) -> bool:
        """Return whether something is reserved for an ask itself."""
        return any(member.ask is ask for one in self.reservations for member in one.party.members)

    # CHECKPOINT-5
    def load(self, reservations: Iterable[Reservation], now_us: int) -> None:
        """Load the reservations in force at the instant of the last round, in microseconds."""
        self.reservations, self.now_us = list(reservations), now_us


# BACKFILL-26
@final
class StartView:
    """The view at the start of a reservation, with the parties that hold their nodes then.

    Few nodes are asked about, so those for which no caller asks whether an ask fits are left as
    they are, as long as no headroom depends on them.

    Args:
        without: An ask that holds nothing, or None.
    """

    def __init__(
        self,
        state: ViewState,
        now_us: int,
        reservation: Reservation,
        in_force: Iterable[Reservation],
        without: Ask | None = None,
    ) -> None:
        self._state = state
        self._now_us = now_us
        self._reservation = reservation
        self._projection = Projection(state)
        #: The first known end on which answers so far depend, in microseconds.
        self.until_us = MAX_QUANTITY
        #: The nodes from which all that ends by the start is gone.
        self._known: set[str] = set()
        for other in in_force:
            if other.scope is reservation.scope and other.start <= reservation.start:
                # Which devices the party holds depends on those that are free then.
                for _, name in other.places:
                    if name in state.nodes.nodes:
                        self._look_at(state.nodes.nodes[name])
                hold_places(state, self._projection, other, without=without)

    def admits(self, member: Member, node: Node) -> bool:
        """Return whether a pending ask may still take a node, and fits it and the headroom."""
        headroom = self._projection.difference.has_headroom
        # Enough is left then if it is already, with what is still there.
        if has_topology(self._state, member) or not headroom(*member):
            for one in self._state.nodes.nodes.values():
                self._look_at(one)
            if not headroom(*member):
                return False
        self._look_at(node)
        return self._projection.fits_on(member, node)

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node."""
        self._look_at(node)
        self._projection.place(member, node)

    def _look_at(self, node: Node) -> None:
        """Take away what ends on a node by the start."""
        if node.name in self._known:
            return
        self._known.add(node.name)
        start, group = self._reservation.start, self._reservation.party.group
        for release in releases_on(self._state, node, self._now_us):
            if not release.at[0]:
                self.until_us = min(self.until_us, release.at[1])
            if release.at > start:
                break
            if release.allocation.ask.gang not in group:
                self._projection.release(release.app, release.allocation, node)


# OUTLOOK-8
def _passed(one: Reservation, end: Instant) -> Passed:
    (member, _), *others = one.places
    ends_us = end[1] if end <= one.start else None
    whom = f"{member.app.identity.name}/{member.ask.name}"
    return Passed(whom, len(others), one.start_us, ends_us)


_Alike = tuple[int, int, str | None, tuple[object, ...]]

_NEVER: Final[Instant] = (True, MAX_QUANTITY)
"""An end that is not known, of an ask that holds no node yet: it is after all others."""


def _never(node: Node) -> bool:
    """Return False for every node."""
    del node
    return False


@final
@attrs.define(eq=False)
class Backfill:
    """Finds nodes where asks delay no reservation.

    Args:
        in_force: The reservations.
    """

    _state: ViewState
    finder: NodeFinder
    _in_force: ActiveReservations
    #: The round, the changes of nodes, the number of reservations and the instant when the next
    #: two were found: what will be at the start of each reservation, and the earliest end with
    #: which asks that are alike were held back (their leaf, shape, gang and limits).
    _known_at: tuple[int, int, int, int] = attrs.field(default=(0, 0, 0, 0), init=False)
    _starts: dict[int, StartView] = attrs.field(factory=MAP, init=False)
    _held_back: dict[_Alike, Instant] = attrs.field(factory=MAP, init=False)
    #: What parties are to hold, by the key of the scope.
    _holdings: dict[int, Holdings] = attrs.field(factory=MAP, init=False)

    # BACKFILL-24, BACKFILL-28
    def find_node(self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int) -> Node | None:
        """Return the first node on which an ask fits and delays no reservation, or None.

        It has headroom, and fits on some node.
        """
        may = self.undelayed(leaf, app, ask)
        if may is None:
            return self.finder.find(leaf, app, ask, bit)
        self._forget_if_changed()
        alike, end = (leaf.key, bit, ask.gang, app.limits), self._end_of(leaf, ask)
        is_reserved = self._in_force.has_one_for(ask)
        if not is_reserved and alike in self._held_back and end >= self._held_back[alike]:
            return None
        node = self.finder.find(leaf, app, ask, bit, may)
        if node is None and not is_reserved:
            self._held_back[alike] = end
            self._hide_longer(leaf, ask, bit, end)
        if node is not None:
            others = list(self._others(leaf, ask))
            self._state.scopes.passed = tuple(
                _passed(one, end)
                for one in others
                if all(member.ask is not ask for member, _ in one.places)
            )
            self._note_when_it_would_not(end, others)
        return node

    def _note_when_it_would_not(self, end: Instant, others: Iterable[Reservation]) -> None:
        """Note from when on an ask with an end would not end by the starts of reservations.

        If it is a member of a gang that is then rolled back, a later round may go on otherwise.
        """
        now_us = self._in_force.now_us
        for one in others:
            if one.start_us is not None and end <= one.start:
                self._in_force.hold_until(now_us + one.start_us - end[1] + 1)

    def _others(self, leaf: LeafView, ask: Ask) -> Iterator[Reservation]:
        scope, group = self._state.scopes.backfill(leaf), group_of(self._state, ask)
        for one in self._in_force.reservations:
            if one.scope is scope and (group is None or ask.gang not in one.party.group):
                yield one

    def undelayed(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Callable[[Node], bool] | None:
        """Return a test whether an ask on a node delays no reservation; None if it never delays one."""
        if self._state.scopes.backfill(leaf) is None:
            return None
        holdings = self._sufficient_holdings(leaf, app, ask)
        if holdings is None:
            return lambda node: self.delayed_by(leaf, app, ask, node) is None
        end, now_us = self._end_of(leaf, ask), self._in_force.now_us
        is_enough, until_us = holdings.have_headroom(app, ask, end, now_us)
        self._in_force.hold_until(until_us)

        def may(node: Node) -> bool:
            has_room, until_us = holdings.have_room(node, ask, end, now_us)
            self._in_force.hold_until(until_us)
            return has_room

        return may if is_enough else _never

    def _sufficient_holdings(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Holdings | None:
        """Return the holdings if they suffice to see whether an ask delays a reservation, else None."""
        scope = self._state.scopes.backfill(leaf)
        if scope is None or has_topology(self._state, Member(app, ask)):
            return None
        holdings = self.holdings_of(scope)
        if not holdings.show_delays(ask) or self._in_force.has_one_for(ask):
            return None
        of_own_group = any(ask.gang in one.party.group for one in self._in_force.reservations)
        return None if ask.gang is not None and of_own_group else holdings

    def holdings_of(self, scope: ViewQueue) -> Holdings:
        """Return the future holdings of the parties with reservations in a scope."""
        holdings = self._holdings.setdefault(scope.key, Holdings(self._state))
        holdings.follow(self._in_force.of(scope))
        return holdings

    def _hide_longer(self, leaf: LeafView, ask: Ask, bit: int, end: Instant) -> None:
        """Do not let the asks of a leaf be tried in this round that are like one that failed.

        An ask that takes less time may still pass.
        """
        if not leaf.may_hide or leaf.under_limits or leaf.slots or ask.gang is not None:
            return
        scope = self._state.scopes.backfill(leaf)
        if scope is not None and self._in_force.is_saturated(scope):
            settings = leaf.config.settings
            if leaf.estimates is None or not leaf.estimates.is_for(settings):
                leaf.estimates = Estimates(settings, self._pending_in(leaf))
            leaf.hide_longer(bit, MAX_QUANTITY if end is _NEVER else end[1] - self._in_force.now_us)
            self._state.note_hidden(leaf)

    def _pending_in(self, leaf: LeafView) -> Iterator[tuple[ViewApp, Ask, int]]:
        for app in leaf.apps.values():
            for ask in app.pending.values():
                yield app, ask, self._state.bit_of(ask)

    def delayed_by(self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node) -> Reservation | None:
        """Return the first reservation that a pending ask would delay on a node, or None."""
        if self._state.scopes.backfill(leaf) is None:
            return None
        self._forget_if_changed()
        for one in self._others(leaf, ask):
            if self.ends_by(leaf, ask, one):
                continue
            then = self._at_start(one, ask)
            is_admitted = then.admits(Member(app, ask), node)
            self._in_force.hold_until(then.until_us)
            if not is_admitted:
                return one
        return None

    def _forget_if_changed(self) -> None:
        """Forget the results about starts and held-back asks, if they may differ now."""
        now = (
            self._in_force.rounds,
            self._state.nodes.changes,
            len(self._in_force.reservations),
            self._in_force.now_us,
        )
        if self._known_at != now:
            self._known_at = now
            self._starts.clear()
            self._held_back.clear()

    # BACKFILL-25
    def ends_by(self, leaf: LeafView, ask: Ask, reservation: Reservation) -> bool:
        """Return whether an ask that is bound now ends by the start of a reservation."""
        return self._end_of(leaf, ask) <= reservation.start

    def _end_of(self, leaf: LeafView, ask: Ask) -> Instant:
        """Return when an ask that is bound now is expected to end; an unknown end is the last."""
        group = group_of(self._state, ask)
        estimate = estimate_now_us(leaf.config.settings, ask)
        if estimate is None:
            return _NEVER
        if group is not None and not (group.strict and group.lacks_only_nodes()):
            return _NEVER
        return (False, self._in_force.now_us + estimate)

    # BACKFILL-26
    def _at_start(self, reservation: Reservation, ask: Ask) -> StartView:
        """Return the view at the start of a reservation, to check whether an ask fits."""
        state, now_us = self._state, self._in_force.now_us
        if self._in_force.has_one_for(ask):
            return StartView(state, now_us, reservation, self._in_force.reservations, ask)
        known = self._starts.get(id(reservation))
        if known is None:
            known = StartView(state, now_us, reservation, self._in_force.reservations)
            self._starts[id(reservation)] = known
        return known


# ROUND-10
@final
@attrs.define(eq=False)
class AskFilter:
    """Hides asks from a round.

    Args:
        backfilling: Knows the future holdings.
    """

    _state: ViewState
    _placements: Placements
    _in_force: ActiveReservations
    _backfilling: Backfill
    _is_active: bool = attrs.field(default=False, init=False)
    #: What was the case when asks were hidden: how often there was more room or a group was
    #: bound; and which shapes fitted, what had changed on nodes, and how much was reserved.
    _room: tuple[int, int] = attrs.field(default=(0, 0), init=False)
    _seen: tuple[int, int, int] = attrs.field(default=(0, 0, 0), init=False)
    #: The shapes of members for whose groups something may be reserved, though not for them.
    _loose: int = attrs.field(default=0, init=False)

    def start(self, *, active: bool) -> None:
        """Begin a round.

        Args:
            active: Whether asks may be hidden: there can be no more room later than before but
                after a release that is known.
        """
        self._state.show_all()
        self._is_active = active
        self._seen = (0, 0, -1)
        self._loose = self._loose_members() if active else 0

    def end(self) -> None:
        """End a round: nothing is hidden."""
        self._state.show_all()
        self._is_active = False

    def refresh(self) -> None:
        """Hide asks that are sure to fail now; the view is up to date before and after."""
        if not self._is_active:
            return
        state = self._state
        room = (state.nodes.grown, self._placements.groups_bound)
        if room != self._room:
            self._room = room
            self._state.show_all()
            self._seen = (0, 0, -1)
        seen = (state.nodes.fitting, state.nodes.changes, len(self._in_force.reservations))
        if seen == self._seen:
            return
        self._seen = seen
        for queue in state.queues.values():
            if isinstance(queue, LeafView) and queue.pending_mask and queue.may_hide:
                self._hide_in(queue)
        state.refresh()

    def _hide_in(self, leaf: LeafView) -> None:
        scopes, shapes, admitted = self._state.scopes, self._state.shapes, EVERY_SHAPE
        for queue in leaf.line:
            admitted &= queue.admits
        fitting, pending = self._state.fitting & admitted, leaf.pending_mask & shapes.singles
        scope = scopes.of(leaf)
        if scope is not None and not self._in_force.is_saturated(scope):
            if scopes.backfill(leaf) is not None:
                self._hide_forever(leaf, scope, fitting)
            return
        if scope is not None and scopes.backfill(leaf) is None:
            return
        is_new = leaf.hide((pending | shapes.gangs) & ~fitting)
        if leaf.under_limits:
            leaf.hide_refused(shapes)
        if is_new or leaf.under_limits:
            self._state.note_hidden(leaf)

    # BACKFILL-20
    def _hide_forever(self, leaf: LeafView, scope: ViewQueue, fitting: int) -> None:
        """Hide asks that have no room even if only the parties of reservations hold nodes.

        Nothing is reserved for it then.
        """
        last = self._backfilling.holdings_of(scope).last_fitting()
        if last is None:
            return
        singles = leaf.pending_mask & self._state.shapes.singles & ~self._loose
        gangs = self._state.gang_shapes.without_room(fitting | last)
        if leaf.hide(singles & ~(fitting | last) | gangs):
            self._state.note_hidden(leaf)

    def _loose_members(self) -> int:
        """Return the shapes of members of unsatisfied NonStrict groups.

        When one of them fails, others of its group may be those of the party.
        """
        mask, gang_index = 0, self._state.gang_index
        for gang in self._state.gangs.values():
            if not gang.satisfied and gang.slots and not gang_index.group_of(gang).strict:
                for slot in gang.slots.values():
                    for bit in slot.bits:
                        mask |= 1 << bit
        return mask
