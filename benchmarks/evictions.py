"""The cost of reclaim and preemption: above all, of finding that nothing can be evicted.

    python -m benchmarks.evictions                 100,000 allocations on 1,000 nodes
    python -m benchmarks.evictions --scale 0.1     a tenth of that
    python -m benchmarks.evictions starved         only cases with this name

A cluster is full, and asks that may evict others are pending. In each of the following batches an
ask is released and another one takes its place, so that earlier results are no longer valid. The
time of such a batch is in milliseconds of processor time, with ``preemption.enabled`` and without,
in the same run. Cases with evictions report the time for each victim.

:func:`measure` uses another cluster, that of the workload W2 with too few nodes: the asks with a
node have one of ten priorities and one of sixteen sizes, in a hundred leaves.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.contention import SETTINGS, ContendedCluster, StretchTimer, vcores
from benchmarks.figures import Figure
from muster_core.config.model import Configuration, Limits, QueueConfig, Settings
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind, Reason
from muster_core.events import AddApp, AddAsk, AddNode, AddPriorityClass, Configure, Event, Release
from muster_core.resources import Resources

NODES = 1_000
SLOTS = 100
LEAVES = 10
BATCHES = 30


@attrs.frozen
class Case:
    """A case to measure.

    Attributes:
        name: Its name.
        about: Its description.
        config: Returns the queues for a number of allocations.
        waiting: The pending asks that may evict others.
        priority_class: The priority class of the running asks.
        takes: Whether asks are evicted.
    """

    name: str
    about: str
    config: Callable[[int], tuple[QueueConfig, ...]]
    waiting: Callable[[int], Iterator[Event]]
    priority_class: str | None = None
    evicts: bool = False


def leaves(
    guaranteed: int = 0, settings: Settings = SETTINGS, most: int | None = None
) -> tuple[QueueConfig, ...]:
    """Return the leaves of the running asks."""
    return tuple(
        QueueConfig(
            name=f"l{at}",
            path=f"root.l{at}",
            is_parent=False,
            guaranteed=vcores(guaranteed) if guaranteed else Resources(),
            max=Limits() if most is None else Limits((("vcore", most),)),
            settings=settings,
        )
        for at in range(LEAVES)
    )


def owed(amount: int) -> QueueConfig:
    """Return a leaf that has guaranteed resources and uses none."""
    return QueueConfig(
        name="owed",
        path="root.owed",
        is_parent=False,
        guaranteed=vcores(amount),
        settings=SETTINGS,
    )


def asks(
    queue: str, size: int = 1, priority_class: str | None = None
) -> Callable[[int], Iterator[Event]]:
    """Return a function that yields a hundred asks, of ten sizes if ``size`` is above 1."""

    def events(_: int) -> Iterator[Event]:
        yield AddApp(app="waiting", queue=queue)
        for at in range(10):
            yield AddAsk(
                app="waiting",
                ask=f"ask-{at}",
                count=10,
                resources=vcores(size + at if size > 1 else 1),
                priority_class=priority_class,
            )

    return events


FIXED = attrs.evolve(SETTINGS, reclaimable=False)
CASES = (
    Case("none", "nobody has a claim", lambda _: (*leaves(), owed(0)), asks("root.owed")),
    Case(
        "protected",
        "a claim on queues that are not reclaimable",
        lambda _: (*leaves(settings=FIXED), owed(1_000)),
        asks("root.owed"),
    ),
    Case(
        "even",
        "a claim on queues at their guaranteed",
        lambda most: (*leaves(most // LEAVES), owed(1_000)),
        asks("root.owed"),
    ),
    Case(
        "starved",
        "ten claims of 20 or more on queues with 1 more than guaranteed",
        lambda most: (*leaves(most // LEAVES - 1), owed(1_000)),
        asks("root.owed", 20),
    ),
    Case(
        "large",
        "ten claims larger than a node",
        lambda _: (*leaves(), owed(1_000)),
        asks("root.owed", SLOTS + 1),
    ),
    Case(
        "equal",
        "preemption, all who run have the same class",
        lambda _: (*leaves(), owed(0)),
        asks("root.owed", priority_class="high"),
        priority_class="high",
    ),
    Case(
        "at max",
        "the same, in a queue at its max",
        lambda most: leaves(most=most // LEAVES),
        asks("root.l0", priority_class="high"),
        priority_class="high",
    ),
    Case(
        "reclaim",
        "a hundred claims that are met",
        lambda _: (*leaves(), owed(1_000)),
        asks("root.owed"),
        evicts=True,
    ),
    Case(
        "reclaim 20",
        "the same, of 20 to 29",
        lambda _: (*leaves(), owed(10_000)),
        asks("root.owed", 20),
        evicts=True,
    ),
    Case(
        "preempt",
        "a hundred asks that preempt",
        lambda _: (*leaves(), owed(0)),
        asks("root.owed", priority_class="high"),
        evicts=True,
    ),
    Case(
        "preempt max",
        "the same, in a queue at its max",
        lambda most: leaves(most=most // LEAVES),
        asks("root.l0", priority_class="high"),
        evicts=True,
    ),
)


def full_cluster(case: Case, nodes: int, *, enabled: bool) -> PlainScheduler:
    """Create a scheduler with full nodes, and with pending asks in all leaves."""
    most = nodes * SLOTS
    root = QueueConfig(
        name="root",
        path="root",
        is_parent=True,
        settings=SETTINGS,
        children=case.config(most),
    )
    config = Configuration(partition="default", root=root, preemption_enabled=enabled)
    scheduler = PlainScheduler(config)
    scheduler.submit(Configure(config=config))
    scheduler.submit(AddPriorityClass("high", 10, preempts=True))
    for at in range(nodes):
        scheduler.submit(AddNode(node=f"node-{at:04}", capacity=vcores(SLOTS)))
    for at in range(LEAVES * 10):
        scheduler.submit(AddApp(app=f"app-{at:03}", queue=f"root.l{at % LEAVES}"))
        scheduler.submit(
            AddAsk(
                app=f"app-{at:03}",
                ask="ask",
                count=most // LEAVES // 10 + 100,
                resources=vcores(1),
                priority_class=case.priority_class,
            )
        )
    scheduler.settle()
    return scheduler


def time_case(case: Case, nodes: int, *, enabled: bool) -> tuple[float, float, int]:
    """Measure a case.

    Returns:
        The seconds of the batch that adds the pending asks, the seconds of one of the batches
        after it, and the number of evicted asks.
    """
    scheduler = full_cluster(case, nodes, enabled=enabled)
    gc.collect()
    start = time.process_time()
    for event in case.waiting(nodes * SLOTS):
        scheduler.submit(event)
    scheduler.settle()
    first = time.process_time() - start
    bound = [one.decision for one in scheduler.announced if one.decision.kind is Kind.BOUND]
    start = time.process_time()
    for decision in bound[1 : BATCHES + 1]:
        if decision.app is not None and decision.ask is not None:
            scheduler.submit(Release(decision.app, decision.ask))
        scheduler.settle()
    each = (time.process_time() - start) / BATCHES
    reasons = (Reason.RECLAIMED, Reason.PREEMPTED)
    evicted = sum(one.decision.reason in reasons for one in scheduler.announced)
    return first, each, evicted


SIZES = (400, 1_000, 5_000)
"""The sizes of the asks that evict others: one or two victims, a few, and many."""


def measure(scale: float) -> list[Figure]:
    """Measure the cost of plans, and the longest stretch of a search without a pause.

    Args:
        scale: The share of the full size.
    """
    gc.disable()  # Its pauses would count as stretches, and depend on the number of objects.
    nodes = max(1, int(NODES * scale))
    full = ContendedCluster(nodes, SLOTS)
    stretches = StretchTimer(full.scheduler)
    first = full.evict("urgent", SIZES[0])
    figures = [Figure("evictions", "the first search", 1e3 * first, "ms")]
    plans: dict[tuple[str, int], float] = {}
    for app, means in (("owed", "reclaim"), ("urgent", "preemption")):
        for size in SIZES:
            plans[app, size] = full.plan(app, size)
            figures.append(Figure("evictions", f"{means} of {size}", 1e3 * plans[app, size], "ms"))
    before = median(full.replace() for _ in range(BATCHES))
    full.add_futile()
    after = median(full.replace() for _ in range(BATCHES))
    added = f"{1e3 * (after - before):.2f} ms"
    figures += [
        Figure("evictions", "1,000 asks in vain, a batch", after / before, "× without", raw=added),
        Figure("evictions", "longest stretch", 1e3 * stretches.longest_s, "ms", target=5),
    ]
    del full
    few, known = max(1, nodes // 10), {(nodes, SLOTS): plans}
    for what, sizes in (
        ("allocations × 10", ((few, SLOTS // 10), (few, SLOTS), (few, 10 * SLOTS))),
        ("nodes × 10", ((few, 10 * SLOTS), (nodes, SLOTS), (10 * nodes, SLOTS // 10))),
    ):
        figures += _growth(what, sizes, known)
    return figures


def _growth(
    what: str,
    sizes: Sequence[tuple[int, int]],
    known: dict[tuple[int, int], dict[tuple[str, int], float]],
) -> Iterator[Figure]:
    """Return the largest factor by which the cost of a plan grows with ten times the size."""
    for nodes, asks in sizes:
        if (nodes, asks) not in known:
            made = ContendedCluster(nodes, asks)
            wanted = [(app, SIZES[0]) for app in ("owed", "urgent")]
            known[nodes, asks] = {(app, size): made.plan(app, size) for app, size in wanted}
    for app, means in (("owed", "reclaim"), ("urgent", "preemption")):
        costs = [known[one][app, SIZES[0]] for one in sizes]
        ratio = max(after / before for before, after in pairwise(costs))
        raw = ", ".join(f"{1e3 * cost:.2f} ms" for cost in costs)
        yield Figure("evictions", f"{means}, {what}", ratio, "×", target=2, raw=raw)


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure what reclaim and preemption cost.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the cases; all if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    options = parser.parse_args(arguments)
    nodes = max(1, int(NODES * options.scale))
    gc.set_threshold(100_000, 50, 100)
    table = Table("case", "what", "taken", "first batch, ms", "a batch, ms", "without, ms")
    for case in CASES:
        if options.names and case.name not in options.names:
            continue
        first, each, evicted = time_case(case, nodes, enabled=True)
        gc.collect()
        _, without, _ = time_case(case, nodes, enabled=False)
        gc.collect()
        table.add_row(
            case.name,
            case.about,
            f"{evicted:,}",
            f"{first * 1e3:,.1f}",
            f"{each * 1e3:.2f}",
            f"{without * 1e3:.2f}",
        )
    console = Console(width=110)
    console.print(table)
    console.print(f"Python {platform.python_version()}; {nodes * SLOTS:,} asks on {nodes:,} nodes")


if __name__ == "__main__":
    main(sys.argv[1:])
