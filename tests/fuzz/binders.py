"""Binders for the fuzzing command: a good one, and one whose fault must be found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import trio

import muster


class Good:
    """Starts at once, and works for a second."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        assert allocation.node
        started()
        await trio.sleep(1)


class Deaf:
    """Does not let itself be cancelled, and never ends."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        assert allocation.node
        started()
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()


class Stubborn:
    """Cannot be cancelled."""

    async def run(self, _: muster.Allocation, started: Callable[[], None]) -> None:
        started()
        while True:
            with suppress(trio.Cancelled):
                await trio.sleep(5)
