"""What a binder is told in asyncio when it is cancelled, and what it may report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from typing_extensions import override

import muster.asyncio
from muster import Reason, WorkFailedError
from muster.asyncio import Mode, Scheduler, open_scheduler
from muster_core.events import Event, Outcome, Release
from tests.actors.asyncio.program import both_modes, run, small, turns, until
from tests.actors.service import Notes


class Told(muster.asyncio.Binder):
    """Runs until it is cancelled or told to fail, and notes what it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.begun = 0
        self.before: list[str | None] = []
        self.told: list[str | None] = []

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
            self.told.append(allocation.ending)
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
        binder = Told()
        async with open_scheduler(mode=mode, binder=binder) as scheduler:
            await small(scheduler)
            allocation = await (await scheduler.add_ask("a", "k", {"vcore": 1})).bound()
            before = allocation.ending
            await end(scheduler)
            await until(lambda: bool(binder.told))
            assert (before, allocation.ending) == (None, reason)
        assert (binder.before[0], binder.told) == (None, [reason])

    run(main)


@both_modes
def test_being_late(mode: Mode) -> None:
    class Late(Told):
        @override
        async def run(
            self, allocation: muster.asyncio.Allocation, started: Callable[[], None], /
        ) -> None:
            await super().run(allocation, lambda: None)

    async def main() -> None:
        binder = Late()
        async with open_scheduler(
            mode=mode, binder=binder, bind_timeout=0.001, bind_attempts=1
        ) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1})
            with pytest.raises(muster.BindFailedError):
                await ask.bound()
        assert binder.told == [Reason.BIND_FAILED] * binder.begun

    run(main)


@both_modes
@pytest.mark.parametrize("error", [None, ValueError("mine")])
def test_closing(mode: Mode, error: Exception | None) -> None:
    async def main() -> None:
        binder = Told()
        held: list[muster.Allocation] = []
        with suppress(ValueError):
            async with open_scheduler(mode=mode, binder=binder) as scheduler:
                await small(scheduler, 3)
                for ask in await scheduler.add_asks("a", "k", {"vcore": 1}, 3):
                    held.append(await ask.bound())  # noqa: PERF401 - it may raise
                if error is not None:
                    raise error
        assert binder.told == ["closing"] * 3
        assert [one.ending for one in held] == ["closing"] * 3

    run(main)


@both_modes
def test_a_cancelled_program(mode: Mode) -> None:
    async def main() -> None:
        binder = Told()

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
        assert binder.told == ["closing"] * 3

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
        async with open_scheduler(mode=mode, binder=Told(error), record=notes) as scheduler:
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
        async with open_scheduler(mode=mode, binder=Told(error)) as scheduler:
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
def test_a_body_is_cut_short_when_somebody_else_says_that_it_failed(
    mode: Mode, retries: int
) -> None:
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
