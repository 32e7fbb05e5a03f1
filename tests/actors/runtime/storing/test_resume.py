"""The work of asks that were bound when the last process ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio

import muster
from muster.testing import Recording
from tests.actors.program import bound, releases
from tests.actors.runtime.storing.clock import SetClock
from tests.actors.runtime.storing.test_restart import begin


class Worker:
    """A binder that begins work again."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.resumed: list[str] = []

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        self.runs.append(allocation.ask)
        started()
        await trio.sleep_forever()


class Finder(Worker):
    """A binder that finds the work of ``long`` again."""

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint()
        self.resumed.append(f"{allocation.ask} on {allocation.node}")
        if allocation.ask != "long":
            raise LookupError(allocation.ask)
        started()
        await trio.sleep_forever()


async def test_without_resume_the_work_begins_again(tmp_path: Path) -> None:
    clock, worker, journal = SetClock(), Worker(), Recording()
    await begin(tmp_path, clock)
    async with muster.open_scheduler(
        store=tmp_path, clock=clock, binder=worker, journal=journal
    ) as scheduler:
        await scheduler.ask("a", "long").bound()
        await scheduler.ask("a", "short").bound()

    failed = [("long", muster.Reason.BIND_FAILED), ("short", muster.Reason.BIND_FAILED)]
    assert releases(journal.decisions) == failed
    messages = {one.decision.message for one in journal.decisions if one.decision.reason}
    assert messages == {"the program has started again, and its binder does not resume work"}
    assert sorted(worker.runs) == ["long", "short"]


async def test_what_is_found_again_goes_on(tmp_path: Path) -> None:
    clock, worker, journal = SetClock(), Finder(), Recording()
    await begin(tmp_path, clock)
    async with muster.open_scheduler(
        store=tmp_path, clock=clock, binder=worker, journal=journal
    ) as scheduler:
        with trio.fail_after(120):
            allocation = await scheduler.ask("a", "long").bound()
            await scheduler.ask("a", "short").bound()
        assert allocation.node == "n"
        assert await allocation.release()
        with trio.fail_after(120):
            await scheduler.ask("a", "later").bound()

    assert sorted(worker.resumed) == ["long on n", "short on n"]
    assert releases(journal.decisions)[0] == ("short", muster.Reason.BIND_FAILED)
    failed = [one.decision for one in journal.decisions if one.decision.ask == "short"]
    assert failed[0].message == "LookupError: short"
    assert sorted(worker.runs) == ["later", "short"]
    assert bound(journal.decisions)[0] == "a/short"


async def test_what_a_timer_ended_meanwhile_is_not_resumed(tmp_path: Path) -> None:
    clock, worker = SetClock(), Finder()
    await begin(tmp_path, clock)
    clock.move(3600)
    async with muster.open_scheduler(store=tmp_path, clock=clock, binder=worker) as scheduler:
        with trio.fail_after(120):
            await scheduler.ask("a", "later").bound()
            await scheduler.ask("a", "long").bound()

    assert worker.resumed == ["long on n"]
    assert worker.runs == ["later"]


async def test_without_a_binder_allocations_stay(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    async with muster.open_scheduler(store=tmp_path, clock=clock) as scheduler:
        held = [await ask.bound() for ask in await scheduler.asks(state="bound")]
        assert [(one.ask, one.node) for one in held] == [("long", "n"), ("short", "n")]
