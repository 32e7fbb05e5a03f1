"""All families of metrics, with where their values come from, and a scrape as Prometheus reads it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never, final

import attrs
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
from muster._version import __version__
from muster.figures.usage import in_seconds
from muster.service.backends.registry import BACKENDS
from muster.service.ledger.records import AskEnding
from muster.service.metrics.collectors import (
    BatchCounts,
    ReasonCensus,
    ReasonCounts,
    StateFigures,
    StateInspector,
    figures_of_users,
    read_figures,
)
from muster.service.payloads import Problem
from muster.store._file import NAME
from muster_core.decisions import Kind, Reason
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace, Statistics
from muster_core.values.application_states import AppState

if TYPE_CHECKING:
    from muster.service.ledger.ledger import Ledger
    from muster.service.limits import RequestCounts, Usage
    from muster.service.metrics.collectors import QueueFigures, UserFigures
    from muster.service.options import Backend, BackendMetric, Measure
    from muster.service.replication.leadership import Leadership
    from muster.service.streams import Broadcast


MetricKind: TypeAlias = Literal["gauge", "counter", "histogram"]


@final
@attrs.frozen(eq=False)
class ScrapeValues:
    """All that a scrape reads.

    Attributes:
        figures: What the state is, or None if it was never read.
        reasons: The reasons of asks, or None if they were never counted.
        counting: What is counted of batches.
        statistics: What the scheduler has done.
        meter: What the scheduler measures of itself.
        lag: The lag of the loop.
        waiting: How many calls wait at the entry of the scheduler.
        requests: What is counted of requests.
        usage: The limits, with what is in use and what was refused.
        broadcast: The streams.
        leadership: Whether the service leads or follows.
        followers: Who follows it.
        directory: The state directory, or None.
        backend: What is measured of what runs commands, by the names of metrics.
        users: What the first users hold and have used, and all others together, by label.
        now: The present instant, as ``trio.current_time`` says.
    """

    figures: StateFigures | None
    reasons: ReasonCounts | None
    counting: BatchCounts
    statistics: Statistics
    meter: Meter
    lag: Timings
    waiting: int
    requests: RequestCounts
    usage: Usage
    broadcast: Broadcast
    leadership: Leadership
    followers: Sequence[Mapping[str, Any]]
    directory: Path | None
    backend: Mapping[str, Measure]
    users: Mapping[str, UserFigures]
    now: float = attrs.field(factory=trio.current_time)


Values: TypeAlias = "Iterable[tuple[tuple[str, ...], float | Timings]]"
"""The values of a metric, each with the values of its labels."""


@final
@attrs.frozen
class Metric:
    """A metric.

    Attributes:
        kind: Its kind.
        name: Its name; that of a counter ends in ``_total``.
        about: What it means.
        read: Returns its values; without labels its only value, or None to leave it out.
        labels: Its labels, with blanks between them; each has a bound on how many values it has.
    """

    kind: MetricKind
    name: str
    about: str
    read: Callable[[ScrapeValues], Any]
    labels: str = ""

    @property
    def unit(self) -> str:
        """Its unit, which is at the end of its name, or nothing."""
        last = self.name.removesuffix("_total").rpartition("_")[2]
        return last if last in {"seconds", "bytes"} else ""

    def values(self, reading: ScrapeValues) -> Values:
        """Return its values."""
        found = self.read(reading)
        return found if self.labels else () if found is None else (((), found),)


gauge: Final = partial(Metric, "gauge")
counter: Final = partial(Metric, "counter")
histogram: Final = partial(Metric, "histogram")


def _follower_values(name: str) -> Callable[[ScrapeValues], Values]:
    return lambda r: [((row["follower"],), float(row[name])) for row in r.followers]


def _figure(of: Callable[[StateFigures], float]) -> Callable[[ScrapeValues], float | None]:
    """Return how a figure of the state is read."""
    return lambda r: None if r.figures is None else of(r.figures)


def _backend_values(metric: BackendMetric) -> Callable[[ScrapeValues], Any]:
    """Return how a metric of what runs commands is read."""
    return lambda reading: metric.read(reading.backend)


def _figures(of: Callable[[StateFigures], Values]) -> Callable[[ScrapeValues], Values]:
    """Return how figures of the state are read that have labels."""
    return lambda r: () if r.figures is None else of(r.figures)


def _amounts(of: Callable[[QueueFigures], Mapping[str, int]]) -> Callable[[ScrapeValues], Values]:
    """Return how amounts of queues by resource are read."""
    return _figures(
        lambda f: (
            ((queue.path, resource), amount)
            for queue in f.queues
            for resource, amount in of(queue).items()
        )
    )


# LISTS-23
def _users(of: Callable[[UserFigures], Mapping[str, int]]) -> Callable[[ScrapeValues], Values]:
    """Return how figures of users by another label are read."""
    return lambda r: (
        ((user, label), amount)
        for user, one in r.users.items()
        for label, amount in of(one).items()
    )


def _ended(user: UserFigures) -> Mapping[str, int]:
    return {ending.value: user.used.ended.get(ending.value, 0) for ending in AskEnding}


_priorities: Final = _figures(
    lambda f: (((one.path,), one.priority) for one in f.queues if one.priority is not None)
)
_asks: Final = _figures(lambda f: (((place.value,), f.asks.get(place, 0)) for place in AskPlace))
_capacity: Final = _figures(lambda f: (((kind,), amount) for kind, amount in f.capacity.items()))
_apps: Final = _figures(
    lambda f: (
        ((state.value,), f.apps.get(state.value, 0))
        for state in AppState
        if state is not AppState.COMPLETED
    )
)


def _reasons(reading: ScrapeValues) -> Values:
    found = reading.reasons
    return [] if found is None else [((code.value,), found.counts.get(code, 0)) for code in Code]


def _decisions(reading: ScrapeValues) -> Values:
    return [((kind.value,), reading.counting.decisions[kind]) for kind in Kind]


def _released(reading: ScrapeValues) -> Values:
    return [((reason.value,), reading.counting.released[reason]) for reason in Reason]


def _requests(reading: ScrapeValues) -> Values:
    counts = sorted(reading.requests.counts.items())
    return [((route, method, str(status)), number) for (route, method, status), number in counts]


def _request_times(reading: ScrapeValues) -> Values:
    return [(key, times) for key, times in sorted(reading.requests.times.items())]


def _refusals(reading: ScrapeValues) -> Values:
    return [((limit,), number) for limit, number in reading.usage.refusals.by_limit.items()]


def _store_bytes(reading: ScrapeValues) -> float | None:
    if reading.directory is None:
        return None
    size = 0
    for name in (NAME, f"{NAME}-wal"):
        with suppress(OSError):  # There is no WAL after the file was closed.
            size += os.stat(reading.directory / name).st_size
    return size


def _commits(reading: ScrapeValues) -> Timings | None:
    return None if reading.directory is None else reading.meter.commit


# STREAM-10
METRICS: Final = (
    # Queues
    gauge(
        "muster_queue_pending",
        "What the pending asks of a queue and the queues below it ask for, in base units.",
        _amounts(lambda queue: queue.pending),
        "queue resource",
    ),
    gauge(
        "muster_queue_allocated",
        "What the waiting and bound asks of a queue and the queues below it hold, in base units.",
        _amounts(lambda queue: queue.allocated),
        "queue resource",
    ),
    gauge(
        "muster_queue_guaranteed",
        "The `guaranteed` of a queue, in base units.",
        _amounts(lambda queue: queue.guaranteed),
        "queue resource",
    ),
    gauge(
        "muster_queue_max",
        "The `max` of a queue, in base units; without a value there is no limit.",
        _amounts(lambda queue: queue.most),
        "queue resource",
    ),
    gauge(
        "muster_queue_priority",
        "The `currentPriority` of a queue; without a value it has none.",
        _priorities,
        "queue",
    ),
    gauge(
        "muster_queues_summed",
        "How many queues have no figures of their own and are summed up in the queue `other`.",
        _figure(lambda f: f.summed),
    ),
    # Asks, applications, nodes
    gauge("muster_asks", "How many asks there are, by place.", _asks, "state"),
    gauge(
        "muster_asks_not_running",
        "How many asks are not running, by their dominant reason.",
        _reasons,
        "reason",
    ),
    gauge(
        "muster_asks_not_running_age_seconds",
        "How long ago the asks that are not running were counted.",
        lambda r: None if r.reasons is None else r.now - r.reasons.at,
    ),
    gauge(
        "muster_asks_not_running_count_seconds",
        "How long it took to count them, beside everything else.",
        lambda r: None if r.reasons is None else r.reasons.took_s,
    ),
    histogram(
        "muster_ask_wait_seconds",
        "How long asks waited until they were bound, since they came or lost their node.",
        lambda r: r.counting.waits,
    ),
    gauge("muster_applications", "How many applications there are, by state.", _apps, "state"),
    gauge("muster_gangs", "How many gangs there are.", _figure(lambda f: f.gangs)),
    gauge(
        "muster_reservations",
        "How many reservations of queues with backfill are in force; that of a gang is one.",
        _figure(lambda f: f.reservations),
    ),
    gauge("muster_nodes", "How many nodes there are.", _figure(lambda f: f.nodes)),
    gauge(
        "muster_nodes_capacity",
        "What all nodes have together, in base units.",
        _capacity,
        "resource",
    ),
    gauge(
        "muster_state_age_seconds",
        "How long ago the figures of queues, asks, applications and nodes were read.",
        lambda r: None if r.figures is None else r.now - r.figures.at,
    ),
    # Users
    gauge(
        "muster_user_allocated",
        "What the waiting and bound asks of a user hold, in base units.",
        _users(lambda user: user.held),
        "user resource",
    ),
    counter(
        "muster_user_used_total",
        "What asks of a user have held times how long, in base units times seconds.",
        _users(lambda user: in_seconds(user.used.areas)),
        "user resource",
    ),
    counter(
        "muster_user_asks_ended_total",
        "How many asks of a user have ended, by outcome.",
        _users(_ended),
        "user outcome",
    ),
    # Decisions
    counter("muster_decisions_total", "Decisions since the start.", _decisions, "kind"),
    counter(
        "muster_asks_released_total",
        "Asks that were released since the start.",
        _released,
        "reason",
    ),
    # The scheduler
    counter(
        "muster_batches_total", "Batches, since the state began.", lambda r: r.statistics.batches
    ),
    counter(
        "muster_events_total",
        "Events that came in, also refused ones, since the state began.",
        lambda r: r.statistics.requests,
    ),
    counter(
        "muster_events_refused_total",
        "Events that were refused, since the state began.",
        lambda r: r.statistics.refused,
    ),
    histogram(
        "muster_batch_decide_seconds",
        "How long batches of callers took until they were decided.",
        lambda r: r.meter.decide,
    ),
    histogram(
        "muster_batch_commit_seconds",
        "How long it took until decided batches were in the store.",
        _commits,
    ),
    gauge(
        "muster_store_size_bytes", "The size of the store, with its write-ahead log.", _store_bytes
    ),
    gauge(
        "muster_entry_calls",
        "How many calls wait at the entry of the scheduler.",
        lambda r: r.waiting,
    ),
    histogram(
        "muster_loop_lag_seconds",
        "How much later than it should a task has run, measured four times a second.",
        lambda r: r.lag,
    ),
    # What runs commands
    *(
        Metric(one.kind, one.name, one.about, _backend_values(one), one.label)
        for backend in BACKENDS.values()
        for one in backend.metrics
    ),
    # Requests
    counter(
        "muster_http_requests_total",
        "Requests whose answer has begun.",
        _requests,
        "route method status",
    ),
    histogram(
        "muster_http_request_seconds",
        "How long it took from the head of a request until its answer began.",
        _request_times,
        "route method",
    ),
    counter(
        "muster_refusals_total",
        "What was refused or cut off because of a limit.",
        _refusals,
        "limit",
    ),
    gauge("muster_connections", "Open connections.", lambda r: r.usage.connections.in_use),
    gauge(
        "muster_connections_max",
        "How many connections may be open.",
        lambda r: r.usage.connections.most,
    ),
    gauge("muster_streams", "Open streams of decisions.", lambda r: r.usage.streams.in_use),
    gauge("muster_streams_max", "How many streams may be open.", lambda r: r.usage.streams.most),
    counter(
        "muster_streams_opened_total",
        "Streams of decisions since the start.",
        lambda r: r.broadcast.opened,
    ),
    counter(
        "muster_streams_lagged_total",
        "Streams that were cut off because they read too slowly.",
        lambda r: r.broadcast.lagged,
    ),
    # REPLICA-9
    gauge(
        "muster_replica_term",
        "The term of this server; without a store there is none.",
        lambda r: r.leadership.term or None,
    ),
    gauge(
        "muster_replica_follows",
        "Whether this server follows another one (1) or leads (0).",
        lambda r: float(r.leadership.leader is not None),
    ),
    gauge(
        "muster_replica_connected",
        "Whether a follower is connected, by follower.",
        _follower_values("connected"),
        "follower",
    ),
    gauge(
        "muster_replica_behind_batches",
        "How many batches a follower is behind, by follower.",
        _follower_values("batches_behind"),
        "follower",
    ),
    gauge(
        "muster_replica_behind_seconds",
        "Since when a follower is behind, by follower.",
        _follower_values("seconds_behind"),
        "follower",
    ),
    counter(
        "muster_replica_differences_total",
        "Followers that have ended since they decided otherwise.",
        lambda r: r.leadership.followers.differences,
    ),
    gauge(
        "muster_replica_sync",
        "What has become of --sync: `alone` if no follower is waited for, `held` if calls are.",
        lambda r: [((one,), float(on)) for one, on in r.leadership.followers.troubles.items()],
        "state",
    ),
    gauge(
        "muster_info",
        "Always 1; the label is the version of Muster.",
        lambda _: (((__version__,), 1.0),),
        "version",
    ),
)
"""All metrics of Muster, in the order of the page about them."""


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
class _MusterCollector(Collector):
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
            return encode(_CombinedCollector(_MusterCollector(reading), self._process)), media
        finally:
            sys.setswitchinterval(before)


@final
class _CombinedCollector(Collector):
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
        leadership: Whether the service leads or follows, and who follows it.
        directory: The state directory, or None.

    Attributes:
        meter: What the scheduler measures of itself.
        counting: What is counted of batches.
        ray: The connection to Ray, if commands run there.
    """

    def __init__(
        self,
        ledger: Ledger,
        usage: Usage,
        broadcast: Broadcast,
        leadership: Leadership,
        directory: Path | None,
    ) -> None:
        self._ledger = ledger
        self._usage = usage
        self._broadcast = broadcast
        self._leadership = leadership
        self._directory = directory
        self._lag = Timings()
        self._exposition = Exposition()
        self._writing = trio.CapacityLimiter(1)
        self._reading = trio.Lock()
        self._figures: StateFigures | None = None
        self._census: ReasonCensus
        self._inspect: StateInspector
        self._statistics: Callable[[], Statistics]
        self._waiting: Callable[[], int]
        self._now_us: Callable[[], int]
        self.meter = Meter()
        self.counting = BatchCounts(ledger)
        self.backend: Backend | None = None

    async def run(
        self,
        inspect: StateInspector,
        statistics: Callable[[], Statistics],
        waiting: Callable[[], int],
        now_us: Callable[[], int],
    ) -> None:
        """Measure until this is cancelled.

        Args:
            inspect: Reads the state between two batches.
            statistics: Returns what the scheduler has done.
            waiting: Returns how many calls wait at its entry.
            now_us: Returns the present instant, in microseconds since the origin.
        """
        self._inspect, self._statistics, self._waiting = inspect, statistics, waiting
        self._now_us = now_us
        self._census = ReasonCensus(inspect)
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
                    self._figures = await read_figures(self._inspect)
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
            self._leadership,
            self._leadership.followers.rows(),
            self._directory,
            {} if self.backend is None else self.backend.measures(),
            figures_of_users(self._ledger.accounts(), self._now_us()),
        )
        return await trio.to_thread.run_sync(
            self._exposition.write, reading, accept, limiter=self._writing
        )
