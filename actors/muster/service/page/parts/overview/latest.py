"""The latest decisions, and why asks are not running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.metrics.census import ReasonCount, Waiting, reasons_of
from muster.service.streaming.history import Gone
from muster_core.reasons import Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.service.page.viewed import Viewed
    from muster_core.decisions import Announced

MOST_DECISIONS: Final = 20
"""How many decisions are shown."""


# PAGE-15
async def latest_decisions(viewed: Viewed, last: int) -> Sequence[Mapping[str, object]]:
    """Return the latest decisions, the latest first.

    Args:
        viewed: The request.
        last: The number of the last decision at its moment.
    """
    broadcast = viewed.service.broadcast
    after = max(last - MOST_DECISIONS, 0)
    try:
        found = await _between(viewed, after, last)
    except Gone as gone:
        if gone.first > last:
            return ()
        found = await _between(viewed, gone.first - 1, min(last, broadcast.tail.last))
    return [one.as_map() for one in reversed(found)]


async def _between(viewed: Viewed, after: int, last: int) -> list[Announced]:
    """Return the decisions after a number, up to another.

    Raises:
        Gone: If some of them are not kept any more.
    """
    found: list[Announced] = []
    with viewed.service.broadcast.cursor(after, lags=False) as cursor:
        while cursor.position < last:
            block = await cursor.next()
            if block is None:
                break
            found += [one for one in block.announced if cursor.position < one.seq <= last]
            cursor.position = block.last
    return found


@final
@attrs.frozen
class Reasons:
    """Why asks are not running.

    Attributes:
        counts: How many asks are not running for which dominant reason, the most frequent first.
        longest: The ask that has been pending for the longest time, or None.
        age_us: How old this is, in microseconds.
    """

    counts: Sequence[tuple[Code, int]]
    longest: Waiting | None
    age_us: int

    @property
    def most(self) -> int:
        """The highest count."""
        return max((count for _, count in self.counts), default=0)

    @classmethod
    def of(cls, found: ReasonCount, age_us: int) -> Reasons:
        """Return what was counted for readers."""
        counts = [(code, count) for code, count in found.counts.items() if count]
        order = list(Code)
        counts.sort(key=lambda one: (-one[1], order.index(one[0])))
        return cls(counts, found.longest, age_us)


# PAGE-14
async def reasons(viewed: Viewed) -> Reasons | None:
    """Return why asks are not running; None if there was no time to count yet."""
    if viewed.moment.is_past:
        found = await viewed.moment.seen(lambda looking: reasons_of(looking.machine))
        return Reasons.of(found.value, 0)
    latest = await viewed.service.metrics.reasons()
    if latest is None:
        return None
    return Reasons.of(latest.found, latest.age_us())
