"""One life: a process that opens a scheduler with a store, uses it, and tells what happens."""

from __future__ import annotations

import logging
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, final

import attrs
import trio
from trio.testing import MockClock

import muster
from muster._runtime.requests import Examined
from muster.store import StateReader, _codec
from muster.testing import Interleaving
from muster.testing.fuzz._binders import PlannedBinder, pause
from muster.testing.fuzz._determinism import ordered
from muster_core.decisions import MICROSECONDS, Announced
from muster_core.errors import RefusedError
from muster_core.events import Event
from tests.actors.store.faults import failing_disk, library
from tests.crash.clients import Calls, steps_of
from tests.crash.plans import Life, Plan, When
from tests.crash.reports import Failed, Let, Looked, Phase, Saw, Teller, Worked, Wrote

ORIGIN_US: Final = 1_700_000_000 * MICROSECONDS
RATE: Final = 200
"""How much faster than the clock on the wall the time of a life runs."""
JUMP_S: Final = 0.001
"""After how many seconds in which nothing can go on the time of a life jumps to the next timer."""
LONGEST_S: Final = 60
"""How long a body stays after its clients are done, in seconds of its own time."""


@final
class Clock:
    """The clock of one life.

    Args:
        start_us: The time at its beginning, in microseconds since 1970.
    """

    def __init__(self, start_us: int) -> None:
        self._start_us = start_us

    def now_us(self) -> int:
        """Return the time in microseconds since 1970."""
        return self._start_us + round(trio.current_time() * MICROSECONDS)

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until ``at_us``."""
        while self.now_us() < at_us:  # noqa: ASYNC110 - a clock has no event to wait for
            await trio.sleep_until((at_us - self._start_us) / MICROSECONDS)


@final
class Ears:
    """The journal and the record of a life.

    Args:
        teller: Tells what they get.
    """

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    def write(self, batch: Sequence[Announced], /) -> None:
        """Tell decisions."""
        self._teller.tell(Wrote(tuple(batch)))

    def enter(self, at_us: int, event: Event, /) -> None:
        """Tell an event."""
        self._teller.tell(Let(at_us, event))

    def close(self, at_us: int, /) -> None:
        """Tell the end of a batch."""
        self._teller.tell(Let(at_us, None))


@final
class Binder:
    """A binder that begins anew what was bound when the last process ended."""

    def __init__(self, planned: PlannedBinder, teller: Teller) -> None:
        self._planned = planned
        self._teller = teller

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Tell of the allocation, and do its work."""
        self._teller.tell(Worked(allocation.app, allocation.ask, allocation.node, again=False))
        await self._planned.run(allocation, started)


@final
class ResumingBinder:
    """A binder that finds the work again that was bound when the last process ended."""

    def __init__(self, planned: PlannedBinder, teller: Teller) -> None:
        self._binder = Binder(planned, teller)
        self._planned = planned
        self._teller = teller

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Tell of the allocation, and do its work."""
        await self._binder.run(allocation, started)

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Tell of the allocation, and go on with its work."""
        self._teller.tell(Worked(allocation.app, allocation.ask, allocation.node, again=True))
        await self._planned.run(allocation, started)


@final
@attrs.define
class Living:
    """A life that goes on.

    Attributes:
        plan: The plan of the chain.
        life: The plan of this life.
        directory: The state directory.
        teller: Tells what happens.
    """

    plan: Plan
    life: Life
    directory: Path
    teller: Teller

    async def run(self, last_us: int) -> None:
        """Live.

        Args:
            last_us: The instant of the last batch that is kept, in microseconds since the origin.
        """
        program, order = self.plan.program, self.plan.program.order
        interleave = None if order.delays is None else Interleaving(order.delays, order.longest)
        ears = Ears(self.teller)
        binder: muster.Binder | None = None
        if program.binds:
            made = PlannedBinder(program.binds)
            binder = (ResumingBinder if self.life.resumes else Binder)(made, self.teller)
        self.teller.tell(Phase("opening"))
        is_open = False
        try:
            async with muster.open_scheduler(
                self.life.config,
                binder=binder,
                bind_timeout=program.bind_timeout_us / MICROSECONDS,
                bind_attempts=program.bind_attempts,
                clock=Clock(ORIGIN_US + last_us + self.life.ahead_us),
                journal=ears,
                record=ears,
                interleave=interleave,
                store=self.directory,
                durability=self.plan.durability,
                checkpoint_every=self.plan.checkpoint_every,
                keep=self.plan.keep_s,
            ) as scheduler:
                is_open = True
                self.teller.tell(Phase("open"))
                await self._body(scheduler)
                self.teller.tell(Phase("closing"))
        except RefusedError:
            if is_open or self.life.config is None:
                raise
        self.teller.tell(Phase("closed"))

    async def _body(self, scheduler: muster.Scheduler) -> None:
        await self._look(scheduler)
        async with trio.open_nursery() as outer:
            for number in range(2):
                outer.start_soon(self._observe, scheduler, number)
            calls = Calls(scheduler, self.plan.program.configs, self.teller)
            await calls.work_off(self.life.prelude)
            with trio.move_on_after(LONGEST_S):
                async with trio.open_nursery() as nursery:
                    for steps in self.life.clients:
                        nursery.start_soon(calls.work_off, steps)
                    for number in range(self.life.callers):
                        nursery.start_soon(calls.work_off, steps_of(self.life.number, number))
            await self._look(scheduler)
            outer.cancel_scope.cancel()

    async def _look(self, scheduler: muster.Scheduler) -> None:
        """Tell the state, and what is on disk at that moment."""

        def look(examined: Examined) -> None:
            with StateReader(self.directory) as reader:
                on_disk = reader.last().batch
            self.teller.tell(Looked(examined.machine.batches, on_disk, examined.snapshot))

        await scheduler.examine(look)

    async def _observe(self, scheduler: muster.Scheduler, number: int) -> None:
        async with scheduler.decisions(buffer=100_000) as decisions:
            while taken := await decisions.take():
                self.teller.tell(Saw(number, tuple(taken)))
                await pause(number * 3)


def live(plan: Plan, life: Life, directory: Path, last_us: int, pipe: int) -> None:
    """Live in this process, and end it by a kill of the plan or else normally; for a fork."""
    teller = Teller(pipe)
    logging.disable()
    _codec.__dict__["PART_BYTES"] = plan.part_bytes
    try:
        with ExitStack() as stack:
            sqlite = library()
            if life.kill.when is When.DISK and sqlite is not None:
                disk = stack.enter_context(failing_disk(sqlite))
                disk.stop(life.kill.number, _kill_oneself, after=life.kill.after)
            stack.enter_context(ordered(attrs.evolve(plan.program.order, chance=life.chance)))
            living = Living(plan, life, directory, teller)
            trio.run(living.run, last_us, clock=MockClock(rate=RATE, autojump_threshold=JUMP_S))
    except BaseException as error:  # noqa: BLE001 - told to the parent
        teller.tell(Failed("".join(traceback.format_exception(error))))


def _kill_oneself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
