"""Doing work under an allocation, in every way in which that may end, failures included."""

from __future__ import annotations

from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Reason, WorkFailedError
from muster.testing import Recording, check
from tests.actors.program import releases, watchdog
from tests.actors.service import ENDS, Gate, Later, Worker, preempt, service

ONE_VCORE = {"vcore": 1}

# Allocation.running


async def start(scheduler: muster.Scheduler) -> muster.TrioAllocation:
    ask = await scheduler.add_ask("a", "k", ONE_VCORE, run_for=60)
    return await ask.bound()


async def work(allocation: muster.Allocation) -> None:
    async with allocation.running():
        await trio.sleep_forever()


@pytest.mark.parametrize("reason", ENDS)
async def test_running_is_cut_short(reason: Reason, mock_clock: MockClock) -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        allocation = await start(scheduler)
        working = Later(nursery, lambda: work(allocation))
        await wait_all_tasks_blocked()
        assert not working.is_over

        await ENDS[reason](scheduler, mock_clock)
        await wait_all_tasks_blocked()

    error = working.error
    assert isinstance(error, muster.AllocationEndedError)
    assert error.reason is reason
    for_others = reason in {Reason.PREEMPTED, Reason.RECLAIMED}
    assert isinstance(error, muster.PreemptedError) is for_others
    assert str(error) == f"the allocation of a/k on n ended: {reason}"
    assert (error.__cause__, isinstance(error.__context__, ExceptionGroup)) == (None, False)


# ONCE-2
@pytest.mark.parametrize("reason", [Reason.PREEMPTED, Reason.RECLAIMED, Reason.NODE_LOST])
async def test_an_ask_that_does_not_come_back(reason: Reason, mock_clock: MockClock) -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE_VCORE, once=True)
        allocation = await ask.bound()
        working = Later(nursery, lambda: work(allocation))
        await wait_all_tasks_blocked()

        await ENDS[reason](scheduler, mock_clock)
        await wait_all_tasks_blocked()

        assert type(working.error) is muster.AllocationEndedError
        assert working.error.reason is reason
        with pytest.raises(muster.AskRemovedError, match=f"does not come back.*{reason.value}"):
            await ask.bound()


async def test_running_that_ends_releases() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        async with allocation.running() as scope:
            assert not scope.cancel_called

        assert await allocation.ended() is Reason.COMPLETED
        assert (await scheduler.snapshot()).nodes["n"].used == {}


async def test_releasing_inside_of_the_body() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        async with allocation.running() as scope:
            assert await allocation.release()
            await wait_all_tasks_blocked()
            assert not scope.cancel_called

        assert await allocation.ended() is Reason.COMPLETED


async def test_releasing_by_another_handle_cuts_the_body_short() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        allocation = await start(scheduler)
        working = Later(nursery, lambda: work(allocation))
        await wait_all_tasks_blocked()

        assert await (await scheduler.ask("a", "k").bound()).release()
        await wait_all_tasks_blocked()

    assert isinstance(working.error, muster.AllocationEndedError)
    assert working.error.reason is Reason.COMPLETED


async def test_a_release_that_was_cancelled_has_not_released(mock_clock: MockClock) -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        allocation = await start(scheduler)

        async def body() -> None:
            async with allocation.running():
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await allocation.release()
                await trio.sleep_forever()

        working = Later(nursery, body)
        await preempt(scheduler, mock_clock)
        await wait_all_tasks_blocked()

        assert isinstance(working.error, muster.PreemptedError)
        working.scope.cancel()


async def test_the_body_may_cancel_its_scope() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        async with allocation.running() as scope:
            scope.cancel()
            await trio.lowlevel.checkpoint()

        assert scope.cancelled_caught
        assert await allocation.ended() is Reason.COMPLETED


async def test_a_cancellation_from_outside_releases() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        with trio.CancelScope() as outer:
            async with allocation.running():
                outer.cancel()
                await trio.sleep_forever()

        assert outer.cancelled_caught
        assert await allocation.ended() is Reason.COMPLETED


async def test_a_cancellation_from_outside_and_an_end_at_once() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        with trio.CancelScope() as outer:
            async with allocation.running():
                await scheduler.remove_app("a")
                outer.cancel()
                await trio.sleep_forever()

        assert outer.cancelled_caught
        assert await allocation.ended() is Reason.REMOVED


