"""Scrapes: everything that is measured of a running service, as Prometheus reads it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never, final

import trio
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric as Family,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from typing_extensions import override

from muster._runtime.clock import Meter, Timings
from muster.service.metrics.collectors import (
    BatchCounts,
    Looks,
    ReasonCensus,
    ReasonCounts,
    StateFigures,
    figures_of_users,
    read_figures,
)
from muster.service.metrics.families import METRICS, Metric, ScrapeValues
from muster.service.payloads import Problem
from muster_core.snapshots import Statistics

if TYPE_CHECKING:
    from muster.service.ledger.ledger import Ledger
    from muster.service.limits import Usage
    from muster.service.options import Backend
    from muster.service.streams import Broadcast


EVERY_S: Final = 0.25
"""How often it is measured, in seconds."""


async def measure_lag(timings: Timings) -> None:
    """Measure the lag of the loop again and again."""
    while True:
        due = trio.current_time() + EVERY_S
        await trio.sleep_until(due)
        timings.note(max(0.0, trio.current_time() - due))


_INFINITE: Final = "+Inf"

_SWITCH_S: Final = 0.0002
"""After how long this thread lets others run, in seconds."""


@final
class _Ours(Collector):
    """The metrics of Muster for one scrape."""

    def __init__(self, reading: ScrapeValues) -> None:
        self._reading = reading

    @override
    def collect(self) -> Iterable[Family]:
        """Return all families."""
        return [_family(metric, self._reading) for metric in METRICS]


def _family(metric: Metric, reading: ScrapeValues) -> Family:
    name, about, labels, unit = metric.name, metric.about, metric.labels.split(), metric.unit
    made: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    match metric.kind:
        case "counter":
            made = CounterMetricFamily(name, about, labels=labels, unit=unit)
        case "gauge":
            made = GaugeMetricFamily(name, about, labels=labels, unit=unit)
        case "histogram":
            made = HistogramMetricFamily(name, about, labels=labels, unit=unit)
        case _:
            assert_never(metric.kind)
    for of_labels, value in metric.values(reading):
        if isinstance(made, HistogramMetricFamily):
            assert isinstance(value, Timings), name
            made.add_metric(of_labels, list(_buckets(value)), value.sum_s)
        else:
            assert not isinstance(value, Timings), name
            made.add_metric(of_labels, value)
    return made


def _buckets(timings: Timings) -> Iterator[tuple[str, float]]:
    names = [*(repr(float(bound)) for bound in timings.bounds_s), _INFINITE]
    return zip(names, accumulate(timings.counts), strict=True)


@final
class Exposition:
    """Writes what a scrape has read, with what the process itself says."""

    def __init__(self) -> None:
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    def write(self, reading: ScrapeValues, accept: str) -> tuple[bytes, str]:
        """Return the text of all metrics, and its media type; runs in a thread.

        Args:
            reading: What was read.
            accept: What the client accepts.
        """
        encode, media = choose_encoder(accept)
        before = sys.getswitchinterval()
        # Otherwise the loop of the service would wait 5 ms whenever it comes back from a socket.
        sys.setswitchinterval(_SWITCH_S)
        try:
            return encode(_Both(_Ours(reading), self._process)), media
        finally:
            sys.setswitchinterval(before)


@final
class _Both(Collector):
    """The metrics of Muster and those of the process."""

    def __init__(self, ours: Collector, process: CollectorRegistry) -> None:
        self._ours = ours
        self._process = process

    @override
    def collect(self) -> Iterator[Family]:
        """Yield all families."""
        yield from self._ours.collect()
        yield from self._process.collect()


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
        self._figures: StateFigures | None = None
        self._census: ReasonCensus
        self._look: Looks
        self._statistics: Callable[[], Statistics]
        self._waiting: Callable[[], int]
        self._now_us: Callable[[], int]
        self.meter = Meter()
        self.counting = BatchCounts(ledger)
        self.backend: Backend | None = None

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
        reading = ScrapeValues(
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
            {} if self.backend is None else self.backend.measures(),
            figures_of_users(self._ledger.accounts(), self._now_us()),
        )
        return await trio.to_thread.run_sync(
            self._exposition.write, reading, accept, limiter=self._writing
        )
