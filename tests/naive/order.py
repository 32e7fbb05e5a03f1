"""The orders of the specification: queues, applications, asks, nodes, each sorted anew."""

from __future__ import annotations

import math

from muster_core.config.model import NodeSortPolicy, SortPolicy
from muster_core.resources import Resources
from tests.naive.picture import Picture
from tests.naive.state import App, Ask, Node, Queue


def children(picture: Picture, path: str) -> list[Queue]:
    """Give the children of a parent that compete, best first."""
    by_priority = picture.world.queues[path].settings.sort_by_priority

    def key(queue: Queue) -> tuple[object, ...]:
        shares = (picture.fair_share(queue.path), -picture.pending_share(queue.path), queue.path)
        if not by_priority:
            return shares
        priority = picture.queue_priority(queue.path) or 0
        return (-queue.settings.queue_priority, -priority, *shares)

    competing = [child for child in picture.with_pending(path) if picture.enters(child.path)]
    return sorted(competing, key=key)


def applications(picture: Picture, path: str) -> list[App]:
    """Give the applications of a leaf that compete, best first."""
    settings = picture.world.queues[path].settings

    def key(app: App) -> tuple[object, ...]:
        usage = picture.usage(app) if settings.sort_policy is SortPolicy.FAIR else []
        if not settings.sort_by_priority:
            return (usage, app.creation)
        return (-(picture.app_priority(app) or 0), usage, app.creation)

    apps = picture.apps(path)
    if settings.sort_policy is SortPolicy.STATE_AWARE:
        apps = _state_aware(picture, apps, by_priority=settings.sort_by_priority)
    return sorted((app for app in apps if app.pending() and not picture.kept_out(app)), key=key)


def _state_aware(picture: Picture, apps: list[App], *, by_priority: bool) -> list[App]:
    running = [app for app in apps if app.state == "Running"]
    starting = [app for app in apps if app.state == "Starting"]
    accepted = [app for app in apps if app.state == "Accepted"]
    eligible = [app for app in (starting or accepted) if app.pending()]
    if by_priority:
        eligible.sort(key=lambda app: (-(picture.app_priority(app) or 0), app.creation))
    else:
        eligible.sort(key=lambda app: app.creation)
    return running + eligible[:1]


def asks(app: App) -> list[Ask]:
    """Give the pending asks of an application, best first."""
    return sorted(app.pending(), key=lambda ask: (-ask.priority, ask.creation, ask.number))


def nodes(picture: Picture) -> list[Node]:
    """Give all nodes, best first."""
    config = picture.world.config
    sign = -1.0 if config.node_sort is NodeSortPolicy.BINPACKING else 1.0
    weights = dict(config.node_weights)

    def key(node: Node) -> tuple[float, str]:
        return (sign * utilisation(node.capacity, picture.used[node.name], weights), node.name)

    return sorted(picture.world.nodes.values(), key=key)


def utilisation(capacity: Resources, used: dict[str, int], weights: dict[str, float]) -> float:
    """Give the weighted average of a node's utilisation."""
    types = [name for name in capacity if name in weights]
    whole = math.fsum(weights[name] for name in types)
    if whole == 0:
        return 0.0
    parts = (weights[name] * (used.get(name, 0) / capacity[name]) for name in types)
    return math.fsum(parts) / whole
