"""Binders that run in asyncio."""

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
    """An object of a program that does the work of bound asks, like :class:`muster.Binder`."""

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Do the work of one allocation, in a task of its own.

        It is a task of the program's loop, with the context variables of the task that opened
        the scheduler. It is cancelled if the allocation ends in another way, and the scheduler
        waits for its end. See :meth:`muster.Binder.run` for the rest.

        Args:
            allocation: The allocation.
            started: To call in the program's loop when the work has started.
        """
        ...


@final
class HostBinder(muster.Binder):
    """A trio binder that runs an asyncio binder in the host's loop.

    Args:
        bridge: The bridge to the host.
        binder: The asyncio binder.
        context: The context variables of its tasks.
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
