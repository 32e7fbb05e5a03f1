"""Binders and helpers that use neither trio nor asyncio, and fit schedulers of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, assert_type, final

import muster
import muster.asyncio


@final
class Remote:
    """A binder whose work runs somewhere else."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Start the work, and wait until it has ended."""
        assert_type((allocation.peers, allocation.step), tuple[int, int])
        if await self.status_of(allocation) is not None:
            raise muster.NotStartedError("something of this name runs already")
        started()
        async with allocation.running():
            await self.status_of(allocation)
        if allocation.ending is None:
            raise muster.WorkFailedError("exit status 3")
        assert_type(allocation.ending, muster.Reason | Literal["closing"])

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Find the work again."""
        if await self.status_of(allocation) is None:
            msg = f"{allocation.ask} is not there"
            raise LookupError(msg)
        started()

    async def status_of(self, allocation: muster.Allocation) -> int | None:
        """Ask for the state of the work."""
        assert_type((allocation.app, allocation.ask, allocation.node), tuple[str, str, str])
        assert_type(await allocation.release(outcome="failed", message="lost"), bool)
        assert_type(await allocation.ended(), muster.Reason)
        return None


@final
class Lines:
    """A journal that waits for something else."""

    async def write(self, batch: object) -> None:
        """Keep the decisions of a batch."""


def open_both() -> None:
    """Give the same binder and the same journal to both."""
    binder: muster.Binder = Remote()
    same: muster.asyncio.Binder = binder
    resuming: muster.ResumingBinder = Remote()
    again: muster.asyncio.ResumingBinder = resuming
    journal: muster.Journal = Lines()
    for one in (binder, same, resuming, again):
        muster.open_scheduler(binder=one, journal=journal)
        muster.asyncio.open_scheduler(binder=one, journal=journal)


async def hold(here: muster.Ask, there: muster.asyncio.Ask) -> None:
    """Take the allocations of both as what they have in common."""
    held: list[muster.Allocation] = [await here.bound(), await there.bound()]
    again: list[muster.asyncio.Allocation] = held
    for one in again:
        await Remote().status_of(one)
