"""The orders of the specification, each sorted anew: queues, applications, asks, nodes, domains.

Limits of users; and where two asks part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, final

import attrs

from muster_core.config.model import NodeSortPolicy, SortPolicy
from muster_core.gangs import Topology, TopologyRule
from muster_core.reasons import Code
from muster_core.values.configuration import EVERY_NAME, LimitEntry
from tests.naive import usage
from tests.naive.picture import (
    Picture,
    after_placing,
    can_hold,
    fits_limits,
    fragmentation,
    present_priority,
    remembered,
    room_of,
    runs,
    typical_of,
)
from tests.naive.state import ROOT, App, Ask, Node, Queue, World, awake, lineage, total, total_of


@attrs.frozen
class ApplyingLimit:
    """A limit that applies to an application in one queue.

    Attributes:
        code: Whether it is that of its user or that of its group.
        name: The name of the user or of the group; None of the nameless user.
        path: The queue.
        entry: What it allows.
        shares: Says of an application whether it counts for the same sum.
    """

    code: Code
    name: str | None
    path: str
    entry: LimitEntry
    shares: Callable[[App], bool]


def user_of(app: App) -> str | None:
    """Return the name of an application's user, or None of the nameless one."""
    return app.user or None


def group_for(world: World, app: App) -> str | None:
    """Find the group for which an application counts: the first limited from the leaf up."""
    for path in lineage(app.queue):
        limited = [name for entry in world.queues[path].entries for name in entry.groups]
        found = [name for name in limited if name in app.groups and name != EVERY_NAME]
        if found:
            return found[0]
        if EVERY_NAME in limited:
            return EVERY_NAME
    return None


def look_up_anew(world: World) -> None:
    """Let applications count for another group, where no queue limits their present one."""
    for app in world.in_queues():
        limited = {
            name
            for path in lineage(app.queue)
            for entry in world.queues[path].entries
            for name in entry.groups
        }
        if app.counts_for not in limited:
            app.counts_for = group_for(world, app)


def applying(world: World, app: App) -> Iterator[ApplyingLimit]:
    """Yield the limits that apply to an application, from the leaf up."""
    user, group = user_of(app), app.counts_for
    for path in lineage(app.queue):
        entries = world.queues[path].entries
        own = [entry for entry in entries if user is not None and user in entry.users]
        every = [entry for entry in entries if EVERY_NAME in entry.users]
        for entry in (own or every)[:1]:
            yield ApplyingLimit(
                Code.USER_LIMIT, user, path, entry, lambda other: user_of(other) == user
            )
        for entry in entries:
            if group is not None and group in entry.groups:
                yield ApplyingLimit(
                    Code.GROUP_LIMIT, group, path, entry, lambda other: other.counts_for == group
                )


def over(picture: Picture, ask: Ask) -> list[ApplyingLimit]:
    """Return the ``maxresources`` above which an ask would bring its user or its group."""
    return [one for one in applying(picture.world, ask.app) if not _has_room(picture, one, ask)]


def _has_room(picture: Picture, limit: ApplyingLimit, ask: Ask) -> bool:
    counted = [
        held
        for held in picture.held
        if limit.path in lineage(held.app.queue) and limit.shares(held.app)
    ]
    return fits_limits(ask.wants, total_of(counted), dict(limit.entry.max.amounts))


def full(picture: Picture, app: App) -> list[ApplyingLimit]:
    """Return the ``maxapplications`` that keep an application which does not run waiting."""
    if runs(app):
        return []
    return [one for one in applying(picture.world, app) if _is_full(picture, one)]


def _is_full(picture: Picture, limit: ApplyingLimit) -> bool:
    there = [app for app in picture.world.below(limit.path) if limit.shares(app)]
    most = limit.entry.max_applications
    return most > 0 and sum(map(runs, there)) >= most


def against(picture: Picture, ask: Ask, code: Code) -> list[ApplyingLimit]:
    """Return the limits of users, or those of groups, that keep an ask from running."""
    both = over(picture, ask) + full(picture, ask.app)
    found = [one for one in both if one.code is code]
    return sorted(found, key=lambda one: -len(lineage(one.path)))


