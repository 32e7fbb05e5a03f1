"""Observers: which decisions they get, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Announced, Kind
from muster.testing import Recording
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
