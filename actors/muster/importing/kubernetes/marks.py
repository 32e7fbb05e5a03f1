"""What labels, annotations and owners say of a pod: application, queue, user and gang.

The marks are those of YuniKorn, Koordinator and Volcano.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, cast, final

import attrs

from muster.feeds._fields.kinds import FieldError
from muster.feeds._objects.gang_marks import Marks, membership, spoken
from muster.feeds._objects.user_info import UserInfo, read_user_info
from muster.importing.workload.texts import gang_name_of, name_of
from muster_core.gangs.definition import GangFields
from muster_core.values.events import USER_INFO
from muster_core.values.gang_names import DEFAULT_NAMESPACE
from muster_core.values.quantities import MAX_INT32

Values = Mapping[str, object]
Define = tuple[str, GangFields]

_YUNIKORN: Final = "yunikorn.apache.org"
_APPS: Final = (f"{_YUNIKORN}/app-id", "applicationId", "spark-app-selector")
_JOBS: Final = ("volcano.sh/job-name",)
_PATHS: Final = (f"{_YUNIKORN}/queue", "queue")
_QUEUES: Final = (
    "scheduling.volcano.sh/queue-name",
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


@final
@attrs.frozen(kw_only=True)
class Said:
    """What marks and owners say of a pod.

    Attributes:
        namespace: Its namespace.
        app: The name of its application.
        owner_kind: The kind of what owns it, such as ``Job``; empty without an owner.
        path: The path of its queue, by a label of YuniKorn; may be empty.
        queue: The name of its queue, by a label of Volcano or Koordinator; may be empty.
        user: Whose it is; may be empty.
        groups: The groups of the user.
        gang: The full name of its gang, or None.
        defines: What it says of gangs.
        is_placeholder: Whether it only holds room for pods of a gang.
        is_of_node: Whether it belongs to one node, as pods of a DaemonSet and static pods do.
        notes: What could not be taken over.
    """

    namespace: str
    app: str
    owner_kind: str
    path: str
    queue: str
    user: str
    groups: tuple[str, ...]
    gang: str | None
    defines: tuple[Define, ...]
    is_placeholder: bool
    is_of_node: bool
    notes: tuple[str, ...]


def said_by(values: Values) -> Said:
    """Return what marks and owners say of a pod."""
    marks = (_marks(values, "labels"), _marks(values, "annotations"))
    namespace = str(values.get("namespace") or DEFAULT_NAMESPACE)
    notes: list[str] = []
    gang, defines = _gang(marks, namespace, notes)
    owner = _owner(values)
    owner_kind = str(owner.get("kind", ""))
    app = _app(values, marks, namespace, str(owner.get("name", "")), owner_kind, gang)
    group = _found(marks, _TASK_GROUP)
    if gang is None and group:
        gang = _task_gang(namespace, app, group)
    if tasks := _found(marks, _TASK_GROUPS):
        defines = (*defines, *_task_groups(tasks, namespace, app, notes))
    about = _user(marks, notes)
    return Said(
        namespace=namespace,
        app=app,
        owner_kind=owner_kind,
        path=_found(marks, _PATHS),
        queue=_found(marks, _QUEUES),
        user=about.user or "",
        groups=about.groups if about.user else (),
        gang=gang,
        defines=defines,
        is_placeholder=_found(marks, _PLACEHOLDER) == "true",
        is_of_node=owner_kind in _DAEMONS or bool(_found(marks, _MIRROR)),
        notes=tuple(notes),
    )


def _marks(values: Values, name: str) -> Marks:
    found = values.get(name)
    return found if isinstance(found, Marks) else _NO_MARKS


_NO_MARKS: Final = Marks()


def _found(marks: tuple[Marks, Marks], keys: Iterable[str]) -> str:
    """Return the first of some marks that is there; a label comes before an annotation."""
    for key in keys:
        for some in marks:
            if text := some.texts.get(key):
                return text
    return ""


def _owner(values: Values) -> Values:
    owners = cast("tuple[Values, ...]", values.get("owners", ()))
    return next((one for one in owners if one.get("controller")), owners[0] if owners else {})


# KUBERNETES-2
def _app(
    values: Values,
    marks: tuple[Marks, Marks],
    namespace: str,
    owner: str,
    owner_kind: str,
    gang: str | None,
) -> str:
    """Return the name of the application: as marked, else that of the owner, the gang, the pod."""
    if marked := _found(marks, _APPS):
        return name_of(marked)
    name = _found(marks, _JOBS)
    if not name and owner_kind != "Node":
        name = owner
    if not name and gang is not None:
        return gang.replace("/", ".")
    return name_of(f"{namespace}.{name or values['name']}")


# KUBERNETES-11
def _gang(
    marks: tuple[Marks, Marks], namespace: str, notes: list[str]
) -> tuple[str | None, tuple[Define, ...]]:
    labels, annotations = marks
    if not (labels.sayings or annotations.sayings):
        return None, ()
    try:
        member = membership(
            spoken({"metadata.labels": labels, "metadata.annotations": annotations}, namespace)
        )
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


def _user(marks: tuple[Marks, Marks], notes: list[str]) -> UserInfo:
    written = _found(marks, (USER_INFO,))
    if not written:
        return UserInfo()
    try:
        return read_user_info(written)
    except FieldError:
        notes.append(BAD_USER)
        return UserInfo()
