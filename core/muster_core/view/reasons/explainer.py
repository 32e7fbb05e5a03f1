"""All reasons why an ask is not running at the end of a batch, and its place in the order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, final

from muster_core.structures.totals import add_to
from muster_core.values.reasons import Explanation, Outlook, PendingReason
from muster_core.values.snapshots import AskPlace
from muster_core.view.reasons import gangs, room, shortfalls, topologies
from muster_core.view.reasons.cycles import why_rolled_back
from muster_core.view.reasons.dominant import Dominants
from muster_core.view.reasons.eviction import eviction_reason
from muster_core.view.reasons.failed_binds import backing_off, bind_failed
from muster_core.view.reasons.order.held_back import held_back
from muster_core.view.reasons.order.keys import compare, not_your_turn
from muster_core.view.reasons.order.position import position
from muster_core.view.reasons.order.reserved import ReservedFor
from muster_core.view.reasons.quotas import queue_max, queue_max_apps, state_aware_turn
from muster_core.view.reasons.turns import Turn, Turns
from muster_core.view.reasons.user_limits import limit_reasons
from muster_core.view.reservations.party import group_of, party_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster_core.owners.messages.asks import Ask, AskOrder
    from muster_core.structures.shapes import Shape
    from muster_core.structures.steps import Steps
    from muster_core.values.reasons import Code, Level, Shortfall
    from muster_core.view.gangs.gang import ViewGang, ViewGroup
    from muster_core.view.permits.permits import Permits
    from muster_core.view.reasons.rooms import Rooms
    from muster_core.view.reservations.reservations import Reservations
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.topology.node_finder import NodeFinder
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_PARKED: Final = AskPlace.PARKED
_WAITING: Final = AskPlace.WAITING
_PENDING: Final = AskPlace.PENDING


@final
class Explainer:
    """Explains asks between two batches; a new one is needed after each change.

    Facts that several asks share are computed once.

    Args:
        state: The view, which is only read.
        permits: What happened to gang members in the last round.
        rooms: What room nodes have.
        finder: Finds nodes.
        reservations: What the last round has reserved.
    """

    def __init__(
        self,
        state: ViewState,
        permits: Permits,
        rooms: Rooms,
        finder: NodeFinder,
        reservations: Reservations,
    ) -> None:
        self._state = state
        self._permits = permits
        self._finder = finder
        self._reservations = reservations
        self._turns = Turns(state)
        #: Tells what is reserved for asks and groups.
        self.reserved_for = ReservedFor(state, reservations)
        #: Finds the dominant reasons of many asks.
        self.dominants = Dominants(state, permits, self._turns, rooms, finder)
        #: What Strict groups lack, by the names of their gangs.
        self._lacking: dict[tuple[str, ...], tuple[int, Mapping[str, int]] | None] = {}
        #: The comparisons of nodes with shapes; those of node services are others.
        self._surveys: dict[tuple[Shape, bool], room.Survey] = {}

    def pending(self) -> Iterator[tuple[ViewApp, Ask]]:
        """Iterate over the asks that are pending, parked or waiting.

        Yields:
            Applications by creation, the asks of each in order.
        """
        for _, app in sorted(self._state.apps.items()):
            waiting = [allocation.ask for allocation, _ in app.waiting.values()]
            asks = [*app.each_pending(), *app.parked.values(), *waiting]
            for ask in sorted(asks, key=self._order_of):
                yield app, ask

    def _order_of(self, ask: Ask) -> AskOrder:
        """Return the position of an ask among those of its application, in any state."""
        return ask.order_in(None if ask.gang is None else self._state.gangs[ask.gang].creation)

    def explain(
        self, app: ViewApp, name: str, now_us: int, notes: tuple[PendingReason, ...]
    ) -> Explanation | None:
        """Explain why an ask is not running.

        Args:
            app: Its application.
            name: Its name.
            now_us: The present instant, in microseconds.
            notes: Further reasons that apply to every pending ask of the application.

        Returns:
            All reasons, or None if it is bound or unknown.
        """
        ask, levels = app.find(name), tuple["Level", ...]()
        if ask is None or name in app.bound:
            return None
        turn, first = Turn(self._state.leaf_of(app), app, ask), self._turns.first()
        # REASON-4
        if name in app.parked:
            place, reasons = _PARKED, gangs.timed_out(ask.gang or "")
        elif name in app.waiting:
            place, reasons = _WAITING, self._waiting(ask, now_us)
        else:
            place = _PENDING
            if first is not None and first.ask is not ask and self._competes(turn):
                levels = compare(turn, first, self._state.total)
            reasons = (*self._reasons(turn, now_us), *_turn(first, levels))
            # Without a reason the next round would begin with the ask, and place it.
            # REASON-3
            assert reasons, "an ask is pending at rest for no reason"
            reasons += notes
        return Explanation(
            app=app.identity.name,
            ask=name,
            queue=turn.leaf.config.path,
            place=place,
            since_us=app.pending_since_us(ask),
            reasons=reasons,
            first=None if first is None else first.name,
            levels=levels,
        )

    # OUTLOOK-1, OUTLOOK-6
    def outlook(self, app: ViewApp, ask: Ask) -> Steps[Outlook]:
        """Return the outlook of a pending ask, without a forecast.

        Args:
            app: Its application.
            ask: The ask.
        """
        turn = Turn(self._state.leaf_of(app), app, ask)
        place = yield from position(self._state, turn)
        return Outlook(place, reserved=self.reserved_for.ask(ask))

    # REASON-6
    def shortfalls(self, app: ViewApp, ask: Ask) -> Steps[tuple[Shortfall, ...]]:
        """Return what there is too little of for an ask that is not bound, even if nothing else ran.

        Args:
            app: Its application.
            ask: The ask.
        """
        return (yield from shortfalls.of_ask(self._state, app, ask))

    def shortfalls_of_gang(self, gang: ViewGang) -> Steps[tuple[Shortfall, ...]]:
        """Return what there is too little of for a gang, even if nothing else ran."""
        return (yield from shortfalls.of_gang(self._state, gang))

    def prepare(self) -> Steps[None]:
        """Find in steps what the first explanation after a change would find at once."""
        return self._turns.find_firsts()

    def dominant(self, app: ViewApp, name: str, now_us: int) -> Code:
        """Return the code of the dominant reason of an ask that is not bound.

        Args:
            app: Its application.
            name: Its name.
            now_us: The present instant, in microseconds.
        """
        code = self.dominants.code(app, name)
        if code is not None:
            return code
        explanation = self.explain(app, name, now_us, ())
        assert explanation is not None, "an ask that is bound has no reason"
        return explanation.dominant.code

    def _competes(self, turn: Turn) -> bool:
        return turn.leaf.enters() and self._turns.has(turn)

    def _gang_of(self, ask: Ask) -> tuple[ViewGang, ViewGroup] | None:
        """Return the gang of an ask and its group, if that gang constrains it."""
        gang = None if ask.gang is None else self._state.gangs[ask.gang]
        if gang is None or gang.satisfied:
            return None
        return gang, self._state.gang_index.group_of(gang)

    def _waiting(self, ask: Ask, now_us: int) -> tuple[PendingReason, ...]:
        gang = self._state.gangs[ask.gang or ""]
        group = self._state.gang_index.group_of(gang)
        ends = ((end_us, one) for one in group.gangs for end_us in self._state.timers.ends(one))
        first = min(ends, key=lambda end: (end[0], end[1] is not gang), default=None)
        return gangs.waiting(gang, group, first, now_us)

    # REASON-2
    def _reasons(self, turn: Turn, now_us: int) -> Iterator[PendingReason]:
        """Return the reasons of a pending ask apart from the order, in the order of the codes."""
        state, (leaf, app, ask) = self._state, (turn.leaf, turn.app, turn.ask)
        nodes, ganged = self._survey(leaf, ask), self._gang_of(ask)
        found = (
            None if ganged is None else gangs.refusal(*ganged),
            room.never_fits(leaf, ask, nodes, state.nodes.nodes),
            queue_max(leaf, ask),
            *limit_reasons(app, ask),
            queue_max_apps(leaf, app),
            state_aware_turn(leaf, app),
            self._turns.blocked(turn),
            None if ganged is None else self._cycle(*ganged),
            backing_off(state, app, ask, now_us),
            bind_failed(app, ask),
            room.node_kept(state, nodes),
            held_back(state, self._reservations, leaf, app, ask),
            *room.no_room(ask, nodes, partial(self._lacks, app, ask)),
            topologies.why_not(state, self._finder, turn) if nodes.fitting else None,
            eviction_reason(state, self._turns, turn, now_us),
        )
        yield from (reason for reason in found if reason is not None)

    def _cycle(self, gang: ViewGang, group: ViewGroup) -> PendingReason | None:
        if not self._permits.is_cycle_invalid(gang):
            return None
        failure = self._permits.failure_of(group)
        reserved = self.reserved_for.group(group.names)
        return why_rolled_back(self._state, gang, group, failure, reserved)

    def _lacks(self, app: ViewApp, ask: Ask) -> tuple[int, Mapping[str, int]] | None:
        """Return how many members the Strict group of an ask lacks, and what they need together.

        Returns:
            None if it is in no such group, or if the group lacks one alone.
        """
        group = group_of(self._state, ask)
        if group is None or not group.strict:
            return None
        if group.names not in self._lacking:
            party, total = party_of(self._state, app, ask), dict[str, int]()
            members = () if party is None else party.members
            for member in members:
                add_to(total, member.ask.resources.amounts)
            self._lacking[group.names] = (len(members), total) if len(members) > 1 else None
        return self._lacking[group.names]

    def _survey(self, leaf: LeafView, ask: Ask) -> room.Survey:
        service = self._state.kept_nodes.is_service(leaf, ask)
        key = (ask.shape, service)
        if key not in self._surveys:
            self._surveys[key] = room.survey(
                self._state.nodes.nodes.values(), ask.shape, service=service
            )
        return self._surveys[key]


def _turn(first: Turn | None, levels: tuple[Level, ...]) -> Iterator[PendingReason]:
    if first is not None and levels:
        yield not_your_turn(first, levels)
