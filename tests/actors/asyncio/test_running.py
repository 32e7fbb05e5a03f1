"""Bodies of asyncio that last as long as a block of trio says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from muster import AllocationEndedError, ClosedSchedulerError, Reason
from muster.asyncio import Mode
from muster.asyncio._bridge import hold
from tests.actors.asyncio.program import both_modes, bridged, outcome, run, turns, until

ENDED = AllocationEndedError("over", Reason.NODE_LOST)


class Block:
    """A block of trio that can be told to end."""

    def __init__(self, *, is_over: bool = False) -> None:
        self._is_over = is_over
        self.entered = False
        self.left = False
        self.end = trio.Event()

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[None, None]:
        if self._is_over:
            await trio.lowlevel.checkpoint()
            raise ENDED
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                self.entered = True
                yield
                nursery.cancel_scope.cancel()
        except* AllocationEndedError:
            pass
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            self.left = True
        if self.end.is_set():
            raise ENDED

    async def _watch(self) -> None:
        await self.end.wait()
        raise ENDED


@both_modes
def test_left_normally(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            async with hold(bridge, block):
                assert block.entered
                assert not block.left
                await turns(5)
            assert block.left

    run(main)


@both_modes
def test_it_is_over_already(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            with pytest.raises(AllocationEndedError):
                async with hold(bridge, Block(is_over=True)):
                    pytest.fail("there is nothing to do")

    run(main)


@both_modes
def test_it_ends_from_outside(mode: Mode) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with bridged(mode) as bridge:
            block = Block()
            with pytest.raises(AllocationEndedError) as caught:
                async with hold(bridge, block):
                    bridge.post(block.end.set)
                    await asyncio.Event().wait()
            assert caught.value is ENDED
            assert task.cancelling() == 0
            await turns(5)

    run(main)


@both_modes
def test_it_ends_while_the_body_calls(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            with pytest.raises(AllocationEndedError):
                async with hold(bridge, block):
                    bridge.post(block.end.set)
                    await bridge.call(trio.sleep_forever)

    run(main)


@both_modes
def test_a_body_that_does_not_care_is_left_as_it_is_left(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            async with hold(bridge, block):
                bridge.post(block.end.set)
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.Event().wait()
            block = Block()
            with pytest.raises(OSError, match="no"):
                async with hold(bridge, block):
                    bridge.post(block.end.set)
                    try:
                        await asyncio.Event().wait()
                    finally:
                        raise OSError("no")

    run(main)


@both_modes
def test_the_body_is_cancelled_otherwise(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as deadline, hold(bridge, block):
                    deadline.reschedule(-1)
                    await asyncio.Event().wait()
            assert block.left

    run(main)


@both_modes
def test_both_at_once_is_a_cancellation_from_outside(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()
            inside = asyncio.Event()

            async def body() -> None:
                async with hold(bridge, block):
                    try:
                        inside.set()
                        await asyncio.Event().wait()
                    finally:
                        bridge.post(block.end.set)
                        await until(lambda: block.left)
                        await turns(5)

            task = asyncio.create_task(body())
            await inside.wait()
            task.cancel()
            assert isinstance(await outcome(task), asyncio.CancelledError)

    run(main)


@both_modes
@pytest.mark.parametrize("k", range(15))
def test_cancelled_at_any_time(mode: Mode, k: int) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            block = Block()

            async def body() -> None:
                async with hold(bridge, block):
                    await turns(3)

            task = asyncio.create_task(body())
            await turns(k)
            task.cancel()
            await outcome(task)
            assert block.left == block.entered

    run(main)


@both_modes
def test_the_whole_trio_side_ends(mode: Mode) -> None:
    async def main() -> None:
        tasks: list[asyncio.Task[None]] = []
        with pytest.raises(ValueError, match="no"):
            async with bridged(mode) as bridge:
                inside = asyncio.Event()

                async def body() -> None:
                    async with hold(bridge, Block()):
                        inside.set()
                        await asyncio.Event().wait()

                tasks.append(asyncio.create_task(body()))
                await inside.wait()
                raise ValueError("no")
        assert isinstance(await outcome(tasks[0]), ClosedSchedulerError)

    run(main)
