"""The entry of a scheduler: in order, with a bound, and left by those who are cancelled.

Answers come once; values that are watched.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import muster
from muster._runtime.calls import Enter, TimerDue, refuse
from muster._runtime.entry import BOUND, BOUND as ENTRY_BOUND, EntryQueue
from muster._runtime.observers import Watched
from muster._runtime.requests import Answer
from muster.testing import Recording
from muster_core.events import RemoveApp
from tests.actors.program import settled, watchdog
from tests.actors.service import Gate, Later, service


async def fill(entry: EntryQueue[int], count: int = BOUND) -> None:
    for number in range(count):
        await entry.put(number)


async def put_into(entry: EntryQueue[int], item: int, log: list[str]) -> None:
    try:
        await entry.put(item)
    except muster.ClosedSchedulerError:
        log.append(f"{item} closed")
    else:
        log.append(f"{item} in")


def taken(entry: EntryQueue[int]) -> list[int]:
    return [entry.take() for _ in range(len(entry))]


async def test_takes_in_the_order_of_putting() -> None:
    entry: EntryQueue[int] = EntryQueue()
    await fill(entry, 3)

    assert await entry.wait()
    assert taken(entry) == [0, 1, 2]


async def test_waits_until_something_comes() -> None:
    entry: EntryQueue[int] = EntryQueue()
    log: list[str] = []

    async def take() -> None:
        log.append(f"{await entry.wait()} {taken(entry)}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await settled()
        assert log == []
        await entry.put(7)

    assert log == ["True [7]"]


async def test_one_that_was_cancelled_while_it_waited_can_wait_again() -> None:
    entry: EntryQueue[int] = EntryQueue()
    with trio.move_on_after(0) as scope:
        await entry.wait()
    assert scope.cancelled_caught
    await entry.put(1)

    assert await entry.wait()


async def test_others_run_each_time_that_something_is_put_in() -> None:
    entry: EntryQueue[int] = EntryQueue()
    turns: list[int] = []

    async def count_turns() -> None:
        while True:
            turns.append(len(entry))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        await trio.lowlevel.checkpoint()
        await fill(entry, 4)
        nursery.cancel_scope.cancel()

    # Which of two tasks that are ready comes first is chance, so that it may lag by one.
    assert all(abs(turn - number) <= 1 for number, turn in enumerate(turns))
    assert len(turns) >= 4


async def test_beyond_the_bound_each_waits_for_a_place_in_order() -> None:
    entry: EntryQueue[int] = EntryQueue()
    log: list[str] = []
    await fill(entry)
    async with trio.open_nursery() as nursery:
        for item in (BOUND, BOUND + 1):
            nursery.start_soon(put_into, entry, item, log)
            await settled()
        assert log == []
        assert entry.take() == 0
        await settled()
        assert log == [f"{BOUND} in"]
        assert taken(entry) == list(range(1, BOUND + 1))

    assert log == [f"{BOUND} in", f"{BOUND + 1} in"]
    assert taken(entry) == [BOUND + 1]


async def test_who_is_cancelled_while_it_waits_for_a_place_puts_nothing_in() -> None:
    entry: EntryQueue[int] = EntryQueue()
    log: list[str] = []
    await fill(entry)
    async with trio.open_nursery() as nursery:
        with watchdog():
            nursery.start_soon(put_into, entry, BOUND, log)
            await settled()
            nursery.cancel_scope.cancel()

    assert log == []
    assert taken(entry) == list(range(BOUND))


async def test_who_is_cancelled_already_puts_nothing_in() -> None:
    entry: EntryQueue[int] = EntryQueue()
    with trio.CancelScope() as scope:
        scope.cancel()
        await entry.put(1)

    assert scope.cancelled_caught
    assert not len(entry)


async def test_what_is_inside_when_it_is_closed_is_there_still() -> None:
    entry: EntryQueue[int] = EntryQueue()
    log: list[str] = []
    await fill(entry)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_into, entry, BOUND, log)
        await settled()
        entry.close()
        await put_into(entry, BOUND + 1, log)

    assert sorted(log) == [f"{BOUND} closed", f"{BOUND + 1} closed"]
    assert await entry.wait()
    assert taken(entry) == list(range(BOUND))
    assert not await entry.wait()


async def test_closing_wakes_who_waits_for_something() -> None:
    entry: EntryQueue[int] = EntryQueue()
    seen: list[bool] = []

    async def wait() -> None:
        seen.append(await entry.wait())

    with watchdog():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await settled()
            entry.close()
            entry.close()

    assert seen == [False]


ONE: Final = {"vcore": 1}


def add(scheduler: muster.Scheduler, name: str) -> Callable[[], Awaitable[object]]:
    return lambda: scheduler.add_node(name, ONE)


async def test_what_waits_at_the_entry_goes_into_one_batch() -> None:
    class BatchJournal:
        def __init__(self) -> None:
            self.count = 0

        def write(self, batch: object) -> None:
            self.count += 1

    journal = BatchJournal()
    async with service(journal=journal) as scheduler, trio.open_nursery() as nursery:
        before = journal.count
        for number in range(50):
            nursery.start_soon(scheduler.add_app, f"b{number}", "root.q")
        await wait_all_tasks_blocked()

        assert journal.count <= before + 2


async def test_who_finds_the_entry_full_waits_for_a_slot() -> None:
    gate = Gate()
    async with service(interleave=gate.wait) as scheduler, trio.open_nursery() as nursery:
        gate.shut()
        calls = [Later(nursery, add_app(scheduler, number)) for number in range(ENTRY_BOUND + 20)]
        await wait_all_tasks_blocked()
        assert not any(one.is_over for one in calls)
        gate.open()
        await wait_all_tasks_blocked()

        assert [one.error for one in calls] == [None] * len(calls)
        assert len((await scheduler.snapshot()).apps) == len(calls) + 1


def add_app(scheduler: muster.Scheduler, number: int) -> Callable[[], Awaitable[object]]:
    return lambda: scheduler.add_app(f"b{number}", "root.q")


async def test_who_is_cancelled_at_the_entry_has_done_nothing() -> None:
    (gate, log) = (Gate(), Recording())
    async with service(interleave=gate.wait, journal=log) as scheduler:
        async with trio.open_nursery() as nursery:
            gate.shut()
            first = Later(nursery, add_app(scheduler, 0))
            await wait_all_tasks_blocked()
            waiting = Later(nursery, add_app(scheduler, 1))
            await wait_all_tasks_blocked()
            for one in (first, waiting):
                one.scope.cancel()
            await wait_all_tasks_blocked()
            assert (first.is_over, waiting.is_over) == (False, True)
            gate.open()

        # The first was begun: it was done, and got its answer.
        assert (first.scope.cancelled_caught, waiting.scope.cancelled_caught) == (False, True)
        assert set((await scheduler.snapshot()).apps) == {"a", "b0"}


async def test_who_is_cancelled_before_calling_has_done_nothing() -> None:
    async with service() as scheduler:
        with trio.CancelScope() as scope:
            scope.cancel()
            await scheduler.add_node("m", ONE)

        assert scope.cancelled_caught
        assert set((await scheduler.snapshot()).nodes) == {"n"}


async def test_a_call_that_nobody_waits_for_any_more_closes_no_batch() -> None:
    gate = Gate()
    async with service(interleave=gate.wait) as scheduler:
        async with trio.open_nursery() as nursery:
            gate.shut()
            Later(nursery, add_app(scheduler, 0))
            await wait_all_tasks_blocked()
            withdrawn = [Later(nursery, add(scheduler, f"m{number}")) for number in range(9)]
            await wait_all_tasks_blocked()
            for one in withdrawn:
                one.scope.cancel()
            await wait_all_tasks_blocked()
            before = scheduler.statistics().batches
            gate.open()

        await wait_all_tasks_blocked()
        assert scheduler.statistics().batches <= before + 1


async def test_a_refusal_is_freed_without_the_garbage_collector() -> None:
    refusals: list[weakref.ref[muster.RefusedError]] = []
    gc.disable()
    try:
        async with service() as scheduler, muster.open_simulation() as simulation:
            for call in (
                lambda: scheduler.submit(RemoveApp("x")),
                scheduler.ask("a", "x").bound,
                lambda: simulation.request(RemoveApp("x")),
            ):
                try:
                    await call()
                except muster.RefusedError as error:
                    refusals.append(weakref.ref(error))
    finally:
        gc.enable()
    assert [refusal() for refusal in refusals] == [None] * 3


CALLS: Final[dict[str, Callable[[muster.Scheduler], Awaitable[object]]]] = {
    "add_node": lambda scheduler: scheduler.add_node("m", ONE),
    "remove_app": lambda scheduler: scheduler.remove_app("a"),
    "add_ask": lambda scheduler: scheduler.add_ask("a", "k", ONE),
    "add_asks": lambda scheduler: scheduler.add_asks("a", "k", ONE, 2),
    "bound": lambda scheduler: scheduler.ask("a", "k").bound(),
    "why": lambda scheduler: scheduler.ask("a", "k").why(),
    "satisfied": lambda scheduler: scheduler.gang("default/g").satisfied(),
    "submit": lambda scheduler: scheduler.submit({"op": "remove_node", "node": "n"}),
    "submit_many": lambda scheduler: scheduler.submit_many([]),
    "settle": lambda scheduler: scheduler.settle(),
    "snapshot": lambda scheduler: scheduler.snapshot(),
    "examine": lambda scheduler: scheduler.examine(lambda _: None),
}


@pytest.mark.parametrize("name", CALLS)
async def test_calls_after_the_end(name: str) -> None:
    async with service() as scheduler:
        pass

    with pytest.raises(muster.ClosedSchedulerError, match="the scheduler is closed"):
        await CALLS[name](scheduler)


@pytest.mark.parametrize("name", CALLS)
async def test_waiters_see_that_the_body_failed(name: str) -> None:
    gate = Gate()
    waiting: list[Later[object]] = []
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(ValueError, match="mine"):
                async with service(interleave=gate.wait) as scheduler:
                    gate.shut()
                    Later(nursery, add_app(scheduler, 0))
                    await wait_all_tasks_blocked()
                    waiting.append(Later(nursery, lambda: CALLS[name](scheduler)))
                    await wait_all_tasks_blocked()
                    raise ValueError("mine")

    assert [type(one.error) for one in waiting] == [muster.ClosedSchedulerError]


@pytest.fixture
def answer() -> Answer[int]:
    return Answer()


async def test_an_answer_that_is_there(answer: Answer[int]) -> None:
    assert answer.take()
    answer.give(5)

    assert await answer.wait() == 5


async def test_an_answer_that_is_waited_for(answer: Answer[int]) -> None:
    async with trio.open_nursery() as nursery:
        waiting = Later(nursery, answer.wait)
        await wait_all_tasks_blocked()
        assert answer.take()
        await wait_all_tasks_blocked()
        assert not waiting.is_over

        answer.give(5)
        await wait_all_tasks_blocked()

        assert waiting.value == 5


async def test_an_answer_may_be_none() -> None:
    answer: Answer[None] = Answer()
    answer.give(None)

    await answer.wait()


@pytest.mark.parametrize("waits", [True, False])
async def test_an_error_is_an_answer(waits: bool, answer: Answer[int]) -> None:
    error = muster.RefusedError("no")
    async with trio.open_nursery() as nursery:
        if not waits:
            answer.fail(error)
        waiting = Later(nursery, answer.wait)
        await wait_all_tasks_blocked()
        if waits:
            answer.fail(error)

    assert waiting.error is error


async def test_an_answer_stays_when_the_scheduler_fails_afterwards(answer: Answer[int]) -> None:
    answer.give(5)
    answer.fail(muster.ClosedSchedulerError("closed"))

    assert await answer.wait() == 5


async def test_who_is_cancelled_withdraws_what_was_not_begun(answer: Answer[int]) -> None:
    async with trio.open_nursery() as nursery:
        waiting = Later(nursery, answer.wait)
        await wait_all_tasks_blocked()
        waiting.scope.cancel()
        await wait_all_tasks_blocked()

        assert waiting.scope.cancelled_caught
        assert not answer.take()


async def test_who_is_cancelled_before_it_waits_withdraws_as_well(answer: Answer[int]) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await answer.wait()

    assert scope.cancelled_caught
    assert not answer.take()


async def test_who_is_cancelled_when_it_was_begun_gets_the_answer(answer: Answer[int]) -> None:
    async with trio.open_nursery() as nursery:
        waiting = Later(nursery, answer.wait)
        await wait_all_tasks_blocked()
        assert answer.take()
        waiting.scope.cancel()
        await wait_all_tasks_blocked()
        assert not waiting.is_over

        answer.give(5)
        await wait_all_tasks_blocked()

        assert not waiting.scope.cancelled_caught
        assert waiting.value == 5


async def test_who_is_cancelled_when_it_was_answered_gets_the_answer(answer: Answer[int]) -> None:
    with trio.CancelScope() as scope:
        answer.take()
        answer.give(5)
        scope.cancel()
        assert await answer.wait() == 5

    assert not scope.cancelled_caught


@pytest.mark.parametrize(
    ("error", "cancelled"),
    [(muster.RefusedError("no"), False), (muster.ClosedSchedulerError("closed"), True)],
    ids=["refused", "closed"],
)
async def test_what_a_cancelled_call_that_had_begun_returns(
    error: muster.MusterError, cancelled: bool, answer: Answer[int]
) -> None:
    async with trio.open_nursery() as nursery:
        waiting = Later(nursery, answer.wait)
        await wait_all_tasks_blocked()
        answer.take()
        waiting.scope.cancel()
        await wait_all_tasks_blocked()

        answer.fail(error)

    assert waiting.scope.cancelled_caught is cancelled
    assert waiting.error is (None if cancelled else error)


async def test_an_answer_to_who_has_withdrawn_is_lost(answer: Answer[int]) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await answer.wait()

    answer.fail(muster.ClosedSchedulerError("closed"))
    assert not answer.take()


async def test_refusing() -> None:
    call = Enter(())
    refuse(TimerDue(), None)
    refuse(call, None)

    with pytest.raises(muster.ClosedSchedulerError, match="closed before it answered"):
        await call.answer.wait()


async def test_the_newest_value() -> None:
    watched = Watched(1)
    assert watched.value == 1

    watched.publish(2)
    watched.publish(3)

    assert watched.value == 3


async def test_publishing_wakes_all_who_wait() -> None:
    watched = Watched("old")
    with watchdog():
        async with trio.open_nursery() as nursery:
            waiting = [Later(nursery, watched.changed) for _ in range(3)]
            await wait_all_tasks_blocked()
            assert not any(one.is_over for one in waiting)

            watched.publish("new")

    assert all(one.is_over for one in waiting)


async def test_who_waits_afterwards_waits_for_the_next_value() -> None:
    watched = Watched(1)
    async with trio.open_nursery() as nursery:
        watched.publish(2)
        waiting = Later(nursery, watched.changed)
        await wait_all_tasks_blocked()
        assert not waiting.is_over

        watched.publish(3)
        await wait_all_tasks_blocked()
        assert waiting.is_over


async def test_a_value_that_is_equal_is_published_as_well() -> None:
    watched = Watched(1)
    async with trio.open_nursery() as nursery:
        waiting = Later(nursery, watched.changed)
        await wait_all_tasks_blocked()

        watched.publish(1)
        await wait_all_tasks_blocked()

        assert waiting.is_over


async def test_one_who_is_cancelled_keeps_nobody_from_being_woken() -> None:
    watched = Watched(1)
    async with trio.open_nursery() as nursery:
        waiting = [Later(nursery, watched.changed) for _ in range(2)]
        await wait_all_tasks_blocked()
        waiting[0].scope.cancel()
        await wait_all_tasks_blocked()
        assert not waiting[1].is_over

        watched.publish(2)
        await wait_all_tasks_blocked()

        assert waiting[1].is_over


def test_a_listener_hears_every_value_at_once() -> None:
    watched = Watched(0)
    values: list[int] = []
    with watched.notifying(values.append):
        for value in (1, 2, 2):
            watched.publish(value)
            assert values[-1] == value == watched.value
    watched.publish(3)

    assert values == [1, 2, 2]


def test_one_listener_that_listens_twice_hears_twice() -> None:
    watched = Watched(0)
    values: list[int] = []
    with watched.notifying(values.append):
        with watched.notifying(values.append):
            watched.publish(1)
        watched.publish(2)

    assert values == [1, 1, 2]


async def test_a_listener_may_cancel_who_listens_itself() -> None:
    watched = Watched(0)
    scope = trio.CancelScope()
    others: list[int] = []

    async def listen() -> None:
        with scope, watched.notifying(lambda _: scope.cancel()):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listening = Later(nursery, listen)
        await wait_all_tasks_blocked()
        with watched.notifying(others.append):
            watched.publish(1)
            await wait_all_tasks_blocked()
            watched.publish(2)

    assert listening.is_over
    assert others == [1, 2]
