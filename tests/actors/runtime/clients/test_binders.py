"""Binders that do more than one expects: groups of errors, gangs, calls of the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Reason
from muster.testing import Recording
from tests.actors.program import refusals, watchdog
from tests.actors.service import Worker, pass_time, service

ONE: Final = {"vcore": 1}


# Groups of errors


async def test_a_group_that_the_binder_raises_is_the_cause() -> None:
    class Grouped:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.child)
                await trio.sleep_forever()

        async def child(self) -> None:
            raise OSError("no")

    async with service(binder=Grouped(), bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        with pytest.raises(muster.BindFailedError) as caught:
            await ask.bound()

    cause = caught.value.__cause__
    assert repr(cause).endswith("[OSError('no')])")


class Untidy:
    """A binder that fails when it is cancelled, while something else of it is cancelled."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.child)
            await trio.sleep_forever()

    async def child(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("no")


async def test_a_group_of_errors_and_cancellations_affects_nobody_else() -> None:
    async with service(binder=Untidy()) as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()
        await allocation.release()
        await wait_all_tasks_blocked()

        assert (await (await scheduler.add_ask("a", "m", ONE)).bound()).node == "n"


async def test_a_group_of_errors_and_cancellations_when_the_scheduler_is_closed() -> None:
    with watchdog():
        async with service(binder=Untidy()) as scheduler:
            await (await scheduler.add_ask("a", "k", ONE)).bound()


async def test_an_exit_of_a_binder_comes_out_as_it_is(worker: Worker) -> None:
    error = SystemExit(3)
    with pytest.raises(SystemExit) as caught:
        async with service(binder=worker) as scheduler:
            await scheduler.add_ask("a", "k", ONE)
            await wait_all_tasks_blocked()
            worker.last.finish(error)
            await trio.sleep_forever()

    assert caught.value is error


# Gangs


async def test_a_gang_with_a_binder(worker: Worker) -> None:
    async with service(cores=2, binder=worker) as scheduler:
        gang = await scheduler.add_gang("default/g", 2)
        asks = await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await gang.satisfied()
        await wait_all_tasks_blocked()
        assert [run.allocation.gang for run in worker.runs] == ["default/g"] * 2

        for run in worker.runs:
            run.start()

        assert [(await ask.bound()).ask for ask in asks] == ["k-0", "k-1"]


async def test_a_member_whose_work_fails_is_bound_again(worker: Worker) -> None:
    async with service(cores=2, binder=worker) as scheduler:
        await scheduler.add_gang("g", 2)
        (_, second) = await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await wait_all_tasks_blocked()
        worker.of("k-1").finish(OSError("no"))
        await wait_all_tasks_blocked()
        worker.of("k-1").start()

        assert (await second.bound()).gang == "default/g"
        assert worker.asks() == ["k-0", "k-1", "k-1"]


# Binders that call the scheduler


@attrs.define
class Caller:
    """A binder that asks for more of the scheduler that it works for."""

    scheduler: muster.Scheduler | None = None
    released: list[bool] = attrs.field(factory=list[bool])

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        assert self.scheduler is not None
        if allocation.ask == "k":
            await self.scheduler.add_ask("a", "child", ONE)
        started()
        await self.scheduler.settle()
        with trio.CancelScope(shield=True):
            self.released.append(await allocation.release())


async def test_a_binder_that_calls_the_scheduler(log: Recording) -> None:
    binder = Caller()
    async with service(binder=binder, journal=log) as scheduler:
        binder.scheduler = scheduler
        ask = await scheduler.add_ask("a", "k", ONE)
        allocation = await ask.bound()

        assert await allocation.ended() is Reason.COMPLETED
        assert await (await scheduler.ask("a", "child").bound()).ended() is Reason.COMPLETED
        await wait_all_tasks_blocked()
    assert binder.released == [True, True]
    assert refusals(log.decisions) == []


async def test_a_binder_that_waits_for_its_own_ask_is_late(mock_clock: MockClock) -> None:
    class Waits:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            await scheduler.ask(allocation.app, allocation.ask).bound()
            started()

    async with service(binder=Waits(), bind_timeout=5, bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await pass_time(mock_clock, 5)

        with pytest.raises(muster.BindFailedError):
            await ask.bound()


async def test_a_binder_that_uses_running() -> None:
    class Runs:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            async with allocation.running():
                started()

    async with service(binder=Runs()) as scheduler:
        for allocation in [await one.bound() for one in await scheduler.add_asks("a", "k", ONE, 3)]:
            assert await allocation.ended() is Reason.COMPLETED


async def test_a_binder_that_cancels_what_it_runs_in_has_failed() -> None:
    class Cancels:
        async def run(self, _: muster.Allocation, started: Callable[[], None]) -> None:
            started()
            nursery = trio.lowlevel.current_task().parent_nursery
            assert nursery is not None
            nursery.cancel_scope.cancel()
            await trio.lowlevel.checkpoint()

    async with service(binder=Cancels(), bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", {"vcore": 1})
        with pytest.raises(muster.BindFailedError) as caught:
            await (await ask.bound()).ended()
            await ask.bound()

    assert "cancelled itself" in str(caught.value.__cause__)
