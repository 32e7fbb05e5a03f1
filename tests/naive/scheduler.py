"""The naive scheduler: batches in, decisions out, and the state to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs

from muster_core.decisions import Decision, Kind, Reason
from muster_core.errors import RefusedError
from muster_core.events import Event
from muster_core.snapshots import AskPlace, GangSnapshot
from tests.naive import back_off, deadlock, evictions, lifecycle, objects, takings, waits
from tests.naive.arrivals import complete
from tests.naive.directory import configured
from tests.naive.failed_binds import note_failed_binds
from tests.naive.picture import Picture
from tests.naive.reasons import Account, account_for
from tests.naive.rounds import run_rounds
from tests.naive.state import Ask, Gang, Rounds, World


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
class AppState:
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
        """Begin a batch: the timers that are due."""
        self._now_us = self.world.now_us = at_us
        self.world.searches.clear()
        deadlines = self._deadlines()
        if any(deadline <= at_us for deadline in deadlines):
            takings.forget(self.world)
        for ask in self.world.bound():
            if ask.ends_at is not None and ask.ends_at <= at_us:
                complete(self.world, ask, at_us)
        waits.timers(self.world, at_us)
        lifecycle.timers(self.world, at_us)

    def enter(self, index: int, entry: Event | str, at_us: int) -> None:
        """Take the next event of the batch, or why it is unusable."""
        world = self.world
        world.positions += 1
        takings.forget(self.world)
        if isinstance(entry, str):
            world.log.append(Decision(Kind.REJECTED, message=entry, index=index))
            return
        try:
            objects.take(world, entry, at_us)
        except RefusedError as refusal:
            world.log.append(Decision(Kind.REJECTED, message=str(refusal), index=index))

    def close(self, at_us: int) -> list[Decision]:
        """Close the batch: rounds, deadlocks, clocks, priorities; give what it decided."""
        self._run(at_us)
        waits.keep_clocks(self.world, at_us)
        self._announce_priorities()
        self._announce_reservations()
        note_failed_binds(self.world)
        log, self.world.log = self.world.log, []
        return log

    def _run(self, at_us: int) -> None:
        """Do rounds, then what helps those that they could not, until nothing changes."""
        world = self.world
        states = {name: (app.state, app.deadline) for name, app in world.apps.items()}
        world.rounds = Rounds(len(world.log), states)
        failures = _failures(world)
        while True:
            run_rounds(world, at_us)
            known, failures = failures, _failures(world)
            if failures != known:
                takings.forget(world)
            helped = evictions.help_one(world, at_us)
            if not helped and not deadlock.resolve(world, at_us):
                break
        world.rounds = Rounds()

    def next_deadline(self) -> int | None:
        """Give the instant of the next timer in microseconds, or None."""
        delays = evictions.deadlines(self.world, self._now_us)
        ends = back_off.deadlines(self.world)
        return min([*self._deadlines(), *delays, *ends], default=None)

    def _deadlines(self) -> list[int]:
        """Give the instants of all timers but the ends of delays, in microseconds."""
        ends = [ask.ends_at for ask in self.world.bound()]
        ends += [waits.deadline(self.world, gang) for gang in self.world.gangs.values()]
        ends += [app.deadline for app in self.world.in_queues()]
        return [end for end in ends if end is not None]

    def _announce_priorities(self) -> None:
        picture = Picture(self.world)
        now = {path: picture.queue_priority(path) for path in self.world.queues}
        for path in sorted(now):
            if now[path] != self._announced.get(path):
                self.world.log.append(Decision(Kind.QUEUE_PRIORITY, queue=path, priority=now[path]))
        self._announced = now

    def _announce_reservations(self) -> None:
        """Say what the last round left, in order of reservation, where it is new or changed."""
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
        self.world.log += [said for ask, said in now.items() if said != known.get(ask)]
        self.world.announced = now

    @property
    def bound(self) -> list[tuple[str, str]]:
        """The bound asks as ``(app/ask, node)``, in the order in which they were bound."""
        return [(_full(ask), ask.node or "") for ask in self.world.bound()]

    @property
    def waiting(self) -> list[tuple[str, str]]:
        """The waiting asks as ``(app/ask, node)``, in the order in which they began to wait."""
        return [(_full(ask), ask.node or "") for ask in self.world.waiting()]

    @property
    def pending(self) -> set[str]:
        """The pending asks as ``app/ask``."""
        return {_full(ask) for ask in self.world.pending()}

    @property
    def parked(self) -> set[str]:
        """The parked asks as ``app/ask``."""
        return {_full(ask) for ask in self.world.asks() if ask.place is AskPlace.PARKED}

    def queue(self, path: str) -> QueueState:
        """Give what can be read of a queue.

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
    def apps(self) -> dict[str, AppState]:
        """Every application that is known by its name, a Completed one too."""
        picture = Picture(self.world)
        return {
            name: AppState(app.state, picture.app_priority(app))
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
    """Count the binds that failed in this batch, or were said to have failed."""
    return sum(said.reason is Reason.BIND_FAILED for said in world.log)


def _full(ask: Ask) -> str:
    return f"{ask.app.name}/{ask.name}"
