"""Kubernetes objects: how they are applied and deleted (OBJECT-1 to OBJECT-30).

Applying a known object updates it. Several objects of one event are admitted together or not at
all: if one is refused, the changes for earlier ones are undone, and no message has been sent yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar, assert_never, final

import attrs

from muster_core.admission.admission import Admission
from muster_core.admission.placement import DEFAULT_QUEUE
from muster_core.admission.queue_tree import QueueEntry
from muster_core.admission.routes import AnyRoute
from muster_core.config.queues import canonical_path
from muster_core.owners.asks import Origin
from muster_core.values.decisions import Reason
from muster_core.values.errors import RefusedError
from muster_core.values.events import (
    ASK_ANNOTATION,
    USER_INFO,
    AddApp,
    AddGang,
    AddNode,
    AddPriorityClass,
    AppliedObject,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    PodObject,
    QueueObject,
    RemoveNode,
    UpdateNode,
)
from muster_core.values.resources import shown

T = TypeVar("T")

# OBJECT-29
NAMESPACE_TAG: Final = "namespace"
"""The tag of a Pod's application with the namespace of the Pod."""

# OBJECT-6
_WRITTEN: Final[dict[type[object] | ObjectKind, dict[str, str]]] = {
    PodObject: {
        "app": "metadata.labels.applicationId",
        "ask": "metadata.name",
        "queue": "metadata.labels.queue",
        "user": f"metadata.annotations.{USER_INFO}",
        "tags.namespace": "metadata.namespace",
        "priority": "spec.priority",
        "priority_class": "spec.priorityClassName",
        "node": "spec.nodeName",
        "annotations": "metadata.annotations",
        "containers": "spec.containers",
        "start_by": f"metadata.annotations.{ASK_ANNOTATION}.start_by",
    },
    AddGang: {"gang": "metadata.name"},
    NodeObject: {"node": "metadata.name", "capacity": "status.allocatable"},
    AddPriorityClass: {"name": "metadata.name"},
    QueueObject: {
        "name": "metadata.name",
        "parent": "spec.parent",
        "max": "spec.capability",
        "guaranteed": "spec.deserved",
    },
}
"""The names of fields in the manifests of each kind."""

_NAMES: Final = {"app": "metadata.labels.applicationId"}
"""The names of fields in a manifest to delete; ``metadata.name`` for all others."""


