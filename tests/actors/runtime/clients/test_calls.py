"""Answers: they come once, and a call that is cancelled was not carried out."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import muster
from muster._runtime.calls import Enter, TimerDue, refuse
from muster._runtime.requests import Answer
from tests.actors.service import Later


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
async def test_what_who_was_cancelled_and_begun_is_told(
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
