"""Binders that are late, or cancelled, and the next run of the same ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from typing_extensions import override

import muster
from muster import AskPlace, Reason
from muster.testing import Recording
from tests.actors.program import bound, refusals, releases, watchdog
from tests.actors.service import ENDS, Gate, Later, Worker, pass_time, service

ONE: Final = {"vcore": 1}


# Being too late


async def test_work_that_does_not_start_in_time(worker: Worker, mock_clock: MockClock) -> None:
    async with service(binder=worker, bind_timeout=5) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await pass_time(mock_clock, 4.999)
        (first,) = worker.runs
        assert not first.over

        await pass_time(mock_clock, 0.001)

        assert first.cancelled
        assert len(worker.runs) == 2
        worker.last.start()
        assert (await ask.bound()).node == "n"


async def test_what_never_starts_is_removed(worker: Worker, mock_clock: MockClock) -> None:
    async with service(binder=worker, bind_timeout=5, bind_attempts=2) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await pass_time(mock_clock, 5)
        await pass_time(mock_clock, 5)

        with pytest.raises(muster.BindFailedError) as caught:
            await ask.bound()
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert str(caught.value.__cause__) == "the work had not started after 5 s"
        assert [run.begun_s for run in worker.runs] == [0, 5]


@pytest.mark.parametrize(
    "error",
    [
        muster.NotStartedError("the engine is away"),
        ExceptionGroup("of a nursery", [muster.NotStartedError("the engine is away")]),
    ],
    ids=["alone", "in a group"],
)
async def test_what_the_ask_is_not_to_blame_for_does_not_count(
    worker: Worker, error: Exception
) -> None:
    async with service(binder=worker, bind_attempts=2) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        for end in (error, OSError("no"), error, error):
            await wait_all_tasks_blocked()
            worker.last.finish(end)
        await wait_all_tasks_blocked()
        assert len(worker.runs) == 5
        worker.last.finish(
            ExceptionGroup("both", [muster.NotStartedError("away"), OSError("mine")])
        )

        # The second that counts is the last.
        with pytest.raises(muster.BindFailedError) as caught:
            await ask.bound()
        assert caught.value.attempts == 2


class Jump(trio.abc.Instrument):
    """Lets time pass when a run is watched over, and has not had its first turn."""

    def __init__(self, clock: MockClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    @override
    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.name.endswith("Bindings._run"):
            self._clock.jump(self._seconds)
            trio.lowlevel.remove_instrument(self)


@pytest.mark.parametrize("_time", range(20))  # Which of two tasks comes first is chance.
async def test_work_of_which_it_was_said_that_it_never_began_does_not_begin(
    worker: Worker, mock_clock: MockClock, _time: int
) -> None:
    async with service(binder=worker, bind_timeout=5, bind_attempts=1) as scheduler:
        trio.lowlevel.add_instrument(Jump(mock_clock, 5))
        ask = await scheduler.add_ask("a", "k", ONE)
        await pass_time(mock_clock, 0)
        await pass_time(mock_clock, 5)

        with pytest.raises(muster.BindFailedError):
            await ask.bound()
        assert len(worker.runs) == 1


async def test_started_that_comes_too_late(worker: Worker, mock_clock: MockClock) -> None:
    async with service(binder=worker, bind_timeout=5) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        first = worker.last
        first.cleanup = trio.Event()
        await pass_time(mock_clock, 5)

        first.start()
        await wait_all_tasks_blocked()

        assert (first.cancelled, first.over) == (True, False)
        assert (await scheduler.snapshot()).apps["a"].asks[0].place is AskPlace.BOUND
        first.cleanup.set()


async def test_what_has_started_may_take_its_time(worker: Worker, mock_clock: MockClock) -> None:
    async with service(binder=worker, bind_timeout=5) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await pass_time(mock_clock, 4.999)
        worker.last.start()
        await pass_time(mock_clock, 100_000)

        assert not worker.last.cancelled
        assert await (await ask.bound()).release()


# Being cancelled


@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize("reason", ENDS)
async def test_a_run_is_cancelled_when_the_allocation_ends(
    starts: bool, reason: Reason, mock_clock: MockClock
) -> None:
    worker = Worker(starts=starts)
    async with service(binder=worker, bind_timeout=1000) as scheduler:
        await scheduler.add_ask("a", "k", ONE, run_for=60)
        await wait_all_tasks_blocked()
        first = worker.last

        await ENDS[reason](scheduler, mock_clock)
        await wait_all_tasks_blocked()

        assert (first.cancelled, first.over) == (True, True)
        assert await first.allocation.ended() is reason


@pytest.mark.parametrize("starts", [True, False])
async def test_a_run_is_cancelled_when_the_scheduler_is_closed(starts: bool) -> None:
    worker = Worker(starts=starts)
    before = trio.lowlevel.current_statistics().tasks_living
    async with service(cores=3, binder=worker) as scheduler:
        await scheduler.add_asks("a", "k", ONE, 3)
        await wait_all_tasks_blocked()

    assert [(run.cancelled, run.over) for run in worker.runs] == [(True, True)] * 3
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_closing_waits_until_the_work_has_ended() -> None:
    worker = Worker(starts=True)
    with watchdog():
        async with trio.open_nursery() as nursery:
            async with service(binder=worker) as scheduler:
                await (await scheduler.add_ask("a", "k", ONE)).bound()
                worker.last.cleanup = cleanup = trio.Event()
                nursery.start_soon(set_later, cleanup)

            assert cleanup.is_set()
            assert worker.last.over


async def set_later(event: trio.Event) -> None:
    await wait_all_tasks_blocked()
    event.set()


async def test_an_error_of_the_body_ends_the_work() -> None:
    worker = Worker(starts=True)
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with service(binder=worker) as scheduler:
            await (await scheduler.add_ask("a", "k", ONE)).bound()
            raise error

    assert caught.value is error
    assert worker.last.over


# Runs of one ask


async def fail_it(scheduler: muster.Scheduler) -> None:
    """End the allocation of ``a/k`` by hand, so that it is bound again at once."""
    await scheduler.submit({"op": "bind_failed", "app": "a", "ask": "k"})
    await wait_all_tasks_blocked()


async def test_the_next_run_waits_for_the_one_before(worker: Worker, log: Recording) -> None:
    async with service(binder=worker, journal=log) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.cleanup = cleanup = trio.Event()

        await fail_it(scheduler)
        assert bound(log.decisions) == ["a/k", "a/k"]
        assert len(worker.runs) == 1
        cleanup.set()
        await wait_all_tasks_blocked()

        assert len(worker.runs) == 2
        assert not worker.last.cancelled


async def test_a_run_that_never_began_lets_the_next_one_wait_too(worker: Worker) -> None:
    async with service(binder=worker) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.cleanup = cleanup = trio.Event()

        for _ in range(3):
            await fail_it(scheduler)
        assert len(worker.runs) == 1
        cleanup.set()
        await wait_all_tasks_blocked()

        # Those in between were over before they could begin.
        assert len(worker.runs) == 2
        assert not worker.last.cancelled


async def test_the_run_of_an_ask_of_the_same_name_waits_too(worker: Worker) -> None:
    async with service(binder=worker) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.cleanup = cleanup = trio.Event()
        await scheduler.release("a", "k")
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        assert len(worker.runs) == 1

        cleanup.set()
        await wait_all_tasks_blocked()

        assert len(worker.runs) == 2


async def test_others_use_the_node_while_work_is_being_ended(worker: Worker) -> None:
    async with service(binder=worker) as scheduler:
        (first, _) = await scheduler.add_asks("a", "k", ONE, 2)
        await wait_all_tasks_blocked()
        worker.last.start()
        worker.last.cleanup = cleanup = trio.Event()
        await (await first.bound()).release()
        await wait_all_tasks_blocked()

        assert worker.asks() == ["k-0", "k-1"]
        cleanup.set()


async def test_raising_after_the_end_is_nothing(worker: Worker, log: Recording) -> None:
    async with service(binder=worker, journal=log, bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        await fail_it(scheduler)
        worker.runs[0].finish(OSError("too late"))
        await wait_all_tasks_blocked()
        worker.last.start()

        assert (await ask.bound()).node == "n"
    assert refusals(log.decisions) == []


class Stubborn:
    """A binder that raises, or returns, when it is cancelled."""

    def __init__(self, error: Exception | None) -> None:
        self.runs = 0
        self._error = error

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        self.runs += 1
        started()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            if self._error is not None:
                raise self._error from None
            return


@pytest.mark.parametrize("error", [None, OSError("no")], ids=repr)
async def test_a_binder_that_makes_something_else_of_its_cancellation(
    error: Exception | None, log: Recording
) -> None:
    binder = Stubborn(error)
    async with service(binder=binder, journal=log, bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await ask.bound()
        await fail_it(scheduler)
        await fail_it(scheduler)

        assert (await ask.bound()).node == "n"
        assert binder.runs == 3
    assert refusals(log.decisions) == []
    assert releases(log.decisions) == [("k", Reason.BIND_FAILED)] * 2


@pytest.mark.parametrize("error", [None, OSError("no")], ids=repr)
async def test_a_release_by_name_and_the_end_of_the_work_in_one_batch(
    error: Exception | None, worker: Worker, log: Recording
) -> None:
    gate = Gate()
    options: dict[str, Any] = {"binder": worker, "journal": log, "bind_attempts": 1}
    async with (
        service(interleave=gate.wait, **options) as scheduler,
        trio.open_nursery() as nursery,
    ):
        ask = await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()

        async def finish() -> None:
            worker.last.finish(error)

        (released, _) = await gate.gather(
            scheduler, nursery, lambda: scheduler.release("a", "k"), finish
        )

        assert released.error is None
        assert await (await ask.bound()).ended() is Reason.COMPLETED
    assert releases(log.decisions) == [("k", Reason.COMPLETED)]


async def test_the_end_of_the_work_and_an_ask_of_the_same_name_in_one_batch(
    worker: Worker, log: Recording
) -> None:
    gate = Gate()
    async with (
        service(binder=worker, journal=log, interleave=gate.wait) as scheduler,
        trio.open_nursery() as nursery,
    ):
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()

        async def finish() -> None:
            worker.last.finish(OSError("of the old one"))

        await gate.gather(scheduler, nursery, lambda: ask_again(scheduler), finish)

        assert worker.asks() == ["k", "k"]
        assert not worker.last.over
    assert releases(log.decisions) == [("k", Reason.REMOVED)]


async def ask_again(scheduler: muster.Scheduler) -> None:
    assert await scheduler.submit_many(
        [
            {"op": "remove_app", "app": "a"},
            {"op": "add_app", "app": "a", "queue": "root.q"},
            {"op": "add_ask", "app": "a", "ask": "k", "resources": ONE},
        ]
    ) == (None, None, None)


async def test_waiting_for_an_earlier_run_is_no_attempt(mock_clock: MockClock) -> None:
    runs: list[float] = []

    class Slow:
        async def run(self, _: muster.Allocation, started: Callable[[], None]) -> None:
            runs.append(trio.current_time())
            started()
            try:
                await trio.sleep_forever()
            finally:
                # The first one cleans up far beyond the time to start work.
                with trio.CancelScope(shield=True):
                    await trio.sleep(100 if len(runs) == 1 else 0)

    async with service(binder=Slow(), bind_timeout=30, bind_attempts=3) as scheduler:
        ask = await scheduler.add_ask("a", "k", {"vcore": 1})
        await ask.bound()
        await scheduler.remove_node("n")
        await scheduler.add_node("n", {"vcore": 1})
        async with trio.open_nursery() as nursery:
            again = Later(nursery, ask.bound)
            for _ in range(11):
                await pass_time(mock_clock, 10)

    assert again.value.node == "n"
    assert runs == [0, 100]
