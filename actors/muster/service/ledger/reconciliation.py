"""Reconciliation: the ledger is compared with the state where batches do not say everything.

A state directory may be older than the ledger, and its first events may be gone. An object that no
batch has brought gets an entry without the unknown instants. Reasons of pending asks are added to
the ring only while it has readers, and for the first asks only, since finding reasons takes time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import trio

from muster._errors import ClosedSchedulerError
from muster._runtime.calls import Client
from muster.service.ledger.records import AppEntry, AskEntry, NodeEntry, QueueObservation
from muster.service.ledger.state import LedgerState, YuniKornEventCode
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.nodes.node import Node
from muster_core.owners.asks import Ask
from muster_core.resources import Resources
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.devices import without_devices
from muster_core.view.tree.application import ViewApp

if TYPE_CHECKING:
    from muster.service.ledger.ledger import Ledger


def reconcile(ledger: Ledger, machine: CoordinatorMachine) -> Steps[None]:
    """Give everything that exists an entry, and nothing else.

    Args:
        ledger: The ledger, which has every announced batch.
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
        book.remove_app(name)
        book.drop_leaving(name, ledger.at_us)
    for name, app_view in apps.items():
        yield
        if name not in book.apps:
            book.add_app(_app(app_view))
            book.history.apps += app_view.state.value in ("Starting", "Running")
        yield from _reconcile_app(ledger, app_view)
    nodes = machine.view.nodes.nodes
    for name in [name for name in book.nodes if name not in nodes]:
        book.drop_node(name)
    for piece in in_pieces(nodes.values()):
        yield
        for node in piece:
            if node.name not in book.nodes:
                book.put_node(NodeEntry(_node(node), None))


