"""Observers in asyncio: decisions come in chunks and none is lost.

How often the host's loop is woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar
from time import perf_counter

import pytest
import trio
from typing_extensions import TypeVarTuple, override

import muster.asyncio
from muster import Announced, ClosedSchedulerError, LaggedError
from muster.asyncio import Allocation, Decisions, Mode, open_scheduler
from muster.asyncio._links import BUSY_S, PAUSE_S, InterpreterPauses
from muster.testing import Recording
from tests.actors.asyncio.program import (
    both_modes,
    bridged,
    outcome,
    read,
    run,
    small,
    turns,
    until,
)

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


@both_modes
def test_decisions_come_in_chunks_and_in_order(mode: Mode) -> None:
    async def main() -> list[str | None]:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler, vcore=9)
            async with scheduler.decisions(kinds=["bound"], queue="q") as decisions:
                await scheduler.add_asks("a", "k", {"vcore": 1}, 3)
                first = await anext(decisions)
                rest = await decisions.take()
                await scheduler.add_ask("a", "last", {"vcore": 1})
                (last,) = await decisions.take()
                assert decisions.missed == 0
            assert await decisions.take() == ()
            return [one.decision.ask for one in (first, *rest, last)]

    assert run(main) == ["k-0", "k-1", "k-2", "last"]


@both_modes
def test_observation_ends_with_the_scheduler_and_loses_nothing(mode: Mode) -> None:
    async def main() -> Decisions:
        log = Recording()
        async with open_scheduler(mode=mode, journal=log) as scheduler:
            reading = asyncio.create_task(read(scheduler.decisions()))
            late = scheduler.decisions()
            await small(scheduler)
            await scheduler.add_ask("a", "k", {"vcore": 1})
        kinds = [one.decision.kind for one in log.decisions]
        assert kinds
        assert await reading == kinds
        assert await read(late) == kinds
        assert await read(late) == []
        with pytest.raises(ClosedSchedulerError):
            scheduler.decisions()
        return late

    run(main).close()  # nobody minds, though its loop is gone


@both_modes
def test_what_is_decided_while_the_scheduler_closes_is_read_all_the_same(mode: Mode) -> None:
    class SlowBinder(muster.asyncio.Binder):
        def __init__(self) -> None:
            self.is_ending = False
            self.end = asyncio.Event()

        @override
        async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
            started()
            try:
                await asyncio.Event().wait()
            finally:
                self.is_ending = True
                await self.end.wait()

    async def main() -> None:
        log, binder = Recording(), SlowBinder()
        opened: list[Decisions] = []

        async def body() -> None:
            async with open_scheduler(mode=mode, binder=binder, journal=log) as scheduler:
                opened.append(scheduler.decisions())
                await small(scheduler)
                await (await scheduler.add_ask("a", "k", {"vcore": 1})).bound()

        closing = asyncio.create_task(body())
        await until(lambda: binder.is_ending)
        reading = asyncio.create_task(read(opened[0]))
        await turns(10)
        binder.end.set()
        await closing
        assert await reading == [one.decision.kind for one in log.decisions]

    run(main)


@both_modes
def test_an_observer_learns_that_the_scheduler_was_broken_off(mode: Mode) -> None:
    async def main() -> None:
        opened: list[Decisions] = []
        with pytest.raises(ValueError, match="no"):
            async with open_scheduler(mode=mode) as scheduler:
                opened.append(scheduler.decisions(kinds=["bound"]))
                await small(scheduler)
                await scheduler.add_ask("a", "k", {"vcore": 1})
                raise ValueError("no")
        assert [one.decision.ask for one in await opened[0].take()] == ["k"]
        with pytest.raises(ClosedSchedulerError):
            await opened[0].take()
        assert await opened[0].take() == ()

    run(main)


@both_modes
def test_a_reader_who_is_too_slow(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            dropped = scheduler.decisions(kinds=["bound"], buffer=1)
            skipped = scheduler.decisions(kinds=["bound"], buffer=1, lag="skip")
            await small(scheduler, vcore=9)
            await scheduler.add_asks("a", "k", {"vcore": 1}, 3)
            assert (await anext(dropped)).decision.ask == "k-0"
            with pytest.raises(LaggedError):
                await anext(dropped)
            with pytest.raises(StopAsyncIteration):
                await anext(dropped)
            assert (await anext(skipped)).decision.ask == "k-2"
            assert skipped.missed == 2

    run(main)


@both_modes
def test_a_cancelled_reader_loses_nothing(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler, vcore=99)
            decisions = scheduler.decisions(kinds=["bound"])
            seen: list[str | None] = []

            async def look() -> None:
                while True:
                    seen.append((await anext(decisions)).decision.ask)

            for number in range(30):
                reading = asyncio.create_task(look())
                adding = asyncio.create_task(scheduler.add_ask("a", f"k{number}", {"vcore": 1}))
                await turns(number)
                reading.cancel()
                await outcome(reading)
                await adding
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(look(), 0.01)
            assert seen == [f"k{number}" for number in range(30)]

    run(main)


@both_modes
def test_a_filter_sees_the_context_of_its_observer(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            seen: list[str] = []

            def where(_: Announced) -> bool:
                seen.append(WHO.get())
                return True

            WHO.set("observer")
            decisions = scheduler.decisions(where=where)
            WHO.set("somebody")
            await small(scheduler)
            await scheduler.add_ask("a", "k", {"vcore": 1})
            await decisions.take()
            assert set(seen) == {"observer"}

            def fail(_: Announced) -> bool:
                raise ValueError("no")

            decisions = scheduler.decisions(where=fail)
            await scheduler.release("a", "k")
            with pytest.raises(ValueError, match="no"):
                await decisions.take()

    run(main)


@both_modes
def test_a_second_reader_does_not_disturb_the_first(mode: Mode) -> None:
    async def main() -> list[str | None]:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler, vcore=9)
            decisions = scheduler.decisions(kinds="bound")
            first = asyncio.ensure_future(anext(decisions))
            await turns(5)
            await scheduler.settle()  # there and back: now the first one waits over there
            with pytest.raises(trio.BusyResourceError):
                await decisions.take()
            await scheduler.add_ask("a", "one", {"vcore": 1})
            seen = [(await first).decision.ask]
            await scheduler.add_ask("a", "two", {"vcore": 1})
            return [*seen, (await anext(decisions)).decision.ask]

    assert run(main) == ["one", "two"]


@both_modes
def test_the_error_of_a_filter_that_is_read_after_the_end_has_no_false_context(mode: Mode) -> None:
    def broken(_: Announced) -> bool:
        raise LookupError

    async def main() -> BaseException | None:
        async with open_scheduler(mode=mode) as scheduler:
            decisions = scheduler.decisions(where=broken)
            await small(scheduler)
        with pytest.raises(LookupError) as raised:
            await decisions.take()
        return raised.value.__context__

    assert run(main) is None


@both_modes
def test_a_scheduler_shows_itself_as_one_of_asyncio(mode: Mode) -> None:
    async def main() -> str:
        async with open_scheduler(mode=mode) as scheduler:
            return repr(scheduler)

    assert "muster.asyncio" in run(main)


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
