"""Changes of the ledger: by events, and by the decisions that follow them.

Applications, asks and nodes come and go by events. Decisions take nodes and give them back, and
let states follow each other.
"""

from __future__ import annotations

from typing import Final, assert_never, final

import attrs

from muster.service.ledger.records import AppEntry, AskEntry, NodeEntry, StartFailure
from muster.service.ledger.state import LedgerState, YuniKornEventCode
from muster_core import events
from muster_core.admission.objects import NAMESPACE_TAG
from muster_core.decisions import Announced, Decision, Kind, Reason, ends_ask
from muster_core.structures.steps import Steps, in_pieces

_FEW: Final = 64
"""How many asks are added without a pause."""

_ASK_CAME: Final = int(YuniKornEventCode.ASK_CAME)


@final
class EventChanges:
    """Applies the events of a batch, in order.

    Args:
        book: The state of the ledger.
    """

    def __init__(self, book: LedgerState) -> None:
        self._book = book
        #: The last work of the batch that could not be started.
        self._unstarted: events.BindFailed | None = None

    def count_refused(self, event: events.Event) -> None:
        """Count an event that was refused."""
        if type(event) is events.AddAsk:
            self._book.counts.refused_asks += 1
        elif type(event) is events.AddApp:
            self._book.counts.refused_apps += 1

    def take(self, event: events.Event, at_us: int) -> Steps[None]:
        """Apply an event that was admitted.

        Args:
            event: The event.
            at_us: The instant of its batch, in microseconds since the origin.
        """
        match event:
            case events.AddAsk():
                yield from self._add_asks(event, at_us)
            case events.RemoveApp():
                yield from self._remove_app(event.app)
            case events.Apply():
                for manifest in event.objects:
                    yield
                    self._apply(manifest.content, at_us)
            case events.Delete():
                for named in event.objects:
                    yield
                    self._delete(named.content, at_us)
            case _:
                self._take_one(event, at_us)

    def _take_one(self, event: events.Event, at_us: int) -> None:
        """Apply an event about one object at most."""
        match event:
            case events.Release():
                self._release(event)
            case events.RemoveAsk():
                self._remove_ask(event)
            case events.AddApp():
                self._add_app(event, at_us)
            case events.AddNode() | events.UpdateNode() | events.RemoveNode():
                self._change_node(event, at_us)
            case events.Configure():
                self._book.queues_changed = True
                self._book.configured_us = at_us
            case events.BindFailed():
                self._unstarted = event
            case _:
                pass  # No list shows the objects of other events.

    def take_small(self, event: events.Event, at_us: int) -> bool:
        """Apply an event of one of the commonest kinds; return False if it is of another kind."""
        if type(event) is events.AddAsk and event.count is None:
            self._add(event, (event.ask,), at_us)
        elif type(event) is events.Release:
            self._release(event)
        else:
            return False
        return True

    # Applications and asks

    def _add_app(self, event: events.AddApp, at_us: int) -> None:
        book = self._book
        book.completed.pop(event.app, None)
        book.announce_leaving(event.app, at_us)
        book.add_app(AppEntry(event, at_us, event.queue or ""))
        book.ring.add(YuniKornEventCode.APP_CAME, at_us, event.app)
        book.queues_changed = True

    def _remove_app(self, name: str) -> Steps[None]:
        book = self._book
        app = book.remove_app(name)
        if app is None:
            book.completed.pop(name, None)
            return
        for piece in in_pieces(app.asks.items()):
            yield
            for ask, entry in piece:
                book.ended.setdefault((name, ask), []).append((app, entry, Reason.REMOVED))
        book.history.series.asks -= len(app.asks)
        app.asks = {}

    def _add_asks(self, event: events.AddAsk, at_us: int) -> Steps[None]:
        count = event.count or 1
        for first in range(0, count, _FEW):
            yield
            self._add(event, event.names(first, min(first + _FEW, count)), at_us)

    def _add(
        self,
        event: events.AddAsk,
        names: list[str] | tuple[str],
        at_us: int,
        namespace: str | None = None,
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

    def _release(self, event: events.Release) -> None:
        if event.outcome is not events.Outcome.FAILED:
            reason = (
                Reason.CANCELLED if event.outcome is events.Outcome.CANCELLED else Reason.COMPLETED
            )
            self._note_exit(event, self._book.end(event.app, event.ask, reason))
            return
        app = self._book.apps.get(event.app)
        entry = None if app is None else app.asks.get(event.ask)
        if entry is not None and entry.retries:
            entry.retries -= 1
        else:
            entry = self._book.end(event.app, event.ask, Reason.FAILED)
        self._note_exit(event, entry)

    def _note_exit(self, event: events.Release, entry: AskEntry | None) -> None:
        if event.exited is not None and entry is not None:
            entry.before().exited = event.exited

    def _remove_ask(self, event: events.RemoveAsk) -> None:
        entry, failed = self._book.end(event.app, event.ask, Reason.REMOVED), self._unstarted
        # A scheduler with `bind_attempts` lets the two in one behind the other.
        gives_up = failed is not None and (failed.app, failed.ask) == (event.app, event.ask)
        if entry is not None and failed is not None and gives_up:
            entry.before().unstarted = failed.message or ""

    # Nodes

    def _change_node(
        self, event: events.AddNode | events.UpdateNode | events.RemoveNode, at_us: int
    ) -> None:
        match event:
            case events.AddNode():
                self._add_node(event, at_us)
            case events.UpdateNode():
                self._update_node(event, at_us)
            case events.RemoveNode():
                self._remove_node(event.node, at_us)
            case _:
                assert_never(event)

    def _add_node(self, event: events.AddNode, at_us: int) -> None:
        self._book.put_node(NodeEntry(event, at_us))
        detail = f"schedulable: {'true' if event.schedulable else 'false'}"
        self._book.ring.add(YuniKornEventCode.NODE_CAME, at_us, event.node, amounts=event.room)
        self._book.ring.add(YuniKornEventCode.NODE_READY, at_us, event.node, message=detail)

    def _update_node(self, event: events.UpdateNode | events.NodeObject, at_us: int) -> None:
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
            taints=before.taints if event.taints is None else event.taints,
        )
        if isinstance(event, events.UpdateNode) and event.devices is not None:
            entry.event = after = attrs.evolve(after, devices=event.devices)
        if after.room != before.room:
            book.history.series.change_capacity(before.room, after.room)
            book.ring.add(YuniKornEventCode.NODE_CAPACITY, at_us, event.node, amounts=after.room)
        if after.schedulable != before.schedulable:
            detail = f"schedulable: {'true' if after.schedulable else 'false'}"
            book.ring.add(YuniKornEventCode.NODE_READY, at_us, event.node, message=detail)

    def _remove_node(self, name: str, at_us: int) -> None:
        if not self._book.drop_node(name):
            self._book.is_stale = True
        self._book.ring.add(YuniKornEventCode.NODE_GONE, at_us, name)

    # Kubernetes objects

    def _apply(self, content: events.AppliedObject, at_us: int) -> None:
        match content:
            case events.PodObject():
                self._apply_pod(content, at_us)
            case events.NodeObject():
                if content.node in self._book.nodes:
                    self._update_node(content, at_us)
                elif content.capacity is not None:
                    node, labels = content.node, content.attributes
                    is_open, taints = content.schedulable, content.taints
                    added = events.AddNode(node, content.capacity, labels, is_open, taints=taints)
                    self._add_node(added, at_us)
            case events.QueueObject():
                self._book.queues_changed = True
            case events.AddGang() | events.AddPriorityClass():
                pass
            case _:
                assert_never(content)

    def _apply_pod(self, pod: events.PodObject, at_us: int) -> None:
        app = self._book.apps.get(pod.app)
        if app is not None and pod.name in app.asks:
            if pod.finished:
                self._book.end(pod.app, pod.name, Reason.COMPLETED)
            return
        if pod.finished or pod.ask is None:
            return
        if app is None:
            tags = {NAMESPACE_TAG: pod.namespace}
            self._add_app(events.AddApp(pod.app, pod.queue, pod.user, pod.groups, tags), at_us)
        self._add(pod.ask, (pod.name,), at_us, pod.namespace)

    def _delete(self, named: events.ObjectName, at_us: int) -> None:
        match named.kind:
            case events.ObjectKind.POD:
                self._book.end(named.app or "", named.name, Reason.REMOVED)
            case events.ObjectKind.NODE:
                self._remove_node(named.name, at_us)
            case events.ObjectKind.QUEUE:
                self._book.queues_changed = True
            case events.ObjectKind.POD_GROUP | events.ObjectKind.PRIORITY_CLASS:
                pass
            case _:
                assert_never(named.kind)


