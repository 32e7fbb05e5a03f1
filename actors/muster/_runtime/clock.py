"""Where a scheduler's time comes from."""

from __future__ import annotations

from typing import Final, Protocol, final

import trio

MICROSECONDS: Final = 1_000_000


class Clock(Protocol):
    """What says how late it is. Where it starts does not matter: only differences count."""

    def now_us(self) -> int:
        """Give the present time in microseconds; it never goes back."""
        ...

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until it is ``at_us``, in microseconds; at once if that is over.

        It may be cancelled, and asked for another instant then.
        """
        ...


@final
class TrioClock:
    """The clock of the trio program that the scheduler runs in.

    In a test with :class:`trio.testing.MockClock` time moves when the test says so.
    """

    def now_us(self) -> int:
        """Give the present time in microseconds."""
        return round(trio.current_time() * MICROSECONDS)

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until it is ``at_us``."""
        # Rounded as `now_us` rounds, so that it never sleeps until a time that is there already.
        while self.now_us() < at_us:  # noqa: ASYNC110 - a clock has no event to wait for
            await trio.sleep_until(at_us / MICROSECONDS)
