"""Binders that are late, cancelled or fail.

Why their allocation ends, what they say of it, and the next run of the same ask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from typing_extensions import override

import muster
from muster import AskPlace, Reason, WorkFailedError
from muster._runtime.calls import MOST, in_words
from muster.testing import Recording
from muster_core.events import BindFailed, Event, Outcome, Release
from tests.actors.program import FailingJournal, bound, refusals, releases, watchdog
from tests.actors.service import ENDS, Gate, Later, Notes, Worker, pass_time, service

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


class TimeJump(trio.abc.Instrument):
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
async def test_work_that_was_reported_as_never_begun_does_not_begin(
    worker: Worker, mock_clock: MockClock, _time: int
) -> None:
    async with service(binder=worker, bind_timeout=5, bind_attempts=1) as scheduler:
        trio.lowlevel.add_instrument(TimeJump(mock_clock, 5))
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


class StubbornBinder:
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
    binder = StubbornBinder(error)
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

    class SlowBinder:
        async def run(self, _: muster.Allocation, started: Callable[[], None]) -> None:
            runs.append(trio.current_time())
            started()
            try:
                await trio.sleep_forever()
            finally:
                # The first one cleans up far beyond the time to start work.
                with trio.CancelScope(shield=True):
                    await trio.sleep(100 if len(runs) == 1 else 0)

    async with service(binder=SlowBinder(), bind_timeout=30, bind_attempts=3) as scheduler:
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


often = pytest.mark.parametrize("time", range(10))
"""Which of two tasks that are cancelled comes first is chance."""


@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize("reason", ENDS)
async def test_a_binder_sees_the_reason(
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


async def test_a_late_binder_sees_the_reason_before_its_allocation_has_ended(
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


class _UnspeakableError(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            muster.NotStartedError("another member has not started"),
            "another member has not started",
        ),
        (FileNotFoundError(2, "No such file", "x"), "[Errno 2] No such file: 'x'"),
        (TimeoutError("not after 30 s"), "not after 30 s"),
        (ValueError("seven"), "ValueError: seven"),
        (ValueError(), "ValueError"),
        (OSError(), "OSError"),
        (KeyError("x"), "KeyError: 'x'"),
        (muster.MusterError("\n  boom\nTraceback:\n  File x"), "boom"),
        (ValueError("boom\nTraceback"), "ValueError: boom"),
        (muster.MusterError("a\tb \x1b[2J \udc80 é"), r"a\tb \x1b[2J \udc80 é"),
        (_UnspeakableError(), "_UnspeakableError"),
    ],
)
def test_one_line(error: Exception, words: str) -> None:
    # FEED-36
    assert in_words(error) == words


def test_what_counts_comes_first() -> None:
    away = muster.NotStartedError("the engine is away")
    inner = ExceptionGroup("inside", [away, ValueError("seven")])

    assert in_words(ExceptionGroup("of a nursery", [away, inner])) == "ValueError: seven"
    assert in_words(ExceptionGroup("of a nursery", [away])) == "the engine is away"


def test_it_is_cut_short() -> None:
    words = in_words(muster.MusterError("x" * 1000))

    assert (len(words), words[-2:]) == (MOST, "x…")


LOST: Final = OSError("the machine has gone")
FAILED: Final = WorkFailedError("exit status 3")


async def noted_end(worker: Worker, error: Exception | None, *, starts: bool = True) -> Event | str:
    """Return the event that is let in when a run ends in some way."""
    notes = Notes()
    async with service(binder=worker, record=notes) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        if starts:
            worker.last.start()
        before = len(notes.events)
        worker.last.finish(error)
        await wait_all_tasks_blocked()
        return notes.events[before]


@pytest.mark.parametrize("starts", [True, False])
async def test_it_is_a_release(worker: Worker, starts: bool) -> None:
    event = await noted_end(worker, FAILED, starts=starts)

    assert event == Release("a", "k", Outcome.FAILED, "exit status 3")


async def test_an_error_of_ones_own(worker: Worker) -> None:
    class ExitedError(WorkFailedError):
        def __init__(self, status: int) -> None:
            super().__init__(f"exit status {status}")

    assert await noted_end(worker, ExitedError(3)) == Release(
        "a", "k", Outcome.FAILED, "exit status 3"
    )


async def test_no_message(worker: Worker) -> None:
    assert await noted_end(worker, WorkFailedError("")) == Release("a", "k", Outcome.FAILED)


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("of a nursery", [FAILED]),
        ExceptionGroup("and cleaning up", [LOST, ExceptionGroup("inside", [FAILED])]),
        ExceptionGroup("the first counts", [FAILED, WorkFailedError("exit status 4")]),
    ],
    ids=lambda error: error.message,
)
async def test_in_a_group(worker: Worker, error: Exception) -> None:
    assert await noted_end(worker, error) == Release("a", "k", Outcome.FAILED, "exit status 3")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LOST, "the machine has gone"),
        (ExceptionGroup("of a nursery", [LOST]), "the machine has gone"),
        (muster.MusterError, "MusterError"),
    ],
)
async def test_another_error_means_that_it_was_not_started(
    worker: Worker, error: Exception, message: str
) -> None:
    # FEED-36
    assert await noted_end(worker, error) == BindFailed("a", "k", message)


async def test_returning_is_completing(worker: Worker) -> None:
    assert await noted_end(worker, None) == Release("a", "k")


async def test_the_log_has_a_line_of_it(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "muster.binder")
    await noted_end(
        worker, muster.MusterError("ValueError: boom\nTraceback (most recent call last):")
    )

    warning, details = [one for one in caplog.records if "could not be started" in one.message]
    assert warning.message == "the work of a/k could not be started: ValueError: boom"
    assert (warning.levelno, warning.exc_info) == (logging.WARNING, None)
    assert (details.levelno, details.exc_info is not None) == (logging.DEBUG, True)
