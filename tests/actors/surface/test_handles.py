"""Handles of applications, asks and allocations: waiting, giving back."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Reason
from muster_core.events import Outcome, Release
from tests.actors.program import watchdog
from tests.actors.service import ENDS, Gate, Later, Notes, preempt, service

ONE = {"vcore": 1}

# Ask.bound


async def test_bound_before_the_call() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", {"vcore": "500m", "memory": 0})

        allocation = await ask.bound()

    assert (allocation.app, allocation.ask, allocation.node) == ("a", "k", "n")
    assert (allocation.queue, allocation.gang) == ("root.q", None)
    assert allocation.resources == muster.Resources({"vcore": 500})


async def test_bound_after_the_call() -> None:
    async with service(cores=0) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        waiting = Later(nursery, ask.bound)
        await wait_all_tasks_blocked()
        assert not waiting.is_over

        await scheduler.update_node("n", capacity=ONE)
        await wait_all_tasks_blocked()

        assert waiting.value.node == "n"


async def test_bound_gives_the_next_allocation_after_a_preemption(mock_clock: MockClock) -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        first = await ask.bound()
        await preempt(scheduler, mock_clock)
        waiting = Later(nursery, ask.bound)
        await wait_all_tasks_blocked()
        assert not waiting.is_over

        await scheduler.add_node("m", ONE)
        await wait_all_tasks_blocked()

        assert (first.node, waiting.value.node) == ("n", "m")
        assert await first.ended() is Reason.PREEMPTED
        assert await waiting.value.release()


async def test_bound_of_an_ask_that_lost_its_node_and_has_another_in_the_same_batch() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        first = await ask.bound()

        await scheduler.submit_many(
            [{"op": "remove_node", "node": "n"}, {"op": "add_node", "node": "m", "capacity": ONE}]
        )

        assert await first.ended() is Reason.NODE_LOST
        assert (await ask.bound()).node == "m"


async def test_an_allocation_on_the_same_node_is_another_one() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        first = await ask.bound()

        await scheduler.submit({"op": "bind_failed", "app": "a", "ask": "k"})
        second = await ask.bound()

        assert await first.ended() is Reason.BIND_FAILED
        assert not await first.release()
        assert await second.release()


async def test_bound_of_a_completed_ask_gives_its_last_allocation() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await (await ask.bound()).release()

        allocation = await ask.bound()

        assert await allocation.ended() is Reason.COMPLETED
        assert not await allocation.release()


async def test_bound_of_an_ask_that_was_completed_before_anybody_looked() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await scheduler.release("a", "k")

        assert await (await ask.bound()).ended() is Reason.COMPLETED


async def test_an_ask_that_has_run_for_as_long_as_it_may(mock_clock: MockClock) -> None:
    # TIME-3
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE, run_limit="2s", retries=1)
        allocation = await ask.bound()
        mock_clock.autojump_threshold = 0

        with pytest.raises(
            muster.AllocationEndedError, match="a/k on n ended: run_limit"
        ) as caught:
            async with allocation.running():
                await trio.sleep_forever()

        assert type(caught.value) is muster.AllocationEndedError
        assert trio.current_time() == pytest.approx(2)
        assert await (await ask.bound()).ended() is Reason.RUN_LIMIT


async def test_an_ask_that_is_not_bound_by_its_start_by(mock_clock: MockClock) -> None:
    # TIME-8
    async with service(cores=0) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE, start_by=3)
        mock_clock.autojump_threshold = 0

        with pytest.raises(muster.AskRemovedError):
            await ask.bound()

        assert trio.current_time() == pytest.approx(3)
        with pytest.raises(
            muster.RefusedError, match="start_by: 1 s is in the past: it is 3 s now"
        ):
            await scheduler.add_ask("a", "late", ONE, start_by=1)


async def test_an_ask_that_comes_and_goes_in_one_batch_was_never_bound() -> None:
    gate = Gate()
    async with service(interleave=gate.wait) as scheduler, trio.open_nursery() as nursery:
        (addition, removed) = await gate.gather(
            scheduler,
            nursery,
            lambda: scheduler.add_ask("a", "k", ONE),
            lambda: scheduler.remove_app("a"),
        )

        assert removed.error is None
        assert isinstance(addition.value, muster.Ask)
        with pytest.raises(muster.AskRemovedError, match="ask a/k was removed"):
            await addition.value.bound()


async def test_bound_of_an_ask_that_is_removed_meanwhile() -> None:
    async with service(cores=0) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        waiting = Later(nursery, ask.bound)
        await wait_all_tasks_blocked()

        await ask.remove()
        await wait_all_tasks_blocked()

        assert type(waiting.error) is muster.AskRemovedError
        assert str(waiting.error) == "ask a/k was removed"


async def test_bound_of_an_ask_that_was_removed_before() -> None:
    async with service(cores=0) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await scheduler.remove_ask("a", "k")

        with pytest.raises(muster.AskRemovedError, match="ask a/k was removed"):
            await ask.bound()


@pytest.mark.parametrize("cores", [0, 1])
async def test_bound_of_an_ask_whose_application_is_removed(cores: int) -> None:
    async with service(cores=cores) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await scheduler.remove_app("a")

        with pytest.raises(muster.AskRemovedError, match="ask a/k was removed"):
            await ask.bound()


async def test_bound_of_one_that_was_preempted_and_removed_then(mock_clock: MockClock) -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        allocation = await ask.bound()
        await preempt(scheduler, mock_clock)
        await ask.remove()

        with pytest.raises(muster.AskRemovedError):
            await ask.bound()
        assert await allocation.ended() is Reason.PREEMPTED


async def test_bound_of_an_ask_that_there_is_not() -> None:
    async with service() as scheduler:
        with pytest.raises(muster.RefusedError, match="ask: 'k' is no ask of application 'a'"):
            await scheduler.ask("a", "k").bound()
        with pytest.raises(muster.RefusedError, match="app: 'b' is unknown"):
            await scheduler.app("b").ask("k").bound()


async def test_a_handle_by_name_may_come_before_its_ask() -> None:
    async with service() as scheduler:
        ask = scheduler.ask("a", "k")
        with pytest.raises(muster.RefusedError):
            await ask.bound()
        await scheduler.add_ask("a", "k", ONE)

        assert (await ask.bound()).ask == "k"


async def test_a_call_that_is_cancelled_while_it_waits_does_nothing() -> None:
    async with service(cores=0) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        waiting = Later(nursery, ask.bound)
        await wait_all_tasks_blocked()

        waiting.scope.cancel()
        await wait_all_tasks_blocked()
        await scheduler.update_node("n", capacity=ONE)

        assert waiting.scope.cancelled_caught
        assert (await ask.bound()).node == "n"


async def test_bound_of_an_ask_of_a_closed_scheduler() -> None:
    with watchdog():
        async with trio.open_nursery() as nursery:
            async with service(cores=0) as scheduler:
                ask = await scheduler.add_ask("a", "k", ONE)
                waiting = Later(nursery, ask.bound)
                await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()

    assert isinstance(waiting.error, muster.ClosedSchedulerError)
    with pytest.raises(muster.ClosedSchedulerError, match="the scheduler is closed"):
        await ask.bound()
    with pytest.raises(muster.ClosedSchedulerError, match="the scheduler is closed"):
        await scheduler.ask("a", "k").bound()


async def test_two_handles_of_one_ask_and_two_who_wait() -> None:
    async with service(cores=0) as scheduler, trio.open_nursery() as nursery:
        ask = await scheduler.add_ask("a", "k", ONE)
        waiting = [Later(nursery, one.bound) for one in (ask, ask, scheduler.ask("a", "k"))]
        await wait_all_tasks_blocked()

        await scheduler.update_node("n", capacity=ONE)
        await wait_all_tasks_blocked()

        assert [await one.value.release() for one in waiting] == [True, False, False]


# Ask.remove, Ask.why, Application


async def test_a_bound_ask_cannot_be_removed() -> None:
    async with service() as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)

        with pytest.raises(muster.RefusedError, match="'k'"):
            await ask.remove()

        assert await (await ask.bound()).release()
        with pytest.raises(muster.RefusedError, match="'k'"):
            await ask.remove()


async def test_why() -> None:
    async with service() as scheduler:
        (bound, pending) = await scheduler.app("a").add_asks("k", ONE, 2)

        assert await bound.why() is None
        explanation = await pending.why()
        assert explanation is not None
        assert (explanation.app, explanation.ask, explanation.place) == (
            "a",
            pending.name,
            "pending",
        )
        assert explanation.dominant.code is muster.Code.NO_NODE_FITS
        assert str(explanation).startswith("NoNodeFits: ")
        assert await scheduler.ask("a", "nothing").why() is None


# OUTLOOK-1, OUTLOOK-3
async def test_when_it_starts() -> None:
    async with service() as scheduler:
        app = scheduler.app("a")
        await app.add_ask("long", ONE, estimate="1m")
        first, second = await app.add_asks("k", ONE, 2)

        explanation = await second.why()
        assert explanation is not None
        assert explanation.outlook == muster.Outlook(position=2)
        made = await forecast_of(first)
        assert isinstance(made.fits_at, int)
        assert made.fits_at >= 60_000_000
        assert made == muster.Forecast(made.fits_at, starts_at_us=made.fits_at)
        # Nobody knows when the first one ends.
        assert await forecast_of(second) == muster.Forecast(made.fits_at, starts_at_us=None)


async def forecast_of(ask: muster.Ask) -> muster.Forecast:
    explanation = await ask.why(forecast=True)
    assert explanation is not None
    assert explanation.outlook is not None
    assert explanation.outlook.forecast is not None
    return explanation.outlook.forecast


async def test_the_methods_of_an_application() -> None:
    async with service(cores=3) as scheduler:
        app = await scheduler.add_app("b", "root.q")
        single = await app.add_ask("single", ONE, priority=1)
        asks = await app.add_asks("k", ONE, 2, selector={"disk": "ssd"})

        assert [repr(one) for one in (app, single, *asks)] == [
            "<Application b>",
            "<Ask b/single>",
            "<Ask b/k-0>",
            "<Ask b/k-1>",
        ]
        assert repr(await app.ask("single").bound()) == "<Allocation b/single on n>"
        await app.remove()
        with pytest.raises(muster.RefusedError, match="'b'"):
            await app.remove()


async def test_an_old_handle_does_not_remove_another_ask_of_its_name() -> None:
    async with service() as scheduler:
        await scheduler.update_node("n", schedulable=False)
        old = await scheduler.add_ask("a", "k", {"vcore": 1})
        await old.remove()
        new = await scheduler.add_ask("a", "k", {"vcore": 1})

        with pytest.raises(muster.RefusedError, match="'k' of application 'a' is gone"):
            await old.remove()
        assert await old.why() is None
        assert str(await new.why()).startswith("NoNodeFits")
        await new.remove()


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
