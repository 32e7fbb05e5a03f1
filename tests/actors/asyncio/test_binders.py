"""Binders and bodies in asyncio.

How long they last, and which reason a cancelled binder sees.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar

import pytest
import trio
from typing_extensions import override

import muster.asyncio
from muster import (
    AllocationEndedError,
    BindFailedError,
    ClosedSchedulerError,
    Reason,
    WorkFailedError,
)
from muster.asyncio import Allocation, Mode, Scheduler, open_scheduler
from muster.asyncio._bridge import hold
from muster_core.events import Event, Outcome, Release
from tests.actors.asyncio.program import (
    both_modes,
    bridged,
    outcome,
    read,
    run,
    small,
    turns,
    until,
)
from tests.actors.service import Notes

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Binder(muster.asyncio.Binder):
    """Runs work until it is cancelled, and notes what it sees."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self.log: list[str] = []
        self.end = asyncio.Event()

    @override
    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        self.log.append(f"{WHO.get()}: {allocation.ask} on {allocation.node}")
        assert threading.current_thread() is threading.main_thread()
        if self._fails:
            raise OSError("no")
        try:
            started()
            await self.end.wait()
        finally:
            await turns(2)
            self.log.append(f"{allocation.ask} has ended")


@both_modes
def test_a_binder_runs_in_the_loop(mode: Mode) -> None:
    async def main() -> None:
        binder = Binder()
        WHO.set("opener")
        async with open_scheduler(mode=mode, binder=binder) as scheduler:
            WHO.set("caller")
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1})
            allocation = await ask.bound()
            assert binder.log == ["opener: k on n"]
            binder.end.set()
            assert await allocation.ended() is Reason.COMPLETED
        assert binder.log == ["opener: k on n", "k has ended"]

    run(main)


@both_modes
def test_a_binder_is_cancelled_when_the_allocation_ends(mode: Mode) -> None:
    async def main() -> None:
        binder = Binder()
        async with open_scheduler(mode=mode, binder=binder) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1})
            await ask.bound()
            await scheduler.remove_node("n")
            await until(lambda: len(binder.log) == 2)
            await scheduler.add_node("n", {"vcore": 1})
            await ask.bound()
            assert len(binder.log) == 3
        assert binder.log == ["nobody: k on n", "k has ended"] * 2

    run(main)


@both_modes
def test_a_binder_that_fails(mode: Mode) -> None:
    async def main() -> None:
        binder = Binder(fails=True)
        async with open_scheduler(mode=mode, binder=binder, bind_attempts=2) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1})
            with pytest.raises(BindFailedError) as caught:
                await ask.bound()
            assert caught.value.attempts == 2
            assert isinstance(caught.value.__cause__, OSError)
        assert len(binder.log) == 2

    run(main)


@both_modes
@pytest.mark.parametrize("k", range(0, 40, 4))
def test_closing_in_the_middle_of_everything(mode: Mode, k: int) -> None:
    async def main() -> None:
        binder = Binder()
        tasks: list[asyncio.Task[object]] = []

        async def work(scheduler: Scheduler, number: int) -> None:
            app = await scheduler.add_app(f"a{number}", "root.q")
            ask = await app.add_ask("k", {"vcore": 1})
            while True:
                allocation = await ask.bound()
                async with allocation.running():
                    await asyncio.Event().wait()

        with pytest.raises(ValueError, match="no"):
            async with open_scheduler(mode=mode, binder=binder) as scheduler:
                await scheduler.add_node("n", {"vcore": 3})
                tasks += [
                    asyncio.create_task(outcome(work(scheduler, number))) for number in range(5)
                ]
                tasks.append(asyncio.create_task(outcome(read(scheduler.decisions()))))
                await turns(k)
                if k % 8:
                    raise ValueError("no")
            raise ValueError("no")
        results = [await task for task in tasks]
        assert {type(one) for one in results[:5]} == {ClosedSchedulerError}
        begun = [line for line in binder.log if "on n" in line]
        assert len(binder.log) == 2 * len(begun)

    run(main)


