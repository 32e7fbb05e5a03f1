"""Binders in asyncio, and leaving while they work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest
from typing_extensions import override

import muster.asyncio
from muster import BindFailedError, ClosedSchedulerError, Reason
from muster.asyncio import Allocation, Mode, Scheduler, open_scheduler
from tests.actors.asyncio.program import both_modes, outcome, read, run, small, turns, until

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Binder(muster.asyncio.Binder):
    """Runs work until it is told to end, and notes what it sees."""

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
