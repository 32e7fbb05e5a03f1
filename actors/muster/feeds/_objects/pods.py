"""Pods: the asks of an application in the form of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from muster.feeds._encodings.raw import Raw
from muster.feeds._fields.collections import WORDS, listed
from muster.feeds._fields.kinds import FieldError, Kind
from muster.feeds._fields.numbers import INT32, WHOLE_SECONDS
from muster.feeds._fields.texts import NAME, OWNED_NAME, one_of
from muster.feeds._objects.cluster import NAMESPACE, WRITTEN_AMOUNTS, unless_empty
from muster.feeds._objects.gang_marks import MEMBER_MARKS, Marks, membership, spoken
from muster.feeds._objects.shapes import Shape, part
from muster.feeds._objects.user_info import UserInfo, read_user_info
from muster_core.errors import QuantityError
from muster_core.events import AddAsk, ObjectKind, ObjectName, PodObject
from muster_core.resources import NOTHING, Resources
from muster_core.values.events import USER_INFO
from muster_core.values.gang_names import DEFAULT_NAMESPACE

# Looking up a member of an enum takes ten times as long.
_POD: Final = ObjectKind.POD

APPLICATION_LABEL: Final = "applicationId"
# OBJECT-15
QUEUE_LABELS: Final = ("queue", "scheduling.volcano.sh/queue-name")

# OBJECT-20
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_LABELS: Final = "metadata.labels"
ANNOTATIONS: Final = "metadata.annotations"

Values = Mapping[str, object]


# OBJECT-14
def _parse_containers(value: Raw) -> Resources:
    """Return the sum of the requests of all containers."""
    total = NOTHING
    for container in _CONTAINERS.parse(value):
        requests = container.get("requests", NOTHING)
        assert isinstance(requests, Resources)
        try:
            total += requests
        except QuantityError as error:
            msg = f"the sum of the requests is too large: {error}"
            raise FieldError(msg) from None
    return total


_CONTAINER: Final = Shape({"resources": Shape({"requests": part("requests", WRITTEN_AMOUNTS)})})
_CONTAINERS: Final = listed(
    Kind("container", _CONTAINER.parse, _CONTAINER.normal), "list of containers"
)
_REQUESTS: Final = Kind("list of containers", _parse_containers, _CONTAINERS.normal)
_PHASE: Final = one_of("Pending", "Running", "Succeeded", "Failed", "Unknown")

_METADATA: Final = {
    "name": part("name", OWNED_NAME, required=True),
    "namespace": part("namespace", NAMESPACE),
    "labels": part("labels", MEMBER_MARKS),
}
POD_NAME: Final = Shape({"metadata": Shape(_METADATA)})
"""The fields that name a Pod."""

# OBJECT-14
POD: Final = Shape({
    "metadata": Shape({**_METADATA, "annotations": part("annotations", MEMBER_MARKS)}),
    "spec": Shape({
        "containers": part("requests", _REQUESTS),
        # BACKFILL-9
        "activeDeadlineSeconds": part("estimate_us", WHOLE_SECONDS),
        "nodeName": part("node", unless_empty(NAME)),
        "nodeSelector": part("selector", WORDS),
        "priority": part("priority", INT32),
        "priorityClassName": part("priority_class", unless_empty(NAME)),
    }),
    "status": Shape({"phase": part("phase", unless_empty(_PHASE))}),
})  # fmt: skip
"""The fields of a Pod that matter."""


def name_of_pod(values: Values) -> ObjectName:
    """Return the name of the ask of a Pod.

    Raises:
        FieldError: If it belongs to no application.
    """
    return ObjectName(_POD, str(values["name"]), _application(values))


def pod(values: Values) -> PodObject:
    """Return the typed form of a Pod.

    Raises:
        FieldError: If it belongs to no application, or what it says about a gang or a user is invalid.
    """
    labels = _marks(values, "labels").texts
    queues = (labels[label] for label in QUEUE_LABELS if labels.get(label))
    about = user_info(_marks(values, "annotations"))
    finished = values.get("phase") in _FINISHED
    return PodObject(
        app=_application(values),
        name=str(values["name"]),
        queue=next(queues, None),
        ask=None if finished else _ask(values),
        node=cast("str | None", values.get("node")),
        finished=finished,
        namespace=_namespace(values),
        user=about.user,
        groups=about.groups,
    )


# OBJECT-14
def _ask(values: Values) -> AddAsk | None:
    said = spoken(
        {_LABELS: _marks(values, "labels"), ANNOTATIONS: _marks(values, "annotations")},
        _namespace(values),
    )
    member = membership(said)
    requests = values.get("requests")
    if not isinstance(requests, Resources) or not requests:
        return None
    return AddAsk(
        app=_application(values),
        ask=str(values["name"]),
        resources=requests,
        priority=cast("int | None", values.get("priority")),
        priority_class=cast("str | None", values.get("priority_class")),
        selector=cast("Mapping[str, str]", values.get("selector", {})),
        gang=member.gang,
        says=member.says,
        timed_out=member.timed_out,
        estimate_us=cast("int | None", values.get("estimate_us")),
    )


# OBJECT-15
def _application(values: Values) -> str:
    label = f"{_LABELS}.{APPLICATION_LABEL}"
    written = _marks(values, "labels").texts.get(APPLICATION_LABEL)
    if written is None:
        msg = "is missing: it names the application of the pod"
        raise FieldError(msg, label)
    try:
        return OWNED_NAME.parse(written)
    except FieldError as error:
        raise error.inside(label) from None


# OBJECT-29
def _namespace(values: Values) -> str:
    return str(values.get("namespace") or DEFAULT_NAMESPACE)


# OBJECT-28
def user_info(marks: Marks) -> UserInfo:
    """Return what the annotations of a Pod or a PodGroup say of a user.

    Raises:
        FieldError: If it is malformed.
    """
    written = marks.texts.get(USER_INFO)
    try:
        return UserInfo() if written is None else read_user_info(written)
    except FieldError as error:
        raise error.inside(ANNOTATIONS) from None


def _marks(values: Values, name: str) -> Marks:
    found = values.get(name)
    return found if isinstance(found, Marks) else Marks()
