"""The cost of changing the configuration with 10,000 applications and 100,000 asks.

The cluster is that of W3, where a fifth of the asks runs and the others are pending. The batch with
the new configuration makes no allocation.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence

import attrs
import trio

import muster
from benchmarks.drive import Counter
from benchmarks.figures import Figure
from benchmarks.workloads import FIFO, FIFTH, mixed
from muster_core.config.model import Configuration, Limits, QueueConfig, SortPolicy
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import Configure, Event

Change = Callable[[QueueConfig], QueueConfig]


def in_leaves(config: QueueConfig, change: Change) -> QueueConfig:
    """Return a copy of a queue in which all leaves are changed."""
    if not config.children:
        return change(config)
    children = tuple(in_leaves(child, change) for child in config.children)
    return attrs.evolve(config, children=children)


def limited(leaf: QueueConfig) -> QueueConfig:
    """Return a leaf with a max above its usage: this causes no placement and no eviction."""
    return attrs.evolve(leaf, max=Limits((("vcore", 10**9),)))


def fair(leaf: QueueConfig) -> QueueConfig:
    """Return a leaf with another sort policy."""
    settings = attrs.evolve(leaf.settings, sort_policy=SortPolicy.FAIR)
    return attrs.evolve(leaf, settings=settings)


def changes() -> Iterator[tuple[str, Configuration]]:
    """Return the changes, in order."""
    with_max = in_leaves(FIFO.root, limited)
    yield "the same again", FIFO
    yield "a max for 100 leaves", attrs.evolve(FIFO, root=with_max)
    yield "fair in 100 leaves", attrs.evolve(FIFO, root=in_leaves(with_max, fair))


def measure(scale: float) -> list[Figure]:
    """Measure all changes, without tasks and with them."""
    events: list[Event] = [Configure(config=FIFO), *mixed(FIFTH)(scale)]
    plain = PlainScheduler(FIFO)
    for event in events:
        plain.submit(event)
    plain.settle()
    gc.collect()
    without: dict[str, float] = {}
    for what, config in changes():
        start = time.process_time()
        plain.submit(Configure(config=config))
        plain.settle()
        without[what] = time.process_time() - start
    del plain
    with_tasks = trio.run(_with_tasks, events)
    return [
        Figure(
            "reload",
            what,
            took * 1e3,
            "ms",
            note=f"without tasks {without[what] * 1e3:,.0f} ms",
        )
        for what, took in with_tasks.items()
    ]


async def _with_tasks(events: Sequence[Event]) -> dict[str, float]:
    found: dict[str, float] = {}
    async with muster.open_simulation(FIFO, journal=Counter()) as scheduler:
        for event in events:
            await scheduler.submit(event)
        await scheduler.settle()
        gc.collect()
        for what, config in changes():
            start = time.process_time()
            await scheduler.submit(Configure(config=config))
            await scheduler.settle()
            found[what] = time.process_time() - start
    return found
