"""The scheduler in virtual time, for replays, tests and simulations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar, final

from muster._runtime.announcer import ForeignErrors, Journal, JournalWriter
from muster._runtime.batches import Batches, DecidedBatch
from muster._runtime.clock import Pace
from muster._runtime.entry import EntryQueue, run_for_block
from muster._runtime.owners import Interleave
from muster._runtime.requests import Answer, Examined
from muster._runtime.virtual_coordinator import (
    Examine,
    Finish,
    Request,
    Settle,
    Submit,
    VirtualCoordinator,
)
from muster._surface.handles import with_forecast
from muster_core.config import default_configuration
from muster_core.config.model import Configuration, QueueConfig
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.events import Event
from muster_core.facts import Facts
from muster_core.reasons import Explanation
from muster_core.snapshots import ReservationSnapshot, Snapshot, Statistics

A = TypeVar("A")


@final
class Simulation:
    """A scheduler in virtual time; :func:`open_simulation` creates it.

    Callers move the time: an event with a later ``at_us`` closes the batch of the present
    instant, and every timer that is due before the event runs at its own instant. The journal
    receives the decisions.
    """

    def __init__(self, machine: CoordinatorMachine, entry: EntryQueue[Request]) -> None:
        self._machine = machine
        self._entry = entry

    async def submit(
        self,
        event: Event,
        *,
        at_us: int | None = None,
        index: int | None = None,
        line: int | None = None,
    ) -> None:
        """Submit an event without waiting for its effects.

        An event that is not possible is refused: a decision says so, and nothing changes.

        Args:
            event: The event.
            at_us: The instant of the event, in microseconds since the start; default: now.
            index: Its index in a feed, from 0, for the decision log.
            line: Its line in a feed, from 1, for the decision log.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._entry.put(Submit(event, at_us, index, line))

    async def request(
        self,
        event: Event,
        *,
        at_us: int | None = None,
        index: int | None = None,
        line: int | None = None,
    ) -> None:
        """Submit an event and wait until it is accepted; the batch stays open.

        Args:
            event: The event.
            at_us: As for :meth:`submit`.
            index: As for :meth:`submit`.
            line: As for :meth:`submit`.

        Raises:
            RefusedError: If the event is not possible now; the message names field and value.
            ClosedSchedulerError: If the scheduler is closed before it answers.
        """
        reply: Answer[None] = Answer()
        await self._entry.put(Submit(event, at_us, index, line, reply))
        await reply.wait()

    async def refuse(
        self,
        message: str,
        *,
        at_us: int | None = None,
        index: int | None = None,
        line: int | None = None,
    ) -> None:
        """Record the refusal of an input that could not be read as an event.

        Args:
            message: The reason; it becomes the message of the decision.
            at_us: As for :meth:`submit`.
            index: As for :meth:`submit`.
            line: As for :meth:`submit`.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._entry.put(Submit(message, at_us, index, line))

    async def settle(self, at_us: int | None = None) -> None:
        """Close the batch and wait until its decisions are announced.

        Args:
            at_us: The instant of the batch, in microseconds; default: now.

        Raises:
            RefusedError: If that instant is in the past.
            ClosedSchedulerError: If the scheduler is closed before it answers.
        """
        reply: Answer[None] = Answer()
        await self._entry.put(Settle(at_us, reply))
        await reply.wait()

    async def finish(self, until_us: int | None = None) -> None:
        """Close the batch and run all timers until none is left.

        Args:
            until_us: The last instant whose timers run, in microseconds; default: no limit.

        Raises:
            ClosedSchedulerError: If the scheduler is closed before it answers.
        """
        reply: Answer[None] = Answer()
        await self._entry.put(Finish(until_us, reply))
        await reply.wait()

    async def snapshot(self) -> Snapshot:
        """Close the batch and return a snapshot of the whole state.

        Raises:
            ClosedSchedulerError: If the scheduler is closed before it answers.
        """
        return await self._examine(Batches.snapshot)

    async def why_pending(
        self, app: str, ask: str, *, forecast: bool = False
    ) -> Explanation | None:
        """Close the batch and return why an ask is not running.

        Args:
            app: The name of the application.
            ask: The name of the ask.
            forecast: Whether to find out on a copy of the state when it starts, which may take
                seconds; see :class:`muster.Forecast`.

        Returns:
            All reasons that hold, with the dominant reason first; None if the ask is bound, or
            there is no such ask. As text it is the dominant reason: a code, a colon and a
            sentence.

        Raises:
            ClosedSchedulerError: If the scheduler is closed before it answers.
        """
        return with_forecast(
            await self._examine(lambda batches: batches.explain(app, ask, with_facts=forecast))
        )

    async def examine(self, examiner: Callable[[Examined], None]) -> None:
        """Close the batch and call a function with the whole state.

        :func:`muster.testing.check` uses it.

        Args:
            examiner: Called in the coordinator's task; it must not change anything.

        Raises:
            Exception: What the examiner raises, such as AssertionError.
            ClosedSchedulerError: If the scheduler is closed before it answers.
        """
        error = await self._examine(lambda batches: batches.examine(examiner))
        if error is not None:
            raise error

    async def _examine(self, look: Callable[[Batches], Awaitable[A]]) -> A:
        request = Examine(look)
        await self._entry.put(request)
        return await request.reply.wait()

    def statistics(self) -> Statistics:
        """Return how much the scheduler has done so far."""
        return self._machine.statistics()

    def queues(self) -> Mapping[str, QueueConfig]:
        """Return the settings of all queues by path; the settings are immutable."""
        return {path: entry.config for path, entry in self._machine.registry.queues.items()}

    def reservations(self) -> Mapping[str, ReservationSnapshot]:
        """Return what the last round has left reserved, by ``app/ask``. While no batch is open."""
        return self._machine.view.reservations()

    def next_timer_us(self) -> int | None:
        """Return the instant of the next timer in microseconds, or None if there is none."""
        return self._machine.next_deadline_us()


@asynccontextmanager
async def open_simulation(
    configuration: Configuration | None = None,
    *,
    facts: Facts | None = None,
    journal: Journal | None = None,
    interleave: Interleave | None = None,
) -> AsyncGenerator[Simulation, None]:
    """Run a scheduler in virtual time for an ``async with`` block.

    When the block ends normally, the scheduler first carries out all requests that it has
    accepted, and ends the open batch. When the block ends by an exception or by cancellation,
    calls that still wait raise :class:`ClosedSchedulerError`. In both cases no task is left.

    Args:
        configuration: The first configuration; default: only ``root``, without limits.
        facts: A checkpoint to go on from, instead of a first configuration; the numbers of
            decisions go on, too.
        journal: Receives the decisions of each batch, before any caller does. If it raises, the
            scheduler ends and the block raises the exception.
        interleave: Awaited by every owner before it reads its mailbox. Tests use it to change
            the order of tasks, on which no decision depends.

    Yields:
        The scheduler.

    Raises:
        BrokenSchedulerError: If an owner of state fails because of a bug.
    """
    first = default_configuration() if configuration is None else configuration
    machine = CoordinatorMachine(first if facts is None else facts.configuration)
    entry: EntryQueue[Request] = EntryQueue()
    pace, foreign_errors = Pace(), ForeignErrors()
    writer = JournalWriter(journal, foreign_errors, pace)

    async def announce(decided: DecidedBatch) -> None:
        await writer.write(decided.announced)
        await decided.let_go(pace)

    batches = Batches(machine, interleave, pace, announce)
    coordinator = VirtualCoordinator(batches, pace, entry, foreign_errors, facts)
    async with run_for_block(coordinator.run, entry.close):
        yield Simulation(machine, entry)
