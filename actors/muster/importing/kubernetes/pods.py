"""A pod as an importer keeps it until the whole dump is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self, cast, final

import attrs

from muster.feeds._encodings.raw import Raw
from muster.importing.kubernetes.constraints import Toleration, places_of
from muster.importing.kubernetes.marks import Define, said_by
from muster.importing.kubernetes.requests import requests_of
from muster.importing.kubernetes.shapes import POD
from muster.importing.kubernetes.times import State, Times, times_of

LABEL: Final = "label:"
"""What stands before the name of a label among the fields that a mapping file can look at."""


@final
@attrs.frozen(kw_only=True)
class Pod:
    """A pod, in values that msgpack can write.

    Attributes:
        place: Where it stands.
        name: Its name.
        namespace: Its namespace.
        uid: Its id in the cluster; may be empty.
        state: How far it had come.
        started_us: Since when it held its node, or None.
        finished_us: When it ended, or None.
        is_deleted: Whether somebody has deleted it.
        is_gated: Whether it waits until somebody lets it be scheduled.
        is_placeholder: Whether it only holds room for pods of a gang.
        is_of_node: Whether it belongs to one node.
        requests: What it needs, in base units.
        app: Its application.
        owner_kind: The kind of its owner; may be empty.
        path: The path of its queue as labelled; may be empty.
        queue: The name of its queue as labelled; may be empty.
        user: Whose it is; may be empty.
        groups: The groups of the user.
        gang: Its gang, or None.
        priority: Its priority, or None.
        priority_class: Its priority class; may be empty.
        selector: The labels that its node must have.
        node: The only node on which it may run, or None.
        tolerations: The taints that it tolerates.
        labels: Those of its labels that choose queues.
        notes: What a feed does not say of it.
        deadline_s: How long it may run, in seconds, or None.
    """

    place: str
    name: str
    namespace: str
    uid: str
    state: int
    started_us: int | None
    finished_us: int | None
    is_deleted: bool
    is_gated: bool
    is_placeholder: bool
    is_of_node: bool
    requests: Mapping[str, int]
    app: str
    owner_kind: str
    path: str
    queue: str
    user: str
    groups: tuple[str, ...]
    gang: str | None
    priority: int | None
    priority_class: str
    selector: Mapping[str, str]
    node: str | None
    tolerations: tuple[Toleration, ...]
    labels: Mapping[str, str]
    notes: tuple[str, ...]
    deadline_s: int | None = None

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


def read_pod(
    written: Raw, place: str, labels: tuple[str, ...]
) -> tuple[int, Pod, tuple[Define, ...]]:
    """Return when a pod was created, the pod, and what it says of gangs.

    Args:
        written: The object.
        place: Where it stands.
        labels: The names of the labels that choose queues.

    Raises:
        FieldError: If a field that matters has another form than Kubernetes gives it.
    """
    values = POD.parse(written)
    times: Times = times_of(values)
    said = said_by(values)
    places = places_of(values, is_of_node=said.is_of_node)
    pod = Pod(
        place=place,
        name=str(values["name"]),
        namespace=said.namespace,
        uid=str(values.get("uid", "")),
        state=int(times.state),
        started_us=times.started_us,
        finished_us=times.finished_us,
        is_deleted=times.is_deleted,
        is_gated=times.state is State.PENDING and bool(values.get("gates")),
        is_placeholder=said.is_placeholder,
        is_of_node=said.is_of_node,
        requests=requests_of(values),
        app=said.app,
        owner_kind=said.owner_kind,
        path=said.path,
        queue=said.queue,
        user=said.user,
        groups=said.groups,
        gang=said.gang,
        priority=cast("int | None", values.get("priority")),
        priority_class=str(values.get("priority_class") or ""),
        selector=places.selector,
        node=places.node,
        tolerations=places.tolerations,
        labels=_labels(written, labels),
        notes=said.notes + places.notes,
        deadline_s=cast("int | None", values.get("deadline")),
    )
    return times.created_us, pod, said.defines


def _labels(written: Raw, names: tuple[str, ...]) -> dict[str, str]:
    """Return some labels, which may say something of a gang as well."""
    if not names:
        return {}
    metadata = written.get("metadata") if isinstance(written, dict) else None
    found = metadata.get("labels") if isinstance(metadata, dict) else None
    labels = found if isinstance(found, dict) else {}
    return {name: str(labels[name]) for name in names if name in labels}
