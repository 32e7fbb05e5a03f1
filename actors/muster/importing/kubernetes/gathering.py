"""What is read of a dump, until all of it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast, final

from muster.feeds._encodings.raw import Raw
from muster.feeds._fields.kinds import FieldError
from muster.feeds._objects.objects import FORMS
from muster.importing.kubernetes.dumps.objects import Found
from muster.importing.kubernetes.gangs import Gangs
from muster.importing.kubernetes.nodes import Node, read_node
from muster.importing.kubernetes.pods import read_pod
from muster.importing.kubernetes.queues import Queue, Tree, read_queue, read_quota
from muster.importing.kubernetes.shapes import VOLCANO_GROUP
from muster.importing.workload.account import Account
from muster.importing.workload.spool import Spool
from muster_core.events import AddGang, AddPriorityClass, ObjectKind
from muster_core.values.event_fields import is_users_class

POD: Final = "pod"
NODE: Final = "node"
GROUP: Final = "pod group"
QUEUE: Final = "queue"
QUOTA: Final = "elastic quota"
CLASS: Final = "priority class"
OBJECT: Final = "object"
"""What objects are called where they are counted."""

AGAIN: Final = "a later record of the same one is taken"
BAD: Final = "a field has another form than Kubernetes gives it"


@final
class Gathering:
    """The objects of dumps.

    Args:
        account: Counts them.
        pods: Where the pods wait, by the instant of their creation.
        labels: The names of the labels that choose queues.

    Attributes:
        nodes: The nodes by name.
        classes: The priority classes by name, each with its place.
        groups: The PodGroups by the names of their gangs: the place and the queue of each.
        gangs: What is known of gangs.
        tree: The queues.
    """

    def __init__(self, account: Account, pods: Spool, labels: tuple[str, ...]) -> None:
        self._account = account
        self._pods = pods
        self._labels = labels
        self.nodes: Final[dict[str, Node]] = {}
        self.classes: Final[dict[str, tuple[AddPriorityClass, str]]] = {}
        self.groups: Final[dict[str, tuple[str, str]]] = {}
        self.gangs: Final = Gangs()
        self.tree: Final = Tree()
        self._readers: Final[dict[str, tuple[str, Callable[[Found], None]]]] = {
            "Pod": (POD, self._pod),
            "Node": (NODE, self._node),
            "PodGroup": (GROUP, self._group),
            "Queue": (QUEUE, self._queue),
            "ElasticQuota": (QUOTA, self._quota),
            "PriorityClass": (CLASS, self._class),
        }

    # KUBERNETES-1
    def take(self, found: Found) -> None:
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

    def _pod(self, found: Found) -> None:
        created_us, pod, defines = read_pod(found.value, found.place, self._labels)
        for gang, fields in defines:
            self.gangs.say(gang, fields)
        self._pods.add(created_us, pod.packed())

    def _node(self, found: Found) -> None:
        node = read_node(found.value, found.place)
        old = self.nodes.get(node.name)
        if old is not None:
            self._account.leave_out(NODE, AGAIN, old.place, node.name)
        self.nodes[node.name] = node

    # KUBERNETES-11
    def _group(self, found: Found) -> None:
        form = FORMS[ObjectKind.POD_GROUP]
        made = form.make(form.shape.parse(found.value))
        assert isinstance(made, AddGang)
        queue = cast("str | None", VOLCANO_GROUP.parse(found.value).get("queue"))
        old = self.groups.get(made.gang)
        if old is not None:
            self._account.leave_out(GROUP, AGAIN, old[0], made.gang)
        self.groups[made.gang] = (found.place, queue or "")
        self.gangs.add_object(made.gang, made.says)

    def _queue(self, found: Found) -> None:
        self._add_queue(read_queue(found.value, found.place, QUEUE))

    def _quota(self, found: Found) -> None:
        self._add_queue(read_quota(found.value, found.place, QUOTA))

    def _add_queue(self, queue: Queue) -> None:
        old = self.tree.add(queue)
        if old is not None:
            self._account.leave_out(old.what, AGAIN, old.place, queue.name)

    def _class(self, found: Found) -> None:
        name = _metadata(found.value).get("name")
        if isinstance(name, str) and not is_users_class(name):
            self._account.leave_out(CLASS, "it is built in", found.place, name)
            return
        form = FORMS[ObjectKind.PRIORITY_CLASS]
        made = form.make(form.shape.parse(found.value))
        assert isinstance(made, AddPriorityClass)
        old = self.classes.get(made.name)
        if old is not None:
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
