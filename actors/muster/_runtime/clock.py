"""Clocks, the source of a running scheduler's time."""

from __future__ import annotations

import time
from typing import Final, Protocol, final

import trio

MICROSECONDS: Final = 1_000_000

_LOOK_AGAIN_S: Final = 5.0
"""How often a wait looks at the clock of the machine, in seconds: it may have been set."""


class Clock(Protocol):
    """The source of the time.

    It may start at any value: only differences count. With a store it tells microseconds since
    1970 in UTC, since the next process has to go on from there.
    """

    def now_us(self) -> int:
        """Return the present time in microseconds; the scheduler's time never goes back with it."""
        ...

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until ``at_us``, in microseconds; return at once if it is in the past.

        The scheduler may cancel this and then wait for another instant.
        """
        ...


@final
class TrioClock:
    """The clock of the trio program in which the scheduler runs.

    With :class:`trio.testing.MockClock`, a test controls the time.
    """

    def now_us(self) -> int:
        """Return the present time in microseconds."""
        return round(trio.current_time() * MICROSECONDS)

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until ``at_us``, in microseconds."""
        # Compared as `now_us` rounds, so that it never sleeps until a time that is reached.
        while self.now_us() < at_us:  # noqa: ASYNC110 - a clock has no event to wait for
            await trio.sleep_until(at_us / MICROSECONDS)


@final
class WallClock:
    """The clock of the machine, which people may set."""

    @staticmethod
    def now_us() -> int:
        """Return the microseconds since 1970 in UTC."""
        return time.time_ns() // 1_000

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until ``at_us``, in microseconds since 1970 in UTC; also if the clock is set."""
        while (left_us := at_us - self.now_us()) > 0:  # noqa: ASYNC110 - nobody tells if it is set
            await trio.sleep(min(left_us / MICROSECONDS, _LOOK_AGAIN_S))
