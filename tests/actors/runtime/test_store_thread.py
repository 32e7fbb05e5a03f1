"""The thread of a store, and many timers that came due while nobody ran.

Batches share commits, and each stays whole.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

import muster
from muster._runtime.storage import store_thread
from muster.store import KeptBatch, StateReader
from muster.testing import Recording
from muster_core.decisions import Kind
from tests.actors.program import S, SetClock
from tests.actors.store.faults import FULL, Disk, failing_disk, library


def names() -> list[str]:
    """Return the names of all threads that run now."""
    return [one.name for one in threading.enumerate()]


async def test_calls_run_in_one_thread_in_order_and_it_ends_with_the_block() -> None:
    seen: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        await run(lambda: seen.append((number, threading.get_ident())))

    async with store_thread() as run:
        thread = await run(threading.current_thread)
        assert thread is not threading.current_thread()
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(one, number)
                await trio.testing.wait_all_tasks_blocked()
    assert seen == [(number, thread.ident) for number in range(10)]
    thread.join(60)
    assert not thread.is_alive()


async def test_an_error_of_a_call_comes_out_and_the_next_call_is_carried_out() -> None:
    async with store_thread() as run:
        with pytest.raises(ValueError, match="invalid literal"):
            await run(int, "x")
        assert await run(int, "7") == 7


async def test_a_task_that_is_cancelled_before_makes_no_call() -> None:
    seen: list[int] = []
    async with store_thread() as run:
        with trio.CancelScope() as scope:
            scope.cancel()
            await run(seen.append, 1)
        assert scope.cancelled_caught
        await run(seen.append, 2)
    assert seen == [2]


async def test_a_call_that_has_begun_is_not_given_up() -> None:
    may_end = threading.Event()
    results: list[bool] = []
    async with store_thread() as run, trio.open_nursery() as nursery:

        async def call() -> None:
            with trio.CancelScope() as scope:
                scopes.append(scope)
                results.append(await run(may_end.wait, 60))

        scopes: list[trio.CancelScope] = []
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        scopes[0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert not results
        may_end.set()
    assert results == [True]
    assert not scopes[0].cancelled_caught


def test_a_run_that_fails_leaves_no_thread_that_waits() -> None:
    for one in threading.enumerate():
        if one.name == "muster store":  # that of an earlier test may still be ending
            one.join(60)
    before = names()

    async def main() -> None:
        async with store_thread() as run:
            await run(int)
            raise KeyError

    with pytest.raises(KeyError):
        trio.run(main)
    for one in threading.enumerate():
        if one.name == "muster store":
            one.join(60)
    assert names().count("muster store") == before.count("muster store") == 0


SQLITE = library()
TIMERS: Final = 600
WRITE_AT_MOST: Final = 10
"""How many commits the timers may take."""


@pytest.fixture
def disk() -> Generator[Disk]:
    """The disk of files that are opened from now on."""
    if SQLITE is None:
        pytest.skip("SQLite is a part of Python here, no shared library: no fault can be injected")
    with failing_disk(SQLITE) as made:
        yield made


def batches_in(folder: Path) -> list[KeptBatch]:
    with StateReader(folder) as reader:
        return list(reader.batches())


async def begin(folder: Path, clock: SetClock) -> None:
    """Leave asks of which each ends at another instant, all of them while nobody runs."""
    async with muster.open_scheduler(store=folder, clock=clock) as scheduler:
        await scheduler.add_node("n", {"vcore": TIMERS + 1})
        await scheduler.add_app("a", "root.q")
        await scheduler.add_ask("a", "stays", {"vcore": 1})
        await scheduler.submit_many(
            {"op": "add_ask", "app": "a", "ask": f"k{at}", "resources": {"vcore": 1}, "run_for": at}
            for at in range(1, TIMERS + 1)
        )
    clock.move(3600)


async def test_they_share_commits(tmp_path: Path, disk: Disk) -> None:
    clock, journal = SetClock(), Recording()
    await begin(tmp_path, clock)
    before = len(batches_in(tmp_path))
    disk.calls.clear()
    async with muster.open_scheduler(store=tmp_path, clock=clock, journal=journal):
        assert disk.calls.count("sync") <= WRITE_AT_MOST

    added = batches_in(tmp_path)[before:]
    assert [batch.at_us for batch in added] == [at * S for at in range(1, TIMERS + 1)]
    assert [one for batch in added for one in batch.decisions] == journal.decisions


@pytest.mark.parametrize("syncs", range(3))
async def test_a_disk_that_fails_leaves_whole_batches(
    tmp_path: Path, disk: Disk, syncs: int
) -> None:
    clock, journal = SetClock(), Recording()
    await begin(tmp_path, clock)
    before = len(batches_in(tmp_path))
    disk.fail(syncs, FULL, name="sync")
    with pytest.raises(muster.StoreError, match="no room"):
        async with muster.open_scheduler(store=tmp_path, clock=clock, journal=journal):
            pytest.fail("the block was entered")
    disk.mend()

    # The group whose sync has failed may be kept or not; it was not published.
    added = batches_in(tmp_path)[before:]
    assert [batch.at_us for batch in added] == [at * S for at in range(1, len(added) + 1)]
    decided = [one for batch in added for one in batch.decisions]
    assert decided[: len(journal.decisions)] == journal.decisions
    assert len(added) < TIMERS

    async with muster.open_scheduler(store=tmp_path, clock=clock):
        pass
    everything = [one.decision for batch in batches_in(tmp_path) for one in batch.decisions]
    ended = [one.ask for one in everything if one.kind is Kind.RELEASED]
    assert ended == [f"k{at}" for at in range(1, TIMERS + 1)]


async def test_a_refused_configuration_comes_after_them(tmp_path: Path) -> None:
    clock, journal = SetClock(), Recording()
    await begin(tmp_path, clock)
    parent = "partitions: [{name: default, queues: [{name: root, queues: [%s]}]}]"
    parent %= "{name: q, parent: true}"
    with pytest.raises(muster.RefusedError):
        async with muster.open_scheduler(parent, store=tmp_path, clock=clock, journal=journal):
            pytest.fail("the block was entered")
    assert len([one for one in journal.decisions if one.decision.kind is Kind.RELEASED]) == TIMERS
    assert batches_in(tmp_path)[-1].decisions[-1] == journal.decisions[-1]