@final
@attrs.frozen
class Objects:
    """Admits objects."""

    _admission: Admission

    def apply(self, objects: tuple[Manifest[AppliedObject], ...], origin: Origin) -> list[AnyRoute]:
        """Create or change objects.

        Raises:
            RefusedError: If one of them is not possible now; then nothing has changed.
        """
        return self._all(objects, self._apply, origin)

    def delete(self, objects: tuple[Manifest[ObjectName], ...], origin: Origin) -> list[AnyRoute]:
        """Delete objects.

        Raises:
            RefusedError: If one of them cannot be deleted; then nothing has changed.
        """
        return self._all(objects, self._delete, origin)

    # OBJECT-5
    def _all(
        self,
        objects: tuple[Manifest[T], ...],
        admit: Callable[[T, Origin], Iterator[AnyRoute]],
        origin: Origin,
    ) -> list[AnyRoute]:
        routes: list[AnyRoute] = []
        tree = self._admission.registry.tree
        saved = tree.save() if any(_of_queue(one.content) for one in objects) else None
        with self._admission.unreported.whole(saved):
            for number, manifest in enumerate(objects):
                try:
                    # Each object has its own position in the input, as if it were its own event.
                    routes.extend(admit(manifest.content, self._admission.part(origin, number)))
                except RefusedError as refusal:
                    message = _with_manifest_field(manifest.field, manifest.content, str(refusal))
                    raise RefusedError(message) from refusal
        return routes

    # Applying

    # OBJECT-2
    def _apply(self, content: AppliedObject, origin: Origin) -> Iterator[AnyRoute]:
        admission = self._admission
        match content:
            case AddPriorityClass():
                admission.unreported.undoable(admission.registry.classes.save(content.name))
                admission.registry.classes.set(content)
            case AddGang():
                # TOPOLOGY-1
                if content.says.topology is not None:
                    msg = "topology: an object of Kubernetes cannot say it: add_gang says it"
                    raise RefusedError(msg)
                yield from admission.define_gang(content, origin, update=True)
            case NodeObject():
                yield from self._apply_node(content, origin)
            case PodObject():
                yield from self._apply_pod(content, origin)
            case QueueObject():
                target, parent = self._places(content)
                yield from admission.registry.tree.set_queue(content, target, parent)
            case _:
                assert_never(content)

    # OBJECT-8
    def _apply_node(self, node: NodeObject, origin: Origin) -> Iterator[AnyRoute]:
        if self._admission.knows_node(node.node):
            update = UpdateNode(
                node.node, node.capacity, node.attributes, node.schedulable, taints=node.taints
            )
            yield from self._admission.change_node(update, origin)
        elif node.capacity is None:
            msg = f"capacity: {node.node!r} is unknown, and it is not said what it has"
            raise RefusedError(msg)
        else:
            add = AddNode(
                node.node, node.capacity, node.attributes, node.schedulable, taints=node.taints
            )
            yield from self._admission.change_node(add, origin)

    # OBJECT-20, OBJECT-21
    def _apply_pod(self, pod: PodObject, origin: Origin) -> Iterator[AnyRoute]:
        admission = self._admission
        if admission.knows_ask(pod.app, pod.name):
            if pod.finished:
                yield from admission.end_ask(pod.app, pod.name, Reason.COMPLETED, origin)
            return
        if pod.finished:
            return
        # QUANTITY-18
        if pod.ask is None:
            msg = "containers: there are no requests: an ask has at least one type above 0"
            raise RefusedError(msg)
        # OBJECT-15
        if not admission.registry.has_app(pod.app):
            admission.unreported.undoable(admission.registry.save_app(pod.app))
            yield from admission.registry.handle(self._application(pod), origin)
        if pod.node is not None:
            yield from admission.add_placed(pod.ask, pod.node, origin)
            return
        admission.check_start(pod.ask, origin)
        if pod.ask.gang is not None:
            yield from admission.add_members(pod.ask, pod.ask.gang, origin)
        else:
            yield from admission.add_plain(pod.ask, origin)

    # OBJECT-15, OBJECT-28, OBJECT-29
    def _application(self, pod: PodObject) -> AddApp:
        """Return the event that makes the application of a Pod."""
        queue = pod.queue
        # PLACEMENT-1
        if queue is None and not self._admission.registry.has_placement_rules:
            queue = DEFAULT_QUEUE
        return AddApp(pod.app, queue, pod.user, pod.groups, {NAMESPACE_TAG: pod.namespace})

    # OBJECT-24, OBJECT-26
    def _places(self, event: QueueObject) -> tuple[QueueEntry | None, QueueEntry]:
        """Find the queue of an object, or None, and the parent if it is created."""
        root = self._admission.registry.queues["root"]
        parent = root if event.parent is None else self._find(event.parent, "parent")
        if parent is None:
            msg = f"parent: {event.parent!r} is unknown"
            raise RefusedError(msg)
        if event.parent is not None:
            return parent.children.get(event.name.lower()), parent
        return self._find(event.name, "name"), parent

    # OBJECT-24
    def _find(self, written: str, field: str) -> QueueEntry | None:
        """Find a queue by its path, or by its own name if that is unique."""
        queues = self._admission.registry.queues
        try:
            path = canonical_path(written)
        except ValueError as error:
            msg = f"{field}: {shown(written)}: {error}"
            raise RefusedError(msg) from error
        found = queues.get(path)
        if found is not None or "." in written:
            return found
        named = [entry for entry in queues.values() if entry.config.name == written.lower()]
        if len(named) > 1:
            paths = ", ".join(entry.config.path for entry in named)
            msg = f"{field}: {written!r} may be any of {paths}: name its parent"
            raise RefusedError(msg)
        return named[0] if named else None

    # Deleting

    # OBJECT-3
    def _delete(self, content: ObjectName, origin: Origin) -> Iterator[AnyRoute]:
        admission = self._admission
        kind = content.kind
        if kind is ObjectKind.POD:
            yield from self._delete_pod(content, origin)
        elif kind is ObjectKind.POD_GROUP:
            yield from admission.remove_gang(content.name, "gang", origin)
        elif kind is ObjectKind.NODE:
            yield from admission.lose_members(content.name, origin)
            yield from admission.change_node(RemoveNode(content.name), origin)
        elif kind is ObjectKind.PRIORITY_CLASS:
            admission.unreported.undoable(admission.registry.classes.save(content.name))
            admission.registry.classes.remove(content.name)
        elif kind is ObjectKind.QUEUE:
            entry = self._find(content.name, "name")
            if entry is None:
                msg = f"name: {content.name!r} is no queue"
                raise RefusedError(msg)
            yield from admission.registry.tree.remove_queue(entry)
        else:
            assert_never(kind)

    # OBJECT-22
    def _delete_pod(self, pod: ObjectName, origin: Origin) -> Iterator[AnyRoute]:
        assert pod.app is not None, "a Pod without its application"
        self._admission.registry.app_key(pod.app)
        if not self._admission.knows_ask(pod.app, pod.name):
            msg = f"ask: {pod.name!r} is no ask of application {pod.app!r}"
            raise RefusedError(msg)
        yield from self._admission.end_ask(pod.app, pod.name, Reason.REMOVED, origin)


def _of_queue(content: object) -> bool:
    if isinstance(content, ObjectName):
        return content.kind is ObjectKind.QUEUE
    return isinstance(content, QueueObject)


# OBJECT-6
def _with_manifest_field(place: str, content: object, message: str) -> str:
    """Replace the field at the start of a message by its name in the manifest."""
    field, colon, rest = message.partition(": ")
    if not colon:
        return f"{place}: {message}"
    if isinstance(content, ObjectName):
        return f"{place}.{_NAMES.get(field, 'metadata.name')}: {rest}"
    return f"{place}.{_WRITTEN[type(content)].get(field, field)}: {rest}"
