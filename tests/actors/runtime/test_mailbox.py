from __future__ import annotations

import pytest
import trio

from muster._runtime.owners import Mailbox
from muster.testing import Interleaving
from tests.actors.program import settled, watchdog


async def take_into(mailbox: Mailbox[int], taken: list[list[int]]) -> None:
    while True:
        taken.append(await mailbox.take_all())


async def test_takes_everything_in_the_order_of_putting() -> None:
    mailbox: Mailbox[int] = Mailbox()
    for message in range(3):
        mailbox.put(message, wake=message == 1)

    assert await mailbox.take_all() == [0, 1, 2]
    assert mailbox.drain() == []


async def test_waits_until_it_is_woken() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[list[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, taken)
        await settled()
        mailbox.put(1, wake=False)
        mailbox.put(2, wake=False)
        await settled()
        assert taken == []
        mailbox.put(3)
        await settled()
        assert taken == [[1, 2, 3]]
        nursery.cancel_scope.cancel()


async def test_waking_without_a_message_wakes_nobody() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[list[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, taken)
        await settled()
        mailbox.wake()
        await settled()
        assert taken == []
        mailbox.put(1, wake=False)
        mailbox.wake()
        await settled()
        assert taken == [[1]]
        nursery.cancel_scope.cancel()


async def test_two_wakes_before_it_runs_are_one() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[list[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, taken)
        await settled()
        mailbox.put(1)
        mailbox.put(2)
        await settled()
        assert taken == [[1, 2]]
        nursery.cancel_scope.cancel()


async def test_one_that_comes_back_finds_what_was_put_without_waking() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.put(1, wake=False)

    with watchdog():
        assert await mailbox.take_all() == [1]


async def test_taking_is_a_checkpoint_with_and_without_messages() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.put(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.take_all()
    assert scope.cancelled_caught

    assert mailbox.drain() == [1]  # A cancelled taker has taken nothing.
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.take_all()
    assert scope.cancelled_caught


async def test_a_cancelled_taker_is_not_woken_any_more() -> None:
    mailbox: Mailbox[int] = Mailbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, list[list[int]]())
        await settled()
        nursery.cancel_scope.cancel()

    mailbox.put(1)  # This would fail if it still waited.

    with watchdog():
        assert await mailbox.take_all() == [1]


async def test_cancellation_after_the_wake_loses_no_message() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[list[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, taken)
        await settled()
        mailbox.put(1)
        nursery.cancel_scope.cancel()

    assert [*taken, mailbox.drain()] == [[1], []]


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_lost_whatever_the_interleaving(seed: int) -> None:
    mailbox: Mailbox[tuple[int, int]] = Mailbox(Interleaving(seed))
    delay = Interleaving(seed + 1000)

    async def putter(who: int) -> None:
        for number in range(20):
            mailbox.put((who, number), wake=(seed + who + number) % 3 == 0 or number == 19)
            await delay()

    taken: list[tuple[int, int]] = []
    with watchdog():
        async with trio.open_nursery() as nursery:
            for who in range(3):
                nursery.start_soon(putter, who)
            while len(taken) < 60:
                taken.extend(await mailbox.take_all())

    for who in range(3):
        assert [message for message in taken if message[0] == who] == [
            (who, number) for number in range(20)
        ]
