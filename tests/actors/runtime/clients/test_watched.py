"""Values that one task publishes and others watch."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from muster._runtime.observers import Watched
from tests.actors.program import watchdog
from tests.actors.service import Later


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
    heard: list[int] = []
    with watched.heard_by(heard.append):
        for value in (1, 2, 2):
            watched.publish(value)
            assert heard[-1] == value == watched.value
    watched.publish(3)

    assert heard == [1, 2, 2]


def test_one_listener_that_listens_twice_hears_twice() -> None:
    watched = Watched(0)
    heard: list[int] = []
    with watched.heard_by(heard.append):
        with watched.heard_by(heard.append):
            watched.publish(1)
        watched.publish(2)

    assert heard == [1, 1, 2]


async def test_a_listener_may_cancel_who_listens_itself() -> None:
    watched = Watched(0)
    scope = trio.CancelScope()
    others: list[int] = []

    async def listen() -> None:
        with scope, watched.heard_by(lambda _: scope.cancel()):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listening = Later(nursery, listen)
        await wait_all_tasks_blocked()
        with watched.heard_by(others.append):
            watched.publish(1)
            await wait_all_tasks_blocked()
            watched.publish(2)

    assert listening.is_over
    assert others == [1, 2]
