"""What belongs to trio given to asyncio, or the other way round: every marked line is a mistake.

What type checkers say about a line must name both classes, so that a reader can tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable

import muster
import muster.asyncio


class ForTrio:
    """A binder that wants more than all allocations have."""

    async def run(self, allocation: muster.TrioAllocation, started: Callable[[], None]) -> None:
        """Do the work."""


class ForAsyncio:
    """The same in asyncio."""

    async def run(
        self, allocation: muster.asyncio.AsyncioAllocation, started: Callable[[], None]
    ) -> None:
        """Do the work."""


async def in_trio(allocation: muster.TrioAllocation) -> None:
    """Stop the work by its scope."""
    async with allocation.running() as scope:
        scope.cancel()


async def in_asyncio(allocation: muster.asyncio.AsyncioAllocation) -> None:
    """Do the work in asyncio."""
    async with allocation.running():
        pass


def open_both() -> None:
    """Give binders to the schedulers."""
    muster.asyncio.open_scheduler(binder=ForTrio())  # type: ignore[arg-type]
    muster.open_scheduler(binder=ForAsyncio())  # type: ignore[arg-type]


async def mix(here: muster.Ask, there: muster.asyncio.Ask, either: muster.Allocation) -> None:
    """Take one for the other."""
    await in_trio(await there.bound())  # type: ignore[arg-type]
    await in_asyncio(await here.bound())  # type: ignore[arg-type]
    await in_trio(either)  # type: ignore[arg-type]
    held: muster.TrioAllocation = await there.bound()  # type: ignore[assignment]
    await in_trio(held)
