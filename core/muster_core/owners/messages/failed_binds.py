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
        last_us: The instant at which the last of them failed, in microseconds.
    """

    times: int
    last_us: int

    # BACKOFF-2, BACKOFF-3
    def until_us(self, delay_us: int) -> int:
        """Return the instant before which the ask is not tried, in microseconds.

        Args:
            delay_us: The ``bind.retry.delay`` of its leaf, in microseconds; 0 is off.
        """
        return self.last_us + (delay_us << min(self.times - 1, _MOST_DOUBLINGS))


# BACKOFF-1
def one_more(before: FailedBinds | None, now_us: int) -> FailedBinds:
    """Return the failed binds of an ask after one more has failed.

    Args:
        before: Those that had failed in a row before, or None.
        now_us: The instant, in microseconds.
    """
    return FailedBinds(1 if before is None else before.times + 1, now_us)
