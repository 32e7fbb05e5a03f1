"""The inventory of dumps: the pods, nodes, queues and gangs that were read, until all dumps are read.

Queues are those of Volcano and ElasticQuotas of Koordinator. A gang has the objects that define it,
and the number of its members in the dump.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, cast, final

import attrs
import yaml

from muster.config_files import parse_configuration
from muster.feeds._kinds import FieldError, write_amounts, write_duration
from muster.feeds._kubernetes import Amounts
from muster.feeds._manifests import FORMS
from muster.feeds._raw import Raw
from muster.importing.dumps import Spool
from muster.importing.kubernetes.dumps import DumpedObject
from muster.importing.kubernetes.nodes import DumpedNode, read_node
from muster.importing.kubernetes.pods import read_pod
from muster.importing.kubernetes.schema import ELASTIC_QUOTA, VOLCANO_GROUP
from muster.importing.nodes import event_fields
from muster.importing.queues import queue_name_of, queue_path_of
from muster.importing.workload import ImportAccount, configuration_of
from muster_core.config.queues import DEEPEST
from muster_core.decisions import MICROSECONDS
from muster_core.errors import ConfigError
from muster_core.events import AddGang, AddPriorityClass, ObjectKind, QueueObject
from muster_core.gangs import GangFields, GangMode
from muster_core.values.event_fields import is_users_class

_ROOT: Final = "root"
_QUEUE: Final = FORMS[ObjectKind.QUEUE]
_QUOTA_PARENT: Final = "quota.scheduling.koordinator.sh/parent"
_QUOTA_ROOTS: Final = frozenset({"", "root", "koordinator-root-quota"})

Settings = dict[str, Mapping[str, object]]
"""The settings of queues in a configuration, by their paths."""


@final
@attrs.frozen
class DumpedQueue:
    """A queue of a dump.

    Attributes:
        place: Its place in the dump.
        what: Its noun, such as ``queue``.
        name: Its name.
        parent: The name of its parent; empty for the root.
        settings: Its settings in a configuration.
        weight: Its weight; 1 if it has none.
        has_deserved: Whether it has deserved amounts, so that weights do not count.
    """

    place: str
    what: str
    name: str
    parent: str
    settings: Mapping[str, object]
    weight: int = 1
    has_deserved: bool = False


# KUBERNETES-17
def read_queue(written: dict[str, Raw], place: str, what: str) -> DumpedQueue:
    """Return a Queue of Volcano.

    Raises:
        FieldError: If a field that matters has another form than Volcano gives it.
    """
    made = _QUEUE.make(_QUEUE.shape.parse(written))
    assert isinstance(made, QueueObject)
    spec = written.get("spec")
    properties: dict[str, object] = {}
    if made.priority:
        properties["queue.priority"] = str(made.priority)
    if made.reclaimable is False:
        properties["queue.reclaimable"] = "false"
    limits = None if made.max is None else dict(made.max.amounts)
    return DumpedQueue(
        place=place,
        what=what,
        name=queue_name_of(made.name),
        parent=queue_name_of((made.parent or "").rpartition(".")[2]),
        settings=_settings(limits, made.guaranteed, properties),
        weight=made.weight or 1,
        has_deserved=isinstance(spec, dict) and bool(spec.get("deserved")),
    )


def read_quota(written: dict[str, Raw], place: str, what: str) -> DumpedQueue:
    """Return an ElasticQuota of Koordinator.

    Raises:
        FieldError: If a field that matters has another form than Koordinator gives it.
    """
    values = ELASTIC_QUOTA.parse(written)
    parent = cast("Mapping[str, str]", values.get("labels", {})).get(_QUOTA_PARENT, "")
    most = cast("Amounts | None", values.get("max"))
    least = cast("Amounts | None", values.get("min"))
    return DumpedQueue(
        place=place,
        what=what,
        name=queue_name_of(str(values["name"])),
        parent="" if parent in _QUOTA_ROOTS else queue_name_of(parent),
        settings=_settings(most, least, {}),
    )


def _settings(
    most: Amounts | None, least: Amounts | None, properties: Mapping[str, object]
) -> dict[str, object]:
    resources = {
        name: write_amounts(one) for name, one in (("guaranteed", least), ("max", most)) if one
    }
    settings: dict[str, object] = {"resources": resources} if resources else {}
    return settings | ({"properties": dict(properties)} if properties else {})


@final
class DumpedQueues:
    """The queues of a dump by their names."""

    def __init__(self) -> None:
        self._queues: dict[str, DumpedQueue] = {}

    def add(self, queue: DumpedQueue) -> DumpedQueue | None:
        """Add a queue; return the one of the same name that it replaces, or None."""
        old = self._queues.get(queue.name)
        self._queues[queue.name] = queue
        return old

    @property
    def queues(self) -> Iterable[DumpedQueue]:
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
        settings: The settings of queues.
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


WINDOW_US: Final = 600 * MICROSECONDS
"""Members that come in so long a time after the first one are those that it waits for."""

NO_WAIT: Final = "24h"
"""The default wait of gangs in a generated configuration."""


@final
@attrs.define
class _Members:
    first_us: int
    created_us: list[int] = attrs.field(factory=list[int])
    started_us: int | None = None

    def at_start(self) -> int:
        """Return how many members there were when the first of them started."""
        until = max(self.first_us + WINDOW_US, self.started_us or 0)
        if self.started_us is None:
            return len(self.created_us)
        return sum(created <= until for created in self.created_us)


@final
@attrs.frozen
class DumpedGang:
    """A gang as a feed has it.

    Attributes:
        name: Its full name.
        at_us: When its first member comes, in microseconds since 1970.
        fields: Its fields from annotations and PodGroups.
        required: How many members it needs by the dump; the feed may have fewer.
    """

    name: str
    at_us: int
    fields: GangFields
    required: int

    def event(self) -> dict[str, object]:
        """Return the event that defines it."""
        fields = self.fields
        return event_fields(
            op="add_gang",
            gang=self.name,
            min_member=fields.min_member,
            mode=str(fields.mode) if fields.mode is GangMode.NON_STRICT else None,
            wait_time=None if fields.wait_us is None else write_duration(fields.wait_us),
            groups=fields.groups or None,
        )


@final
class DumpedGangs:
    """The known gangs, and their members in the feed."""

    def __init__(self) -> None:
        self._objects: dict[str, GangFields] = {}
        self._mentioned: dict[str, GangFields] = {}
        self._members: dict[str, _Members] = {}

    def add_object(self, gang: str, fields: GangFields) -> None:
        """Record a PodGroup."""
        self._objects[gang] = fields

    def record(self, gang: str, fields: GangFields) -> None:
        """Record the fields of a gang from a pod; the first value of a field counts."""
        known = self._mentioned.get(gang)
        self._mentioned[gang] = fields if known is None else known.over(fields)

    # KUBERNETES-11
    def fields(self, gang: str) -> GangFields:
        """Return the fields of a gang; annotations override the PodGroup."""
        none = GangFields()
        return self._mentioned.get(gang, none).over(self._objects.get(gang, none))

    def least(self, gang: str) -> int:
        """Return how many members a gang needs; 0 if that is not known."""
        return self.fields(gang).min_member or 0

    def add_member(self, gang: str, at_us: int, created_us: int, started_us: int | None) -> None:
        """Record a member, in the order in which members come.

        Args:
            gang: The gang.
            at_us: When the member comes in the feed, in microseconds since 1970.
            created_us: When it was created.
            started_us: When it was bound, or None.
        """
        members = self._members.setdefault(gang, _Members(at_us))
        members.created_us.append(created_us)
        if started_us is not None:
            known = members.started_us
            members.started_us = started_us if known is None else min(known, started_us)

    def has_members(self, gang: str) -> bool:
        """Return whether a gang has members."""
        return gang in self._members

    # KUBERNETES-13
    def defined(self) -> Iterator[DumpedGang]:
        """Yield the gangs of the feed; none needs more members than there were to start it."""
        for name, members in self._members.items():
            fields = self.fields(name)
            wanted = fields.min_member or 1
            groups = tuple(one for one in fields.groups or () if one in self._members)
            least = min(wanted, members.at_start())
            kept = attrs.evolve(fields, min_member=least, groups=groups)
            yield DumpedGang(name, members.first_us, kept, wanted)


POD: Final = "pod"
NODE: Final = "node"
GROUP: Final = "pod group"
QUEUE: Final = "queue"
QUOTA: Final = "elastic quota"
CLASS: Final = "priority class"
OBJECT: Final = "object"
"""The nouns of objects where they are counted."""

AGAIN: Final = "a later record of the same one is taken"
BAD: Final = "a field has another form than Kubernetes gives it"


@final
class Inventory:
    """The objects of dumps.

    Args:
        account: Counts them.
        pods: Where the pods wait, by the instant of their creation.
        labels: The names of the labels that choose queues.

    Attributes:
        nodes: The nodes by name.
        classes: The priority classes by name, each with its place.
        groups: The PodGroups by the names of their gangs: the place and the queue of each.
        gangs: The known gangs.
        tree: The queues.
    """

    def __init__(self, account: ImportAccount, pods: Spool, labels: tuple[str, ...]) -> None:
        self._account = account
        self._pods = pods
        self._labels = labels
        self.nodes: Final[dict[str, DumpedNode]] = {}
        self.classes: Final[dict[str, tuple[AddPriorityClass, str]]] = {}
        self.groups: Final[dict[str, tuple[str, str]]] = {}
        self.gangs: Final = DumpedGangs()
        self.tree: Final = DumpedQueues()
        self._readers: Final[dict[str, tuple[str, Callable[[DumpedObject], None]]]] = {
            "Pod": (POD, self._pod),
            "Node": (NODE, self._node),
            "PodGroup": (GROUP, self._group),
            "Queue": (QUEUE, self._queue),
            "ElasticQuota": (QUOTA, self._quota),
            "PriorityClass": (CLASS, self._class),
        }

    # KUBERNETES-1
    def take(self, found: DumpedObject) -> None:
        """Take an object, or count why it is left out."""
        what, read = self._readers.get(found.kind, (OBJECT, None))
        self._account.read[what] += 1
        if found.problem is not None:
            self._account.leave_out(what, "it cannot be read", found.place, found.problem)
        elif read is None:
            kind = found.kind[:80]
            cause = f"kind {kind}, of which a feed says nothing" if kind else "has no kind"
            self._account.leave_out(what, cause, found.place)
        else:
            try:
                read(found)
            except FieldError as error:
                example = f"{_named(found.value)}: {str(error).removeprefix('.')}"
                self._account.leave_out(what, BAD, found.place, example)

    def _pod(self, found: DumpedObject) -> None:
        pod, defines = read_pod(found.value, found.place, self._labels)
        for gang, fields in defines:
            self.gangs.record(gang, fields)
        self._pods.add(pod.created_us, pod.packed())

    def _node(self, found: DumpedObject) -> None:
        node = read_node(found.value, found.place)
        name = node.fields.name
        if (old := self.nodes.get(name)) is not None:
            self._account.leave_out(NODE, AGAIN, old.place, name)
        self.nodes[name] = node

    # KUBERNETES-11
    def _group(self, found: DumpedObject) -> None:
        form = FORMS[ObjectKind.POD_GROUP]
        made = form.make(form.shape.parse(found.value))
        assert isinstance(made, AddGang)
        queue = cast("str | None", VOLCANO_GROUP.parse(found.value).get("queue"))
        if (old := self.groups.get(made.gang)) is not None:
            self._account.leave_out(GROUP, AGAIN, old[0], made.gang)
        self.groups[made.gang] = (found.place, queue or "")
        self.gangs.add_object(made.gang, made.says)

    def _queue(self, found: DumpedObject) -> None:
        self._add_queue(read_queue(found.value, found.place, QUEUE))

    def _quota(self, found: DumpedObject) -> None:
        self._add_queue(read_quota(found.value, found.place, QUOTA))

    def _add_queue(self, queue: DumpedQueue) -> None:
        if (old := self.tree.add(queue)) is not None:
            self._account.leave_out(old.what, AGAIN, old.place, queue.name)

    def _class(self, found: DumpedObject) -> None:
        name = _metadata(found.value).get("name")
        if isinstance(name, str) and not is_users_class(name):
            self._account.leave_out(CLASS, "it is built in", found.place, name)
            return
        form = FORMS[ObjectKind.PRIORITY_CLASS]
        made = form.make(form.shape.parse(found.value))
        assert isinstance(made, AddPriorityClass)
        if (old := self.classes.get(made.name)) is not None:
            self._account.leave_out(CLASS, AGAIN, old[1], made.name)
        self.classes[made.name] = (made, found.place)


def _metadata(value: dict[str, Raw]) -> dict[str, Raw]:
    found = value.get("metadata")
    return found if isinstance(found, dict) else {}


def _named(value: dict[str, Raw]) -> str:
    """Return the name of an object, for messages."""
    metadata = _metadata(value)
    parts = [metadata.get("namespace"), metadata.get("name")]
    return "/".join(str(part)[:80] for part in parts if isinstance(part, str)) or "without a name"
