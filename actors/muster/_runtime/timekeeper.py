"""The task that waits until a timer is due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, final

import trio

if TYPE_CHECKING:
    from muster._runtime.clock import Clock


@final
class Timekeeper:
    """Wakes the coordinator when its next timer is due.

    Args:
        clock: The clock.
        start_us: The time of the clock at the opening, in microseconds; instants count from it.
        ring: Tells the coordinator that a timer is due; may wait for a place at the entry.
    """

    def __init__(self, clock: Clock, start_us: int, ring: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._start_us = start_us
        self._ring = ring
        #: The instant to wait for, in microseconds since the opening, or None.
        self._target_us: int | None = None
        #: The scope of the present wait, to cancel when the target becomes earlier.
        self._sleep: trio.CancelScope | None = None
        self._set = trio.Event()

    def now_us(self) -> int:
        """Return the time since the opening, in microseconds."""
        return self._clock.now_us() - self._start_us

    def aim(self, at_us: int | None) -> None:
        """Set the instant to wait for, or None; a later instant than before costs nothing."""
        before, self._target_us = self._target_us, at_us
        if self._sleep is not None:
            if before is None or at_us is None or at_us < before:
                self._sleep.cancel()
        elif at_us is not None:
            self._set.set()

    async def run(self) -> None:
        """Ring at every instant that :meth:`aim` sets."""
        while True:
            if self._target_us is None:
                self._set = trio.Event()
                await self._set.wait()
            at_us = self._target_us
            if at_us is None:
                continue
            with trio.CancelScope() as self._sleep:
                await self._clock.wait_until_us(self._start_us + at_us)
            self._sleep = None
            if self._target_us == at_us and self.now_us() >= at_us:
                self._target_us = None  # The coordinator sets the next one afterwards.
                await self._ring()
