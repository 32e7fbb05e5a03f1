"""A trial whether asks can be placed one after another, which leaves no trace.

TOPOLOGY-7. What is placed is really taken on the nodes, and given back at the end, so that there is
only one way to choose and to use a node. Queues and limits are not touched: what the asks before
would use is added up here.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from muster_core.structures.totals import add_to

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Iterable

    from muster_core.nodes.devices import DeviceUse
    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp


@final
class Trial:
    """Asks that hold nodes in a trial.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._taken: list[tuple[ViewApp, Ask, Node, DeviceUse]] = []
        #: What they would use in queues with a ``max`` and of limits, by key.
        self._more: dict[Hashable, dict[str, int]] = {}

    @contextmanager
    def running(self) -> Generator[None]:
        """Undo at the end all that was placed."""
        nodes = self._state.nodes
        grown, changes = nodes.grown, nodes.changes
        try:
            yield
        finally:
            for app, ask, node, use in reversed(self._taken):
                nodes.give_back(node, ask.resources, (app.identity.key, ask.name), use)
            nodes.grown, nodes.changes = grown, changes

    # LIMIT-9, CONFIG-25
    def has_headroom(self, app: ViewApp, ask: Ask) -> bool:
        """Return whether queues and limits leave enough for one more ask."""
        leaf = self._state.leaf_of(app)
        for queue in leaf.line:
            used = {name: queue.used(name) for name, _ in queue.config.max.amounts}
            if not self._admits(queue.key, queue.config.max.amounts, used, ask):
                return False
        return all(
            self._admits(limit.key, limit.entry.max.amounts, limit.used, ask)
            for limit in app.limits
        )

    def _admits(
        self,
        key: Hashable,
        most: Iterable[tuple[str, int]],
        used: dict[str, int],
        ask: Ask,
    ) -> bool:
        more = self._more.get(key, {})
        return all(
            not ask.resources[name]
            or used.get(name, 0) + more.get(name, 0) + ask.resources[name] <= limit
            for name, limit in most
        )

    def place(self, app: ViewApp, ask: Ask, node: Node) -> None:
        """Let an ask hold a node on which it fits."""
        resources = ask.resources
        use = ask.shape.devices, self._state.nodes.devices_for(node, ask.shape)
        self._state.nodes.take(node, resources, (app.identity.key, ask.name), use)
        self._taken.append((app, ask, node, use))
        for queue in self._state.leaf_of(app).line:
            if queue.config.max.amounts:
                add_to(self._more.setdefault(queue.key, {}), resources.amounts)
        for limit in app.limits:
            add_to(self._more.setdefault(limit.key, {}), resources.amounts)


# LIMIT-9, CONFIG-25
def headroom_for(state: ViewState, app: ViewApp, ask: Ask, count: int) -> int:
    """Return how many asks like a pending one queues and limits leave room for, at most ``count``.

    Args:
        state: The view.
        app: Its application.
        ask: The ask.
        count: How many are enough.
    """
    rooms = [count]
    for queue in state.leaf_of(app).line:
        for name, most in queue.config.max.amounts:
            if ask.resources[name]:
                rooms.append((most - queue.used(name)) // ask.resources[name])
    for limit in app.limits:
        for name, most in limit.entry.max.amounts:
            if ask.resources[name]:
                rooms.append((most - limit.used.get(name, 0)) // ask.resources[name])
    return max(min(rooms), 0)
