"""The binds of an ask that have failed in a row, and how long it backs off after the last of them."""

from __future__ import annotations

from typing import Final, final

from muster_core.values.records import record

_MOST_DOUBLINGS: Final = 6
"""How often the delay is doubled at most."""


@final
@record
class FailedBinds:
    """The binds of an ask that have failed in a row.

    Attributes:
        times: How many have failed since the ask came, or was last released from being bound for
            another reason; at least 1.
        until_us: The instant before which the ask is not tried, in microseconds. It may be over,
            and is 0 if ``bind.retry.delay`` was off when the last bind failed.
    """

    times: int
    until_us: int

    # BACKOFF-6
    def holds_back(self, now_us: int) -> bool:
        """Return whether the ask is not tried at an instant, in microseconds."""
        return self.until_us > now_us


# BACKOFF-1, BACKOFF-2, BACKOFF-3
def one_more(before: FailedBinds | None, delay_us: int, now_us: int) -> FailedBinds:
    """Return the failed binds of an ask after one more has failed.

    Args:
        before: Those that had failed in a row before, or None.
        delay_us: The ``bind.retry.delay`` of its leaf, in microseconds; 0 is off.
        now_us: The instant, in microseconds.
    """
    times = 1 if before is None else before.times + 1
    if not delay_us:
        return FailedBinds(times, 0)
    return FailedBinds(times, now_us + (delay_us << min(times - 1, _MOST_DOUBLINGS)))
