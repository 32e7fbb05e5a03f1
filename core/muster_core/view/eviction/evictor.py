"""Node services, reclaim and preemption in steps: each evicts, and places an ask or a group.

EVICTION-1, EVICTION-2, EVICTION-26, EVICTION-27. Nothing is evicted unless it suffices, and the
preemptor is placed in the same step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.values.decisions import Decision, Kind
from muster_core.view.eviction.evictions import Evictions
from muster_core.view.eviction.plans import Plan, Planner
from muster_core.view.eviction.preemption import Preemption
from muster_core.view.eviction.reclaim import Reclaim
from muster_core.view.eviction.services import NodeServices
from muster_core.view.eviction.victim_index import VictimIndex
from muster_core.view.placement.placements import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.action import EvictionAction
    from muster_core.view.eviction.victims import Victim
    from muster_core.view.gangs.gang import Hold, ViewGroup
    from muster_core.view.permits.permits import Permits
    from muster_core.view.placement.placements import Placements
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.topology.node_finder import NodeFinder
    from muster_core.view.tree.application import ViewApp


@final
@attrs.frozen(eq=False)
class _Step:
    """How one missing member of a group is placed.

    Attributes:
        app: Its application.
        ask: The member.
        node: The node on which it is placed.
        plan: The plan with its victims, or None if it needs none.
    """

    app: ViewApp
    ask: Ask
    node: Node
    plan: Plan | None


# Looking up a member of an enum takes ten times as long.
_ASSIGNED: Final = Kind.ASSIGNED
_WAITING: Final = Kind.WAITING


@final
class Evictor:
    """Evicts victims for asks that did not fit, and places these asks.

    Args:
        state: The view.
        placements: Places and releases asks.
        permits: Binds groups, and gives the order of their members.
        finder: Finds nodes for which nothing is evicted.
    """

    def __init__(
        self, state: ViewState, placements: Placements, permits: Permits, finder: NodeFinder
    ) -> None:
        self._state = state
        self._placements = placements
        self._permits = permits
        self._finder = finder
        self._victim_index = VictimIndex(state)
        self._planner = Planner(state, self._victim_index)
        self._services = NodeServices(state, self._planner)
        # EVICTION-1
        self._actions: tuple[EvictionAction, ...] = (Reclaim(state), Preemption(state))
        self.evictions = Evictions(state, placements)

    def start_batch(self, *, is_new: bool) -> None:
        """Begin a batch.

        Args:
            is_new: Whether there was an event since the last batch.
        """
        if is_new:
            self._state.eviction_history.forget()
        self.evictions.start_batch()
        for action in self._actions:
            action.start_batch()

    # EVICTION-1, SERVICE-8
    def take(self, now_us: int) -> Steps[list[Decision]]:
        """Evict for the first ask or group that may and can, between two rounds.

        Args:
            now_us: The instant of the batch, in microseconds.

        Returns:
            The decisions; empty if no plan was found.
        """
        plan = yield from self._services.find()
        if plan is not None:
            return self._carry_out(plan, now_us)
        for action in self._actions:
            decisions = yield from self._evict_by(action, now_us)
            if decisions:
                return decisions
        return []

    def _evict_by(self, action: EvictionAction, now_us: int) -> Steps[list[Decision]]:
        yield from action.prepare(self._victim_index, now_us)
        for preemptor in action.preemptors(now_us):
            yield
            if preemptor is None:
                continue
            app, ask = preemptor
            # EVICTION-40
            if ask.gang is not None and not self._state.gangs[ask.gang].satisfied:
                group = self._state.gang_index.group_of(self._state.gangs[ask.gang])
                decisions = yield from self._evict_for_group(action, group, now_us)
                if decisions:
                    return decisions
                action.note_group_without_plan(group)
                continue
            plan = yield from self._plan_for(action, app, ask)
            # EVICTION-2, EVICTION-26
            if plan is not None:
                return self._carry_out(plan, now_us)
            action.note_without_plan(app, ask, self._state.bit_of(ask))
            if self._planner.found_no_victims:
                action.note_without_victims(app, ask)
        return []

    def _find_node(self, app: ViewApp, ask: Ask) -> Node | None:
        """Return the node on which an ask fits without evictions, or None."""
        # LIMIT-9, BACKFILL-29
        if not app.is_within_limits(ask) or not self._state.leaf_of(app).has_room(ask):
            return None
        leaf, bit = self._state.leaf_of(app), self._state.bit_of(ask)
        return self._finder.find(leaf, app, ask, bit, beside_victims=True)

    # TOPOLOGY-14
    def _find_any_domain(self, app: ViewApp, ask: Ask) -> Node | None:
        """Return the node that a member takes while no domain has room for all, or None."""
        leaf = self._state.leaf_of(app)
        if not app.is_within_limits(ask) or not leaf.has_room(ask):
            return None
        return self._finder.find_in_any_domain(leaf, ask, self._state.bit_of(ask))

    def _plan_for(self, action: EvictionAction, app: ViewApp, ask: Ask) -> Steps[Plan | None]:
        """Find a plan for an ask; None if there is none, or the ask fits without evictions."""
        self._planner.found_no_victims = False
        # EVICTION-12, LIMIT-11
        if not app.is_within_limits(ask) or self._find_node(app, ask) is not None:
            return None
        eligibility = action.eligibility(app, ask)
        if eligibility is None:
            return None
        return (yield from self._planner.find(eligibility, self._state.bit_of(ask)))

    def _evict(self, plan: Plan, now_us: int) -> Iterator[Decision]:
        for victim in plan.victims:
            why = plan.eligibility.why(victim)
            yield self.evictions.evict(victim, plan.eligibility.reason, why, now_us)

    # EVICTION-27
    def _carry_out(self, plan: Plan, now_us: int) -> list[Decision]:
        """Evict the victims of a plan, and bind the ask."""
        placements, app, ask, leaf = (
            self._placements,
            plan.eligibility.app,
            plan.eligibility.ask,
            plan.eligibility.leaf,
        )
        decisions = list(self._evict(plan, now_us))
        devices = self._state.nodes.devices_for(plan.node, ask.shape)
        decisions.append(say(_ASSIGNED, leaf, app, ask, plan.node.name, devices=devices))
        if app.spoilt.get(ask.name):
            bit = self._state.bit_of(ask)
            decisions.append(placements.fail(leaf, app, ask, bit, plan.node, now_us))
            self._state.kept_nodes.end(app, ask)
        else:
            decisions.extend(placements.bind(leaf, app, ask, plan.node, now_us))
            self._state.eviction_history.note(app.identity.key, ask, plan.node.name)
        placements.list_apps()
        return decisions

    # Groups

    def _evict_for_group(
        self, action: EvictionAction, group: ViewGroup, now_us: int
    ) -> Steps[list[Decision]]:
        """Place all missing members of a group, if that needs victims and is possible."""
        if self._state.eviction_history.lost_by(group.names):
            return []
        steps = yield from self._find_steps(action, group, now_us)
        # EVICTION-12
        if not any(step.plan for step in steps):
            return []
        decisions: list[Decision] = []
        for number, step in enumerate(steps, 1):
            if step.plan is not None:
                decisions.extend(self._evict(step.plan, now_us))
            leaf = self._state.leaf_of(step.app)
            devices = self._placements.hold(leaf, step.app, step.ask, step.node).devices
            self._state.eviction_history.note_member(step.app.identity.key, step.ask, group.names)
            name = step.node.name
            decisions.append(say(_ASSIGNED, leaf, step.app, step.ask, name, devices=devices))
            if number < len(steps):
                decisions.append(say(_WAITING, leaf, step.app, step.ask, step.node.name))
        decisions.extend(self._permits.bind(group, now_us))
        self._placements.list_apps()
        return decisions

    # EVICTION-35
    def _find_steps(
        self, action: EvictionAction, group: ViewGroup, now_us: int
    ) -> Steps[list[_Step]]:
        """Find, without effect, how all missing members of a group could be placed."""
        mark, grown = self._placements.seen_states.mark(), self._state.nodes.grown
        steps: list[_Step] = []
        undo: list[Hold] = []
        while not group.complete():
            step = yield from self._find_step(action, group, now_us)
            if step is None:
                break
            steps.append(step)
            for victim in step.plan.victims if step.plan else ():
                self._try_without(victim)
            leaf = self._state.leaf_of(step.app)
            self._placements.hold(leaf, step.app, step.ask, step.node)
            undo.append(self._permits.hold_of(step.ask, step.app))
        complete = group.complete()
        for step, hold in zip(reversed(steps), reversed(undo), strict=True):
            yield
            self._placements.release(hold)
            for victim in reversed(step.plan.victims if step.plan else ()):
                self._placements.restore(victim.hold())
        self._state.eviction_history.tried_without.clear()
        self._placements.list_apps()
        self._state.refresh()  # The next preemptor is looked up in the restored state.
        self._placements.seen_states.go_back(mark)
        self._state.nodes.grown = grown
        return steps if complete else []

    def _try_without(self, victim: Victim) -> None:
        """Release a victim for a trial, without an effect on what ``is_bound`` reports."""
        if victim.bound:
            key = (victim.app.identity.key, victim.allocation.ask.name)
            self._state.eviction_history.tried_without[key] = victim.allocation
        self._placements.release(victim.hold())

    # EVICTION-36
    def _find_step(
        self, action: EvictionAction, group: ViewGroup, now_us: int
    ) -> Steps[_Step | None]:
        yield
        slot = self._permits.next_member(group, missing_only=True)
        ask = None if slot is None else slot.first()
        if slot is None or ask is None:
            return None
        node = self._find_node(slot.app, ask) or self._find_any_domain(slot.app, ask)
        if node is not None:
            return _Step(slot.app, ask, node, None)
        # EVICTION-37
        if not action.is_ready(slot.app, ask, now_us):
            return None
        plan = yield from self._plan_for(action, slot.app, ask)
        return None if plan is None else _Step(slot.app, ask, plan.node, plan)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self._victim_index.check()
