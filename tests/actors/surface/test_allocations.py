"""Handles of allocations: giving them back, and waiting for their end."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Reason
from muster_core.events import Outcome, Release
from tests.actors.service import ENDS, Gate, Later, Notes, preempt, service

ONE = {"vcore": 1}

# Allocation.release


async def test_an_allocation_is_released_once() -> None:
    async with service() as scheduler:
        (ask, other) = await scheduler.add_asks("a", "k", ONE, 2)
        allocation = await ask.bound()

        assert await allocation.release()
        assert not await allocation.release()
        assert (await other.bound()).node == "n"
        assert await allocation.ended() is Reason.COMPLETED


async def test_releasing_an_older_allocation_does_nothing(mock_clock: MockClock) -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        first = await ask.bound()
        high = await preempt(scheduler, mock_clock)
        await (await high.bound()).release()
        second = await ask.bound()

        assert not await first.release()

        assert (await scheduler.snapshot()).nodes["n"].used == {"vcore": 1000}
        assert await second.release()


async def test_two_tasks_release_at_once() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()
        (other, decisions) = (await scheduler.ask("a", "k").bound(), scheduler.decisions())

        released = [Later(nursery, one.release) for one in (allocation, other, allocation)]
        await wait_all_tasks_blocked()

        assert sorted(one.value for one in released) == [False, False, True]
        kinds = [one.decision.kind for one in await decisions.take()]
        assert kinds.count(muster.Kind.RELEASED) == 1
        assert muster.Kind.REJECTED not in kinds


async def test_release_by_handle_and_then_by_name_in_one_batch() -> None:
    gate = Gate()
    async with service(interleave=gate.wait) as scheduler, trio.open_nursery() as nursery:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()

        (by_handle, by_name) = await gate.gather(
            scheduler, nursery, allocation.release, lambda: scheduler.release("a", "k")
        )

        assert by_handle.value is True
        assert isinstance(by_name.error, muster.RefusedError)


async def test_release_by_name_and_then_by_handle_in_one_batch() -> None:
    gate = Gate()
    async with service(interleave=gate.wait) as scheduler, trio.open_nursery() as nursery:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()

        (by_name, by_handle) = await gate.gather(
            scheduler, nursery, lambda: scheduler.release("a", "k"), allocation.release
        )

        assert by_name.error is None
        assert by_handle.value is False


async def test_an_older_allocation_does_not_release_one_of_the_same_batch() -> None:
    gate = Gate()
    lose = {"op": "bind_failed", "app": "a", "ask": "k"}
    async with service(interleave=gate.wait) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        allocation = await ask.bound()

        (_, released) = await gate.gather(
            scheduler, nursery, lambda: scheduler.submit(lose), allocation.release
        )

        assert released.value is False
        assert await allocation.ended() is Reason.BIND_FAILED
        assert await (await ask.bound()).release()


@pytest.mark.parametrize("outcome", ["failed", Outcome.FAILED], ids=repr)
async def test_release_of_failed_work(outcome: Outcome | str) -> None:
    notes = Notes()
    async with service(record=notes) as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()

        assert await allocation.release(outcome, message="exit status 3")
        assert not await allocation.release(outcome)

    assert notes.events[3:] == [Release("a", "k", Outcome.FAILED, "exit status 3")]


async def test_release_with_a_message() -> None:
    notes = Notes()
    async with service(record=notes) as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()

        assert await allocation.release(message="all is well")

    assert notes.events[3:] == [Release("a", "k", message="all is well")]


async def test_release_with_an_outcome_that_there_is_not() -> None:
    async with service() as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()

        there_are = "outcome: 'lost': there are completed, failed"
        with pytest.raises(muster.EventError, match=there_are):
            await allocation.release("lost")

        with pytest.raises(muster.AllocationEndedError):
            async with allocation.running():
                await scheduler.remove_app("a")
                await trio.sleep_forever()


@pytest.mark.parametrize("bound", [True, False])
async def test_release_by_name_needs_a_bound_ask(bound: bool) -> None:
    async with service(cores=int(bound)) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        if bound:
            await scheduler.release("a", "k")

        with pytest.raises(muster.RefusedError, match="'k'"):
            await scheduler.release("a", "k")


async def test_release_of_a_closed_scheduler() -> None:
    async with service() as scheduler:
        allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()

    with pytest.raises(muster.ClosedSchedulerError):
        await allocation.release()
    with pytest.raises(muster.ClosedSchedulerError):
        await allocation.ended()


# Allocation.ended


@pytest.mark.parametrize("reason", ENDS)
async def test_ended(reason: Reason, mock_clock: MockClock) -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        allocation = await (await scheduler.add_ask("a", "k", ONE, run_for=60)).bound()
        waiting = [Later(nursery, allocation.ended), Later(nursery, allocation.ended)]
        await wait_all_tasks_blocked()
        assert not waiting[0].is_over

        await ENDS[reason](scheduler, mock_clock)
        await wait_all_tasks_blocked()

        assert [one.value for one in waiting] == [reason, reason]
        assert await allocation.ended() is reason


async def test_ended_of_a_pod_that_is_deleted() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"applicationId": "a"}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
    }
    async with service() as scheduler:
        await scheduler.apply(pod)
        allocation = await scheduler.ask("a", "p").bound()

        await scheduler.delete(pod)

        assert await allocation.ended() is Reason.REMOVED
