"""Cancelled calls: nothing is done by halves, and no cancellation is lost."""

from __future__ import annotations

import asyncio

import anyio
import pytest
import trio

from muster.asyncio import Mode
from muster.asyncio._bridge import Bridge
from tests.actors.asyncio.program import both_modes, bridged, outcome, run, turns, until


class Work:
    """Something to do that takes some steps and can be cancelled until the last of them."""

    def __init__(self, before: int = 0, after: int = 0) -> None:
        self._before = before
        self._after = after
        self.begun = False
        self.done = False

    async def do(self) -> str:
        self.begun = True
        for _ in range(self._before):
            await trio.lowlevel.checkpoint()
        self.done = True
        for _ in range(self._after):
            await trio.lowlevel.cancel_shielded_checkpoint()
        return "done"


class Forever:
    """Something that never ends, unless it is told to."""

    def __init__(self, *, shielded: bool = False) -> None:
        self._shielded = shielded
        self.begun = False
        self.cancelled = False
        self.enough = trio.Event()

    async def do(self) -> str:
        self.begun = True
        try:
            with trio.CancelScope(shield=self._shielded):
                await self.enough.wait()
        except trio.Cancelled:
            self.cancelled = True
            raise
        return "done"


@both_modes
@pytest.mark.parametrize("k", range(25))
def test_what_was_cancelled_is_done_or_not(mode: Mode, k: int) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            for before, after in ((0, 0), (3, 0), (0, 3), (3, 3)):
                work = Work(before, after)
                task = asyncio.create_task(bridge.call(work.do))
                await turns(k)
                task.cancel()
                result = await outcome(task)
                if work.done:
                    assert result == "done"
                else:
                    assert isinstance(result, asyncio.CancelledError)

    run(main)


