"""What it takes to change the configuration under 10,000 applications with 100,000 asks.

It is the cluster of W3, where a fifth runs and the rest waits; the batch that changes the
configuration makes no allocation.
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
from muster_core.coordinator.plain import PlainScheduler
from muster_core.events import Configure, Event

Change = Callable[[QueueConfig], QueueConfig]


def in_leaves(config: QueueConfig, change: Change) -> QueueConfig:
    """Give a queue with all leaves below it changed."""
    if not config.children:
        return change(config)
    children = tuple(in_leaves(child, change) for child in config.children)
    return attrs.evolve(config, children=children)


def limited(leaf: QueueConfig) -> QueueConfig:
    """Give a leaf a max above what it uses: nothing is placed or evicted because of it."""
    return attrs.evolve(leaf, max=Limits((("vcore", 10**9),)))


def fair(leaf: QueueConfig) -> QueueConfig:
    """Give a leaf another order."""
    settings = attrs.evolve(leaf.settings, sort_policy=SortPolicy.FAIR)
    return attrs.evolve(leaf, settings=settings)


def changes() -> Iterator[tuple[str, Configuration]]:
    """Give what is changed, one after the other."""
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
