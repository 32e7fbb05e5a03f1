"""Applies the owners' reports to the view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never, final

from muster_core.owners.app_messages import (
    NO_VALUES,
    AllocationAdded,
    AllocationEnded,
    AppAction,
    AppLoaded,
    AppReport,
    AskParked,
    AsksPending,
    AskUnparked,
    AskWithdrawn,
    BindsWillFail,
    DecisionMade,
    FailureCount,
    GroupChanged,
    MemberMoved,
    StateEntered,
    WaitingLoaded,
)
from muster_core.owners.asks import Allocation, Ask
from muster_core.owners.gang import GangReport
from muster_core.owners.queue import QueueSummary
from muster_core.structures.amounts import add_to, add_to_row, take_from
from muster_core.structures.steps import SIZE, Steps, all_at_once
from muster_core.values.application_states import AppState, Trigger, next_state
from muster_core.values.decisions import Decision, Reason
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView, ViewQueue

_PENDING_PER_STEP: Final = 8 * SIZE
"""How many newly pending asks are added in one step; adding them is quick."""


@final
class Intake:
    """Applies reports to the view."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The paths of the queues that were removed in this batch.
        self.left: set[str] = set()
        #: The applications that have reported without their queues, with their leaves: these get
        #: them with the next commit, or when they report themselves.
        self.reported: dict[int, int] = {}
        #: The ask whose allocation was freed last.
        self._freed: Ask | None = None

    def apply(
        self, queues: Sequence[QueueSummary], apps: Sequence[AppReport], now_us: int
    ) -> Steps[None]:
        """Apply the reports of what has changed in an epoch.

        Args:
            queues: What the queues report, each parent before its children; none if the
                applications have reported without them.
            apps: What the applications report.
            now_us: The instant of the batch, in microseconds.
        """
        if self._state.delays.aging:
            yield from self._state.age(now_us)
        for number, app in enumerate(apps, 1):
            if app.came:
                self._state.learned.note(app.came)
            if not queues:
                self._count(app)
            if not number % SIZE:
                yield
        # First the removals, from below: a leaf without applications may now be a parent, and
        # a parent without children a leaf. What came and went in one epoch was never in the view.
        yield from self._apply_apps(apps, now_us, gone=True)
        if queues:
            self.reported.clear()  # They have reported again, with their queues.
            yield from self._apply_queues(queues, now_us)
        yield from self._apply_apps(apps, now_us, gone=False)
        yield from self._settle()

    def _apply_apps(self, reports: Sequence[AppReport], now_us: int, *, gone: bool) -> Steps[None]:
        for number, app in enumerate(reports, 1):
            if app.gone and gone and app.identity.key not in self._state.apps:
                self._give_back_placed(app)
            elif app.gone is gone:
                yield from self._apply_app(app, now_us)
            if not number % SIZE:
                yield

    def _apply_queues(self, queues: Sequence[QueueSummary], now_us: int) -> Steps[None]:
        for summary in reversed(queues):
            if summary.gone and summary.key in self._state.queues:
                self._remove_queue(self._state.queues[summary.key])
        for summary in queues:
            if not summary.gone:
                yield
                self._apply_queue(summary, now_us)

    def _settle(self) -> Steps[None]:
        """Place new shapes on nodes, forget those without asks, and find the limits again."""
        state, nodes = self._state, self._state.nodes
        if nodes.has_unplaced:
            yield from nodes.place_shapes()
        forgotten = state.shapes.forget_idle()
        if forgotten:
            nodes.shapes_forgotten(forgotten)
            state.forget_estimates()
            state.user_limits.touch_all()
        if state.user_limits.changed or state.user_limits.has_stale:
            yield from state.find_limits()

    def _apply_queue(self, summary: QueueSummary, now_us: int) -> None:
        queue = self._state.queues.get(summary.key)
        if queue is None:
            queue = self._new_queue(summary, now_us)
        elif queue.config.is_parent != summary.config.is_parent:
            past = queue.past
            self._remove_queue(queue)
            queue = self._new_queue(summary, now_us)
            # USAGE-11
            if queue.past is not None and past is not None:
                queue.past = past
        elif queue.config is not summary.config:
            if queue.config.limits != summary.config.limits:
                self._state.user_limits.changed = True
            before, queue.config = queue.config.settings, summary.config
            self._state.timers.usages.note_settings(queue)
            self._state.settings_changed = True
            self._state.delays.stale = self._state.back_offs.stale = True
            self._state.timers.over_max.note(queue)
            self._state.kept_nodes.note_settings(queue)
            self._state.scopes.note_settings(queue)
            self._touch_gangs(queue)
            # Do not mix keys of the old policy with keys of the new one.
            if isinstance(queue, LeafView):
                queue.unlist()
                # AGING-6
                after = queue.config.settings
                if (before.aging_us, before.aging_limit) != (after.aging_us, after.aging_limit):
                    self._state.age_anew(queue, now_us)
            elif isinstance(queue, ParentView):
                queue.reorder()
        types, values = self._state.shapes.types, summary.values
        queue.allocated = types.row(values.allocated)
        queue.asked = types.row(values.pending)  # This may lengthen the other one.
        add_to_row(queue.asked, types.numbered(values.allocated))
        self._state.dirty[queue.key] = queue
        if queue.by_weight:
            self._state.divisions.note(queue)

    def _count(self, report: AppReport) -> None:
        """Count in the queues what an application has reported without them."""
        key, leaf = report.identity.key, self._state.queues[report.identity.leaf]
        app = self._state.apps.get(key)
        if app is None and report.gone:
            return
        before = NO_VALUES if app is None else app.values()
        after = NO_VALUES if report.gone else report.values
        self._state.dirty[leaf.key] = leaf
        if app is None or report.gone or before != after:
            self.reported[key] = leaf.key
        types = self._state.shapes.types
        if self._state.divisions.in_use:
            self._state.divisions.note(leaf)
        if before.pending != after.pending:
            more = types.change(before.pending, after.pending)
            for queue in leaf.line:
                add_to_row(queue.asked, more)
        if before.allocated != after.allocated:
            more = types.change(before.allocated, after.allocated)
            for queue in leaf.line:
                add_to_row(queue.asked, more)
                add_to_row(queue.allocated, more)

    def _touch_gangs(self, queue: ViewQueue) -> None:
        """Mark gangs whose members may have to be offered in another way."""
        if isinstance(queue, LeafView):
            for app in queue.apps.values():
                for name in app.slots:
                    self._state.gang_index.touch(name)

    def _new_queue(self, summary: QueueSummary, now_us: int) -> ViewQueue:
        parent = None if summary.parent is None else self._state.queues[summary.parent]
        assert parent is None or isinstance(parent, ParentView), "the parent of a queue is a leaf"
        depth = 0 if parent is None else parent.depth + 1
        kind = ParentView if summary.config.is_parent else LeafView
        queue = kind(summary.key, parent, summary.config, self._state.shapes.types, depth)
        self._state.queues[queue.key] = queue
        self._state.touched.add(queue.key)
        self._state.kept_nodes.note_settings(queue)
        self._state.scopes.note_settings(queue)
        self._state.timers.over_max.note(queue)
        if parent is not None and (only := parent.add(queue)) is not None:
            self._state.dirty[only.key] = only
        self._state.timers.usages.note_settings(queue)
        self._state.divisions.note_queue(queue)
        if isinstance(queue, LeafView):
            # The leaf is still empty.
            self._state.age_anew(queue, now_us)
            all_at_once(queue.reorder(self._state.total))
            all_at_once(self._state.delays.watch(queue))
        return queue

    def _remove_queue(self, queue: ViewQueue) -> None:
        del self._state.queues[queue.key]
        self._state.claimants.pop(queue.key, None)
        self._state.delays.end_aging(queue.key)
        self._state.kept_nodes.leaves.pop(queue.key, None)
        self._state.scopes.forget(queue)
        self._state.timers.usages.forget(queue)
        self._state.divisions.note_queue(queue)
        self._state.timers.over_max.forget(queue)
        self._state.dirty.pop(queue.key, None)
        self.left.add(queue.config.path)
        parent = queue.parent
        if parent is not None:
            parent.remove(queue)
            self._state.dirty[parent.key] = parent

    def _apply_app(self, report: AppReport, now_us: int) -> Steps[None]:
        identity = report.identity
        app = self._state.apps.get(identity.key)
        leaf = self._state.queues[identity.leaf]
        assert isinstance(leaf, LeafView), "an application in a parent queue"
        if app is None:
            app = ViewApp(identity)
            self._state.apps[identity.key] = leaf.apps[identity.key] = app
            self._state.user_limits.enter(app, leaf)
        for number, action in enumerate(report.actions, 1):
            if isinstance(action, DecisionMade):
                if action.decision.reason is Reason.BIND_FAILED:
                    self._note_failure(app, action.decision)
            elif isinstance(action, AsksPending):
                yield from self._become_pending(app, action, now_us)
            else:
                self._act(app, leaf, action, now_us)
            if not number % SIZE:
                yield
        if app.since_us or app.failed_on:
            self._forget_ended(app)
        if report.gone:
            self._remove_app(app, leaf)
        else:
            leaf.list_app(app, self._state.total)

    @staticmethod
    def _forget_ended(app: ViewApp) -> None:
        """Forget the history of asks that are gone or hold nodes."""
        for name in [name for name in app.since_us if not app.knows(name)]:
            del app.since_us[name]
        for name in [name for name in app.failed_on if not app.has_no_node(name)]:
            del app.failed_on[name]

    def _act(self, app: ViewApp, leaf: LeafView, action: AppAction, now_us: int) -> None:
        """Apply an action of an application."""
        match action:  # The most frequent ones come first.
            case AllocationEnded(allocation):
                self._free(app, allocation)
            case StateEntered(state):
                self._state.enter(app, leaf, state, now_us)
            case AsksPending() | DecisionMade() | MemberMoved():
                pass  # handled by _apply_app, or only for the gang
            case AskWithdrawn(ask):
                self._state.shapes.release(self._state.remove_pending(app, ask))
            case AllocationAdded(allocation):
                self._place(app, allocation)
            case AskParked() | AskUnparked():
                self._park(app, action, now_us)
            case BindsWillFail() | GroupChanged() | FailureCount():
                self._note(app, leaf, action)
            case AppLoaded() | WaitingLoaded():
                self._load(app, leaf, action)
            case _:
                assert_never(action)

    # CHECKPOINT-5
    def _load(self, app: ViewApp, leaf: LeafView, action: AppLoaded | WaitingLoaded) -> None:
        if isinstance(action, AppLoaded):
            self._state.enter(app, leaf, action.state, now_us=None)
            return
        allocation = action.allocation
        node, ask = self._state.placing.pop(allocation.number), allocation.ask
        self._state.acquire_shape(ask)
        add_to(app.allocated, ask.resources.amounts)
        if app.limits:
            self._state.user_limits.take(app, ask.resources.amounts)
        self._state.begin_wait(app, allocation, node)
        self._state.timers.await_start(app, ask)

    def _note(
        self, app: ViewApp, leaf: LeafView, action: BindsWillFail | GroupChanged | FailureCount
    ) -> None:
        match action:
            case GroupChanged():
                app.group = action.group
                self._state.moves += 1
                self._state.user_limits.enter_again(app, leaf)
            case BindsWillFail():
                self._state.set_failures(app, action.ask, action.times)
            case FailureCount(ask, failed):
                app.in_a_row.pop(ask, None)
                if failed is not None:
                    app.in_a_row[ask] = failed
            case _:
                assert_never(action)

    def _note_failure(self, app: ViewApp, decision: Decision) -> None:
        """Record that the work of a bound ask, freed right before, could not be started."""
        assert self._freed is not None, "the bind of an ask has failed that was not bound"
        app.failed_on[self._freed.name] = self._freed, decision.node or "", decision.message

    # APP-5, APP-10
    def end_state(self, key: int, now_us: int) -> AppState:
        """Let an application enter the state after the one whose time is up.

        No owner has to report for that: what follows depends on nothing but the state.

        Returns:
            The new state; an application that has completed is gone from the view.
        """
        state = self._state
        app = state.apps[key]
        leaf, after = state.leaf_of(app), next_state(app.state, Trigger.TIME_UP)
        state.enter(app, leaf, after, now_us)
        if after is AppState.COMPLETED:
            self._remove_app(app, leaf)
            self.reported[key] = leaf.key
            state.dirty[leaf.key] = leaf
        else:
            state.list_app(app)
        if state.user_limits.has_stale:
            all_at_once(state.find_limits())
        return after

    def _remove_app(self, app: ViewApp, leaf: LeafView) -> None:
        self._state.user_limits.forget(app, leaf)
        if app.running:
            self._state.count_running(leaf, app, -1)
        leaf.starting -= app.state is AppState.STARTING
        leaf.remove(app)
        self._state.failing.pop(app.identity.key, None)
        del self._state.apps[app.identity.key]

    def _become_pending(self, app: ViewApp, action: AsksPending, now_us: int) -> Steps[None]:
        for start in range(0, len(action.asks), _PENDING_PER_STEP):
            asks = action.asks[start : start + _PENDING_PER_STEP]
            # EVICTION-6
            if action.was_bound:
                app.since_us.update((ask.name, now_us) for ask in asks)
            self._state.add_row(app, asks)
            if app.in_a_row:
                self._hold_back(app, asks, now_us)
            if len(asks) == _PENDING_PER_STEP:
                yield

    # BACKOFF-6, BACKOFF-16
    def _hold_back(self, app: ViewApp, asks: Sequence[Ask], now_us: int) -> None:
        """Let asks back off whose last bind failed too recently."""
        for ask in asks:
            if self._state.back_offs.until_us(app, ask.name) > now_us:
                self._state.begin_back_off(app, ask)

    def _free(self, app: ViewApp, allocation: Allocation) -> None:
        self._freed = ask = allocation.ask
        if ask.name in app.waiting:
            _, node = self._state.end_wait(app, ask)
            self._state.release_shape(ask)
        else:
            _, node = self._state.end_bound(app, ask)
        take_from(app.allocated, ask.resources.amounts)
        if app.limits:
            self._state.user_limits.give_back(app, ask.resources.amounts)
        holder = (app.identity.key, ask.name)
        self._state.nodes.give_back(node, ask.resources, holder, allocation.use)

    def _place(self, app: ViewApp, allocation: Allocation) -> None:
        """Apply that an ask arrived bound; its node was updated when the ask was admitted."""
        node = self._state.placing.pop(allocation.number)
        self._state.begin_bound(app, allocation, node)
        if allocation.limit_us is not None:
            self._state.timers.limit(app, allocation)
        leaf = self._state.leaf_of(app)
        # RUNTIME-4
        if leaf.config.settings.min_runtime_us:
            self._state.timers.protections.add(leaf, app, allocation)
        add_to(app.allocated, allocation.ask.resources.amounts)
        if app.limits:
            self._state.user_limits.take(app, allocation.ask.resources.amounts)

    def _park(self, app: ViewApp, action: AskParked | AskUnparked, now_us: int) -> None:
        ask = action.ask
        if isinstance(action, AskParked) and action.was_bound:
            app.since_us[ask.name] = now_us
        if isinstance(action, AskParked):
            self._state.park(app, ask)
            self._state.timers.await_start(app, ask)
        else:
            self._state.unpark(app, ask)

    def _give_back_placed(self, report: AppReport) -> None:
        """Free the nodes of asks that arrived bound in an application that was never in the view."""
        for action in report.actions:
            if isinstance(action, AllocationAdded):
                node = self._state.placing.pop(action.allocation.number)
                ask = action.allocation.ask
                holder = (report.identity.key, ask.name)
                self._state.nodes.give_back(node, ask.resources, holder)

    def apply_gang(self, report: GangReport) -> None:
        """Apply a gang's report of an epoch."""
        gang_index = self._state.gang_index
        gang = gang_index.touch(report.name)
        if report.gone:
            gang_index.remove(gang)
            return
        gang.key, gang.state = report.key, report.state
        gang.since_us = report.since_us
        gang_index.note_timeouts(gang, report.timeouts, report.timeout)
        gang_index.note_cycle(gang, valid=report.cycle_valid)
        if gang.definition != report.definition or gang.creation != report.creation:
            for app in gang_index.redefine(gang, report.definition, report.creation):
                self._state.list_app(app)
