"""What the view knows, and how what is computed from it is kept up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.lifecycle import AppState
from muster_core.nodes import NodeIndex
from muster_core.shapes import ShapeTable
from muster_core.view.apps import ViewApp
from muster_core.view.queues import LeafView, ParentView, ViewQueue
from muster_core.view.timers import Timers

if TYPE_CHECKING:
    from muster_core.messages import Ask

ROOT_KEY: Final = 1
"""The key of the root queue, the first that is ever made."""


@final
class ViewState:
    """The nodes, queues and applications as the coordinator knows them.

    What the owners report is brought in by :mod:`muster_core.view.intake`, what is
    decided by :mod:`muster_core.view.rounds`. Both mark the queues that they touch;
    :meth:`refresh` then brings masks, priorities and places up to date at once.
    """

    def __init__(self) -> None:
        self.shapes = ShapeTable()
        #: The nodes; the coordinator tells them of their comings and goings directly.
        self.nodes = NodeIndex(self.shapes)
        #: Every queue and every application that exists, by key.
        self.queues: dict[int, ViewQueue] = {}
        self.apps: dict[int, ViewApp] = {}
        self.timers = Timers(self.apps)
        #: What all nodes had when shares were last computed.
        self.total: dict[str, int] = {}
        #: The queues in which something changed since the last refresh.
        self.dirty: dict[int, ViewQueue] = {}
        #: Something changed that every queue is compared by.
        self.all_dirty = False
        #: The queues that were refreshed in this batch.
        self.touched: set[int] = set()

    @property
    def root(self) -> ViewQueue:
        """The queue above all others."""
        return self.queues[ROOT_KEY]

    def leaf_of(self, app: ViewApp) -> LeafView:
        """Give the queue of an application."""
        leaf = self.queues[app.identity.leaf]
        assert isinstance(leaf, LeafView), "an application in a parent queue"
        return leaf

    def nodes_changed(self) -> None:
        """Take note that nodes came, went or changed, so that every share may differ."""
        if self.nodes.total != self.total:
            self.total = dict(self.nodes.total)
            self.all_dirty = True

    def list_app(self, app: ViewApp) -> None:
        """Bring an application's place in its leaf up to date."""
        leaf = self.leaf_of(app)
        leaf.list_app(app, self.total)
        self.dirty[leaf.key] = leaf

    def remove_pending(self, app: ViewApp, ask: Ask) -> None:
        """Forget a pending ask: it is bound or withdrawn."""
        bit = self.shapes.find(ask.shape)
        assert bit is not None, "the shape of a pending ask is not in the table"
        app.remove(ask, bit)
        app.spoilt.pop(ask.name, None)
        self.shapes.release(bit)

    def enter(self, app: ViewApp, leaf: LeafView, state: AppState, now_us: int) -> None:
        """Let an application be in another state."""
        was_running = app.running
        leaf.starting += (state is AppState.STARTING) - (app.state is AppState.STARTING)
        app.state = state
        self.timers.entered(app, now_us)
        if app.running != was_running:
            self.count_running(leaf, 1 if app.running else -1)

    def count_running(self, leaf: LeafView, change: int) -> None:
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
            self.dirty[queue.key] = queue

    def refresh(self) -> None:
        """Bring masks, priorities and places up to date, from the leaves upward."""
        if self.all_dirty:
            self.all_dirty = False
            self.dirty = dict(self.queues)
            for queue in self.queues.values():
                queue.denominators = None
                if isinstance(queue, LeafView):
                    queue.reorder(self.total)
        if not self.dirty:
            return
        stale: dict[int, ViewQueue] = {}
        for queue in self.dirty.values():
            for above in queue.upward():
                if above.key in stale:
                    break
                stale[above.key] = above
        self.dirty = {}
        for queue in sorted(stale.values(), key=_depth, reverse=True):
            queue.refresh(self.shapes, self.total)
        self.touched.update(stale)


def _depth(queue: ViewQueue) -> int:
    return queue.depth
