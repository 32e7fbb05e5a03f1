"""Binders that are asyncio programs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Protocol, final

from typing_extensions import override

import muster
from muster._errors import ClosedSchedulerError
from muster.asyncio._handles import Allocation
from muster.asyncio._jobs import run_in_host

if TYPE_CHECKING:
    from muster.asyncio._bridge import Bridge


class Binder(Protocol):
    """What does the work of asks that are bound; as :class:`muster.Binder`, in asyncio."""

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Do the work of one allocation. It runs in a task of its own.

        That is one of the host's loop, and sees the context variables of whoever opened the
        scheduler. It is cancelled when the allocation ends otherwise, and its end is waited
        for; see :meth:`muster.Binder.run` for the rest.

        Args:
            allocation: What is bound, and where.
            started: To be called, in the host's loop, when the work has started.
        """
        ...


@final
class HostBinder(muster.Binder):
    """Has the work done in the host's loop.

    Args:
        bridge: The way there.
        binder: Does the work.
        context: What its tasks see of context variables.
    """

    def __init__(self, bridge: Bridge, binder: Binder, context: Context) -> None:
        self._bridge = bridge
        self._binder = binder
        self._context = context

    @override
    async def run(self, allocation: muster.Allocation, started: Callable[[], None], /) -> None:
        def tell_started() -> None:
            with suppress(ClosedSchedulerError):
                self._bridge.post(started)

        handle = Allocation(self._bridge, allocation)
        work = partial(self._binder.run, handle, tell_started)
        name = f"muster binder {allocation.app}/{allocation.ask}"
        await run_in_host(self._bridge, work, self._context, name)
