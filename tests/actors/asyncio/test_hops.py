"""How often the host's loop is woken: once for a call, and once for all that is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from time import perf_counter

import trio
from typing_extensions import TypeVarTuple, override

from muster.asyncio import Mode, open_scheduler
from muster.asyncio._links import BUSY_S, PAUSE_S, InterpreterPauses
from tests.actors.asyncio.program import bridged, small, turns

Ts = TypeVarTuple("Ts")


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop that counts how often another thread wakes it."""

    wakings = 0

    @override
    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.wakings += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


def test_a_call_wakes_the_loop_once() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        async with bridged(Mode.THREAD) as bridge:
            await bridge.call(trio.lowlevel.checkpoint)
            before = loop.wakings
            for _ in range(10):
                await bridge.call(trio.lowlevel.checkpoint)
            assert loop.wakings == before + 10

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())


def test_many_decisions_wake_the_loop_once() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        async with open_scheduler() as scheduler:
            await small(scheduler, vcore=50)
            decisions = scheduler.decisions(kinds=["bound"])
            reading = asyncio.create_task(decisions.take())
            await turns(3)
            before = loop.wakings
            await scheduler.add_asks("a", "k", {"vcore": 1}, 50)
            assert len(await reading) == 50
            # One for the answer, and one for the decisions; or the same one for both.
            assert loop.wakings <= before + 2
            assert decisions.missed == 0

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(main())


def test_long_work_lets_go_of_the_interpreter_now_and_then() -> None:
    pauses: list[float] = []
    courtesy = InterpreterPauses(pauses.append)

    def work(seconds: float) -> None:
        start = perf_counter()
        courtesy.before_io_wait(0)
        while perf_counter() - start < seconds:
            courtesy.before_io_wait(0)
        courtesy.before_io_wait(0)  # Others may have had the core since the first time.

    work(BUSY_S * 5.5)
    assert set(pauses) == {PAUSE_S}
    assert 1 <= len(pauses) <= 6

    courtesy.before_io_wait(1)
    pauses.clear()
    for _ in range(1000):  # Much to do, but never for long.
        courtesy.before_io_wait(0)
        courtesy.before_io_wait(1)
    assert pauses == []
