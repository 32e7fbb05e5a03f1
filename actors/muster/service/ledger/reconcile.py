"""Comparing the ledger with the state, where events and decisions do not say everything.

A state directory may be older than the ledger, and its first events may be gone. What exists and was
never heard of gets an entry without the instants that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from muster.service.ledger.entries import AppEntry, AskEntry, NodeEntry, QueueSeen
from muster.service.ledger.ring import What
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.resources import Resources
from muster_core.structures.steps import in_pieces
from muster_core.values.devices import without_devices

if TYPE_CHECKING:
    from muster.service.ledger.book import Book
    from muster.service.ledger.ledger import Ledger
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp


def reconcile(ledger: Ledger, machine: CoordinatorMachine) -> Steps[None]:
    """Give everything that exists an entry, and nothing else.

    Args:
        ledger: The ledger, which has heard of everything that was announced.
        machine: The coordinator's machine, between two batches.
    """
    book = ledger.book
    book.is_stale = False
    apps = {app.identity.name: app for app in machine.view.apps.values()}
    for name in [name for name in book.apps if name not in apps]:
        yield
        app = book.apps[name]
        for ask in app.asks.values():
            _move(book, app, ask, None)
        book.history.series.asks -= len(app.asks)
        book.take_out(name)
        book.let_go(name, ledger.at_us)
    for name, seen in apps.items():
        yield
        if name not in book.apps:
            book.put_in(_app(seen))
            book.history.apps += seen.state.value in ("Starting", "Running")
        yield from _reconcile_app(ledger, seen)
    nodes = machine.view.nodes.nodes
    for name in [name for name in book.nodes if name not in nodes]:
        book.drop_node(name)
    for piece in in_pieces(nodes.values()):
        yield
        for node in piece:
            if node.name not in book.nodes:
                book.put_node(NodeEntry(_node(node), None))


def note_queues(ledger: Ledger, machine: CoordinatorMachine) -> None:
    """Tell the ring which queues have come, gone or changed since this was called last.

    The queues that are there at the first call have come only if the scheduler has just begun.
    """
    book = ledger.book
    book.queues_changed = False
    before = {} if book.queues is None and machine.batches <= 1 else book.queues
    now = {
        path: QueueSeen(entry.config, entry.dynamic)
        for path, entry in machine.registry.queues.items()
    }
    book.queues = now
    for path in [path for path in book.counts.queues if path not in now]:
        del book.counts.queues[path]
    if before is None:
        return
    ring, at_us = book.ring, ledger.at_us
    for path, queue in now.items():
        known = before.get(path)
        if known is None:
            came = What.DYNAMIC_CAME if queue.is_dynamic else What.QUEUE_CAME
            ring.add(came, at_us, path)
        elif known.config is not queue.config:
            most, least = dict(queue.config.max.amounts), queue.config.guaranteed
            if queue.config.max != known.config.max:
                ring.add(What.QUEUE_MAX, at_us, path, amounts=most)
            if least != known.config.guaranteed:
                ring.add(What.QUEUE_GUARANTEED, at_us, path, amounts=least)
    for path, queue in before.items():
        if path not in now:
            ring.add(What.DYNAMIC_GONE if queue.is_dynamic else What.QUEUE_GONE, at_us, path)
    ring.tell()


def _reconcile_app(ledger: Ledger, seen: ViewApp) -> Steps[None]:
    app, series = ledger.book.apps[seen.identity.name], ledger.book.history.series
    there: set[str] = set()
    for piece in in_pieces(_asks(seen)):
        yield
        for ask, node, is_bound in piece:
            there.add(ask.name)
            entry = app.asks.get(ask.name)
            if entry is None:
                entry = app.asks[ask.name] = _ask(app.event.app, ask)
                series.asks += 1
            _move(ledger.book, app, entry, node)
            if is_bound:
                ledger.book.bind(entry, entry.bound_us)
            else:
                ledger.book.unbind(entry)
    if len(app.asks) != len(there):
        for name in [name for name in app.asks if name not in there]:
            _move(ledger.book, app, app.asks.pop(name), None)
            series.asks -= 1


def _move(book: Book, app: AppEntry, entry: AskEntry, node: str | None) -> None:
    """Note where an ask really is; since when is not known."""
    if entry.node == node:
        return
    if entry.node is not None:
        book.give_back(app, entry, None)
    if node is not None:
        book.take(app, entry, node, None)


def _asks(app: ViewApp) -> Iterator[tuple[Ask, str | None, bool]]:
    """Yield all asks of an application, with their nodes, and whether they are bound."""
    for place in (app.pending, app.backing_off, app.parked):
        yield from ((ask, None, False) for ask in place.values())
    for allocation, node in app.waiting.values():
        yield allocation.ask, node.name, False
    for allocation, node in app.bound.values():
        yield allocation.ask, node.name, True


def _app(seen: ViewApp) -> AppEntry:
    """Return the entry of an application that was never heard of."""
    identity = seen.identity
    user, groups = identity.user
    event = AddApp(identity.name, identity.path, user, groups)
    return AppEntry(event, None, identity.path, seen.state.value)


def _ask(app: str, ask: Ask) -> AskEntry:
    """Return the entry of an ask that was never heard of; when it came is known all the same."""
    event = AddAsk(
        app,
        ask.name,
        Resources(without_devices(ask.resources)),
        priority=ask.priority,
        node=ask.shape.node,
        selector=dict(ask.shape.selector),
        run_for_us=ask.run_for_us,
        gang=ask.gang,
        retries=ask.retries,
        estimate_us=ask.estimate_us,
        devices=dict(ask.shape.devices),
    )
    return AskEntry(event, ask.came_us, None, ask.retries)


def _node(node: Node) -> AddNode:
    capacity, labels = Resources(without_devices(node.capacity)), dict(node.attributes)
    stocks = {} if node.devices is None else node.devices.stocks
    return AddNode(node.name, capacity, labels, node.schedulable, devices=stocks)