_ALLOCATED: Final = int(YuniKornEventCode.ALLOCATED)
_NODE_TAKEN: Final = int(YuniKornEventCode.NODE_TAKEN)
_NODE_FREED: Final = int(YuniKornEventCode.NODE_FREED)
_REASON: Final = int(YuniKornEventCode.REASON)
_ASK_REMOVED: Final = int(YuniKornEventCode.ASK_REMOVED)
_ASK_EXPIRED: Final = int(YuniKornEventCode.ASK_EXPIRED)
_CANCELLED_CODE: Final = int(YuniKornEventCode.CANCELLED)

_STATES: Final = {
    "Accepted": int(YuniKornEventCode.APP_ACCEPTED),
    "Running": int(YuniKornEventCode.APP_RUNNING),
    "Completing": int(YuniKornEventCode.APP_COMPLETING),
    "Completed": int(YuniKornEventCode.APP_COMPLETED),
}

_FREED: Final = {
    Reason.PREEMPTED: int(YuniKornEventCode.PREEMPTED),
    Reason.RECLAIMED: int(YuniKornEventCode.PREEMPTED),
    Reason.GANG_ROLLBACK: int(YuniKornEventCode.TIMED_OUT),
    Reason.GANG_TIMEOUT: int(YuniKornEventCode.TIMED_OUT),
    Reason.DEADLOCK: int(YuniKornEventCode.TIMED_OUT),
    Reason.RUN_LIMIT: int(YuniKornEventCode.TIMED_OUT),
    Reason.EXPIRED: int(YuniKornEventCode.TIMED_OUT),
    Reason.NODE_LOST: int(YuniKornEventCode.NODE_LOST),
}
"""The code of a release from a node, by its reason; any other is a cancellation."""

