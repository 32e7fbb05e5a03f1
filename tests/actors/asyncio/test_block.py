"""Opening and leaving: whatever happens, nothing of the trio side is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio

from muster import ClosedSchedulerError, EventError
from muster.asyncio import Mode, open_scheduler
from muster.asyncio._bridge import Bridge, raise_as_it_is
from tests.actors.asyncio.program import both_modes, bridged, outcome, run, turns, until


class Trio:
    """A block of trio that notes what happens to it, and can be told to fail."""

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
    side = Trio()

    async def main() -> None:
        async with bridged(mode, side.block) as bridge:
            await bridge.call(trio.lowlevel.checkpoint)

    run(main)
    assert side.log == ["opening", "closed"]


@both_modes
@pytest.mark.parametrize("error", [ValueError("no"), ExceptionGroup("no", [OSError()])])
def test_left_by_an_error(mode: Mode, error: Exception) -> None:
    side = Trio()

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
    side = Trio(opens=False)

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
    side = Trio()

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
    side = Trio(closes=False)

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
    side = Trio(closes=False)

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
    side = Trio()
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
    side = Trio()
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
    side = Trio()
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
