"""The evictor: runs node services, quota preemption, reclaim and preemption.

Each evicts, and all but quota preemption place an ask or group.

EVICTION-1, EVICTION-2, EVICTION-26, EVICTION-27. Nothing is evicted unless it suffices, and the
preemptor is placed in the same step.

Node services take room on their nodes before reclaim and preemption; or they keep the nodes
(SERVICE-4 to SERVICE-10, after YuniKorn's preemption for a required node). Only priorities decide
which asks are victims: no fence and no ``guaranteed`` protects them.

Quota preemption takes asks from queues that have had more than their ``max`` for too long (QUOTA-5 to
QUOTA-12, after YuniKorn's). Nothing need be pending. Victims are chosen as for an ask that lacks
nothing but headroom: those that are useful are below the queue that is over, on whatever node; but
those that do not suffice go as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import final

import attrs
from typing_extensions import override

from muster_core.nodes.node import Node
from muster_core.owners.asks import Ask
from muster_core.structures.shapes import bits_of
from muster_core.structures.steps import Steps
from muster_core.values.decisions import Decision, Kind, Reason
from muster_core.view.eviction.actions import (
    AlikeAsks,
    EvictionAction,
    Preemption,
    Reclaim,
    changes_so_far,
    exempt_gangs,
    first_in_order,
    first_of_all,
)
from muster_core.view.eviction.eligibility import (
    Eligibility,
    Key,
    LeafRelation,
    Losses,
    Rank,
    VictimRules,
)
from muster_core.view.eviction.plans import Plan, Planner, VictimChoice
from muster_core.view.eviction.search import VictimIndex, VictimSearch
from muster_core.view.eviction.victims import Victim
from muster_core.view.gangs import Hold, ViewGroup
from muster_core.view.node_finder import NodeFinder
from muster_core.view.permits import Permits
from muster_core.view.placements import Placements, ask_decision, decisions_on_hold
from muster_core.view.state.history import excess
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView, ViewQueue


@final
class Evictions:
    """Evicts asks."""

    def __init__(self, state: ViewState, placements: Placements) -> None:
        self._state = state
        self._placements = placements
        #: The asks that were evicted in this batch, by application and name.
        self._evicted: set[tuple[int, str]] = set()
        #: Whether one of them was evicted more than once.
        self._twice = False
        #: The decisions that evicted asks which are gone since.
        self._last: list[Decision] = []

    def start_batch(self) -> None:
        """Begin a batch without evictions."""
        self._evicted.clear()
        self._last.clear()
        self._twice = False

    def evict(
        self, victim: Victim, reason: Reason, why: str, now_us: int, over_max: str | None = None
    ) -> list[Decision]:
        """Evict an ask, and return the decisions."""
        app, ask = victim.app, victim.allocation.ask
        key = (app.identity.key, ask.name)
        self._twice = self._twice or key in self._evicted
        self._evicted.add(key)
        self._state.eviction_history.evicted(app.identity.key, ask)
        if victim.bound:
            self._note_loss(victim, now_us)
        self._placements.release(victim.hold())
        if victim.gang is not None:
            self._placements.lose(victim.gang)
        leaf = self._state.leaf_of(app)
        decision = ask_decision(_RELEASED, leaf, app, ask, victim.node.name, reason)
        decision = decision._replace(message=why, over_max=over_max)
        # ONCE-2
        if not (victim.bound and ask.once):
            return [decision]
        self._last.append(decision)
        return [decision, *self._placements.end(app, ask, now_us)]

    def _note_loss(self, victim: Victim, now_us: int) -> None:
        """Record that a bound ask is evicted; if it was bound in this batch, undo its effects."""
        app, allocation = victim.app, victim.allocation
        if allocation.ask.gang is not None:
            self._placements.commits.touch(app, allocation.ask, allocation)
        commits, key, name = self._placements.commits, app.identity.key, allocation.ask.name
        # EVICTION-6, EVICTION-41, EVICTION-42, EVICTION-43, GANG-52
        if not commits.is_new(key, name):
            commits.evicted(key, allocation)
            app.since_us[name] = now_us
            # BACKOFF-4
            commits.in_a_row(app, allocation.ask, None)
        elif (advance := commits.unbound(key, name)) is not None:
            leaf = self._state.leaf_of(app)
            self._state.undo_entry(app, leaf, advance.state, advance.stay)

    # DECISION-9
    def without_detours(self, decisions: deque[Decision]) -> deque[Decision]:
        """Remove from a batch's decisions what the batch undid and the log need not contain.

        DECISION-9: an assignment that is rolled back at the instant at which it was made may be
        left out, with its release. This is done for an ask that was evicted, got another node and
        lost it too, so that no ask is evicted twice at one instant. Changes of application
        states that followed from such a bind are left out too.
        """
        commits = self._placements.commits
        if not (self._twice or commits.has_unsaid):
            return decisions
        kept = [decision for decision in decisions if not commits.is_unsaid(decision)]
        return deque(leave_out_detours(kept, self._last) if self._twice else kept)


_RELEASED = Kind.RELEASED
_EVICTIONS = (Reason.RECLAIMED, Reason.PREEMPTED)
_PLACING_KINDS = (Kind.ASSIGNED, Kind.WAITING, Kind.BOUND)


# EVICTION-44, DECISION-9
def leave_out_detours(decisions: list[Decision], last: Collection[Decision] = ()) -> list[Decision]:
    """Remove each further eviction of an ask, with the assignment that it undoes.

    Args:
        decisions: The decisions of a batch.
        last: Those after which an ask is gone: they stay.
    """
    stay = {id(decision) for decision in last}
    evicted: set[tuple[str | None, str | None]] = set()
    #: For each ask the positions of its decisions since it had no node.
    since: dict[tuple[str | None, str | None], list[int]] = {}
    out: set[int] = set()
    for position, decision in enumerate(decisions):
        key = (decision.app, decision.ask)
        if decision.kind in _PLACING_KINDS:
            since.setdefault(key, []).append(position)
        elif decision.kind is _RELEASED:
            taken = since.pop(key, [])
            if decision.reason in _EVICTIONS:
                # ONCE-5
                if key in evicted and id(decision) not in stay:
                    out.update((*taken, position))
                evicted.add(key)
    return [decision for position, decision in enumerate(decisions) if position not in out]


PendingService = tuple["ViewApp", "Ask", "Node"]
"""A node service that lacks nothing but room on its node, with its application."""


@final
class NodeServices:
    """Finds the plans of node services, and makes those without a plan keep their nodes."""

    def __init__(self, state: ViewState, planner: Planner) -> None:
        self._state = state
        self._planner = planner
        #: What services without a plan share, in the current state.
        self._without_plan: set[AlikeAsks] = set()
        self._known: tuple[int, ...] = ()

    # SERVICE-4, SERVICE-8
    def find(self) -> Steps[Plan | None]:
        """Find the plan of the first node service that has one; those before it keep their nodes.

        Returns:
            The plan, or None if no service has one.
        """
        if not self._state.kept_nodes.leaves:
            return None
        self._forget_if_changed()
        for service in self._in_order():
            yield
            if service is None:
                continue
            app, ask, node = service
            plan = yield from self._plan_for(app, ask, node)
            if plan is not None:
                return plan
            # SERVICE-10
            self._state.kept_nodes.keep(app, ask)
        return None

    # EVICTION-11
    def _forget_if_changed(self) -> None:
        now = changes_so_far(self._state)
        if self._known != now:
            self._known = now
            self._without_plan.clear()

    def _plan_for(self, app: ViewApp, ask: Ask, node: Node) -> Steps[Plan | None]:
        state = self._state
        # EVICTION-3
        if not state.delays.enabled:
            return None
        # EVICTION-45
        if state.eviction_history.lost_on(app.identity.key, ask, node.name):
            return None
        alike = (app.identity.leaf, state.bit_of(ask), ask.priority, ask.gang or "")
        if alike in self._without_plan:
            return None
        eligibility = ServiceEligibility(state, app, ask, exempt_gangs(state, ask))
        plan = yield from self._planner.find_on(eligibility, node)
        if plan is None:
            self._without_plan.add(alike)
        return plan

    # EVICTION-8, EVICTION-10
    def _in_order(self) -> Iterator[PendingService | None]:
        """Iterate over the services that lack room, in order; None is a pause of the search."""
        required = self._state.shapes.one_node
        leaves = self._state.kept_nodes.leaves.values()
        found = [leaf for leaf in leaves if leaf.pending_mask & required]
        wanted = {queue.key for leaf in found for queue in leaf.upward()}
        if wanted:
            yield from self._below(self._state.root, wanted)

    def _below(self, queue: ViewQueue, wanted: set[int]) -> Iterator[PendingService | None]:
        # BACKFILL-6
        if self._state.scopes and self._state.scopes.is_strict(queue):
            first_of = first_in_order(self._state, queue)
            if first_of is not None and first_of[0].key in wanted:
                leaf, app, ask = first_of
                yield from self._lacking_room(leaf, app, [ask])
        elif isinstance(queue, ParentView):
            for child in queue.in_turn(wanted, self._state.total):
                yield from self._below(child, wanted)
        elif isinstance(queue, LeafView):
            for app in queue.competing():
                yield None
                # EVICTION-9
                if queue.config.settings.blocking:
                    first = first_of_all(self._state, app)
                    if first is not None:
                        yield from self._lacking_room(queue, app, [first])
                        return
                else:
                    yield from self._lacking_room(queue, app, self._required_by(app))

    def _required_by(self, app: ViewApp) -> list[Ask]:
        """Return the pending asks of an application that require a node, in order."""
        bits = bits_of(app.mask & self._state.shapes.one_node)
        asks = {ask.name: ask for bit in bits for ask in app.each_of(bit)}  # Some come twice.
        return sorted(asks.values(), key=partial(self._state.leaf_of(app).order_of, app))

    # SERVICE-4, EVICTION-12
    def _lacking_room(
        self, leaf: LeafView, app: ViewApp, asks: list[Ask]
    ) -> Iterator[PendingService]:
        for ask in asks:
            node = self._state.kept_nodes.node_of(leaf, app, ask)
            if node is not None and self._state.nodes.find(self._state.bit_of(ask)) is None:
                yield app, ask, node


@final
class ServiceEligibility(Eligibility):
    """The asks that can be victims of a node service.

    Args:
        exempt: The gangs whose members are no victims.
    """

    reason = Reason.PREEMPTED

    # SERVICE-9
    @override
    def _find_side(self, leaf: LeafView) -> LeafRelation:
        """Return a side that nothing protects and no setting changes, in whatever queue it is."""
        services = leaf.config.settings.required_node
        return LeafRelation(leaf, (), (), (), (), 0, None, 0, None, services)

    # SERVICE-6
    @override
    def key(self, side: LeafRelation, victim: Victim, losses: Losses) -> Key:
        return ((victim.place[0],), 0.0, 0, victim.place[1])

    @override
    def floor(self, side: LeafRelation, lowest: int) -> Rank:
        return (lowest,)

    # SERVICE-5
    @override
    def is_beyond(self, side: LeafRelation, priority: int) -> bool:
        return priority > self.ask.priority

    @override
    def why(self, victim: Victim) -> str:
        name = f"{self.app.identity.name}/{self.ask.name}"
        return f"for {name}: it is a node service and requires {self.ask.shape.node}"


@final
@attrs.frozen(eq=False)
class _PlacementStep:
    """How one missing member of a group is placed.

    Attributes:
        plan: The plan with its victims, or None if it needs none.
    """

    app: ViewApp
    ask: Ask
    node: Node
    plan: Plan | None


@final
class QuotaVictims(VictimRules):
    """The asks that can be victims because a queue has more than its ``max``.

    Args:
        over: How much more it has of each type.
    """

    reason = Reason.PREEMPTED

    def __init__(self, state: ViewState, queue: ViewQueue, over: Mapping[str, int]) -> None:
        super().__init__(state, frozenset())
        self._queue = queue
        self._over = over
        self.over_max = queue.config.path

    # QUOTA-8, QUOTA-9
    @override
    def _find_side(self, leaf: LeafView) -> LeafRelation | None:
        depth = self._queue.depth
        if self._queue not in leaf.line:
            return None
        guards = [queue for queue in leaf.line if queue.depth >= depth]
        return self._relation(leaf, guards, guards[:-1])

    @override
    def why(self, victim: Victim) -> str:
        return f"{self.over_max} has more than its max of {', '.join(sorted(self._over))}"


@final
@attrs.frozen(eq=False)
class QuotaPlan:
    """What a queue loses that has more than its ``max``.

    Attributes:
        victims: The victims, in the order in which they are taken.
    """

    rules: QuotaVictims
    victims: tuple[Victim, ...]


@final
class QuotaPreemption:
    """Finds what queues lose that have had more than their ``max`` for too long."""

    def __init__(self, state: ViewState, victim_index: VictimIndex) -> None:
        self._state = state
        self._victim_index = victim_index
        #: The keys of the queues without victims, in the current state.
        self._exhausted: set[int] = set()
        self._known: tuple[int, ...] = ()

    # QUOTA-5, QUOTA-7
    def find(self, now_us: int) -> Steps[QuotaPlan | None]:
        """Find what the first queue loses of which an ask can be taken."""
        over = self._state.timers.over_max
        if not over.since:
            return None
        now = changes_so_far(self._state)
        if self._known != now:
            self._known = now
            self._exhausted.clear()
        for queue in over.due(now_us):
            if queue.key in self._exhausted:
                continue
            yield
            plan = yield from self._plan_for(queue)
            if plan is not None:
                return plan
            self._exhausted.add(queue.key)
        return None

    def _plan_for(self, queue: ViewQueue) -> Steps[QuotaPlan | None]:
        over = excess(queue)
        rules = QuotaVictims(self._state, queue, over)
        search = VictimSearch(self._state, self._victim_index, rules)
        if not (yield from search.begin_below(queue, over)):
            return None
        # QUOTA-11, QUOTA-12
        victims = yield from VictimChoice(search).pick(partly=True)
        return QuotaPlan(rules, victims) if victims else None


@final
class Evictor:
    """Evicts victims for asks that did not fit, and places these asks.

    Args:
        permits: Binds groups, and gives the order of their members.
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
        self._quota = QuotaPreemption(state, self._victim_index)
        # EVICTION-1
        self._actions: tuple[EvictionAction, ...] = (Reclaim(state), Preemption(state))
        self.evictions = Evictions(state, placements)
        #: Whether victims were searched for since the last batch began.
        self._has_searched = False

    def start_batch(self, *, is_new: bool) -> None:
        """Begin a batch.

        Args:
            is_new: Whether there was an event since the last batch.
        """
        if is_new:
            self._state.eviction_history.forget()
        if self._has_searched:
            self._has_searched = False
            self.evictions.start_batch()
            for action in self._actions:
                action.start_batch()

    # EVICTION-1, SERVICE-8, QUOTA-5
    def take(self, now_us: int) -> Steps[list[Decision]]:
        """Evict for the first ask or group that may and can, between two rounds.

        Returns:
            The decisions; empty if no plan was found.
        """
        if not self._state.may_evict:
            return []
        self._has_searched = True
        plan = yield from self._services.find()
        if plan is not None:
            return self._carry_out(plan, now_us)
        # QUOTA-5, QUOTA-13
        over = yield from self._quota.find(now_us)
        if over is not None:
            decisions = list(self._evict_all(over.victims, over.rules, now_us))
            self._placements.list_apps()
            return decisions
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

    def _evict_all(
        self, victims: Iterable[Victim], rules: VictimRules, now_us: int
    ) -> Iterator[Decision]:
        for victim in victims:
            why = rules.why(victim)
            yield from self.evictions.evict(victim, rules.reason, why, now_us, rules.over_max)

    # EVICTION-27
    def _carry_out(self, plan: Plan, now_us: int) -> list[Decision]:
        """Evict the victims of a plan, and bind the ask."""
        placements, preemptor = self._placements, plan.eligibility
        app, ask, leaf = preemptor.app, preemptor.ask, preemptor.leaf
        decisions = list(self._evict_all(plan.victims, plan.eligibility, now_us))
        devices = self._state.nodes.devices_for(plan.node, ask.shape)
        decisions.append(
            ask_decision(Kind.ASSIGNED, leaf, app, ask, plan.node.name, devices=devices)
        )
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
                plan = step.plan
                decisions.extend(self._evict_all(plan.victims, plan.eligibility, now_us))
            leaf = self._state.leaf_of(step.app)
            held, waits = (
                self._placements.hold(leaf, step.app, step.ask, step.node),
                number < len(steps),
            )
            self._state.eviction_history.note_member(step.app.identity.key, step.ask, group.names)
            decisions += decisions_on_hold(leaf, step.app, held, waits=waits)
        decisions.extend(self._permits.bind(group, now_us))
        self._placements.list_apps()
        return decisions

    # EVICTION-35
    def _find_steps(
        self, action: EvictionAction, group: ViewGroup, now_us: int
    ) -> Steps[list[_PlacementStep]]:
        """Find, without effect, how all missing members of a group could be placed."""
        mark, grown = self._placements.seen_states.mark(), self._state.nodes.grown
        steps: list[_PlacementStep] = []
        undo: list[Hold] = []
        while not group.complete():
            step = yield from self._find_step(action, group, now_us)
            if step is None:
                break
            steps.append(step)
            for victim in step.plan.victims if step.plan else ():
                self._try_without(victim, now_us)
            leaf = self._state.leaf_of(step.app)
            self._placements.hold(leaf, step.app, step.ask, step.node)
            undo.append(self._permits.hold_of(step.ask, step.app))
        complete = group.complete()
        for step, hold in zip(reversed(steps), reversed(undo), strict=True):
            yield
            self._placements.release(hold)
            for victim in reversed(step.plan.victims if step.plan else ()):
                self._placements.restore(victim.hold())
                self._end_trial(victim)
        self._state.eviction_history.tried_without.clear()
        self._placements.list_apps()
        self._state.refresh()  # The next preemptor is looked up in the restored state.
        self._placements.seen_states.go_back(mark)
        self._state.nodes.grown = grown
        return steps if complete else []

    def _try_without(self, victim: Victim, now_us: int) -> None:
        """Release a victim for a trial, without an effect on what ``is_bound`` reports."""
        if victim.bound:
            key = (victim.app.identity.key, victim.allocation.ask.name)
            self._state.eviction_history.tried_without[key] = victim.allocation
            # AGING-3, EVICTION-43
            if not self._placements.commits.is_new(*key):
                victim.app.since_us[key[1]] = now_us
        self._placements.release(victim.hold())

    def _end_trial(self, victim: Victim) -> None:
        """Undo what :meth:`_try_without` has recorded."""
        key = (victim.app.identity.key, victim.allocation.ask.name)
        if victim.bound and not self._placements.commits.is_new(*key):
            victim.app.since_us.pop(key[1], None)

    # EVICTION-36
    def _find_step(
        self, action: EvictionAction, group: ViewGroup, now_us: int
    ) -> Steps[_PlacementStep | None]:
        yield
        slot = self._permits.next_member(group, missing_only=True)
        ask = None if slot is None else slot.first()
        if slot is None or ask is None:
            return None
        node = self._find_node(slot.app, ask) or self._find_any_domain(slot.app, ask)
        if node is not None:
            return _PlacementStep(slot.app, ask, node, None)
        # EVICTION-37
        if not action.is_ready(slot.app, ask, now_us):
            return None
        plan = yield from self._plan_for(action, slot.app, ask)
        return None if plan is None else _PlacementStep(slot.app, ask, plan.node, plan)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self._victim_index.check()
