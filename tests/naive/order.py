"""The orders of the specification: queues, applications, asks, nodes, each sorted anew."""

from __future__ import annotations

import math
from collections.abc import Mapping

from muster_core.config.model import NodeSortPolicy, SortPolicy
from tests.naive import user_limits
from tests.naive.back_off import awake
from tests.naive.devices.fragmentation import fragmentation
from tests.naive.devices.rooms import after_placing, can_hold, room_of, typical_of
from tests.naive.picture import Picture, remembered
from tests.naive.state import ROOT, App, Ask, Node, Queue, lineage


@remembered
def children(picture: Picture, path: str) -> list[Queue]:
    """Give the children of a parent that compete, best first."""
    competing = [child for child in picture.with_pending(path) if picture.enters(child.path)]
    return sorted_queues(picture, path, competing)


def sorted_queues(picture: Picture, path: str, queues: list[Queue]) -> list[Queue]:
    """Give some children of a parent, best first."""
    by_priority = picture.world.queues[path].settings.sort_by_priority

    def key(queue: Queue) -> tuple[object, ...]:
        shares = (picture.fair_share(queue.path), -picture.pending_share(queue.path), queue.path)
        if not by_priority:
            return shares
        priority = picture.queue_priority(queue.path) or 0
        return (-queue.settings.queue_priority, -priority, *shares)

    return sorted(queues, key=key)


@remembered
def applications(picture: Picture, path: str) -> list[App]:
    """Give the applications of a leaf that compete, best first."""
    settings = picture.world.queues[path].settings
    apps = picture.apps(path)
    if settings.sort_policy is SortPolicy.STATE_AWARE:
        apps = state_aware(picture, apps, by_priority=settings.sort_by_priority)
    competing = [app for app in apps if app.pending() and not _kept_out(picture, app)]
    return sorted_applications(picture, path, competing)


def _kept_out(picture: Picture, app: App) -> bool:
    """Say whether ``maxapplications`` of a queue, a user or a group keeps it waiting."""
    return picture.kept_out(app) or bool(user_limits.full(picture, app))


def sorted_applications(picture: Picture, path: str, apps: list[App]) -> list[App]:
    """Give some applications of a leaf, best first."""
    settings = picture.world.queues[path].settings

    def key(app: App) -> tuple[object, ...]:
        usage = picture.usage(app) if settings.sort_policy is SortPolicy.FAIR else []
        if not settings.sort_by_priority:
            return (usage, app.creation)
        return (-(picture.app_priority(app) or 0), usage, app.creation)

    return sorted(apps, key=key)


def state_aware(picture: Picture, apps: list[App], *, by_priority: bool) -> list[App]:
    """Leave of some applications those that run, and the one that may compete beside them.

    That is none of which all pending asks back off: those keep nobody else from competing.
    """
    running = [app for app in apps if app.state == "Running"]
    starting = [app for app in apps if app.state == "Starting"]
    accepted = [app for app in apps if app.state == "Accepted"]
    eligible = [app for app in (starting or accepted) if awake(picture.world, app.pending())]
    if by_priority:
        eligible.sort(key=lambda app: (-(picture.app_priority(app) or 0), app.creation))
    else:
        eligible.sort(key=lambda app: app.creation)
    return running + eligible[:1]


@remembered
def asks(picture: Picture, app: App) -> list[Ask]:
    """Give the pending asks of an application, best first; a member is as old as its gang."""

    def key(ask: Ask) -> tuple[object, ...]:
        age = ask_creation(picture, ask)
        return (-ask.priority, age, ask.gang or "", ask.creation, ask.number)

    return sorted(app.pending(), key=key)


def ask_creation(picture: Picture, ask: Ask) -> int:
    """Give the creation of an ask: of a member its gang's, if that is defined."""
    gang = picture.world.gangs[ask.gang] if ask.gang is not None else None
    if gang is None or gang.creation is None:
        return ask.creation[0]
    return gang.creation


def best_of(picture: Picture, wanted: set[Ask], path: str = ROOT) -> Ask | None:
    """Give the best of some pending asks, wherever they are; nothing is skipped."""
    below = {here for ask in wanted for here in lineage(ask.app.queue)}
    inside = [child for child in picture.with_pending(path) if child.path in below]
    for child in sorted_queues(picture, path, inside):
        return best_of(picture, wanted, child.path)
    apps = [app for app in picture.apps(path) if any(ask in wanted for ask in app.asks.values())]
    for app in sorted_applications(picture, path, apps):
        return next(ask for ask in asks(picture, app) if ask in wanted)
    return None


