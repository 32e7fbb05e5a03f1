"""Clocks, the source of a running scheduler's time."""

from __future__ import annotations

from typing import Final, Protocol, final

import trio

MICROSECONDS: Final = 1_000_000


class Clock(Protocol):
    """The source of the time. It may start at any value: only differences count."""

    def now_us(self) -> int:
        """Return the present time in microseconds; it must not go back."""
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
