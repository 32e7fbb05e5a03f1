"""What a binder that is cancelled is told: why its allocation ends."""

from __future__ import annotations

from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Reason
from tests.actors.program import FailingJournal
from tests.actors.service import ENDS, Worker, pass_time, service

ONE: Final = {"vcore": 1}

often = pytest.mark.parametrize("time", range(10))
"""Which of two tasks that are cancelled comes first is chance."""


@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize("reason", ENDS)
async def test_a_binder_is_told_the_reason(
    reason: Reason, starts: bool, mock_clock: MockClock
) -> None:
    worker = Worker(starts=starts)
    async with service(binder=worker, bind_timeout=1000) as scheduler:
        await scheduler.add_ask("a", "k", ONE, run_for=60)
        await wait_all_tasks_blocked()
        first = worker.last
        assert first.allocation.ending is None

        await ENDS[reason](scheduler, mock_clock)
        await wait_all_tasks_blocked()

        assert first.ending is reason
        assert first.allocation.ending is reason


async def test_a_binder_that_is_late_is_told_before_its_allocation_has_ended(
    worker: Worker, mock_clock: MockClock
) -> None:
    async with service(binder=worker, bind_timeout=5) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await pass_time(mock_clock, 5)

        first = worker.runs[0]
        assert first.ending is Reason.BIND_FAILED
        assert await first.allocation.ended() is Reason.BIND_FAILED


async def test_the_first_reason_stays(worker: Worker, mock_clock: MockClock) -> None:
    async with service(binder=worker, bind_timeout=1000) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.cleanup = trio.Event()
        await ENDS[Reason.NODE_LOST](scheduler, mock_clock)
        await wait_all_tasks_blocked()
        worker.last.cleanup.set()

    assert worker.last.allocation.ending is Reason.NODE_LOST


@often
@pytest.mark.parametrize("starts", [True, False])
async def test_closing_at_the_end_of_the_block(starts: bool, time: int) -> None:
    del time
    worker = Worker(starts=starts)
    async with service(cores=3, binder=worker) as scheduler:
        await scheduler.add_asks("a", "k", ONE, 3)
        await wait_all_tasks_blocked()

    assert [run.ending for run in worker.runs] == ["closing"] * 3
    assert [run.allocation.ending for run in worker.runs] == ["closing"] * 3


@often
async def test_closing_by_an_exception(time: int) -> None:
    del time
    worker = Worker(starts=True)
    with pytest.raises(ValueError, match="mine"):
        async with service(cores=3, binder=worker) as scheduler:
            await scheduler.add_asks("a", "k", ONE, 3)
            await wait_all_tasks_blocked()
            raise ValueError("mine")

    assert [run.ending for run in worker.runs] == ["closing"] * 3


@often
@pytest.mark.parametrize("starts", [True, False])
async def test_closing_by_a_cancellation_from_outside(starts: bool, time: int) -> None:
    del time
    worker = Worker(starts=starts)
    with trio.CancelScope() as scope:
        async with service(cores=3, binder=worker) as scheduler:
            await scheduler.add_asks("a", "k", ONE, 3)
            await wait_all_tasks_blocked()
            scope.cancel()
            await trio.lowlevel.checkpoint()

    assert [run.ending for run in worker.runs] == ["closing"] * 3


@often
async def test_closing_by_a_journal_that_fails(time: int) -> None:
    del time
    worker = Worker(starts=True)
    with pytest.raises(OSError, match="full"):
        async with service(binder=worker, journal=FailingJournal(OSError("full"), 4)) as scheduler:
            await scheduler.add_ask("a", "k", ONE)
            await wait_all_tasks_blocked()
            await scheduler.add_ask("a", "l", ONE)
            await scheduler.remove_node("n")

    assert [run.ending for run in worker.runs] == ["closing"]


async def test_a_cancelled_run_that_cleans_up_for_long_holds_up_the_end(worker: Worker) -> None:
    cleanup = trio.Event()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with service(binder=worker) as scheduler:
                await scheduler.add_ask("a", "k", ONE)
                await wait_all_tasks_blocked()
                worker.last.cleanup = cleanup
                nursery.start_soon(set_later, cleanup)
                scope.cancel()
        assert cleanup.is_set()

    assert worker.last.over


async def set_later(event: trio.Event) -> None:
    await wait_all_tasks_blocked()
    event.set()


async def test_handles_of_a_program_say_it_too(mock_clock: MockClock) -> None:
    async with service(cores=2) as scheduler:
        kept = await (await scheduler.add_ask("a", "kept", ONE)).bound()
        done = await (await scheduler.add_ask("a", "done", ONE, run_for=60)).bound()
        assert (kept.ending, done.ending) == (None, None)
        await pass_time(mock_clock, 60)
        assert (kept.ending, done.ending) == (None, Reason.COMPLETED)

    assert (kept.ending, done.ending) == ("closing", Reason.COMPLETED)


def test_it_is_a_text_as_well() -> None:
    texts: list[str] = [Reason.PREEMPTED, "closing"]

    assert f"{texts[0]}, {texts[1]}" == "preempted, closing"
    assert muster.Allocation.ending.__doc__
