"""Leaving the block of a live scheduler: by its end, by an exception, by a failure."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import muster
from muster._runtime.entry import BOUND as ENTRY_BOUND
from muster.testing import Interleaving, Recording
from muster_core.decisions import Announced
from muster_core.owners.app_messages import Close
from muster_core.owners.application import ApplicationMachine
from tests.actors.program import (
    APP,
    CALLS,
    NODE,
    WAITS,
    Caller,
    FailingJournal,
    ask,
    bound,
    prepare,
    settled,
    tasks,
    watchdog,
)

# Leaving normally


async def test_what_was_let_in_is_carried_out() -> None:
    log = Recording()
    before = tasks()
    async with (
        trio.open_nursery() as nursery,
        muster.open_scheduler(journal=log, interleave=Interleaving(4)) as scheduler,
    ):
        await scheduler.submit_many([NODE, APP])
        nursery.start_soon(scheduler.submit, ask(count=2))
        await wait_all_tasks_blocked()

    assert bound(log.decisions) == ["a/k-0", "a/k-1"]
    assert tasks() == before


@pytest.mark.parametrize("name", CALLS | WAITS)
async def test_calls_after_the_block(name: str) -> None:
    async with muster.open_scheduler() as scheduler:
        await scheduler.submit(APP)

    caller = Caller()
    await caller.call(name, scheduler)
    assert caller.answers == ["done" if name == "decisions" else "closed"]
    assert scheduler.statistics().requests == 1


@pytest.mark.parametrize("name", WAITS)
async def test_waiters_for_a_decision_are_woken(name: str) -> None:
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery, muster.open_scheduler() as scheduler:
            await prepare(scheduler)
            nursery.start_soon(caller.call, name, scheduler)
            await wait_all_tasks_blocked()

    assert caller.answers == ["done" if name == "decisions" else "closed"]


async def test_a_waiter_for_a_slot_is_not_let_in() -> None:
    gate = trio.Event()
    caller = Caller()
    with watchdog():
        async with (
            trio.open_nursery() as nursery,
            muster.open_scheduler(interleave=gate.wait) as scheduler,
        ):
            for _ in range(ENTRY_BOUND + 2):  # The first is taken at once.
                nursery.start_soon(caller.call, "settle", scheduler)
            await wait_all_tasks_blocked()
            nursery.start_soon(open_later, gate)

    assert Counter(caller.answers) == {"done": ENTRY_BOUND, "closed": 2}


async def open_later(gate: trio.Event) -> None:
    await settled()
    gate.set()


# By an exception, by a failure


@pytest.mark.parametrize(
    "error",
    [
        ValueError("mine"),
        KeyboardInterrupt(),
        ExceptionGroup("mine", [OSError("one")]),
        muster.ClosedSchedulerError("another one's"),
    ],
    ids=repr,
)
async def test_an_error_of_the_body_comes_out_as_itself(error: BaseException) -> None:
    before = tasks()

    with pytest.raises(type(error)) as caught:
        async with muster.open_scheduler() as scheduler:
            await scheduler.submit(APP)
            raise error

    assert caught.value is error
    assert caught.value.__context__ is None
    assert tasks() == before


@pytest.mark.parametrize("name", CALLS | WAITS)
async def test_waiters_get_the_error(name: str) -> None:
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(ValueError, match="mine"):
                async with muster.open_scheduler() as scheduler:
                    await prepare(scheduler)
                    nursery.start_soon(caller.call, name, scheduler)
                    await settled(2)
                    raise ValueError("mine")

    assert len(caller.answers) == 1


@pytest.mark.parametrize("batch", [1, 2])
async def test_the_error_of_a_journal_comes_out(batch: int) -> None:
    before = tasks()
    error = OSError(28, "No space left on device")
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(OSError, match="No space") as caught:
                async with muster.open_scheduler(journal=FailingJournal(error, batch)) as scheduler:
                    nursery.start_soon(caller.call, "satisfied", scheduler)
                    for event in (APP, NODE, ask(), ask("l")):
                        await scheduler.submit(event)

    assert caught.value is error
    assert len(caller.answers) == 1
    assert tasks() == before


async def test_an_observer_learns_that_there_may_be_more() -> None:
    observers: list[muster.Decisions] = []
    with pytest.raises(OSError, match="full"):
        async with muster.open_scheduler(journal=FailingJournal(OSError("full"), 2)) as scheduler:
            observers.append(scheduler.decisions())
            await scheduler.submit(APP)
            await scheduler.submit_many([NODE, ask()])

    seen: list[Announced] = []
    with pytest.raises(muster.ClosedSchedulerError):
        async for one in observers[0]:
            seen.append(one)  # noqa: PERF401 - it raises
    assert seen


async def test_an_owner_that_fails_ends_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = ApplicationMachine.handle

    def fails(machine: ApplicationMachine, message: object) -> object:
        if isinstance(message, Close) and machine.identity.name == "bad":
            raise ZeroDivisionError
        return handle(machine, message)  # type: ignore[arg-type]

    monkeypatch.setattr(ApplicationMachine, "handle", fails)
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(muster.BrokenSchedulerError, match="application 'bad'"):
                async with muster.open_scheduler() as scheduler:
                    await prepare(scheduler)
                    nursery.start_soon(caller.call, "never bound", scheduler)
                    await scheduler.add_app("bad", "root.q")

    assert caller.answers == ["closed"]
