"""The naive scheduler: batches in, decisions out, and what can be seen from outside, as of the
real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import attrs

from muster_core.decisions import Decision, Kind, Reason
from muster_core.errors import RefusedError
from muster_core.events import Event
from muster_core.resources import Resources
from muster_core.snapshots import (
    AppSnapshot,
    AskPlace,
    AskSnapshot,
    GangSnapshot,
    NodeSnapshot,
    QueueSnapshot,
    ReservationSnapshot,
    Snapshot,
    UsageSnapshot,
)
from muster_core.values.application_states import AppState
from muster_core.values.snapshots import DeviceSnapshot
from tests.naive import arrivals, directory, gangs, quota, rounds, state, usage
from tests.naive.arrivals import complete
from tests.naive.directory import configured
from tests.naive.picture import Picture, room_of
from tests.naive.reasons import Account, account_for
from tests.naive.rounds import run_rounds
from tests.naive.state import App, Ask, Gang, Node, Rounds, World, note_failed_binds


@final
@attrs.frozen
class QueueState:
    """What can be read of a queue; of one that does not exist only that it does not."""

    exists: bool
    priority: int | None = None
    allocated: dict[str, int] = attrs.field(factory=dict[str, int])
    pending: dict[str, int] = attrs.field(factory=dict[str, int])
    share: float = 0.0
    state: str | None = None


@final
@attrs.frozen
class AppView:
    """What can be read of an application."""

    state: str
    priority: int | None


class NaiveScheduler:
    """The oracle: the specification carried out as it reads, as slowly as it reads."""

    def __init__(self) -> None:
        self.world = World()
        self.world.queues["root"] = configured(self.world.config.root)
        self._announced: dict[str, int | None] = {}
        self._now_us = 0

    def batch(self, at_us: int, entries: Sequence[tuple[int, Event | str]]) -> list[Decision]:
        """Work off one batch: the timers due, the events, the rounds.

        Args:
            at_us: The instant, in microseconds since the start.
            entries: The index of each event, and the event or why it is unusable.

        Returns:
            What was decided, in order.
        """
        self.begin(at_us)
        for index, entry in entries:
            self.enter(index, entry, at_us)
        return self.close(at_us)

    def begin(self, at_us: int) -> None:
        """Begin a batch: the ticks that have ended, and the timers that are due."""
        usage.pass_to(self.world, at_us)
        self._now_us = self.world.now_us = at_us
        self.world.searches.clear()
        deadlines = self._deadlines()
        if any(deadline <= at_us for deadline in deadlines):
            state.forget(self.world)
        for ask in self.world.bound():
            if ask.ends_at is not None and ask.ends_at <= at_us:
                complete(self.world, ask, at_us)
        gangs.timers(self.world, at_us)
        directory.timers(self.world, at_us)
        arrivals.run_out(self.world, at_us)
        gangs.retries(self.world, at_us)
        arrivals.expire(self.world, at_us)

    def enter(self, index: int, entry: Event | str, at_us: int) -> None:
        """Take the next event of the batch, or why it is unusable."""
        world = self.world
        world.positions += 1
        state.forget(self.world)
        if isinstance(entry, str):
            world.log.append(Decision(Kind.REJECTED, message=entry, index=index))
            return
        try:
            arrivals.take(world, entry, at_us)
        except RefusedError as refusal:
            world.log.append(Decision(Kind.REJECTED, message=str(refusal), index=index))

    def close(self, at_us: int) -> list[Decision]:
        """Close the batch: rounds, deadlocks, clocks, priorities; return what it decided."""
        self._run(at_us)
        gangs.keep_clocks(self.world, at_us)
        for gang in self.world.gangs.values():
            gang.timeouts = 0 if gang.satisfied else gang.timeouts
        self._announce_priorities()
        self._announce_reservations()
        note_failed_binds(self.world)
        quota.note_over(self.world)
        log, self.world.log = self.world.log, []
        return log

    def _run(self, at_us: int) -> None:
        """Do rounds, then what helps those that they could not, until nothing changes."""
        world = self.world
        states = {name: (app.state, app.deadline) for name, app in world.apps.items()}
        world.rounds = Rounds(len(world.log), states)
        failures = _failures(world)
        world.deserved = Picture(world).deserve()
        while True:
            run_rounds(world, at_us)
            known, failures = failures, _failures(world)
            if failures != known:
                state.forget(world)
            helped = quota.help_one(world, at_us)
            if not helped and not rounds.resolve(world, at_us):
                break
        world.rounds = Rounds()
        world.deserved = Picture(world).deserve()

    def next_deadline(self) -> int | None:
        """Return the instant of the next timer in microseconds, or None."""
        delays = quota.deadlines(self.world, self._now_us)
        ends = state.deadlines(self.world)
        return min([*self._deadlines(), *delays, *ends], default=None)

    def _deadlines(self) -> list[int]:
        """Return the instants of all timers but the ends of delays, in microseconds."""
        ends = [ask.ends_at for ask in self.world.bound()]
        ends += [gangs.deadline(self.world, gang) for gang in self.world.gangs.values()]
        ends += [gangs.retry_at_us(self.world, gang) for gang in self.world.gangs.values()]
        ends += [app.deadline for app in self.world.in_queues()]
        ends += [arrivals.limit_end(ask) for ask in self.world.bound()]
        unbound = [ask for ask in self.world.asks() if ask.place is not AskPlace.BOUND]
        ends += [
            ask.start_by_us
            for ask in unbound
            if ask.start_by_us is not None and ask.start_by_us >= self._now_us
        ]
        return [end for end in ends if end is not None]

    def _announce_priorities(self) -> None:
        picture = Picture(self.world)
        now = {path: picture.queue_priority(path) for path in self.world.queues}
        for path in sorted(now):
            if now[path] != self._announced.get(path):
                self.world.log.append(Decision(Kind.QUEUE_PRIORITY, queue=path, priority=now[path]))
        self._announced = now

    def _announce_reservations(self) -> None:
        """Announce the new and changed reservations of the last round, in their order."""
        now = {
            ask: Decision(
                Kind.RESERVED,
                app=ask.app.name,
                ask=ask.name,
                node=node,
                start_us=reservation.start.start_us,
            )
            for reservation in self.world.reserved
            for ask, node in reservation.nodes
        }
        known = self.world.announced
        self.world.log += [decision for ask, decision in now.items() if decision != known.get(ask)]
        self.world.announced = now

    @property
    def bound(self) -> list[tuple[str, str]]:
        """The bound asks as ``(app/ask, node)``, in the order in which they were bound."""
        return [(full_name(ask), ask.node or "") for ask in self.world.bound()]

    @property
    def waiting(self) -> list[tuple[str, str]]:
        """The waiting asks as ``(app/ask, node)``, in the order in which they began to wait."""
        return [(full_name(ask), ask.node or "") for ask in self.world.waiting()]

    @property
    def pending(self) -> set[str]:
        """The pending asks as ``app/ask``."""
        return {full_name(ask) for ask in self.world.pending()}

    @property
    def parked(self) -> set[str]:
        """The parked asks as ``app/ask``."""
        return {full_name(ask) for ask in self.world.asks() if ask.place is AskPlace.PARKED}

    def queue(self, path: str) -> QueueState:
        """Return what can be read of a queue.

        Args:
            path: Its full path in lower case.
        """
        found = self.world.queues.get(path)
        if found is None:
            return QueueState(exists=False)
        picture = Picture(self.world)
        return QueueState(
            exists=True,
            priority=picture.queue_priority(path),
            allocated=picture.allocated[path],
            pending=picture.pending_amount(path),
            share=picture.fair_share(path),
            state="draining" if found.draining else "active",
        )

    @property
    def queues(self) -> dict[str, QueueState]:
        """Every queue by its path."""
        return {path: self.queue(path) for path in sorted(self.world.queues)}

    @property
    def apps(self) -> dict[str, AppView]:
        """Every application that is known by its name, a Completed one too."""
        picture = Picture(self.world)
        return {
            name: AppView(app.state, picture.app_priority(app))
            for name, app in sorted(self.world.apps.items())
        }

    @property
    def accounts(self) -> dict[str, Account]:
        """Why each ask that is not bound is not running, by ``app/ask``; between two batches."""
        return account_for(self.world, self._now_us)

    @property
    def gangs(self) -> dict[str, GangSnapshot]:
        """Every gang that is defined or has members; those bound as they were bound."""
        return {name: self._gang(gang) for name, gang in sorted(self.world.gangs.items())}

    def _gang(self, gang: Gang) -> GangSnapshot:
        def among(asks: list[Ask]) -> tuple[tuple[str, str], ...]:
            return tuple((ask.app.name, ask.name) for ask in asks if ask.gang == gang.name)

        parked = [ask for ask in self.world.asks() if ask.place is AskPlace.PARKED]
        return GangSnapshot(
            name=gang.name,
            definition=gang.definition,
            satisfied=gang.satisfied,
            timed_out=gang.timed_out,
            cycle_valid=gang.cycle_valid,
            waiting=among(self.world.waiting()),
            bound=among(self.world.bound()),
            pending=among(self.world.pending()),
            parked=among(parked),
            since_us=gang.since_us,
        )


def _failures(world: World) -> int:
    """Count the binds that failed in this batch, or were reported as failed."""
    return sum(decision.reason is Reason.BIND_FAILED for decision in world.log)


def full_name(ask: Ask) -> str:
    return f"{ask.app.name}/{ask.name}"


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
        reserved: Node, start and scope of each reservation, and its place in the order of all.
        usage: Everything, of each queue and user, and its place in the order of all.
    """

    asks: Mapping[str, tuple[str, str | None, str | None]]
    queues: Mapping[str, tuple[object, ...]]
    apps: Mapping[str, tuple[str, int | None]]
    nodes: Mapping[str, Mapping[str, int]]
    gangs: Mapping[str, GangSnapshot]
    reserved: Mapping[str, tuple[int, ReservationSnapshot]]
    usage: Mapping[str, tuple[int, UsageSnapshot]]


