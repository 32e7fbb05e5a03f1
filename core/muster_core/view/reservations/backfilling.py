"""What the reservations that are in force allow (BACKFILL-24 to BACKFILL-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.gangs.member import Member
from muster_core.view.reservations.ahead import Ahead
from muster_core.view.reservations.holdings import Holdings
from muster_core.view.reservations.party import group_of
from muster_core.view.reservations.search import has_topology
from muster_core.view.tree.estimates import Estimates, estimate_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.reservations.in_force import InForce
    from muster_core.view.reservations.later.releases import Instant
    from muster_core.view.reservations.party import Reservation
    from muster_core.view.reservations.passing import Passing
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.topology.node_finder import NodeFinder
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue

_Alike = tuple[int, int, str | None, tuple[object, ...]]

_NEVER: Final[Instant] = (True, MAX_QUANTITY)
"""An end that is not known, of an ask that holds no node yet: it is after all others."""


def _is_no_node(node: Node) -> bool:
    """Return False for every node."""
    del node
    return False


@final
class Backfilling:
    """Finds nodes where asks delay nobody.

    Args:
        state: The view.
        finder: Finds nodes where nothing is reserved.
        in_force: What is reserved.
        passing: Is told who gets a node beside reservations.
    """

    def __init__(
        self, state: ViewState, finder: NodeFinder, in_force: InForce, passing: Passing
    ) -> None:
        self._state = state
        self.finder = finder
        self._in_force = in_force
        self._passing = passing
        #: The round, the changes of nodes, the number of reservations and the instant when the next
        #: two were found: what will be at the start of each reservation, and the earliest end with
        #: which asks that are alike were held back (their leaf, shape, gang and limits).
        self._known_at = (0, 0, 0, 0)
        self._starts: dict[int, Ahead] = {}
        #: What parties are to hold, by the key of the scope.
        self._holdings: dict[int, Holdings] = {}
        self._held_back: dict[_Alike, Instant] = {}

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
        is_reserved = self._in_force.has_one_for(ask)
        if not is_reserved and alike in self._held_back and end >= self._held_back[alike]:
            return None
        node = self.finder.find(leaf, app, ask, bit, may)
        if node is None and not is_reserved:
            self._held_back[alike] = end
            self._hide_longer(leaf, ask, bit, end)
        if node is not None:
            others = list(self._others(leaf, ask))
            self._passing.note(app, ask, end, others)
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
        """Return the reservations in the scope of a leaf that are not for the group of an ask."""
        scope, group = self._state.scopes.backfill(leaf), group_of(self._state, ask)
        for one in self._in_force.reservations:
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
        holdings = self._telling(leaf, app, ask)
        if holdings is None:
            return lambda node: self.delayed_by(leaf, app, ask, node) is None
        end, now_us = self._end_of(leaf, ask), self._in_force.now_us
        is_enough, until_us = holdings.have_headroom(app, ask, end, now_us)
        self._in_force.hold_until(until_us)

        def may(node: Node) -> bool:
            has_room, until_us = holdings.have_room(node, ask, end, now_us)
            self._in_force.hold_until(until_us)
            return has_room

        return may if is_enough else _is_no_node

    def _telling(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Holdings | None:
        """Return the holdings if they tell whether an ask delays anybody, else None."""
        scope = self._state.scopes.backfill(leaf)
        if scope is None or has_topology(self._state, Member(app, ask)):
            return None
        holdings = self.holdings_of(scope)
        if not holdings.tell(ask) or self._in_force.has_one_for(ask):
            return None
        of_own_group = any(ask.gang in one.party.group for one in self._in_force.reservations)
        return None if ask.gang is not None and of_own_group else holdings

    def holdings_of(self, scope: ViewQueue) -> Holdings:
        """Return what the parties of the reservations in force in a scope are to hold."""
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
        """Forget what was found of starts and of who is held back, if it may differ now."""
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
        estimate = estimate_us(leaf.config.settings, ask)
        if estimate is None or (group is not None and not group.strict):
            return _NEVER
        return (False, self._in_force.now_us + estimate)

    # BACKFILL-26
    def _at_start(self, reservation: Reservation, ask: Ask) -> Ahead:
        """Return what the view will be when a reservation starts, to see whether an ask fits."""
        state, now_us = self._state, self._in_force.now_us
        if self._in_force.has_one_for(ask):
            return Ahead(state, now_us, reservation, self._in_force.reservations, ask)
        known = self._starts.get(id(reservation))
        if known is None:
            known = Ahead(state, now_us, reservation, self._in_force.reservations)
            self._starts[id(reservation)] = known
        return known
