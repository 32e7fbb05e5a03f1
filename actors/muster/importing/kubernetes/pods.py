"""A pod as the importer keeps it until the whole dump is read.

A pod has its times (created, holding its node, ended), its requests, and what labels, annotations
and owners say of its application, queue, user and gang, in the keys of YuniKorn, Koordinator and
Volcano.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, Self, cast, final

import attrs

from muster.feeds._annotations import ParsedAnnotations, UserInfo, user_info
from muster.feeds._fields import Values
from muster.feeds._kinds import FieldError
from muster.feeds._kubernetes import (
    APPLICATION_LABEL,
    FINISHED,
    QUEUE_LABEL,
    VOLCANO_QUEUE_LABEL,
    first_mark,
    maps_in,
    marks_of,
    membership_of,
    namespace_of,
    requests_of,
)
from muster.feeds._raw import Raw
from muster.importing.kubernetes.nodes import NodeConstraints, constraints_of
from muster.importing.kubernetes.schema import POD
from muster.importing.queues import gang_name_of, name_of
from muster_core.gangs import GangFields
from muster_core.values.resources import MAX_INT32


@final
class PodState(IntEnum):
    """The state of a pod in a dump; of two records of it the higher one is later."""

    PENDING = 0
    RUNNING = 1
    FINISHED = 2


@attrs.frozen(slots=False)  # several bases of a Pod cannot have slots
class PodTimes:
    """The instants of a pod, in microseconds since 1970.

    Attributes:
        state: How far it had come when it was dumped: a :class:`PodState`.
        created_us: When it was created.
        started_us: Since when it held its node; None if it never did.
        finished_us: When it ended; None if it has not, or if that is not known.
        is_deleted: Whether it is being deleted.
    """

    state: int
    created_us: int
    started_us: int | None = None
    finished_us: int | None = None
    is_deleted: bool = False


# KUBERNETES-5, KUBERNETES-6
def times_of(values: Values) -> PodTimes:
    """Return the instants of a pod.

    Raises:
        FieldError: If it ran, and its start is unknown.
    """
    created = cast("int", values["created"])
    deleted = cast("int | None", values.get("deleted"))
    has_ended = values.get("phase") in FINISHED
    if not (has_ended or values.get("node")):
        return PodTimes(PodState.PENDING, created, is_deleted=deleted is not None)
    started = _started(values)
    if has_ended:
        finished = _finished(values, started)
        return PodTimes(PodState.FINISHED, created, started, finished, deleted is not None)
    if started is None:
        msg = "nothing says since when it runs"
        raise FieldError(msg, "status.startTime")
    if deleted is not None:
        return PodTimes(PodState.FINISHED, created, started, deleted, is_deleted=True)
    return PodTimes(PodState.RUNNING, created, started)


def _started(values: Values) -> int | None:
    """Return since when it holds its node: it was bound, else accepted there, else begun."""
    for condition in maps_in(values, "conditions"):
        is_bound = condition.get("type") == "PodScheduled" and condition.get("status") == "True"
        if is_bound and "since" in condition:
            return cast("int", condition["since"])
    if "accepted" in values:
        return cast("int", values["accepted"])
    return min(_of_containers(values, "started", "running_since"), default=None)


def _finished(values: Values, started: int | None) -> int | None:
    """Return when the last container ended, else when the pod was no longer ready."""
    last = max(_of_containers(values, "finished"), default=None)
    if last is not None:
        return last
    changes = [cast("int", one["since"]) for one in maps_in(values, "conditions") if "since" in one]
    later = [since for since in changes if started is not None and since > started]
    return max(later, default=None)


def _of_containers(values: Values, *names: str) -> list[int]:
    return [
        cast("int", status[name])
        for statuses in ("init_statuses", "statuses")
        for status in maps_in(values, statuses)
        for name in names
        if name in status
    ]


Define = tuple[str, GangFields]

_YUNIKORN: Final = "yunikorn.apache.org"
# For `apply` only labels say these, and only those that OBJECT-15 has; each Pod names its application.
_APPS: Final = (f"{_YUNIKORN}/app-id", APPLICATION_LABEL, "spark-app-selector")
_JOBS: Final = ("volcano.sh/job-name",)
_PATHS: Final = (f"{_YUNIKORN}/queue", QUEUE_LABEL)
_QUEUES: Final = (
    VOLCANO_QUEUE_LABEL,
    "volcano.sh/queue-name",
    "quota.scheduling.koordinator.sh/name",
)
_TASK_GROUP: Final = (f"{_YUNIKORN}/task-group-name",)
_TASK_GROUPS: Final = (f"{_YUNIKORN}/task-groups",)
_PLACEHOLDER: Final = (f"{_YUNIKORN}/placeholder", "placeholder")
_MIRROR: Final = ("kubernetes.io/config.mirror",)

_DAEMONS: Final = frozenset({"DaemonSet", "Node"})
"""Owners whose pods belong to one node; static pods are owned by their node."""

BAD_GANG: Final = "what it says of its gang makes no sense: it is in no gang"
BAD_USER: Final = "what it says of its user makes no sense: it has none"


@attrs.frozen(kw_only=True, slots=False)  # several bases of a Pod cannot have slots
class PodLabels:
    """The values from the marks and owners of a pod.

    Attributes:
        namespace: Its namespace.
        app: The name of its application.
        owner_kind: The kind of its owner, such as ``Job``; empty without one.
        path: The path of its queue, by a label of YuniKorn; may be empty.
        queue: The name of its queue, by a label of Volcano or Koordinator; may be empty.
        user: Its user; may be empty.
        groups: The groups of the user.
        gang: The full name of its gang, or None.
        is_placeholder: Whether it only holds room for pods of a gang.
        is_of_node: Whether it belongs to one node, as pods of a DaemonSet and static pods do.
    """

    namespace: str
    app: str
    owner_kind: str
    path: str
    queue: str
    user: str
    groups: tuple[str, ...]
    gang: str | None
    is_placeholder: bool
    is_of_node: bool


def labels_of(values: Values, notes: list[str]) -> tuple[PodLabels, tuple[Define, ...]]:
    """Return the values from the marks and owners of a pod, and the gangs that they define.

    Args:
        values: The pod.
        notes: Gets the values that the feed cannot have.
    """
    marks = (marks_of(values, "labels"), marks_of(values, "annotations"))
    namespace = namespace_of(values)
    gang, defines = _gang(values, notes)
    owner = _owner(values)
    owner_kind = str(owner.get("kind", ""))
    app = _app(values, marks, namespace, str(owner.get("name", "")), owner_kind, gang)
    group = first_mark(marks, _TASK_GROUP)
    if gang is None and group:
        gang = _task_gang(namespace, app, group)
    if tasks := first_mark(marks, _TASK_GROUPS):
        defines = (*defines, *_task_groups(tasks, namespace, app, notes))
    user = _user(marks[1], notes)
    labels = PodLabels(
        namespace=namespace,
        app=app,
        owner_kind=owner_kind,
        path=first_mark(marks, _PATHS),
        queue=first_mark(marks, _QUEUES),
        user=user.user or "",
        groups=user.groups if user.user else (),
        gang=gang,
        is_placeholder=first_mark(marks, _PLACEHOLDER) == "true",
        is_of_node=owner_kind in _DAEMONS or bool(first_mark(marks, _MIRROR)),
    )
    return labels, defines


def _owner(values: Values) -> Values:
    owners = cast("tuple[Values, ...]", values.get("owners", ()))
    return next((one for one in owners if one.get("controller")), owners[0] if owners else {})


# KUBERNETES-2
def _app(
    values: Values,
    marks: tuple[ParsedAnnotations, ParsedAnnotations],
    namespace: str,
    owner: str,
    owner_kind: str,
    gang: str | None,
) -> str:
    """Return the name of the application: as marked, else that of the owner, the gang, the pod."""
    if marked := first_mark(marks, _APPS):
        return name_of(marked)
    name = first_mark(marks, _JOBS)
    if not name and owner_kind != "Node":
        name = owner
    if not name and gang is not None:
        return gang.replace("/", ".")
    return name_of(f"{namespace}.{name or values['name']}")


# KUBERNETES-11
def _gang(values: Values, notes: list[str]) -> tuple[str | None, tuple[Define, ...]]:
    try:
        member = membership_of(values)
    except FieldError:
        notes.append(BAD_GANG)
        return None, ()
    return member.gang, () if member.gang is None else ((member.gang, member.says),)


# KUBERNETES-12
def _task_groups(
    written: str, namespace: str, app: str, notes: list[str]
) -> list[tuple[str, GangFields]]:
    """Return the gangs that the task groups of an application of YuniKorn are."""
    try:
        found: object = json.loads(written)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        notes.append(BAD_GANG)
        return []
    made: list[tuple[str, GangFields]] = []
    for group in cast("list[object]", found):
        fields = cast("dict[str, object]", group) if isinstance(group, dict) else {}
        name, least = fields.get("name"), fields.get("minMember")
        if isinstance(name, str) and type(least) is int and 1 <= least <= MAX_INT32:
            made.append((_task_gang(namespace, app, name), GangFields(min_member=least)))
        else:
            notes.append(BAD_GANG)
    return made


def _task_gang(namespace: str, app: str, group: str) -> str:
    return f"{namespace}/{gang_name_of(f'{app}-{group}')}"


def _user(annotations: ParsedAnnotations, notes: list[str]) -> UserInfo:
    try:
        return user_info(annotations)
    except FieldError:
        notes.append(BAD_USER)
        return UserInfo()


LABEL: Final = "label:"
"""The prefix of the names of labels among the fields for mapping files."""


@final
@attrs.frozen(kw_only=True)
class Pod(PodTimes, PodLabels, NodeConstraints):
    """A pod, in values that msgpack can write.

    Attributes:
        place: Its place in the dump.
        name: Its name.
        uid: Its id in the cluster; may be empty.
        is_gated: Whether a scheduling gate holds it back.
        requests: Its requests, in base units.
        priority: Its priority, or None.
        priority_class: Its priority class; may be empty.
        labels: Those of its labels that choose queues.
        notes: The values that the feed cannot have.
        estimate_us: How long it is expected to run, in microseconds, or None.
    """

    place: str
    name: str
    uid: str
    is_gated: bool
    requests: Mapping[str, int]
    priority: int | None
    priority_class: str
    labels: Mapping[str, str]
    notes: tuple[str, ...]
    estimate_us: int | None = None

    @property
    def full_name(self) -> str:
        """Its namespace and its name."""
        return f"{self.namespace}/{self.name}"

    def packed(self) -> tuple[Any, ...]:
        """Return its values for a spool."""
        return tuple([getattr(self, name) for name in _NAMES])

    @classmethod
    def unpacked(cls, record: tuple[Any, ...]) -> Self:
        """Return the pod of a record."""
        return cls(**dict(zip(_NAMES, record, strict=True)))


_NAMES: Final = tuple(attribute.name for attribute in attrs.fields(Pod))


def read_pod(written: Raw, place: str, labels: tuple[str, ...]) -> tuple[Pod, tuple[Define, ...]]:
    """Return a pod, and the gangs that it defines.

    Args:
        written: The object.
        place: Its place in the dump.
        labels: The names of the labels that choose queues.

    Raises:
        FieldError: If a field that matters has another form than Kubernetes gives it.
    """
    values = POD.parse(written)
    notes: list[str] = []
    times = times_of(values)
    from_labels, defines = labels_of(values, notes)
    pod = Pod(
        **vars(times),
        **vars(from_labels),
        **vars(constraints_of(values, notes, is_of_node=from_labels.is_of_node)),
        place=place,
        name=str(values["name"]),
        uid=str(values.get("uid", "")),
        is_gated=times.state == PodState.PENDING and bool(values.get("gates")),
        requests=requests_of(values),
        priority=cast("int | None", values.get("priority")),
        priority_class=str(values.get("priority_class") or ""),
        labels=_labels(written, labels),
        notes=tuple(notes),
        estimate_us=cast("int | None", values.get("estimate_us")),
    )
    return pod, defines


def _labels(written: Raw, names: tuple[str, ...]) -> dict[str, str]:
    """Return some labels, which may be about a gang as well."""
    if not names:
        return {}
    metadata = written.get("metadata") if isinstance(written, dict) else None
    found = metadata.get("labels") if isinstance(metadata, dict) else None
    labels = found if isinstance(found, dict) else {}
    return {name: str(labels[name]) for name in names if name in labels}
