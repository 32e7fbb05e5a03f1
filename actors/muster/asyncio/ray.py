"""A cluster of Ray for programs in asyncio; everything else is in :mod:`muster.ray`.

The connection runs in trio, in a thread of its own. What a program passes in (``work``, ``done``,
``started``) is called in the program's loop.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import partial
from typing import Never, TypeVar, final

import muster.ray
from muster._surface.allocation import Allocation
from muster._surface.context import opens_in
from muster.asyncio._bridge import Bridge, StartNotice, in_host, open_bridge, run_in_host
from muster.asyncio._links import Mode
from muster.asyncio._scheduler import HostScheduler, Mirror, Scheduler, bridged
from muster.ray import Result
from muster.ray._cluster import EVERY_NODE, Reserve, terms_of
from muster.ray._runs import RunOutcome
from muster.ray._work import Work
from muster_core.events import Exit, Outcome as OutcomeOfWork

__all__ = ["Cluster", "RayBinder", "connect"]

T = TypeVar("T")


@final
class Cluster(Mirror[muster.ray.Cluster]):
    """A cluster of Ray, like :class:`muster.ray.Cluster`; :func:`connect` creates it."""

    __repr__ = object.__repr__

    survivors = bridged(muster.ray.Cluster.survivors)
    end = bridged(muster.ray.Cluster.end)

    @property
    def is_connected(self) -> bool:
        """See :attr:`muster.ray.Cluster.is_connected`."""
        return self._inner.is_connected

    @property
    def restarts(self) -> int:
        """See :attr:`muster.ray.Cluster.restarts`."""
        return self._inner.restarts

    @property
    def trouble(self) -> str | None:
        """See :attr:`muster.ray.Cluster.trouble`."""
        return self._inner.trouble

    async def follow(
        self,
        scheduler: Scheduler,
        *,
        every: float = 0.5,
        started: Callable[[], object] | None = None,
    ) -> Never:
        """Make the nodes of Ray nodes of a scheduler; see :meth:`muster.ray.Cluster.follow`.

        Args:
            scheduler: The scheduler.
            every: How often to look at the nodes, in seconds.
            started: Called when the first nodes are there.
        """
        status = StartNotice(in_host(self._bridge, started))
        host = HostScheduler(self._bridge, scheduler)

        async def follow() -> None:
            await self._inner.follow(host, every=every, task_status=status)

        await self._bridge.call(follow)
        raise AssertionError("a cluster is followed until that is cancelled")

    async def run(
        self, allocation: Allocation, work: Work, *, started: Callable[[], object] | None = None
    ) -> Result:
        """Run something on the node of an allocation; see :meth:`muster.ray.Cluster.run`."""
        notice = in_host(self._bridge, started)
        run = partial(self._inner.run, allocation, work, started=notice)
        return await self._bridge.call(run)

    def parts(self) -> tuple[Bridge, muster.ray.Cluster]:
        """Return what a binder needs."""
        return self._bridge, self._inner


@final
class RayBinder:
    """A binder for :func:`muster.asyncio.open_scheduler`, like :class:`muster.ray.RayBinder`.

    ``work`` and ``done`` are called in the program's loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        work: Callable[[Allocation], Work],
        *,
        done: Callable[[Allocation, Result], None] | None = None,
        grace_period: float = 10.0,
        reserve: Reserve = "none",
        detached: bool = False,
        adopt_within: float = 60.0,
        closing_grace: float | None = None,
    ) -> None:
        self._terms = terms_of(
            grace_period, reserve, adopt_within, closing_grace, detached=detached
        )
        self._bridge, inner = cluster.parts()
        self._runs = inner.runs
        self._work = work
        self._done = done
        self._context = copy_context()
        if detached:
            later = self._runs.end_forgotten_later
            self._bridge.post(partial(later, adopt_within, self._terms.sent_grace_s))

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Run the work of an ask; see :meth:`muster.ray.RayBinder.run`."""
        try:
            work = self._work(allocation)
        except Exception as error:
            await self._bridge.call(partial(self._runs.miss, allocation, self._terms, error))
            raise
        notice = in_host(self._bridge, started)
        await self._run_to_end(
            allocation, partial(self._runs.run, allocation, work, self._terms, notice)
        )

    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Go on with the work of an ask; see :meth:`muster.ray.RayBinder.resume`."""
        notice = in_host(self._bridge, started)
        await self._run_to_end(
            allocation, partial(self._runs.resume, allocation, self._terms, notice)
        )

    async def _run_to_end(
        self, allocation: Allocation, run: Callable[[], Awaitable[RunOutcome]]
    ) -> None:
        name = f"{allocation.app}/{allocation.ask}"

        async def call_done(result: Result) -> None:
            if self._done is not None:
                self._done(allocation, result)

        async def done(result: Result) -> None:
            await run_in_host(self._bridge, partial(call_done, result), self._context, name)

        async def release(outcome: OutcomeOfWork, message: str | None, exited: Exit | None) -> None:
            async def call_release() -> None:
                await allocation.release(outcome, message, exited)

            await run_in_host(self._bridge, call_release, self._context, name)

        async def there() -> None:
            kept = release if allocation.kept else None
            detached = self._terms.is_detached
            await self._runs.conclude(await run(), done, kept, is_detached=detached)

        await self._bridge.call(there)


@opens_in("asyncio", "muster.asyncio.ray.connect", elsewhere="muster.ray.connect")
async def connect(
    address: str = "auto",
    *,
    namespace: str = "muster",
    python: str = sys.executable,
    node_name: str | None = None,
    select: Mapping[str, str] = EVERY_NODE,
    resources: Mapping[str, str] = muster.ray.DEFAULT_RESOURCES,
    warm: int = 0,
    log_to_driver: bool = True,
) -> AsyncGenerator[Cluster, None]:
    """Be connected to a cluster of Ray for the time of a block; see :func:`muster.ray.connect`.

    Args:
        address: As for :func:`muster.ray.connect`.
        namespace: As for :func:`muster.ray.connect`.
        python: As for :func:`muster.ray.connect`.
        node_name: As for :func:`muster.ray.connect`.
        select: As for :func:`muster.ray.connect`.
        resources: As for :func:`muster.ray.connect`.
        warm: As for :func:`muster.ray.connect`.
        log_to_driver: As for :func:`muster.ray.connect`.

    Yields:
        The cluster.

    Raises:
        EventError: If an argument is invalid.
        ImportError: If ``python`` has no Ray.
        RayUnreachableError: If there is no Ray at the address, or the agent cannot be started.
    """

    def open_block(_: Bridge) -> AbstractAsyncContextManager[muster.ray.Cluster]:
        return muster.ray.connect(
            address,
            namespace=namespace,
            python=python,
            node_name=node_name,
            select=select,
            resources=resources,
            warm=warm,
            log_to_driver=log_to_driver,
        )

    async with open_bridge(Mode.THREAD, open_block) as (bridge, inner):
        yield Cluster(bridge, inner)
