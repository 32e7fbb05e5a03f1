"""Queues and applications as a round sees them, put in place by hand."""

from __future__ import annotations

from collections.abc import Mapping

from muster_core.config.model import Configuration, QueueConfig
from muster_core.nodes.node import Node
from muster_core.owners.asks import Allocation, AppIdentity, Ask
from muster_core.structures.amounts import add_to, add_to_row
from muster_core.structures.shapes import EVERY_SHAPE, ShapeTable
from muster_core.structures.steps import all_at_once
from muster_core.values.application_states import AppState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView, ViewQueue


class World:
    """Queues and applications, put in place by hand and brought up to date.

    Args:
        config: The queues.
        total: What the partition has.
    """

    def __init__(self, config: Configuration, **total: int) -> None:
        self.shapes = ShapeTable()
        self.total = total
        self.queues: dict[str, ViewQueue] = {}
        self.shapes.types.call_when_grown(self._lengthen_rows)
        self._enter(config.root, None)

    def _lengthen_rows(self) -> None:
        for one in self.queues.values():
            one.lengthen()

    def _enter(self, config: QueueConfig, parent: ParentView | None) -> None:
        kind = ParentView if config.is_parent else LeafView
        depth = 0 if parent is None else parent.depth + 1
        made = kind(len(self.queues) + 1, parent, config, self.shapes.types, depth)
        self.queues[config.path] = made
        if parent is not None:
            parent.add(made)
        if isinstance(made, ParentView):
            for child in config.children:
                self._enter(child, made)

    def leaf(self, path: str) -> LeafView:
        found = self.queues[f"root.{path}"]
        assert isinstance(found, LeafView)
        return found

    def parent(self, path: str = "root") -> ParentView:
        found = self.queues[path]
        assert isinstance(found, ParentView)
        return found

    def app(
        self,
        path: str,
        *asks: Ask,
        state: AppState = AppState.ACCEPTED,
        waiting: Allocation | None = None,
        **allocated: int,
    ) -> ViewApp:
        """Put an application with pending asks into a leaf."""
        leaf = self.leaf(path)
        key = 1 + sum(len(one.apps) for one in self.queues.values() if isinstance(one, LeafView))
        app = ViewApp(AppIdentity(key, f"p{key}", leaf.key, leaf.config.path), state)
        leaf.apps[key] = app
        if waiting is not None:
            app.waiting[waiting.ask.name] = (waiting, Node("n", {}, {}, schedulable=True))
        leaf.starting += state is AppState.STARTING
        add_to(app.allocated, allocated)
        for one in asks:
            bit = self.shapes.find(one.shape) or self.shapes.add(one.shape)
            app.add(one, bit)
            leaf.count_shape(bit, 1)
        for above in leaf.upward():
            above.running += app.running
        self.count(leaf, allocated=allocated)
        for one in asks:
            self.count(leaf, pending=one.resources)
        return app

    def count(
        self,
        leaf: LeafView,
        *,
        pending: Mapping[str, int] | None = None,
        allocated: Mapping[str, int] | None = None,
    ) -> None:
        """Add amounts to the sums of a leaf and its ancestors."""
        types = self.shapes.types
        for above in leaf.upward():
            add_to_row(above.pending, types.numbered(pending or {}))
            add_to_row(above.allocated, types.numbered(allocated or {}))

    def refresh(self) -> World:
        for one in self.queues.values():
            if isinstance(one, LeafView):
                all_at_once(one.reorder(self.total))
        for one in sorted(self.queues.values(), key=lambda queue: -queue.depth):
            one.refresh(self.shapes, self.total, False)
        for one in self.queues.values():
            one.check(self.shapes, self.total)
        return self

    def order(self, path: str = "root") -> list[str]:
        """Give the children of a parent in order, by their own names."""
        self.refresh()
        parent = self.parent(path)
        listed = [child for child in parent.children.values() if child.open]
        best = sorted(listed, key=lambda child: child.key_in(parent, self.total))
        assert not best or parent.first(EVERY_SHAPE, EVERY_SHAPE) is best[0]
        return [child.config.name for child in best]

    def choices(self, path: str) -> list[str]:
        """Try every ask of a leaf, none of which is placed; give them as ``application/ask``."""
        leaf = self.leaf(path)
        tried: list[str] = []
        self.refresh()
        while leaf.open:
            chosen = leaf.choose(leaf.open)
            assert chosen is not None
            app, bit, best = chosen
            tried.append(f"{app.identity.name}/{best.name}")
            app.tried(best, bit)
            leaf.list_app(app, self.total)
            self.refresh()
        return tried
