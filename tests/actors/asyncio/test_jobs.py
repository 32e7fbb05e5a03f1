"""Tasks of the host that the trio side waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import pytest
import trio

from muster import ClosedSchedulerError
from muster.asyncio import Mode
from muster.asyncio._bridge import Bridge, run_in_host
from tests.actors.asyncio.program import both_modes, bridged, outcome, run, turns, until

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


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
def test_cancelled_by_somebody_else_it_has_failed(mode: Mode) -> None:
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
