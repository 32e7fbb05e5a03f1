"""All reasons why an ask is not running at the end of a batch, and its place in the order.

The reasons of failed binds (BACKOFF-6, FEED-34, FEED-36) and of evictions (EVICTION-5, RECLAIM-1,
PREEMPTION-1, SERVICE-4) are found here, all others in the modules beside this one.

The dominant reasons of many asks are found without explaining each: only their codes, and what asks
have in common only once. Whatever decides a code is decided by the same functions as in an
explanation. What most of the reasons depend on is the application, the shape and the gang of an
ask: a *cell*. So they are found once for each cell, and for an ask only its own ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import final

import attrs

from muster_core.owners.asks import Ask, AskOrder
from muster_core.structures.amounts import add_to
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import Steps
from muster_core.values.reasons import (
    Code,
    Explanation,
    Fact,
    Level,
    Outlook,
    PendingReason,
    Reserved,
    Shortfall,
)
from muster_core.values.records import MAP
from muster_core.values.snapshots import AskPlace
from muster_core.view.eviction.actions import claimant_of, first_in_order
from muster_core.view.gangs import ViewGang, ViewGroup, topology_of
from muster_core.view.node_finder import NodeFinder
from muster_core.view.permits import Permits
from muster_core.view.reasons import gangs, room, room as topologies, shortfalls
from muster_core.view.reasons.gangs import ReservedFor, held_back, why_rolled_back
from muster_core.view.reasons.order import Turn, TurnOrder, compare, not_your_turn, position
from muster_core.view.reasons.room import NodeRoom
from muster_core.view.reasons.shortfalls import (
    limit_reasons,
    listed,
    over_max,
    queue_max,
    queue_max_apps,
    seconds,
    state_aware_turn,
)
from muster_core.view.reservations.parties import group_of, party_of
from muster_core.view.reservations.reservations import Reservations
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView


def backing_off(state: ViewState, app: ViewApp, ask: Ask, now_us: int) -> PendingReason | None:
    """Return until when an ask backs off, or None if it does not."""
    if ask.name not in app.backing_off:
        return None
    times, until_us = app.in_a_row[ask.name].times, state.back_offs.until_us(app, ask.name)
    left_us = max(until_us - now_us, 0)
    failed = f"its last {times} binds failed" if times > 1 else "its last bind failed"
    when = f"{seconds(until_us)}, {seconds(left_us)} from now"
    message = f"{failed}, so it is not tried before {when}"
    facts = {"failures": times, "until_us": until_us, "left_us": left_us}
    return PendingReason(Code.BACKING_OFF, message, facts)


def bind_failed(app: ViewApp, ask: Ask) -> PendingReason | None:
    """Return where and why the last bind of an ask failed, if it has held no node since."""
    failed, node, why = app.failed_on.get(ask.name, (None, "", None))
    if failed is None or not failed.is_same(ask):
        return None
    cause = "" if why is None else f": {why}"
    message = f"its last bind, on {node}, failed{cause}; it has held no node since"
    return PendingReason(Code.BIND_FAILED, message, {"node": node})


def eviction_reason(
    state: ViewState, turns: TurnOrder, turn: Turn, now_us: int
) -> PendingReason | None:
    """Return why a pending ask that may reclaim or preempt has evicted nothing."""
    leaf, app, ask = turn.leaf, turn.app, turn.ask
    if not _is_candidate(state, turns, turn):
        return None
    service = state.delays.enabled and state.kept_nodes.node_of(leaf, app, ask) is not None
    if leaf.watched is None:
        return _service_reason(ask) if service else None
    claimant = claimant_of(leaf, ask)
    if claimant is None and not ask.preempts:
        return _service_reason(ask) if service else None
    ways: list[str] = []
    facts: dict[str, Fact] = {"claimant": None, "preempts": ask.preempts}
    if claimant is not None:
        facts["claimant"] = path = claimant.config.path
        # SHARE-16
        has = "deserves" if claimant.by_weight else "is guaranteed"
        ways.append(f"reclaim what {path} {has}")
    if ask.preempts:
        ways.append("preempt asks of lower priority")
    delay_us = leaf.config.settings.preemption_delay_us
    left_us = app.pending_since_us(ask) + delay_us - now_us
    if left_us > 0:
        facts["left_us"] = left_us
        message = f"in {seconds(left_us)} it may {listed(ways)}"
        return PendingReason(Code.PREEMPTION_DELAY, message, facts)
    if service:
        ways.append(_service_way(ask))
    message = f"it may {listed(ways)}, but no victims that may be taken make room for it"
    # RUNTIME-2
    end_us = state.timers.protections.ends.first_us()
    if end_us is not None and end_us > now_us:
        facts["protected_left_us"] = left_us = end_us - now_us
        message += (
            f"; asks are protected by their minimum run time, the first for {seconds(left_us)}"
        )
    return PendingReason(Code.RECLAIM_INSUFFICIENT, message, facts)


def _service_way(ask: Ask) -> str:
    return f"take room on {ask.shape.node} as a node service"


# SERVICE-7
def _service_reason(ask: Ask) -> PendingReason:
    """Return why a node service that may do nothing else has evicted nothing."""
    message = f"it may {_service_way(ask)}, but no victims that may be taken make room for it"
    return PendingReason(Code.RECLAIM_INSUFFICIENT, message, {"node": ask.shape.node})


def _is_candidate(state: ViewState, turns: TurnOrder, turn: Turn) -> bool:
    """Return whether reclaim and preemption consider an ask that does not fit."""
    # LIMIT-11
    if not turns.has(turn) or not turn.app.is_within_limits(turn.ask):
        return False
    # BACKFILL-6
    scope = state.scopes.strict(turn.leaf)
    if scope is not None:
        first_of = first_in_order(state, scope)
        if first_of is None or first_of[2] is not turn.ask:
            return False
    elif turn.leaf.config.settings.blocking:
        first = turns.first_to_block(turn.leaf)
        if first is None or first.ask is not turn.ask:
            return False
    gang = None if turn.ask.gang is None else state.gangs[turn.ask.gang]
    return gang is None or gang.satisfied or state.gang_index.group_of(gang).lacks_only_nodes()


@final
@attrs.frozen
class CellReasons:
    """What the pending asks of a cell have in common.

    Attributes:
        early: The dominant reason of all of them, or None.
        blocking: Whether their leaf is blocking, so that one may be blocked and another not.
        cycle: Whether the cycle of their gang is invalid.
        late: The reason of those without one of their own, or None if each has its own.
    """

    early: Code | None
    blocking: bool = False
    cycle: bool = False
    late: Code | None = None


@final
@attrs.define(eq=False)
class DominantReasons:
    """Finds dominant reasons between two batches; a new one is needed after each change."""

    _state: ViewState
    _permits: Permits
    _turns: TurnOrder
    _rooms: NodeRoom
    _finder: NodeFinder
    _cells: dict[tuple[ViewApp, Shape, str | None], CellReasons] = attrs.field(
        factory=MAP, init=False
    )

    def code(self, app: ViewApp, name: str) -> Code | None:
        """Return the code of the dominant reason of an ask that is not bound.

        Returns:
            The code; None if only the whole explanation tells.
        """
        if name in app.parked:
            return Code.GANG_TIMED_OUT
        if name in app.waiting:
            return Code.PERMIT_WAITING
        ask = app.find(name)
        assert ask is not None, "the reason of an ask that does not exist"
        cell = self._cell(app, ask)
        if cell.early is not None:
            return cell.early
        if cell.blocking and self._turns.blocked(Turn(self._state.leaf_of(app), app, ask)):
            return Code.BLOCKED
        if cell.cycle:
            return Code.GANG_CYCLE_INVALID
        if name in app.backing_off:
            return Code.BACKING_OFF
        if app.failed_on and bind_failed(app, ask) is not None:
            return Code.BIND_FAILED
        return cell.late

    def possible(self, app: ViewApp, ask: Ask) -> frozenset[Code] | None:
        """Return the dominant reasons that the pending asks of a cell may have.

        Args:
            app: An application.
            ask: One of its pending asks, which names the cell.

        Returns:
            The reasons; None if it may be any.
        """
        cell = self._cell(app, ask)
        if cell.early is not None:
            return frozenset((cell.early,))
        if cell.late is None:
            return None
        codes = {cell.late}
        if cell.blocking:
            codes.add(Code.BLOCKED)
        if cell.cycle:
            codes.add(Code.GANG_CYCLE_INVALID)
        if app.backing_off:
            codes.add(Code.BACKING_OFF)
        if app.failed_on:
            codes.add(Code.BIND_FAILED)
        return frozenset(codes)

    def _cell(self, app: ViewApp, ask: Ask) -> CellReasons:
        key = (app, ask.shape, ask.gang)
        found = self._cells.get(key)
        if found is None:
            found = self._cells[key] = self._common(app, ask)
        return found

    def _common(self, app: ViewApp, ask: Ask) -> CellReasons:
        leaf = self._state.leaf_of(app)
        early = next(self._early(leaf, app, ask), None)
        if early is not None:
            return CellReasons(early)
        gang = None if ask.gang is None else self._state.gangs[ask.gang]
        cycle = gang is not None and not gang.satisfied and self._permits.is_cycle_invalid(gang)
        late = self._rooms.why_none(leaf, ask)
        if late is None and gang is not None and topology_of(gang) is not None:
            late = self._by_topology(leaf, app, ask, gang)
        # BACKFILL-4
        blocking = leaf.config.settings.blocking or self._state.scopes.strict(leaf) is not None
        return CellReasons(None, blocking, cycle, late)

    # TOPOLOGY-15
    def _by_topology(self, leaf: LeafView, app: ViewApp, ask: Ask, gang: ViewGang) -> Code | None:
        """Return the reason of asks that a node has room for; None if each has its own."""
        if gang.missing > 1:  # It depends on the others that the gang lacks besides each.
            return None
        node = self._finder.find(leaf, app, ask, self._state.bit_of(ask))
        return Code.TOPOLOGY if node is None else None

    # REASON-2
    def _early(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Iterator[Code]:
        """Yield the reasons of all asks of a cell, in the order of the codes."""
        gang = None if ask.gang is None else self._state.gangs[ask.gang]
        if gang is not None and not gang.satisfied:
            refusal = gangs.refusal(gang, self._state.gang_index.group_of(gang))
            if refusal is not None:
                yield refusal.code
        if any(over_max(leaf, ask)) or not self._rooms.ever_fits(ask.shape):
            yield Code.NEVER_FITS
        for found in (
            queue_max(leaf, ask, self._state.timers.over_max),
            *limit_reasons(app, ask),
            queue_max_apps(leaf, app),
            state_aware_turn(leaf, app),
        ):
            if found is not None:
                yield found.code


@final
class Explainer:
    """Explains asks between two batches; a new one is needed after each change.

    Facts that several asks share are computed once.
    """

    def __init__(
        self,
        state: ViewState,
        permits: Permits,
        rooms: NodeRoom,
        finder: NodeFinder,
        reservations: Reservations,
    ) -> None:
        self._state = state
        self._permits = permits
        self._finder = finder
        self._reservations = reservations
        self._turns = TurnOrder(state)
        #: Finds the reservations for asks and groups.
        self.reserved_for = ReservedFor(state, reservations)
        #: Finds the dominant reasons of many asks.
        self.dominants = DominantReasons(state, permits, self._turns, rooms, finder)
        #: What Strict groups lack, by the names of their gangs.
        self._lacking: dict[tuple[str, ...], tuple[int, Mapping[str, int]] | None] = {}
        #: The comparisons of nodes with shapes; those of node services are others.
        self._surveys: dict[tuple[Shape, bool], room.NodeSurvey] = {}

    def pending(self) -> Iterator[tuple[str, str]]:
        """Yield application and name of the asks that are pending, parked or waiting, in order."""
        state = self._state
        for _, app in sorted(state.apps.items()):
            waiting = [allocation.ask for allocation, _ in app.waiting.values()]
            asks, leaf = [*app.each_pending(), *app.parked.values(), *waiting], state.leaf_of(app)
            if leaf.aging is not None:
                asks = [leaf.aging.ranked(app, ask) for ask in asks]
            for ask in sorted(asks, key=self._order_of):
                yield app.identity.name, ask.name

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
            place, gang = AskPlace.PARKED, self._state.gangs[ask.gang or ""]
            retry_us = self._state.timers.retries_us(gang)
            reasons = gangs.timed_out(gang.name, retry_us, now_us)
        elif name in app.waiting:
            place, reasons = AskPlace.WAITING, self._waiting(ask, now_us)
        else:
            place = AskPlace.PENDING
            reasons = tuple(self._reasons(turn, now_us))
            if first is not None and first.ask is not ask and turn.leaf.enters():
                levels = compare(turn, first, self._state.total) if self._turns.has(turn) else ()
                reasons += (not_your_turn(self._state, turn, first, levels),) if levels else ()
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
    def outlook(self, app: ViewApp, name: str) -> Steps[Outlook | None]:
        """Return the outlook of an ask, without a forecast; None if it is not pending."""
        ask = app.pending_ask(name)
        if ask is None:
            return None
        turn = Turn(self._state.leaf_of(app), app, ask)
        place = yield from position(self._state, turn)
        return Outlook(place, reserved=self.reserved_for.ask(ask))

    # REASON-6
    def shortfalls(self, app: ViewApp, name: str) -> Steps[tuple[Shortfall, ...]]:
        """Return the shortfalls of an ask that is not bound, as if nothing else ran."""
        ask = app.find(name)
        if ask is None or name in app.bound:
            return ()
        return (yield from shortfalls.of_ask(self._state, app, ask))

    def shortfalls_of_gang(self, gang: ViewGang) -> Steps[tuple[Shortfall, ...]]:
        """Return the shortfalls of a gang, as if nothing else ran."""
        return (yield from shortfalls.of_gang(self._state, gang))

    # OUTLOOK-6
    def reserved_for_gang(self, gang: ViewGang) -> Reserved | None:
        """Return the reservation for the missing members of the group of a gang, or None."""
        return self.reserved_for.group(self._state.gang_index.group_of(gang).names)

    def prepare(self) -> Steps[None]:
        """Find in steps what the first explanation after a change would find at once."""
        return self._turns.find_firsts()

    def dominant(self, app: ViewApp, name: str, now_us: int) -> Code:
        """Return the code of the dominant reason of an ask that is not bound."""
        code = self.dominants.code(app, name)
        if code is not None:
            return code
        explanation = self.explain(app, name, now_us, ())
        assert explanation is not None, "an ask that is bound has no reason"
        return explanation.dominant.code

    def _gang_of(self, ask: Ask) -> tuple[ViewGang, ViewGroup] | None:
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
            queue_max(leaf, ask, state.timers.over_max),
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
            topologies.outside_topology(state, self._finder, turn) if nodes.fitting else None,
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
        """Return how many members the Strict group of an ask lacks, and the sum of their resources.

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

    def _survey(self, leaf: LeafView, ask: Ask) -> room.NodeSurvey:
        service = self._state.kept_nodes.is_service(leaf, ask)
        key = (ask.shape, service)
        if key not in self._surveys:
            self._surveys[key] = room.survey(
                self._state.nodes.nodes.values(), ask.shape, service=service
            )
        return self._surveys[key]
