"""The entry of a scheduler: in order, with a bound, and left by those who are cancelled."""

from __future__ import annotations

import trio

import muster
from muster._runtime.entry import BOUND, EntryQueue
from tests.actors.program import settled, watchdog


async def fill(entry: EntryQueue[int], count: int = BOUND) -> None:
    for number in range(count):
        await entry.put(number)


async def put_into(entry: EntryQueue[int], thing: int, log: list[str]) -> None:
    try:
        await entry.put(thing)
    except muster.ClosedSchedulerError:
        log.append(f"{thing} closed")
    else:
        log.append(f"{thing} in")


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
        for thing in (BOUND, BOUND + 1):
            nursery.start_soon(put_into, entry, thing, log)
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
