"""Applications with their asks and allocations, and nodes with what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, final

from muster.service.yunikorn.objects.values import (
    RM_ID,
    JsonObject,
    YuniKornState,
    percentages,
    priority,
    resource_map,
    without_empty,
)
from muster_core.admission.registry import application_reasons
from muster_core.owners.asks import Ask
from muster_core.structures.steps import Steps, in_order, in_pieces
from muster_core.values.names import DEFAULT_NAMESPACE
from muster_core.values.reasons import PendingReason

if TYPE_CHECKING:
    from muster.service.ledger.records import AppEntry, AskEntry
    from muster_core.nodes.node import Node
    from muster_core.view.tree.application import ViewApp


NAMESPACE: Final = "kubernetes.io/meta/namespace"
POD_NAME: Final = "kubernetes.io/meta/podName"

_NUMBER: Final = attrgetter("number")

_EXPLAINED: Final = 100
"""For how many asks of an answer all reasons are given; for others only the dominant one."""


def application(state: YuniKornState, app: ViewApp) -> Steps[JsonObject]:
    """Return an application that has not completed."""
    identity = app.identity
    entry = state.ledger.app(identity.name)
    user, groups = identity.user
    requests: list[JsonObject] = []
    reasons = _Reasons(state, app)
    for piece in in_pieces((yield from in_order(_without_node(app), _came)), 16):
        yield
        requests.extend(_request(state, app, ask, reasons) for ask in piece)
    allocations: list[JsonObject] = []
    held = chain(app.bound.values(), app.waiting.values())
    for some in in_pieces((yield from in_order((one for one, _ in held), _NUMBER))):
        yield
        allocations += [
            allocation(state, app, one.ask, one.node, waits=one.ask.name in app.waiting)
            for one in some
        ]
    return {
        "applicationID": identity.name,
        "partition": state.partition,
        "queueName": identity.path,
        "applicationState": app.state.value,
        **without_empty({"user": user, "groups": list(groups)}),
        **_times(state, entry),
        "usedResource": resource_map(app.allocated),
        "maxUsedResource": resource_map(app.allocated if entry is None else entry.most),
        "pendingResource": resource_map(app.pending_total),
        "maxRequestPriority": priority(state.view.priority_of(app)),
        "allocations": allocations,
        "requests": requests,
        "resourceHistory": {},
    }


def completed(state: YuniKornState, entry: AppEntry) -> JsonObject:
    """Return an application that has completed, as it was at the end."""
    event = entry.event
    return {
        "applicationID": event.app,
        "partition": state.partition,
        "queueName": entry.queue,
        "applicationState": entry.state,
        **without_empty({"user": event.user, "groups": list(event.groups)}),
        **_times(state, entry),
        "usedResource": resource_map({}),
        "maxUsedResource": resource_map(entry.most),
        "pendingResource": resource_map({}),
        "maxRequestPriority": priority(None),
        "allocations": [],
        "requests": [],
        "resourceHistory": {},
    }


# REST-9
def _times(state: YuniKornState, entry: AppEntry | None) -> JsonObject:
    """Return when an application came, first ran, changed, and ended, as far as known."""
    if entry is None:
        return {"submissionTime": state.ns(0), "stateLog": []}
    came_us = 0 if entry.came_us is None else entry.came_us
    made: JsonObject = {
        "submissionTime": state.ns(came_us),
        "stateLog": [
            {"time": state.ns(at_us), "applicationState": app_state}
            for at_us, app_state in entry.states
        ],
    }
    if entry.ran_us is not None:
        made["startTime"] = state.ns(entry.ran_us) // 1_000_000
    if entry.ended_us is not None:
        made["finishedTime"] = state.ns(entry.ended_us)
    return made


def _without_node(app: ViewApp) -> Iterator[Ask]:
    """Return the asks that hold no node; their order is not that after a restart."""
    return chain(app.each_pending(), app.parked.values())


def _came(ask: Ask) -> tuple[int, int]:
    """Return the place of an ask in the order in which they came."""
    return ask.seq, ask.number


@final
class _Reasons:
    """Finds why asks of an application are not running: all reasons of the first few.

    Args:
        state: The state.
        app: The application.
    """

    def __init__(self, state: YuniKornState, app: ViewApp) -> None:
        self._seen = state
        self._app = app
        self._notes = tuple(application_reasons(state.machine.registry, app.identity))
        self._left = _EXPLAINED

    def of(self, ask: str) -> list[str]:
        """Return the reasons of an ask that holds no node, the dominant one first."""
        view, now_us = self._seen.view, self._seen.machine.now_us
        if not self._left:
            return [view.explainer.dominant(self._app, ask, now_us).value]
        self._left -= 1
        found = view.explainer.explain(self._app, ask, now_us, self._notes)
        reasons: tuple[PendingReason, ...] = () if found is None else found.reasons
        return [str(reason) for reason in reasons]


# REST-10
def _request(state: YuniKornState, app: ViewApp, ask: Ask, reasons: _Reasons) -> JsonObject:
    entry = state.ledger.ask(app.identity.name, ask.name)
    since_us = _since_us(app, ask, entry)
    made: JsonObject = {
        "allocationKey": ask.name,
        "allocationTags": _tags(ask, entry),
        "requestTime": state.ns(ask.came_us),
        "resource": dict(ask.resources.amounts),
        "priority": str(ask.priority),
        "applicationId": app.identity.name,
        "allocationLog": [
            {"message": reason, "lastOccurrence": state.ns(since_us), "count": 1}
            for reason in reasons.of(ask.name)
        ],
    }
    if ask.name not in app.parked:
        made["schedulingAttempted"] = True
    if ask.shape.node is not None:
        made["requiredNodeId"] = ask.shape.node
    if ask.gang is not None:
        made["taskGroupName"] = ask.gang
    return made


def _since_us(app: ViewApp, ask: Ask, entry: AskEntry | None) -> int:
    """Return since when an ask holds no node."""
    if entry is not None and entry.since_us is not None:
        return entry.since_us
    return app.pending_since_us(ask)


# REST-11
def allocation(
    state: YuniKornState, app: ViewApp, ask: Ask, node: str, *, waits: bool
) -> JsonObject:
    """Return the allocation of an ask that holds a node."""
    entry = state.ledger.ask(app.identity.name, ask.name)
    made: JsonObject = {
        "allocationKey": ask.name,
        "allocationTags": _tags(ask, entry),
        "requestTime": state.ns(ask.came_us),
        "resource": dict(ask.resources.amounts),
        "priority": str(ask.priority),
        "nodeId": node,
        "applicationId": app.identity.name,
    }
    at_us = None if entry is None else entry.taken_us if waits else entry.bound_us
    if at_us is not None:
        made["allocationTime"] = state.ns(at_us)
        made["allocationDelay"] = (at_us - ask.came_us) * 1_000
    if ask.gang is not None:
        made["taskGroupName"] = ask.gang
    if waits:
        made["placeholder"] = True
    return made


# REST-12
def _tags(ask: Ask, entry: AskEntry | None) -> dict[str, str]:
    """Return the tags by which the web UI names an allocation: its namespace and its name."""
    pod = None if entry is None else entry.pod
    if pod is not None:
        return {NAMESPACE: pod.namespace, POD_NAME: pod.name}
    namespace = None if entry is None else entry.namespace
    if namespace is None:
        gang = ask.gang
        namespace = DEFAULT_NAMESPACE if gang is None else gang.partition("/")[0]
    return {NAMESPACE: namespace, POD_NAME: ask.name}


_HOST: Final = "si/hostname"
_RACK: Final = "si/rackname"

BUCKETS: Final = tuple(f"{low}-{low + 10}%" for low in range(0, 100, 10))


def nodes(state: YuniKornState) -> Steps[list[JsonObject]]:
    """Return all nodes, by name."""
    found: list[JsonObject] = []
    for piece in in_pieces(sorted(state.view.nodes.nodes), 8):
        yield
        found += [node(state, state.view.nodes.nodes[name]) for name in piece]
    return found


# REST-13
def node(state: YuniKornState, one: Node) -> JsonObject:
    """Return a node, with its allocations."""
    used = allocated(one)
    made: JsonObject = {
        "nodeID": one.name,
        "hostName": one.attributes.get(_HOST, one.name),
        "attributes": dict(one.attributes),
        "capacity": dict(one.capacity),
        "allocated": used,
        "available": {
            kind: max(most - used[kind] - one.reserved[kind], 0)
            if kind in one.reserved
            else most - used[kind]
            for kind, most in one.capacity.items()
        }
        | {kind: -amount for kind, amount in used.items() if kind not in one.capacity},
        "utilized": percentages(used, one.capacity),
        "allocations": _allocations(state, one),
        "schedulable": one.schedulable,
        "isReserved": False,
        "partition": state.partition,
    }
    if one.reserved:
        made["occupied"] = dict(one.reserved)
    rack = one.attributes.get(_RACK)
    if rack:
        made["rackName"] = rack
    return made


def allocated(one: Node) -> dict[str, int]:
    """Return what is used of a node: every type that it has, and what it has no more."""
    return {**dict.fromkeys(one.capacity, 0), **one.used}


def _allocations(state: YuniKornState, one: Node) -> list[JsonObject]:
    """Return the allocations on a node, in the order in which they came there.

    The node itself has no order that survives a restart.
    """
    found: list[tuple[int, JsonObject]] = []
    for key, name in one.held:
        app = state.view.apps[key]
        waiting = app.waiting.get(name)
        held = app.bound.get(name) if waiting is None else waiting
        if held is not None:
            waits = waiting is not None
            ask = held[0]
            found.append((ask.number, allocation(state, app, ask.ask, one.name, waits=waits)))
    return [made for _, made in sorted(found, key=itemgetter(0))]


# REST-14
def utilizations(state: YuniKornState) -> Steps[list[JsonObject]]:
    """Return for each type how many nodes are used how much, in ten steps."""
    found: dict[str, list[list[str]]] = {}
    for piece in in_pieces(sorted(state.view.nodes.nodes)):
        yield
        for name in piece:
            one = state.view.nodes.nodes[name]
            for kind, percent in percentages(allocated(one), one.capacity).items():
                buckets = found.setdefault(kind, [[] for _ in BUCKETS])
                buckets[bucket_of(percent)].append(name)
    made: list[JsonObject] = [
        {
            "type": kind,
            "utilization": [
                {"bucketName": bucket, "numOfNodes": len(names), "nodeNames": names}
                if names
                else {"bucketName": bucket}
                for bucket, names in zip(BUCKETS, buckets, strict=True)
            ],
        }
        for kind, buckets in sorted(found.items())
    ]
    return [{"clusterId": RM_ID, "partition": state.partition, "utilizations": made}]


def bucket_of(percent: int) -> int:
    """Return the place of the bucket of a percentage."""
    return min(max(0, -(-percent // 10) - 1), len(BUCKETS) - 1)
