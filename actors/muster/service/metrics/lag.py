"""The lag of the loop: how much later than it should a task runs that has slept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from muster._runtime.meter import Timings

EVERY_S: Final = 0.25
"""How often it is measured, in seconds."""


async def measure_lag(timings: Timings) -> None:
    """Measure the lag of the loop again and again."""
    while True:
        due = trio.current_time() + EVERY_S
        await trio.sleep_until(due)
        timings.note(max(0.0, trio.current_time() - due))
