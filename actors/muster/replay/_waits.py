"""How long asks waited: one number for each ask, summarised on request."""

from __future__ import annotations

from array import array
from typing import Final, final

import attrs

from muster_core.decisions import MICROSECONDS


@final
@attrs.frozen
class WaitSummary:
    """How long asks waited until they were bound for the first time, in seconds.

    An ask that ended without having been bound counts with its wait until then.

    Attributes:
        count: How many asks these are; if 0, the other attributes are None.
        mean_s: The arithmetic mean.
        median_s: The median: the middle wait, or the mean of the two in the middle.
        p95_s: The shortest wait that at least 95 % of the waits do not exceed.
        longest_s: The longest wait.
    """

    count: int
    mean_s: float | None = None
    median_s: float | None = None
    p95_s: float | None = None
    longest_s: float | None = None


LONGEST_US: Final = 2**63 - 1
"""The longest wait that can be recorded, about 292,000 years, in microseconds."""


@final
class Waits:
    """Waits in microseconds, eight bytes each: a million of them take 8 MB."""

    def __init__(self) -> None:
        self._waits_us = array("q")

    def add(self, wait_us: int) -> None:
        """Add a wait, in microseconds."""
        self._waits_us.append(min(wait_us, LONGEST_US))

    def extend(self, waits: Waits) -> None:
        """Add all waits of another object."""
        self._waits_us.extend(waits._waits_us)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._waits_us)

    def summary(self) -> WaitSummary:
        """Return the figures of all waits."""
        count = len(self._waits_us)
        if not count:
            return WaitSummary(0)
        ordered = sorted(self._waits_us)
        middle = ordered[(count - 1) // 2] + ordered[count // 2]
        return WaitSummary(
            count=count,
            mean_s=sum(ordered) / count / MICROSECONDS,
            median_s=middle / 2 / MICROSECONDS,
            p95_s=ordered[-(-95 * count // 100) - 1] / MICROSECONDS,
            longest_s=ordered[-1] / MICROSECONDS,
        )
