"""The cost of reservations: a full cluster with many pending asks, and a gang that waits for room.

    python -m benchmarks.backfill                 10,000 pending asks on 1,000 nodes
    python -m benchmarks.backfill --scale 0.1     a tenth of that

Each node runs asks of several sizes, whose estimates differ. The first ask in order belongs to a
gang that needs 16 whole nodes. The asks behind it are of four sizes and eight estimates. Two kinds
of batches are measured, with ``scheduling.order: backfill`` and with ``greedy`` in the same run:
one releases an ask, so that the reservation is sought anew and another ask may take the room; one
adds an ask that fits nowhere, so that nothing about the reservation changes.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.contention import SETTINGS, vcores
from benchmarks.figures import Figure
from muster_core.config.model import Configuration, QueueConfig, SchedulingOrder
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import MICROSECONDS, Kind
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Configure, Release
from muster_core.gangs import GangFields

NODES: Final = 1_000
SLOTS: Final = 16
PENDING: Final = 10
"""How many asks are pending, for each node."""

APPS: Final = 100
BATCHES: Final = 60
SIZES: Final = (1, 2, 3, 4)
HOUR_US: Final = 3_600 * MICROSECONDS
SECOND_US: Final = MICROSECONDS


class FullCluster:
    """A full cluster.

    Args:
        order: The ``scheduling.order`` of the root.
        nodes: How many nodes there are.
    """

    def __init__(self, order: SchedulingOrder, nodes: int) -> None:
        settings = attrs.evolve(SETTINGS, scheduling_order=order)
        leaf = QueueConfig(name="all", path="root.all", is_parent=False, settings=SETTINGS)
        root = QueueConfig(
            name="root", path="root", is_parent=True, settings=settings, children=(leaf,)
        )
        config = Configuration(partition="default", root=root, preemption_enabled=False)
        self.scheduler = PlainScheduler(config)
        self.scheduler.submit(Configure(config=config))
        for at in range(nodes):
            self.scheduler.submit(AddNode(node=f"node-{at:05}", capacity=vcores(SLOTS)))
        self._fill(nodes)
        self._wait(nodes)
        decisions = (one.decision for one in self.scheduler.announced)
        self._bound: Iterator[tuple[str, str]] = iter([
            (one.app or "", one.ask or "") for one in decisions if one.kind is Kind.BOUND
        ][::7])  # fmt: skip
        self._now_us = SECOND_US
        self._added = 0

    def _fill(self, nodes: int) -> None:
        """Fill all nodes with asks that end in one to eight hours."""
        self.scheduler.submit(AddApp(app="runs", queue="root.all"))
        for at in range(nodes * SLOTS // 4):
            size = SIZES[at % len(SIZES)]
            # Four asks of one size each fill a part of a node: sizes 1 to 4 are 10 of 16 slots.
            self.scheduler.submit(
                AddAsk(
                    app="runs",
                    ask=f"run-{at}",
                    resources=vcores(size),
                    estimate_us=(1 + at % 8) * HOUR_US + at * SECOND_US,
                )
            )
        self.scheduler.submit(
            AddAsk(app="runs", ask="rest", resources=vcores(1), count=6 * nodes, priority=-1)
        )
        self.scheduler.settle()

    def _wait(self, nodes: int) -> None:
        """Add a wide gang that waits, and many asks behind it."""
        wide = min(16, nodes)
        self.scheduler.submit(AddApp(app="wide", queue="root.all"))
        self.scheduler.submit(AddGang("default/wide", GangFields(min_member=wide)))
        self.scheduler.submit(
            AddAsk(
                app="wide",
                ask="part",
                resources=vcores(SLOTS),
                count=wide,
                gang="default/wide",
                estimate_us=HOUR_US,
                priority=9,
            )
        )
        for at in range(APPS):
            self.scheduler.submit(AddApp(app=f"app-{at:03}", queue="root.all"))
        for at in range(nodes * PENDING // 10):
            self.scheduler.submit(
                AddAsk(
                    app=f"app-{at % APPS:03}",
                    ask=f"ask-{at}",
                    count=10,
                    resources=vcores(SIZES[at % len(SIZES)]),
                    estimate_us=(1 + at % 8) * HOUR_US // 2,
                )
            )
        self.scheduler.settle(SECOND_US)

    def release(self) -> float:
        """Release an ask that runs; return the seconds of the batch."""
        app, ask = next(self._bound)
        start = time.process_time()
        self.scheduler.submit(Release(app, ask), self._next())
        self.scheduler.settle()
        return time.process_time() - start

    def add(self) -> float:
        """Add an ask that fits nowhere; return the seconds of the batch."""
        self._added += 1
        ask = AddAsk(
            app="app-000", ask=f"more-{self._added}", resources=vcores(4), estimate_us=HOUR_US
        )
        start = time.process_time()
        self.scheduler.submit(ask, self._next())
        self.scheduler.settle()
        return time.process_time() - start

    def _next(self) -> int:
        self._now_us += SECOND_US
        return self._now_us


def measure(scale: float) -> list[Figure]:
    """Measure the batches of both orders.

    Args:
        scale: The share of the full size.
    """
    gc.disable()  # Its pauses would depend on the number of objects.
    nodes = max(20, int(NODES * scale))
    held, plain = (
        FullCluster(order, nodes) for order in (SchedulingOrder.BACKFILL, SchedulingOrder.GREEDY)
    )
    batches = min(BATCHES, nodes)
    times = {
        name: [median(each() for _ in range(batches)) for each in (one.release, one.add)]
        for name, one in (("backfill", held), ("greedy", plain))
    }
    (release, add), (release_plain, add_plain) = times["backfill"], times["greedy"]
    asks = f"{nodes * PENDING:,} pending asks on {nodes:,} nodes"
    return [
        Figure(
            "backfill",
            "a batch that releases an ask",
            1e3 * release,
            "ms",
            target=5,
            note=asks,
            raw=f"greedy: {1e3 * release_plain:.2f} ms",
        ),
        Figure(
            "backfill",
            "a batch that changes nothing about the reservation",
            add / add_plain,
            "× greedy",
            target=1.2,
            raw=f"{1e3 * add:.3f} and {1e3 * add_plain:.3f} ms",
        ),
    ]


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure what reservations cost.")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    table = Table("what", "figure", "to reach", "")
    for figure in measure(parser.parse_args(arguments).scale):
        table.add_row(figure.what, figure.shown, figure.aim, figure.raw)
    Console(width=110).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