_VICTIMS: Final = {
    Reason.PREEMPTED: "preempted on {node}: an ask of a class that preempts took its place",
    Reason.RECLAIMED: "reclaimed on {node}: a queue below its guaranteed resources took its place",
}
"""The message about a victim, by the reason."""


@final
class DecisionChanges:
    """Applies the decisions of a batch, in order, after its events.

    Args:
        book: The state of the ledger.
    """

    def __init__(self, book: LedgerState) -> None:
        self._book = book

    def take(self, announced: Announced) -> None:
        """Apply a decision."""
        decision, at_us = announced.decision, announced.at_us
        kind = decision.kind
        if kind is Kind.BOUND or kind is Kind.WAITING:
            self._take_placement(decision, at_us, is_bound=kind is Kind.BOUND)
        elif kind is Kind.RELEASED:
            self._take_release(decision, announced.seq, at_us)
        elif kind is Kind.APP_STATE:
            self._take_state(decision, at_us)

    def end(self, at_us: int) -> None:
        """End a batch: forget the asks and applications that it has ended."""
        book = self._book
        for name in list(book.leaving):
            while name in book.leaving:
                book.drop_leaving(name, at_us)
        if book.ended:  # No decision named them, which should not happen.
            for others in book.ended.values():
                for app, entry, _ in others:
                    if entry.node is not None:
                        book.give_back(app, entry, at_us)
            book.ended.clear()
            book.is_stale = True

    def _find(self, decision: Decision) -> tuple[AppEntry, AskEntry] | None:
        """Return the ask that a decision is about, with its application."""
        book = self._book
        name, ask = decision.app or "", decision.ask or ""
        if book.ended:
            ended = book.ended.get((name, ask))
            if ended is not None:
                return ended[0][:2]
        app = book.apps.get(name)
        entry = None if app is None else app.asks.get(ask)
        if app is None or entry is None:
            book.is_stale = True
            return None
        return app, entry

    def _take_placement(self, decision: Decision, at_us: int, *, is_bound: bool) -> None:
        found = self._find(decision)
        if found is None:
            return
        app, entry = found
        node = decision.node or ""
        if entry.node is None:
            book = self._book
            book.take(app, entry, node, at_us)
            counts = book.counts
            counts.allocated += 1
            counts.of(app.queue).allocated += 1
            if book.ring.is_open:
                name, ask = entry.event.app, decision.ask or ""
                amounts = entry.event.wanted.amounts
                book.ring.add_two(
                    (_ALLOCATED, at_us, name, ask, amounts, ""),
                    (_NODE_TAKEN, at_us, node, ask, amounts, ""),
                )
        if is_bound:
            self._book.bind(entry, at_us)
            if entry.since_us is not None:
                self._book.history.series.note_wait(at_us - entry.since_us)
            if app.ran_us is None:
                app.ran_us = at_us

    def _take_release(self, decision: Decision, seq: int, at_us: int) -> None:
        found = self._find(decision)
        if found is None:
            return
        app, entry = found
        book = self._book
        if decision.node is None:
            is_late = decision.reason is Reason.EXPIRED
            if is_late and book.failures:
                book.failures.pop((decision.app or "", decision.ask or ""), None)
            self._add_ring_events(_ASK_EXPIRED if is_late else _ASK_REMOVED, decision, entry, at_us)
        else:
            self._note_freed_node(decision, app, entry, at_us)
        if self._end(decision, app, entry):
            book.lives.end(seq, at_us, decision, app, entry)
            if entry.node is not None:
                book.give_back(app, entry, at_us)
        elif decision.node is not None:
            if entry.node is not None:
                book.lose(app, entry, at_us)
            entry.since_us = at_us

    def _end(self, decision: Decision, app: AppEntry, entry: AskEntry) -> bool:
        """Forget an ask, if it is gone; return whether it is."""
        book, reason = self._book, decision.reason
        if not ends_ask(reason, 0, once=entry.is_bound and entry.event.once):
            return False  # It wants a node again.
        name, ask = decision.app or "", decision.ask or ""
        ended = book.ended.get((name, ask)) if book.ended else None
        if ended is not None:
            if ended[0][2] is not reason:
                return False
            ended.pop(0)
            if not ended:
                del book.ended[name, ask]
            return True
        if reason is Reason.FAILED:  # Without a retry left, the event has ended it.
            return False
        del app.asks[ask]
        book.history.series.asks -= 1
        return True

    def _note_freed_node(
        self, decision: Decision, app: AppEntry, entry: AskEntry, at_us: int
    ) -> None:
        """Count and report that an ask has left its node."""
        book, reason, node = self._book, decision.reason, decision.node or ""
        counts = book.counts
        if reason is Reason.BIND_FAILED:
            counts.failed_binds += 1
            if decision.message is not None:
                failure = StartFailure(node, decision.message)
                book.note_failure(decision.app or "", decision.ask or "", failure)
        elif book.failures and reason is not Reason.REMOVED:
            book.failures.pop((decision.app or "", decision.ask or ""), None)
        if entry.node is not None:
            counts.released += 1
            counts.of(app.queue).released += 1
        if not book.ring.is_open:
            return
        what = _CANCELLED_CODE if reason is None else _FREED.get(reason, _CANCELLED_CODE)
        self._add_ring_events(what, decision, entry, at_us)
        name, ask, amounts = decision.app or "", decision.ask or "", entry.event.wanted.amounts
        book.ring.add(_NODE_FREED, at_us, node, ask, amounts)
        victim = None if reason is None else _VICTIMS.get(reason)
        if victim is not None:
            # QUOTA-13
            is_over = decision.over_max is not None
            message = (
                f"preempted on {node}: {decision.message}" if is_over else victim.format(node=node)
            )
            book.ring.add(_REASON, at_us, ask, name, amounts, message)

    def _add_ring_events(self, what: int, decision: Decision, entry: AskEntry, at_us: int) -> None:
        if self._book.ring.is_open:
            app, ask, amounts = decision.app or "", decision.ask or "", entry.event.wanted
            # The reason is a text; to make it a plain one would take as long as all the rest.
            self._book.ring.add(what, at_us, app, ask, amounts.amounts, decision.reason or "")

    def _take_state(self, decision: Decision, at_us: int) -> None:
        """Note the new state of an application."""
        book = self._book
        name, state = decision.app or "", decision.state or ""
        if state == "New":
            self._note_new_app(name, decision.queue or "", at_us)
            return
        app = book.app_of(name)
        if app is None:
            book.is_stale = True
            return
        app.queue = decision.queue or app.queue
        book.enter(app, state, at_us)
        if state in _STATES:
            book.ring.add(_STATES[state], at_us, name)
        if state == "Accepted":
            book.counts.accepted_apps += 1
        elif state == "Completed":
            book.counts.completed_apps += 1
            book.counts.of(app.queue).completed += 1
            if book.apps.get(name) is app:
                del book.apps[name]
                app.account.apps -= 1
                book.complete(app)
                book.announce_removed(app, at_us)

    def _note_new_app(self, name: str, queue: str, at_us: int) -> None:
        """Note that an application is new."""
        book = self._book
        while name in book.leaving:
            first = book.leaving[name][0]
            if first.came_us == at_us and not first.states:
                break  # It has come and gone in this batch.
            book.drop_leaving(name, at_us)
        app = book.app_of(name)
        if app is None:
            book.is_stale = True
            return
        app.queue = queue
        app.states.append((at_us, "New"))
        book.counts.new_apps += 1
        book.ring.add(YuniKornEventCode.QUEUE_APP_CAME, at_us, queue, name)
