"""Opening, leaving and cancelling.

Nothing is done by halves, no cancellation is lost, and nothing of the trio side is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest
import trio

from muster import ClosedSchedulerError, EventError
from muster.asyncio import Mode, open_scheduler
from muster.asyncio._bridge import Bridge, raise_as_it_is
from tests.actors.asyncio.program import both_modes, bridged, outcome, run, turns, until


class TrioBlock:
    """A block of trio that notes what happens to it, and fails on request."""

    def __init__(self, *, opens: bool = True, closes: bool = True) -> None:
        self._opens = opens
        self._closes = closes
        self.log: list[str] = []
        self.go_on = trio.Event()
        self.failure: BaseException | None = None
        self.fail = trio.Event()

    @asynccontextmanager
    async def block(self) -> AsyncGenerator[None, None]:
        self.log.append("opening")
        try:
            if not self._opens:
                await self.go_on.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fail)
                yield
                if not self._closes:
                    self.log.append("closing")
                    await self.go_on.wait()
                nursery.cancel_scope.cancel()
            self.log.append("closed")
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        except BaseExceptionGroup as group:
            if self.failure is not None:
                raise self.failure from None
            if group.split(trio.Cancelled)[1] is None:
                self.log.append("cancelled")
            raise

    async def _fail(self) -> None:
        await self.fail.wait()
        assert self.failure is not None
        raise self.failure


async def forever() -> None:
    await trio.sleep_forever()


@both_modes
def test_left_normally(mode: Mode) -> None:
    side = TrioBlock()

    async def main() -> None:
        async with bridged(mode, side.block) as bridge:
            await bridge.call(trio.lowlevel.checkpoint)

    run(main)
    assert side.log == ["opening", "closed"]


@both_modes
@pytest.mark.parametrize("error", [ValueError("no"), ExceptionGroup("no", [OSError()])])
def test_left_by_an_error(mode: Mode, error: Exception) -> None:
    side = TrioBlock()

    async def main() -> None:
        async with bridged(mode, side.block):
            raise error

    with pytest.raises(type(error)) as caught:
        run(main)
    assert caught.value is error
    assert error.__context__ is None
    assert side.log == ["opening", "cancelled"]


@both_modes
def test_it_cannot_be_opened(mode: Mode) -> None:
    class Block:
        async def __aenter__(self) -> None:
            await trio.lowlevel.checkpoint()
            raise ValueError("no")

        async def __aexit__(self, *_: object) -> None:
            pytest.fail("it is not open")

    async def main() -> None:
        async with bridged(mode, Block):
            pytest.fail("it is not open")

    with pytest.raises(ValueError, match="no"):
        run(main)


@both_modes
def test_cancelled_while_it_is_opened(mode: Mode) -> None:
    side = TrioBlock(opens=False)

    async def main() -> None:
        async def body() -> None:
            async with bridged(mode, side.block):
                pytest.fail("it is not open")

        task = asyncio.create_task(body())
        await until(lambda: side.log == ["opening"])
        task.cancel()
        assert isinstance(await outcome(task), asyncio.CancelledError)

    run(main)
    assert side.log == ["opening", "cancelled"]


@both_modes
@pytest.mark.parametrize("k", range(20))
def test_cancelled_at_any_time(mode: Mode, k: int) -> None:
    side = TrioBlock()

    async def main() -> None:
        async def body() -> None:
            async with bridged(mode, side.block) as bridge:
                await bridge.call(trio.lowlevel.checkpoint)
                await turns(3)

        task = asyncio.create_task(body())
        await turns(k)
        task.cancel()
        await outcome(task)

    run(main)
    assert side.log in ([], ["opening", "cancelled"], ["opening", "closed"])


@both_modes
def test_cancelled_while_it_is_left(mode: Mode) -> None:
    side = TrioBlock(closes=False)

    async def main() -> None:
        async def body() -> None:
            async with bridged(mode, side.block):
                pass

        task = asyncio.create_task(body())
        await until(lambda: side.log == ["opening", "closing"])
        for _ in range(3):
            task.cancel()
            await turns(1)
        assert isinstance(await outcome(task), asyncio.CancelledError)

    run(main)
    assert side.log == ["opening", "closing", "cancelled"]


@both_modes
def test_what_waits_when_it_is_left_by_an_error_is_refused(mode: Mode) -> None:
    async def main() -> None:
        tasks: list[asyncio.Task[None]] = []
        with pytest.raises(ValueError, match="no"):
            async with bridged(mode) as bridge:
                tasks.append(asyncio.create_task(bridge.call(forever)))
                await turns(5)
                raise ValueError("no")
        assert isinstance(await outcome(tasks[0]), ClosedSchedulerError)

    run(main)


@both_modes
@pytest.mark.parametrize("k", range(15))
def test_what_is_called_while_it_is_left_gets_an_answer(mode: Mode, k: int) -> None:
    async def main() -> None:
        results: list[object] = []

        async def call_again_and_again() -> None:
            while True:
                result = await outcome(bridge.call(trio.lowlevel.checkpoint))
                results.append(result)
                if result is not None:
                    return

        async with asyncio.TaskGroup() as group, bridged(mode) as bridge:
            for _ in range(3):
                group.create_task(call_again_and_again())
            await turns(k)
        last = [one for one in results if one is not None]
        assert [type(one) for one in last] == [ClosedSchedulerError] * 3

    run(main)


@both_modes
def test_nothing_is_let_in_while_it_is_left(mode: Mode) -> None:
    side = TrioBlock(closes=False)

    async def main() -> None:
        entered = asyncio.Event()
        bridges: list[Bridge] = []

        async def body() -> None:
            async with bridged(mode, side.block) as bridge:
                bridges.append(bridge)
                entered.set()

        task = asyncio.create_task(body())
        await entered.wait()
        await until(lambda: "closing" in side.log)
        with pytest.raises(ClosedSchedulerError):
            await bridges[0].call(trio.lowlevel.checkpoint)
        bridges[0].post(side.go_on.set)
        await task

    run(main)
    assert side.log == ["opening", "closing", "closed"]


# The trio side fails


@both_modes
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_cancels_the_body_and_comes_out(mode: Mode, kind: type[BaseException]) -> None:
    side = TrioBlock()
    failure = side.failure = kind("broken")
    seen: list[object] = []
    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with bridged(mode, side.block) as bridge:
                tasks.append(asyncio.create_task(bridge.call(forever)))
                await bridge.call(trio.lowlevel.checkpoint)
                bridge.post(side.fail.set)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError as error:
                    seen.append(error)
                    raise
        except BaseException as error:  # noqa: BLE001
            seen.append(error)
        seen.append(await outcome(tasks[0]))
        seen.append(task.cancelling())

    run(main)
    cancelled, error, refused, requests = seen
    assert isinstance(cancelled, asyncio.CancelledError)
    assert error is failure
    assert isinstance(refused, ClosedSchedulerError)
    assert requests == 0


@both_modes
def test_a_failure_while_the_body_calls(mode: Mode) -> None:
    side = TrioBlock()
    side.failure = ValueError("broken")

    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            async with bridged(mode, side.block) as bridge:
                bridge.post(side.fail.set)
                await bridge.call(forever)
        await turns(5)  # nothing more comes

    run(main)


@both_modes
def test_a_failure_while_the_body_is_cancelled_from_outside(mode: Mode) -> None:
    side = TrioBlock()
    side.failure = ValueError("broken")

    async def main() -> None:
        inside = asyncio.Event()

        async def body() -> None:
            with pytest.raises(ValueError, match="broken"):
                async with bridged(mode, side.block) as bridge:
                    try:
                        inside.set()
                        await asyncio.Event().wait()
                    finally:
                        bridge.post(side.fail.set)
                        await bridge.over.wait()
            await asyncio.Event().wait()  # here the cancellation comes again

        task = asyncio.create_task(body())
        await inside.wait()
        task.cancel()
        assert isinstance(await outcome(task), asyncio.CancelledError)

    run(main)


@both_modes
def test_a_failure_when_the_body_is_left(mode: Mode) -> None:
    async def main() -> None:
        @asynccontextmanager
        async def block() -> AsyncGenerator[None, None]:
            yield
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            async with bridged(mode, block):
                pass

    run(main)


@both_modes
def test_a_failure_outdoes_what_the_body_was_left_by(mode: Mode) -> None:
    def failing(error: Exception) -> Callable[[], AbstractAsyncContextManager[None]]:
        @asynccontextmanager
        async def block() -> AsyncGenerator[None, None]:
            try:
                yield
            finally:
                raise error

        return block

    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            async with bridged(mode, failing(ValueError("broken"))):
                raise OSError

    run(main)


def test_an_error_is_raised_without_what_was_going_on() -> None:
    error = ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        try:
            raise OSError
        except OSError:
            raise_as_it_is(error)

    assert caught.value is error
    assert error.__context__ is None


def test_there_is_no_such_mode() -> None:
    async def main() -> None:
        async with open_scheduler(mode="gest"):
            pytest.fail("opened")

    with pytest.raises(EventError, match="'gest': there are thread, guest"):
        run(main)


class CancellableWork:
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


class EndlessCall:
    """A call that ends only when a test ends it."""

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
                work = CancellableWork(before, after)
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
            forever = EndlessCall()
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
            forever = EndlessCall()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as group:
                    group.create_task(let_pass([deadline], bridge, forever, end=False))
                    await bridge.call(forever.do)
            assert forever.cancelled
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(bridge.call(EndlessCall().do), 0.001)
            assert task.cancelling() == 0
            assert await bridge.call(CancellableWork(2, 2).do) == "done"

    run(main)


@both_modes
def test_a_deadline_that_is_over_before_the_call_has_begun(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = EndlessCall()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(-1):
                    await bridge.call(forever.do)
            assert forever.cancelled == forever.begun

    run(main)


async def let_pass(
    deadlines: list[asyncio.Timeout], bridge: Bridge, forever: EndlessCall, *, end: bool = True
) -> None:
    """Let deadlines pass while something is done, and perhaps let that end then."""
    await until(lambda: forever.begun)
    for deadline in deadlines:
        deadline.reschedule(-1)
    await turns(10)
    if end:
        bridge.post(forever.enough.set)


async def cancel_in_vain(bridge: Bridge, task: asyncio.Task[None], forever: EndlessCall) -> None:
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
            forever = EndlessCall(shielded=True)

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
            forever = EndlessCall(shielded=True)

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
            forever = EndlessCall(shielded=True)
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
            forever = EndlessCall(shielded=True)
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
            forever = EndlessCall(shielded=True)
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
                log.append(await bridge.call(CancellableWork(after=5).do))
                await asyncio.Event().wait()

            result = await outcome(asyncio.create_task(body()))
            assert isinstance(result, asyncio.CancelledError)

    run(main)


@both_modes
def test_cancelled_again_and_again(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            forever = EndlessCall(shielded=True)
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

    async def cancel_scope(bridge: Bridge, scope: anyio.CancelScope, forever: EndlessCall) -> None:
        await until(lambda: forever.begun)
        scope.cancel()
        await turns(10)
        bridge.post(forever.enough.set)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with bridged(mode) as bridge:
            for forever in (EndlessCall(), EndlessCall(shielded=True)):
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
            forever = EndlessCall()
            coroutine = bridge.call(forever.do)
            coroutine.send(None)
            coroutine.close()
            await until(lambda: forever.cancelled)

    run(main)
