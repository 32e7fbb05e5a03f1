"""Writing metrics as Prometheus reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final, assert_never, final

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

from muster._runtime.meter import Timings
from muster.service.metrics.table import METRICS, Metric

if TYPE_CHECKING:
    from muster.service.metrics.table import Reading

_INFINITE: Final = "+Inf"

_SWITCH_S: Final = 0.0002
"""After how long this thread lets others run, in seconds."""


@final
class _Ours(Collector):
    """The metrics of Muster for one scrape."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @override
    def collect(self) -> Iterable[Family]:
        """Return all families."""
        return [_family(metric, self._reading) for metric in METRICS]


def _family(metric: Metric, reading: Reading) -> Family:
    name, about, labels, unit = metric.name, metric.about, metric.labels, metric.unit
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
    for of_labels, value in metric.read(reading):
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

    def write(self, reading: Reading, accept: str) -> tuple[bytes, str]:
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
