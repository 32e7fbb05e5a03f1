"""What can be seen from outside of the state, of the model and of the real scheduler alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs

from muster_core.resources import Resources
from muster_core.snapshots import (
    AppSnapshot,
    AskSnapshot,
    GangSnapshot,
    NodeSnapshot,
    QueueSnapshot,
    Snapshot,
)
from muster_core.values.application_states import AppState
from muster_core.values.snapshots import DeviceSnapshot
from tests.naive.devices.rooms import room_of
from tests.naive.picture import Picture
from tests.naive.scheduler import NaiveScheduler, QueueState
from tests.naive.state import App, Node


@final
@attrs.frozen
class Shown:
    """The state, as maps by name.

    Attributes:
        asks: Place, node and gang of each ask.
        queues: Priority, allocated and pending resources, and whether it drains.
        apps: State and priority.
        nodes: What is used.
        gangs: Everything; of members that do not wait, no order.
    """

    asks: Mapping[str, tuple[str, str | None, str | None]]
    queues: Mapping[str, tuple[object, ...]]
    apps: Mapping[str, tuple[str, int | None]]
    nodes: Mapping[str, Mapping[str, int]]
    gangs: Mapping[str, GangSnapshot]


def shown(snapshot: Snapshot) -> Shown:
    """Give what a snapshot shows."""
    return Shown(
        asks={
            f"{app.name}/{ask.name}": (ask.place.value, ask.node, ask.gang)
            for app in snapshot.apps.values()
            for ask in app.asks
        },
        queues={
            path: (queue.priority, _some(queue.allocated), _some(queue.pending), queue.draining)
            for path, queue in snapshot.queues.items()
        },
        apps={name: (app.state.value, app.priority) for name, app in snapshot.apps.items()},
        nodes={name: _some(node.used) for name, node in snapshot.nodes.items()},
        gangs={name: _in_order(gang) for name, gang in snapshot.gangs.items()},
    )


def snapshot_of(model: NaiveScheduler, at_us: int = 0) -> Snapshot:
    """Give the snapshot of a model; what only the real scheduler counts is 0."""
    states = model.queues
    completed = {name for name, app in model.apps.items() if app.state == "Completed"}
    used = Picture(model.world).used
    return Snapshot(
        at_us=at_us,
        apps={
            name: _app(app, model.apps[name].priority)
            for name, app in model.world.apps.items()
            if name not in completed
        },
        completed=frozenset(completed),
        queues={path: _queue(path, queue) for path, queue in states.items()},
        shares={path: queue.share for path, queue in states.items()},
        nodes={
            name: NodeSnapshot(
                name,
                dict(node.capacity),
                used[name],
                node.schedulable,
                dict(node.attributes),
                devices=_devices(model, node),
            )
            for name, node in model.world.nodes.items()
        },
        gangs=model.gangs,
    )


def _app(app: App, priority: int | None) -> AppSnapshot:
    asks = tuple(
        AskSnapshot(
            ask.name,
            ask.place,
            ask.priority,
            Resources(ask.wants),
            ask.node,
            ask.gang,
            devices=ask.devices or {},
        )
        for ask in app.asks.values()
    )
    return AppSnapshot(app.name, app.queue, AppState(app.state), priority, asks)


def _devices(model: NaiveScheduler, node: Node) -> dict[str, DeviceSnapshot]:
    room = room_of(Picture(model.world), node)
    return {kind: DeviceSnapshot(room.models[kind], free) for kind, free in room.devices.items()}


def _queue(path: str, queue: QueueState) -> QueueSnapshot:
    return QueueSnapshot(
        key=0,
        path=path,
        draining=queue.state == "draining",
        priority=queue.priority,
        allocated=queue.allocated,
        pending=queue.pending,
        recomputations=0,
        children=0,
    )


def differences(want: Shown, got: Shown) -> list[str]:
    """Tell where two differ, the model first."""
    lines: list[str] = []
    for field in attrs.fields(Shown):
        ours: Mapping[str, object] = getattr(want, field.name)
        theirs: Mapping[str, object] = getattr(got, field.name)
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                lines.append(f"  {field.name} {name}:")
                lines += [f"    - {ours.get(name)}", f"    + {theirs.get(name)}"]
    return lines


def _some(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in amounts.items() if value}


def _in_order(gang: GangSnapshot) -> GangSnapshot:
    """Leave out what has no order of its own."""
    return attrs.evolve(
        gang,
        bound=tuple(sorted(gang.bound)),
        pending=tuple(sorted(gang.pending)),
        parked=tuple(sorted(gang.parked)),
    )