@remembered
def children(picture: Picture, path: str) -> list[Queue]:
    """Return the children of a parent that compete, best first."""
    competing = [child for child in picture.with_pending(path) if picture.enters(child.path)]
    return sorted_queues(picture, path, competing)


def sorted_queues(picture: Picture, path: str, queues: list[Queue]) -> list[Queue]:
    """Return some children of a parent, best first."""
    by_priority = picture.world.queues[path].settings.sort_by_priority

    def key(queue: Queue) -> tuple[object, ...]:
        shares = (_share(picture, queue.path), -picture.pending_share(queue.path), queue.path)
        if not by_priority:
            return shares
        priority = picture.queue_priority(queue.path) or 0
        return (-queue.settings.queue_priority, -priority, *shares)

    return sorted(queues, key=key)


def _share(picture: Picture, path: str) -> float:
    """Return what the order of siblings goes by: the past share where usage counts."""
    if usage.half_life_us(picture.world, (path, None)):
        return usage.share(picture, (path, None))
    return picture.fair_share(path)


@remembered
def applications(picture: Picture, path: str) -> list[App]:
    """Return the applications of a leaf that compete, best first."""
    settings = picture.world.queues[path].settings
    apps = picture.apps(path)
    if settings.sort_policy is SortPolicy.STATE_AWARE:
        apps = state_aware(picture, apps, by_priority=settings.sort_by_priority)
    competing = [app for app in apps if app.pending() and not _kept_out(picture, app)]
    return sorted_applications(picture, path, competing)


def _kept_out(picture: Picture, app: App) -> bool:
    """Return whether ``maxapplications`` of a queue, a user or a group keeps it waiting."""
    return picture.kept_out(app) or bool(full(picture, app))


def sorted_applications(picture: Picture, path: str, apps: list[App]) -> list[App]:
    """Return some applications of a leaf, best first."""
    settings = picture.world.queues[path].settings

    def key(app: App) -> tuple[object, ...]:
        used = picture.usage(app) if settings.sort_policy is SortPolicy.FAIR else []
        past = usage.share_of_user(picture, app) or 0.0
        if not settings.sort_by_priority:
            return (past, used, app.creation)
        return (-(picture.app_priority(app) or 0), past, used, app.creation)

    return sorted(apps, key=key)


def state_aware(picture: Picture, apps: list[App], *, by_priority: bool) -> list[App]:
    """Leave of some applications those that run, and the one that may compete beside them.

    That is none of which all pending asks back off, and none that a limit of its user or group keeps
    waiting: those keep nobody else from competing.
    """
    running = [app for app in apps if app.state == "Running"]
    starting = [app for app in apps if app.state == "Starting"]
    accepted = [app for app in apps if app.state == "Accepted"]
    eligible = [
        app
        for app in (starting or accepted)
        if awake(picture.world, app.pending()) and not full(picture, app)
    ]
    if by_priority:
        eligible.sort(key=lambda app: (-(picture.app_priority(app) or 0), app.creation))
    else:
        eligible.sort(key=lambda app: app.creation)
    return running + eligible[:1]


@remembered
def asks(picture: Picture, app: App) -> list[Ask]:
    """Return the pending asks of an application, best first; a member is as old as its gang."""

    def key(ask: Ask) -> tuple[object, ...]:
        age = ask_creation(picture, ask)
        priority = present_priority(picture.world, ask)
        return (-priority, age, ask.gang or "", ask.creation, ask.number)

    return sorted(app.pending(), key=key)


def ask_creation(picture: Picture, ask: Ask) -> int:
    """Return the creation of an ask: of a member its gang's, if that is defined."""
    gang = picture.world.gangs[ask.gang] if ask.gang is not None else None
    if gang is None or gang.creation is None:
        return ask.creation[0]
    return gang.creation