@both_modes
def test_its_end_is_waited_for(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = Forever()
            task = asyncio.create_task(bridge.call(forever.do))
            await until(lambda: forever.begun)
            task.cancel("enough of it")
            result = await outcome(task)
            assert forever.cancelled
            assert isinstance(result, asyncio.CancelledError)
            assert result.args == ("enough of it",)

    run(main)


@both_modes
def test_a_deadline(mode: Mode) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with bridged(mode) as bridge:
            forever = Forever()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as group:
                    group.create_task(let_pass([deadline], bridge, forever, end=False))
                    await bridge.call(forever.do)
            assert forever.cancelled
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(bridge.call(Forever().do), 0.001)
            assert task.cancelling() == 0
            assert await bridge.call(Work(2, 2).do) == "done"

    run(main)


@both_modes
def test_a_deadline_that_is_over_before_the_call_has_begun(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = Forever()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(-1):
                    await bridge.call(forever.do)
            assert forever.cancelled == forever.begun

    run(main)


async def let_pass(
    deadlines: list[asyncio.Timeout], bridge: Bridge, forever: Forever, *, end: bool = True
) -> None:
    """Let deadlines pass while something is done, and perhaps let that end then."""
    await until(lambda: forever.begun)
    for deadline in deadlines:
        deadline.reschedule(-1)
    await turns(10)
    if end:
        bridge.post(forever.enough.set)


async def cancel_in_vain(bridge: Bridge, task: asyncio.Task[None], forever: Forever) -> None:
    """Cancel a task whose call goes on all the same, and let the call end."""
    await until(lambda: forever.begun)
    task.cancel("in vain")
    await turns(10)
    bridge.post(forever.enough.set)


@both_modes
def test_a_cancellation_in_vain_comes_again_where_the_task_waits_next(mode: Mode) -> None:
    log: list[object] = []

    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = Forever(shielded=True)

            async def body() -> None:
                log.append(await bridge.call(forever.do))
                log.append("not waited yet")
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError as error:
                    log.append(error.args)
                    raise

            task = asyncio.create_task(body())
            await cancel_in_vain(bridge, task, forever)
            assert isinstance(await outcome(task), asyncio.CancelledError)
            assert task.cancelling() == 1

    run(main)
    assert log == ["done", "not waited yet", ("in vain",)]


@both_modes
def test_a_cancellation_in_vain_is_not_lost_to_an_error(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = Forever(shielded=True)

            async def fail() -> None:
                await forever.do()
                msg = "too bad"
                raise ValueError(msg)

            async def body() -> None:
                with pytest.raises(ValueError, match="too bad"):
                    await bridge.call(fail)
                await asyncio.Event().wait()

            task = asyncio.create_task(body())
            await cancel_in_vain(bridge, task, forever)
            assert isinstance(await outcome(task), asyncio.CancelledError)

    run(main)


@both_modes
def test_a_deadline_in_vain_ends_what_comes_next_in_its_block(mode: Mode) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with bridged(mode) as bridge:
            forever = Forever(shielded=True)
            deadline = asyncio.timeout(None)
            passing = asyncio.create_task(let_pass([deadline], bridge, forever))
            with pytest.raises(TimeoutError):
                async with deadline:
                    assert await bridge.call(forever.do) == "done"
                    await asyncio.Event().wait()
            await passing
            assert task.cancelling() == 0

    run(main)


@both_modes
def test_a_deadline_in_vain_ends_nothing_beyond_its_block(mode: Mode) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with bridged(mode) as bridge:
            forever = Forever(shielded=True)
            deadline = asyncio.timeout(None)
            passing = asyncio.create_task(let_pass([deadline], bridge, forever))
            async with deadline:
                assert await bridge.call(forever.do) == "done"
            await passing
            assert deadline.expired()
            await turns(5)
            assert task.cancelling() == 0

    run(main)


@both_modes
def test_two_deadlines_in_vain_and_the_outer_one_counts(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = Forever(shielded=True)
            outer, inner = asyncio.timeout(None), asyncio.timeout(None)
            passing = asyncio.create_task(let_pass([outer, inner], bridge, forever))
            with pytest.raises(TimeoutError):
                async with outer:
                    async with inner:
                        await bridge.call(forever.do)
                    await asyncio.Event().wait()
            await passing

    run(main)


@both_modes
def test_a_task_that_cancels_itself_before_it_calls(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            log: list[object] = []

            async def body() -> None:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                log.append(await bridge.call(Work(after=5).do))
                await asyncio.Event().wait()

            result = await outcome(asyncio.create_task(body()))
            assert isinstance(result, asyncio.CancelledError)

    run(main)


@both_modes
def test_cancelled_again_and_again(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = Forever(shielded=True)
            task = asyncio.create_task(bridge.call(forever.do))
            await until(lambda: forever.begun)
            for _ in range(5):
                task.cancel()
                await turns(2)
                assert not task.done()
            bridge.post(forever.enough.set)
            assert await outcome(task) == "done"

    run(main)


@both_modes
def test_the_cancel_scopes_of_anyio(mode: Mode) -> None:
    """They cancel again and again; FastAPI and Starlette use them."""

    async def cancel_scope(bridge: Bridge, scope: anyio.CancelScope, forever: Forever) -> None:
        await until(lambda: forever.begun)
        scope.cancel()
        await turns(10)
        bridge.post(forever.enough.set)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with bridged(mode) as bridge:
            for forever in (Forever(), Forever(shielded=True)):
                scope = anyio.CancelScope()
                cancelling = asyncio.create_task(cancel_scope(bridge, scope, forever))
                with scope:
                    assert await bridge.call(forever.do) == "done"
                    await asyncio.Event().wait()
                await cancelling
                assert scope.cancelled_caught
            await turns(5)
            assert task.cancelling() == 0

    run(main)


@both_modes
def test_a_coroutine_that_is_given_up_cancels_its_call(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = Forever()
            coroutine = bridge.call(forever.do)
            coroutine.send(None)
            coroutine.close()
            await until(lambda: forever.cancelled)

    run(main)
