"""Journals in asyncio: asynchronous ones are awaited in the program's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar

import pytest

import muster
from muster import Announced
from muster._runtime import announcer as journals
from muster.asyncio import Mode, open_scheduler
from tests.actors.asyncio.program import both_modes, outcome, run, small, turns, until

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Slow:
    """A journal that writes when the test says so."""

    def __init__(self, error: Exception | None = None) -> None:
        self.gate = asyncio.Event()
        self.error = error
        self.who: set[str] = set()
        self.writing = 0
        self.written: list[Announced] = []
        self.cancelled = False

    async def write(self, batch: Sequence[Announced]) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.who.add(WHO.get())
        self.writing += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error is not None:
            raise self.error
        self.written += batch


@both_modes
def test_it_is_awaited_in_the_loop(mode: Mode) -> None:
    async def main() -> None:
        journal = Slow()
        WHO.set("opener")
        async with open_scheduler(mode=mode, journal=journal) as scheduler:
            WHO.set("caller")
            adding = asyncio.create_task(scheduler.add_app("a", "root.q"))
            await until(lambda: journal.writing == 1)
            await turns(5)
            assert not adding.done()
            journal.gate.set()
            await adding
            assert journal.written
        assert journal.who == {"opener"}

    run(main)


@both_modes
def test_its_error_comes_out_unchanged(mode: Mode) -> None:
    async def main() -> None:
        error = OSError("full")
        journal = Slow(error)
        journal.gate.set()
        with pytest.raises(OSError, match="full") as caught:
            async with open_scheduler(mode=mode, journal=journal) as scheduler:
                await outcome(small(scheduler))
                await asyncio.Event().wait()
        assert caught.value is error

    run(main)


@both_modes
def test_one_that_hangs_does_not_hold_up_a_cancelled_program_for_ever(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "WRITE_GRACE_S", 0.01)

    async def main() -> None:
        journal = Slow()
        calls: list[asyncio.Task[object]] = []

        async def body() -> None:
            async with open_scheduler(mode=mode, journal=journal) as scheduler:
                calls.append(asyncio.create_task(outcome(small(scheduler))))
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await until(lambda: journal.writing == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert journal.cancelled
        assert type(await calls[0]) is muster.ClosedSchedulerError

    run(main)


@both_modes
def test_a_cancellation_does_not_cut_a_batch_short(mode: Mode) -> None:
    async def main() -> None:
        journal = Slow()

        async def body() -> None:
            async with open_scheduler(mode=mode, journal=journal) as scheduler:
                await small(scheduler)

        task = asyncio.create_task(body())
        await until(lambda: journal.writing == 1)
        task.cancel()
        await turns(5)
        journal.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not journal.cancelled
        assert journal.written

    run(main)


class Plain:
    """A journal that is not asynchronous."""

    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()

    def write(self, batch: Sequence[Announced]) -> None:
        assert batch
        self.threads.add(threading.current_thread())


class Stepped(Plain):
    def write_in_steps(self, batch: Sequence[Announced]) -> object:
        yield
        self.write(batch)


@pytest.mark.parametrize("make", [Plain, Stepped])
def test_others_are_called_in_trio(make: Callable[[], Plain]) -> None:
    async def main() -> None:
        journal = make()
        async with open_scheduler(mode=Mode.THREAD, journal=journal) as scheduler:
            await small(scheduler)
        assert threading.main_thread() not in journal.threads
        assert len(journal.threads) == 1

    run(main)


@both_modes
def test_what_makes_a_coroutine_otherwise_is_awaited_too(mode: Mode) -> None:
    class Wrapped:
        def __init__(self, inner: Slow) -> None:
            self._inner = inner

        def write(self, batch: Sequence[Announced]) -> Awaitable[None] | None:
            return self._inner.write(batch)

    async def main() -> None:
        inner = Slow()
        inner.gate.set()
        journal: muster.Journal = Wrapped(inner)
        async with open_scheduler(mode=mode, journal=journal) as scheduler:
            await small(scheduler)
        assert inner.written

    run(main)
