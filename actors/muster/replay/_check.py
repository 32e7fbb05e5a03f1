"""The check: replay a feed, and compare the state with every ``expect``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, final

from muster._surface.simulation import Simulation, open_simulation
from muster.feeds import Expect, FeedItem, KeptFeed, run_again
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
from muster.replay._reading.reading import Reading
from muster.replay._reading.warning import FeedWarning
from muster.replay._record import Record
from muster.replay._summary import Remark
from muster_core.coordinator.plain import PlainScheduler

if TYPE_CHECKING:
    from muster.store import KeptBatch


@final
class Check:
    """A check of one feed, with the differences found so far.

    Attributes:
        events: How many items were read.
        expects: How many ``expect`` events were compared.
        batches: How many batches of a state directory were compared.
        differences: The differences, in the order in which they were found.
        warnings: The warnings about what the feed says, in the order of the feed.
    """

    def __init__(self) -> None:
        self.events = 0
        self.expects = 0
        self.batches = 0
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

    # COMMAND-12
    def run_again(self, feed: KeptFeed, told: Callable[[KeptBatch], None] = lambda _: None) -> None:
        """Let in again what a state directory holds, and compare the decisions with those in it.

        After the first difference there is nothing more to compare: the rest follows from it.

        Args:
            feed: The state directory.
            told: Called with each batch before it is compared.

        Raises:
            FeedError: If the directory cannot be read.
        """
        scheduler = PlainScheduler(facts=feed.facts)
        first = index = scheduler.machine.requests
        for batch in feed.batches():
            told(batch)
            index = run_again(scheduler, batch, index)
            self.batches += 1
            self.events = index - first
            difference = batch.first_difference(scheduler.announced)
            scheduler.announced = []
            if difference is not None:
                field = f"batch {difference.batch}, decision {difference.seq}"
                found = Found(field, difference.was, difference.now)
                self._differs(Remark(max(index - 1, 0), None, ""), found)
                return

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
