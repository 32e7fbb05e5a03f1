"""The steps that place asks on nodes and release them; all decisions use them.

Each step updates the view, records the commits for owners, and returns the decisions for the
log. Rounds, permits and evictions decide which ask gets which node.

The placements and releases are also recorded as states, so that a repeated state is recognized
(ROUND-5, ROUND-6): rounds go on until one leaves the bound, waiting and pending asks exactly as it
found them, and never begin twice from the same state. While nothing is released, every round that
changes anything leads to a new state; states must be compared only after something was released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import attrs

from muster_core.gangs import GangTrigger
from muster_core.nodes.node import Node
from muster_core.owners.asks import Allocation, Ask, one_more, run_limit_us
from muster_core.owners.gang import MemberKey
from muster_core.structures.amounts import Numbered, add_to, add_to_row, take_from, take_from_row
from muster_core.structures.steps import PART, Steps, all_at_once
from muster_core.values.application_states import STATE_NAMES, TRANSITIONS, Trigger, next_state
from muster_core.values.decisions import (
    Decision,
    Kind,
    Reason,
    decision_on_app,
    decision_on_ask,
    decisions_on_bind,
)
from muster_core.values.devices import TakenDevices
from muster_core.view.commits import Advance, Commits
from muster_core.view.gangs import Hold, ViewGang
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.aging import as_it_came
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView

RecordedPlace = tuple[bool, str, TakenDevices] | None
"""Whether an ask is bound, its node and its devices; None while it is pending."""


@final
class StateHistory:
    """The states from which rounds have begun, as the placements that led to them."""

    def __init__(self) -> None:
        #: Every placement and release: the application, the ask, its place before and after.
        self.placements: list[tuple[int, str, RecordedPlace, RecordedPlace]] = []
        #: How many of them there were when each round began.
        self._rounds: list[int] = []
        #: Whether one of them was a release.
        self._has_released = False

    def start_anew(self) -> Steps[None]:
        """Forget everything; many thousand placements in parts, since that takes time."""
        while len(self.placements) > PART:
            del self.placements[-PART:]
            yield
        self.placements.clear()
        self._rounds.clear()
        self._has_released = False

    def note(self, app: int, ask: str, before: RecordedPlace, after: RecordedPlace) -> None:
        """Record that the place of an ask has changed."""
        self.placements.append((app, ask, before, after))
        self._has_released = self._has_released or after is None

    def mark(self) -> tuple[int, bool]:
        """Return the current position, for :meth:`go_back`."""
        return len(self.placements), self._has_released

    def go_back(self, mark: tuple[int, bool]) -> None:
        """Forget the placements since a mark, which were all undone."""
        count, self._has_released = mark
        del self.placements[count:]

    def start_round(self) -> None:
        """Record that a round begins."""
        self._rounds.append(len(self.placements))

    # ROUND-6
    def knows_this(self) -> bool:
        """Return whether a round has begun from the current state."""
        if not self._has_released:
            return self._rounds[-1] == len(self.placements)
        now = self._changes(len(self.placements))
        return any(self._changes(placements) == now for placements in self._rounds)

    def _changes(self, placements: int) -> dict[tuple[int, str], RecordedPlace]:
        """Return the net effect of the first placements: the asks whose place has changed."""
        first: dict[tuple[int, str], RecordedPlace] = {}
        last: dict[tuple[int, str], RecordedPlace] = {}
        for app, ask, before, after in self.placements[:placements]:
            first.setdefault((app, ask), before)
            last[app, ask] = after
        return {key: place for key, place in last.items() if place != first[key]}


_STATES_THAT_BINDS_END: Final = frozenset(
    state for state, trigger in TRANSITIONS if trigger is Trigger.ASK_BOUND
)


@final
class Placements:
    """Places asks on nodes and releases them."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The placements of this batch's rounds, to recognize repeated states.
        self.seen_states = StateHistory()
        #: How often a group was bound so far.
        self.groups_bound = 0
        #: Whether a bind failed in this round.
        self.failed = False
        #: The applications with an ask that was tried in this round and is still pending.
        self._tried: dict[int, ViewApp] = {}
        #: The applications whose position in their leaf may have changed.
        self._unlisted: dict[int, ViewApp] = {}
        #: The decisions of this batch, for the owners.
        self.commits = Commits(state)

    # Attempts

    @property
    def has_tried(self) -> bool:
        """Whether a pending ask was tried in this round."""
        return bool(self._tried)

    def start_round(self) -> None:
        """Make all asks untried."""
        if self._tried:
            for app in self._tried.values():
                app.start_round()
                self._unlisted[app.identity.key] = app
            self._tried.clear()
        self.failed = False
        self.list_apps()

    def tried(self, app: ViewApp, ask: Ask, bit: int) -> None:
        """Record that a pending ask was tried in this round."""
        app.tried(ask, bit)
        leaf = self._state.leaf_of(app)
        if leaf.aging is not None:
            self._state.come_up(leaf, app, ask.name)
        self._tried[app.identity.key] = app
        self._unlisted[app.identity.key] = app

    def list_apps(self) -> None:
        """Update the positions of the applications that have changed."""
        state, unlisted = self._state, self._unlisted
        if state.gang_index.stale:
            unlisted.update(state.gang_index.refresh())
        if state.user_limits.limits and state.user_limits.has_stale:
            for app in state.user_limits.refresh(exact=state.exact):
                unlisted[app.identity.key] = app
        while unlisted:
            _, app = unlisted.popitem()
            leaf = state.leaf_of(app)
            leaf.list_app(app, state.total)
            state.dirty[leaf.key] = leaf

    # Plain asks

    # APP-6
    def fail(
        self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int, node: Node, now_us: int
    ) -> Decision:
        """Drop an assignment whose bind fails: the ask stays pending and counts as tried."""
        self._spend_failure(leaf, app, ask, bit, node, now_us)
        if ask.gang is not None:
            self.lose(self._state.gangs[ask.gang])
        return ask_decision(Kind.RELEASED, leaf, app, ask, node.name, Reason.BIND_FAILED)

    def assign(
        self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int, node: Node, now_us: int
    ) -> list[Decision]:
        """Assign a pending ask, whose shape has ``bit``, to a node, and bind it.

        This is all that happens to an ask without gang, limit or device, from its choice to its
        decisions: it leaves the pending ones, uses the node and the queues above it, and is bound.
        """
        state, name = self._state, ask.name
        devices: TakenDevices = ()
        # DEVICE-7
        if ask.shape.devices:
            devices = state.nodes.devices_for(node, ask.shape)
        state.forget_pending(leaf, app, ask, bit)
        if leaf.aging is not None:
            ask = as_it_came(ask)
        state.shapes.release(bit)
        self._use(leaf, app, ask, node, state.shapes.amounts[bit], devices)
        place = (True, node.name, devices)
        self.seen_states.placements.append((app.identity.key, name, None, place))
        state.numbers += 1
        allocation = Allocation(ask, node.name, state.numbers, 0, devices, now_us)
        decisions = decisions_on_bind(
            app.identity.name, name, node.name, leaf.config.path, ask.gang
        )
        # DEVICE-12
        if devices:
            decisions[0] = decisions[0]._replace(devices=dict(devices))
        self._enter_bound(leaf, app, allocation, node, now_us, decisions)
        return decisions

    def bind(
        self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node, now_us: int
    ) -> list[Decision]:
        """Bind a pending ask for which the log has an ``assigned`` already."""
        return self.assign(leaf, app, ask, self._state.bit_of(ask), node, now_us)[1:]

    # FEED-34
    def _spend_failure(
        self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int, node: Node, now_us: int
    ) -> None:
        self._state.scopes.passed = ()
        app.failed_on[ask.name] = ask, node.name, None
        app.spoilt[ask.name] -= 1
        if not app.spoilt[ask.name]:
            self._state.set_failures(app, ask.name, 0)
        self.commits.failed(app, ask)
        # EVICTION-46
        self._state.eviction_history.forget()
        self.failed = True
        # BACKOFF-1
        self.commits.in_a_row(app, ask, one_more(app.in_a_row.get(ask.name), now_us))
        if leaf.config.settings.bind_retry_us:
            self._state.begin_back_off(app, ask)
            self._unlisted[app.identity.key] = app
        else:
            self.tried(app, ask, bit)

    def _enter_bound(
        self,
        leaf: LeafView,
        app: ViewApp,
        allocation: Allocation,
        node: Node,
        now_us: int,
        decisions: list[Decision],
    ) -> None:
        """Record that an ask is bound, and add to the decisions if its application changes."""
        state, ask, key = self._state, allocation.ask, app.identity.key
        if state.scopes.passed:
            allocation = self._with_passed(allocation)
        # TIME-2, TIME-6
        if ask.run_limit_us is not None or leaf.config.settings.run_limit_us:
            limit_us = run_limit_us(ask, leaf.config.settings.run_limit_us)
            allocation = attrs.evolve(allocation, limit_us=limit_us)
            state.timers.limit(app, allocation)
        # RUNTIME-4
        if leaf.config.settings.min_runtime_us:
            state.timers.protections.add(leaf, app, allocation)
        app.bound[ask.name] = (allocation, node)
        if ask.gang is not None:
            state.gangs[ask.gang].bound[key, ask.name] = None
            self.commits.touch(app, ask, None)
        if ask.run_for_us is not None:
            state.timers.bound(app, allocation, now_us)
        self._unlisted[key] = app
        self.commits.bound(key, allocation)
        # APP-8
        before = app.state
        if before in _STATES_THAT_BINDS_END:  # Most applications are Running already.
            stay = app.stay
            after = next_state(before, Trigger.ASK_BOUND, skip_starting=app.identity.skip_starting)
            state.enter(app, leaf, after, now_us)
            decision = decision_on_app(app.identity.name, leaf.config.path, STATE_NAMES[after])
            decisions.append(decision)
            self.commits.advanced(key, Advance(before, stay, decision))

    # OUTLOOK-8
    def _with_passed(self, allocation: Allocation) -> Allocation:
        scopes = self._state.scopes
        passed, scopes.passed = scopes.passed, ()
        return attrs.evolve(allocation, passed=passed)

    def _use(
        self,
        leaf: LeafView,
        app: ViewApp,
        ask: Ask,
        node: Node,
        amounts: Numbered,
        devices: TakenDevices,
    ) -> None:
        add_to(app.allocated, ask.resources.amounts)
        if app.limits:
            self._state.user_limits.take(app, ask.resources.amounts)
        holder = (app.identity.key, ask.name)
        if devices:
            self._state.nodes.take(node, ask.resources, holder, (ask.shape.devices, devices))
        else:
            self._state.nodes.take(node, ask.resources, holder)
        for queue in leaf.line:
            allocated = queue.allocated
            for number, amount in amounts:
                allocated[number] += amount

    # Members of gangs

    # GANG-39
    def hold(self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node) -> Allocation:
        """Make a pending member wait on a node; return its hold there."""
        bit = self._state.remove_pending(app, ask)
        if leaf.aging is not None:
            ask = as_it_came(ask)
        devices = self._state.nodes.devices_for(node, ask.shape) if ask.shape.devices else ()
        self._state.numbers += 1
        allocation = Allocation(ask, node.name, self._state.numbers, 0, devices)
        if self._state.scopes.passed:
            allocation = self._with_passed(allocation)
        self._take(leaf, app, allocation, node, self._state.shapes.amounts[bit])
        return allocation

    # GANG-38
    def _take(
        self, leaf: LeafView, app: ViewApp, allocation: Allocation, node: Node, amounts: Numbered
    ) -> None:
        ask = allocation.ask
        self.commits.touch(app, ask, None)
        self._use(leaf, app, ask, node, amounts, allocation.devices)
        self._state.begin_wait(app, allocation, node)
        held = (False, node.name, allocation.devices)
        self.seen_states.note(app.identity.key, ask.name, None, held)
        self._unlisted[app.identity.key] = app

    # GANG-31
    def bind_all(self, gangs: list[ViewGang], holds: list[Hold], now_us: int) -> Iterator[Decision]:
        """Bind waiting members in one step, and make their gangs satisfied.

        Args:
            gangs: The gangs that become satisfied, but for those of which all binds fail.
            holds: The members to bind, in order.
            now_us: The instant of the batch, in microseconds.
        """
        self.groups_bound += 1
        failing: dict[str, None] = {}
        if self._state.failing:
            failing = {hold.allocation.ask.gang or "": None for hold in holds if hold.will_fail()}
        for gang in gangs:
            # GANG-47
            if gang.name in failing and gang.all_fail():
                gang.since_us = None
                self.commits.lost(gang.name)
                continue
            self._state.gang_index.touch(gang.name).trigger(GangTrigger.GROUP_BOUND)
            self.commits.satisfied(gang.name)
            yield Decision(Kind.GANG_SATISFIED, gang=gang.name)
        for hold in holds:
            yield from self._bind_hold(hold, now_us)
        for name in failing:
            self.lose(self._state.gangs[name])

    # GANG-50
    def lose(self, gang: ViewGang) -> None:
        """Make a gang unsatisfied again if no member is bound; a step has just taken from it."""
        if gang.lose():
            self._state.gang_index.touch(gang.name)
            self.commits.lost(gang.name)

    def _bind_hold(self, hold: Hold, now_us: int) -> list[Decision]:
        app, ask, node = hold.app, hold.allocation.ask, hold.node
        leaf = self._state.leaf_of(app)
        # GANG-39, GANG-47
        if app.spoilt and hold.will_fail():
            released = self.give_up(hold, Reason.BIND_FAILED)
            ask = app.pending[ask.name]  # It may have another rank.
            self._spend_failure(leaf, app, ask, self._state.bit_of(ask), node, now_us)
            return [released]
        self.commits.touch(app, ask, hold.allocation)
        self._state.end_wait(app, ask)
        self._state.release_shape(ask)
        self._state.nodes.touch_allocation(node, (app.identity.key, ask.name))
        devices, assigned, name = hold.allocation.devices, hold.allocation.age, node.name
        self._state.scopes.passed = hold.allocation.passed
        self._state.numbers += 1
        allocation = Allocation(ask, name, self._state.numbers, assigned, devices, now_us)
        before, after = (False, name, devices), (True, name, devices)
        self.seen_states.note(app.identity.key, ask.name, before, after)
        decisions = [ask_decision(Kind.BOUND, leaf, app, ask, name)]
        self._enter_bound(leaf, app, allocation, node, now_us, decisions)
        return decisions

    # Releasing nodes, and undoing that

    # FEED-32
    def release(self, hold: Hold) -> None:
        """Release the node of a bound or waiting ask, which is then pending again, or parked.

        An ask that was bound and does not come back is then in no place: :meth:`end` has to follow,
        or :meth:`restore`.

        This records the change for the owner only if the ask waited; for a bound ask that is
        left to the caller.
        """
        state, app, ask, node = self._state, hold.app, hold.allocation.ask, hold.node
        queues, key = state.leaf_of(app).line, (app.identity.key, ask.name)
        amounts = state.shapes.types.numbered(ask.resources.amounts)
        if hold.bound:
            state.end_bound(app, ask)
        else:
            self.commits.touch(app, ask, hold.allocation)
            state.end_wait(app, ask)
        take_from(app.allocated, ask.resources.amounts)
        if app.limits:
            state.user_limits.give_back(app, ask.resources.amounts)
        state.nodes.give_back(node, ask.resources, key, hold.allocation.use)
        for queue in queues:
            take_from_row(queue.allocated, amounts)
        self.seen_states.note(*key, (hold.bound, node.name, hold.allocation.devices), None)
        # ONCE-2, ONCE-8
        if hold.bound and ask.once:
            for queue in queues:
                take_from_row(queue.asked, amounts)
            state.divisions.note(queues[0])
        # EVICTION-41
        elif hold.bound and state.is_timed_out(ask):
            state.park(app, ask)
            for queue in queues:
                take_from_row(queue.asked, amounts)
            state.divisions.note(queues[0])
        else:
            # The shape of a waiting ask is still counted.
            bit = state.acquire_shape(ask) if hold.bound else state.bit_of(ask)
            # ORDER-20
            state.add_pending(app, ask, bit)
            if hold.bound:
                all_at_once(state.nodes.place_shapes())
        self._unlisted[app.identity.key] = app

    def restore(self, hold: Hold) -> None:
        """Undo :meth:`release`."""
        state, app, allocation = self._state, hold.app, hold.allocation
        ask, leaf = allocation.ask, state.leaf_of(app)
        amounts = state.shapes.types.numbered(ask.resources.amounts)
        if (hold.bound and ask.once) or ask.name in app.parked:
            if ask.name in app.parked:
                state.unpark(app, ask)
            for queue in leaf.line:
                add_to_row(queue.asked, amounts)
            state.divisions.note(leaf)
        else:
            bit = state.remove_pending(app, ask)
            if hold.bound:
                state.shapes.release(bit)
        if not hold.bound:
            self._take(leaf, app, allocation, hold.node, amounts)
            return
        self._use(leaf, app, ask, hold.node, amounts, allocation.devices)
        state.begin_bound(app, allocation, hold.node)
        held = (True, hold.node.name, allocation.devices)
        self.seen_states.note(app.identity.key, ask.name, None, held)
        self._unlisted[app.identity.key] = app

    # ONCE-2, ONCE-3
    def end(self, app: ViewApp, ask: Ask, now_us: int) -> list[Decision]:
        """Let an ask be gone that was released and does not come back.

        Returns:
            The decision that its application has no ask left, if that is so.
        """
        state, name = self._state, ask.name
        self.commits.ended(app.identity.key, ask)
        self.commits.in_a_row(app, ask, None)
        app.since_us.pop(name, None)
        app.failed_on.pop(name, None)
        if name in app.spoilt:
            state.set_failures(app, name, 0)
        # ONCE-4
        if ask.gang is not None:
            member = MemberKey(app.identity.key, app.identity.name, name)
            gang, defined = state.gangs[ask.gang], state.gang_index.leave(ask.gang, member)
            if not gang.children:
                state.gang_index.empty(gang, *defined)
                self.commits.emptied(gang, gone=gang.definition is None)
        # APP-9
        if app.count():
            return []
        leaf = state.leaf_of(app)
        skip = app.identity.skip_starting
        after = next_state(app.state, Trigger.EMPTIED, skip_starting=skip)
        state.enter(app, leaf, after, now_us)
        return [decision_on_app(app.identity.name, leaf.config.path, STATE_NAMES[after])]

    def give_up(self, hold: Hold, reason: Reason) -> Decision:
        """Make a waiting member pending again; return the decision."""
        self.release(hold)
        leaf = self._state.leaf_of(hold.app)
        return ask_decision(
            Kind.RELEASED, leaf, hold.app, hold.allocation.ask, hold.node.name, reason
        )


def ask_decision(
    kind: Kind,
    leaf: LeafView,
    app: ViewApp,
    ask: Ask,
    node: str,
    reason: Reason | None = None,
    *,
    devices: TakenDevices = (),
) -> Decision:
    """Make a decision about an ask; ``assigned`` names the devices that it takes."""
    return decision_on_ask(
        kind,
        app.identity.name,
        ask.name,
        node,
        leaf.config.path,
        ask.gang,
        reason=reason,
        devices=dict(devices) if devices else None,
    )


def decisions_on_hold(
    leaf: LeafView, app: ViewApp, held: Allocation, *, waits: bool
) -> list[Decision]:
    """Make the decisions about a member that has got a node, and waits for others or not."""
    ask, devices = held.ask, dict(held.devices) if held.devices else None
    fields = app.identity.name, ask.name, held.node, leaf.config.path, ask.gang
    decisions = [decision_on_ask(Kind.ASSIGNED, *fields, devices=devices)]
    if waits:
        decisions.append(decision_on_ask(Kind.WAITING, *fields))
    return decisions
