"""A past state, made again: the checkpoint before it, and what was let in since."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs

from muster._runtime.passing import PassedByAsk, passed_by
from muster.feeds._kept import run_again
from muster.service.hearers import parts_of_ledger
from muster.service.input.looking_back import GoneError
from muster.service.ledger.ledger import Ledger
from muster.service.ledger.reconcile import note_queues, reconcile
from muster.service.problems import Problem
from muster.service.roll import Roll
from muster.store import StateReader
from muster.store._state import facts_of
from muster_core.coordinator.plain import PlainScheduler
from muster_core.structures.steps import Driven, all_at_once

if TYPE_CHECKING:
    from muster.store import KeptBatch
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.decisions import Announced
    from muster_core.facts import Facts
    from muster_core.structures.steps import Steps

T = TypeVar("T")

_NOTHING: Final[PassedByAsk] = {}


@final
@attrs.frozen(eq=False)
class Past:
    """The state after a batch of the past, with what the lists knew then.

    Attributes:
        number: The number of the batch.
        at_us: Its instant, in microseconds since the origin.
        ledger: What was let in and decided until then.
        roll: All asks in the order in which they were added.
    """

    number: int
    at_us: int
    ledger: Ledger
    roll: Roll
    _scheduler: PlainScheduler

    def machine_at(self, at_us: int) -> CoordinatorMachine:
        """Return the machine at an instant before the next batch, which is its present.

        Args:
            at_us: The instant, in microseconds since the origin.
        """
        machine = self._scheduler.machine
        machine.now_us = at_us
        return machine

    @property
    def size(self) -> int:
        """How many things it holds, for a bound of memory."""
        book = self.ledger.book
        return len(book.nodes) + sum(1 + len(app.asks) for app in book.apps.values())

    def free(self) -> None:
        """Free its memory; nobody may read it any more."""
        for number, _ in enumerate(self._scheduler.free()):
            if not number % 16:
                time.sleep(0)  # Lets the service's own thread run.


# PAGE-60
def build(
    directory: Path, number: int, gone: Flag, tell: Callable[[float], None] = lambda _: None
) -> Past:
    """Make the state after a batch again, as it was then.

    The ledger hears of the batches as that of the running service did.

    Args:
        directory: The state directory.
        number: The number of the batch, which is kept.
        gone: Set when nobody waits for it any more.
        tell: Called with the share that is done, from 0 to 1.

    Raises:
        Problem: 410 if too much was removed meanwhile; 409 if this version decides otherwise.
        StoreError: If the directory is damaged, or cannot be read.
        GoneError: If nobody waits for it any more.
    """
    with StateReader(directory) as reader:
        built = _Building(reader, number)
        first = min(built.decided, built.heard)
        for batch in reader.batches(after=first, until=number):
            if gone.is_set():
                raise GoneError
            built.let_in(batch)
            tell((batch.number - first) / (number - first))
            time.sleep(0)  # Lets the service's own thread run.
    return built.end()


@final
class _Building:
    """A state between the checkpoint and the batch that is wanted.

    Attributes:
        decided: The last batch that the scheduler has decided.
        heard: The last batch of which the ledger has heard.
    """

    def __init__(self, reader: StateReader, number: int) -> None:
        self.decided, facts = _facts(reader, number)
        self.ledger, self.heard, self._is_whole = ledger_at(reader, number)
        self._scheduler = PlainScheduler(facts=facts)
        self._at_us = self._scheduler.machine.now_us
        # The index of the next event among all that were let in.
        self._index = 0 if facts is None else facts.coordinator.requests
        if self.heard < self.decided:
            between = reader.batches(after=self.heard, until=self.decided, verify=False)
            self._index -= sum(batch.event_count for batch in between)

    def let_in(self, batch: KeptBatch) -> None:
        """Let a batch in again, where it is not known yet."""
        index, self._index = self._index, self._index + batch.event_count
        decisions, passed = None, _NOTHING
        if batch.number > self.decided:
            decisions = self._decide(batch, index)
            passed = all_at_once(passed_by(self._scheduler.machine, decisions))
        if batch.number > self.heard:
            known = batch.decisions if decisions is None else decisions
            hearing = self.ledger.hear(
                batch.number, batch.at_us, index, batch.events, known, passed
            )
            all_at_once(hearing)
            self.heard = batch.number
        self._at_us = batch.at_us

    def _decide(self, batch: KeptBatch, index: int) -> list[Announced]:
        run_again(self._scheduler, batch, index)
        decided = self._scheduler.announced
        self._scheduler.announced = []
        difference = batch.first_difference(decided)
        if difference is not None:
            raise Problem(409, f"this past cannot be shown: {difference}")
        self.decided = batch.number
        return decided

    def end(self) -> Past:
        """Return the state."""
        machine = self._scheduler.machine
        if not self._is_whole or self.ledger.book.is_stale:
            all_at_once(reconcile(self.ledger, machine))
        note_queues(self.ledger, machine)
        return Past(self.decided, self._at_us, self.ledger, Roll(), self._scheduler)


def _facts(reader: StateReader, number: int) -> tuple[int, Facts | None]:
    """Return the newest checkpoint up to a batch, and that batch; 0 and None for the beginning."""
    found = reader.newest_checkpoint(number)
    anchor = reader.meta.anchor.batch
    if found is not None and found.batch >= anchor:
        return found.batch, facts_of(found.parts)
    if anchor:
        raise Problem(410, f"this past is not kept any more: batches up to {anchor} were removed")
    return 0, None


def ledger_at(reader: StateReader, number: int) -> tuple[Ledger, int, bool]:
    """Return the newest ledger up to a batch, that batch, and whether it heard of everything."""
    anchor = reader.meta.anchor.batch
    state = reader.companion(number)
    ledger = Ledger()
    if state is not None and state.batch >= anchor:
        try:
            all_at_once(ledger.load(parts_of_ledger(state.parts)))
        except ValueError:  # Another version wrote it: it is made again from the batches.
            ledger = Ledger()
        else:
            return ledger, state.batch, True
    all_at_once(ledger.load(()))
    return ledger, anchor, anchor == 0


def read_all(steps: Steps[T], gone: Flag) -> T:
    """Run steps in a thread, so that others run meanwhile.

    Raises:
        GoneError: If nobody waits for the result any more.
    """
    driven = Driven(steps)
    for _ in driven:
        if gone.is_set():
            raise GoneError
        time.sleep(0)
    return driven.value
