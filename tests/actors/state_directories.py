"""State directories for tests: written as a running scheduler writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import final

import trio

from muster.store import StateReader
from muster.store._codec import state_in_parts
from muster.store._rows import row_of
from muster.store._sql import CompanionState
from muster.store._writer import NewState, StateWriter
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddApp, AddAsk, AddNode, Event, RemoveAsk
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from tests.actors.store.program import put_checkpoint
from tests.naive.harness import Marker, Step

S = 1_000_000
ONE = Resources({"vcore": 1000})
ORIGIN_US = 1_700_000_000_000_000
NEW = NewState("default", ORIGIN_US)


@final
class HandClock:
    """A clock that a test sets."""

    def __init__(self, at_us: int = ORIGIN_US) -> None:
        self.at_us = at_us

    def now_us(self) -> int:
        return self.at_us

    async def wait_until_us(self, at_us: int) -> None:
        if at_us > self.at_us:
            await trio.sleep_forever()


@final
class Keeper:
    """Lets in events batch by batch, and keeps each batch, as a running scheduler does.

    Timers have batches of their own, before the events of their instant.
    """

    def __init__(
        self, directory: Path, *, checkpoints: Collection[int] = (), origin_us: int = ORIGIN_US
    ) -> None:
        self.directory = directory
        self.scheduler = PlainScheduler()
        self._checkpoints = checkpoints
        self._number = 0
        self._instants: list[int] = []
        self._index = 0
        self._writer = StateWriter.create(
            directory, NewState("default", origin_us), durability="process"
        )

    def run(self, at_us: int, events: Sequence[Event]) -> None:
        """Run the timers up to an instant, and a batch of events."""
        self.pass_until(at_us)
        for event in events:
            self.scheduler.submit(event, at_us, self._index)
            self._index += 1
        self._batch(at_us, events)

    def pass_until(self, at_us: int | None) -> None:
        """Run a batch for each instant with timers, the last instant included."""
        machine = self.scheduler.machine
        while (due_us := machine.next_deadline_us()) is not None:
            if at_us is not None and due_us > at_us:
                return
            self._batch(due_us, ())

    def _batch(self, at_us: int, events: Sequence[Event]) -> None:
        self.scheduler.settle(at_us)
        announced, self.scheduler.announced = self.scheduler.announced, []
        self._number += 1
        self._instants.append(at_us)
        seq = self._writer.last.seq
        self._writer.append([row_of(self._number, at_us, tuple(events), tuple(announced), seq)])
        if self._number in self._checkpoints:
            self.checkpoint()

    def lie(self, at_us: int) -> None:
        """Keep a batch with a decision that nothing led to."""
        seq = self._writer.last.seq
        decision = Announced(seq + 1, at_us, Decision(Kind.BOUND, "a", "lie", "n", "root.q"))
        self._number += 1
        self._writer.append([row_of(self._number, at_us, (), (decision,), seq)])

    def checkpoint(self) -> None:
        """Keep a checkpoint of the state after the last batch."""
        parts = all_at_once(state_in_parts(self.scheduler.facts()))
        put_checkpoint(self._writer, self._number, parts)

    def companion(self, parts: Sequence[bytes]) -> None:
        """Keep the state of a companion that knows the last batch."""
        self._writer.put_companion(CompanionState(self._number, tuple(parts)))

    def prune(self, before_us: int) -> None:
        """Remove batches before an instant that the newest checkpoint covers.

        So a pruning is left that was cut short: what is left need not begin with a checkpoint.
        """
        older = sum(at_us < before_us for at_us in self._instants)
        if older:
            self._writer.prune(10**18, most=older)
        while self._writer.prune(0):  # The checkpoints before what is left go, too.
            pass

    def close(self) -> Path:
        """Close the directory and return it."""
        self._writer.close()
        return self.directory


def small(directory: Path) -> Keeper:
    """Keep four batches: one with an ask that runs for a second, and one of its timer."""
    keeper = Keeper(directory, checkpoints=[2])
    keeper.run(S, [AddNode("n", ONE), AddApp("a", "root.q")])
    keeper.run(2 * S, [AddAsk("a", "one", ONE, run_for_us=S)])
    keeper.run(4 * S, [AddAsk("a", "two", ONE), RemoveAsk("a", "three")])
    return keeper


def keep(directory: Path, steps: Sequence[Step], *, checkpoints: Collection[int] = ()) -> Path:
    """Keep the batches of a scenario; what is no event is left out."""
    keeper = Keeper(directory, checkpoints=checkpoints)
    for at_us, events in batches(steps):
        keeper.run(at_us, events)
    return keeper.close()


def batches(steps: Sequence[Step]) -> Iterator[tuple[int, list[Event]]]:
    """Yield the instant and the events of each batch of a scenario."""
    events: list[Event] = []
    at_us = 0
    for step in steps:
        if step.at_us != at_us or isinstance(step.what, Marker):
            if events:
                yield at_us, events
            events = []
        at_us = step.at_us
        if not isinstance(step.what, str | Marker):
            events.append(step.what)
    if events:
        yield at_us, events


def decisions_in(directory: Path) -> list[Announced]:
    """Return all decisions that are kept."""
    with StateReader(directory) as reader:
        return [one for batch in reader.batches() for one in batch.decisions]
