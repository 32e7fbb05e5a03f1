"""A store under asyncio: the same file, the same handles, the same binder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import muster
from muster.asyncio import Mode, open_scheduler
from muster.store import StateReader
from tests.actors.asyncio.program import both_modes, run

CONFIG = "partitions: [{name: default, queues: [{name: root, queues: [{name: q}]}]}]"


class Finder:
    """A binder that finds all work again."""

    def __init__(self) -> None:
        self.resumed: list[str] = []
        self.is_over = asyncio.Event()

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        pytest.fail(f"{allocation.ask} began again")

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        self.resumed.append(allocation.ask)
        started()
        await self.is_over.wait()


@both_modes
def test_a_scheduler_goes_on_where_it_was(mode: Mode, tmp_path: Path) -> None:
    finder = Finder()

    async def begin() -> None:
        async with open_scheduler(CONFIG, mode=mode, store=tmp_path) as scheduler:
            await scheduler.add_node("n", {"vcore": 1})
            await scheduler.add_app("a", "root.q")
            await scheduler.add_ask("a", "k", {"vcore": 1})
            await scheduler.add_ask("a", "later", {"vcore": 9})
            await scheduler.checkpoint()

    async def go_on() -> None:
        async with open_scheduler(mode=mode, store=tmp_path, binder=finder) as scheduler:
            assert [ask.name for ask in await scheduler.asks(state="pending")] == ["later"]
            allocation = await scheduler.ask("a", "k").bound()
            finder.is_over.set()
            assert await allocation.ended() is muster.Reason.COMPLETED

    run(begin)
    run(go_on)
    assert finder.resumed == ["k"]
    with StateReader(tmp_path) as reader:
        assert len(reader.checkpoints()) == 2


@both_modes
def test_a_directory_in_use_is_refused(mode: Mode, tmp_path: Path) -> None:
    async def twice() -> None:
        async with open_scheduler(CONFIG, mode=mode, store=tmp_path):
            with pytest.raises(muster.StoreError):
                async with open_scheduler(CONFIG, mode=mode, store=tmp_path):
                    pytest.fail("the block was entered")

    run(twice)
