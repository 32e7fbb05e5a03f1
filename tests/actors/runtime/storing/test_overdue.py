"""Many timers that came due while nobody ran: their batches share commits, and each stays whole."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

import muster
from muster.store import KeptBatch, StateReader
from muster.testing import Recording
from muster_core.decisions import Kind
from tests.actors.program import S
from tests.actors.runtime.storing.clock import SetClock
from tests.actors.store.faults import FULL, Disk, failing_disk, library

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


def kept(folder: Path) -> list[KeptBatch]:
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
    before = len(kept(tmp_path))
    disk.calls.clear()
    async with muster.open_scheduler(store=tmp_path, clock=clock, journal=journal):
        assert disk.calls.count("sync") <= WRITE_AT_MOST

    added = kept(tmp_path)[before:]
    assert [batch.at_us for batch in added] == [at * S for at in range(1, TIMERS + 1)]
    assert [one for batch in added for one in batch.decisions] == journal.decisions


@pytest.mark.parametrize("syncs", range(3))
async def test_a_disk_that_fails_leaves_whole_batches(
    tmp_path: Path, disk: Disk, syncs: int
) -> None:
    clock, journal = SetClock(), Recording()
    await begin(tmp_path, clock)
    before = len(kept(tmp_path))
    disk.fail(syncs, FULL, name="sync")
    with pytest.raises(muster.StoreError, match="no room"):
        async with muster.open_scheduler(store=tmp_path, clock=clock, journal=journal):
            pytest.fail("the block was entered")
    disk.mend()

    # The group whose sync has failed may be kept or not; nobody has heard of it.
    added = kept(tmp_path)[before:]
    assert [batch.at_us for batch in added] == [at * S for at in range(1, len(added) + 1)]
    decided = [one for batch in added for one in batch.decisions]
    assert decided[: len(journal.decisions)] == journal.decisions
    assert len(added) < TIMERS

    async with muster.open_scheduler(store=tmp_path, clock=clock):
        pass
    everything = [one.decision for batch in kept(tmp_path) for one in batch.decisions]
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
    assert kept(tmp_path)[-1].decisions[-1] == journal.decisions[-1]
