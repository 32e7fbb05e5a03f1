"""Work that has failed: what handles say of it, with and without a retry left."""

from __future__ import annotations

from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import muster
from muster import Reason, WorkFailedError
from muster.testing import Recording, check
from tests.actors.program import releases
from tests.actors.service import Later, Worker, service

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


async def test_who_waits_for_the_next_allocation_is_told() -> None:
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
async def test_a_body_is_cut_short_when_somebody_else_says_that_it_failed(retries: int) -> None:
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


async def test_who_waits_for_the_start_is_told(worker: Worker) -> None:
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
