"""Permits: which gang members are tried, and the effect on their group (GANG-21 to GANG-36).

A permit is the leave of a gang's waiting members to be bound. An attempt begins with one member in
its turn. If it gets a node, its whole group is activated: only the untried members of the group are
tried, in order, until the group is complete and bound, or a member of a Strict group fits nowhere
and all are released, or no untried member is left and the others wait. Nothing else is tried in
between, so an attempt that is rolled back leaves no trace unless members of the group waited
before.

A Strict group that is sure not to fit is found without trying its members: its needs are counted by
shape, and compared with what all nodes and the headroom of its queues have room for. Both are upper
bounds: a group that passes may still not fit; a group that does not pass cannot fit until there is
more room.

The end of a wait is an event, which ``admission`` handles. This module knows nothing of evictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import final

import attrs

from muster_core.nodes.node import Node
from muster_core.owners.asks import Ask, AskOrder
from muster_core.structures.amounts import add_to
from muster_core.structures.shapes import VISIT_BIT, Shape
from muster_core.values.decisions import Decision, Reason
from muster_core.values.records import LIST
from muster_core.view.facts import FailureFacts
from muster_core.view.gangs import (
    CycleFailure,
    Hold,
    Member,
    ViewGang,
    ViewGroup,
    holds_of,
    topology_of,
)
from muster_core.view.node_finder import NodeFinder
from muster_core.view.placements import Placements, decisions_on_hold
from muster_core.view.reservations.reservations import Changes, Reservations
from muster_core.view.second_try import SecondTry
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import LimitKey, Slot
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import first_leaf

Need = tuple["LeafView | None", int, int]
"""The leaf if it is known, the bit of a shape, and how many asks of this shape are needed."""


def is_sure_not_to_fit(state: ViewState, group: ViewGroup) -> bool:
    """Return whether a Strict group is sure not to fit now.

    The answer is False for a group that holds nodes, since releasing them has an effect, and
    for one with members in a blocking leaf, since a member that does not fit blocks the leaf.
    """
    gangs = [gang for gang in group.gangs if not gang.satisfied]
    if any(gang.waiting for gang in gangs):
        return False
    slots = [slot for gang in gangs for slot in gang.slots.values()]
    if any(state.leaf_of(slot.app).config.settings.blocking for slot in slots):
        return False
    needs = [
        need for gang in gangs if gang.missing and gang.admits() for need in needs_of(state, gang)
    ]
    return any(short_of_nodes(state, needs)) or any(short_of_max(state, needs))


def needs_of(state: ViewState, gang: ViewGang) -> Iterator[Need]:
    """Return the amounts that a gang is sure to need before it is complete."""
    missing = gang.missing
    leaves = {slot.app.identity.leaf for slot in gang.slots.values()}
    # BACKOFF-7
    if missing >= gang.pending:  # Every member that is tried is needed, whatever its shape.
        for slot in gang.slots.values():
            for bit, count in slot.bits.items():
                yield state.leaf_of(slot.app), bit, count
        return
    bits = {bit for slot in gang.slots.values() for bit in slot.bits}
    if len(bits) == 1:  # It does not matter which of them are needed.
        slot = next(iter(gang.slots.values()))
        leaf = state.leaf_of(slot.app) if len(leaves) == 1 else None
        yield leaf, next(iter(bits)), missing


def short_of_nodes(state: ViewState, needs: list[Need]) -> Iterator[tuple[Shape, int, int]]:
    """Yield each shape that nodes have too little room for, with the need and the room."""
    for bit, count in counts_by_shape(needs).items():
        room = state.nodes.room_for(bit, count)
        if room < count:
            yield state.shapes.shapes[bit], count, room


def counts_by_shape(needs: Iterable[Need]) -> dict[int, int]:
    """Return how many asks of each shape are needed."""
    counts: dict[int, int] = {}
    for _, bit, count in needs:
        counts[bit] = counts.get(bit, 0) + count
    return counts


def short_of_max(state: ViewState, needs: list[Need]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each queue whose ``max`` leaves too little for all, and the amounts that it lacks."""
    wanted: dict[int, dict[str, int]] = {}
    for leaf, bit, count in needs:
        if leaf is None:
            continue
        amounts = {
            name: amount * count for name, amount in state.shapes.shapes[bit].resources.items()
        }
        for queue in leaf.upward():
            if queue.config.max:
                add_to(wanted.setdefault(queue.key, {}), amounts)
    for key, amounts in wanted.items():
        queue = state.queues[key]
        lacks = {
            name: amounts[name] + queue.used(name) - most
            for name, most in queue.config.max.amounts
            if amounts.get(name) and amounts[name] + queue.used(name) > most
        }
        if lacks:
            yield queue.config.path, lacks


