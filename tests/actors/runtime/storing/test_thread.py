"""The thread of a store: one call after another, whose results and errors come back."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from muster._runtime.storage import store_thread


def names() -> list[str]:
    """Return the names of all threads that run now."""
    return [one.name for one in threading.enumerate()]


async def test_calls_run_in_one_thread_in_order_and_it_ends_with_the_block() -> None:
    seen: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        await run(lambda: seen.append((number, threading.get_ident())))

    async with store_thread() as run:
        thread = await run(threading.current_thread)
        assert thread is not threading.current_thread()
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(one, number)
                await trio.testing.wait_all_tasks_blocked()
    assert seen == [(number, thread.ident) for number in range(10)]
    thread.join(60)
    assert not thread.is_alive()


async def test_an_error_of_a_call_comes_out_and_the_next_call_is_carried_out() -> None:
    async with store_thread() as run:
        with pytest.raises(ValueError, match="invalid literal"):
            await run(int, "x")
        assert await run(int, "7") == 7


async def test_a_task_that_is_cancelled_before_makes_no_call() -> None:
    seen: list[int] = []
    async with store_thread() as run:
        with trio.CancelScope() as scope:
            scope.cancel()
            await run(seen.append, 1)
        assert scope.cancelled_caught
        await run(seen.append, 2)
    assert seen == [2]


async def test_a_call_that_has_begun_is_not_given_up() -> None:
    may_end = threading.Event()
    results: list[bool] = []
    async with store_thread() as run, trio.open_nursery() as nursery:

        async def call() -> None:
            with trio.CancelScope() as scope:
                scopes.append(scope)
                results.append(await run(may_end.wait, 60))

        scopes: list[trio.CancelScope] = []
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        scopes[0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert not results
        may_end.set()
    assert results == [True]
    assert not scopes[0].cancelled_caught


def test_a_run_that_fails_leaves_no_thread_that_waits() -> None:
    for one in threading.enumerate():
        if one.name == "muster store":  # that of an earlier test may still be ending
            one.join(60)
    before = names()

    async def main() -> None:
        async with store_thread() as run:
            await run(int)
            raise KeyError

    with pytest.raises(KeyError):
        trio.run(main)
    for one in threading.enumerate():
        if one.name == "muster store":
            one.join(60)
    assert names().count("muster store") == before.count("muster store") == 0
