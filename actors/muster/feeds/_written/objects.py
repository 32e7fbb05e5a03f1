"""Manifests of Kubernetes objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, TypeVar, assert_never

from muster.feeds._encodings.raw import Raw
from muster.feeds._objects.pods import APPLICATION_LABEL, QUEUE_LABELS
from muster.feeds._written.amounts import Written, amounts, without, words
from muster.feeds._written.gangs import NAME, member_marks, object_marks
from muster_core.decisions import MICROSECONDS
from muster_core.events import (
    AddGang,
    AddPriorityClass,
    AppliedObject,
    Apply,
    Delete,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    PodObject,
    QueueObject,
)
from muster_core.values.events import USER_INFO
from muster_core.values.gang_names import DEFAULT_NAMESPACE

# Looking up a member of an enum takes ten times as long.
_NODE: Final = ObjectKind.NODE
_POD: Final = ObjectKind.POD
_POD_GROUP: Final = ObjectKind.POD_GROUP
_PRIORITY_CLASS: Final = ObjectKind.PRIORITY_CLASS
_QUEUE: Final = ObjectKind.QUEUE

T = TypeVar("T")

_ALONE = "manifest"
_VERSIONS = {
    ObjectKind.PRIORITY_CLASS: "scheduling.k8s.io/v1",
    ObjectKind.POD_GROUP: "scheduling.x-k8s.io/v1alpha1",
    ObjectKind.QUEUE: "scheduling.volcano.sh/v1beta1",
}


def applied(event: Apply) -> Raw:
    """Return the manifest of ``apply``."""
    return _manifest(event.objects, [_object(one.content) for one in event.objects])


def deleted(event: Delete) -> Raw:
    """Return the manifest of ``delete``."""
    return _manifest(event.objects, [_name(one.content) for one in event.objects])


def _manifest(objects: Sequence[Manifest[T]], written: Sequence[Written]) -> Raw:
    if len(objects) == 1 and objects[0].field == _ALONE:
        return written[0]
    return {"apiVersion": "v1", "kind": "List", "items": [*written]}


def _form(kind: ObjectKind, metadata: Written, **fields: Raw) -> Written:
    version = _VERSIONS.get(kind, "v1")
    return {"apiVersion": version, "kind": kind.value, "metadata": metadata, **without(fields)}


def _object(content: AppliedObject) -> Written:
    match content:
        case AddPriorityClass(name, value, preempts):
            policy = "PreemptLowerPriority" if preempts else "Never"
            return {
                **_form(_PRIORITY_CLASS, {"name": name}),
                "value": value,
                "preemptionPolicy": policy,
            }
        case AddGang():
            return _pod_group(content)
        case NodeObject():
            return _node(content)
        case PodObject():
            return _pod(content)
        case QueueObject():
            return _queue(content)
        case _:
            assert_never(content)


def _pod_group(gang: AddGang) -> Written:
    spec: Written = {"minMember": gang.says.min_member}
    if gang.says.wait_us is not None:
        spec["scheduleTimeoutSeconds"] = _whole(gang.says.wait_us)
    marks = object_marks(gang.says)
    if gang.says.user is not None:
        marks[USER_INFO] = json.dumps({"user": gang.says.user})
    metadata = _named(gang.gang) | without({"annotations": marks})
    return _form(_POD_GROUP, metadata, spec=spec)


def _whole(time_us: int | None) -> Raw:
    if time_us is None:
        return None
    whole, rest = divmod(time_us, MICROSECONDS)
    return time_us / MICROSECONDS if rest else whole


def _named(gang: str) -> Written:
    namespace, _, name = gang.rpartition("/")
    return {"name": name, "namespace": namespace or DEFAULT_NAMESPACE}


def _node(node: NodeObject) -> Written:
    metadata: Written = {"name": node.node}
    return _form(
        _NODE,
        metadata | without({"labels": words(node.attributes)}),
        spec=None if node.schedulable else {"unschedulable": True},
        # Without a status the capacity stays, and an empty one is none.
        status=None if node.capacity is None else {"allocatable": amounts(node.capacity)},
    )


def _pod(pod: PodObject) -> Written:
    ask = pod.ask
    labels: Written = {APPLICATION_LABEL: pod.app}
    if pod.queue is not None:
        labels[QUEUE_LABELS[0]] = pod.queue
    marks: Written = {}
    if pod.user is not None or pod.groups:
        user: Written = without({"user": pod.user, "groups": [*pod.groups]})
        marks[USER_INFO] = json.dumps(user)
    if ask is not None and ask.gang is not None:
        marks |= {NAME: ask.gang, **member_marks(ask)}
    metadata: Written = {"name": pod.name, "labels": labels}
    if pod.namespace != DEFAULT_NAMESPACE:
        metadata["namespace"] = pod.namespace
    spec: Written = without({"nodeName": pod.node})
    if ask is not None:
        spec |= without(
            {
                "priority": ask.priority,
                "activeDeadlineSeconds": _whole(ask.estimate_us),
                "priorityClassName": ask.priority_class,
                "nodeSelector": words(ask.selector),
                "containers": [{"resources": {"requests": amounts(ask.resources)}}],
            }
        )
    return _form(
        _POD,
        metadata | without({"annotations": marks}),
        spec=spec,
        status={"phase": "Succeeded"} if pod.finished else None,
    )


def _queue(queue: QueueObject) -> Written:
    spec: Written = {
        "parent": queue.parent,
        "priority": queue.priority,
        "reclaimable": queue.reclaimable,
        "capability": None if queue.max is None else amounts(dict(queue.max.amounts)),
        "deserved": None if queue.guaranteed is None else amounts(queue.guaranteed),
    }
    return _form(
        _QUEUE,
        {"name": queue.name},
        spec={name: value for name, value in spec.items() if value is not None},
    )


def _name(name: ObjectName) -> Written:
    metadata: Written = {"name": name.name}
    if name.kind is _POD_GROUP:
        metadata = _named(name.name)
    elif name.app is not None:
        metadata["labels"] = {APPLICATION_LABEL: name.app}
    return _form(name.kind, metadata)
