"""What is there when a feed begins with a checkpoint, for those who follow a replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import final

import attrs

from muster_core.events import AddAsk
from muster_core.facts import AppFacts, Facts
from muster_core.owners.messages.asks import Ask
from muster_core.resources import Resources
from muster_core.snapshots import Snapshot
from muster_core.values.devices import TakenDevices, without_devices
from muster_core.values.priority import BUILT_IN_CLASSES, PriorityClass


@final
@attrs.frozen
class OldAsk:
    """An ask that is there already.

    Attributes:
        app: Its application.
        ask: The ask.
        node: The node that it holds, or None.
        is_bound: Whether it is bound there, and does not only wait.
        was_bound: Whether it is bound, or was bound before; an ask in no gang that has lost its
            node was bound.
        devices: The numbers of the devices that it holds, by type.
    """

    app: str
    ask: Ask
    node: str | None = None
    is_bound: bool = False
    was_bound: bool = False
    devices: TakenDevices = ()


@final
@attrs.frozen
class Beginning:
    """The state with which a feed begins.

    Attributes:
        at_us: Its instant, in microseconds since the start.
        has_rules: Whether placement rules choose the queues of applications.
        nodes: The capacity of each node.
        apps: The path of the queue of each application.
        users: The user of each application, or None.
        asks: All asks.
        priorities: The ``currentPriority`` of each queue that has one, by path.
    """

    at_us: int
    has_rules: bool
    nodes: Mapping[str, Resources]
    apps: Mapping[str, str]
    users: Mapping[str, str | None]
    asks: tuple[OldAsk, ...]
    priorities: Mapping[str, int]


def beginning_of(facts: Facts, snapshot: Snapshot) -> Beginning:
    """Return the state of a checkpoint.

    Args:
        facts: The checkpoint.
        snapshot: Of a scheduler that was loaded from it.
    """
    own = facts.coordinator
    lost = {(app, ask) for app, ask, _ in own.view.timers.pending_since}
    return Beginning(
        own.now_us,
        bool(facts.configuration.placement_rules),
        {node.name: Resources(dict(node.capacity)) for node in own.view.nodes},
        {app.identity.name: app.identity.path for app in facts.apps},
        {app.identity.name: app.identity.user[0] for app in facts.apps},
        tuple(ask for app in facts.apps for ask in _asks(app, lost)),
        {
            path: queue.priority
            for path, queue in snapshot.queues.items()
            if queue.priority is not None
        },
    )


def _asks(app: AppFacts, lost: set[tuple[int, str]]) -> Iterator[OldAsk]:
    name, key = app.identity.name, app.identity.key
    for held in app.bound:
        taken = held.devices
        yield OldAsk(name, held.ask, held.node, is_bound=True, was_bound=True, devices=taken)
    for held in app.waiting:
        yield OldAsk(name, held.ask, held.node, devices=held.devices)
    for ask in (*app.pending, *app.parked):
        was_bound = ask.gang is None and (key, ask.name) in lost
        yield OldAsk(name, ask, was_bound=was_bound)


def event_of(app: str, ask: Ask, classes: Iterable[PriorityClass]) -> AddAsk:
    """Return an event that adds an ask like one that is there.

    It leaves out what annotations say of a gang, and that asks of one event belong together. If
    the ask may preempt, that needs a class with its priority.

    Args:
        app: The application.
        ask: The ask.
        classes: The priority classes of users.
    """
    named = None
    if ask.preempts:
        known = (*BUILT_IN_CLASSES, *classes)
        wanted = (ask.priority, True)
        named = next((one.name for one in known if (one.value, one.preempts) == wanted), None)
    return AddAsk(
        app,
        ask.name,
        Resources(without_devices(ask.resources)),
        priority=ask.priority if named is None else None,
        priority_class=named,
        node=ask.shape.node,
        selector=dict(ask.shape.selector),
        run_for_us=ask.run_for_us,
        gang=ask.gang,
        retries=ask.retries,
        work=ask.work,
        estimate_us=ask.estimate_us,
        devices=dict(ask.shape.devices),
    )
