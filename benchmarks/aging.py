"""The cost of aging: a full cluster with many pending asks in one leaf, one batch each second.

    python -m benchmarks.aging                 10,000 pending asks
    python -m benchmarks.aging --scale 0.1     a tenth of that

The asks have five priorities and come within a hundred seconds. Each gains one with each second, up to
a hundred. Each batch adds an ask and releases one, so that the first that is pending takes the room. It
is measured while asks come to their limit and pass others, and after that, with ``priority.aging`` and
without it in the same run.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from typing import Final

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.contention import SETTINGS, vcores
from benchmarks.figures import Figure
from benchmarks.workloads import partition, queue
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import MICROSECONDS
from muster_core.events import AddApp, AddAsk, AddNode, Configure, Release

PENDING: Final = 10_000
LIMIT: Final = 100
"""How many seconds asks age, and in how many they come."""

APPS: Final = 10
PRIORITIES: Final = 5
BATCHES: Final = 2 * LIMIT


class FullCluster:
    """A full cluster.

    Args:
        period_us: The ``priority.aging`` of the leaf, in microseconds.
        pending: How many asks are pending.
    """

    def __init__(self, period_us: int, pending: int) -> None:
        settings = attrs.evolve(SETTINGS, aging_us=period_us, aging_limit=LIMIT)
        config = partition([queue("root.all", settings)])
        self._scheduler, self._second, self._added = PlainScheduler(config), 0, 0
        self._scheduler.submit(Configure(config=config))
        for at in range(APPS):
            self._scheduler.submit(AddApp(app=f"{at}", queue="root.all"))
        self._scheduler.submit(AddNode(node="node", capacity=vcores(BATCHES)))
        self._scheduler.submit(AddAsk(app="0", ask="run", resources=vcores(1), count=BATCHES))
        self._scheduler.settle()
        for _ in range(LIMIT):
            self._run_batch(pending // LIMIT)
        self._first = self._second

    def _run_batch(self, asks: int) -> None:
        self._second += 1
        for _ in range(asks):
            at, self._added = self._added, self._added + 1
            ask = AddAsk(
                app=f"{at // PRIORITIES % APPS}",
                ask=f"ask-{at}",
                resources=vcores(1),
                priority=at % PRIORITIES,
            )
            self._scheduler.submit(ask, self._second * MICROSECONDS)
        self._scheduler.settle()

    def time_batches(self) -> float:
        """Run one batch for each second that an ask can age; return the seconds of one."""
        self._scheduler.announced.clear()
        start = time.process_time()
        for _ in range(LIMIT):
            self._scheduler.submit(
                Release("0", f"run-{self._second - self._first}"), self._second * MICROSECONDS
            )
            self._run_batch(1)
        return (time.process_time() - start) / LIMIT


def measure(scale: float) -> list[Figure]:
    """Measure the batches with and without aging.

    Args:
        scale: The share of the full size.
    """
    gc.disable()  # Its pauses would depend on the number of objects.
    pending = max(LIMIT, int(PENDING * scale))
    aging, plain = FullCluster(MICROSECONDS, pending), FullCluster(0, pending)
    found: list[Figure] = []
    for when in ("while asks come to their limit", "after that"):
        with_s, without_s = aging.time_batches(), plain.time_batches()
        found.append(
            Figure(
                "aging",
                f"a batch {when}",
                with_s / without_s,
                "× without",
                target=1.3,
                note=f"{pending:,} pending asks in one leaf",
                raw=f"{1e3 * with_s:.3f} and {1e3 * without_s:.3f} ms",
            )
        )
    return found


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure what aging costs.")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    table = Table("what", "figure", "to reach", "")
    for figure in measure(parser.parse_args(arguments).scale):
        table.add_row(figure.what, figure.shown, figure.aim, figure.raw)
    Console(width=110).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
