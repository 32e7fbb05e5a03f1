"""All that is measured of a running service, and the answer of a scrape."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import trio

from muster._runtime.meter import Meter, Timings
from muster.service.metrics.census import ReasonCensus, ReasonCounts
from muster.service.metrics.counting import Counting
from muster.service.metrics.exposition import Exposition
from muster.service.metrics.figures import (
    Figures,
    Looks,
    figures_of_users,
    read_figures,
)
from muster.service.metrics.lag import measure_lag
from muster.service.metrics.table import Reading
from muster.service.problems import Problem

if TYPE_CHECKING:
    from muster.service.ledger.ledger import Ledger
    from muster.service.limits.counting import Usage
    from muster.service.ray.link import RayLink
    from muster.service.streaming.broadcast import Broadcast
    from muster_core.snapshots import Statistics

FRESH_S: Final = 1.0
"""How long the figures of the state serve further scrapes, in seconds."""

PATIENCE_S: Final = 2.0
"""How long a scrape waits for new ones before it shows the last ones, in seconds."""

MOMENT_S: Final = 0.25
"""How long it waits besides for a new count of reasons, in seconds."""


@final
class Metrics:
    """What is measured of a service.

    Args:
        ledger: Knows since when asks wait, and what users have used.
        usage: The limits.
        broadcast: The streams.
        directory: The state directory, or None.

    Attributes:
        meter: What the scheduler measures of itself.
        counting: What is counted of batches.
        ray: The connection to Ray, if commands run there.
    """

    def __init__(
        self, ledger: Ledger, usage: Usage, broadcast: Broadcast, directory: Path | None
    ) -> None:
        self._ledger = ledger
        self._usage = usage
        self._broadcast = broadcast
        self._directory = directory
        self._lag = Timings()
        self._exposition = Exposition()
        self._writing = trio.CapacityLimiter(1)
        self._reading = trio.Lock()
        self._figures: Figures | None = None
        self._census: ReasonCensus
        self._look: Looks
        self._statistics: Callable[[], Statistics]
        self._waiting: Callable[[], int]
        self._now_us: Callable[[], int]
        self.meter = Meter()
        self.counting = Counting(ledger)
        self.ray: RayLink | None = None

    async def run(
        self,
        look: Looks,
        statistics: Callable[[], Statistics],
        waiting: Callable[[], int],
        now_us: Callable[[], int],
    ) -> None:
        """Measure until this is cancelled.

        Args:
            look: Reads the state between two batches.
            statistics: Returns what the scheduler has done.
            waiting: Returns how many calls wait at its entry.
            now_us: Returns the present instant, in microseconds since the origin.
        """
        self._look, self._statistics, self._waiting = look, statistics, waiting
        self._now_us = now_us
        self._census = ReasonCensus(look)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(measure_lag, self._lag)
            nursery.start_soon(self._census.run)

    # PAGE-14
    async def reasons(self, patience_s: float = MOMENT_S) -> ReasonCounts | None:
        """Return why asks are not running; None if there was no time to count them yet.

        What is returned is not older than this call, unless to count takes long.

        Args:
            patience_s: How long to wait for a new count at most, in seconds.
        """
        await self._census.want(0.0, patience_s)
        return self._census.latest

    # STREAM-11
    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """Return the text of all metrics, and its media type.

        Args:
            accept: What the client accepts.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._census.want(FRESH_S, MOMENT_S)
        with trio.move_on_after(PATIENCE_S), suppress(Problem):
            async with self._reading:  # Scrapes at the same time share the figures.
                if self._figures is None or trio.current_time() > self._figures.at + FRESH_S:
                    self._figures = await read_figures(self._look)
        reading = Reading(
            self._figures,
            self._census.latest,
            self.counting,
            self._statistics(),
            self.meter,
            self._lag,
            self._waiting(),
            self._usage.requests,
            self._usage,
            self._broadcast,
            self._directory,
            None if self.ray is None else self.ray.state(),
            figures_of_users(self._ledger.accounts(), self._now_us()),
        )
        return await trio.to_thread.run_sync(
            self._exposition.write, reading, accept, limiter=self._writing
        )
