"""How a scheduler with a store ends while one batch is written and the next one is decided."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import muster
from muster_core.decisions import Announced, Kind
from muster_core.events import AddApp, AddAsk, Event, RemoveApp, RemoveGang
from muster_core.resources import Resources
from tests.actors.program import APP, NODE, ask
from tests.actors.store.faults import FULL, failing_disk, library
from tests.share import every

SIZE: Final = {"vcore": 1000}
LARGE: Final = AddAsk("a", "large", Resources(SIZE))


@final
class Held:
    """A journal that holds batches back once it is told to, and may raise then."""

    def __init__(self) -> None:
        self.holds = False
        self.error: Exception | None = None
        self.go = trio.Event()

    async def write(self, _: Sequence[Announced], /) -> None:
        if self.holds:
            await self.go.wait()
            if self.error is not None:
                raise self.error


@final
class Waits:
    """Tasks outside of the block; each notes what it got, or that the scheduler was closed."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.got: dict[str, object] = {}

    async def begin(self, name: str, wait: Callable[[], Awaitable[object]]) -> None:
        self._nursery.start_soon(self._wait, name, wait)
        await wait_all_tasks_blocked()

    async def _wait(self, name: str, wait: Callable[[], Awaitable[object]]) -> None:
        try:
            with trio.fail_after(60):
                self.got[name] = await wait()
        except muster.ClosedSchedulerError:
            self.got[name] = "closed"


async def test_what_is_on_disk_is_announced_before_the_end(tmp_path: Path) -> None:
    journal = Held()
    outside: list[tuple[muster.Decisions, muster.Ask]] = []
    async with trio.open_nursery() as nursery:
        waits = Waits(nursery)
        with trio.CancelScope() as scope:
            async with muster.open_scheduler(store=tmp_path, journal=journal) as scheduler:
                await scheduler.submit_many([APP, LARGE])
                handle = scheduler.ask("a", "large")
                await waits.begin("bound", handle.bound)
                outside.append((scheduler.decisions(kinds=[Kind.BOUND]), handle))
                journal.holds = True
                await waits.begin("call", lambda: scheduler.add_node("n", SIZE))
                nursery.start_soon(_later, journal.go)
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        ((observer, handle),) = outside

        # The call was answered, so everybody else has heard of its batch, too.
        await wait_all_tasks_blocked()
        assert waits.got["call"] is None
        assert isinstance(waits.got["bound"], muster.Allocation)
        assert [one.decision.kind for one in observer.take_now()] == [Kind.BOUND]
        await waits.begin("after", handle.bound)
        await waits.begin("ended", waits.got["bound"].ended)
        assert waits.got["after"] == waits.got["ended"] == "closed"


async def _later(go: trio.Event) -> None:
    await wait_all_tasks_blocked(0.01)
    go.set()


async def test_an_error_comes_alone_while_the_next_batch_waits(tmp_path: Path) -> None:
    journal = Held()
    journal.error = OSError("the journal is full")
    async with trio.open_nursery() as nursery:
        waits = Waits(nursery)
        with pytest.raises(OSError, match="the journal is full"):
            async with muster.open_scheduler(store=tmp_path, journal=journal) as scheduler:
                await scheduler.submit_many([NODE, APP])
                for name in ("first", "second"):
                    journal.holds = name == "first" or journal.holds
                    await waits.begin(name, _submit(scheduler, name))
                journal.go.set()
                await trio.sleep_forever()
    assert waits.got == {"first": "closed", "second": "closed"}


def _submit(scheduler: muster.Scheduler, name: str) -> Callable[[], Awaitable[object]]:
    return lambda: scheduler.submit(ask(name))


async def test_what_a_batch_has_removed_is_closed_if_it_is_not_announced(tmp_path: Path) -> None:
    journal = Held()
    gone: list[Event] = [RemoveApp("a"), RemoveGang("default/g")]
    journal.error = OSError("the journal is full")
    async with trio.open_nursery() as nursery:
        waits = Waits(nursery)
        with pytest.raises(OSError, match="the journal is full"):
            async with muster.open_scheduler(store=tmp_path, journal=journal) as scheduler:
                await scheduler.submit_many([NODE, APP, ask("k"), LARGE])
                allocation = await scheduler.ask("a", "k").bound()
                gang = await scheduler.add_gang("g", 2)
                await waits.begin("ended", allocation.ended)
                await waits.begin("bound", scheduler.ask("a", "large").bound)
                await waits.begin("satisfied", gang.satisfied)
                journal.holds = True
                await waits.begin("call", lambda: scheduler.submit_many(gone))
                journal.go.set()
                await trio.sleep_forever()
    assert waits.got == dict.fromkeys(["ended", "bound", "satisfied", "call"], "closed")


@pytest.mark.parametrize("at", every(3, [10, 20, 60]))
async def test_a_failing_disk_is_told_once(tmp_path: Path, at: int) -> None:
    sqlite = library()
    if sqlite is None:
        pytest.skip("SQLite is a part of Python here, no shared library: no fault can be injected")

    async def add(scheduler: muster.Scheduler) -> None:
        with suppress(muster.ClosedSchedulerError):
            for number in count():
                await scheduler.add_app(f"more-{number}", "root.q")

    with failing_disk(sqlite) as disk, trio.fail_after(120):
        # A checkpoint fails while a batch waits for the disk, or the other way round.
        with pytest.raises(muster.StoreError, match="there is no room on the disk"):
            async with muster.open_scheduler(store=tmp_path) as scheduler:
                await scheduler.submit_many([AddApp(f"a-{n}", "root.q") for n in range(1500)])
                disk.fail(at, FULL)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(add, scheduler)
                    await scheduler.checkpoint()
        disk.mend()
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        assert (await scheduler.snapshot()).apps