@final
@attrs.define
class _Attempt:
    """An attempt to complete a group.

    Attributes:
        number: The number of the last allocation before it.
        grown: The value of :attr:`NodeIndex.grown` before it.
        mark: The position of the memory before it.
        changes: The changes so far before it.
        over: Whether the group is bound, or all its nodes are released.
    """

    group: ViewGroup
    number: int
    grown: int
    mark: tuple[int, bool]
    changes: Changes
    decisions: list[Decision] = attrs.field(factory=LIST)
    over: bool = False


@final
class Permits:
    """Tries members of gangs.

    Args:
        reservations: The reservations of backfill scopes.
    """

    def __init__(
        self,
        state: ViewState,
        placements: Placements,
        finder: NodeFinder,
        reservations: Reservations,
    ) -> None:
        self._state = state
        self._placements = placements
        self._finder = finder
        self._reservations = reservations
        #: The Strict groups with a member that fitted nowhere in this round.
        self._barred: list[ViewGroup] = []
        #: The leaves that were found blocked in this round.
        self.blocked: list[LeafView] = []
        #: Whether the partition has scopes in this round.
        self._has_scopes = False
        self._second_try = SecondTry(state, reservations)
        #: Whether a Strict group may get a second try in this round.
        self.has_second_tries = False
        #: The members that were tried in this round, if it has scopes or second tries.
        self._went: dict[tuple[int, str], ViewApp] = {}
        #: Whether a bind of a member may fail in this round, so that a gang is unsatisfied again.
        self._may_lose = False
        #: Whether the last round tried every ask in its turn.
        self.was_exact = False
        #: The failures that made cycles invalid in the last round, by the names of the groups;
        #: without groups that were sure not to fit.
        self.failures: dict[tuple[str, ...], CycleFailure] = {}

    # Rounds

    def start_round(self) -> None:
        """Begin a round: nothing is blocked or barred, and every cycle is valid."""
        self.end_round()
        self._has_scopes = bool(self._state.scopes)
        self._may_lose = any(_may_fail(app) for app in self._state.failing.values())
        self.has_second_tries = self._second_try.is_due(may_lose=self._may_lose)
        self.failures.clear()
        self._state.gang_index.start_cycles()

    def end_round(self) -> None:
        """End a round: forget the attempts, blocks and bars in it."""
        for leaf in self.blocked:
            leaf.blocked = False
            self._state.dirty[leaf.key] = leaf
        self.blocked.clear()
        self._went.clear()
        if self._barred:
            apps: dict[int, ViewApp] = {}
            for group in self._barred:
                group.barred = False
                self._state.gang_index.offer(group, apps)
            self._barred.clear()
            self._list(apps)
        self._placements.start_round()

    # ROUND-13
    def block(self, leaf: LeafView) -> None:
        """Record that an ask of a blocking leaf did not fit."""
        if not leaf.blocked:
            leaf.blocked = True
            self.blocked.append(leaf)
            self._state.dirty[leaf.key] = leaf

    # LIMIT-10, BACKFILL-4, BACKFILL-8
    def block_behind(self, leaf: LeafView) -> None:
        """Block the asks that may not be tried after an ask of a leaf that did not fit."""
        if leaf.config.settings.blocking:
            self.block(leaf)
        scopes = self._state.scopes
        scope = scopes.strict(leaf) if scopes else None
        if scope is not None:
            for one in self._state.leaves_below(scope):
                self.block(one)

    # GANG-32
    def bind_complete(self, groups: Iterable[ViewGroup], now_us: int) -> list[Decision]:
        """Bind the groups that lack nothing, before a round tries anything."""
        decisions: list[Decision] = []
        for group in groups:
            if group.complete():
                decisions.extend(self.bind(group, now_us))
            else:  # Members of a gang that is satisfied otherwise need not wait.
                # GANG-37
                holds = holds_of(gang for gang in group.gangs if gang.satisfied)
                decisions.extend(self._placements.bind_all([], holds, now_us))
        self._placements.list_apps()
        return decisions

    def must_be_exact(self) -> bool:
        """Return whether every ask must be tried in its turn in the round that begins.

        If waiting members may release their nodes, there can be more room later in the round than
        before, and each tried ask must be known. If the bind of a member may fail, its gang may
        be unsatisfied for the rest of the round, with some of its members tried already. And if
        groups have second tries, each must fail in its turn.
        """
        gang_index = self._state.gang_index
        return (
            self.has_second_tries
            or any(
                self._may_release(gang_index.group_of(gang)) for gang in gang_index.waiting.values()
            )
            or self._may_lose
        )

    @staticmethod
    def _may_release(group: ViewGroup) -> bool:
        return group.strict and any(
            gang.slots and gang.missing and gang.admits() for gang in group.gangs
        )

    def judge(self, *, exact: bool) -> None:
        """Leave out the Strict groups that are sure not to fit; none in an exact round.

        Trying them would only make their cycles invalid.
        """
        state = self._state
        self.was_exact = exact
        if not state.gang_index.judged:
            return
        apps: dict[int, ViewApp] = {}
        for group in state.gang_index.groups_of(state.gang_index.judged):
            known = group.hopeless and group.room == state.nodes.grown
            hopeless = not exact and (known or is_sure_not_to_fit(state, group))
            if hopeless:
                group.room = state.nodes.grown
            if hopeless != group.hopeless:
                group.hopeless = hopeless
                state.gang_index.offer(group, apps)
        self._list(apps)

    def _list(self, apps: dict[int, ViewApp]) -> None:
        for app in apps.values():
            self._state.list_app(app)

    def invalidate_left_out(self) -> None:
        """Make the cycles of the groups invalid that the last round left out.

        A member that has a turn in a round fails there, or its group would not be left out. The
        last round of a batch changes nothing, so whether a member had a turn can be found
        afterwards; and the cycles of earlier rounds are never reported.
        """
        gang_index = self._state.gang_index
        for group in gang_index.groups_of(gang_index.strict):
            if self._is_left_out(group):
                gang_index.invalidate(group)

    def is_cycle_invalid(self, gang: ViewGang) -> bool:
        """Return whether the last round left the cycle of a gang invalid; changes nothing."""
        if not gang.cycle_valid:
            return True
        gang_index = self._state.gang_index
        group = gang_index.group_of(gang)
        return any(one.name in gang_index.strict for one in group.gangs) and self._is_left_out(
            group
        )

    def _is_left_out(self, group: ViewGroup) -> bool:
        """Return whether a group had a turn, but was not tried since it was sure not to fit."""
        if self.was_exact and not self._may_be_hidden(group):
            return False
        return self._may_be_left_out(group) and self._has_turn(group)

    def _may_be_hidden(self, group: ViewGroup) -> bool:
        """Return whether a group was perhaps not tried in a round that tries every ask in its turn.

        There all Strict groups with a turn fail or are bound.
        """
        state = self._state
        leaves = [state.leaf_of(slot.app) for gang in group.gangs for slot in gang.slots.values()]
        return (
            bool(state.scopes)
            and group.names not in self.failures
            and all(leaf.may_hide and state.scopes.strict(leaf) is None for leaf in leaves)
        )

    # GANG-28
    def failure_of(self, group: ViewGroup) -> CycleFailure | None:
        """Return the failure that made the cycles of a group invalid in the last round.

        Returns:
            The failure; None if the group was not tried, since it was sure not to fit. In a round
            that tries every ask in its turn it would have been; so it is tried now, and all is
            taken back.
        """
        if self.was_exact and group.names not in self.failures:
            slot, before = self.next_member(group), self._state.numbers
            ask = None if slot is None else slot.first()
            if slot is not None and ask is not None:
                leaf, now_us = self._state.leaf_of(slot.app), self._reservations.in_force.now_us
                self._has_scopes = self.has_second_tries = False
                with self._placements.commits.trying():
                    self._carry_out(self._begin(group), leaf, slot.app, ask, now_us)
                    self.end_round()
                self._state.numbers = before
                self._state.refresh()
        return self.failures.get(group.names)

    @staticmethod
    def _may_be_left_out(group: ViewGroup) -> bool:
        """Return whether a group is only tried if it may fit, and its cycles are valid."""
        slots = (slot for gang in group.gangs for slot in gang.slots.values())
        return all(gang.cycle_valid for gang in group.gangs) and (
            group.hopeless or any(slot.visit_bit != VISIT_BIT for slot in slots)
        )

    def _has_turn(self, group: ViewGroup) -> bool:
        return any(
            self._state.leaf_of(slot.app).competes(slot.app)
            and self._state.leaf_of(slot.app).enters()
            for gang in group.gangs
            if gang.missing and gang.admits()
            for slot in gang.slots.values()
        )

    # CHECKPOINT-4
    def facts(self) -> tuple[FailureFacts, ...]:
        """Return the failures in the last round. Between two batches."""
        return tuple(
            FailureFacts(
                group=names,
                app=one.app.identity.key,
                ask=one.ask.name,
                blocked=one.blocked,
                full=None if one.full is None else one.full.key,
                limit=None if one.limit is None else one.limit.key,
                held=one.held,
                held_back=one.held_back,
                misplaced=one.misplaced,
            )
            for names, one in self.failures.items()
        )

    # CHECKPOINT-5
    def load(self, facts: Iterable[FailureFacts], *, was_exact: bool) -> None:
        """Take over what happened in the last round; everything is in the view already."""
        self.was_exact = was_exact
        state = self._state
        for one in facts:
            app = state.apps[one.app]
            ask = app.find(one.ask)
            assert ask is not None, "a member that failed in the last round is gone"
            full = None if one.full is None else state.queues[one.full]
            key = None if one.limit is None else LimitKey(*one.limit)
            limit = None if key is None else state.user_limits.limits[key]
            self.failures[one.group] = CycleFailure(
                app, ask, one.blocked, full, limit, one.held, one.held_back, one.misplaced
            )

    # Attempts

    def attempt(
        self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int, now_us: int
    ) -> list[Decision]:
        """Try a member in its turn, and activate its group if it waits.

        Args:
            leaf: The leaf of its application.
            app: Its application.
            ask: The member, of a gang that is not satisfied and admits it.
            bit: The bit under which it is offered.
            now_us: The instant of the batch, in microseconds.
        """
        state = self._state
        gang = _gang_of(state, ask)
        group = state.gang_index.group_of(gang)
        if state.gang_shapes.knows(bit) and not state.exact and not state.gang_shapes.has_room(bit):
            state.gang_shapes.exhaust(bit)  # This holds for all gangs that need as much.
            return []
        attempt = self._begin(group)
        if gang.missing and group.strict and not state.exact and is_sure_not_to_fit(state, group):
            self._roll_back(attempt)
        else:
            self._carry_out(attempt, leaf, app, ask, now_us)
        self._placements.list_apps()
        return attempt.decisions

    def _begin(self, group: ViewGroup) -> _Attempt:
        return _Attempt(
            group,
            self._state.numbers,
            self._state.nodes.grown,
            self._placements.seen_states.mark(),
            self._reservations.repeats.changes_so_far(),
        )

    def _carry_out(
        self, attempt: _Attempt, leaf: LeafView, app: ViewApp, ask: Ask, now_us: int
    ) -> None:
        self._try(attempt, leaf, app, ask, now_us)
        # GANG-33
        if attempt.decisions:  # It waits.
            self._activate(attempt, now_us)

    # GANG-33, GANG-36
    def _activate(self, attempt: _Attempt, now_us: int) -> None:
        """Try the untried members of a group with a waiting member."""
        while not attempt.over:
            slot = self.next_member(attempt.group)
            ask = None if slot is None else slot.first()
            if slot is None or ask is None:
                break
            self._try(attempt, self._state.leaf_of(slot.app), slot.app, ask, now_us)

    def _try(self, attempt: _Attempt, leaf: LeafView, app: ViewApp, ask: Ask, now_us: int) -> None:
        group, placements = attempt.group, self._placements
        bit = self._state.bit_of(ask)
        if self._has_scopes or self.has_second_tries:
            self._went[app.identity.key, ask.name] = app
        # GANG-24, GANG-26, ROUND-14
        gang = _gang_of(self._state, ask)
        if not gang.missing:  # It is surplus, as its group is not complete.
            placements.tried(app, ask, bit)
            return
        # LIMIT-9
        is_allowed = not app.limits or app.is_within_limits(ask)
        # GANG-27, ORDER-4, ROUND-15, BACKFILL-5
        node = None
        held_back = False
        if is_allowed and not leaf.blocked and leaf.has_room(ask):
            # Most members have no topology, and take the first node without one more call.
            node = self._state.nodes.find(bit)
            says = gang.definition
            if node is not None and (node.kept or (says is not None and says.topology is not None)):
                node = self._finder.find(leaf, app, ask, bit)
            # BACKFILL-24
            if node is not None and self._reservations.in_force.reservations:
                node = self._reservations.backfilling.find_node(leaf, app, ask, bit)
                held_back = node is None
        if node is None:
            if group.strict:
                self._note_failure(group, leaf, app, ask, held_back=held_back)
            self._fail(attempt, leaf, app, ask, now_us, is_allowed=is_allowed)
            return
        held = placements.hold(leaf, app, ask, node)
        attempt.over = group.complete()
        attempt.decisions += decisions_on_hold(leaf, app, held, waits=not attempt.over)
        if attempt.over:
            attempt.decisions.extend(self.bind(group, now_us))

    def _fail(
        self,
        attempt: _Attempt,
        leaf: LeafView,
        app: ViewApp,
        ask: Ask,
        now_us: int,
        *,
        is_allowed: bool,
    ) -> None:
        """Handle a member that fits nowhere, or may not take a node on which it fits."""
        was_blocked, blocked = leaf.blocked, len(self.blocked)
        if is_allowed:
            self.block_behind(leaf)
        # GANG-28, GANG-29
        if not attempt.group.strict:
            self._placements.tried(app, ask, self._state.bit_of(ask))
        else:
            self._roll_back(attempt)
            if self.has_second_tries and self._try_again(attempt, self.blocked[:blocked], now_us):
                return
        # BACKFILL-15, BACKFILL-16
        if self._has_scopes and is_allowed and not was_blocked:
            self._reserve(attempt, leaf, app, ask, now_us)

    # BACKFILL-17, BACKFILL-21
    def _reserve(
        self, attempt: _Attempt, leaf: LeafView, app: ViewApp, ask: Ask, now_us: int
    ) -> None:
        """Seek a reservation for a group, or place and bind it where it had one."""
        self._placements.list_apps()
        self._state.refresh()
        places = self._reservations.seeking.seek(leaf, app, ask)
        if places:
            self._bind_at(attempt, places, now_us)

    # GANG-55, GANG-58
    def _try_again(self, attempt: _Attempt, blocked: Iterable[LeafView], now_us: int) -> bool:
        """Place all that a group lacks otherwise, and bind it; return whether that was possible.

        Args:
            attempt: The attempt, in which the group was rolled back.
            blocked: The leaves that were blocked before.
            now_us: The instant of the batch, in microseconds.
        """
        self._placements.list_apps()
        self._state.refresh()
        places = self._second_try.places(attempt.group, {leaf.key for leaf in blocked})
        if places is None:
            return False
        self._bind_at(attempt, places, now_us)
        return True

    def _bind_at(
        self, attempt: _Attempt, places: Sequence[tuple[Member, Node]], now_us: int
    ) -> None:
        """Place all that a group lacks, and bind it in one step."""
        for number, (member, node) in enumerate(places, 1):
            own = self._state.leaf_of(member.app)
            held, waits = self._placements.hold(own, *member, node), number < len(places)
            attempt.decisions += decisions_on_hold(own, member.app, held, waits=waits)
        attempt.decisions.extend(self.bind(attempt.group, now_us))
        attempt.over = True
        # ROUND-11
        for (_, name), app in self._went.items():
            left = app.pending.get(name)
            if left is not None and left.gang in attempt.group.names and app.has_untried(left):
                self._placements.tried(app, left, self._state.bit_of(left))

    def _note_failure(
        self, group: ViewGroup, leaf: LeafView, app: ViewApp, ask: Ask, *, held_back: bool
    ) -> None:
        """Record the member that fitted nowhere, for explanations."""
        full = next((queue for queue in leaf.line if not queue.admits_more(ask)), None)
        limit = next((limit for limit in app.limits if not limit.admits_more(ask)), None)
        held = sum(gang.held for gang in group.gangs)
        # TOPOLOGY-15
        misplaced = (
            not held_back
            and topology_of(_gang_of(self._state, ask)) is not None
            and self._state.nodes.find(self._state.bit_of(ask)) is not None
        )
        self.failures[group.names] = CycleFailure(
            app, ask, leaf.blocked, full, limit, held, held_back, misplaced
        )

    # GANG-28, DECISION-9
    def _roll_back(self, attempt: _Attempt) -> None:
        """Release all nodes of a Strict group, and try none of its members in this round."""
        state, group = self._state, attempt.group
        holds = group.holds()
        older = [hold for hold in holds if hold.number <= attempt.number]
        for hold in reversed(holds[len(older) :]):
            self._placements.release(hold)
        # Nodes that were taken and released in this attempt are not logged.
        self._placements.seen_states.go_back(attempt.mark)
        attempt.decisions = [self._placements.give_up(hold, Reason.GANG_ROLLBACK) for hold in older]
        if not older:
            state.nodes.grown = attempt.grown
        group.barred = True
        self._barred.append(group)
        for gang in group.gangs:
            state.gang_index.touch(gang.name)
        state.gang_index.invalidate(group)
        if not older:
            self._reservations.repeats.undo(attempt.changes)
        attempt.over = True

    # GANG-31
    def bind(self, group: ViewGroup, now_us: int) -> list[Decision]:
        """Bind a group that lacks nothing, in one step."""
        return list(self._placements.bind_all(group.unsatisfied(), group.holds(), now_us))

    # Order

    def hold_of(self, ask: Ask, app: ViewApp) -> Hold:
        """Return the hold of a waiting member."""
        return _gang_of(self._state, ask).waiting[app.identity.key, ask.name]

    # GANG-34, GANG-35
    def next_member(self, group: ViewGroup, *, missing_only: bool = False) -> Slot[ViewApp] | None:
        """Return the slot of a group's first untried member, in the order of rounds."""
        if len(group.gangs) == 1 and len(group.gangs[0].slots) == 1:  # Most groups are like this.
            (gang,) = group.gangs
            if gang.satisfied or not gang.admits() or (missing_only and not gang.missing):
                return None
            (slot,) = gang.slots.values()
            return None if slot.first() is None else slot
        slots = [
            slot
            for gang in group.gangs
            if not gang.satisfied and gang.admits() and (gang.missing or not missing_only)
            for slot in gang.slots.values()
            if slot.first() is not None
        ]
        apps = {slot.app.identity.key: slot.app for slot in slots}
        if len(apps) > 1:
            first = self._first_app(list(apps.values()))
            slots = [slot for slot in slots if slot.app is first]
        return min(slots, key=_first_order, default=None)

    # GANG-34, GANG-35
    def _first_app(self, apps: list[ViewApp]) -> ViewApp:
        """Return the first of several applications in any leaves."""
        state = self._state
        self._placements.list_apps()
        state.refresh()
        below: dict[int, list[ViewApp]] = {}
        for app in apps:
            for above in state.leaf_of(app).upward():
                below.setdefault(above.key, []).append(app)
        leaf = first_leaf(state.root, below, state.total)
        assert isinstance(leaf, LeafView), "a queue is a parent or a leaf"
        return min(below[leaf.key], key=lambda app: leaf.rank_of(app, state.total))


# GANG-50
def _may_fail(app: ViewApp) -> bool:
    """Return whether a bind of a member of a gang in an application may fail."""
    asks = (app.pending.get(name) for name in app.spoilt)
    return any(ask is not None and ask.gang is not None for ask in asks) or any(
        name in app.waiting for name in app.spoilt
    )


def _first_order(slot: Slot[ViewApp]) -> AskOrder:
    first = slot.first()
    assert first is not None, "a slot without untried members"
    return slot.order_of(first)


def _gang_of(state: ViewState, ask: Ask) -> ViewGang:
    assert ask.gang is not None, "a plain ask was tried as a member of a gang"
    return state.gangs[ask.gang]
