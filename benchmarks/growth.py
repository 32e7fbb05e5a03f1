"""How the cost of an allocation grows with everything there can be more of.

One thing grows, everything else is as it was. Measured are the rounds of the core without tasks:
applications and asks were let in before, in a batch of their own, and then the nodes come.
Where something waits on a full cluster, 500 allocations end, one at a time, and each makes room
for another one.
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
from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import AddApp, AddAsk, AddNode, Configure, Event, Release
from muster_core.resources import Resources

RELEASES: Final = 500
LEAVES: Final = 10
QUICK: Final = 2_000
"""Up to so many of anything are quickly made."""


@final
@attrs.frozen
class Cluster:
    """What is run; the defaults hold while something else grows.

    Attributes:
        asks: How many asks come, one event each unless ``at_once`` is greater.
        at_once: How many asks come with an event.
        apps: How many applications they are spread over.
        nodes: How many nodes there are.
        depth: How many levels of queues there are, with the root.
        shapes: How many different amounts are asked for.
        priorities: How many different priorities there are.
        policy: How the leaves sort applications.
        room: The asks for which the nodes have room together, as a share of them all.
        running: How many asks there is room for at most; then some are released.
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
        """Ten leaves, each at the end of a line of queues."""
        return partition([self._line(f"root.p{at}", self.depth - 1) for at in range(LEAVES)])

    def _line(self, path: str, levels: int) -> QueueConfig:
        if levels <= 1:
            return queue(path, Settings(sort_policy=self.policy))
        return queue(path, Settings(), [self._line(f"{path}.l{levels}", levels - 1)])

    def leaf(self, at: int) -> str:
        """Give the path of a leaf."""
        found = self.config.root.children[at]
        while found.children:
            found = found.children[0]
        return found.path

    def nodes_come(self) -> Iterator[Event]:
        """Give the nodes."""
        largest = 1_000 + self.shapes
        fitting = self.asks * self.room if self.running is None else self.running
        capacity = Resources({"vcore": max(1, math.ceil(fitting / self.nodes)) * largest})
        for at in range(self.nodes):
            yield AddNode(node=f"node-{at:05}", capacity=capacity)

    def asks_come(self) -> Iterator[Event]:
        """Give the applications with their asks."""
        leaves = [self.leaf(at) for at in range(LEAVES)]
        for at in range(self.apps):
            yield AddApp(app=f"app-{at:06}", queue=leaves[at % LEAVES])
        for at in range(self.asks // self.at_once):
            yield AddAsk(
                app=f"app-{at % self.apps:06}",
                ask=f"ask-{at // self.apps}",
                # Multiples of a prime, so that neighbours are neither alike nor in order.
                priority=at * 7_919 % self.priorities,
                resources=Resources({"vcore": 1_000 + at * 7_907 % self.shapes}),
                count=None if self.at_once == 1 else self.at_once,
            )


@final
@attrs.frozen
class Dimension:
    """What grows.

    Attributes:
        name: What it is called in the table.
        about: What is done while it grows.
        sizes: How many there are.
        cluster: What is run for a size.
        grows_asks: It is the asks that grow; with all others, their number can be scaled.
    """

    name: str
    about: str
    sizes: Sequence[int]
    cluster: Callable[[int], Cluster]
    grows_asks: bool = False


def _waiting(asks: int) -> Cluster:
    # Of many asks ten come with an event: letting them in is not what is measured here.
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
    """Give the sizes that are measured: at a small scale without those that take long."""
    most = max(QUICK, dimension.sizes[-1] * scale)
    return [size for at, size in enumerate(dimension.sizes) if at < 2 or size <= most]


def measure(name: str, size: str, scale: float) -> dict[str, float]:
    """Measure one size; give the number of allocations and the seconds that they took."""
    dimension = DIMENSIONS[name]
    cluster = dimension.cluster(int(size))
    if not dimension.grows_asks:
        asks = max(1_000, 2 * (cluster.running or 0), cluster.apps, int(cluster.asks * scale))
        cluster = attrs.evolve(cluster, asks=asks)
    scheduler = PlainScheduler(cluster.config)
    scheduler.submit(Configure(config=cluster.config))
    for event in cluster.asks_come():
        scheduler.submit(event)
    scheduler.settle()
    for event in cluster.nodes_come():
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
    """Say how the cost of an allocation grows.

    Args:
        dimension: What grows.
        costs: For each size, in order, the seconds of an allocation, and as a multiple of the
            yardstick as it was measured beside it.
    """
    factors = [
        (many[1] / few[1]) ** (1 / math.log10(more / less))
        for (less, few), (more, many) in pairwise(costs.items())
        if more / less > 5
    ]
    if not factors:  # the sizes are close together: from the first to the last
        (less, few), *_, (more, many) = costs.items()
        factors = [(many[1] / few[1]) ** (1 / math.log10(more / less))]
    raw = " · ".join(
        f"{size:,}: {with_unit(each * 1e6, 'µs')}" for size, (each, _) in costs.items()
    )
    what = f"{dimension.name} ({dimension.about})"
    return Figure("growth", what, max(factors), "× for 10 ×", target=2, raw=raw)
