"""The queues of a dump: Queues of Volcano and ElasticQuotas of Koordinator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, cast, final

import attrs
import yaml

from muster.config_files import parse_configuration
from muster.feeds._encodings.raw import Raw
from muster.feeds._objects.objects import FORMS
from muster.feeds._written.amounts import amounts
from muster.importing.kubernetes.kinds import Amounts
from muster.importing.kubernetes.shapes import ELASTIC_QUOTA
from muster.importing.workload.texts import queue_name_of, queue_path_of
from muster.importing.workload.workload import configuration_of
from muster_core.config.names import DEEPEST
from muster_core.errors import ConfigError
from muster_core.events import ObjectKind, QueueObject

_ROOT: Final = "root"
_QUEUE: Final = FORMS[ObjectKind.QUEUE]
_QUOTA_PARENT: Final = "quota.scheduling.koordinator.sh/parent"
_QUOTA_ROOTS: Final = frozenset({"", "root", "koordinator-root-quota"})

Settings = dict[str, Mapping[str, object]]
"""What a configuration says of queues, by their paths."""


@final
@attrs.frozen
class Queue:
    """A queue of a dump.

    Attributes:
        place: Where it stands.
        what: What it is, such as ``queue``.
        name: Its name.
        parent: The name of its parent; empty for the root.
        settings: What a configuration says of it.
        weight: Its weight as written, or None if it has none that matters.
    """

    place: str
    what: str
    name: str
    parent: str
    settings: Mapping[str, object]
    weight: str | None = None


# KUBERNETES-17
def read_queue(written: dict[str, Raw], place: str, what: str) -> Queue:
    """Return a Queue of Volcano.

    Raises:
        FieldError: If a field that matters has another form than Volcano gives it.
    """
    made = _QUEUE.make(_QUEUE.shape.parse(written))
    assert isinstance(made, QueueObject)
    spec = written.get("spec")
    weight = spec.get("weight") if isinstance(spec, dict) else None
    properties: dict[str, object] = {}
    if made.priority:
        properties["queue.priority"] = str(made.priority)
    if made.reclaimable is False:
        properties["queue.reclaimable"] = "false"
    limits = None if made.max is None else dict(made.max.amounts)
    return Queue(
        place=place,
        what=what,
        name=queue_name_of(made.name),
        parent=queue_name_of((made.parent or "").rpartition(".")[2]),
        settings=_settings(limits, made.guaranteed, properties),
        weight=None if weight is None or str(weight) in ("0", "1") else str(weight)[:80],
    )


def read_quota(written: dict[str, Raw], place: str, what: str) -> Queue:
    """Return an ElasticQuota of Koordinator.

    Raises:
        FieldError: If a field that matters has another form than Koordinator gives it.
    """
    values = ELASTIC_QUOTA.parse(written)
    parent = cast("Mapping[str, str]", values.get("labels", {})).get(_QUOTA_PARENT, "")
    most = cast("Amounts | None", values.get("max"))
    least = cast("Amounts | None", values.get("min"))
    return Queue(
        place=place,
        what=what,
        name=queue_name_of(str(values["name"])),
        parent="" if parent in _QUOTA_ROOTS else queue_name_of(parent),
        settings=_settings(most, least, {}),
    )


def _settings(
    most: Amounts | None, least: Amounts | None, properties: Mapping[str, object]
) -> dict[str, object]:
    resources = {name: amounts(one) for name, one in (("guaranteed", least), ("max", most)) if one}
    settings: dict[str, object] = {"resources": resources} if resources else {}
    return settings | ({"properties": dict(properties)} if properties else {})


@final
class Tree:
    """The queues of a dump by their names."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}

    def add(self, queue: Queue) -> Queue | None:
        """Add a queue; return the one of the same name that it replaces, or None."""
        old = self._queues.get(queue.name)
        self._queues[queue.name] = queue
        return old

    @property
    def queues(self) -> Iterable[Queue]:
        """The queues."""
        return self._queues.values()

    def path_of(self, name: str) -> str:
        """Return the path of the queue of a name, below the parents that are known."""
        known = queue_name_of(name)
        names = [known]
        while (queue := self._queues.get(known)) is not None and len(names) < DEEPEST:
            known = queue.parent
            if known in ("", _ROOT, *names):
                break
            names.insert(0, known)
        return queue_path_of(".".join(names))


def usable(paths: Collection[str], settings: Settings) -> tuple[Settings, dict[str, str]]:
    """Return settings that a configuration can have, and why it cannot have the others, by path.

    Args:
        paths: The queues to which jobs go.
        settings: What is said of queues.
    """
    if _refusal(paths, settings) is None:
        return settings, {}
    kept: Settings = {}
    refused: dict[str, str] = {}
    for path in sorted(settings):
        refusal = _refusal(paths, {**kept, path: settings[path]})
        if refusal is None:
            kept[path] = settings[path]
            continue
        refused[path] = refusal
        if _refusal(paths, {**kept, path: {}}) is None:
            kept[path] = {}
    return kept, refused


def _refusal(paths: Collection[str], settings: Settings) -> str | None:
    made: dict[str, Any] = configuration_of(sorted(paths), settings)
    try:
        parse_configuration(yaml.safe_dump(made))
    except ConfigError as error:
        return error.problems[0].message
    return None
