"""The entry of a running scheduler: full, closed, and left by those who are cancelled."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import muster
from muster._runtime.entry import BOUND as ENTRY_BOUND
from muster.testing import Recording
from muster_core.events import RemoveApp
from tests.actors.program import watchdog
from tests.actors.service import Gate, Later, service

ONE: Final = {"vcore": 1}


def add(scheduler: muster.Scheduler, name: str) -> Callable[[], Awaitable[object]]:
    return lambda: scheduler.add_node(name, ONE)


async def test_what_waits_at_the_entry_goes_into_one_batch() -> None:
    class Batches:
        def __init__(self) -> None:
            self.count = 0

        def write(self, batch: object) -> None:
            self.count += 1

    journal = Batches()
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
async def test_whoever_waits_is_told_when_the_body_fails(name: str) -> None:
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