def nodes(picture: Picture, ask: Ask) -> list[Node]:
    """Give all nodes, best first for an ask."""
    config, there = picture.world.config, picture.world.nodes.values()
    if config.node_sort is NodeSortPolicy.FGD:

        def by_step(node: Node) -> tuple[float, float, str]:
            return (step(picture, node, ask), leftover(picture, node, ask), node.name)

        found = sorted(there, key=by_step)
        _note(picture, ask, found)
        return found
    if config.node_sort is NodeSortPolicy.BESTFIT:
        return by_leftover(picture, ask)
    sign = -1.0 if config.node_sort is NodeSortPolicy.BINPACKING else 1.0
    weights = dict(config.node_weights)

    def key(node: Node) -> tuple[float, str]:
        return (sign * utilisation(node.capacity, picture.used[node.name], weights), node.name)

    return sorted(there, key=key)


def nodes_of_plans(picture: Picture, ask: Ask) -> list[Node]:
    """Give all nodes in the order of section 7."""
    if picture.world.config.node_sort in {NodeSortPolicy.FGD, NodeSortPolicy.BESTFIT}:
        return by_leftover(picture, ask)
    return nodes(picture, ask)


def by_leftover(picture: Picture, ask: Ask) -> list[Node]:
    """Give all nodes, the one first that has the least left beside an ask."""
    picture.world.reached["by leftover"] += 1

    def key(node: Node) -> tuple[float, str]:
        return (leftover(picture, node, ask), node.name)

    return sorted(picture.world.nodes.values(), key=key)


def leftover(picture: Picture, node: Node, ask: Ask) -> float:
    """Give the weighted sum of what a node has left beside an ask."""
    return _leftover(picture, (node, ask))


@remembered
def _leftover(picture: Picture, both: tuple[Node, Ask]) -> float:
    node, ask = both
    parts: list[float] = []
    for name, weight in picture.world.config.node_weights:
        largest = max(one.capacity[name] for one in picture.world.nodes.values())
        if largest:
            free = node.capacity[name] - picture.used[node.name].get(name, 0)
            parts.append(weight * ((free - ask.wants.get(name, 0)) / largest))
    return math.fsum(parts)


def _note(picture: Picture, ask: Ask, found: list[Node]) -> None:
    """Count what decided between the first two nodes that an ask fits."""
    first = [node for node in found if step(picture, node, ask) < math.inf][:2]
    if len(first) < 2:
        return
    steps = [step(picture, node, ask) for node in first]
    left = [leftover(picture, node, ask) for node in first]
    reached = picture.world.reached
    reached["step before leftover"] += steps[0] < steps[1] and left[0] > left[1]
    reached["leftover among equal steps"] += steps[0] == steps[1] and left[0] < left[1]
    reached["name among equal steps"] += steps[0] == steps[1] and left[0] == left[1]
    reached["less fragmentation than before"] += steps[0] < 0


def step(picture: Picture, node: Node, ask: Ask) -> float:
    """Give the step k of a node: by how much an ask there adds to fragmentation; else infinite."""
    return _step(picture, (node, ask))


@remembered
def _step(picture: Picture, both: tuple[Node, Ask]) -> float:
    node, ask = both
    if not can_hold(room_of(picture, node), ask):
        return math.inf
    typical = typical_of(picture)
    before = fragmentation(room_of(picture, node), typical)
    more = fragmentation(after_placing(picture, node, ask), typical) - before
    weights = sum(one.weight for one in typical)
    return -(-more // (40 * weights)) if weights else 0


def utilisation(
    capacity: Mapping[str, int], used: Mapping[str, int], weights: Mapping[str, float]
) -> float:
    """Give the weighted average of a node's utilisation."""
    types = [name for name in capacity if name in weights]
    whole = math.fsum(weights[name] for name in types)
    if whole == 0:
        return 0.0
    parts = (weights[name] * (used.get(name, 0) / capacity[name]) for name in types)
    return math.fsum(parts) / whole