@pytest.mark.parametrize(
    "error",
    [
        ValueError("mine"),
        KeyboardInterrupt(),
        ExceptionGroup("mine", [OSError("one")]),
        muster.PreemptedError("another one's", Reason.PREEMPTED),
        StopAsyncIteration(),
    ],
    ids=repr,
)
async def test_what_the_body_raises_comes_out_as_it_is(error: BaseException) -> None:
    context, cause = KeyError("context"), KeyError("cause")
    async with service() as scheduler:
        allocation = await start(scheduler)
        with pytest.raises(type(error)) as caught:
            async with allocation.running():
                error.__cause__, error.__context__ = cause, context
                raise error

        assert caught.value is error
        assert (error.__cause__, error.__context__) == (cause, context)
        assert await allocation.ended() is Reason.COMPLETED


async def test_what_the_body_raises_when_it_is_cut_short() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        error = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as caught:
            async with allocation.running():
                await scheduler.remove_app("a")
                raise error

        assert caught.value is error
        assert error.__context__ is None


async def test_a_body_that_ends_under_an_allocation_that_is_lost() -> None:
    """Else nobody would wait for the ask, which is pending again, and then holds a node."""
    async with service() as scheduler:
        allocation = await start(scheduler)
        with pytest.raises(muster.AllocationLostError) as caught:
            async with allocation.running():
                await scheduler.remove_node("n")  # returns, though the body is cancelled by then

        assert caught.value.reason is Reason.NODE_LOST


async def test_a_body_that_ends_as_its_ask_is_removed() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        async with allocation.running() as scope:
            await scheduler.remove_app("a")

        assert scope.cancel_called
        assert await allocation.ended() is Reason.REMOVED


async def test_a_body_that_finishes_while_the_end_is_decided() -> None:
    (gate, go) = (Gate(), trio.Event())
    async with service(interleave=gate.wait) as scheduler, trio.open_nursery() as nursery:
        allocation = await start(scheduler)

        async def body() -> None:
            async with allocation.running():
                await go.wait()

        async def finish() -> None:
            go.set()

        working = Later(nursery, body)
        await wait_all_tasks_blocked()
        (lost, _) = await gate.gather(
            scheduler, nursery, lambda: scheduler.remove_node("n"), finish
        )

        assert (working.error, lost.error, working.is_over) == (None, None, True)
        assert await allocation.ended() is Reason.NODE_LOST


async def test_running_under_an_allocation_that_is_over() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        await scheduler.remove_node("n")

        with pytest.raises(muster.AllocationEndedError) as caught:
            async with allocation.running():
                pytest.fail("nothing is held")

        assert caught.value.reason is Reason.NODE_LOST


async def test_running_under_an_allocation_that_was_released() -> None:
    async with service() as scheduler:
        allocation = await start(scheduler)
        await allocation.release()

        with pytest.raises(muster.AllocationEndedError) as caught:
            async with allocation.running():
                pytest.fail("nothing is held")

        assert caught.value.reason is Reason.COMPLETED


async def test_running_when_the_scheduler_is_closed() -> None:
    with watchdog():
        async with trio.open_nursery() as nursery:
            async with service() as scheduler:
                allocation = await start(scheduler)
                working = Later(nursery, lambda: work(allocation))
                await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()

            assert isinstance(working.error, muster.ClosedSchedulerError)
            with pytest.raises(muster.ClosedSchedulerError):
                await work(allocation)


async def test_a_body_that_ends_after_the_scheduler() -> None:
    gate = trio.Event()

    async def body(allocation: muster.TrioAllocation) -> None:
        async with allocation.running() as scope:
            with trio.CancelScope(shield=True):
                await gate.wait()
            assert scope.cancel_called

    with watchdog():
        async with trio.open_nursery() as nursery:
            async with service() as scheduler:
                allocation = await start(scheduler)
                working = Later(nursery, lambda: body(allocation))
                await wait_all_tasks_blocked()
            assert not working.is_over
            gate.set()

    assert working.error is None


