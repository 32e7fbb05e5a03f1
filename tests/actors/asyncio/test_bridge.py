"""Calls from asyncio to plain functions of trio, and tasks of the host that the trio side waits
for.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import pytest
import trio

from muster import ClosedSchedulerError
from muster.asyncio import Mode
from muster.asyncio._bridge import Bridge, run_in_host
from muster.asyncio._links import Callback, CallbackQueue
from tests.actors.asyncio.program import both_modes, bridged, outcome, run, turns, until

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


async def thread_name() -> str:
    await trio.lowlevel.checkpoint()
    return threading.current_thread().name


@pytest.mark.parametrize(("mode", "name"), [(Mode.THREAD, "muster"), (Mode.GUEST, "MainThread")])
def test_where_trio_runs(mode: Mode, name: str) -> None:
    async def main() -> str:
        async with bridged(mode) as bridge:
            return await bridge.call(thread_name)

    assert run(main) == name


@both_modes
def test_calls_at_the_same_time(mode: Mode) -> None:
    async def main() -> list[int]:
        async with bridged(mode) as bridge:

            async def give(number: int) -> int:
                for _ in range(number % 3):
                    await trio.lowlevel.checkpoint()
                return number

            return await asyncio.gather(*(bridge.call(partial(give, n)) for n in range(50)))

    assert run(main) == list(range(50))


@both_modes
@pytest.mark.parametrize("kind", [ValueError, ClosedSchedulerError, ExceptionGroup])
def test_an_error_comes_out_as_it_is(mode: Mode, kind: type[Exception]) -> None:
    error = kind("no", [OSError()]) if kind is ExceptionGroup else kind("no")

    async def deep_inside() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    async def main() -> object:
        async with bridged(mode) as bridge:
            return await outcome(bridge.call(deep_inside))

    assert run(main) is error
    assert error.__context__ is None
    assert "deep_inside" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@both_modes
def test_an_exit_goes_through_the_host(mode: Mode) -> None:
    async def leave() -> None:
        await trio.lowlevel.checkpoint()
        raise SystemExit(7)

    async def main() -> None:
        async with bridged(mode) as bridge:
            await bridge.call(leave)

    with pytest.raises(SystemExit) as caught:
        run(main)
    assert caught.value.code == 7


@both_modes
def test_a_call_sees_the_context_of_its_caller(mode: Mode) -> None:
    async def ask() -> str:
        before = WHO.get()
        WHO.set("trio")
        await trio.lowlevel.checkpoint()
        return before

    async def main() -> tuple[tuple[str, ...], str]:
        async with bridged(mode) as bridge:

            async def as_somebody(name: str) -> str:
                WHO.set(name)
                return await bridge.call(ask)

            seen = await asyncio.gather(as_somebody("one"), as_somebody("two"), bridge.call(ask))
            return tuple(seen), WHO.get()

    assert run(main) == (("one", "two", "nobody"), "nobody")


@both_modes
def test_the_block_sees_the_context_of_its_opener(mode: Mode) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def block() -> AsyncGenerator[None, None]:
        seen.append(WHO.get())
        yield

    async def main() -> None:
        WHO.set("opener")
        async with bridged(mode, block):
            pass

    run(main)
    assert seen == ["opener"]


@both_modes
def test_nothing_can_be_called_afterwards(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:
            pass
        with pytest.raises(ClosedSchedulerError, match="is closed"):
            await bridge.call(trio.lowlevel.checkpoint)
        with pytest.raises(ClosedSchedulerError):
            bridge.post(bridge.check)

    run(main)


@both_modes
def test_another_loop_is_refused(mode: Mode) -> None:
    async def main() -> None:
        async with bridged(mode) as bridge:

            def elsewhere() -> object:
                return asyncio.run(outcome_of_check())

            async def outcome_of_check() -> object:
                return await outcome(bridge.call(trio.lowlevel.checkpoint))

            found = await asyncio.to_thread(elsewhere)
            assert isinstance(found, RuntimeError)
            assert "another event loop" in str(found)
            with pytest.raises(RuntimeError, match="another event loop"):
                await asyncio.to_thread(bridge.check)
            with pytest.raises(RuntimeError, match="another event loop"):
                await asyncio.to_thread(bridge.post, bridge.check)

    run(main)


def test_several_at_once_in_one_loop() -> None:
    async def main() -> None:
        async with (
            bridged(Mode.GUEST) as first,
            bridged(Mode.THREAD) as second,
            bridged(Mode.GUEST) as third,
        ):
            for one in (first, second, third):
                await one.call(trio.lowlevel.checkpoint)
        async with bridged(Mode.GUEST) as fourth:
            await fourth.call(trio.lowlevel.checkpoint)

    run(main)


@pytest.mark.parametrize("k", range(20))
def test_a_guest_that_comes_while_the_last_one_goes(k: int) -> None:
    async def come_and_go(wait: int) -> None:
        await turns(wait)
        async with bridged(Mode.GUEST) as bridge:
            await bridge.call(trio.lowlevel.checkpoint)

    async def main() -> None:
        await asyncio.gather(come_and_go(0), come_and_go(k), come_and_go(2 * k))

    run(main)


def test_what_comes_before_anybody_has_looked_shares_a_waking() -> None:
    wakings: list[Callback] = []
    calls: list[int] = []
    lane = CallbackQueue(wakings.append)
    lane.put(lambda: calls.append(0))
    assert (wakings, calls) == ([], [])  # Nobody is there yet.
    lane.serve()

    lane.put(lambda: calls.append(1))
    lane.put(lambda: calls.append(2))
    assert len(wakings) == 1
    wakings.pop()()

    assert calls == [0, 1, 2]
    lane.put(lambda: lane.put(lambda: calls.append(4)))
    wakings.pop()()
    assert len(wakings) == 1, "what comes while they are called waits for another waking"


def test_a_lane_whose_other_end_is_gone() -> None:
    def wake(_: Callback) -> None:
        raise RuntimeError

    lane = CallbackQueue(wake)
    lane.serve()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            lane.put(lambda: None)


def job(bridge: Bridge, work: Callable[[], Coroutine[Any, Any, None]]) -> partial[Any]:
    return partial(run_in_host, bridge, work, copy_context(), "job")


@both_modes
def test_it_runs_in_the_loop_and_in_its_context(mode: Mode) -> None:
    async def main() -> None:
        loop, seen = asyncio.get_running_loop(), list[object]()

        async def work() -> None:
            await asyncio.sleep(0)
            task = asyncio.current_task()
            assert task is not None
            seen.extend([asyncio.get_running_loop(), task.get_name(), WHO.get()])
            WHO.set("work")

        WHO.set("opener")
        async with bridged(mode) as bridge:
            call = job(bridge, work)
            WHO.set("caller")
            await bridge.call(call)
            await bridge.call(call)
        assert seen == [loop, "job", "opener"] * 2

    run(main)


@both_modes
def test_its_error_comes_out(mode: Mode) -> None:
    error = ValueError("no")

    async def work() -> None:
        raise error

    async def main() -> object:
        async with bridged(mode) as bridge:
            return await outcome(bridge.call(job(bridge, work)))

    assert run(main) is error


@both_modes
def test_what_gives_no_coroutine_has_failed(mode: Mode) -> None:
    def fail() -> Coroutine[Any, Any, None]:
        raise ValueError("no")

    def give_nothing() -> Any:  # noqa: ANN401 - it is wrong on purpose
        return None

    async def main() -> None:
        async with bridged(mode) as bridge:
            with pytest.raises(ValueError, match="no"):
                await bridge.call(job(bridge, fail))
            with pytest.raises(TypeError, match="coroutine"):
                await bridge.call(job(bridge, give_nothing))

    run(main)


@both_modes
def test_cancelled_from_outside_it_has_failed(mode: Mode) -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        async with bridged(mode) as bridge:
            with pytest.raises(RuntimeError, match="'job' was cancelled"):
                await bridge.call(job(bridge, work))

    run(main)


@both_modes
def test_its_end_is_waited_for_when_it_is_cancelled(mode: Mode) -> None:
    log: list[str] = []

    async def work() -> None:
        log.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await turns(3)
            log.append("ended")

    async def main() -> None:
        async with bridged(mode) as bridge:
            task = asyncio.create_task(bridge.call(job(bridge, work)))
            await until(lambda: log == ["begun"])
            task.cancel()
            assert isinstance(await outcome(task), asyncio.CancelledError)
            assert log == ["begun", "ended"]

    run(main)


@both_modes
@pytest.mark.parametrize("k", range(20))
def test_cancelled_at_any_time(mode: Mode, k: int) -> None:
    async def main() -> None:
        log: list[str] = []

        async def work() -> None:
            log.append("begun")
            try:
                await turns(3)
            finally:
                log.append("ended")

        async with bridged(mode) as bridge:
            task = asyncio.create_task(bridge.call(job(bridge, work)))
            await turns(k)
            task.cancel()
            await outcome(task)
            assert log in ([], ["begun", "ended"])

    run(main)


@both_modes
def test_it_is_ended_when_the_block_is_left(mode: Mode) -> None:
    log: list[str] = []

    async def work() -> None:
        try:
            log.append("begun")
            await asyncio.Event().wait()
        finally:
            await turns(2)
            log.append("ended")

    async def main() -> None:
        tasks: list[asyncio.Task[None]] = []
        with pytest.raises(ValueError, match="no"):
            async with bridged(mode) as bridge:
                tasks.append(asyncio.create_task(bridge.call(job(bridge, work))))
                await until(lambda: log == ["begun"])
                raise ValueError("no")
        assert log == ["begun", "ended"]
        assert isinstance(await outcome(tasks[0]), ClosedSchedulerError)

    run(main)


@both_modes
def test_an_exit_goes_through_the_host_alone(mode: Mode) -> None:
    async def work() -> None:
        raise SystemExit(7)

    seen: list[object] = []

    async def main() -> None:
        async with bridged(mode) as bridge:
            try:
                await bridge.call(job(bridge, work))
            except BaseException as error:
                seen.append(error)
                raise

    with pytest.raises(SystemExit):
        run(main)
    assert seen
    assert trio.lowlevel.in_trio_run() is False
