"""Handles: an application, an ask, an allocation, a gang, as an asyncio program holds them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, final

from typing_extensions import override

import muster
from muster.asyncio._running import hold

if TYPE_CHECKING:
    from muster._surface.conversion import Amounts
    from muster.asyncio._bridge import Bridge
    from muster_core.decisions import Reason
    from muster_core.reasons import Explanation
    from muster_core.resources import Resources


@final
class Application:
    """An application; as :class:`muster.Application`.

    Attributes:
        name: Its name.
    """

    def __init__(self, bridge: Bridge, inner: muster.Application) -> None:
        self._bridge = bridge
        self._inner = inner
        self.name: str = inner.name

    async def add_ask(
        self,
        ask: str,
        resources: Amounts,
        *,
        priority: int | None = None,
        priority_class: str | None = None,
        gang: str | None = None,
        annotations: Mapping[str, str] | None = None,
        node: str | None = None,
        selector: Mapping[str, str] | None = None,
        run_for: float | str | None = None,
    ) -> Ask:
        """Ask for resources; see :meth:`muster.Scheduler.add_ask`."""
        made = await self._bridge.call(
            partial(
                self._inner.add_ask,
                ask,
                resources,
                priority=priority,
                priority_class=priority_class,
                gang=gang,
                annotations=annotations,
                node=node,
                selector=selector,
                run_for=run_for,
            )
        )
        return Ask(self._bridge, made)

    async def add_asks(
        self,
        ask: str,
        resources: Amounts,
        count: int,
        *,
        priority: int | None = None,
        priority_class: str | None = None,
        gang: str | None = None,
        annotations: Mapping[str, str] | None = None,
        node: str | None = None,
        selector: Mapping[str, str] | None = None,
        run_for: float | str | None = None,
    ) -> tuple[Ask, ...]:
        """Ask for the same several times; see :meth:`muster.Scheduler.add_asks`."""
        made = await self._bridge.call(
            partial(
                self._inner.add_asks,
                ask,
                resources,
                count,
                priority=priority,
                priority_class=priority_class,
                gang=gang,
                annotations=annotations,
                node=node,
                selector=selector,
                run_for=run_for,
            )
        )
        return tuple(Ask(self._bridge, one) for one in made)

    def ask(self, name: str) -> Ask:
        """Give the handle of one of its asks; see :meth:`muster.Application.ask`."""
        return Ask(self._bridge, self._inner.ask(name))

    async def remove(self) -> None:
        """Remove it, with everything that it asked for and holds; see :meth:`muster.Application.remove`."""
        await self._bridge.call(self._inner.remove)

    @override
    def __repr__(self) -> str:
        return repr(self._inner)


@final
class Ask:
    """An ask; as :class:`muster.Ask`.

    Attributes:
        app: The name of its application.
        name: Its name.
    """

    def __init__(self, bridge: Bridge, inner: muster.Ask) -> None:
        self._bridge = bridge
        self._inner = inner
        self.app: str = inner.app
        self.name: str = inner.name

    async def bound(self) -> Allocation:
        """Wait until it is bound; with a binder, until its work has started as well; see :meth:`muster.Ask.bound`."""
        made = await self._bridge.call(self._inner.bound)
        return Allocation(self._bridge, made)

    async def remove(self) -> None:
        """Withdraw it; it must not be bound; see :meth:`muster.Ask.remove`."""
        await self._bridge.call(self._inner.remove)

    async def why(self) -> Explanation | None:
        """Say why it is not running; see :meth:`muster.Ask.why`."""
        return await self._bridge.call(self._inner.why)

    @override
    def __repr__(self) -> str:
        return repr(self._inner)


@final
class Allocation:
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
        self._bridge = bridge
        self._inner = inner
        self.app: str = inner.app
        self.ask: str = inner.ask
        self.node: str = inner.node
        self.queue: str = inner.queue
        self.resources: Resources = inner.resources
        self.gang: str | None = inner.gang

    async def release(self) -> bool:
        """Give back what is held: the work has finished, and the ask is gone; see :meth:`muster.Allocation.release`."""
        return await self._bridge.call(self._inner.release)

    async def ended(self) -> Reason:
        """Wait until the allocation is over; see :meth:`muster.Allocation.ended`."""
        return await self._bridge.call(self._inner.ended)

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

    @override
    def __repr__(self) -> str:
        return repr(self._inner)


@final
class Gang:
    """A gang; as :class:`muster.Gang`.

    Attributes:
        name: Its name as it was given.
    """

    def __init__(self, bridge: Bridge, inner: muster.Gang) -> None:
        self._bridge = bridge
        self._inner = inner
        self.name: str = inner.name

    async def satisfied(self) -> None:
        """Wait until it is satisfied: all that it needs at the least is bound; see :meth:`muster.Gang.satisfied`."""
        await self._bridge.call(self._inner.satisfied)

    async def remove(self) -> None:
        """Let it be defined no longer; its members stay; see :meth:`muster.Gang.remove`."""
        await self._bridge.call(self._inner.remove)

    @override
    def __repr__(self) -> str:
        return repr(self._inner)
