"""Observers: which decisions they get, in which order, and how those end that are too
slow, cancelled or closed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Announced, Kind, Lag
from muster.testing import Recording
from muster_core.owners.application import ApplicationMachine
from tests.actors.service import Later, service

ONE = {"vcore": 1}


async def busy(scheduler: muster.Scheduler) -> None:
    """Have decisions of many kinds made, about two applications and a gang."""
    await scheduler.add_app("b", "root.owner")
    await scheduler.add_ask("b", "k", ONE)
    await scheduler.add_gang("g", 2)
    await scheduler.add_asks("a", "m", ONE, 2, gang="g")
    await scheduler.release("b", "k")
    with pytest.raises(muster.RefusedError):
        await scheduler.remove_app("nobody")
    await scheduler.remove_app("a")


# Filters


def is_even(one: Announced) -> bool:
    return one.seq % 2 == 0


def of_kind(one: Announced) -> bool:
    return one.decision.kind in {Kind.BOUND, Kind.REJECTED}


FILTERS: dict[str, tuple[dict[str, Any], Callable[[Announced], bool]]] = {
    "nothing": ({}, lambda _: True),
    "kinds": ({"kinds": {Kind.BOUND, Kind.REJECTED}}, of_kind),
    "kinds as texts": ({"kinds": ["bound", "rejected"]}, of_kind),
    "no kinds": ({"kinds": ()}, lambda _: False),
    "app": ({"app": "a"}, lambda one: one.decision.app == "a"),
    "another app": ({"app": "A"}, lambda _: False),
    "queue": ({"queue": "root.q"}, lambda one: one.decision.queue == "root.q"),
    "queue in capitals": ({"queue": "ROOT.Q"}, lambda one: one.decision.queue == "root.q"),
    "queue without root": ({"queue": "q"}, lambda one: one.decision.queue == "root.q"),
    "root": ({"queue": "root"}, lambda one: one.decision.queue is not None),
    "the beginning of a name": ({"queue": "root.own"}, lambda _: False),
    "gang": ({"gang": "default/g"}, lambda one: one.decision.gang == "default/g"),
    "gang without namespace": ({"gang": "g"}, lambda one: one.decision.gang == "default/g"),
    "where": ({"where": is_even}, is_even),
    "several": (
        {"kinds": {"bound"}, "app": "a", "queue": "root.q", "gang": "g", "where": of_kind},
        lambda one: one.decision.kind is Kind.BOUND and one.decision.app == "a",
    ),
}
"""Arguments, and what they let through."""


@pytest.mark.parametrize("name", FILTERS)
async def test_a_filter(name: str) -> None:
    (arguments, wanted) = FILTERS[name]
    log = Recording()
    async with service(cores=4, journal=log) as scheduler:
        before = len(log.decisions)
        observer = scheduler.decisions(**arguments)
        await busy(scheduler)

    expected = [one for one in log.decisions[before:] if wanted(one)]
    assert [one async for one in observer] == expected
    assert bool(expected) is (name not in {"no kinds", "another app", "the beginning of a name"})


async def test_a_queue_and_those_below_it() -> None:
    queues: list[object] = [{"name": "p", "queues": [{"name": "x"}, {"name": "y"}]}, {"name": "q"}]
    config = {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": queues}]}]}
    async with service(config) as scheduler:
        observer = scheduler.decisions(queue="root.p", kinds={Kind.APP_STATE})
        for number, queue in enumerate(("root.p.x", "root.q", "root.p.y")):
            await scheduler.add_app(f"app{number}", queue)

        seen = {one.decision.app for one in await observer.take()}

    assert seen == {"app0", "app2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": {"jump"}}, "'jump' is not a valid Kind; kinds are assigned, waiting, bound"),
        ({"gang": "No Gang"}, "'No Gang'.*RFC 1123"),
        ({"gang": ""}, "RFC 1123"),
        ({"buffer": 0}, "buffer: 0 decisions: there has to be room for 1 at least"),
        ({"buffer": -1}, "buffer: -1"),
        ({"lag": "wait"}, "wait"),
    ],
)
async def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    async with service() as scheduler:
        with pytest.raises(muster.EventError, match=message):
            scheduler.decisions(**arguments)


async def test_a_filter_that_raises_ends_its_observer_only() -> None:
    error = ZeroDivisionError("mine")

    def where(one: Announced) -> bool:
        if one.decision.kind is Kind.BOUND:
            raise error
        return True

    async with service() as scheduler:
        (observer, other) = (scheduler.decisions(where=where), scheduler.decisions())
        await scheduler.add_ask("a", "k", ONE)
        await scheduler.release("a", "k")

        seen = [one.decision.kind for one in await observer.take()]
        with pytest.raises(ZeroDivisionError) as caught:
            await observer.take()

        assert caught.value is error
        assert Kind.BOUND not in seen
        assert await observer.take() == ()
        assert Kind.RELEASED in {one.decision.kind for one in await other.take()}


# Order, and several observers


async def test_an_observer_sees_all_in_order() -> None:
    log = Recording()
    async with service(journal=log) as scheduler, trio.open_nursery() as nursery:
        observer = scheduler.decisions()
        seen: list[Announced] = []

        async def read() -> None:
            async for one in observer:
                seen.append(one)  # noqa: PERF401 - it is read until it is cancelled

        before = len(log.decisions)
        reading = Later(nursery, read)
        for number in range(30):
            await scheduler.add_ask("a", f"k{number}", ONE, priority=number)
        await wait_all_tasks_blocked()

        assert seen == log.decisions[before:]
        reading.scope.cancel()


async def test_several_observers_each_get_everything() -> None:
    async with service(cores=4) as scheduler:
        observers = [scheduler.decisions() for _ in range(3)]
        await scheduler.add_ask("a", "k", ONE)

        (first, *others) = [await one.take() for one in observers]

        assert len(first) > 3
        assert others == [first, first]


async def test_an_observer_that_comes_late_gets_what_is_announced_from_then_on() -> None:
    log = Recording()
    async with service(journal=log) as scheduler:
        before = len(log.decisions)
        late = scheduler.decisions()
        await scheduler.add_ask("a", "k", ONE)

        assert list(await late.take()) == log.decisions[before:]


async def test_decisions_are_there_when_the_call_is_answered(autojump_clock: MockClock) -> None:
    async with service() as scheduler:
        observer = scheduler.decisions(kinds={"bound"})
        await scheduler.add_ask("a", "k", ONE)

        with trio.fail_after(0.001):
            (one,) = await observer.take()
        assert (one.decision.ask, one.decision.node) == ("k", "n")


# Being too slow


async def bind(scheduler: muster.Scheduler, count: int) -> None:
    """Have asks bound, one in each batch."""
    for number in range(count):
        await scheduler.add_ask("a", f"k{number}", {"vcore": "1m"})


async def asks(observer: muster.Decisions) -> list[str | None]:
    return [one.decision.ask for one in await observer.take()]


async def test_a_buffer_that_is_just_full() -> None:
    async with service() as scheduler:
        observer = scheduler.decisions(kinds={"bound"}, buffer=3)
        await bind(scheduler, 3)

        assert await asks(observer) == ["k0", "k1", "k2"]
        assert observer.missed == 0


@pytest.mark.parametrize("lag", [Lag.DROP, "drop", None], ids=repr)
async def test_who_is_too_slow_is_dropped(lag: Lag | str | None) -> None:
    arguments: dict[str, Any] = {} if lag is None else {"lag": lag}
    async with service() as scheduler:
        observer = scheduler.decisions(kinds={"bound"}, buffer=3, **arguments)
        await bind(scheduler, 5)

        assert await asks(observer) == ["k0", "k1", "k2"]
        with pytest.raises(muster.LaggedError, match="buffer full, of 3 decisions") as caught:
            await observer.take()
        assert (caught.value.missed, observer.missed) == (1, 1)
        assert await asks(observer) == []


async def test_a_lag_comes_out_of_a_loop_too() -> None:
    async with service() as scheduler:
        observer = scheduler.decisions(kinds={"bound"}, buffer=1)
        await bind(scheduler, 2)

        seen: list[str | None] = []
        with pytest.raises(muster.LaggedError):
            async for one in observer:
                seen.append(one.decision.ask)  # noqa: PERF401 - what comes before the error
        assert seen == ["k0"]


@pytest.mark.parametrize("lag", [Lag.SKIP, "skip"], ids=repr)
async def test_who_is_too_slow_misses_the_oldest(lag: Lag | str) -> None:
    async with service() as scheduler:
        observer = scheduler.decisions(kinds={"bound"}, buffer=3, lag=lag)
        await bind(scheduler, 5)

        assert observer.missed == 2
        assert await asks(observer) == ["k2", "k3", "k4"]
        await bind_one_more(scheduler)
        assert await asks(observer) == ["more"]
        assert observer.missed == 2


async def bind_one_more(scheduler: muster.Scheduler) -> None:
    await scheduler.add_ask("a", "more", {"vcore": "1m"})


async def test_a_batch_that_is_larger_than_the_buffer() -> None:
    async with service() as scheduler:
        skips = scheduler.decisions(kinds={"bound"}, buffer=2, lag=Lag.SKIP)
        drops = scheduler.decisions(kinds={"bound"}, buffer=2)
        await scheduler.add_asks("a", "k", {"vcore": "1m"}, 10)

        assert (await asks(skips), skips.missed) == (["k-8", "k-9"], 8)
        assert await asks(drops) == ["k-0", "k-1"]
        with pytest.raises(muster.LaggedError):
            await drops.take()


async def test_an_observer_that_nobody_reads_slows_nobody() -> None:
    async with service() as scheduler:
        observer = scheduler.decisions(buffer=1)
        await bind(scheduler, 20)

        assert (await scheduler.snapshot()).nodes["n"].used == {"vcore": 20}
        assert observer.missed == 1


# Reading


async def test_who_waits_is_woken_by_what_it_wants() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        observer = scheduler.decisions(kinds={"released"})
        waiting = Later(nursery, observer.take)
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        assert not waiting.is_over

        await scheduler.release("a", "k")
        await wait_all_tasks_blocked()

        assert [one.decision.kind for one in waiting.value] == [Kind.RELEASED]


async def test_two_tasks_cannot_read_one_observer() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        observer = scheduler.decisions(kinds={"bound"})
        waiting = Later(nursery, observer.take)
        await wait_all_tasks_blocked()

        with pytest.raises(trio.BusyResourceError, match="make an observer for each"):
            await observer.take()
        with pytest.raises(trio.BusyResourceError):
            await anext(observer)

        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()
        assert len(waiting.value) == 1


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        observer = scheduler.decisions(kinds={"bound"})
        waiting = Later(nursery, observer.take)
        await wait_all_tasks_blocked()
        waiting.scope.cancel()
        await wait_all_tasks_blocked()

        await scheduler.add_ask("a", "k", ONE)

        assert waiting.scope.cancelled_caught
        assert await asks(observer) == ["k"]


async def test_reading_is_a_checkpoint() -> None:
    async with service() as scheduler:
        observer = scheduler.decisions()
        await bind(scheduler, 2)
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(observer)
        assert scope.cancelled_caught
        observer.close()
        with trio.CancelScope() as scope:
            scope.cancel()
            await observer.take()
        assert scope.cancelled_caught


# The end


async def test_a_closed_observer_is_at_its_end() -> None:
    async with service() as scheduler:
        async with scheduler.decisions() as observer:
            await bind(scheduler, 1)
        await bind_one_more(scheduler)

        assert observer.is_over
        assert await observer.take() == ()
        assert [one async for one in observer] == []
        observer.close()


async def test_closing_wakes_who_reads() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        observer = scheduler.decisions()
        waiting = Later(nursery, observer.take)
        await wait_all_tasks_blocked()

        observer.close()
        await wait_all_tasks_blocked()

        assert waiting.value == ()


async def test_closing_takes_an_error_away() -> None:
    async with service() as scheduler:
        observer = scheduler.decisions(buffer=1)
        await bind(scheduler, 3)

        observer.close()

        assert await observer.take() == ()


async def test_an_observer_that_was_forgotten_is_collected() -> None:
    async with service() as scheduler:
        kept = scheduler.decisions(kinds={"bound"})
        forgotten = ref(scheduler.decisions())
        gc.collect()
        assert forgotten() is None

        await scheduler.add_ask("a", "k", ONE)
        assert await asks(kept) == ["k"]


async def test_an_observer_ends_with_the_scheduler() -> None:
    async with trio.open_nursery() as nursery, service() as scheduler:
        (observer, unread) = (scheduler.decisions(), scheduler.decisions(kinds={"bound"}))
        waiting = Later(nursery, lambda: read_all(observer))
        await scheduler.add_ask("a", "k", ONE)

    assert waiting.value > 3
    assert (observer.is_over, unread.is_over) == (True, True)
    assert await asks(unread) == ["k"]
    assert await unread.take() == ()


async def read_all(observer: muster.Decisions) -> int:
    return len([one async for one in observer])


async def test_an_observer_of_a_closed_scheduler_is_at_its_end() -> None:
    async with service() as scheduler:
        pass

    assert await scheduler.decisions().take() == ()


@attrs.define
class Reader:
    """Reads one observer to the end, which is after the block of its scheduler."""

    error: Exception | None = None
    is_over: bool = False

    async def read(self, observer: muster.Decisions) -> None:
        try:
            async for _ in observer:
                pass
        except muster.MusterError as error:
            self.error = error
        self.is_over = True


async def test_an_observer_ends_when_the_body_fails() -> None:
    reader = Reader()
    async with trio.open_nursery() as nursery:
        with pytest.raises(ValueError, match="mine"):
            async with service() as scheduler:
                nursery.start_soon(reader.read, scheduler.decisions())
                await wait_all_tasks_blocked()
                raise ValueError("mine")

    assert reader.is_over


async def test_an_observer_sees_that_the_scheduler_broke(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = Reader()
    async with trio.open_nursery() as nursery:
        with pytest.raises(muster.BrokenSchedulerError):
            async with service() as scheduler:
                nursery.start_soon(reader.read, scheduler.decisions())
                await wait_all_tasks_blocked()
                monkeypatch.setattr(ApplicationMachine, "handle", None)
                await scheduler.add_ask("a", "k", ONE)

    assert isinstance(reader.error, muster.ClosedSchedulerError)
    assert "did not end as it should" in str(reader.error)


async def test_a_filter_may_close_its_own_observer() -> None:
    async with service() as scheduler:
        observers: list[muster.Decisions] = []

        def wants(_: muster.Announced) -> bool:
            observers[0].close()
            return True

        observers.append(scheduler.decisions(where=wants))
        await scheduler.add_app("b", "root.q")

        assert await observers[0].take() == ()


async def test_observers_that_are_closed_or_forgotten_leave_nothing_behind() -> None:
    async with service() as scheduler:
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(500):
            scheduler.decisions()
            scheduler.decisions().close()
        gc.collect()

        assert len(gc.get_objects()) < before + 500
