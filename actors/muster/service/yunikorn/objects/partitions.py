"""The cluster and its partition: placement rules, queues, users and groups, and its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster import _version
from muster.service.yunikorn.objects.values import (
    RM_ID,
    JsonObject,
    YuniKornState,
    bounded,
    go_duration,
    percentages,
    priority,
    resource_map,
)
from muster_core.config.placement import is_expression
from muster_core.config.queues import ROOT
from muster_core.structures.amounts import add_to
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.application_states import AppState
from muster_core.values.configuration import PreemptionPolicy, QueueConfig, RuleName
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue

if TYPE_CHECKING:
    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.config.model import Configuration, PlacementFilter, PlacementRule
    from muster_core.snapshots import LimitSnapshot


@cache
def _build_date() -> str:
    """Return when this copy of Muster was made, as YuniKorn writes dates of builds."""
    made = Path(_version.__file__).stat().st_mtime
    return datetime.fromtimestamp(made, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")


# REST-6
def clusters(state: YuniKornState) -> list[JsonObject]:
    """Return the cluster, once for each partition."""
    return [
        {
            "clusterName": state.cluster,
            "partition": state.partition,
            "startTime": state.started_us * 1_000,
            "rmBuildInformation": [
                {"buildVersion": _version.__version__, "buildDate": _build_date(), "rmId": RM_ID}
            ],
        }
    ]


# REST-6
def partitions(state: YuniKornState) -> Steps[list[JsonObject]]:
    """Return the partition."""
    view, config = state.view, state.machine.configuration
    states: Counter[str] = Counter()
    containers = 0
    used: Counter[str] = Counter()
    for piece in in_pieces(view.apps.values()):
        yield
        for app in piece:
            states[app.state.value] += 1
            containers += len(app.bound) + len(app.waiting)
    for nodes in in_pieces(view.nodes.nodes.values()):
        yield
        for node in nodes:
            used.update(node.used)
    if state.ledger.completed:
        states["Completed"] += len(state.ledger.completed)
    capacity = dict(view.nodes.total)
    in_use = {**dict.fromkeys(capacity, 0), **used}
    return [
        {
            "clusterId": RM_ID,
            "name": state.partition,
            "state": "Active",
            "lastStateTransitionTime": state.started_us * 1_000,
            "capacity": {
                "capacity": resource_map(capacity),
                "usedCapacity": resource_map(in_use),
                "utilization": percentages(in_use, capacity),
            },
            "nodeSortingPolicy": {
                "type": config.node_sort.value,
                "resourceWeights": {kind: float(weight) for kind, weight in config.node_weights},
            },
            "preemptionEnabled": config.preemption_enabled,
            "quotaPreemptionEnabled": False,
            "totalNodes": len(view.nodes.nodes),
            "totalContainers": containers,
            "applications": {**dict(sorted(states.items())), "total": states.total()},
        }
    ]


# REST-18
def history(state: YuniKornState, now_us: int, *, containers: bool) -> list[JsonObject]:
    """Return what ran, minute by minute; the numbers are texts.

    Args:
        state: The state.
        now_us: The present instant, in microseconds since the origin.
        containers: Whether asks that hold a node are counted, and not applications.
    """
    name = "totalContainers" if containers else "totalApplications"
    return [
        {
            "timestamp": state.ns(point.at_us),
            name: str(point.containers if containers else point.apps),
        }
        for point in state.ledger.history(now_us)
    ]


_ONLY: Final[JsonObject] = {"name": "provided", "parameters": {"create": "true"}}
"""What is done without rules: an application names its queue, which is made if need be."""


# REST-20
def rules(config: Configuration) -> list[JsonObject]:
    """Return the placement rules that are obeyed, in order."""
    return [_rule(rule) for rule in config.placement_rules] or [_ONLY]


def _rule(rule: PlacementRule) -> JsonObject:
    parameters = {"create": "true" if rule.create else "false"}
    if rule.name is RuleName.FIXED:
        parameters["queue"] = rule.value
        parameters["qualified"] = "true" if _is_qualified(rule.value) else "false"
    elif rule.name is RuleName.TAG:
        parameters["tagName"] = rule.value
    made: JsonObject = {"name": rule.name.value, "parameters": parameters}
    if rule.parent is not None:
        made["parentRule"] = _rule(rule.parent)
    one = rule.filter
    if one.deny or one.users or one.groups:
        made["filter"] = _filter(one)
    return made


def _is_qualified(queue: str) -> bool:
    """Return whether the queue of a rule is a path from the root."""
    return queue.lower().split(".")[0] == "root"


def _filter(one: PlacementFilter) -> JsonObject:
    made: JsonObject = {"type": "deny" if one.deny else "allow"}
    for name, entries in (("user", one.users), ("group", one.groups)):
        is_pattern = _is_pattern(entries)
        made[f"{name}List"] = [] if is_pattern else list(entries)
        if is_pattern:
            made[f"{name}Exp"] = entries[0]
    return made


def _is_pattern(entries: Sequence[str]) -> bool:
    return len(entries) == 1 and is_expression(entries[0])


def tree(state: YuniKornState) -> Steps[JsonObject]:
    """Return the root with all queues below it."""
    made: dict[str, JsonObject] = {}
    root: JsonObject = {}
    waiting = _accepted_apps(state)
    yield
    for path, entry in sorted(state.machine.registry.queues.items()):
        yield
        one = made[path] = queue(state, entry, waiting)
        one["children"] = []
        parent = entry.parent
        if parent is None:
            root = one
            one["partition"] = state.partition
        else:
            made[parent.config.path]["children"].append(one)
    return root


def single(state: YuniKornState, entry: QueueEntry) -> JsonObject:
    """Return one queue without those below it."""
    return queue(state, entry, _accepted_apps(state)) | {"partition": state.partition}


def subtree(state: YuniKornState, entry: QueueEntry) -> Steps[JsonObject]:
    """Return one queue with all queues below it."""
    waiting = _accepted_apps(state)
    yield

    def below(entry: QueueEntry) -> Steps[JsonObject]:
        yield
        children: list[JsonObject] = []
        for child in _children(entry):
            made = yield from below(child)
            children.append(made)
        return queue(state, entry, waiting) | {"children": children}

    made = yield from below(entry)
    return made | {"partition": state.partition}


# REST-7
def queue(state: YuniKornState, entry: QueueEntry, accepted: Mapping[str, list[str]]) -> JsonObject:
    """Return one queue.

    Args:
        state: The state.
        entry: The queue.
        accepted: The Accepted applications of each queue that count against its maximum.
    """
    config, settings = entry.config, entry.config.settings
    view = state.view.queues.get(entry.key)
    used = {} if view is None else view.usage()
    pending = {} if view is None else view.types.amounts(view.pending)
    is_leaf = not config.is_parent
    made: JsonObject = {
        "queuename": config.path,
        "status": "Draining" if entry.draining else "Active",
        "partition": "",
        "isLeaf": is_leaf,
        "isManaged": not entry.dynamic,
        "childNames": [child.config.path for child in _children(entry)],
        "properties": dict(config.own_properties),
        "allocatedResource": resource_map(used),
        "pendingResource": resource_map(pending),
        "headroom": bounded(_headroom(state, entry)),
        "runningApps": 0 if view is None else view.running,
        "currentPriority": priority(None if view is None else view.priority),
        "sortingPolicy": settings.sort_policy.value if is_leaf else "fair",
        "prioritySorting": settings.sort_by_priority,
        "isPriorityFence": settings.fence,
        "priorityOffset": settings.offset,
        "preemptionEnabled": settings.preemption_policy is not PreemptionPolicy.DISABLED,
        "isPreemptionFence": settings.preemption_policy is PreemptionPolicy.FENCE,
        "preemptionDelay": go_duration(settings.preemption_delay_us),
        "quotaPreemptionDelay": "0s",
    }
    if entry.parent is not None:
        made["parent"] = entry.parent.config.path
    if config.path in accepted:
        made["allocatingAcceptedApps"] = accepted[config.path]
    return made | _limits(state, config, resource_map(used))


def _limits(state: YuniKornState, config: QueueConfig, used: Mapping[str, int]) -> JsonObject:
    """Return what a queue has at most and at least, as far as it is said."""
    made: JsonObject = {}
    most = _most(state, config)
    if most:
        made["maxResource"] = bounded(most)
        made["absUsedCapacity"] = percentages(used, most)
    if config.guaranteed:
        made["guaranteedResource"] = dict(config.guaranteed)
    if config.max_applications:
        made["maxRunningApps"] = config.max_applications
    template = config.template
    if template is not None:
        made["template"] = {
            "maxApplications": template.max_applications,
            "maxResource": dict(template.max.amounts),
            "guaranteedResource": dict(template.guaranteed),
            "properties": dict(template.properties),
        }
    return made


def _most(state: YuniKornState, config: QueueConfig) -> dict[str, int]:
    """Return what a queue may use at most; of the root, what all nodes have."""
    if config.path == ROOT:
        return dict(state.view.nodes.total)
    return dict(config.max.amounts)


# REST-8
def _headroom(state: YuniKornState, entry: QueueEntry) -> dict[str, int]:
    """Return how much more may be used of each type that the queue or one above it limits."""
    room: dict[str, int] = {}
    for one in entry.upward():
        view = state.view.queues.get(one.key)
        for kind, most in _most(state, one.config).items():
            left = most - (0 if view is None else view.used(kind))
            room[kind] = min(room.get(kind, left), left)
    return room


def _children(entry: QueueEntry) -> list[QueueEntry]:
    return [child for _, child in sorted(entry.children.items())]


def _accepted_apps(state: YuniKornState) -> dict[str, list[str]]:
    """Return the Accepted applications that count as running, for each queue on their paths."""
    found: dict[str, list[str]] = {}
    for leaf in _leaves(state):
        if leaf.running:
            for app in leaf.apps.values():
                if app.state is AppState.ACCEPTED and app.running:
                    for one in leaf.upward():
                        found.setdefault(one.config.path, []).append(app.identity.name)
    return found


def _leaves(state: YuniKornState) -> Iterator[LeafView]:
    queues: Iterator[ViewQueue] = iter(state.view.queues.values())
    return (one for one in queues if isinstance(one, LeafView))


_Limits = dict[tuple[str, str], "LimitSnapshot"]
_SEPARATOR: Final = "."


# REST-21
def users(state: YuniKornState) -> Steps[list[JsonObject]]:
    """Return the users of live applications, by name."""
    limits: _Limits = {
        (limit.user, limit.queue): limit for limit in state.view.limits() if limit.user is not None
    }
    by_user: dict[str, list[ViewApp]] = {}
    for piece in in_pieces(state.view.apps.values()):
        yield
        for app in piece:
            user = app.identity.user[0]
            if user is not None:
                by_user.setdefault(user, []).append(app)
    made: list[JsonObject] = []
    for user, apps in sorted(by_user.items()):
        yield
        groups = {app.identity.name: app.group for app in apps if app.group is not None}
        made.append({"userName": user, "groups": groups, "queues": _usage(user, apps, limits)})
    return made


# REST-21
def groups(state: YuniKornState) -> Steps[list[JsonObject]]:
    """Return the groups for which applications count under a limit, by name."""
    limits: _Limits = {
        (limit.group, limit.queue): limit
        for limit in state.view.limits()
        if limit.group is not None
    }
    limited = {name for name, _ in limits}
    by_group: dict[str, list[ViewApp]] = {}
    for piece in in_pieces(state.view.apps.values()):
        yield
        for app in piece:
            if app.group in limited:
                by_group.setdefault(app.group, []).append(app)
    made: list[JsonObject] = []
    for group, apps in sorted(by_group.items()):
        yield
        names = [app.identity.name for app in apps]
        usage = _usage(group, apps, limits)
        made.append({"groupName": group, "applications": names, "queues": usage})
    return made


def _usage(who: str, apps: Iterable[ViewApp], limits: _Limits) -> JsonObject:
    """Return what applications have in each queue on their paths, from the root down."""
    made: dict[str, JsonObject] = {}
    for app in apps:
        names = app.identity.path.split(_SEPARATOR)
        for depth in range(len(names)):
            path = _SEPARATOR.join(names[: depth + 1])
            one = made.get(path)
            if one is None:
                one = made[path] = _new_usage(path, limits.get((who, path)))
                if depth:
                    made[_SEPARATOR.join(names[:depth])]["children"].append(one)
            usage = one["resourceUsage"]
            add_to(usage, {name: amount for name, amount in app.allocated.items() if amount})
            usage.update(bounded(usage))
            if app.running:
                one["runningApplications"].append(app.identity.name)
    return made[ROOT]


def _new_usage(path: str, limit: LimitSnapshot | None) -> JsonObject:
    made: JsonObject = {
        "queuePath": path,
        "resourceUsage": {},
        "runningApplications": [],
        "children": [],
    }
    if limit is not None:
        if limit.max:
            made["maxResources"] = dict(limit.max)
        if limit.max_applications:
            made["maxApplications"] = limit.max_applications
    return made
