"""Leaving the block of a scheduler by cancellation, at every step of any task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster.testing import Inputs, Interleaving, Recording, check
from muster_core.decisions import Announced
from muster_core.events import AddAsk, AddNode, Event
from tests.actors.program import CALLS, ONE, Caller, Steps, prepare, shuffled, tasks

pytestmark = pytest.mark.starts_early


@attrs.define
class Run:
    """What came of one run of the program below."""

    steps: int
    cancelled: bool
    answers: list[str]
    log: list[Announced]
    inputs: list[tuple[int, Event | None]]
    returned: list[str]
    begun: list[str]


class StartingBinder:
    """A binder that starts work and goes on with it for a second."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint()
        started()
        await trio.sleep(1 if allocation.ask != "stays" else 10**9)


async def program(at: int, seed: int, *, whole: bool) -> Run:
    """Run a program that uses everything; cancel the block, or one client, at a step."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    log, record, caller = Recording(), Inputs(), Caller()
    begun, returned = list[str](), list[str]()
    scope = trio.CancelScope()
    steps = Steps(scope, at)
    before = tasks()
    trio.lowlevel.add_instrument(steps)
    async with trio.open_nursery() as nursery:
        with scope if whole else trio.CancelScope():
            async with muster.open_scheduler(
                binder=StartingBinder(), journal=log, record=record, interleave=Interleaving(seed)
            ) as scheduler:
                await prepare(scheduler)
                for name in CALLS:
                    nursery.start_soon(caller.call, name, scheduler)
                async with trio.open_nursery() as clients:
                    clients.start_soon(use, scheduler, begun, returned, None if whole else scope)
                    while clients.child_tasks:
                        await wait_all_tasks_blocked()
                        clock.jump(0.5)
                if not whole:
                    await check(scheduler)
    trio.lowlevel.remove_instrument(steps)
    assert tasks() == before
    return Run(
        steps.count,
        scope.cancelled_caught,
        caller.answers,
        log.decisions,
        record.steps,
        returned,
        begun,
    )


async def use(
    scheduler: muster.Scheduler,
    begun: list[str],
    returned: list[str],
    scope: trio.CancelScope | None,
) -> None:
    with scope or trio.CancelScope():
        made: list[muster.Ask] = []
        for name in ("one", "two", "three"):
            begun.append(name)
            made.append(await scheduler.add_ask("a", name, {"vcore": 0.001}))
            returned.append(name)
        async with (await made[-1].bound()).running():
            await scheduler.settle()
        begun.append("node")
        await scheduler.submit(AddNode("node", ONE))
        returned.append("node")


def count_uses(inputs: Sequence[tuple[int, Event | None]]) -> Counter[str]:
    """Count the events of ``use`` that were let in."""
    events = [event for _, event in inputs]
    names = [event.ask for event in events if isinstance(event, AddAsk)]
    return Counter(names + [event.node for event in events if isinstance(event, AddNode)])


@pytest.mark.parametrize("each", [5, pytest.param(1, marks=pytest.mark.takes_long)])
@pytest.mark.parametrize(("seed", "whole"), [(1, True), (2, False)], ids=["the block", "a client"])
def test_cancellation_at_every_step(seed: int, each: int, *, whole: bool) -> None:
    def run(at: int) -> Run:
        with shuffled(seed):
            return trio.run(lambda: program(at, seed, whole=whole), clock=MockClock())

    last = run(0).steps
    cancelled = 0
    for at in range(1, last + 1, each):
        done = run(at)
        cancelled += done.cancelled

        # Every call was answered, and once.
        assert len(done.answers) in (0, len(CALLS)), f"cancelled at step {at}"
        # What returned was done; what was cancelled was not, except with the whole block.
        there = count_uses(done.inputs)
        assert all(there[name] == 1 for name in done.returned), f"cancelled at step {at}"
        if not whole:
            undone = set(done.begun) - set(done.returned)
            assert not any(there[name] for name in undone), f"cancelled at step {at}"
    assert cancelled > 20
