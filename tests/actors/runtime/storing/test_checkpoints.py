"""When checkpoints are taken, and what goes when they cover it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import trio

import muster
from muster.store import StateReader
from tests.actors.program import S
from tests.actors.runtime.storing.clock import SetClock
from tests.actors.runtime.storing.test_restart import CONFIG, begin, kept


def checkpoints(folder: Path) -> list[int]:
    """Give the batches of the checkpoints in a state directory."""
    with StateReader(folder) as reader:
        return [one.batch for one in reader.checkpoints() if one.complete]


def last(folder: Path) -> int:
    """Give the number of the last batch."""
    with StateReader(folder) as reader:
        return reader.last().batch


async def test_one_is_taken_at_the_end_unless_nothing_came(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    assert checkpoints(tmp_path) == [last(tmp_path)]
    async with muster.open_scheduler(store=tmp_path, clock=clock):
        pass
    assert checkpoints(tmp_path) == [last(tmp_path)]


async def test_none_is_taken_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with muster.open_scheduler(CONFIG, store=tmp_path) as scheduler:
            await scheduler.add_app("a", "root.q")
            raise ValueError("mine")
    assert checkpoints(tmp_path) == []
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        assert list((await scheduler.snapshot()).apps) == ["a"]


async def test_they_are_taken_after_a_number_of_events(tmp_path: Path) -> None:
    async with muster.open_scheduler(CONFIG, store=tmp_path, checkpoint_every=10) as scheduler:
        for number in range(25):
            await scheduler.add_app(f"a{number}", "root.q")
            await scheduler.settle()
        with trio.fail_after(120):
            while len(checkpoints(tmp_path)) < 2:
                await scheduler.settle()
    assert len(checkpoints(tmp_path)) == 3


async def test_the_newest_three_stay_and_those_that_are_a_tenth_of_history_apart(
    tmp_path: Path,
) -> None:
    # STORE-19
    clock = SetClock()
    async with muster.open_scheduler(CONFIG, store=tmp_path, clock=clock) as scheduler:
        for number in range(60):
            clock.move(0.5)
            await scheduler.add_app(f"a{number}", "root.q")
            await scheduler.checkpoint()
        found = checkpoints(tmp_path)
        assert found[-3:] == [last(tmp_path) - 2, last(tmp_path) - 1, last(tmp_path)]
        assert len(found) <= 10 + 3 + 1
        # There is a batch and a checkpoint each half second. Of two that come to be too near to each
        # other the later one goes.
        gaps = [later - earlier for earlier, later in pairwise(found)]
        assert max(gaps) <= 2 * (60 // 10) + 1
        assert found[0] <= 3


async def test_old_batches_go_though_old_checkpoints_do(tmp_path: Path) -> None:
    # STORE-16, STORE-19
    clock = SetClock()
    async with muster.open_scheduler(CONFIG, store=tmp_path, clock=clock, keep=10) as scheduler:
        for number in range(40):
            await scheduler.add_app(f"a{number}", "root.q")
            await scheduler.checkpoint()
            clock.move(0.5)
    with StateReader(tmp_path) as reader:
        batches = list(reader.batches())
    assert 10 <= (batches[-1].at_us - batches[0].at_us) / S <= 12
    assert len(checkpoints(tmp_path)) <= 10 + 3 + 1


async def test_one_is_taken_on_demand(tmp_path: Path) -> None:
    async with muster.open_scheduler(CONFIG, store=tmp_path) as scheduler:
        await scheduler.add_app("a", "root.q")
        before = last(tmp_path)
        await scheduler.checkpoint()
        assert checkpoints(tmp_path) == [before]


async def test_without_a_store_there_is_none() -> None:
    async with muster.open_scheduler(CONFIG) as scheduler:
        with pytest.raises(muster.RefusedError, match="there is no store"):
            await scheduler.checkpoint()


async def test_history_goes_also_if_nothing_new_came(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    clock.move(30 * 86400)
    async with muster.open_scheduler(store=tmp_path, clock=clock):
        await trio.lowlevel.checkpoint()
    clock.move(8 * 86400)
    async with muster.open_scheduler(store=tmp_path, clock=clock, keep="7d"):
        await trio.lowlevel.checkpoint()
    with StateReader(tmp_path) as reader:
        assert reader.meta.anchor.batch == reader.last().batch


async def test_history_goes_when_a_checkpoint_covers_it(tmp_path: Path) -> None:
    clock = SetClock()
    await begin(tmp_path, clock)
    covered = last(tmp_path)
    clock.move(7200)
    async with muster.open_scheduler(store=tmp_path, clock=clock, keep="1h") as scheduler:
        await scheduler.add_app("b", "root.q")
    decisions = kept(tmp_path)
    assert decisions
    with StateReader(tmp_path) as reader:
        assert reader.meta.anchor.batch == covered
        assert [one.batch for one in reader.checkpoints()] == [covered, reader.last().batch]
    async with muster.open_scheduler(store=tmp_path, clock=clock, keep="1h") as scheduler:
        assert sorted((await scheduler.snapshot()).apps) == ["a", "b"]
        assert len(await scheduler.asks()) == 2