def best_of(picture: Picture, wanted: set[Ask], path: str = ROOT) -> Ask | None:
    """Return the best of some pending asks, wherever they are; nothing is skipped."""
    below = {prefix for ask in wanted for prefix in lineage(ask.app.queue)}
    inside = [child for child in picture.with_pending(path) if child.path in below]
    for child in sorted_queues(picture, path, inside):
        return best_of(picture, wanted, child.path)
    apps = [app for app in picture.apps(path) if any(ask in wanted for ask in app.asks.values())]
    for app in sorted_applications(picture, path, apps):
        return next(ask for ask in asks(picture, app) if ask in wanted)
    return None


def nodes(picture: Picture, ask: Ask) -> list[Node]:
    """Return all nodes, best first for an ask."""
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
    """Return all nodes in the order of section 7."""
    if picture.world.config.node_sort in {NodeSortPolicy.FGD, NodeSortPolicy.BESTFIT}:
        return by_leftover(picture, ask)
    return nodes(picture, ask)


def by_leftover(picture: Picture, ask: Ask) -> list[Node]:
    """Return all nodes, the one first that has the least left beside an ask."""
    picture.world.reached["by leftover"] += 1

    def key(node: Node) -> tuple[float, str]:
        return (leftover(picture, node, ask), node.name)

    return sorted(picture.world.nodes.values(), key=key)


def by_fullness(picture: Picture, ask: Ask) -> list[Node]:
    """Return all nodes, the most utilised first, whatever the policy and the ask."""
    del ask
    weights = dict(picture.world.config.node_weights)

    def key(node: Node) -> tuple[float, str]:
        return (-utilisation(node.capacity, picture.used[node.name], weights), node.name)

    return sorted(picture.world.nodes.values(), key=key)


def leftover(picture: Picture, node: Node, ask: Ask) -> float:
    """Return the weighted sum of what a node has left beside an ask."""
    return _leftover(picture, (node, ask))


@remembered
def _leftover(picture: Picture, both: tuple[Node, Ask]) -> float:
    node, ask = both
    parts: list[float] = []
    for name, weight in picture.world.config.node_weights:
        largest = max(one.capacity[name] for one in picture.world.nodes.values())
        if largest:
            free = node.for_asks(name) - picture.used[node.name].get(name, 0)
            free = max(0, free) if node.reserved else free
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
    """Return the step k of a node: how much fragmentation an ask there adds; else infinite."""
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
    """Return the weighted average of a node's utilisation."""
    types = [name for name in capacity if name in weights]
    whole = math.fsum(weights[name] for name in types)
    if whole == 0:
        return 0.0
    parts = (weights[name] * (used.get(name, 0) / capacity[name]) for name in types)
    return math.fsum(parts) / whole


Keys = dict[str, object]

NUMBERS: Final = frozenset({"queue.priority", "currentPriority", "priority"})
"""The keys that are compared as numbers; the others have texts of their own."""


@final
@attrs.frozen
class Parting:
    """Where two ways part.

    Attributes:
        at: The path of the queue, or the name of the application.
        own: The child that leads to the ask: the path of a queue, or a name.
        other: The child that leads to the ask that goes first.
        key: The first key of the order in which these differ.
        values: That key of both, where it is a whole number by itself.
    """

    at: str
    own: str
    other: str
    key: str
    values: tuple[int, int] | None = None


def parting(picture: Picture, ask: Ask, first: Ask) -> Parting | None:
    """Return where the way to an ask parts from that to the first; None if they are the same."""
    if ask is first:
        return None
    if ask.app is first.app:
        keys = _ask_keys(picture, ask), _ask_keys(picture, first)
        return _at(ask.app.name, (ask.name, first.name), keys)
    if ask.app.queue == first.app.queue:
        keys = _app_keys(picture, ask.app), _app_keys(picture, first.app)
        return _at(ask.app.queue, (ask.app.name, first.app.name), keys)
    own, other = _split(ask.app.queue, first.app.queue)
    at = own.rpartition(".")[0]
    keys = _queue_keys(picture, at, own), _queue_keys(picture, at, other)
    return _at(at, (own, other), keys)


