"""Leaving the block of a scheduler, in every way and at every moment.

No task is left, every waiter gets an answer, and the exception that ended the block comes out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from typing_extensions import override

import muster
from muster._runtime.entry import BOUND as ENTRY_BOUND
from muster.testing import Interleaving, Recording, check
from muster_core.decisions import Announced
from muster_core.errors import RefusedError
from muster_core.events import AddApp, AddAsk, Release
from muster_core.owners.app_messages import Close
from muster_core.owners.application import ApplicationMachine
from tests.actors.program import (
    APP,
    NODE,
    ONE,
    FailingJournal,
    S,
    Steps,
    ask,
    bound,
    settled,
    shuffled,
    tasks,
    watchdog,
)

Call = Callable[[muster.Simulation], Awaitable[object]]

CALLS: Final[dict[str, Call]] = {
    "request": lambda scheduler: scheduler.request(ask("x")),
    "refused request": lambda scheduler: scheduler.request(ask("x", app="nobody")),
    "settle": lambda scheduler: scheduler.settle(),
    "finish": lambda scheduler: scheduler.finish(),
    "snapshot": lambda scheduler: scheduler.snapshot(),
    "why_pending": lambda scheduler: scheduler.why_pending("a", "k-4"),
    "check": check,
}


@attrs.define
class Caller:
    """A task outside of the block; it is answered in the end."""

    answers: list[str] = attrs.field(factory=list[str])

    async def call(self, name: str, scheduler: muster.Simulation) -> None:
        try:
            await CALLS[name](scheduler)
        except muster.ClosedSchedulerError:
            self.answers.append("closed")
        except RefusedError:
            self.answers.append("refused")
        else:
            self.answers.append("done")


# Normally


async def test_what_was_let_in_is_carried_out() -> None:
    log = Recording()
    before = tasks()
    async with muster.open_simulation(journal=log, interleave=Interleaving(4)) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=2))

    assert bound(log.decisions) == ["a/k-0", "a/k-1"]
    assert tasks() == before


async def test_no_time_passes_after_the_block() -> None:
    log = Recording()
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(AddAsk("a", "k", ONE, run_for_us=S))

    assert {one.at_us for one in log.decisions} == {0}


@pytest.mark.parametrize("name", CALLS)
async def test_calls_that_were_let_in_before_are_answered(name: str) -> None:
    caller = Caller()
    gate = trio.Event()
    with watchdog():
        async with (
            trio.open_nursery() as nursery,
            muster.open_simulation(interleave=gate.wait) as scheduler,
        ):
            await scheduler.submit(APP)
            nursery.start_soon(caller.call, "settle", scheduler)
            await settled()
            nursery.start_soon(caller.call, name, scheduler)
            await settled()
            nursery.start_soon(open_later, gate)

    # Two that are answered in one go come back in any order.
    assert sorted(caller.answers) == ["done", "refused" if name == "refused request" else "done"]


async def test_a_waiter_for_a_slot_is_not_let_in() -> None:
    gate = trio.Event()
    caller = Caller()
    with watchdog():
        async with (
            trio.open_nursery() as nursery,
            muster.open_simulation(interleave=gate.wait) as scheduler,
        ):
            await scheduler.submit(APP)
            nursery.start_soon(caller.call, "settle", scheduler)
            await settled()
            for number in range(ENTRY_BOUND):
                await scheduler.submit(ask(f"k{number}"))
            nursery.start_soon(caller.call, "settle", scheduler)
            await settled()
            nursery.start_soon(open_later, gate)

    assert sorted(caller.answers) == ["closed", "done"]


async def open_later(gate: trio.Event) -> None:
    await settled()
    gate.set()


@pytest.mark.parametrize("name", CALLS)
async def test_calls_after_the_block(name: str) -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(APP)

    with pytest.raises(muster.ClosedSchedulerError):
        await CALLS[name](scheduler)
    with pytest.raises(muster.ClosedSchedulerError):
        await scheduler.submit(NODE)
    with pytest.raises(muster.ClosedSchedulerError):
        await scheduler.refuse("bad")
    assert scheduler.statistics().requests == 1


# By an exception


@pytest.mark.parametrize(
    "error",
    [
        ValueError("mine"),
        KeyboardInterrupt(),
        SystemExit(3),
        ExceptionGroup("mine", [OSError("one"), ExceptionGroup("more", [ValueError("two")])]),
        ExceptionGroup("of one", [OSError("one")]),
        muster.ClosedSchedulerError("another one's"),
        RuntimeError("generator raised StopIteration"),
    ],
    ids=repr,
)
async def test_an_error_of_the_body_comes_out_as_itself(error: BaseException) -> None:
    before = tasks()
    cause = KeyError("why")
    log = Recording()

    with pytest.raises(type(error)) as caught:
        async with muster.open_simulation(journal=log) as scheduler:
            await scheduler.submit(APP)
            await scheduler.submit(ask())
            raise error from cause

    assert caught.value is error
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is None
    assert tasks() == before
    assert log.decisions == []


async def test_an_error_is_not_lost_under_a_cancellation() -> None:
    with trio.CancelScope() as scope, pytest.raises(ValueError, match="mine"):
        async with muster.open_simulation() as scheduler:
            await scheduler.submit(APP)
            scope.cancel()
            raise ValueError("mine")

    assert not scope.cancelled_caught


@pytest.mark.parametrize("name", CALLS)
async def test_waiters_get_an_error(name: str) -> None:
    caller = Caller()
    gate = trio.Event()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(ValueError, match="mine"):
                async with muster.open_simulation(interleave=gate.wait) as scheduler:
                    await scheduler.submit(APP)
                    nursery.start_soon(caller.call, name, scheduler)
                    nursery.start_soon(caller.call, "settle", scheduler)
                    await wait_all_tasks_blocked()
                    raise ValueError("mine")

    assert caller.answers in (["closed", "closed"], ["refused", "closed"])


async def test_all_waiters_at_a_full_entry_get_an_error() -> None:
    caller = Caller()
    gate = trio.Event()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(ValueError, match="mine"):
                async with muster.open_simulation(interleave=gate.wait) as scheduler:
                    for _ in range(ENTRY_BOUND + 50):
                        nursery.start_soon(caller.call, "settle", scheduler)
                    await wait_all_tasks_blocked()
                    raise ValueError("mine")

    assert caller.answers == ["closed"] * (ENTRY_BOUND + 50)


# By cancellation


@attrs.define
class Run:
    """What came of one run of the program below."""

    steps: int
    cancelled: bool
    answers: list[str]
    log: list[Announced]


async def busy(at: int, seed: int | None) -> Run:
    """Run a program that uses everything, and cancel the block at a step of any task.

    Callers outside of the block are not cancelled: they must get an answer.
    """
    log, caller = Recording(), Caller()
    interleave = None if seed is None else Interleaving(seed)
    scope = trio.CancelScope()
    steps = Steps(scope, at)
    before = tasks()
    with watchdog():
        async with trio.open_nursery() as nursery:
            trio.lowlevel.add_instrument(steps)
            with scope:
                async with muster.open_simulation(journal=log, interleave=interleave) as scheduler:
                    for name in CALLS:
                        nursery.start_soon(caller.call, name, scheduler)
                    await use(scheduler)
            trio.lowlevel.remove_instrument(steps)
    assert tasks() == before
    return Run(steps.count, scope.cancelled_caught, caller.answers, log.decisions)


async def use(scheduler: muster.Simulation) -> None:
    await scheduler.submit(NODE)
    await scheduler.request(APP)
    await scheduler.submit(AddApp("b", "root.other"))
    await scheduler.submit(AddAsk("a", "k", ONE, count=5, run_for_us=S))
    await scheduler.settle()
    await scheduler.submit(Release("a", "k-1"))
    await scheduler.submit(ask("late", app="b"), at_us=2 * S)
    await scheduler.snapshot()
    await scheduler.finish()


@pytest.mark.parametrize("seed", [None, 1, pytest.param(2, marks=pytest.mark.takes_long)])
def test_cancellation_at_every_step(seed: int | None) -> None:
    with shuffled(seed or 0):
        whole = trio.run(busy, 0, seed)
    assert not whole.cancelled
    assert len(whole.answers) == len(CALLS)

    for at in range(1, whole.steps + 1):
        with shuffled(seed or 0):
            run = trio.run(busy, at, seed)

        # Every call was answered, and once.
        assert len(run.answers) in (0, len(CALLS)), f"cancelled at step {at}"
        # What was announced is a beginning of what would have been.
        assert run.log == whole.log[: len(run.log)], f"cancelled at step {at}"


async def test_cancellation_in_the_middle_of_a_round() -> None:
    """Whole batches are announced, or nothing of them."""
    log = Recording()
    announced = 0
    with trio.CancelScope() as scope:
        async with muster.open_simulation(journal=log) as scheduler:
            await scheduler.submit(NODE)
            await scheduler.submit(APP)
            await scheduler.settle()
            announced = len(log.decisions)
            for number in range(3000):
                await scheduler.submit(AddAsk("a", f"k{number}", ONE))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(scheduler.settle)
                await settled(3)
                scope.cancel()

    assert scope.cancelled_caught
    assert len(log.decisions) == announced


async def test_a_timeout_in_the_body_is_the_body_s() -> None:
    async with muster.open_simulation() as scheduler:
        with trio.move_on_after(0) as scope:
            await scheduler.settle()
        assert scope.cancelled_caught
        await scheduler.settle()


async def test_a_block_that_is_cancelled_from_the_start() -> None:
    before = tasks()
    with trio.CancelScope() as scope:
        scope.cancel()
        async with muster.open_simulation() as scheduler:
            await scheduler.submit(NODE)

    assert scope.cancelled_caught
    assert tasks() == before


# By a journal


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        BrokenPipeError(),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
async def test_the_error_of_a_journal_comes_out(error: BaseException, batch: int) -> None:
    before = tasks()
    caller = Caller()
    error.__cause__, error.__context__ = cause, context = KeyError("cause"), KeyError("context")
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(type(error)) as caught:
                journal = FailingJournal(error, batch)
                async with muster.open_simulation(journal=journal) as scheduler:
                    nursery.start_soon(caller.call, "settle", scheduler)
                    for number in range(3):
                        await scheduler.submit(AddApp(f"a{number}", "root.q"))
                        if batch < 3 or number < 2:  # Else it fails when the block is left.
                            await scheduler.settle()

    assert caught.value is error
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is context
    assert caller.answers in (["closed"], ["done"])
    assert tasks() == before


async def test_a_group_of_one_from_a_journal_stays_a_group() -> None:
    error = ExceptionGroup("several files", [OSError("full")])
    with pytest.raises(ExceptionGroup, match="several files") as caught:
        async with muster.open_simulation(journal=FailingJournal(error)) as scheduler:
            await scheduler.submit(APP)

    assert caught.value.exceptions == error.exceptions


async def test_an_error_of_the_journal_is_not_hidden_by_what_the_body_makes_of_it() -> None:
    error = OSError("full")
    with pytest.raises(OSError, match="full") as caught:
        async with muster.open_simulation(journal=FailingJournal(error)) as scheduler:
            await scheduler.submit(APP)
            with trio.CancelScope(shield=True), pytest.raises(muster.ClosedSchedulerError):
                await scheduler.settle()
            raise ValueError("mine")

    assert caught.value is error


async def test_what_is_written_before_the_journal_fails_stays_written() -> None:
    log = Recording()

    class WritingThenFailingJournal(FailingJournal):
        @override
        def write(self, batch: Sequence[Announced]) -> None:
            super().write(batch)
            log.write(batch)

    with pytest.raises(OSError, match="full"):
        async with muster.open_simulation(
            journal=WritingThenFailingJournal(OSError("full"), 2)
        ) as scheduler:
            await scheduler.submit(NODE)
            await scheduler.submit(APP)
            await scheduler.submit(ask())
            await scheduler.settle()
            await scheduler.submit(ask("second"))
            await scheduler.settle()

    assert bound(log.decisions) == ["a/k"]


# By an owner


@pytest.fixture
def broken_on_close(monkeypatch: pytest.MonkeyPatch) -> ZeroDivisionError:
    error = ZeroDivisionError("a bug")

    def handle(self: ApplicationMachine, message: object) -> None:
        del self
        if isinstance(message, Close):
            raise error

    monkeypatch.setattr(ApplicationMachine, "handle", handle)
    return error


@pytest.mark.parametrize("name", CALLS)
async def test_an_owner_that_fails_ends_the_scheduler(
    name: str, broken_on_close: ZeroDivisionError
) -> None:
    before = tasks()
    with watchdog(), pytest.raises(muster.BrokenSchedulerError) as caught:
        async with muster.open_simulation(interleave=Interleaving(1)) as scheduler:
            await scheduler.submit(APP)
            await CALLS[name](scheduler)

    assert str(caught.value) == "the application 'a' failed on Close(epoch=1, direct=False)"
    assert caught.value.__cause__ is broken_on_close
    assert tasks() == before


async def test_several_owners_that_fail_at_once(broken_on_close: ZeroDivisionError) -> None:
    with watchdog(), pytest.raises(muster.BrokenSchedulerError) as caught:
        async with muster.open_simulation() as scheduler:
            for number in range(20):
                await scheduler.submit(AddApp(f"a{number}", "root.q"))

    assert caught.value.__cause__ is broken_on_close


async def test_callers_outside_learn_that_an_owner_failed(
    broken_on_close: ZeroDivisionError,
) -> None:
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(muster.BrokenSchedulerError):
                async with muster.open_simulation() as scheduler:
                    await scheduler.submit(APP)
                    for name in CALLS:
                        nursery.start_soon(caller.call, name, scheduler)
                    await trio.sleep_forever()

    assert caller.answers == ["closed"] * len(CALLS)
    assert broken_on_close.__traceback__ is not None
