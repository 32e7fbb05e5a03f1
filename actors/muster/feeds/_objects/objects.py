"""Kinds of Kubernetes objects: which fields matter, and what an object becomes.

OBJECT-1. A :class:`~muster.feeds._objects.shapes.Shape` lists the fields of a kind that matter.
All other fields are allowed and ignored, the version of the API included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast, final

import attrs

from muster.feeds._encodings.raw import Raw
from muster.feeds._fields.collections import WORDS
from muster.feeds._fields.gangs import MEMBERS
from muster.feeds._fields.kinds import Kind
from muster.feeds._fields.numbers import BOOLEAN, WHOLE_SECONDS, integer
from muster.feeds._fields.priority_classes import CLASS_NAME, CLASS_PREEMPTS, CLASS_VALUE
from muster.feeds._fields.texts import NAME
from muster.feeds._objects.cluster import (
    AMOUNTS,
    GROUP_NAME,
    LIMITS,
    NAMESPACE,
    QUEUE_NAME,
    QUEUE_PATH,
    WRITTEN_AMOUNTS,
    unless_empty,
)
from muster.feeds._objects.gang_marks import OBJECT_MARKS, Marks, Place, Spoken, spoken
from muster.feeds._objects.pods import ANNOTATIONS, POD, POD_NAME, name_of_pod, pod, user_info
from muster.feeds._objects.shapes import Shape, part
from muster_core.events import (
    AddGang,
    AddPriorityClass,
    AppliedObject,
    NodeObject,
    ObjectKind,
    ObjectName,
    QueueObject,
)
from muster_core.values.event_fields import QUEUE_PRIORITIES
from muster_core.values.gang_names import DEFAULT_NAMESPACE

# Looking up a member of an enum takes ten times as long.
_POD_GROUP: Final = ObjectKind.POD_GROUP

T = TypeVar("T")

Values = Mapping[str, object]
"""The typed values of an object."""


@final
@attrs.frozen
class Form:
    """The fields of a kind of object, and what an object becomes.

    Attributes:
        shape: The fields that matter.
        make: Makes the typed object from the values. Raises :class:`FieldError`, with a path
            from the object.
        names: The fields that name an object.
        name: Makes the typed name from the values. Raises :class:`FieldError`, likewise.
    """

    shape: Shape
    make: Callable[[Values], AppliedObject]
    names: Shape
    name: Callable[[Values], ObjectName]


def _schedulable(value: Raw) -> bool:
    return not BOOLEAN.parse(value)


_UNSCHEDULABLE: Final = Kind(BOOLEAN.name, _schedulable, BOOLEAN.normal)
_QUEUE_PRIORITY: Final = integer(*QUEUE_PRIORITIES, f"0 … {QUEUE_PRIORITIES[1]}")
_PARENT: Final = unless_empty(QUEUE_PATH)


def _names(kind: Kind[str]) -> Shape:
    return Shape({"metadata": Shape({"name": part("name", kind, required=True)})})


def _named(kind: ObjectKind) -> Callable[[Values], ObjectName]:
    return lambda values: ObjectName(kind, str(values["name"]))


def _made(make: Callable[..., T]) -> Callable[[Values], T]:
    """Return a function that makes the typed object whose attributes are the values."""
    return lambda values: make(**values)


# OBJECT-10
def _group_name(values: Values) -> str:
    return f"{values.get('namespace') or DEFAULT_NAMESPACE}/{values['name']}"


# OBJECT-9
def _pod_group(values: Values) -> AddGang:
    marks = values.get("marks")
    said = spoken({ANNOTATIONS: marks} if isinstance(marks, Marks) else {})
    own = {name: values[name] for name in ("min_member", "wait_us") if name in values}
    # OBJECT-28
    if isinstance(marks, Marks) and (about := user_info(marks)).user is not None:
        own["user"] = about.user
    least = Place("spec.minMember", cast("int", values["min_member"]))
    whole = Spoken({**said.values, **own}, {**said.places, "min_member": least})
    return AddGang(_group_name(values), whole.fields)


# OBJECT-8
def _node(values: Values) -> NodeObject:
    kept = {name: value for name, value in values.items() if name != "allocatable"}
    if "allocatable" in values:
        kept["capacity"] = values["allocatable"]
    return _made(NodeObject)(kept)


# OBJECT-23
def _queue(values: Values) -> QueueObject:
    kept = {name: value for name, value in values.items() if name != "guarantee"}
    if "guarantee" in values:
        kept.setdefault("guaranteed", values["guarantee"])
    return _made(QueueObject)(kept)


_GROUP_METADATA: Final = {
    "name": part("name", GROUP_NAME, required=True),
    "namespace": part("namespace", NAMESPACE),
}

# OBJECT-1
FORMS: Final[Mapping[str, Form]] = {
    # OBJECT-7
    ObjectKind.PRIORITY_CLASS: Form(
        Shape({
            "metadata": Shape({"name": part("name", CLASS_NAME, required=True)}),
            "value": part("value", CLASS_VALUE, required=True),
            "preemptionPolicy": part("preempts", CLASS_PREEMPTS),
        }),
        _made(AddPriorityClass),
        _names(CLASS_NAME),
        _named(ObjectKind.PRIORITY_CLASS),
    ),
    # OBJECT-9
    ObjectKind.POD_GROUP: Form(
        Shape({
            "metadata": Shape({**_GROUP_METADATA, "annotations": part("marks", OBJECT_MARKS)}),
            "spec": Shape({
                "minMember": part("min_member", MEMBERS, required=True),
                "scheduleTimeoutSeconds": part("wait_us", WHOLE_SECONDS),
                "minResources": part("min_resources", AMOUNTS),
            }),
        }),
        _pod_group,
        Shape({"metadata": Shape(_GROUP_METADATA)}),
        lambda values: ObjectName(_POD_GROUP, _group_name(values)),
    ),
    # OBJECT-8
    ObjectKind.NODE: Form(
        Shape({
            "metadata": Shape({
                "name": part("node", NAME, required=True),
                "labels": part("attributes", WORDS),
            }),
            "spec": Shape({"unschedulable": part("schedulable", _UNSCHEDULABLE)}),
            "status": Shape({
                "allocatable": part("allocatable", WRITTEN_AMOUNTS),
                "capacity": part("capacity", WRITTEN_AMOUNTS),
            }),
        }),
        _node,
        _names(NAME),
        _named(ObjectKind.NODE),
    ),
    ObjectKind.POD: Form(POD, pod, POD_NAME, name_of_pod),
    # OBJECT-23
    ObjectKind.QUEUE: Form(
        Shape({
            "metadata": Shape({"name": part("name", QUEUE_NAME, required=True)}),
            "spec": Shape({
                "parent": part("parent", _PARENT),
                "priority": part("priority", _QUEUE_PRIORITY),
                "reclaimable": part("reclaimable", BOOLEAN),
                "capability": part("max", LIMITS),
                "deserved": part("guaranteed", AMOUNTS),
                "guarantee": Shape({"resource": part("guarantee", AMOUNTS)}),
            }),
        }),
        _queue,
        _names(QUEUE_NAME),
        _named(ObjectKind.QUEUE),
    ),
}  # fmt: skip
"""The objects that can be applied and deleted, by kind."""