def _split(path: str, other: str) -> tuple[str, str]:
    """Return the queues right below the one where two paths meet."""
    ways = zip(reversed(lineage(path)), reversed(lineage(other)), strict=False)
    return next((mine, theirs) for mine, theirs in ways if mine != theirs)


def _at(at: str, names: tuple[str, str], keys: tuple[Keys, Keys]) -> Parting:
    own, other = keys
    key = next(name for name in own if own[name] != other[name])
    values = None
    if key in NUMBERS:
        values = (int(str(own[key])), int(str(other[key])))
    return Parting(at, *names, key, values)


def _queue_keys(picture: Picture, parent: str, path: str) -> Keys:
    queue = picture.world.queues[path]
    keys: Keys = {}
    if picture.world.queues[parent].settings.sort_by_priority:
        keys["queue.priority"] = queue.settings.queue_priority
        keys["currentPriority"] = picture.queue_priority(path)
    past = usage.half_life_us(picture.world, (path, None))
    keys["pastShare" if past else "share"] = _share(picture, path)
    keys["pending"] = picture.pending_share(path)
    keys["path"] = path
    return keys


def _app_keys(picture: Picture, app: App) -> Keys:
    settings = picture.world.queues[app.queue].settings
    keys: Keys = {}
    if settings.sort_by_priority:
        keys["priority"] = picture.app_priority(app)
    past = usage.share_of_user(picture, app)
    if past is not None:
        keys["pastShare"] = past
    if settings.sort_policy is SortPolicy.FAIR:
        keys["usage"] = picture.usage(app)
    keys["creation"] = app.creation
    return keys


def _ask_keys(picture: Picture, ask: Ask) -> Keys:
    return {
        "priority": present_priority(picture.world, ask),
        "creation": ask_creation(picture, ask),
        "gang": ask.gang or "",
        "submission": ask.creation,
        "number": ask.number,
    }


def topology_of(picture: Picture, ask: Ask) -> Topology | None:
    """Return the topology of an ask's gang, while that is defined, satisfied or not."""
    gang = None if ask.gang is None else picture.world.gangs[ask.gang]
    definition = None if gang is None else gang.definition
    return None if definition is None else definition.topology


def domain_of(node: Node, topology: Topology) -> str | None:
    """Return the domain of a node."""
    return node.attributes.get(topology.attribute)


def lets(picture: Picture, node: Node, ask: Ask) -> bool:
    """Return whether ``same`` or ``spread`` allows a member on a node, before any trial."""
    topology = topology_of(picture, ask)
    if topology is None or topology.rule is TopologyRule.PREFER:
        return True
    domain, held = domain_of(node, topology), homes(picture, ask)
    if domain is None:
        return False
    if topology.rule is TopologyRule.SAME:
        return not held or domain == held[0]
    return topology.max is None or held.count(domain) < topology.max


def homes(picture: Picture, ask: Ask) -> list[str]:
    """Return the domain of each member of an ask's gang that holds a node in one.

    They are in the order in which their nodes were chosen.
    """
    topology = topology_of(picture, ask)
    if topology is None:
        return []
    held = [one for one in picture.held if one.gang == ask.gang]
    held.sort(key=lambda one: one.held_order)
    domains = [domain_of(picture.world.nodes[one.node or ""], topology) for one in held]
    return [domain for domain in domains if domain is not None]


def domains(picture: Picture, topology: Topology) -> list[str]:
    """Return all domains, ordered like nodes that have the sums of their schedulable nodes."""
    there = picture.world.nodes.values()
    config = picture.world.config
    sign = 1.0 if config.node_sort is NodeSortPolicy.FAIR else -1.0

    def key(domain: str) -> tuple[float, str]:
        inside = [
            node for node in there if domain_of(node, topology) == domain and node.schedulable
        ]
        capacity = total(node.capacity for node in inside)
        used = total(picture.used[node.name] for node in inside)
        return (sign * utilisation(capacity, used, dict(config.node_weights)), domain)

    values = {domain_of(node, topology) for node in there} - {None}
    return sorted((value for value in values if value is not None), key=key)
