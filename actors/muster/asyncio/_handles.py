"""Handles: an application, an ask, an allocation, a gang, as an asyncio program holds them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import muster
from muster.asyncio._block import hold
from muster.asyncio._mirror import Mirror, called, each, given

if TYPE_CHECKING:
    from muster.asyncio._bridge import Bridge
    from muster_core.resources import Resources


@final
class Allocation(Mirror[muster.Allocation]):
    """What an ask holds of a node; as :class:`muster.Allocation`.

    Attributes:
        app: The name of the application.
        ask: The name of the ask.
        node: The name of the node.
        queue: The path of the queue of the application.
        resources: What is held, in base units.
        gang: The full name of the gang of the ask, or None.
    """

    def __init__(self, bridge: Bridge, inner: muster.Allocation) -> None:
        super().__init__(bridge, inner)
        self.app: str = inner.app
        self.ask: str = inner.ask
        self.node: str = inner.node
        self.queue: str = inner.queue
        self.resources: Resources = inner.resources
        self.gang: str | None = inner.gang

    release = called(muster.Allocation.release)
    ended = called(muster.Allocation.ended)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Do the work in the body, as long as the allocation lasts.

        The body is cancelled, in the way of :func:`asyncio.timeout`, when the allocation ends
        from outside. When the body ends, or is cancelled otherwise, the allocation is released.

        Raises:
            AllocationLostError: See :meth:`muster.Allocation.running`.
            AllocationEndedError: See there.
            ClosedSchedulerError: See there.
        """
        async with hold(self._bridge, self._inner.running):
            yield


@final
class Ask(Mirror[muster.Ask]):
    """An ask; as :class:`muster.Ask`.

    Attributes:
        app: The name of its application.
        name: Its name.
    """

    def __init__(self, bridge: Bridge, inner: muster.Ask) -> None:
        super().__init__(bridge, inner)
        self.app: str = inner.app
        self.name: str = inner.name

    bound = called(muster.Ask.bound, Allocation)
    remove = called(muster.Ask.remove)
    why = called(muster.Ask.why)


@final
class Application(Mirror[muster.Application]):
    """An application; as :class:`muster.Application`.

    Attributes:
        name: Its name.
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
    """A gang; as :class:`muster.Gang`.

    Attributes:
        name: Its name as it was given.
    """

    def __init__(self, bridge: Bridge, inner: muster.Gang) -> None:
        super().__init__(bridge, inner)
        self.name: str = inner.name

    satisfied = called(muster.Gang.satisfied)
    remove = called(muster.Gang.remove)
