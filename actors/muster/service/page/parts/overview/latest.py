"""The latest decisions, and why asks are not running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.words import REASONS
from muster.service.metrics.census import ReasonCount, ReasonCounts, Waiting, reasons_of
from muster.service.page.rendering import shown
from muster.service.streaming.history import Gone
from muster_core.reasons import Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from muster.service.ledger.series import Sample
    from muster.service.page.viewed import Viewed
    from muster.service.reading.looking import Looking
    from muster_core.decisions import Announced
    from muster_core.structures.steps import Steps

OLD_US: Final = 5_000_000
"""From which age on reasons are counted anew while they are shown, in microseconds."""

PATIENCE_S: Final = 2.0
"""How long a page waits for a new count before it asks again, in seconds."""

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
        agrees: Whether they are as many as the asks that are not running now.
    """

    counts: Sequence[tuple[Code, int]]
    longest: Waiting | None
    age_us: int
    agrees: bool

    @property
    def total(self) -> int:
        """How many asks were counted."""
        return sum(count for _, count in self.counts)

    @property
    def is_old(self) -> bool:
        """Whether they are to be counted anew."""
        return not self.agrees or self.age_us > OLD_US

    @property
    def most(self) -> int:
        """The highest count."""
        return max((count for _, count in self.counts), default=0)

    @classmethod
    def of(cls, found: ReasonCount, age_us: int, now: Sample) -> Reasons:
        """Return what was counted for readers.

        Args:
            found: What was counted.
            age_us: How long ago, in microseconds.
            now: What there is now.
        """
        counts = [(code, count) for code, count in found.counts.items() if count]
        order = list(Code)
        counts.sort(key=lambda one: (-one[1], order.index(one[0])))
        agrees = sum(found.counts.values()) == now.pending + now.waiting
        return cls(counts, found.longest, age_us, agrees)


# PAGE-14
async def reasons(viewed: Viewed, now: Sample) -> Reasons | None:
    """Return why asks are not running; None if there was no time to count yet.

    Args:
        viewed: The request.
        now: What there is at its moment.
    """
    if viewed.moment.is_past:
        found = await viewed.moment.seen(lambda looking: reasons_of(looking.machine))
        return Reasons.of(found.value, 0, now)
    return _for_readers(await viewed.service.metrics.reasons(), now)


def _for_readers(latest: ReasonCounts | None, now: Sample) -> Reasons | None:
    return None if latest is None else Reasons.of(latest.found, latest.age_us(), now)


# PAGE-87
async def counted_anew(viewed: Viewed) -> Response:
    """Show why asks are not running, once that was counted anew or a while has passed."""
    at_us = viewed.moment.now_us()
    latest = await viewed.service.metrics.reasons(PATIENCE_S)

    def read(looking: Looking) -> Steps[Sample]:
        yield
        return looking.ledger.samples(at_us, at_us, hourly=False)[-1]

    now = (await viewed.moment.seen(read)).value
    return shown(
        viewed,
        "reasons_counted.html",
        now=now,
        reasons=_for_readers(latest, now),
        words=REASONS,
        now_us=viewed.moment.now_us(),
    )