async def test_who_leaves_its_body_has_released_for_all() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        allocation = await start(scheduler)
        other = await scheduler.ask("a", "k").bound()
        working = Later(nursery, lambda: work(other))
        await wait_all_tasks_blocked()

        async with allocation.running():
            await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()

        assert isinstance(working.error, muster.AllocationEndedError)


async def test_of_two_bodies_under_one_handle_the_first_that_ends_ends_the_other() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        allocation = await start(scheduler)
        working = Later(nursery, lambda: work(allocation))
        await wait_all_tasks_blocked()

        async with allocation.running():
            pass
        await wait_all_tasks_blocked()

        assert isinstance(working.error, muster.AllocationEndedError)


ONE: Final = {"vcore": 1}

# Reported by a program


async def test_an_ask_that_failed_is_no_success() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        allocation = await ask.bound()

        assert await allocation.release("failed", "exit status 3")

        assert await allocation.ended() is Reason.FAILED
        with pytest.raises(muster.AskFailedError) as caught:
            await ask.bound()
        assert str(caught.value) == "ask a/k has failed: exit status 3"
        assert (caught.value.reported, caught.value.__cause__) == ("exit status 3", None)
        assert await ask.why() is None
        assert (await scheduler.snapshot()).apps["a"].asks == ()
        await check(scheduler)


async def test_without_a_message() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await ask.bound()
        await scheduler.release("a", "k", outcome="failed")

        with pytest.raises(muster.AskFailedError) as caught:
            await ask.bound()
        assert (str(caught.value), caught.value.reported) == ("ask a/k has failed", None)


async def test_the_log_has_the_message(log: Recording) -> None:
    async with service(journal=log) as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()
        await allocation.release("failed", "exit status 3")

    (released,) = (one.decision for one in log.decisions if one.decision.reason is not None)
    assert (released.reason, released.message) == (Reason.FAILED, "exit status 3")


async def test_an_ask_with_a_retry_is_bound_again() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE, retries=1)
        first = await ask.bound()
        await first.release("failed", "once")
        second = await ask.bound()

        assert await first.ended() is Reason.FAILED
        assert second.ending is None
        await second.release("failed", "twice")
        with pytest.raises(muster.AskFailedError, match="twice"):
            await ask.bound()


async def test_a_waiter_for_the_next_allocation_gets_an_error() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE, retries=1)
        allocation = await ask.bound()
        await scheduler.update_node("n", schedulable=False)
        await allocation.release("failed", "once")
        waiting = Later(nursery, ask.bound)
        await wait_all_tasks_blocked()
        assert not waiting.is_over
        await scheduler.update_node("n", schedulable=True)
        await wait_all_tasks_blocked()
        await waiting.value.release("failed", "twice")
        with pytest.raises(muster.AskFailedError, match="twice"):
            await ask.bound()


async def test_an_ask_that_failed_and_is_removed_while_it_waits_was_removed() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE, retries=1)
        allocation = await ask.bound()
        await scheduler.update_node("n", schedulable=False)
        await allocation.release("failed", "once")
        await ask.remove()

        with pytest.raises(muster.AskRemovedError) as caught:
            await ask.bound()
        assert type(caught.value) is muster.AskRemovedError


async def test_another_ask_of_that_name_is_another_ask() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await (await ask.bound()).release("failed", "once")
        again = await scheduler.add_ask("a", "k", ONE)

        assert (await again.bound()).node == "n"
        with pytest.raises(muster.AskFailedError):
            await ask.bound()


# Under `running`


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_body_is_cut_short_when_a_caller_reports_its_failure(retries: int) -> None:
    async def work(allocation: muster.Allocation) -> None:
        async with allocation.running():
            await trio.sleep_forever()

    async with service() as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE, retries=retries)
        allocation = await ask.bound()
        working = Later(nursery, lambda: work(allocation))
        await wait_all_tasks_blocked()
        await scheduler.release("a", "k", outcome="failed", message="exit status 3")
        await wait_all_tasks_blocked()

    error = working.error
    assert isinstance(error, muster.AllocationEndedError)
    assert isinstance(error, muster.AllocationLostError) is bool(retries)
    assert error.reason is Reason.FAILED
    assert str(error) == "the allocation of a/k on n ended: failed: exit status 3"


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_body_that_ends_all_the_same(retries: int) -> None:
    errors: list[muster.AllocationLostError] = []
    async with service() as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE, retries=retries)).bound()
        try:
            async with allocation.running():
                with trio.CancelScope(shield=True):
                    await scheduler.release("a", "k", outcome="failed")
        except muster.AllocationLostError as error:
            errors.append(error)

    assert len(errors) == retries, "it is lost only if it is to be done again"


