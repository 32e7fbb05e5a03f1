"""Open a scheduler from asyncio, with binders and journals that run there.

The scheduler runs in trio. Its binder and journal are wrapped, so that trio can call them in the
program's loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from inspect import isawaitable
from os import PathLike
from typing import Any, final

from typing_extensions import override

import muster
from muster._errors import ClosedSchedulerError
from muster._runtime.announcer import Journal, Record
from muster._runtime.clock import Clock
from muster._runtime.owners import Interleave
from muster._runtime.store_options import Durability
from muster._surface.allocation import BIND_ATTEMPTS, BIND_TIMEOUT_S, Binder
from muster._surface.context import opens_in
from muster._surface.conversion import Config
from muster._surface.open import CHECKPOINT_EVERY, open_parts, store_options
from muster.asyncio._bridge import Bridge, open_bridge, run_in_host
from muster.asyncio._links import Mode
from muster.asyncio._scheduler import AsyncioAllocation, Scheduler
from muster_core.decisions import Announced
from muster_core.errors import EventError

_RunMethod = Callable[[muster.Allocation, Callable[[], None]], Coroutine[Any, Any, None]]


def binder_for_trio(bridge: Bridge, binder: muster.Binder, context: Context) -> muster.Binder:
    """Return a binder of trio that runs a binder of the program in the host's loop.

    Args:
        bridge: The bridge to the host.
        binder: The binder, which is written for asyncio.
        context: The context variables of its tasks.
    """
    resume: _RunMethod | None = getattr(binder, "resume", None)
    if resume is None:
        return _HostBinder(bridge, binder, context)
    return _ResumingHostBinder(bridge, binder, context, resume)


class _HostBinder(muster.Binder):
    def __init__(self, bridge: Bridge, binder: muster.Binder, context: Context) -> None:
        self._bridge = bridge
        self._binder = binder
        self._context = context

    @override
    async def run(self, allocation: muster.Allocation, started: Callable[[], None], /) -> None:
        await self._in_host(self._binder.run, allocation, started)

    async def _in_host(
        self, run: _RunMethod, allocation: muster.Allocation, started: Callable[[], None]
    ) -> None:
        def post_started() -> None:
            with suppress(ClosedSchedulerError):
                self._bridge.post(started)

        assert isinstance(allocation, muster.TrioAllocation)
        handle = AsyncioAllocation(self._bridge, allocation)
        name = f"muster binder {allocation.app}/{allocation.ask}"
        await run_in_host(self._bridge, partial(run, handle, post_started), self._context, name)


@final
class _ResumingHostBinder(_HostBinder, muster.ResumingBinder):
    def __init__(
        self, bridge: Bridge, binder: muster.Binder, context: Context, resume: _RunMethod
    ) -> None:
        super().__init__(bridge, binder, context)
        self._resume = resume

    @override
    async def resume(self, allocation: muster.Allocation, started: Callable[[], None], /) -> None:
        await self._in_host(self._resume, allocation, started)


def journal_for_trio(bridge: Bridge, journal: muster.Journal, context: Context) -> muster.Journal:
    """Return a journal of trio that awaits a journal of the program in the host's loop.

    Args:
        bridge: The bridge to the host.
        journal: The journal, which is written for asyncio if it is asynchronous.
        context: The context variables of its tasks.
    """
    if hasattr(journal, "write_in_steps"):
        return journal
    return _HostJournal(bridge, journal, context)


@final
class _HostJournal(muster.Journal):
    def __init__(self, bridge: Bridge, journal: muster.Journal, context: Context) -> None:
        self._bridge = bridge
        self._journal = journal
        self._context = context

    @override
    def write(self, batch: Sequence[Announced], /) -> Awaitable[None] | None:
        # The call itself runs on the trio side: that of an asynchronous function only makes a
        # coroutine.
        written = self._journal.write(batch)
        return self._in_host(written) if isawaitable(written) else None

    async def _in_host(self, written: Awaitable[None]) -> None:
        async def write() -> None:
            await written

        await run_in_host(self._bridge, write, self._context, "muster journal")


@opens_in("asyncio", "muster.asyncio.open_scheduler", elsewhere="muster.open_scheduler")
async def open_scheduler(  # noqa: PLR0913 - all that a program may choose
    config: Config | None = None,
    *,
    mode: Mode | str = Mode.THREAD,
    partition: str | None = None,
    binder: Binder | None = None,
    bind_timeout: float = BIND_TIMEOUT_S,
    bind_attempts: int | None = BIND_ATTEMPTS,
    clock: Clock | None = None,
    journal: Journal | None = None,
    record: Record | None = None,
    store: str | PathLike[str] | None = None,
    durability: Durability = "full",
    checkpoint_every: int = CHECKPOINT_EVERY,
    keep: float | str | None = None,
    interleave: Interleave | None = None,
) -> AsyncGenerator[Scheduler, None]:
    """Run a scheduler for the time of an ``async with`` block of asyncio.

    When the block ends normally, the scheduler first carries out all calls that it has accepted.
    When the block ends by an exception or by cancellation, the scheduler is cancelled. In both
    cases calls that still wait raise :class:`~muster.ClosedSchedulerError`, and the thread or
    the guest run has ended when the block has.

    If the scheduler fails while the block is open, the task in the block is cancelled, as by
    :class:`asyncio.TaskGroup`, and the block raises the error.

    Args:
        config: As for :func:`muster.open_scheduler`.
        mode: Where the scheduler runs: in a thread of its own, or as a guest in the loop.
        partition: As for :func:`muster.open_scheduler`.
        binder: Does the work of bound asks, in this loop; default: none, the program does the
            work itself.
        bind_timeout: As for :func:`muster.open_scheduler`.
        bind_attempts: As for :func:`muster.open_scheduler`.
        clock: The source of the time, used on the scheduler's side; default: trio's clock.
        journal: As for :func:`muster.open_scheduler`. If ``write`` is asynchronous, it runs in
            this loop. Otherwise it is called on the scheduler's side, with :attr:`Mode.THREAD` in
            another thread.
        record: As for :func:`muster.open_scheduler`. It is called on the scheduler's side.
        store: As for :func:`muster.open_scheduler`.
        durability: As for :func:`muster.open_scheduler`.
        checkpoint_every: As for :func:`muster.open_scheduler`.
        keep: As for :func:`muster.open_scheduler`.
        interleave: As for :func:`muster.open_scheduler`.

    Yields:
        The scheduler.

    Raises:
        OSError: If the configuration is a file that cannot be read.
        ConfigError: If the configuration is refused.
        EventError: If there is no such mode, or another argument is invalid.
        RefusedError: As for :func:`muster.open_scheduler`.
        StoreError: As for :func:`muster.open_scheduler`.
        BrokenSchedulerError: If an owner of state fails because of a bug.
    """
    if mode not in set(Mode):
        msg = f"mode: {mode!r}: there are {', '.join(Mode)}"
        raise EventError(msg)
    context = copy_context()

    @asynccontextmanager
    async def open_block(bridge: Bridge) -> AsyncGenerator[muster.Scheduler, None]:
        async with open_parts(
            config,
            partition=partition,
            binder=None if binder is None else binder_for_trio(bridge, binder, context),
            bind_timeout=bind_timeout,
            bind_attempts=bind_attempts,
            clock=clock,
            journal=None if journal is None else journal_for_trio(bridge, journal, context),
            record=record,
            store=store_options(store, durability, checkpoint_every, keep),
            interleave=interleave,
        ) as parts:

            def admit(observer: muster.Decisions) -> None:
                # This runs in the host, which creates the observer.
                bridge.check()
                bridge.post(partial(parts.observers.admit, observer))

            yield muster.Scheduler(parts.statistics, parts.client, admit)

    async with open_bridge(Mode(mode), open_block) as (bridge, inner):
        yield Scheduler(bridge, inner)
