"""The handles of applications, asks, allocations and gangs in asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, final

from typing_extensions import override

import muster
from muster.asyncio._block import hold
from muster.asyncio._mirror import Mirror, called, each, given
from muster_core.events import Exit, Outcome

if TYPE_CHECKING:
    from muster.asyncio._bridge import Bridge
    from muster_core.decisions import Reason


@final
class AsyncioAllocation(Mirror[muster.TrioAllocation], muster.Allocation):
    """An allocation in asyncio: the same as any, but :meth:`running` yields nothing."""

    def __init__(self, bridge: Bridge, inner: muster.TrioAllocation) -> None:
        super().__init__(bridge, inner)
        muster.Allocation.__init__(
            self,
            app=inner.app,
            ask=inner.ask,
            node=inner.node,
            queue=inner.queue,
            resources=inner.resources,
            gang=inner.gang,
            number=inner.number,
            peers=inner.peers,
            step=inner.step,
            work=inner.work,
            kept=inner.kept,
            devices=inner.devices,
        )

    @property
    @override
    def ending(self) -> Reason | Literal["closing"] | None:
        return self._inner.ending

    @override
    async def release(
        self,
        outcome: Outcome | str = Outcome.COMPLETED,
        message: str | None = None,
        exited: Exit | None = None,
    ) -> bool:
        """Release the allocation: its work has ended; see :meth:`muster.Allocation.release`."""
        return await self._bridge.call(partial(self._inner.release, outcome, message, exited))

    @override
    async def ended(self) -> Reason:
        """Wait until the allocation has ended; see :meth:`muster.Allocation.ended`."""
        return await self._bridge.call(self._inner.ended)

    @override
    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Run the body of an ``async with`` block while the allocation lasts.

        If the allocation ends from outside, the body is cancelled, as by :func:`asyncio.timeout`.

        Raises:
            AllocationLostError: See :meth:`muster.Allocation.running`.
            AllocationEndedError: See :meth:`muster.Allocation.running`.
            ClosedSchedulerError: See :meth:`muster.Allocation.running`.
        """
        async with hold(self._bridge, self._inner.running):
            yield


@final
class Ask(Mirror[muster.Ask]):
    """The handle of an ask, like :class:`muster.Ask`.

    Attributes:
        app: The name of the application.
        name: The name of the ask.
    """

    def __init__(self, bridge: Bridge, inner: muster.Ask) -> None:
        super().__init__(bridge, inner)
        self.app: str = inner.app
        self.name: str = inner.name

    bound = called(muster.Ask.bound, AsyncioAllocation)
    remove = called(muster.Ask.remove)
    why = called(muster.Ask.why)


@final
class Application(Mirror[muster.Application]):
    """The handle of an application, like :class:`muster.Application`.

    Attributes:
        name: The name of the application.
    """

    def __init__(self, bridge: Bridge, inner: muster.Application) -> None:
        super().__init__(bridge, inner)
        self.name: str = inner.name

    add_ask = called(muster.Application.add_ask, Ask)
    add_asks = called(muster.Application.add_asks, each(Ask))
    ask = given(muster.Application.ask, Ask)
    remove = called(muster.Application.remove)


@final
class Gang(Mirror[muster.Gang]):
    """The handle of a gang, like :class:`muster.Gang`.

    Attributes:
        name: The name that the handle was created with.
    """

    def __init__(self, bridge: Bridge, inner: muster.Gang) -> None:
        super().__init__(bridge, inner)
        self.name: str = inner.name

    satisfied = called(muster.Gang.satisfied)
    remove = called(muster.Gang.remove)
