"""Binders and journals that run in asyncio, for a scheduler that runs in trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, final

from typing_extensions import override

import muster
from muster._errors import ClosedSchedulerError
from muster.asyncio._handles import AsyncioAllocation
from muster.asyncio._jobs import run_in_host

if TYPE_CHECKING:
    from muster.asyncio._bridge import Bridge
    from muster_core.decisions import Announced

_Run = Callable[[muster.Allocation, Callable[[], None]], Coroutine[Any, Any, None]]


def binder_for_trio(bridge: Bridge, binder: muster.Binder, context: Context) -> muster.Binder:
    """Return a binder of trio that runs a binder of the program in the host's loop.

    Args:
        bridge: The bridge to the host.
        binder: The binder, which is written for asyncio.
        context: The context variables of its tasks.
    """
    resume: _Run | None = getattr(binder, "resume", None)
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
        self, run: _Run, allocation: muster.Allocation, started: Callable[[], None]
    ) -> None:
        def tell_started() -> None:
            with suppress(ClosedSchedulerError):
                self._bridge.post(started)

        assert isinstance(allocation, muster.TrioAllocation)
        handle = AsyncioAllocation(self._bridge, allocation)
        name = f"muster binder {allocation.app}/{allocation.ask}"
        await run_in_host(self._bridge, partial(run, handle, tell_started), self._context, name)


@final
class _ResumingHostBinder(_HostBinder, muster.ResumingBinder):
    def __init__(
        self, bridge: Bridge, binder: muster.Binder, context: Context, resume: _Run
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
