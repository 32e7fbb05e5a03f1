"""Binders: when work has started, has ended, or could not be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Reason
from muster.testing import Interleaving, Recording, check
from tests.actors.program import bound, refusals, releases
from tests.actors.service import Later, Run, Worker, preempt, service

ONE: Final = {"vcore": 1}


# Starting


async def test_bound_waits_until_the_work_has_started(worker: Worker) -> None:
    async with service(binder=worker) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        waiting = Later(nursery, ask.bound)
        await wait_all_tasks_blocked()
        assert (len(worker.runs), waiting.is_over) == (1, False)

        worker.last.start()
        await wait_all_tasks_blocked()

        assert waiting.value.node == worker.last.allocation.node == "n"
        assert (await ask.bound()).ask == "k"


async def test_calling_started_twice_is_nothing(worker: Worker) -> None:
    async with service(binder=worker) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.start()
        worker.last.start()

        assert await (await ask.bound()).release()
        worker.last.start()
        await wait_all_tasks_blocked()

        assert worker.last.cancelled


async def test_an_ask_that_nobody_has_a_handle_of_is_worked_for(worker: Worker) -> None:
    async with service(cores=2, binder=worker) as scheduler:
        await scheduler.submit({"op": "add_ask", "app": "a", "ask": "k", "resources": ONE})
        await scheduler.add_ask("a", "m", ONE)
        await wait_all_tasks_blocked()

        assert worker.asks() == ["k", "m"]
        allocation = worker.of("k").allocation
        assert (allocation.app, allocation.queue) == ("a", "root.q")
        assert allocation.resources == muster.Resources({"vcore": 1000})


async def test_started_may_be_called_by_a_child() -> None:
    class Parent:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.child, started)

        async def child(self, started: Callable[[], None]) -> None:
            started()
            await trio.sleep_forever()

    async with service(binder=Parent()) as scheduler:
        assert (await (await scheduler.add_ask("a", "k", ONE)).bound()).node == "n"


# Returning


async def test_returning_releases(worker: Worker, log: Recording) -> None:
    async with service(binder=worker, journal=log) as scheduler:
        (first, second) = await scheduler.add_asks("a", "k", ONE, 2)
        await wait_all_tasks_blocked()
        worker.last.start()
        allocation = await first.bound()

        worker.last.finish()

        assert await allocation.ended() is Reason.COMPLETED
        await wait_all_tasks_blocked()
        assert worker.asks() == ["k-0", "k-1"]
        assert await second.why() is None
    assert releases(log.decisions) == [("k-0", Reason.COMPLETED)]


async def test_returning_without_having_started_is_returning(worker: Worker) -> None:
    async with service(binder=worker) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        waiting = Later(nursery, ask.bound)
        await wait_all_tasks_blocked()

        worker.last.finish()
        await wait_all_tasks_blocked()

        assert await waiting.value.ended() is Reason.COMPLETED


@pytest.mark.parametrize("starts", [True, False])
async def test_work_that_is_over_at_once(starts: bool, log: Recording) -> None:
    class Quick:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            if starts:
                started()

    async with service(binder=Quick(), journal=log) as scheduler:
        asks = await scheduler.add_asks("a", "k", ONE, 50)
        for ask in asks:
            assert await (await ask.bound()).ended() is Reason.COMPLETED
        await check(scheduler)

    assert len(bound(log.decisions)) == 50
    assert refusals(log.decisions) == []


# Raising

Failing = Callable[[Run], None]


def fail_before(run: Run) -> None:
    run.finish(OSError("no such program"))


def fail_after(run: Run) -> None:
    run.start()
    run.finish(OSError("no such program"))


@pytest.mark.parametrize("fail", [fail_before, fail_after])
async def test_raising_makes_the_ask_pending_again(
    fail: Failing, worker: Worker, log: Recording
) -> None:
    async with service(binder=worker, journal=log) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        for attempt in (1, 2):
            await wait_all_tasks_blocked()
            assert len(worker.runs) == attempt
            fail(worker.last)
        await wait_all_tasks_blocked()
        worker.last.start()

        assert await (await ask.bound()).release()
        await check(scheduler)
    assert releases(log.decisions) == [
        ("k", Reason.BIND_FAILED),
        ("k", Reason.BIND_FAILED),
        ("k", Reason.COMPLETED),
    ]


@pytest.mark.parametrize("fail", [fail_before, fail_after])
@pytest.mark.parametrize("attempts", [1, 3])
async def test_too_many_failures_in_a_row_remove_the_ask(
    fail: Failing, attempts: int, worker: Worker
) -> None:
    async with service(binder=worker, bind_attempts=attempts) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        for _ in range(attempts):
            await wait_all_tasks_blocked()
            fail(worker.last)
        await wait_all_tasks_blocked()

        with pytest.raises(muster.BindFailedError) as caught:
            await ask.bound()

        assert caught.value.attempts == attempts == len(worker.runs)
        assert caught.value.__cause__ is worker.last.error
        times = f"its work could not be started, {attempts} times in a row"
        assert str(caught.value) == f"ask a/k was removed: {times}"
        snapshot = await scheduler.snapshot()
        assert snapshot.apps["a"].asks == ()


async def test_who_waits_is_told_that_the_work_failed(worker: Worker) -> None:
    async with service(binder=worker, bind_attempts=1) as scheduler:
        async with trio.open_nursery() as nursery:
            ask = await scheduler.add_ask("a", "k", ONE)
            waiting = [Later(nursery, ask.bound), Later(nursery, scheduler.ask("a", "k").bound)]
            await wait_all_tasks_blocked()
            worker.last.finish(OSError("no"))

        assert [type(one.error) for one in waiting] == [muster.BindFailedError] * 2
        assert [str(one.error and one.error.__cause__) for one in waiting] == ["no", "no"]


async def test_failures_need_not_end(worker: Worker) -> None:
    async with service(binder=worker, bind_attempts=None) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        for _ in range(20):
            await wait_all_tasks_blocked()
            worker.last.finish(OSError("no"))
        await wait_all_tasks_blocked()
        worker.last.start()

        assert (await ask.bound()).node == "n"
        assert len(worker.runs) == 21


async def test_another_end_makes_the_failures_begin_anew(
    worker: Worker, mock_clock: MockClock
) -> None:
    async with service(binder=worker, bind_attempts=2) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.finish(OSError("once"))
        await wait_all_tasks_blocked()
        high = await preempt(scheduler, mock_clock)
        worker.last.start()
        await (await high.bound()).release()
        await wait_all_tasks_blocked()
        worker.last.finish(OSError("once again"))
        await wait_all_tasks_blocked()
        worker.last.start()

        assert (await ask.bound()).ask == "k"
        assert worker.asks() == ["high", "k", "k", "k", "k"]


async def test_an_ask_that_failed_once_and_is_removed_by_the_program(worker: Worker) -> None:
    async with service(binder=worker) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        await scheduler.update_node("n", schedulable=False)
        worker.last.finish(OSError("once"))
        await wait_all_tasks_blocked()
        await ask.remove()

        with pytest.raises(muster.AskRemovedError) as caught:
            await ask.bound()
        assert type(caught.value) is muster.AskRemovedError


async def test_an_ask_that_was_removed_for_its_failures_may_be_asked_again(worker: Worker) -> None:
    async with service(binder=worker, bind_attempts=1) as scheduler:
        old = await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.finish(OSError("no"))
        await wait_all_tasks_blocked()
        new = await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.start()

        assert (await new.bound()).node == "n"
        with pytest.raises(muster.BindFailedError):
            await old.bound()


# Many


@pytest.mark.parametrize("seed", [1, 2])
async def test_many_at_once(seed: int, log: Recording) -> None:
    class Mixed:
        """Every third run fails before it starts, every third one after it."""

        def __init__(self) -> None:
            self.count = 0

        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            self.count += 1
            turn = self.count % 3
            await trio.lowlevel.checkpoint()
            if turn == 1:
                raise OSError("before")
            started()
            await trio.lowlevel.checkpoint()
            if turn == 2:
                raise OSError("after")

    options = {"journal": log, "interleave": Interleaving(seed), "bind_attempts": None}
    async with service(cores=20, binder=Mixed(), **options) as scheduler:
        for ask in await scheduler.add_asks("a", "k", ONE, 200):
            await ask.bound()
        while (await scheduler.snapshot()).nodes["n"].used:
            await trio.lowlevel.checkpoint()
        await check(scheduler)
    assert refusals(log.decisions) == []
    reasons = [reason for _, reason in releases(log.decisions)]
    assert reasons.count(Reason.COMPLETED) == 200


async def test_no_binder_starts_at_once() -> None:
    async with service() as scheduler:
        assert (await (await scheduler.add_ask("a", "k", ONE)).bound()).node == "n"


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
async def test_a_bad_timeout(seconds: float) -> None:
    with pytest.raises(muster.EventError, match=f"bind_timeout: {seconds!r} seconds"):
        async with service(bind_timeout=seconds):
            pass


@pytest.mark.parametrize("attempts", [0, -1])
async def test_bad_attempts(attempts: int) -> None:
    with pytest.raises(
        muster.EventError, match=f"bind_attempts: {attempts}: must be a whole number, 1"
    ):
        async with service(bind_attempts=attempts):
            pass
