"""Run a program in one ``trio.run``, in virtual time, and find all faults.

After the run, the calls are checked against the recorded input, and this input is replayed.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from io import BytesIO
from itertools import zip_longest
from math import inf
from typing import Final, final

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster._runtime.clock import TrioClock
from muster._runtime.requests import Examined
from muster._surface.conversion import configuration_of
from muster._surface.open import CHECKPOINT_EVERY
from muster.feeds import DecisionLog, Encoding
from muster.testing import Interleaving, check
from muster.testing._helpers import decided
from muster.testing.fuzz._binders import ObservedBinder, PlannedBinder, WatcherLog, faults_of, watch
from muster.testing.fuzz._clients import StepRunner, faults_at_rest
from muster.testing.fuzz._determinism import (
    ProgramStore,
    Steps,
    alarm,
    lift_shields,
    ordered,
    too_long,
)
from muster.testing.fuzz._judges import faults_of_attempts
from muster.testing.fuzz._program import Client, Config, Key, Leave, LeaveMethod, Program
from muster.testing.fuzz._records import CallEnd, CallLog, Story, key_of
from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import MICROSECONDS, Announced
from muster_core.events import Event

_BY_ITSELF: Final = frozenset({"Release", "RemoveAsk", "BindFailed"})
"""The events that the scheduler submits by itself, for binders and for bodies that have ended."""


def faults_of_calls(call_log: CallLog, story: Story, own: Iterable[Key] = ()) -> Iterator[str]:
    """Compare the answers of calls with the recorded events.

    The events of a call that returned or was refused were recorded once; those of a cancelled or
    invalid call were not. Events in a batch that was never announced do not count.

    Args:
        call_log: The calls.
        story: The recorded events.
        own: What the scheduler may have submitted besides.
    """
    done: Counter[Key] = Counter()
    perhaps: Counter[Key] = Counter(own)
    for call in call_log.calls:
        if call.end is None:
            yield f"{call}"
        elif call.end in {CallEnd.RETURNED, CallEnd.REFUSED}:
            done.update(call.keys)
        elif call.end is CallEnd.CLOSED:
            perhaps.update(call.keys)
    yield from _refused_by_itself(story, done + perhaps)
    for key in sorted({*done, *perhaps, *story.closed}):
        there, least = story.closed[key], done[key]
        most = least + perhaps[key]
        if there < least:
            yield f"{least} calls about {key} were answered, but only {there} let in"
        elif there > most and key[0] not in _BY_ITSELF:
            yield f"{there} events about {key} were let in, but only {most} calls made"


def _refused_by_itself(story: Story, made: Counter[Key]) -> Iterator[str]:
    """Yield a fault for each event that the scheduler has submitted by itself twice in a batch.

    One such event may be in vain, because a timer of the same instant came first.
    """
    batch: Counter[Key] = Counter()
    for entry in story.entries:
        if entry.event is None:
            for key, times in batch.items():
                if times > 1 and not made[key]:
                    yield f"{times} events about {key} were let in into one batch"
            batch.clear()
        elif type(entry.event).__name__ in {"Release", "BindFailed"}:
            batch[key_of(entry.event)] += 1


def replay(story: Story, configuration: Configuration | None) -> list[Announced]:
    """Replay the recorded input in the machines, without tasks, and return their decisions.

    Input after the end of the last batch is left out. At the end all timers run.
    """
    plain = PlainScheduler(configuration)
    for at_us, index, event in decided((one.at_us, one.event) for one in story.entries):
        if event is None:
            plain.settle(at_us)
        else:
            plain.submit(event, at_us, index)
    plain.finish()
    return plain.announced


def faults_of_replay(story: Story, expected: Sequence[Announced], who: str) -> Iterator[str]:
    """Compare the log with a replay byte by byte; the replay may have more decisions."""
    wants, got = lines_of(expected[: len(story.decisions)]), lines_of(story.decisions)
    for place, (want, one) in enumerate(zip_longest(wants, got)):
        if want != one:
            yield difference(place, lines_of(expected), got, who)
            return


def lines_of(decisions: Sequence[Announced]) -> list[bytes]:
    """Return the lines of a decision log."""
    stream = BytesIO()
    with DecisionLog(stream, encoding=Encoding.JSON_LINES) as log:
        log.write(decisions)
    return stream.getvalue().splitlines()


def difference(place: int, expected: Sequence[bytes], got: Sequence[bytes], who: str) -> str:
    """Describe the first difference between a log and a replay."""
    before = [f"    {line.decode()}" for line in got[max(0, place - 5) : place]]
    wants = [f"  - {line.decode()}" for line in expected[place : place + 4]] or ["  - (end)"]
    has = [f"  + {line.decode()}" for line in got[place : place + 4]] or ["  + (end)"]
    first = f"decision {place + 1} is not that of {who} (-: {who}, +: the scheduler)"
    return "\n".join([first, *before, *wants, *has])


MOST_JUMPS: Final = 200
"""How often the clock may jump when no task can run, before the block must end."""


class LeftBlockError(Exception):
    """The exception with which a program leaves the block of its scheduler."""


@final
@attrs.define
class Outcome:
    """The outcome of a run.

    Attributes:
        program: The program.
        story: The recorded events and the decisions.
        faults: All faults.
        calls: How many calls of each kind were made.
        transcript: The calls and their answers.
        steps: How many steps all tasks made.
        order: A hash of the order of these steps.
        cancelled: How many scopes were cancelled in the middle.
        jumps: How often the clock jumped.
    """

    program: Program
    story: Story
    faults: list[str]
    calls: Counter[str]
    transcript: list[str]
    steps: int
    order: int
    cancelled: int
    jumps: int

    @property
    def configuration(self) -> Configuration | None:
        """The configuration with which the scheduler began; with a store another one comes in."""
        return None if self.program.store is not None else loaded(self.program.config)


Oracle = Callable[[Outcome], Sequence[str]]
"""Checks the outcome of a run, and returns a text for each fault."""


def loaded(config: Config | None) -> Configuration | None:
    """Load the configuration of a program."""
    return None if config is None else configuration_of(config, None)


def run_program(
    program: Program,
    *,
    oracles: Sequence[Oracle] = (),
    binder: Callable[[], muster.Binder] | None = None,
) -> Outcome:
    """Run a program, and find all faults.

    The same program has the same outcome each time, if the binder depends on nothing but trio's
    time.

    Args:
        program: The program.
        oracles: Further checks of the outcome.
        binder: Creates the binder, instead of the planned one.

    Raises:
        UnknownTrioError: If this version of trio does not let its scheduler be seeded.
    """
    runner = _Runner(program, binder)
    with (
        ordered(program.order),
        alarm(runner.end_soon, lambda: str(program)),
        nullcontext() if runner.stored is None else runner.stored.there(),
    ):
        try:
            trio.run(runner.main, clock=runner.clock, instruments=[runner.steps])
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - any exception is a fault
            runner.faults.append(f"the run ended by {_traceback_of(error)}")
    outcome = runner.outcome()
    for oracle in oracles if not outcome.faults else ():
        outcome.faults.extend(oracle(outcome))
    return outcome


def _traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).strip()


async def _give_up(everything: trio.CancelScope) -> None:
    """Cancel everything, also tasks that shield themselves from cancellation."""
    everything.cancel()
    with trio.CancelScope(shield=True):
        await wait_all_tasks_blocked()
        lift_shields()


@final
class _Runner:
    """One run of a program."""

    def __init__(self, program: Program, make_binder: Callable[[], muster.Binder] | None) -> None:
        self._program = program
        self.clock = MockClock()
        self.clock.jump(program.clock_us / MICROSECONDS)
        self.steps = Steps()
        self.faults: list[str] = []
        self._story = Story()
        self._call_log = CallLog(self._is_closing, self._story)
        self._runners: list[StepRunner] = []
        self._seen: list[WatcherLog] = []
        self._binder = self._make_binder(make_binder)
        self._scope = trio.CancelScope()
        #: Whether the body of the block has ended; whether the block has ended.
        self._is_leaving = self._has_left = False
        self._jumps = 0
        self._opened_us = 0
        self._quiet: trio.Event
        self._early: trio.Event
        self._token: trio.lowlevel.TrioToken | None = None
        self._everything = trio.CancelScope()
        self.stored = None if program.store is None else ProgramStore(program.order.chance)
        #: How many times the block was entered, and how many times it is to be.
        self._life = 0
        self._batches = 0
        self._lives = 2 if program.store is not None and program.store.restarts else 1

    def end_soon(self) -> None:
        """Cancel the run because it takes too long; may be called from a signal handler."""
        self.faults.append(too_long())
        if self._token is not None:
            self._token.run_sync_soon(self._everything.cancel)

    def _make_binder(self, make: Callable[[], muster.Binder] | None) -> ObservedBinder | None:
        if make is not None:
            return ObservedBinder(make(), self._story)
        plans = self._program.binds
        return ObservedBinder(PlannedBinder(plans), self._story) if plans else None

    def _is_closing(self) -> bool:
        return self._is_leaving or self._scope.cancel_called

    # The tasks

    async def main(self) -> None:
        """Run the program."""
        self._token = trio.lowlevel.current_trio_token()
        self._opened_us = self._now_us()
        with self._everything:
            while self._life < self._lives and not self.faults:
                self._begin_life()
                await self._run()

    def _begin_life(self) -> None:
        """Clear the state of the previous life; its decisions are the beginning of the story."""
        self._life += 1
        self._quiet, self._early = trio.Event(), trio.Event()
        self._scope = trio.CancelScope()
        self._is_leaving = self._has_left = False
        # What came due since the last block was left goes off late, at its own instant.
        self._story.awake_us = 0
        self._faults_of_watchers()
        self._runners.clear()

    def _faults_of_watchers(self) -> None:
        for number, seen in enumerate(self._seen):
            self.faults += faults_of(number, seen, self._story, at_rest=False)
        self._seen.clear()

    @property
    def _leave(self) -> Leave:
        """How this life ends; the one after a restart goes on to its end."""
        return self._program.leave if self._life == 1 else Leave()

    async def _run(self) -> None:
        before = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as pacing:
            pacing.start_soon(self._pace, pacing.cancel_scope)
            async with trio.open_nursery() as outside:
                await self._block(outside)
                self._has_left = True
            pacing.cancel_scope.cancel()
        left = trio.lowlevel.current_statistics().tasks_living - before
        if left:
            self.faults.append(f"{left} tasks are left")

    async def _block(self, outside: trio.Nursery) -> None:
        leave = self._leave
        if leave.how is LeaveMethod.CANCELLED:
            self.steps.at(leave.at, self._scope)
        elif leave.how is not LeaveMethod.DONE:
            self.steps.at(leave.at, self._early)
        try:
            with self._scope:
                await self._use_scheduler(outside)
        except LeftBlockError:
            if leave.how is not LeaveMethod.ERROR:
                raise
        except Exception as error:  # noqa: BLE001 - any other exception is a fault
            self.faults.append(f"out of the block came {_traceback_of(error)}")
        else:
            if leave.how is LeaveMethod.ERROR and not self._scope.cancelled_caught:
                self.faults.append("the exception by which the block was left did not come out")

    async def _use_scheduler(self, outside: trio.Nursery) -> None:
        program, order, store = self._program, self._program.order, self._program.store
        interleave = None if order.delays is None else Interleaving(order.delays, order.longest)
        async with muster.open_scheduler(
            program.config if self._life == 1 else None,
            binder=self._binder,
            bind_timeout=program.bind_timeout_us / MICROSECONDS,
            bind_attempts=program.bind_attempts,
            journal=self._story,
            record=self,
            clock=TrioClock(),
            store=None if self.stored is None else self.stored.directory,
            durability="process",
            checkpoint_every=CHECKPOINT_EVERY if store is None else store.checkpoint_every,
            interleave=interleave,
        ) as scheduler:
            try:
                await self._body(scheduler, outside)
            finally:
                self._is_leaving = True

    async def _body(self, scheduler: muster.Scheduler, outside: trio.Nursery) -> None:
        main = self._make_runner("main", scheduler)
        for step in self._program.prelude if self._life == 1 else ():
            await main.do(step)
        async with trio.open_nursery() as inside:
            for watcher in self._program.watchers:
                seen = WatcherLog(watcher, self._story.offered, len(self._story.decisions))
                self._seen.append(seen)
                place = outside if watcher.outside else inside
                place.start_soon(watch, scheduler, seen, self._story)
            for number, client in enumerate(map(self._part, self._program.clients)):
                runner = self._make_runner(f"client {number}", scheduler)
                place = outside if client.outside else inside
                place.start_soon(self._client, runner, client)
            await self._wait_to_leave()
            inside.cancel_scope.cancel()
        if self._quiet.is_set():
            await self._look(scheduler)
        if self._leave.how is LeaveMethod.ERROR:
            raise LeftBlockError

    def _part(self, client: Client) -> Client:
        """Return the part of a client that is done in this life."""
        if self._lives == 1:
            return client
        half = len(client.steps) // 2
        steps = client.steps[:half] if self._life == 1 else client.steps[half:]
        return attrs.evolve(client, steps=steps)

    async def _client(self, runner: StepRunner, client: Client) -> None:
        await runner.work_off(client)

    def _make_runner(self, who: str, scheduler: muster.Scheduler) -> StepRunner:
        runner = StepRunner(
            who,
            scheduler=scheduler,
            clock=self.clock,
            call_log=self._call_log,
            steps=self.steps,
            configs=self._program.configs,
            story=self._story,
            binder=self._binder,
            attempts=self._program.bind_attempts,
        )
        self._runners.append(runner)
        return runner

    async def _wait_to_leave(self) -> None:
        """Wait until no task can continue, or until the step at which the block is to end."""
        if self._leave.how in {LeaveMethod.EARLY, LeaveMethod.ERROR}:
            async with trio.open_nursery() as nursery:

                async def first(event: trio.Event) -> None:
                    await event.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(first, self._early)
                nursery.start_soon(first, self._quiet)
        else:
            await self._quiet.wait()

    async def _look(self, scheduler: muster.Scheduler) -> None:
        """Check the state when no task can continue."""
        await self._call_log.note("main", "check", "the last check", lambda: check(scheduler))
        overdue: list[str] = []

        def look(state: Examined) -> None:
            machine = state.machine
            due_us = machine.next_deadline_us()
            if due_us is not None and due_us <= machine.now_us:
                overdue.append(f"a timer of {due_us} us has not gone off at {machine.now_us} us")

        await self._call_log.note(
            "main", "examine", "a look at timers", lambda: scheduler.examine(look)
        )
        self.faults += overdue

    # The record

    def enter(self, at_us: int, event: Event, /) -> None:
        """Record an accepted event."""
        self._story.enter(at_us, event)

    def close(self, at_us: int, /) -> None:
        """Record the end of a batch, which is on disk before it is announced."""
        self._batches += 1
        if self.stored is not None and (kept := self.stored.kept()) < self._batches:
            self.faults.append(f"batch {self._batches} was announced, and {kept} were on disk")
        self._story.close(at_us)

    # Time, and checks when no task can continue

    async def _pace(self, everything: trio.CancelScope) -> None:
        while True:
            await wait_all_tasks_blocked()
            if not self._has_left and not self._is_closing():
                self.faults += faults_at_rest(
                    self._call_log, self._story, self._binder, self._runners, self._seen
                )
            if self.faults:
                await _give_up(everything)
                return
            wait_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
            if wait_s < inf and (self._jumps < MOST_JUMPS or self._is_closing()):
                self._jumps += 1
                self.clock.jump(max(wait_s, 0))
                self._story.awake_us = self._now_us() - self._opened_us
            elif not self._quiet.is_set():
                self._quiet.set()
            else:
                self._stuck()
                await _give_up(everything)
                return

    def _now_us(self) -> int:
        return round(self.clock.current_time() * MICROSECONDS)

    def _stuck(self) -> None:
        state = "the block has been left" if self._has_left else "the block is not left"
        self.faults.append(f"nothing can go on, and {state}")
        self.faults += [str(call) for call in self._call_log.open.values()]

    # Afterwards

    def _own(self) -> list[Key]:
        """Return the events with which the scheduler may have begun by itself."""
        has_config = self._program.config is not None and self.stored is not None
        return [("Configure",)] if has_config else []

    def outcome(self) -> Outcome:
        """Return the outcome, with the faults of the checks after the run."""
        story, call_log = self._story, self._call_log
        faults = [*story.faults, *call_log.faults, *self.faults]
        if self._binder is not None:
            faults += self._binder.faults
            attempts = self._program.bind_attempts
            faults += faults_of_attempts(story, self._binder, attempts)
        if not faults:
            faults += faults_of_calls(call_log, story, own=self._own())
            self._faults_of_watchers()
            faults += self.faults
        if not faults:
            is_kept = self.stored is not None
            expected = replay(story, None if is_kept else loaded(self._program.config))
            faults += faults_of_replay(story, expected, "the machines without tasks")
        return Outcome(
            program=self._program,
            story=story,
            faults=faults,
            calls=call_log.counted(),
            transcript=[str(call) for call in call_log.calls],
            steps=self.steps.count,
            order=self.steps.order,
            cancelled=self.steps.cancelled,
            jumps=self._jumps,
        )
