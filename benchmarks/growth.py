"""How the cost of an allocation grows with the number of asks, nodes, queues and so on.

One dimension grows while all others stay the same. The measurement covers the rounds of the core
without tasks: an earlier batch has added applications and asks, and then the nodes are added. If
asks are pending on a full cluster, 500 allocations end, one at a time, and each makes room for
another one.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, final

import attrs

from benchmarks.figures import Figure, with_unit
from benchmarks.workloads import NODES, partition, queue
from muster_core.config.model import Configuration, QueueConfig, Settings, SortPolicy
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import AddApp, AddAsk, AddNode, Configure, Event, Release
from muster_core.resources import Resources

RELEASES: Final = 500
LEAVES: Final = 10
QUICK: Final = 2_000
"""Sizes up to this are measured at every scale."""


@final
@attrs.frozen
class Cluster:
    """The cluster of a measurement; the defaults apply while another dimension grows.

    Attributes:
        asks: The number of asks.
        at_once: The number of asks in one event.
        apps: The number of applications of these asks.
        nodes: The number of nodes.
        depth: The number of levels of queues, including the root.
        shapes: The number of different amounts.
        priorities: The number of different priorities.
        policy: The sort policy of the leaves.
        room: The share of the asks that fit on all nodes together.
        running: The largest number of asks that fit at once; then some of them are released.
    """

    asks: int = 50_000
    at_once: int = 1
    apps: int = 100
    nodes: int = NODES
    depth: int = 3
    shapes: int = 1
    priorities: int = 10
    policy: SortPolicy = SortPolicy.FIFO
    room: float = 1.1
    running: int | None = None

    @property
    def config(self) -> Configuration:
        """Return ten leaves, each one below a chain of queues."""
        return partition([self._line(f"root.p{at}", self.depth - 1) for at in range(LEAVES)])

    def _line(self, path: str, levels: int) -> QueueConfig:
        if levels <= 1:
            return queue(path, Settings(sort_policy=self.policy))
        return queue(path, Settings(), [self._line(f"{path}.l{levels}", levels - 1)])

    def leaf(self, at: int) -> str:
        """Return the path of a leaf."""
        found = self.config.root.children[at]
        while found.children:
            found = found.children[0]
        return found.path

    def node_events(self) -> Iterator[Event]:
        """Return the nodes."""
        largest = 1_000 + self.shapes
        fitting = self.asks * self.room if self.running is None else self.running
        capacity = Resources({"vcore": max(1, math.ceil(fitting / self.nodes)) * largest})
        for at in range(self.nodes):
            yield AddNode(node=f"node-{at:05}", capacity=capacity)

    def ask_events(self) -> Iterator[Event]:
        """Return the applications with their asks."""
        leaves = [self.leaf(at) for at in range(LEAVES)]
        for at in range(self.apps):
            yield AddApp(app=f"app-{at:06}", queue=leaves[at % LEAVES])
        for at in range(self.asks // self.at_once):
            yield AddAsk(
                app=f"app-{at % self.apps:06}",
                ask=f"ask-{at // self.apps}",
                # Multiples of a prime, so that neighbours are neither equal nor in order.
                priority=at * 7_919 % self.priorities,
                resources=Resources({"vcore": 1_000 + at * 7_907 % self.shapes}),
                count=None if self.at_once == 1 else self.at_once,
            )


@final
@attrs.frozen
class Dimension:
    """A dimension that grows.

    Attributes:
        name: Its name in the table.
        about: Its description.
        sizes: The measured sizes.
        cluster: Returns the cluster for a size.
        grows_asks: Whether the number of asks grows; otherwise that number can be scaled.
    """

    name: str
    about: str
    sizes: Sequence[int]
    cluster: Callable[[int], Cluster]
    grows_asks: bool = False


def _waiting(asks: int) -> Cluster:
    # Ten of many asks share an event: their admission is not measured here.
    return Cluster(asks=asks + NODES, at_once=1 if asks < 10_000 else 10, running=NODES)


DIMENSIONS: Final = {
    one.name: one
    for one in (
        Dimension(
            "applications, fifo",
            "100,000 asks",
            (100, 1_000, 10_000, 100_000),
            lambda size: Cluster(asks=100_000, apps=size),
        ),
        Dimension(
            "applications, fair",
            "100,000 asks",
            (100, 1_000, 10_000, 100_000),
            lambda size: Cluster(asks=100_000, apps=size, policy=SortPolicy.FAIR),
        ),
        Dimension(
            "asks placed",
            "all fit",
            (1_000, 10_000, 100_000, 1_000_000),
            lambda size: Cluster(asks=size, at_once=1 if size < 1_000_000 else 10),
            grows_asks=True,
        ),
        Dimension(
            "asks that wait",
            "a full cluster, 1,000 run",
            (1_000, 10_000, 100_000, 1_000_000),
            _waiting,
            grows_asks=True,
        ),
        Dimension(
            "nodes",
            "50,000 asks fill 95 %",
            (100, 1_000, 10_000, 50_000),
            lambda size: Cluster(nodes=size, room=1.0),
        ),
        Dimension(
            "levels of queues",
            "50,000 asks",
            (2, 4, 8, 12),
            lambda size: Cluster(depth=size),
        ),
        Dimension(
            "shapes",
            "50,000 asks",
            (1, 20, 200, 2_000),
            lambda size: Cluster(shapes=size),
        ),
        Dimension(
            "shapes that wait",
            "a full cluster, 20,000 asks",
            (1, 20, 200, 2_000),
            lambda size: Cluster(asks=20_000, shapes=size, running=NODES),
        ),
        Dimension(
            "priorities",
            "50,000 asks",
            (1, 10, 100, 1_000, 10_000),
            lambda size: Cluster(priorities=size),
        ),
    )
}


def sizes(dimension: Dimension, scale: float) -> list[int]:
    """Return the sizes to measure; at a small scale, without those that take long."""
    most = max(QUICK, dimension.sizes[-1] * scale)
    return [size for at, size in enumerate(dimension.sizes) if at < 2 or size <= most]


def measure(name: str, size: str, scale: float) -> dict[str, float]:
    """Measure one size; return the number of allocations and their time in seconds."""
    dimension = DIMENSIONS[name]
    cluster = dimension.cluster(int(size))
    if not dimension.grows_asks:
        asks = max(1_000, 2 * (cluster.running or 0), cluster.apps, int(cluster.asks * scale))
        cluster = attrs.evolve(cluster, asks=asks)
    scheduler = PlainScheduler(cluster.config)
    scheduler.submit(Configure(config=cluster.config))
    for event in cluster.ask_events():
        scheduler.submit(event)
    scheduler.settle()
    for event in cluster.node_events():
        scheduler.submit(event)
    gc.collect()
    start = time.process_time()
    scheduler.settle()
    end = time.process_time()
    bound = [one.decision for one in scheduler.announced if one.decision.kind is Kind.BOUND]
    if cluster.running is None:
        return {"binds": len(bound), "rounds_s": end - start}
    scheduler.announced.clear()
    # Those that run had the highest priorities; a release at the end is as good as one before.
    gc.collect()
    start = time.process_time()
    for decision in bound[-RELEASES:]:
        if decision.app and decision.ask:
            scheduler.submit(Release(decision.app, decision.ask))
        scheduler.settle()
    end = time.process_time()
    again = sum(one.decision.kind is Kind.BOUND for one in scheduler.announced)
    return {"binds": again, "rounds_s": end - start}


def figure(dimension: Dimension, costs: Mapping[int, tuple[float, float]]) -> Figure:
    """Return the figure for the growth of the cost of an allocation.

    Args:
        dimension: The dimension.
        costs: For each size, in order, the seconds of an allocation, and the same as a multiple
            of the yardstick measured beside it.
    """
    factors = [
        (many[1] / few[1]) ** (1 / math.log10(more / less))
        for (less, few), (more, many) in pairwise(costs.items())
        if more / less > 5
    ]
    if not factors:  # the sizes are close together: compare the first and the last one
        (less, few), *_, (more, many) = costs.items()
        factors = [(many[1] / few[1]) ** (1 / math.log10(more / less))]
    raw = " · ".join(
        f"{size:,}: {with_unit(each * 1e6, 'µs')}" for size, (each, _) in costs.items()
    )
    what = f"{dimension.name} ({dimension.about})"
    return Figure("growth", what, max(factors), "× for 10 ×", target=2, raw=raw)