def shown(snapshot: Snapshot) -> Shown:
    """Return what a snapshot shows."""
    return Shown(
        asks={
            f"{app.name}/{ask.name}": (ask.place.value, ask.node, ask.gang)
            for app in snapshot.apps.values()
            for ask in app.asks
        },
        queues={
            path: (queue.priority, nonzero(queue.allocated), nonzero(queue.pending), queue.draining)
            for path, queue in snapshot.queues.items()
        },
        apps={name: (app.state.value, app.priority) for name, app in snapshot.apps.items()},
        nodes={name: nonzero(node.used) for name, node in snapshot.nodes.items()},
        gangs={name: _in_order(gang) for name, gang in snapshot.gangs.items()},
        reserved={
            name: (place, one) for place, (name, one) in enumerate(snapshot.reservations.items())
        },
        usage={one.name: (place, one) for place, one in enumerate(snapshot.usage)},
    )


def snapshot_of(model: NaiveScheduler, at_us: int = 0) -> Snapshot:
    """Return the snapshot of a model; what only the real scheduler counts is 0."""
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
                reserved=dict(node.reserved),
                taints=node.taints,
            )
            for name, node in model.world.nodes.items()
        },
        gangs=model.gangs,
        reservations={
            ask.full: ReservationSnapshot(node, one.start.start_us, one.scope)
            for one in sorted(model.world.reserved, key=lambda one: one.scope)
            for ask, node in one.nodes
        },
        usage=usage.snapshots(model.world),
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
    """Return the differences of two states, each with the model's side first."""
    lines: list[str] = []
    for field in attrs.fields(Shown):
        ours: Mapping[str, object] = getattr(want, field.name)
        theirs: Mapping[str, object] = getattr(got, field.name)
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                lines.append(f"  {field.name} {name}:")
                lines += [f"    - {ours.get(name)}", f"    + {theirs.get(name)}"]
    return lines


def nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in amounts.items() if value}


def _in_order(gang: GangSnapshot) -> GangSnapshot:
    """Leave out what has no order of its own."""
    return attrs.evolve(
        gang,
        bound=tuple(sorted(gang.bound)),
        pending=tuple(sorted(gang.pending)),
        parked=tuple(sorted(gang.parked)),
    )
