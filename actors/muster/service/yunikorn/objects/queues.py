"""Queues, one by one or as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from muster.service.yunikorn.objects.forms import (
    Made,
    Seen,
    bounded,
    go_duration,
    percentages,
    priority,
    shown,
)
from muster_core.config.names import ROOT
from muster_core.values.application_states import AppState
from muster_core.values.configuration.partition import PreemptionPolicy
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.structures.steps import Steps
    from muster_core.values.configuration.partition import QueueConfig
    from muster_core.view.tree.queue import ViewQueue

# Looking up a member of an enum takes ten times as long.
_ACCEPTED: Final = AppState.ACCEPTED
_DISABLED: Final = PreemptionPolicy.DISABLED
_FENCE: Final = PreemptionPolicy.FENCE


def tree(seen: Seen) -> Steps[Made]:
    """Return the root with all queues below it."""
    made: dict[str, Made] = {}
    root: Made = {}
    waiting = _accepted(seen)
    yield
    for path, entry in sorted(seen.machine.registry.queues.items()):
        yield
        one = made[path] = queue(seen, entry, waiting)
        one["children"] = []
        parent = entry.parent
        if parent is None:
            root = one
            one["partition"] = seen.partition
        else:
            made[parent.config.path]["children"].append(one)
    return root


def single(seen: Seen, entry: QueueEntry) -> Made:
    """Return one queue without those below it."""
    return queue(seen, entry, _accepted(seen)) | {"partition": seen.partition}


def subtree(seen: Seen, entry: QueueEntry) -> Steps[Made]:
    """Return one queue with all queues below it."""
    waiting = _accepted(seen)
    yield

    def below(entry: QueueEntry) -> Steps[Made]:
        yield
        children: list[Made] = []
        for child in _children(entry):
            made = yield from below(child)
            children.append(made)
        return queue(seen, entry, waiting) | {"children": children}

    made = yield from below(entry)
    return made | {"partition": seen.partition}


# REST-7
def queue(seen: Seen, entry: QueueEntry, accepted: Mapping[str, list[str]]) -> Made:
    """Return one queue.

    Args:
        seen: The state.
        entry: The queue.
        accepted: The Accepted applications of each queue that count against its maximum.
    """
    config, settings = entry.config, entry.config.settings
    view = seen.view.queues.get(entry.key)
    used = {} if view is None else view.usage()
    pending = {} if view is None else view.types.amounts(view.pending)
    is_leaf = not config.is_parent
    made: Made = {
        "queuename": config.path,
        "status": "Draining" if entry.draining else "Active",
        "partition": "",
        "isLeaf": is_leaf,
        "isManaged": not entry.dynamic,
        "childNames": [child.config.path for child in _children(entry)],
        "properties": dict(config.own_properties),
        "allocatedResource": shown(used),
        "pendingResource": shown(pending),
        "headroom": bounded(_headroom(seen, entry)),
        "runningApps": 0 if view is None else view.running,
        "currentPriority": priority(None if view is None else view.priority),
        "sortingPolicy": settings.sort_policy.value if is_leaf else "fair",
        "prioritySorting": settings.sort_by_priority,
        "isPriorityFence": settings.fence,
        "priorityOffset": settings.offset,
        "preemptionEnabled": settings.preemption_policy is not _DISABLED,
        "isPreemptionFence": settings.preemption_policy is _FENCE,
        "preemptionDelay": go_duration(settings.preemption_delay_us),
        "quotaPreemptionDelay": "0s",
    }
    if entry.parent is not None:
        made["parent"] = entry.parent.config.path
    if config.path in accepted:
        made["allocatingAcceptedApps"] = accepted[config.path]
    return made | _limits(seen, config, shown(used))


def _limits(seen: Seen, config: QueueConfig, used: Mapping[str, int]) -> Made:
    """Return what a queue has at most and at least, as far as it is said."""
    made: Made = {}
    most = _most(seen, config)
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


def _most(seen: Seen, config: QueueConfig) -> dict[str, int]:
    """Return what a queue may use at most; of the root, what all nodes have."""
    if config.path == ROOT:
        return dict(seen.view.nodes.total)
    return dict(config.max.amounts)


# REST-8
def _headroom(seen: Seen, entry: QueueEntry) -> dict[str, int]:
    """Return how much more may be used of each type that the queue or one above it limits."""
    room: dict[str, int] = {}
    for one in entry.upward():
        view = seen.view.queues.get(one.key)
        for kind, most in _most(seen, one.config).items():
            left = most - (0 if view is None else view.used(kind))
            room[kind] = min(room.get(kind, left), left)
    return room


def _children(entry: QueueEntry) -> list[QueueEntry]:
    return [child for _, child in sorted(entry.children.items())]


def _accepted(seen: Seen) -> dict[str, list[str]]:
    """Return the Accepted applications that count as running, for each queue on their paths."""
    found: dict[str, list[str]] = {}
    for leaf in _leaves(seen):
        if leaf.running:
            for app in leaf.apps.values():
                if app.state is _ACCEPTED and app.running:
                    for one in leaf.upward():
                        found.setdefault(one.config.path, []).append(app.identity.name)
    return found


def _leaves(seen: Seen) -> Iterator[LeafView]:
    queues: Iterator[ViewQueue] = iter(seen.view.queues.values())
    return (one for one in queues if isinstance(one, LeafView))
