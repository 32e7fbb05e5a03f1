"""The rounds: which ask is placed next, and where (SPEC section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.decisions import Decision, Kind, Reason
from muster_core.lifecycle import AppState, Trigger, next_state
from muster_core.messages import (
    Allocation,
    AppReport,
    Ask,
    CommitApp,
    CommitQueue,
    Entered,
    Freed,
    Pending,
    QueueReport,
    QueueSummary,
    Spoilt,
    Values,
    Withdrawn,
)
from muster_core.nodes import Node, NodeIndex
from muster_core.shapes import ShapeTable
from muster_core.totals import add_to, take_from
from muster_core.view.apps import ViewApp
from muster_core.view.queues import VISIT, LeafView, ParentView, ViewQueue
from muster_core.view.reasons import why_pending
from muster_core.view.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT_KEY: Final = 1
"""The key of the root queue, the first that is ever made."""


@final
class DecisionView:
    """Everything that a round needs, and the rounds themselves."""

    def __init__(self) -> None:
        self._shapes = ShapeTable()
        #: The nodes; the coordinator tells them of their comings and goings directly.
        self.nodes = NodeIndex(self._shapes)
        #: Every queue and every application that exists, by key.
        self.queues: dict[int, ViewQueue] = {}
        self.apps: dict[int, ViewApp] = {}
        self.timers = Timers(self.apps)
        #: The queues in which something changed since the last refresh.
        self._dirty: dict[int, ViewQueue] = {}
        self._all_dirty = False
        self._total: dict[str, int] = {}
        #: The priorities that were announced last, by path; no Nones.
        self._announced: dict[str, int] = {}
        #: The paths of queues that have ceased to exist in this batch.
        self._left: set[str] = set()
        #: The queues whose priority may differ from the announced one.
        self._touched: set[int] = set()
        self._binds = 0
        self._blocked: list[LeafView] = []
        self._tried: dict[int, ViewApp] = {}
        #: What this batch decided, for the owners.
        self._bound: dict[int, list[Allocation]] = {}
        self._failed: dict[int, list[str]] = {}

    # What the owners report

    def apply(self, report: QueueReport, now_us: int) -> None:
        """Take over what an epoch changed.

        Args:
            report: The report of the root queue.
            now_us: The instant of the batch, in microseconds.
        """
        # First who leaves, from below: a leaf without applications may be a parent now,
        # and a parent without children a leaf. Who came and went at once was never here.
        for app in report.apps:
            if app.gone and app.identity.key in self.apps:
                self._apply_app(app, now_us)
        for summary in reversed(report.queues):
            if summary.gone and summary.key in self.queues:
                self._remove_queue(self.queues[summary.key])
        for summary in report.queues:
            if not summary.gone:
                self._apply_queue(summary)
        for app in report.apps:
            if not app.gone:
                self._apply_app(app, now_us)
        for bit in self._shapes.forget_idle():
            self.nodes.shape_forgotten(bit)

    def _apply_queue(self, summary: QueueSummary) -> None:
        queue = self.queues.get(summary.key)
        if queue is None:
            queue = self._new_queue(summary)
        elif queue.config.is_parent != summary.config.is_parent:
            self._remove_queue(queue)
            queue = self._new_queue(summary)
        elif queue.config is not summary.config:
            queue.config = summary.config
            self._all_dirty = True
            if isinstance(queue, LeafView):  # Keys of the old policy and of the new do not mix.
                queue.reorder(self._total)
        queue.pending = dict(summary.values.pending)
        queue.allocated = dict(summary.values.allocated)
        self._dirty[queue.key] = queue

    def _new_queue(self, summary: QueueSummary) -> ViewQueue:
        parent = None if summary.parent is None else self.queues[summary.parent]
        assert parent is None or isinstance(parent, ParentView), "the parent of a queue is a leaf"
        depth = 0 if parent is None else parent.depth + 1
        kind = ParentView if summary.config.is_parent else LeafView
        queue = kind(summary.key, parent, summary.config, depth)
        self.queues[queue.key] = queue
        if parent is not None:
            parent.children[queue.key] = queue
        if isinstance(queue, LeafView):
            queue.reorder(self._total)
        return queue

    def _remove_queue(self, queue: ViewQueue) -> None:
        del self.queues[queue.key]
        self._dirty.pop(queue.key, None)
        self._left.add(queue.config.path)
        parent = queue.parent
        if parent is not None:
            parent.remove(queue)
            self._dirty[parent.key] = parent

    def _apply_app(self, report: AppReport, now_us: int) -> None:
        identity = report.identity
        app = self.apps.get(identity.key)
        leaf = self.queues[identity.leaf]
        assert isinstance(leaf, LeafView), "an application in a parent queue"
        if app is None:
            app = ViewApp(identity)
            self.apps[identity.key] = leaf.apps[identity.key] = app
        for action in report.actions:
            match action:
                case Pending(ask):
                    self._add_pending(app, ask)
                case Withdrawn(ask):
                    self._remove_pending(app, ask)
                case Freed(allocation):
                    self._free(app, allocation)
                case Entered(state):
                    self._enter(app, leaf, state, now_us)
                case Spoilt(name, times):
                    app.spoilt[name] = times
                    if not times:
                        del app.spoilt[name]
                case _:  # What it says is for the log.
                    pass
        if report.gone:
            self._remove_app(app, leaf)
        else:
            leaf.list_app(app, self._total)

    def _remove_app(self, app: ViewApp, leaf: LeafView) -> None:
        if app.running:
            self._count_running(leaf, -1)
        leaf.starting -= app.state is AppState.STARTING
        leaf.remove(app)
        del self.apps[app.identity.key]

    def _add_pending(self, app: ViewApp, ask: Ask) -> None:
        bit = self._shapes.find(ask.shape)
        if bit is None:
            bit = self._shapes.add(ask.shape)
            self.nodes.shape_added(bit)
        self._shapes.acquire(bit)
        app.add(ask, bit)

    def _remove_pending(self, app: ViewApp, ask: Ask) -> None:
        bit = self._shapes.find(ask.shape)
        assert bit is not None, "the shape of a pending ask is not in the table"
        app.remove(ask, bit)
        app.spoilt.pop(ask.name, None)
        self._shapes.release(bit)

    def _free(self, app: ViewApp, allocation: Allocation) -> None:
        _, node = app.bound.pop(allocation.ask.name)
        take_from(app.allocated, allocation.ask.resources)
        self.nodes.give_back(node, allocation.ask.resources, app.identity.key)

    # Rounds

    def nodes_changed(self) -> None:
        """Take note that nodes came, went or changed, so that every share may differ."""
        if self.nodes.total != self._total:
            self._total = dict(self.nodes.total)
            self._all_dirty = True

    def decide(self, now_us: int) -> Iterator[list[Decision]]:
        """Run rounds until one changes nothing.

        Args:
            now_us: The instant of the batch, in microseconds.

        Yields:
            What each step decided; between two steps the caller may do other things,
            but must not touch the view.
        """
        changed = True
        while changed:
            changed = False
            self._start_round()
            while True:
                self._refresh()
                if not self.queues[ROOT_KEY].open & (self.nodes.fitting | VISIT):
                    break
                decisions = self._step(now_us)
                changed = changed or bool(decisions)
                yield decisions
        self._start_round()
        self._refresh()

    def _start_round(self) -> None:
        for leaf in self._blocked:
            leaf.blocked = False
            self._dirty[leaf.key] = leaf
        self._blocked.clear()
        for app in self._tried.values():
            app.start_round()
            self._list(app)
        self._tried.clear()

    def _step(self, now_us: int) -> list[Decision]:
        """Try the best ask; nothing is decided if that only showed that a leaf is blocked."""
        mask = self.nodes.fitting | VISIT
        queue = self.queues[ROOT_KEY]
        mask &= queue.open
        while isinstance(queue, ParentView):
            queue = queue.first(mask)
            mask &= queue.open
        assert isinstance(queue, LeafView), "a queue is a parent or a leaf"
        chosen = queue.choose(mask)
        if chosen is None:
            queue.blocked = True
            self._blocked.append(queue)
            self._dirty[queue.key] = queue
            return []
        app, bit, ask = chosen
        node = self.nodes.find(bit)
        assert node is not None, "chose an ask that fits no node"
        decisions = [self._say(Kind.ASSIGNED, queue, app, ask, node)]
        if app.spoilt.get(ask.name):
            decisions.append(self._fail(queue, app, ask, bit, node))
        else:
            decisions.extend(self._bind(queue, app, ask, node, now_us))
        return decisions

    def _fail(self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int, node: Node) -> Decision:
        """Give up an assignment whose bind fails: the ask stays pending, tried in this round."""
        app.spoilt[ask.name] -= 1
        self._failed.setdefault(app.identity.key, []).append(ask.name)
        app.tried(ask, bit)
        self._tried[app.identity.key] = app
        self._list(app)
        return self._say(Kind.RELEASED, leaf, app, ask, node, Reason.BIND_FAILED)

    def _bind(
        self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node, now_us: int
    ) -> Iterator[Decision]:
        self._binds += 1
        allocation = Allocation(ask, node.name, self._binds)
        spoilt = app.spoilt.pop(ask.name, None)
        assert not spoilt, "bound an ask whose bind is to fail"
        self._remove_pending(app, ask)
        app.bound[ask.name] = (allocation, node)
        add_to(app.allocated, ask.resources)
        self.nodes.take(node, ask.resources, app.identity.key)
        for queue in leaf.upward():
            take_from(queue.pending, ask.resources)
            add_to(queue.allocated, ask.resources)
        self._bound.setdefault(app.identity.key, []).append(allocation)
        self.timers.bound(app, allocation, now_us)
        yield self._say(Kind.BOUND, leaf, app, ask, node)
        before = app.state
        after = next_state(before, Trigger.ASK_BOUND, skip_starting=app.identity.skip_starting)
        if after is not before:
            self._enter(app, leaf, after, now_us)
            yield Decision(
                Kind.APP_STATE, app=app.identity.name, queue=leaf.config.path, state=after.value
            )
        self._list(app)

    def _list(self, app: ViewApp) -> None:
        leaf = self.queues[app.identity.leaf]
        assert isinstance(leaf, LeafView), "an application in a parent queue"
        leaf.list_app(app, self._total)
        self._dirty[leaf.key] = leaf

    @staticmethod
    def _say(
        kind: Kind, leaf: LeafView, app: ViewApp, ask: Ask, node: Node, reason: Reason | None = None
    ) -> Decision:
        return Decision(
            kind,
            app=app.identity.name,
            ask=ask.name,
            node=node.name,
            queue=leaf.config.path,
            reason=reason,
        )

    def _enter(self, app: ViewApp, leaf: LeafView, state: AppState, now_us: int) -> None:
        was_running = app.running
        leaf.starting += (state is AppState.STARTING) - (app.state is AppState.STARTING)
        app.state = state
        self.timers.entered(app, now_us)
        if app.running != was_running:
            self._count_running(leaf, 1 if app.running else -1)

    def _count_running(self, leaf: LeafView, change: int) -> None:
        """Count the running applications on a path; a limit that is met or left closes or opens."""
        for queue in leaf.upward():
            gates = queue.gates()
            queue.running += change
            if queue.gates() != gates:
                self._mark_leaves(queue)

    def _mark_leaves(self, queue: ViewQueue) -> None:
        if isinstance(queue, ParentView):
            for child in queue.children.values():
                self._mark_leaves(child)
        else:
            self._dirty[queue.key] = queue

    # Keeping what is computed up to date

    def _refresh(self) -> None:
        """Bring masks, priorities and places up to date, from the leaves upward."""
        if self._all_dirty:
            self._all_dirty = False
            self._dirty = dict(self.queues)
            for queue in self.queues.values():
                queue.denominators = None
                if isinstance(queue, LeafView):
                    queue.reorder(self._total)
        if not self._dirty:
            return
        stale: dict[int, ViewQueue] = {}
        for queue in self._dirty.values():
            for above in queue.upward():
                if above.key in stale:
                    break
                stale[above.key] = above
        self._dirty = {}
        for queue in sorted(stale.values(), key=_depth, reverse=True):
            queue.refresh(self._shapes, self._total)
        self._touched.update(stale)

    def why_pending(self, key: int, name: str) -> str | None:
        """Say why an ask is pending; None if it is not."""
        app = self.apps[key]
        leaf = self.queues[app.identity.leaf]
        ask = app.pending.get(name)
        assert isinstance(leaf, LeafView), "an application in a parent queue"
        return None if ask is None else why_pending(leaf, app, ask, self.nodes)

    def share_of(self, key: int) -> float:
        """Give the fair share of a queue."""
        return self.queues[key].fair_share(self._total)

    # The end of a batch

    def changed_priorities(self) -> Iterable[Decision]:
        """Give the queues whose priority is not the one announced last, in path order."""
        changed: list[Decision] = []
        for key in self._touched & self.queues.keys():
            queue = self.queues[key]
            path = queue.config.path
            self._left.discard(path)  # A queue of that path is there again.
            if self._announced.get(path) == queue.priority:
                continue
            changed.append(Decision(Kind.QUEUE_PRIORITY, queue=path, priority=queue.priority))
            if queue.priority is None:
                del self._announced[path]
            else:
                self._announced[path] = queue.priority
        for path in self._left:
            self._announced.pop(path, None)
        self._left.clear()
        self._touched.clear()
        return sorted(changed, key=lambda decision: decision.queue or "")

    def commits(self) -> tuple[dict[int, CommitApp], dict[int, CommitQueue]]:
        """Give what the batch decided, for each application and each queue concerned, once."""
        apps: dict[int, CommitApp] = {}
        children: dict[int, dict[int, Values]] = {}
        for key in sorted(self._bound.keys() | self._failed.keys()):
            apps[key] = CommitApp(tuple(self._bound.get(key, ())), tuple(self._failed.get(key, ())))
        for key in sorted(self._bound):
            app = self.apps[key]
            children.setdefault(app.identity.leaf, {})[key] = app.values()
        for key in list(children):
            for queue in self.queues[key].upward():
                siblings = (
                    None if queue.parent is None else children.setdefault(queue.parent.key, {})
                )
                if siblings is None or queue.key in siblings:
                    break
                siblings[queue.key] = queue.values()
        self._bound.clear()
        self._failed.clear()
        return apps, {key: CommitQueue(values) for key, values in children.items()}

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        assert not self._dirty
        assert not self._all_dirty
        for queue in self.queues.values():
            queue.check(self._shapes, self._total)
        # Every application is in its leaf, and nowhere else.
        in_leaves = {
            key: app
            for queue in self.queues.values()
            if isinstance(queue, LeafView)
            for key, app in queue.apps.items()
        }
        assert in_leaves == self.apps
        self._shapes.check(ask.shape for app in self.apps.values() for ask in app.pending.values())
        self._check_nodes()
        # What was announced is what is.
        priorities = {queue.config.path: queue.priority for queue in self.queues.values()}
        assert self._announced == {
            path: priority for path, priority in priorities.items() if priority is not None
        }
        # Nothing that is pending could be placed.
        assert not self.queues[ROOT_KEY].open & self.nodes.fitting

    def _check_nodes(self) -> None:
        """Assert that nodes hold all and only the allocations that there are."""
        used: dict[str, dict[str, int]] = {name: {} for name in self.nodes.nodes}
        holders: dict[str, dict[int, int]] = {name: {} for name in self.nodes.nodes}
        for app in self.apps.values():
            allocated: dict[str, int] = {}
            for allocation, node in app.bound.values():
                assert node is self.nodes.nodes[allocation.node]
                add_to(used[node.name], allocation.ask.resources)
                add_to(allocated, allocation.ask.resources)
                holders[node.name][app.identity.key] = (
                    holders[node.name].get(app.identity.key, 0) + 1
                )
            assert app.allocated == allocated
        for node in self.nodes.nodes.values():
            assert node.used == used[node.name]
            assert node.holders == holders[node.name]
        assert self._total == self.nodes.total
        self.nodes.check()


def _depth(queue: ViewQueue) -> int:
    return queue.depth