def note_queues(ledger: Ledger, machine: CoordinatorMachine) -> None:
    """Add events for the queues that have come, gone or changed since the last call.

    The queues that are there at the first call have come only if the scheduler has just begun.
    """
    book = ledger.book
    book.queues_changed = False
    before = {} if book.queues is None and machine.batches <= 1 else book.queues
    now = {
        path: QueueObservation(entry.config, entry.dynamic)
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
            came = (
                YuniKornEventCode.DYNAMIC_CAME if queue.is_dynamic else YuniKornEventCode.QUEUE_CAME
            )
            ring.add(came, at_us, path)
        elif known.config is not queue.config:
            most, least = dict(queue.config.max.amounts), queue.config.guaranteed
            if queue.config.max != known.config.max:
                ring.add(YuniKornEventCode.QUEUE_MAX, at_us, path, amounts=most)
            if least != known.config.guaranteed:
                ring.add(YuniKornEventCode.QUEUE_GUARANTEED, at_us, path, amounts=least)
    for path, queue in before.items():
        if path not in now:
            ring.add(
                YuniKornEventCode.DYNAMIC_GONE
                if queue.is_dynamic
                else YuniKornEventCode.QUEUE_GONE,
                at_us,
                path,
            )
    ring.wake_readers()


def _reconcile_app(ledger: Ledger, app_view: ViewApp) -> Steps[None]:
    app, series = ledger.book.apps[app_view.identity.name], ledger.book.history.series
    names: set[str] = set()
    for piece in in_pieces(_asks(app_view)):
        yield
        for ask, node, is_bound in piece:
            names.add(ask.name)
            entry = app.asks.get(ask.name)
            if entry is None:
                entry = app.asks[ask.name] = _ask(app.event.app, ask)
                series.asks += 1
            _move(ledger.book, app, entry, node)
            if is_bound:
                ledger.book.bind(entry, entry.bound_us)
            else:
                ledger.book.unbind(entry)
    if len(app.asks) != len(names):
        for name in [name for name in app.asks if name not in names]:
            _move(ledger.book, app, app.asks.pop(name), None)
            series.asks -= 1


def _move(book: LedgerState, app: AppEntry, entry: AskEntry, node: str | None) -> None:
    """Note where an ask really is; since when is unknown."""
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


def _app(app: ViewApp) -> AppEntry:
    """Return the entry of an application that no batch has brought."""
    identity = app.identity
    user, groups = identity.user
    event = AddApp(identity.name, identity.path, user, groups)
    return AppEntry(event, None, identity.path, app.state.value)


def _ask(app: str, ask: Ask) -> AskEntry:
    """Return the entry of an ask that no batch has brought; when it came is known all the same."""
    event = AddAsk(
        app,
        ask.name,
        Resources(without_devices(ask.resources)),
        priority=ask.priority,
        node=ask.shape.node,
        selector=dict(ask.shape.selector),
        tolerations=ask.shape.tolerations,
        affinity=ask.shape.affinity,
        run_for_us=ask.run_for_us,
        gang=ask.gang,
        retries=ask.retries,
        estimate_us=ask.estimate_us,
        run_limit_us=ask.run_limit_us,
        start_by_us=ask.start_by_us,
        once=ask.once,
        devices=dict(ask.shape.devices),
    )
    return AskEntry(event, ask.came_us, None, ask.retries)


def _node(node: Node) -> AddNode:
    capacity, labels = Resources(without_devices(node.capacity)), dict(node.attributes)
    stocks = {} if node.devices is None else node.devices.stocks
    return AddNode(
        node.name, capacity, labels, node.schedulable, devices=stocks, taints=node.taints
    )


MOST: Final = 500
"""For how many asks the reported reason is remembered."""

_EXPLAINED: Final = 50
"""How many reasons are reported in words at a time; others follow the next time."""


# REST-15
def report_reasons(ledger: Ledger, machine: CoordinatorMachine) -> Steps[None]:
    """Add an event for each ask whose dominant reason is not the one reported last.

    Args:
        ledger: The ledger, which has every announced batch.
        machine: The coordinator's machine, between two batches.
    """
    book, view = ledger.book, machine.view
    if book.reported_batch == ledger.batch:
        return
    reported, left = book.reported, _EXPLAINED
    now: dict[tuple[str, str], str] = {}
    for app, ask in islice(_without_node(machine), MOST):
        yield
        key = app.identity.name, ask
        code = view.explainer.dominant(app, ask, machine.now_us).value
        if reported.get(key) == code:
            now[key] = code
        elif left:
            left -= 1
            now[key] = code
            found = machine.explain(*key)
            message = code if found is None else str(found.dominant)
            book.ring.add(YuniKornEventCode.REASON, ledger.at_us, ask, key[0], message=message)
    book.reported = now
    if left:
        book.reported_batch = ledger.batch
    book.ring.wake_readers()


def _without_node(machine: CoordinatorMachine) -> Iterator[tuple[ViewApp, str]]:
    for app in machine.view.apps.values():
        for ask in chain(app.pending, app.backing_off, app.parked):
            yield app, ask


_PAUSE_S: Final = 0.1
"""How long it is at least from one comparison to the next, in seconds."""

_REASONS_S: Final = 1.0
"""How long it is from one report of reasons to the next, in seconds."""


@asynccontextmanager
async def keep_reconciled(
    ledger: Ledger, client: Client, ends: trio.Event
) -> AsyncGenerator[None, None]:
    """Keep the ledger complete, and its ring open, for the time of a block.

    Args:
        ledger: The ledger of a scheduler that has begun.
        client: Sends calls to that scheduler.
        ends: Set when the service is to end: no event follows then.
    """
    ledger.ring.is_open = True
    await _compare(ledger, client, whole=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_keep_comparing, ledger, client)
        nursery.start_soon(_publish_reasons, ledger, client)
        nursery.start_soon(_close, ledger, ends)
        yield
        nursery.cancel_scope.cancel()


async def _compare(ledger: Ledger, client: Client, *, whole: bool) -> None:
    """Compare the ledger with the state.

    Args:
        ledger: The ledger.
        client: Sends calls to the scheduler.
        whole: Whether applications, asks and nodes are compared, and not only queues.
    """

    def read(machine: CoordinatorMachine) -> Steps[None]:
        if whole:
            yield from reconcile(ledger, machine)
        yield
        note_queues(ledger, machine)

    await client.read(read)


async def _keep_comparing(ledger: Ledger, client: Client) -> None:
    while True:
        await ledger.wait_until_stale()
        try:
            await _compare(ledger, client, whole=ledger.book.is_stale)
        except ClosedSchedulerError:
            return
        await trio.sleep(_PAUSE_S)


async def _publish_reasons(ledger: Ledger, client: Client) -> None:
    """Report why asks are not running, while the ring has readers."""
    while True:
        await trio.sleep(_REASONS_S)
        if ledger.ring.readers and ledger.book.reported_batch != ledger.batch:
            try:
                await client.read(partial(report_reasons, ledger))
            except ClosedSchedulerError:
                return


async def _close(ledger: Ledger, ends: trio.Event) -> None:
    await ends.wait()
    ledger.ring.close()
