"""Pods and Nodes of Kubernetes: the fields that decide where a pod runs, and what they mean.

``apply``, the importer of dumps and the follower of a live cluster read them; the latter two add
fields to the schemas, such as instants. The fields of this module mean the same to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from muster.feeds._affinity import NODE_AFFINITY, OBJECT_TAINTS, OBJECT_TOLERATIONS
from muster.feeds._annotations import (
    ANNOTATIONS,
    MEMBER_ANNOTATIONS,
    Membership,
    ParsedAnnotations,
    gang_settings,
    membership,
)
from muster.feeds._fields import Values
from muster.feeds._kinds import (
    BOOLEAN,
    INT32,
    NAME,
    OWNED_NAME,
    TEXT,
    WHOLE_SECONDS,
    WORDS,
    FieldError,
    Kind,
    one_of,
)
from muster.feeds._raw import Raw
from muster.feeds._schema import (
    NAMESPACE,
    ObjectSchema,
    SchemaField,
    list_of,
    schema_field,
    unless_empty,
)
from muster_core.resources import MAX_QUANTITY
from muster_core.values.names import DEFAULT_NAMESPACE

T = TypeVar("T")

Amounts = Mapping[str, int]
"""Resources: amounts in base units by type."""

SchemaFields = Mapping[str, SchemaField | ObjectSchema]

LABELS: Final = "metadata.labels"

# OBJECT-15
APPLICATION_LABEL: Final = "applicationId"
QUEUE_LABEL: Final = "queue"
VOLCANO_QUEUE_LABEL: Final = "scheduling.volcano.sh/queue-name"

# OBJECT-20
FINISHED: Final = frozenset({"Succeeded", "Failed"})
"""The phases of a Pod that has ended."""

_PHASE: Final = one_of("Pending", "Running", "Succeeded", "Failed", "Unknown")


# -- the fields -----------------------------------------------------------------------------------


def room_fields(
    amounts: Kind[T], *, limits: bool = False, of_container: SchemaFields | None = None
) -> SchemaFields:
    """Return the fields in the ``spec`` of a Pod that say what it takes on its node.

    Args:
        amounts: The kind of amounts: whether it takes parts of a base unit.
        limits: Whether limits are read: a type with a limit alone is requested as much then. The API
            server fills such requests in, so it matters little in a cluster and its dumps. The
            manifests of ``apply`` request what they name, and no more.
        of_container: Further fields of a container.
    """
    needs = {"requests": schema_field("requests", amounts)}
    if limits:
        needs["limits"] = schema_field("limits", amounts)
    resources = ObjectSchema(needs)
    container = ObjectSchema({
        "resources": resources,
        "restartPolicy": schema_field("restart", unless_empty(TEXT)),
        **(of_container or {}),
    })  # fmt: skip
    containers = list_of(container, "container")
    return {
        "containers": schema_field("containers", containers),
        "initContainers": schema_field("init_containers", containers),
        "overhead": schema_field("overhead", amounts),
        "resources": resources,
    }


_POD_METADATA: Final = {
    "name": schema_field("name", OWNED_NAME, required=True),
    "namespace": schema_field("namespace", NAMESPACE),
    "labels": schema_field("labels", MEMBER_ANNOTATIONS),
}
POD_NAME: Final = ObjectSchema({"metadata": ObjectSchema(_POD_METADATA)})
"""The fields that name a Pod."""


def pod_schema(room: SchemaFields) -> ObjectSchema:
    """Return the fields of a Pod, with those of :func:`room_fields`."""
    return ObjectSchema({
        "metadata": ObjectSchema({**_POD_METADATA, "annotations": schema_field("annotations", MEMBER_ANNOTATIONS)}),
        "spec": ObjectSchema({
            **room,
            # BACKFILL-9
            "activeDeadlineSeconds": schema_field("estimate_us", WHOLE_SECONDS),
            "nodeName": schema_field("node", unless_empty(NAME)),
            "nodeSelector": schema_field("selector", WORDS),
            # AFFINITY-16
            "tolerations": schema_field("tolerations", OBJECT_TOLERATIONS),
            "affinity": ObjectSchema({"nodeAffinity": NODE_AFFINITY}),
            "priority": schema_field("priority", INT32),
            "priorityClassName": schema_field("priority_class", unless_empty(NAME)),
        }),
        "status": ObjectSchema({"phase": schema_field("phase", unless_empty(_PHASE))}),
    })  # fmt: skip


def _schedulable(value: Raw) -> bool:
    return not BOOLEAN.parse(value)


_UNSCHEDULABLE: Final = Kind(
    BOOLEAN.name, _schedulable, BOOLEAN.normal, lambda schedulable: not schedulable
)


# OBJECT-8
def node_schema(amounts: Kind[T]) -> ObjectSchema:
    """Return the fields of a Node.

    Args:
        amounts: The kind of amounts: whether it takes parts of a base unit.
    """
    return ObjectSchema({
        "metadata": ObjectSchema({
            "name": schema_field("node", NAME, required=True),
            "labels": schema_field("attributes", WORDS),
        }),
        "spec": ObjectSchema({
            "unschedulable": schema_field("schedulable", _UNSCHEDULABLE),
            # AFFINITY-16
            "taints": schema_field("taints", OBJECT_TAINTS),
        }),
        "status": ObjectSchema({
            "allocatable": schema_field("capacity", amounts),
            "capacity": schema_field("whole", amounts),
        }),
    })  # fmt: skip


def capacity_of(values: Values) -> Amounts:
    """Return the capacity of a Node for Pods: what is allocatable, else all of it."""
    return cast("Amounts", values.get("capacity", values.get("whole", _NOTHING)))


# -- values of a Pod ------------------------------------------------------------------------------

_ALWAYS: Final = "Always"
_NOTHING: Final[Amounts] = {}


def maps_in(values: Values, name: str) -> Iterable[Values]:
    """Return the maps of a list, or none if it is not there."""
    return cast("Iterable[Values]", values.get(name, ()))


# OBJECT-31
def requests_of(values: Values) -> dict[str, int]:
    """Return the requests of a Pod, in base units, without types of which it needs none.

    Containers are added up. Init containers run one after the other before them, so that only the
    largest counts; but one that is restarted always stays, and counts beside all that start after
    it. The requests of the Pod as a whole replace the sum, and the overhead comes on top.

    Raises:
        FieldError: If it needs more than an amount can be.
    """
    stays: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in maps_in(values, "init_containers"):
        wanted = _requests(container)
        if container.get("restart") == _ALWAYS:
            _add(stays, wanted)
            _raise(most, stays)
        else:
            total = dict(stays)
            _add(total, wanted)
            _raise(most, total)
    for container in maps_in(values, "containers"):
        _add(stays, _requests(container))
    _raise(stays, most)
    stays |= _requests(values)
    _add(stays, cast("Amounts", values.get("overhead", _NOTHING)))
    for name, amount in stays.items():
        if amount > MAX_QUANTITY:
            problem = f"{name}: {amount} is not a whole number from 0 to {MAX_QUANTITY}"
            msg = f"the sum of the requests is too large: {problem}"
            raise FieldError(msg, "spec.containers")
    return {name: amount for name, amount in stays.items() if amount}


def _requests(values: Values) -> Amounts:
    """Return requests; a type that has only a limit is requested as much, if limits are read."""
    requests = cast("Amounts", values.get("requests", _NOTHING))
    limits = cast("Amounts | None", values.get("limits"))
    return requests if limits is None else {**limits, **requests}


def _add(amounts: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _raise(amounts: dict[str, int], least: Amounts) -> None:
    for name, amount in least.items():
        if amounts.get(name, 0) < amount:
            amounts[name] = amount


# OBJECT-14
ASK_ATTRIBUTES: Final = (
    "priority", "estimate_us", "priority_class", "selector", "tolerations", "affinity",
)  # fmt: skip
"""The attributes of an ask that are fields of the ``spec`` of its Pod."""


def ask_attributes(values: Values) -> dict[str, Any]:
    """Return the attributes of an ask from the ``spec`` of its Pod."""
    return {name: values[name] for name in ASK_ATTRIBUTES if name in values}


# OBJECT-29
def namespace_of(values: Values) -> str:
    """Return the namespace of a Pod or a PodGroup."""
    return str(values.get("namespace") or DEFAULT_NAMESPACE)


def marks_of(values: Values, name: str) -> ParsedAnnotations:
    """Return labels or annotations, or none if they are not there."""
    return cast("ParsedAnnotations", values.get(name, _NO_MARKS))


_NO_MARKS: Final = ParsedAnnotations()


def first_mark(marks: Iterable[ParsedAnnotations], keys: Iterable[str]) -> str:
    """Return the first of some marks that is there, and not empty; else an empty text."""
    for key in keys:
        for some in marks:
            if text := some.texts.get(key):
                return text
    return ""


# OBJECT-16
def membership_of(values: Values) -> Membership:
    """Return the gang of a Pod, and the fields that its labels and annotations set.

    Raises:
        FieldError: If they contradict each other, or one of them is invalid.
    """
    labels, annotations = marks_of(values, "labels"), marks_of(values, "annotations")
    if not (labels.of_gang or annotations.of_gang):
        return _NO_GANG
    settings = gang_settings({LABELS: labels, ANNOTATIONS: annotations}, namespace_of(values))
    return membership(settings)


_NO_GANG: Final = Membership()