async def test_a_body_that_says_itself_that_it_failed() -> None:
    async with service() as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE, retries=1)).bound()
        async with allocation.running() as scope:
            await allocation.release("failed")
            await trio.lowlevel.checkpoint()
            assert not scope.cancel_called

        assert await allocation.ended() is Reason.FAILED


# Reported by a binder


async def test_what_a_binder_raised_is_the_cause(worker: Worker) -> None:
    async with service(binder=worker) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        worker.last.start()
        allocation = await ask.bound()
        error = WorkFailedError("exit status 3")
        worker.last.finish(error)

        assert await allocation.ended() is Reason.FAILED
        with pytest.raises(muster.AskFailedError) as caught:
            await ask.bound()
        assert caught.value.__cause__ is error
        assert caught.value.reported == "exit status 3"


async def test_a_waiter_for_the_start_gets_an_error(worker: Worker) -> None:
    async with service(binder=worker) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        waiting = Later(nursery, ask.bound)
        await wait_all_tasks_blocked()
        worker.last.finish(WorkFailedError("exit status 3"))
        await wait_all_tasks_blocked()

    assert isinstance(waiting.error, muster.AskFailedError)


async def test_a_binder_runs_it_again_as_often_as_it_has_retries(
    worker: Worker, log: Recording
) -> None:
    async with service(binder=worker, journal=log, bind_attempts=1) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE, retries=2)
        for _ in range(3):
            await wait_all_tasks_blocked()
            worker.last.start()
            worker.last.finish(WorkFailedError("exit status 3"))
        with pytest.raises(muster.AskFailedError):
            await ask.bound()
        await check(scheduler)

    assert len(worker.runs) == 3
    assert releases(log.decisions) == [("k", Reason.FAILED)] * 3


# ONCE-2: The ask waits again after such a release; that nobody tries again is another matter.
@pytest.mark.parametrize("once", [False, True])
async def test_work_that_could_not_go_on_the_last_time(worker: Worker, *, once: bool) -> None:
    async with service(binder=worker, bind_attempts=1) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE, once=once)
        await wait_all_tasks_blocked()
        worker.last.start()
        allocation = await ask.bound()
        working = Later(nursery, lambda: work(allocation))
        await wait_all_tasks_blocked()

        worker.last.finish(OSError("no"))
        await wait_all_tasks_blocked()

        assert type(working.error) is muster.AllocationLostError
        assert working.error.reason is Reason.BIND_FAILED
        with pytest.raises(muster.BindFailedError):
            await ask.bound()


async def test_work_that_failed_ends_a_row_of_failed_binds(worker: Worker, log: Recording) -> None:
    ends = (OSError("no"), WorkFailedError("exit status 3"), OSError("no"), None)
    async with service(binder=worker, journal=log, bind_attempts=2) as scheduler:
        await scheduler.add_ask("a", "k", ONE, retries=1)
        for end in ends:
            await wait_all_tasks_blocked()
            worker.last.finish(end)
        await wait_all_tasks_blocked()

    reasons = [Reason.BIND_FAILED, Reason.FAILED, Reason.BIND_FAILED, Reason.COMPLETED]
    assert releases(log.decisions) == [("k", reason) for reason in reasons]


async def test_a_failed_bind_uses_no_retry(worker: Worker, log: Recording) -> None:
    ends = (OSError("no"), WorkFailedError("once"), OSError("no"), WorkFailedError("twice"))
    async with service(binder=worker, journal=log) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE, retries=1)
        for end in ends:
            await wait_all_tasks_blocked()
            worker.last.finish(end)
        with pytest.raises(muster.AskFailedError, match="twice"):
            await ask.bound()

    assert [reason for _, reason in releases(log.decisions)] == [
        Reason.BIND_FAILED,
        Reason.FAILED,
    ] * 2
