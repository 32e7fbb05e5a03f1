"""Binders: when work has started, has ended, or could not be done.

Groups of errors, gangs, members bound in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Reason
from muster.testing import Interleaving, Recording, check
from tests.actors.program import bound, refusals, releases, watchdog
from tests.actors.service import Later, Run, Worker, pass_time, preempt, service

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
    class NestedBinder:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.child, started)

        async def child(self, started: Callable[[], None]) -> None:
            started()
            await trio.sleep_forever()

    async with service(binder=NestedBinder()) as scheduler:
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
    class QuickBinder:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            if starts:
                started()

    async with service(binder=QuickBinder(), journal=log) as scheduler:
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


async def test_a_waiter_learns_that_the_work_failed(worker: Worker) -> None:
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
    class MixedBinder:
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
    async with service(cores=20, binder=MixedBinder(), **options) as scheduler:
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


# Groups of errors


async def test_a_group_that_the_binder_raises_is_the_cause() -> None:
    class GroupBinder:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.child)
                await trio.sleep_forever()

        async def child(self) -> None:
            raise OSError("no")

    async with service(binder=GroupBinder(), bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        with pytest.raises(muster.BindFailedError) as caught:
            await ask.bound()

    cause = caught.value.__cause__
    assert repr(cause).endswith("[OSError('no')])")


class UntidyBinder:
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
    async with service(binder=UntidyBinder()) as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()
        await allocation.release()
        await wait_all_tasks_blocked()

        assert (await (await scheduler.add_ask("a", "m", ONE)).bound()).node == "n"


async def test_a_group_of_errors_and_cancellations_when_the_scheduler_is_closed() -> None:
    with watchdog():
        async with service(binder=UntidyBinder()) as scheduler:
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
class CallingBinder:
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
    binder = CallingBinder()
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
    class WaitingBinder:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            await scheduler.ask(allocation.app, allocation.ask).bound()
            started()

    async with service(binder=WaitingBinder(), bind_timeout=5, bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await pass_time(mock_clock, 5)

        with pytest.raises(muster.BindFailedError):
            await ask.bound()


async def test_a_binder_that_uses_running() -> None:
    class RunningBinder:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            async with allocation.running():
                started()

    async with service(binder=RunningBinder()) as scheduler:
        for allocation in [await one.bound() for one in await scheduler.add_asks("a", "k", ONE, 3)]:
            assert await allocation.ended() is Reason.COMPLETED


async def test_a_binder_that_cancels_what_it_runs_in_has_failed() -> None:
    class CancellingBinder:
        async def run(self, _: muster.Allocation, started: Callable[[], None]) -> None:
            started()
            nursery = trio.lowlevel.current_task().parent_nursery
            assert nursery is not None
            nursery.cancel_scope.cancel()
            await trio.lowlevel.checkpoint()

    async with service(binder=CancellingBinder(), bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", {"vcore": 1})
        with pytest.raises(muster.BindFailedError) as caught:
            await (await ask.bound()).ended()
            await ask.bound()

    assert "cancelled itself" in str(caught.value.__cause__)


def peers_and_steps(worker: Worker) -> dict[str, tuple[int, int]]:
    """Return the peers and the step of each ask's last run."""
    last = {run.allocation.ask: run.allocation for run in worker.runs}
    return {ask: (last[ask].peers, last[ask].step) for ask in sorted(last)}


async def test_an_ask_alone(worker: Worker) -> None:
    async with service(binder=worker) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()

        assert peers_and_steps(worker) == {"k": (1, worker.last.allocation.number)}


async def test_the_members_of_a_gang(worker: Worker) -> None:
    async with service(cores=4, binder=worker) as scheduler:
        await scheduler.add_ask("a", "before", ONE)
        await scheduler.add_gang("g", 3)
        await scheduler.add_asks("a", "k", ONE, 3, gang="g")
        await wait_all_tasks_blocked()

        before = worker.of("before").allocation.number
        first = worker.of("k-0").allocation.number
        assert before < first
        assert peers_and_steps(worker) == {
            "before": (1, before),
            "k-0": (3, first),
            "k-1": (3, first),
            "k-2": (3, first),
        }


async def test_a_member_that_comes_later_is_alone(worker: Worker) -> None:
    async with service(cores=4, binder=worker) as scheduler:
        await scheduler.add_gang("g", 2)
        # Of one batch: the third member is bound after the gang, as a plain ask.
        await scheduler.add_asks("a", "k", ONE, 3, gang="g")
        await scheduler.add_ask("a", "late", ONE, gang="g")
        await wait_all_tasks_blocked()

        assert [peers for peers, _ in peers_and_steps(worker).values()] == [2, 2, 1, 1]
        assert len({step for _, step in peers_and_steps(worker).values()}) == 3


async def test_each_gang_of_a_group(worker: Worker) -> None:
    async with service(cores=3, binder=worker) as scheduler:
        for gang in ("g", "h"):
            await scheduler.add_gang(gang, 1 if gang == "g" else 2, groups=["g", "h"])
        await scheduler.add_ask("a", "k", ONE, gang="g")
        await scheduler.add_asks("a", "m", ONE, 2, gang="h")
        await wait_all_tasks_blocked()

        assert {name: peers for name, (peers, _) in peers_and_steps(worker).items()} == {
            "k": 1,
            "m-0": 2,
            "m-1": 2,
        }


async def test_a_member_that_failed_comes_back_alone(worker: Worker) -> None:
    async with service(cores=2, binder=worker) as scheduler:
        await scheduler.add_gang("g", 2)
        await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await wait_all_tasks_blocked()
        worker.of("k-0").finish(OSError("no"))
        await wait_all_tasks_blocked()

        assert peers_and_steps(worker)["k-0"][0] == 1


async def test_a_gang_that_is_bound_again(worker: Worker) -> None:
    async with service(cores=2, binder=worker) as scheduler:
        await scheduler.add_gang("g", 2)
        await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await wait_all_tasks_blocked()
        before = peers_and_steps(worker)
        await scheduler.remove_node("n")
        await scheduler.add_node("n", {"vcore": 2})
        await wait_all_tasks_blocked()

        assert [peers for peers, _ in peers_and_steps(worker).values()] == [2, 2]
        assert peers_and_steps(worker)["k-0"][1] > before["k-0"][1]
        assert peers_and_steps(worker)["k-0"][1] == peers_and_steps(worker)["k-1"][1]


async def test_without_a_binder() -> None:
    async with service(cores=3) as scheduler:
        await scheduler.add_gang("g", 2)
        asks = await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        allocations = [await ask.bound() for ask in asks]

        assert [allocation.peers for allocation in allocations] == [2, 2]


async def test_a_handle_that_is_made_later(worker: Worker, tmp_path: Path) -> None:
    async with service(cores=2, binder=worker, store=tmp_path) as scheduler:
        await scheduler.add_gang("g", 2)
        await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await wait_all_tasks_blocked()
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        (ask, _) = await scheduler.asks(app="a")
        allocation = await ask.bound()

        assert (allocation.peers, allocation.step) == (2, 0)
