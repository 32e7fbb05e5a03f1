"""Slurm for programs in asyncio; everything else is in :mod:`muster.slurm`.

Slurm is asked in trio, in a thread of its own. What a program passes in (``work``, ``done``,
``started``) is called in the program's loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from os import PathLike
from typing import Never, final

import muster.slurm
from muster._surface.allocation import Allocation
from muster._surface.context import opens_in
from muster.asyncio._bridge import Bridge, StartNotice, in_host, open_bridge
from muster.asyncio._links import Mode
from muster.asyncio._scheduler import HostScheduler, Mirror, Scheduler
from muster.slurm import JobResult
from muster.slurm._binder import JobRunner, Line
from muster.slurm._connection import GangForm

__all__ = ["Slurm", "SlurmBinder", "connect"]


@final
class Slurm(Mirror[muster.slurm.Slurm]):
    """A Slurm, like :class:`muster.slurm.Slurm`; :func:`connect` gives it."""

    __repr__ = object.__repr__

    @property
    def is_connected(self) -> bool:
        """See :attr:`muster.slurm.Slurm.is_connected`."""
        return self._inner.is_connected

    @property
    def trouble(self) -> str | None:
        """See :attr:`muster.slurm.Slurm.trouble`."""
        return self._inner.trouble

    async def follow(
        self,
        scheduler: Scheduler,
        *,
        every: float = 2.0,
        started: Callable[[], object] | None = None,
    ) -> Never:
        """Make the nodes of Slurm nodes of a scheduler; see :meth:`muster.slurm.Slurm.follow`.

        Args:
            scheduler: The scheduler.
            every: How often to look, in seconds.
            started: Called when the nodes of now are there.
        """
        status = StartNotice(in_host(self._bridge, started))
        host = HostScheduler(self._bridge, scheduler)

        async def follow() -> None:
            await self._inner.follow(host, every=every, task_status=status)

        await self._bridge.call(follow)
        raise AssertionError("nodes are followed until that is cancelled")

    def parts(self) -> tuple[Bridge, muster.slurm.Slurm]:
        """Return what a binder needs."""
        return self._bridge, self._inner


@final
class SlurmBinder:
    """A binder for :func:`muster.asyncio.open_scheduler`, like :class:`muster.slurm.SlurmBinder`.

    ``work`` and ``done`` are called in the program's loop.
    """

    def __init__(
        self,
        slurm: Slurm,
        work: Callable[[Allocation], Line],
        *,
        done: Callable[[Allocation, JobResult], None] | None = None,
        grace_period: float = 10.0,
        detached: bool = False,
        closing_grace: float | None = None,
    ) -> None:
        self._bridge, inner = slurm.parts()
        self._runs = JobRunner(
            inner, grace_period, detached=detached, closing_grace_s=closing_grace
        )
        self._work = work
        self._done = done

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Run the command of an ask; see :meth:`muster.slurm.SlurmBinder.run`."""
        command = self._command(allocation)
        notice = in_host(self._bridge, started)
        await self._run_to_end(allocation, partial(self._runs.run, allocation, command, notice))

    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Go on with the job of an ask; see :meth:`muster.slurm.SlurmBinder.resume`."""
        notice = in_host(self._bridge, started)
        await self._run_to_end(allocation, partial(self._runs.resume, allocation, notice))

    def _command(self, allocation: Allocation) -> Callable[[], Line]:
        """Return a function for the trio side that returns the command, or raises as ``work`` did."""
        try:
            command = self._work(allocation)
        except Exception as error:  # noqa: BLE001 - it is raised on the other side
            raised = error
        else:
            return lambda: command

        def fail() -> Line:
            raise raised

        return fail

    async def _run_to_end(
        self, allocation: Allocation, run: Callable[[], Awaitable[JobResult]]
    ) -> None:
        result = await self._bridge.call(run)
        if self._done is not None:
            self._done(allocation, result)


@opens_in("asyncio", "muster.asyncio.slurm.connect", elsewhere="muster.slurm.connect")
async def connect(
    *,
    partition: str | None = None,
    reservation: str | None = None,
    namespace: str = "muster",
    options: Sequence[str] = (),
    resources: Mapping[str, str] = muster.slurm.DEFAULT_RESOURCES,
    results: str | PathLike[str] | None = None,
    gangs: GangForm = "job",
    every: float = 1.0,
    adopt_within: float = 60.0,
) -> AsyncGenerator[Slurm, None]:
    """Use Slurm for the time of a block; see :func:`muster.slurm.connect`.

    Args:
        partition: As for :func:`muster.slurm.connect`.
        reservation: As for :func:`muster.slurm.connect`.
        namespace: As for :func:`muster.slurm.connect`.
        options: As for :func:`muster.slurm.connect`.
        resources: As for :func:`muster.slurm.connect`.
        results: As for :func:`muster.slurm.connect`.
        gangs: As for :func:`muster.slurm.connect`.
        every: As for :func:`muster.slurm.connect`.
        adopt_within: As for :func:`muster.slurm.connect`.

    Yields:
        The Slurm.

    Raises:
        EventError: If an argument is invalid.
        SilentError: If Slurm's controller does not answer.
        SlurmError: If the commands of Slurm are not there, or there is no such partition.
    """

    def open_block(_: Bridge) -> AbstractAsyncContextManager[muster.slurm.Slurm]:
        return muster.slurm.connect(
            partition=partition,
            reservation=reservation,
            namespace=namespace,
            options=options,
            resources=resources,
            results=results,
            gangs=gangs,
            every=every,
            adopt_within=adopt_within,
        )

    async with open_bridge(Mode.THREAD, open_block) as (bridge, inner):
        yield Slurm(bridge, inner)
