"""The check: replay a feed, and compare the state with every ``expect``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from muster._surface.simulation import Simulation, open_simulation
from muster.feeds import Expect, FeedItem
from muster.replay._driver import let_in
from muster.replay._expect import (
    Difference,
    Found,
    asks_of,
    compare,
    compare_reason,
    compare_refusals,
    place_of,
    unexpected,
    unknown_ask,
)
from muster.replay._reading import FeedWarning, Reading
from muster.replay._record import Record
from muster.replay._summary import Remark


@final
class Check:
    """A check of one feed, with the differences found so far.

    Attributes:
        events: How many items were read.
        expects: How many ``expect`` events were compared.
        differences: The differences, in the order in which they were found.
        warnings: The warnings about what the feed says, in the order of the feed.
    """

    def __init__(self) -> None:
        self.events = 0
        self.expects = 0
        self.differences: list[Difference] = []
        self.warnings: list[FeedWarning] = []
        self._record = Record()

    async def run(self, items: Iterable[FeedItem]) -> None:
        """Replay the feed, and compare the state with every ``expect``.

        Args:
            items: The feed; its instants never go back.

        Raises:
            FeedError: If the feed cannot be read; earlier differences are kept.
            RefusedError: If the instant of a ``settle`` or ``expect`` is before that of an
                earlier event.
            BrokenSchedulerError: If the scheduler fails, which is a bug.
        """
        reading = Reading(self.warnings.append)
        async with open_simulation(journal=self._record) as scheduler:
            for item in items:
                self.events += 1
                reading.saw(item)
                await let_in(scheduler, item)
                if isinstance(item.content, Expect):
                    await self._compare(scheduler, item, item.content)
            reading.end()
            # FEED-13
            await scheduler.finish()
        for refusal, found in unexpected(self._record.start_anew().refusals):
            self._differs(refusal, found)

    async def _compare(self, scheduler: Simulation, item: FeedItem, expect: Expect) -> None:
        self.expects += 1
        snapshot = await scheduler.snapshot()
        # EXPECT-12
        record = self._record.start_anew()
        for refusal, found in compare_refusals(expect, record.refusals):
            self._differs(refusal or item, found)
        for found in compare(expect, snapshot, record):
            self._differs(item, found)
        asks = asks_of(snapshot) if expect.reasons else {}
        for name, part in (expect.reasons or {}).items():
            app, _, ask = name.partition("/")
            why = await scheduler.why_pending(app, ask)
            seen = asks.get(name)
            place = unknown_ask(name, asks) if seen is None else place_of(seen)
            for found in compare_reason(name, part, why, place):
                self._differs(item, found)

    def _differs(self, place: FeedItem | Remark, found: Found) -> None:
        difference = Difference(place.index, place.line, found.field, found.expected, found.found)
        self.differences.append(difference)
