"""One life: a process that opens a scheduler with a store, its clients, and what it reports."""

from __future__ import annotations

import logging
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio
from trio.testing import MockClock

import muster
from muster._runtime.requests import Examined
from muster.store import StateReader, _codec
from muster.testing import Interleaving, check
from muster.testing.fuzz import Step
from muster.testing.fuzz._binders import PlannedBinder, pause, sleep_us
from muster.testing.fuzz._clients import UNREADABLE
from muster.testing.fuzz._determinism import ordered
from muster.testing.fuzz._program import Config
from muster_core.decisions import MICROSECONDS, Announced
from muster_core.errors import ConfigError, EventError, MusterError, RefusedError
from muster_core.events import Event
from tests.actors.store.faults import failing_disk, library
from tests.crash.protocol import (
    CallAnswered,
    CallMade,
    DecisionsSeen,
    JournalEntry,
    Key,
    KillMoment,
    Life,
    LifeFailed,
    Phase,
    Plan,
    RecordEntry,
    ReportWriter,
    StateShown,
    WorkStarted,
)


@final
class Calls:
    """Makes the calls of all clients of a life.

    Args:
        scheduler: The scheduler.
        configs: The configurations to change to.
        writer: Reports calls and answers.
    """

    def __init__(
        self, scheduler: muster.Scheduler, configs: Sequence[Config], writer: ReportWriter
    ) -> None:
        self._scheduler = scheduler
        self._configs = configs
        self._writer = writer
        self._made = 0

    async def work_off(self, steps: Sequence[Step]) -> None:
        """Carry out the steps of one client."""
        kept: list[muster.Allocation] = []
        async with trio.open_nursery() as aside:
            for step in steps:
                await pause(step.pause)
                if step.aside:
                    aside.start_soon(self._do, step, kept)
                else:
                    await self._do(step, kept)

    async def _do(self, step: Step, kept: list[muster.Allocation]) -> None:
        """Carry out a step, and cancel it if the step says so."""
        with trio.CancelScope() as scope:
            if step.within_us is not None:
                scope.deadline = trio.current_time() + step.within_us / MICROSECONDS
            async with trio.open_nursery() as nursery:
                if step.cancel_after is not None:
                    nursery.start_soon(_cancel, scope, step.cancel_after)
                await self._act(step, kept)
                nursery.cancel_scope.cancel()

    async def _act(self, step: Step, kept: list[muster.Allocation]) -> None:
        args = {name: value for name, value in step.args.items() if name != "bad"}
        match step.op:
            case "jump" | "sleep":
                await sleep_us(next(iter(args.values())))
            case "watch":
                await pause(args["readings"])
            case "bound":
                await self._until_bound(step, kept)
            case "work":
                await self._work(step, kept)
            case "release_mine" | "running_mine" | "ended_mine":
                if kept:
                    await self._note(step, kept.pop().release)
            case _:
                await self._note(step, self._call_of(step.op, args))

    def _call_of(self, op: str, args: dict[str, Any]) -> Callable[[], Awaitable[object]]:
        """Return a function that makes the call of a step."""
        scheduler = self._scheduler
        if op in {"submit", "submit_many", "apply", "delete"}:
            (only,) = args.values()
            return lambda: getattr(scheduler, op)(only)
        match op:
            case "check":
                return lambda: check(scheduler)
            case "why":
                return scheduler.ask(**args).why
            case "satisfied":
                return scheduler.gang(args["gang"]).satisfied
            case "statistics":
                return self._statistics
            case "configure":
                which: int | None = args["which"]
                config = UNREADABLE if which is None else self._configs[which]
                return lambda: scheduler.configure(config)
            case _:
                return lambda: getattr(scheduler, op)(**args)

    async def _statistics(self) -> None:
        await trio.lowlevel.checkpoint()
        self._scheduler.statistics()

    async def _work(self, step: Step, kept: list[muster.Allocation]) -> None:
        """Add an ask, wait until it is bound, and end its allocation."""
        arguments = {
            name: one for name, one in step.args.items() if name not in {"body_us", "holds"}
        }
        await self._note(step, lambda: self._scheduler.add_ask(**arguments))
        later = attrs.evolve(step, keys=())
        await self._until_bound(later, kept)
        if kept and not step.args["holds"]:
            await self._note(later, kept.pop().release)

    async def _until_bound(self, step: Step, kept: list[muster.Allocation]) -> None:
        ask = self._scheduler.ask(step.args["app"], step.args["ask"])

        async def wait() -> None:
            kept.append(await ask.bound())

        await self._note(step, wait)

    async def _note(self, step: Step, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call; report it and its answer."""
        number, keys = self._made, _plain(step.keys)
        self._made += 1
        self._writer.write(CallMade(number, str(step), keys))
        done: bool | None = True
        refusal: str | None = None
        try:
            await call()
        except trio.Cancelled:
            done = False
            raise
        except (EventError, ConfigError):
            done = False
        except muster.ClosedSchedulerError:
            done = None
        except RefusedError as error:
            refusal = str(error) if keys else None
        except MusterError:
            pass  # What it waited for will not come.
        finally:
            self._writer.write(CallAnswered(number, done, refusal))


def steps_of(life: int, caller: int) -> list[Step]:
    """Return the steps of a caller with an application and asks of its own."""
    app = f"life{life}-{caller}"
    steps = [Step("add_app", {"app": app, "queue": f"root.own{caller % 3}"}, (("AddApp", app),))]
    for name in ("u0", "u1")[: 1 + caller % 2]:
        arguments = {"app": app, "ask": name, "resources": {"vcore": 1}, "run_for": 1}
        steps.append(Step("add_ask", arguments, (("AddAsk", app, name),)))
    steps.append(Step("release", {"app": app, "ask": "u0"}, (("Release", app, "u0"),)))
    return steps


def _plain(keys: tuple[tuple[str, ...], ...]) -> tuple[Key, ...]:
    """Return keys of texts alone, where there may be members of enums, which are equal to texts."""
    return tuple(tuple(map(str, key)) for key in keys)


async def _cancel(scope: trio.CancelScope, after: int) -> None:
    await pause(after)
    scope.cancel()


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
class ReportingSink:
    """The journal and the record of a life.

    Args:
        writer: Reports what they get.
    """

    def __init__(self, writer: ReportWriter) -> None:
        self._writer = writer

    def write(self, batch: Sequence[Announced], /) -> None:
        """Report decisions."""
        self._writer.write(JournalEntry(tuple(batch)))

    def enter(self, at_us: int, event: Event, /) -> None:
        """Report an event."""
        self._writer.write(RecordEntry(at_us, event))

    def close(self, at_us: int, /) -> None:
        """Report the end of a batch."""
        self._writer.write(RecordEntry(at_us, None))


@final
class Binder:
    """A binder that starts work again that was bound when the last process ended."""

    def __init__(self, planned: PlannedBinder, writer: ReportWriter) -> None:
        self._planned = planned
        self._writer = writer

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Report the allocation, and do its work."""
        self._writer.write(
            WorkStarted(allocation.app, allocation.ask, allocation.node, again=False)
        )
        await self._planned.run(allocation, started)


@final
class ResumingBinder:
    """A binder that finds the work again that was bound when the last process ended."""

    def __init__(self, planned: PlannedBinder, writer: ReportWriter) -> None:
        self._binder = Binder(planned, writer)
        self._planned = planned
        self._writer = writer

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Report the allocation, and do its work."""
        await self._binder.run(allocation, started)

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Report the allocation, and go on with its work."""
        self._writer.write(WorkStarted(allocation.app, allocation.ask, allocation.node, again=True))
        await self._planned.run(allocation, started)


@final
@attrs.define
class LifeRunner:
    """Runs one life.

    Attributes:
        plan: The plan of the chain.
        life: The plan of this life.
        directory: The state directory.
        writer: Reports what happens.
    """

    plan: Plan
    life: Life
    directory: Path
    writer: ReportWriter

    async def run(self, last_us: int) -> None:
        """Run it.

        Args:
            last_us: The instant of the last batch that is kept, in microseconds since the origin.
        """
        program, order = self.plan.program, self.plan.program.order
        interleave = None if order.delays is None else Interleaving(order.delays, order.longest)
        sink = ReportingSink(self.writer)
        binder: muster.Binder | None = None
        if program.binds:
            made = PlannedBinder(program.binds)
            binder = (ResumingBinder if self.life.resumes else Binder)(made, self.writer)
        self.writer.write(Phase("opening"))
        is_open = False
        try:
            async with muster.open_scheduler(
                self.life.config,
                binder=binder,
                bind_timeout=program.bind_timeout_us / MICROSECONDS,
                bind_attempts=program.bind_attempts,
                clock=Clock(ORIGIN_US + last_us + self.life.ahead_us),
                journal=sink,
                record=sink,
                interleave=interleave,
                store=self.directory,
                durability=self.plan.durability,
                checkpoint_every=self.plan.checkpoint_every,
                keep=self.plan.keep_s,
            ) as scheduler:
                is_open = True
                self.writer.write(Phase("open"))
                await self._body(scheduler)
                self.writer.write(Phase("closing"))
        except RefusedError:
            if is_open or self.life.config is None:
                raise
        self.writer.write(Phase("closed"))

    async def _body(self, scheduler: muster.Scheduler) -> None:
        await self._report_state(scheduler)
        async with trio.open_nursery() as outer:
            for number in range(2):
                outer.start_soon(self._observe, scheduler, number)
            calls = Calls(scheduler, self.plan.program.configs, self.writer)
            await calls.work_off(self.life.prelude)
            with trio.move_on_after(LONGEST_S):
                async with trio.open_nursery() as nursery:
                    for steps in self.life.clients:
                        nursery.start_soon(calls.work_off, steps)
                    for number in range(self.life.callers):
                        nursery.start_soon(calls.work_off, steps_of(self.life.number, number))
            await self._report_state(scheduler)
            outer.cancel_scope.cancel()

    async def _report_state(self, scheduler: muster.Scheduler) -> None:
        """Report the state, and the last batch on disk at that moment."""

        def report(examined: Examined) -> None:
            with StateReader(self.directory) as reader:
                on_disk = reader.last().batch
            self.writer.write(StateShown(examined.machine.batches, on_disk, examined.snapshot))

        await scheduler.examine(report)

    async def _observe(self, scheduler: muster.Scheduler, number: int) -> None:
        async with scheduler.decisions(buffer=100_000) as decisions:
            while taken := await decisions.take():
                self.writer.write(DecisionsSeen(number, tuple(taken)))
                await pause(number * 3)


def live(plan: Plan, life: Life, directory: Path, last_us: int, pipe: int) -> None:
    """Live in this process, and end it by a kill of the plan or else normally; for a fork."""
    writer = ReportWriter(pipe)
    logging.disable()
    _codec.__dict__["PART_BYTES"] = plan.part_bytes
    try:
        with ExitStack() as stack:
            sqlite = library()
            if life.kill.when is KillMoment.DISK and sqlite is not None:
                disk = stack.enter_context(failing_disk(sqlite))
                disk.stop(life.kill.number, _kill_oneself, after=life.kill.after)
            stack.enter_context(ordered(attrs.evolve(plan.program.order, chance=life.chance)))
            runner = LifeRunner(plan, life, directory, writer)
            trio.run(runner.run, last_us, clock=MockClock(rate=RATE, autojump_threshold=JUMP_S))
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        writer.write(LifeFailed("".join(traceback.format_exception(error))))


def _kill_oneself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