class Recorder(muster.asyncio.Binder):
    """Runs until it fails or is cancelled, and records the reason why."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.begun = 0
        self.before: list[str | None] = []
        self.reasons: list[str | None] = []

    @override
    async def run(
        self, allocation: muster.asyncio.Allocation, started: Callable[[], None], /
    ) -> None:
        self.before.append(allocation.ending)
        self.begun += 1
        started()
        if self.error is not None:
            raise self.error
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.reasons.append(allocation.ending)
            raise


async def lose(scheduler: Scheduler) -> None:
    await scheduler.remove_node("n")


async def release(scheduler: Scheduler) -> None:
    await scheduler.release("a", "k")


@both_modes
@pytest.mark.parametrize(("end", "reason"), [(lose, Reason.NODE_LOST), (release, Reason.COMPLETED)])
def test_the_reason(
    mode: Mode, end: Callable[[Scheduler], Awaitable[None]], reason: Reason
) -> None:
    async def main() -> None:
        binder = Recorder()
        async with open_scheduler(mode=mode, binder=binder) as scheduler:
            await small(scheduler)
            allocation = await (await scheduler.add_ask("a", "k", {"vcore": 1})).bound()
            before = allocation.ending
            await end(scheduler)
            await until(lambda: bool(binder.reasons))
            assert (before, allocation.ending) == (None, reason)
        assert (binder.before[0], binder.reasons) == (None, [reason])

    run(main)


@both_modes
def test_being_late(mode: Mode) -> None:
    class LateRecorder(Recorder):
        @override
        async def run(
            self, allocation: muster.asyncio.Allocation, started: Callable[[], None], /
        ) -> None:
            await super().run(allocation, lambda: None)

    async def main() -> None:
        binder = LateRecorder()
        async with open_scheduler(
            mode=mode, binder=binder, bind_timeout=0.001, bind_attempts=1
        ) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1})
            with pytest.raises(muster.BindFailedError):
                await ask.bound()
        assert binder.reasons == [Reason.BIND_FAILED] * binder.begun

    run(main)


@both_modes
@pytest.mark.parametrize("error", [None, ValueError("mine")])
def test_closing(mode: Mode, error: Exception | None) -> None:
    async def main() -> None:
        binder = Recorder()
        held: list[muster.Allocation] = []
        with suppress(ValueError):
            async with open_scheduler(mode=mode, binder=binder) as scheduler:
                await small(scheduler, 3)
                for ask in await scheduler.add_asks("a", "k", {"vcore": 1}, 3):
                    held.append(await ask.bound())  # noqa: PERF401 - it may raise
                if error is not None:
                    raise error
        assert binder.reasons == ["closing"] * 3
        assert [one.ending for one in held] == ["closing"] * 3

    run(main)


@both_modes
def test_a_cancelled_program(mode: Mode) -> None:
    async def main() -> None:
        binder = Recorder()

        async def body() -> None:
            async with open_scheduler(mode=mode, binder=binder) as scheduler:
                await small(scheduler, 3)
                await scheduler.add_asks("a", "k", {"vcore": 1}, 3)
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await until(lambda: binder.begun == 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert binder.reasons == ["closing"] * 3

    run(main)


# What a program reports

FAILED = Release("a", "k", Outcome.FAILED, "exit status 3")


@both_modes
@pytest.mark.parametrize(
    "error",
    [
        WorkFailedError("exit status 3"),
        ExceptionGroup("of a group of tasks", [WorkFailedError("exit status 3")]),
    ],
    ids=["alone", "in a group"],
)
def test_work_that_failed(mode: Mode, error: Exception) -> None:
    events: list[Event | str] = []

    async def main() -> None:
        notes = Notes(events)
        async with open_scheduler(mode=mode, binder=Recorder(error), record=notes) as scheduler:
            await small(scheduler)
            await scheduler.add_ask("a", "k", {"vcore": 1})
            await until(lambda: FAILED in events)

    run(main)

    assert events[3] == FAILED


@both_modes
@pytest.mark.parametrize("outcome", ["failed", Outcome.FAILED], ids=repr)
def test_releasing_as_failed(mode: Mode, outcome: str) -> None:
    events: list[Event | str] = []

    async def main() -> None:
        async with open_scheduler(mode=mode, record=Notes(events)) as scheduler:
            await small(scheduler)
            allocation = await (await scheduler.add_ask("a", "k", {"vcore": 1})).bound()
            with pytest.raises(muster.EventError, match="outcome: 'lost'"):
                await allocation.release("lost")
            await turns(1)
            assert await allocation.release(outcome, "exit status 3")

    run(main)

    assert events[3] == FAILED


@both_modes
def test_an_ask_that_failed_is_no_success(mode: Mode) -> None:
    error = WorkFailedError("exit status 3")

    async def main() -> None:
        async with open_scheduler(mode=mode, binder=Recorder(error)) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1}, retries=1)
            with pytest.raises(muster.AskFailedError, match="exit status 3") as caught:
                while True:
                    await (await ask.bound()).ended()
            assert caught.value.__cause__ is error
            assert caught.value.reported == "exit status 3"

    run(main)


@both_modes
@pytest.mark.parametrize("retries", [0, 1])
def test_a_body_is_cut_short_when_a_caller_reports_its_failure(mode: Mode, retries: int) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1}, retries=retries)
            allocation = await ask.bound()
            with pytest.raises(muster.AllocationEndedError) as caught:
                async with allocation.running():
                    await scheduler.release("a", "k", outcome="failed")
                    await asyncio.Event().wait()
            assert isinstance(caught.value, muster.AllocationLostError) is bool(retries)
            assert caught.value.reason is Reason.FAILED

    run(main)


ENDED = AllocationEndedError("over", Reason.NODE_LOST)


class Block:
    """A block of trio that a test can end."""

    def __init__(self, *, is_over: bool = False) -> None:
        self._is_over = is_over
        self.entered = False
        self.left = False
        self.end = trio.Event()

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[None, None]:
        if self._is_over:
            await trio.lowlevel.checkpoint()
            raise ENDED
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                self.entered = True
                yield
                nursery.cancel_scope.cancel()
        except* AllocationEndedError:
            pass
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            self.left = True
        if self.end.is_set():
            raise ENDED

    async def _watch(self) -> None:
        await self.end.wait()
        raise ENDED


@both_modes
def test_left_normally(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            async with hold(bridge, block):
                assert block.entered
                assert not block.left
                await turns(5)
            assert block.left

    run(main)


@both_modes
def test_it_is_over_already(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            with pytest.raises(AllocationEndedError):
                async with hold(bridge, Block(is_over=True)):
                    pytest.fail("there is nothing to do")

    run(main)


@both_modes
def test_it_ends_from_outside(mode: Mode) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with bridged(mode) as bridge:
            block = Block()
            with pytest.raises(AllocationEndedError) as caught:
                async with hold(bridge, block):
                    bridge.post(block.end.set)
                    await asyncio.Event().wait()
            assert caught.value is ENDED
            assert task.cancelling() == 0
            await turns(5)

    run(main)


@both_modes
def test_it_ends_while_the_body_calls(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            with pytest.raises(AllocationEndedError):
                async with hold(bridge, block):
                    bridge.post(block.end.set)
                    await bridge.call(trio.sleep_forever)

    run(main)


@both_modes
def test_a_body_that_does_not_care_is_left_as_it_is_left(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            async with hold(bridge, block):
                bridge.post(block.end.set)
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.Event().wait()
            block = Block()
            with pytest.raises(OSError, match="no"):
                async with hold(bridge, block):
                    bridge.post(block.end.set)
                    try:
                        await asyncio.Event().wait()
                    finally:
                        raise OSError("no")

    run(main)


@both_modes
def test_the_body_is_cancelled_otherwise(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as deadline, hold(bridge, block):
                    deadline.reschedule(-1)
                    await asyncio.Event().wait()
            assert block.left

    run(main)


@both_modes
def test_both_at_once_is_a_cancellation_from_outside(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            inside = asyncio.Event()

            async def body() -> None:
                async with hold(bridge, block):
                    try:
                        inside.set()
                        await asyncio.Event().wait()
                    finally:
                        bridge.post(block.end.set)
                        await until(lambda: block.left)
                        await turns(5)

            task = asyncio.create_task(body())
            await inside.wait()
            task.cancel()
            assert isinstance(await outcome(task), asyncio.CancelledError)

    run(main)


@both_modes
@pytest.mark.parametrize("k", range(15))
def test_cancelled_at_any_time(mode: Mode, k: int) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()

            async def body() -> None:
                async with hold(bridge, block):
                    await turns(3)

            task = asyncio.create_task(body())
            await turns(k)
            task.cancel()
            await outcome(task)
            assert block.left == block.entered

    run(main)


@both_modes
def test_the_whole_trio_side_ends(mode: Mode) -> None:
    async def main() -> None:
        tasks: list[asyncio.Task[None]] = []
        with pytest.raises(ValueError, match="no"):
            async with bridged(mode) as bridge:
                inside = asyncio.Event()

                async def body() -> None:
                    async with hold(bridge, Block()):
                        inside.set()
                        await asyncio.Event().wait()

                tasks.append(asyncio.create_task(body()))
                await inside.wait()
                raise ValueError("no")
        assert isinstance(await outcome(tasks[0]), ClosedSchedulerError)

    run(main)
