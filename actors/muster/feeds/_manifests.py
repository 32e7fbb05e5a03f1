"""``apply`` and ``delete``: manifests of Pods, PodGroups, Nodes, queues and priority classes.

OBJECT-1. A schema lists the fields of a kind that matter. All other fields are allowed and ignored,
the version of the API included. The core decides what an applied object changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast, final

import attrs

from muster.feeds._annotations import (
    ANNOTATIONS,
    MEMBER_KEYS,
    NAMES_IT,
    OBJECT_ANNOTATIONS,
    OBJECT_KEYS,
    AnnotationSource,
    GangSettings,
    ParsedAnnotations,
    gang_annotations,
    gang_settings,
    says_of_member,
    user_info,
)
from muster.feeds._asks import is_deadline, read_pod_ask, write_pod_ask
from muster.feeds._fields import (
    CLASS_NAME,
    CLASS_PREEMPTS,
    CLASS_VALUE,
    MEMBERS,
    Values,
    attributes_of,
)
from muster.feeds._kinds import (
    BOOLEAN,
    NAME,
    OWNED_NAME,
    WHOLE_SECONDS,
    EventFields,
    FieldError,
    Kind,
    display_value,
    integer,
    refused,
)
from muster.feeds._kubernetes import (
    APPLICATION_LABEL,
    ASK_ATTRIBUTES,
    FINISHED,
    LABELS,
    POD_NAME,
    QUEUE_LABEL,
    VOLCANO_QUEUE_LABEL,
    ask_attributes,
    first_mark,
    marks_of,
    membership_of,
    namespace_of,
    node_schema,
    pod_schema,
    requests_of,
    room_fields,
)
from muster.feeds._raw import Raw
from muster.feeds._schema import (
    AMOUNTS,
    GROUP_NAME,
    LIMITS,
    NAMESPACE,
    QUEUE_NAME,
    QUEUE_PATH,
    WRITTEN_AMOUNTS,
    ObjectSchema,
    as_kubernetes,
    schema_field,
    unless_0,
    unless_empty,
)
from muster_core.config.tree import is_null
from muster_core.events import (
    AddAsk,
    AddGang,
    AddPriorityClass,
    AppliedObject,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    PodObject,
    QueueObject,
)
from muster_core.resources import Resources
from muster_core.values.event_fields import QUEUE_PRIORITIES, QUEUE_WEIGHTS
from muster_core.values.events import USER_INFO
from muster_core.values.names import DEFAULT_NAMESPACE

POD: Final = pod_schema(room_fields(WRITTEN_AMOUNTS))
"""The fields of a Pod that matter."""

# OBJECT-15
_QUEUE_LABELS: Final = (QUEUE_LABEL, VOLCANO_QUEUE_LABEL)


def name_of_pod(values: Values) -> ObjectName:
    """Return the name of the ask of a Pod.

    Raises:
        FieldError: If it belongs to no application.
    """
    return ObjectName(ObjectKind.POD, str(values["name"]), _application(values))


def pod(values: Values) -> PodObject:
    """Return the typed form of a Pod.

    Raises:
        FieldError: If it belongs to no application, or its fields of a gang or a user are invalid.
    """
    requests = Resources(requests_of(values))
    user = user_info(marks_of(values, "annotations"))
    finished = values.get("phase") in FINISHED
    return PodObject(
        app=_application(values),
        name=str(values["name"]),
        queue=first_mark((marks_of(values, "labels"),), _QUEUE_LABELS) or None,
        ask=None if finished else _ask(values, requests),
        node=cast("str | None", values.get("node")),
        finished=finished,
        namespace=namespace_of(values),
        user=user.user,
        groups=user.groups,
    )


def _parts_of_pod(pod: PodObject) -> Values:
    """Return the values of a Pod, of which :func:`pod` makes the same."""
    labels = {APPLICATION_LABEL: pod.app}
    if pod.queue is not None:
        labels[QUEUE_LABEL] = pod.queue
    marks: dict[str, str] = {}
    if pod.user is not None or pod.groups:
        user_fields = {"user": pod.user, "groups": [*pod.groups]}
        marks[USER_INFO] = json.dumps({name: value for name, value in user_fields.items() if value})
    if pod.ask is not None and pod.ask.gang is not None:
        says = {NAMES_IT: pod.ask.gang, **says_of_member(pod.ask)}
        marks |= gang_annotations(MEMBER_KEYS, says).texts
    ask: dict[str, object] = {}
    if pod.ask is not None:
        ask, marks = attributes_of(pod.ask), marks | write_pod_ask(pod.ask)
        if not is_deadline(pod.ask.estimate_us):
            ask.pop("estimate_us", None)
    values: dict[str, object] = {
        "name": pod.name,
        "labels": ParsedAnnotations(labels),
        "namespace": None if pod.namespace == DEFAULT_NAMESPACE else pod.namespace,
        "annotations": ParsedAnnotations(marks) if marks else None,
        "node": pod.node,
        **{name: ask.get(name) for name in ASK_ATTRIBUTES},
        "containers": None if pod.ask is None else ({"requests": pod.ask.resources},),
        "phase": "Succeeded" if pod.finished else None,
    }
    return {name: value for name, value in values.items() if value is not None}


# OBJECT-14
def _ask(values: Values, requests: Resources) -> AddAsk | None:
    member = membership_of(values)
    try:
        more = read_pod_ask(marks_of(values, "annotations").texts)
    except FieldError as error:
        raise error.inside(ANNOTATIONS) from None
    if not requests:
        return None
    return AddAsk(
        app=_application(values),
        ask=str(values["name"]),
        resources=requests,
        gang=member.gang,
        says=member.says,
        timed_out=member.timed_out,
        **{**ask_attributes(values), **more},
    )


# OBJECT-15
def _application(values: Values) -> str:
    label = f"{LABELS}.{APPLICATION_LABEL}"
    written = marks_of(values, "labels").texts.get(APPLICATION_LABEL)
    if written is None:
        msg = "is missing: it names the application of the pod"
        raise FieldError(msg, label)
    try:
        return OWNED_NAME.parse(written)
    except FieldError as error:
        raise error.inside(label) from None


T = TypeVar("T")


@final
@attrs.frozen
class ObjectForm:
    """The fields of a kind of object, and what an object becomes.

    Attributes:
        version: The version of the API in which it is written.
        type: The class of the typed object.
        shape: The fields that matter.
        names: The fields that name an object.
        name: Makes the typed name from the values. Raises :class:`FieldError`, with a path from
            the object.
        make: Makes the typed object from the values. Raises :class:`FieldError`, likewise.
        parts: Returns the values of a typed object.
    """

    version: str
    type: type[object]
    shape: ObjectSchema
    names: ObjectSchema
    name: Callable[[Values], ObjectName]
    make: Callable[[Values], AppliedObject]
    parts: Callable[[Any], Values] = attributes_of


_QUEUE_PRIORITY: Final = integer(*QUEUE_PRIORITIES, f"0 … {QUEUE_PRIORITIES[1]}")
_QUEUE_WEIGHT: Final = unless_0(integer(0, QUEUE_WEIGHTS[1], f"0 … {QUEUE_WEIGHTS[1]}"))
_PARENT: Final = unless_empty(QUEUE_PATH)


def _names(kind: Kind[str]) -> ObjectSchema:
    return ObjectSchema(
        {"metadata": ObjectSchema({"name": schema_field("name", kind, required=True)})}
    )


def _named(kind: ObjectKind) -> Callable[[Values], ObjectName]:
    return lambda values: ObjectName(kind, str(values["name"]))


def _parts_of_name(name: ObjectName) -> Values:
    if name.kind is ObjectKind.POD_GROUP:
        return _parts_of_group_name(name.name)
    if name.kind is ObjectKind.POD and name.app is not None:
        return {"name": name.name, "labels": ParsedAnnotations({APPLICATION_LABEL: name.app})}
    return {"name": name.name}


def _made(make: Callable[..., T], **instead: str) -> Callable[[Values], T]:
    """Return a function that makes the typed object whose attributes are the values.

    Args:
        make: The class.
        **instead: The names of the values to use for missing ones.
    """

    def made(values: Values) -> T:
        kept = dict(values)
        for name, other in instead.items():
            if other in kept:
                kept.setdefault(name, kept[other])
                del kept[other]
        return make(**kept)

    return made


# OBJECT-10
def _group_name(values: Values) -> str:
    return f"{namespace_of(values)}/{values['name']}"


def _parts_of_group_name(gang: str) -> dict[str, object]:
    namespace, _, name = gang.rpartition("/")
    return {"name": name, "namespace": namespace or DEFAULT_NAMESPACE}


# OBJECT-9
def _pod_group(values: Values) -> AddGang:
    marks = marks_of(values, "marks")
    annotated = gang_settings({ANNOTATIONS: marks})
    own = {name: values[name] for name in ("min_member", "wait_us") if name in values}
    # OBJECT-28
    if (user := user_info(marks).user) is not None:
        own["user"] = user
    least = AnnotationSource("spec.minMember", cast("int", values["min_member"]))
    whole = GangSettings({**annotated.values, **own}, {**annotated.places, "min_member": least})
    return AddGang(_group_name(values), whole.fields)


def _parts_of_group(gang: AddGang) -> Values:
    values, says = _parts_of_group_name(gang.gang), attributes_of(gang.says)
    marks = dict(gang_annotations(OBJECT_KEYS, says).texts)
    if gang.says.user is not None:
        marks[USER_INFO] = json.dumps({"user": gang.says.user})
    if marks:
        values["marks"] = ParsedAnnotations(marks)
    return values | {name: says[name] for name in ("min_member", "wait_us") if name in says}


_GROUP_METADATA: Final = {
    "name": schema_field("name", GROUP_NAME, required=True),
    "namespace": schema_field("namespace", NAMESPACE),
}

# OBJECT-1
FORMS: Final[Mapping[str, ObjectForm]] = {
    # OBJECT-7
    ObjectKind.PRIORITY_CLASS: ObjectForm(
        "scheduling.k8s.io/v1",
        AddPriorityClass,
        ObjectSchema({
            "metadata": ObjectSchema({"name": schema_field("name", CLASS_NAME, required=True)}),
            "value": schema_field("value", CLASS_VALUE, required=True),
            "preemptionPolicy": schema_field("preempts", CLASS_PREEMPTS),
        }),
        _names(CLASS_NAME),
        _named(ObjectKind.PRIORITY_CLASS),
        _made(AddPriorityClass),
        lambda one: {"name": one.name, "value": one.value, "preempts": one.preempts},
    ),
    # OBJECT-9
    ObjectKind.POD_GROUP: ObjectForm(
        "scheduling.x-k8s.io/v1alpha1",
        AddGang,
        ObjectSchema({
            "metadata": ObjectSchema({**_GROUP_METADATA, "annotations": schema_field("marks", OBJECT_ANNOTATIONS)}),
            "spec": ObjectSchema({
                "minMember": schema_field("min_member", MEMBERS, required=True),
                "scheduleTimeoutSeconds": schema_field("wait_us", WHOLE_SECONDS),
                "minResources": schema_field("min_resources", AMOUNTS),
            }),
        }),
        ObjectSchema({"metadata": ObjectSchema(_GROUP_METADATA)}),
        lambda values: ObjectName(ObjectKind.POD_GROUP, _group_name(values)),
        _pod_group,
        _parts_of_group,
    ),
    # OBJECT-8
    ObjectKind.NODE: ObjectForm(
        "v1",
        NodeObject,
        node_schema(WRITTEN_AMOUNTS),
        _names(NAME),
        _named(ObjectKind.NODE),
        _made(NodeObject, capacity="whole"),
    ),
    ObjectKind.POD: ObjectForm("v1", PodObject, POD, POD_NAME, name_of_pod, pod, _parts_of_pod),
    # OBJECT-23
    ObjectKind.QUEUE: ObjectForm(
        "scheduling.volcano.sh/v1beta1",
        QueueObject,
        ObjectSchema({
            "metadata": ObjectSchema({"name": schema_field("name", QUEUE_NAME, required=True)}),
            "spec": ObjectSchema({
                "parent": schema_field("parent", _PARENT),
                "priority": schema_field("priority", _QUEUE_PRIORITY),
                "reclaimable": schema_field("reclaimable", BOOLEAN),
                "capability": schema_field("max", LIMITS),
                "deserved": schema_field("guaranteed", AMOUNTS),
                "guarantee": ObjectSchema({"resource": schema_field("guarantee", AMOUNTS)}),
                "weight": schema_field("weight", _QUEUE_WEIGHT),
            }),
        }),
        _names(QUEUE_NAME),
        _named(ObjectKind.QUEUE),
        _made(QueueObject, guaranteed="guarantee"),
    ),
}  # fmt: skip
"""The objects that can be applied and deleted, by kind."""


_LIST: Final = "List"
_ALONE: Final = "manifest"
"""The place of an object that is in no List."""

_KINDS: Final = f"there are {', '.join(FORMS)}, and {_LIST}, in which no other {_LIST} may stand"


# OBJECT-5, OBJECT-6
def _parse_with(read: Callable[[ObjectForm, Raw], T]) -> Callable[[Raw], tuple[Manifest[T], ...]]:
    """Return a parser that reads the objects of a manifest, each with its place."""

    def parse(value: Raw) -> tuple[Manifest[T], ...]:
        if not isinstance(value, dict):
            raise refused(value, "is not a map")
        if _kind_of(value) != _LIST:
            return (Manifest(read(_form(value), value)),)
        items = value.get("items")
        if is_null(items):  # how programs in Go write an empty list
            return ()
        if not isinstance(items, list):
            raise refused(items, "is not a list").inside(".items")
        return tuple(item(f".items[{index}]", written) for index, written in enumerate(items))

    def item(place: str, written: Raw) -> Manifest[T]:
        try:
            return Manifest(read(_form(written), written), f"manifest{place}")
        except FieldError as error:
            raise error.inside(place) from None

    return parse


def _kind_of(value: Raw) -> str:
    """Return the kind of an object, or an empty text if it has none."""
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


# OBJECT-1
def _form(value: Raw) -> ObjectForm:
    if not isinstance(value, dict):
        raise refused(value, "is not a map")
    form = FORMS.get(_kind_of(value))
    if form is None:
        problem = (
            f"{display_value(value['kind'])} is not known" if "kind" in value else "is missing"
        )
        raise FieldError(f"{problem}: {_KINDS}", ".kind")
    return form


def _applied(form: ObjectForm, value: Raw) -> AppliedObject:
    values = form.shape.parse(value)
    try:
        return form.make(values)
    except FieldError as error:
        raise error.inside(".") from None


# OBJECT-3
def _deleted(form: ObjectForm, value: Raw) -> ObjectName:
    values = form.names.parse(value)
    try:
        return form.name(values)
    except FieldError as error:
        raise error.inside(".") from None


_FORM_OF: Final = {form.type: (kind, form) for kind, form in FORMS.items()}


def _write_applied(content: AppliedObject) -> EventFields:
    kind, form = _FORM_OF[type(content)]
    return _head(kind) | form.shape.write(form.parts(content))


def _write_deleted(name: ObjectName) -> EventFields:
    return _head(name.kind) | FORMS[name.kind].names.write(_parts_of_name(name))


def _head(kind: str) -> EventFields:
    return {"apiVersion": FORMS[kind].version, "kind": str(kind)}


def _write_with(write: Callable[[T], EventFields]) -> Callable[[tuple[Manifest[T], ...]], Raw]:
    """Return the function that writes a manifest whose objects are written by ``write``."""

    def whole(objects: tuple[Manifest[T], ...]) -> Raw:
        written: list[Raw] = [write(one.content) for one in objects]
        if len(objects) == 1 and objects[0].field == _ALONE:
            return written[0]
        return {"apiVersion": "v1", "kind": _LIST, "items": written}

    return whole


# -- the form that every encoding can write -------------------------------------------------


def _normal(value: Raw) -> Raw:
    return _LIST_SHAPE.normal(value) if _kind_of(value) == _LIST else _object_normal(value)


def _items_normal(value: Raw) -> Raw:
    if isinstance(value, list):
        return [_object_normal(item) for item in value]
    return as_kubernetes(value)


def _object_normal(value: Raw) -> Raw:
    form = FORMS.get(_kind_of(value))
    return as_kubernetes(value) if form is None else form.shape.normal(value)


_LIST_SHAPE: Final = ObjectSchema(
    {"items": schema_field("items", Kind("list of objects", lambda value: value, _items_normal))}
)

APPLIED: Final = Kind(
    "Kubernetes object", _parse_with(_applied), _normal, _write_with(_write_applied)
)
DELETED: Final = Kind(
    "Kubernetes object", _parse_with(_deleted), _normal, _write_with(_write_deleted)
)
