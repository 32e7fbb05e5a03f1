"""What events change in the ledger: applications, asks and nodes come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never, final

import attrs

from muster.service.ledger.entries import AppEntry, AskEntry, NodeEntry
from muster.service.ledger.ring import What
from muster_core.admission.objects import NAMESPACE_TAG
from muster_core.decisions import Reason
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    BindFailed,
    Configure,
    Delete,
    FailBind,
    NodeObject,
    ObjectKind,
    ObjectName,
    Outcome,
    PodObject,
    QueueObject,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster.service.ledger.book import Book
    from muster_core.events import AppliedObject, Event
    from muster_core.structures.steps import Steps

_FEW: Final = 64
"""How many asks are added without a pause."""

_OfOne = (
    Release
    | RemoveAsk
    | AddApp
    | AddNode
    | UpdateNode
    | RemoveNode
    | Configure
    | BindFailed
    | FailBind
    | AddPriorityClass
    | AddGang
    | RemoveGang
)

# Looking up a member of an enum takes ten times as long.
_FAILED: Final = Outcome.FAILED
_CANCELLED: Final = Outcome.CANCELLED
_SAID_CANCELLED: Final = Reason.CANCELLED
_SAID_FAILED: Final = Reason.FAILED
_COMPLETED: Final = Reason.COMPLETED
_REMOVED: Final = Reason.REMOVED
_ASK_CAME: Final = int(What.ASK_CAME)


@final
class Inputs:
    """Takes up the events of a batch, in order.

    Args:
        book: What is known.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        #: The last work of the batch that could not be started.
        self._unstarted: BindFailed | None = None

    def refused(self, event: Event) -> None:
        """Count an event that was refused."""
        if type(event) is AddAsk:
            self._book.counts.refused_asks += 1
        elif type(event) is AddApp:
            self._book.counts.refused_apps += 1

    def take(self, event: Event, at_us: int) -> Steps[None]:
        """Take up an event that was admitted.

        Args:
            event: The event.
            at_us: The instant of its batch, in microseconds since the origin.
        """
        match event:
            case AddAsk():
                yield from self._add_asks(event, at_us)
            case RemoveApp():
                yield from self._remove_app(event.app)
            case Apply():
                for manifest in event.objects:
                    yield
                    self._apply(manifest.content, at_us)
            case Delete():
                for named in event.objects:
                    yield
                    self._delete(named.content, at_us)
            case _:
                self._take_one(event, at_us)

    def _take_one(self, event: _OfOne, at_us: int) -> None:
        """Take up an event about one thing at most."""
        match event:
            case Release():
                self._release(event)
            case RemoveAsk():
                self._remove_ask(event)
            case AddApp():
                self._add_app(event, at_us)
            case AddNode() | UpdateNode() | RemoveNode():
                self._change_node(event, at_us)
            case Configure():
                self._book.queues_changed = True
                self._book.configured_us = at_us
            case BindFailed():
                self._unstarted = event
            case FailBind() | AddPriorityClass() | AddGang() | RemoveGang():
                pass
            case _:
                assert_never(event)

    def take_small(self, event: Event, at_us: int) -> bool:
        """Take up an event of a kind that most events are; return False if it is not one."""
        if type(event) is AddAsk and event.count is None:
            self._add(event, (event.ask,), at_us)
        elif type(event) is Release:
            self._release(event)
        else:
            return False
        return True

    # Applications and asks

    def _add_app(self, event: AddApp, at_us: int) -> None:
        book = self._book
        book.completed.pop(event.app, None)
        book.say_leaving(event.app, at_us)
        book.put_in(AppEntry(event, at_us, event.queue or ""))
        book.ring.add(What.APP_CAME, at_us, event.app)
        book.queues_changed = True

    def _remove_app(self, name: str) -> Steps[None]:
        book = self._book
        app = book.take_out(name)
        if app is None:
            book.completed.pop(name, None)
            return
        for piece in in_pieces(app.asks.items()):
            yield
            for ask, entry in piece:
                book.ended.setdefault((name, ask), []).append((app, entry, _REMOVED))
        book.history.series.asks -= len(app.asks)
        app.asks = {}

    def _add_asks(self, event: AddAsk, at_us: int) -> Steps[None]:
        count = event.count or 1
        for first in range(0, count, _FEW):
            yield
            self._add(event, event.names(first, min(first + _FEW, count)), at_us)

    def _add(
        self, event: AddAsk, names: list[str] | tuple[str], at_us: int, namespace: str | None = None
    ) -> None:
        book = self._book
        app = book.apps.get(event.app)
        if app is None:
            book.is_stale = True
            return
        asks, retries, amounts = app.asks, event.retries, event.resources.amounts
        before = len(asks)
        for name in names:
            asks[name] = AskEntry(event, at_us, at_us, retries, None, None, None, namespace)
        book.history.series.asks += len(asks) - before
        if book.failures:  # those of earlier asks of the same names
            for name in names:
                book.failures.pop((event.app, name), None)
        if book.ring.is_open:
            owner = event.app
            book.ring.add_all([(_ASK_CAME, at_us, owner, name, amounts, "") for name in names])

    def _release(self, event: Release) -> None:
        if event.outcome is not _FAILED:
            reason = _SAID_CANCELLED if event.outcome is _CANCELLED else _COMPLETED
            self._note_exit(event, self._book.end(event.app, event.ask, reason))
            return
        app = self._book.apps.get(event.app)
        entry = None if app is None else app.asks.get(event.ask)
        if entry is not None and entry.retries:
            entry.retries -= 1
        else:
            entry = self._book.end(event.app, event.ask, _SAID_FAILED)
        self._note_exit(event, entry)

    def _note_exit(self, event: Release, entry: AskEntry | None) -> None:
        if event.exited is not None and entry is not None:
            entry.before().exited = event.exited

    def _remove_ask(self, event: RemoveAsk) -> None:
        entry, failed = self._book.end(event.app, event.ask, _REMOVED), self._unstarted
        # A scheduler with `bind_attempts` lets the two in one behind the other.
        gives_up = failed is not None and (failed.app, failed.ask) == (event.app, event.ask)
        if entry is not None and failed is not None and gives_up:
            entry.before().unstarted = failed.message or ""

    # Nodes

    def _change_node(self, event: AddNode | UpdateNode | RemoveNode, at_us: int) -> None:
        match event:
            case AddNode():
                self._add_node(event, at_us)
            case UpdateNode():
                self._update_node(event, at_us)
            case RemoveNode():
                self._remove_node(event.node, at_us)
            case _:
                assert_never(event)

    def _add_node(self, event: AddNode, at_us: int) -> None:
        self._book.put_node(NodeEntry(event, at_us))
        said = f"schedulable: {'true' if event.schedulable else 'false'}"
        self._book.ring.add(What.NODE_CAME, at_us, event.node, amounts=event.room)
        self._book.ring.add(What.NODE_READY, at_us, event.node, message=said)

    def _update_node(self, event: UpdateNode | NodeObject, at_us: int) -> None:
        book = self._book
        entry = book.nodes.get(event.node)
        if entry is None:
            book.is_stale = True
            return
        before = entry.event
        entry.event = after = attrs.evolve(
            before,
            capacity=before.capacity if event.capacity is None else event.capacity,
            attributes=before.attributes if event.attributes is None else event.attributes,
            schedulable=before.schedulable if event.schedulable is None else event.schedulable,
        )
        if isinstance(event, UpdateNode) and event.devices is not None:
            entry.event = after = attrs.evolve(after, devices=event.devices)
        if after.room != before.room:
            book.history.series.change_capacity(before.room, after.room)
            book.ring.add(What.NODE_CAPACITY, at_us, event.node, amounts=after.room)
        if after.schedulable != before.schedulable:
            said = f"schedulable: {'true' if after.schedulable else 'false'}"
            book.ring.add(What.NODE_READY, at_us, event.node, message=said)

    def _remove_node(self, name: str, at_us: int) -> None:
        if not self._book.drop_node(name):
            self._book.is_stale = True
        self._book.ring.add(What.NODE_GONE, at_us, name)

    # Kubernetes objects

    def _apply(self, content: AppliedObject, at_us: int) -> None:
        match content:
            case PodObject():
                self._apply_pod(content, at_us)
            case NodeObject():
                if content.node in self._book.nodes:
                    self._update_node(content, at_us)
                elif content.capacity is not None:
                    node, labels = content.node, content.attributes
                    self._add_node(
                        AddNode(node, content.capacity, labels, content.schedulable), at_us
                    )
            case QueueObject():
                self._book.queues_changed = True
            case AddGang() | AddPriorityClass():
                pass
            case _:
                assert_never(content)

    def _apply_pod(self, pod: PodObject, at_us: int) -> None:
        app = self._book.apps.get(pod.app)
        if app is not None and pod.name in app.asks:
            if pod.finished:
                self._book.end(pod.app, pod.name, _COMPLETED)
            return
        if pod.finished or pod.ask is None:
            return
        if app is None:
            tags = {NAMESPACE_TAG: pod.namespace}
            self._add_app(AddApp(pod.app, pod.queue, pod.user, pod.groups, tags), at_us)
        self._add(pod.ask, (pod.name,), at_us, pod.namespace)

    def _delete(self, named: ObjectName, at_us: int) -> None:
        match named.kind:
            case ObjectKind.POD:
                self._book.end(named.app or "", named.name, _REMOVED)
            case ObjectKind.NODE:
                self._remove_node(named.name, at_us)
            case ObjectKind.QUEUE:
                self._book.queues_changed = True
            case ObjectKind.POD_GROUP | ObjectKind.PRIORITY_CLASS:
                pass
            case _:
                assert_never(named.kind)
