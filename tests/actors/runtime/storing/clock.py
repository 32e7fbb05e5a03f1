"""A wall clock that a test sets."""

from __future__ import annotations

from typing import Final, final

import trio

START: Final = 1_700_000_000_000_000
"""When tests begin, in microseconds since 1970."""


@final
class SetClock:
    """A clock that stands still until a test sets it, also back.

    Attributes:
        us: Microseconds since 1970 in UTC.
    """

    def __init__(self, us: int = START) -> None:
        self.us = us
        self._changed = trio.Event()

    def now_us(self) -> int:
        return self.us

    async def wait_until_us(self, at_us: int) -> None:
        while self.us < at_us:
            await self._changed.wait()

    def move(self, seconds: float) -> None:
        """Set the clock ahead, or back."""
        self.us += round(seconds * 1e6)
        self._changed.set()
        self._changed = trio.Event()
