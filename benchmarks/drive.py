"""Runs a workload once, through the scheduler with its tasks or only through the state machines.

``benchmarks.child`` runs both functions in a process of their own. They return

- ``asks``, the number of asks, and ``entry_s``, the seconds in which all events were admitted,
- ``binds``, the number of allocations, and ``rounds_s``, the seconds from the last event to the
  last allocation,
- ``whole_s``, both times together.

If a workload releases asks, which is then its purpose, ``binds`` and ``rounds_s`` are about the
releases, ``entry_s`` is the time of everything before, and ``whole_s`` is the time of the releases
alone.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Final, final

import attrs
import trio

import muster
from benchmarks.workloads import WORKLOADS, Workload
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Kind
from muster_core.events import AddAsk, Configure, Event, Release

RELEASES: Final = 2_000
"""The largest number of released asks."""


@final
@attrs.define
class Counter:
    """A journal that counts binds and records where asks run, and writes nothing."""

    binds: int = 0
    bound: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]])

    def write(self, batch: Sequence[Announced]) -> None:
        """Count the decisions of a batch."""
        for announced in batch:
            decision = announced.decision
            if decision.kind is Kind.BOUND and decision.app and decision.ask:
                self.binds += 1
                self.bound.append((decision.app, decision.ask))


def asks_in(events: Sequence[Event]) -> int:
    """Count the asks in events."""
    return sum(event.count or 1 for event in events if isinstance(event, AddAsk))


def with_tasks(name: str, scale: float, *, releases: int = RELEASES) -> dict[str, float]:
    """Run a workload through the scheduler with its tasks; release at most so many asks."""
    return trio.run(_with_tasks, WORKLOADS[name], scale, releases)


async def _with_tasks(workload: Workload, scale: float, releases: int) -> dict[str, float]:
    counter = Counter()
    events = list(workload.events(scale))
    async with muster.open_simulation(workload.config, journal=counter) as scheduler:
        await scheduler.submit(Configure(config=workload.config))
        gc.collect()
        start = time.process_time()
        for event in events[:-1]:
            await scheduler.submit(event)
        await scheduler.request(events[-1])  # what came before it is let in by now
        entered = time.process_time()
        await scheduler.settle()
        settled = time.process_time()
        if not workload.releases:
            return _measured(events, counter.binds, start, entered, settled)
        first, before_s = counter.binds, settled - start
        gc.collect()
        start = time.process_time()
        for number in range(0, min(first, releases), workload.releases):
            for app, ask in counter.bound[number : number + workload.releases]:
                await scheduler.submit(Release(app=app, ask=ask))
            await scheduler.settle()
        rounds_s = time.process_time() - start
        return _released(events, counter.binds - first, before_s, rounds_s)


def without_tasks(name: str, scale: float, *, releases: int = RELEASES) -> dict[str, float]:
    """Run a workload through the state machines of the core; release at most so many asks."""
    workload = WORKLOADS[name]
    events = list(workload.events(scale))
    scheduler = PlainScheduler(workload.config)
    scheduler.submit(Configure(config=workload.config))
    gc.collect()
    start = time.process_time()
    for event in events:
        scheduler.submit(event)
    entered = time.process_time()
    scheduler.settle()
    settled = time.process_time()
    counter = Counter()
    counter.write(scheduler.announced)
    if not workload.releases:
        return _measured(events, counter.binds, start, entered, settled)
    first, before_s = counter.binds, settled - start
    scheduler.announced.clear()
    gc.collect()
    start = time.process_time()
    for number in range(0, min(first, releases), workload.releases):
        for app, ask in counter.bound[number : number + workload.releases]:
            scheduler.submit(Release(app=app, ask=ask))
        scheduler.settle()
        counter.write(scheduler.announced)
        scheduler.announced.clear()
    rounds_s = time.process_time() - start
    return _released(events, counter.binds - first, before_s, rounds_s)


def _measured(
    events: Sequence[Event], binds: int, start: float, entered: float, settled: float
) -> dict[str, float]:
    return {
        "asks": asks_in(events),
        "binds": binds,
        "entry_s": entered - start,
        "rounds_s": settled - entered,
        "whole_s": settled - start,
    }


def _released(
    events: Sequence[Event], binds: int, before_s: float, rounds_s: float
) -> dict[str, float]:
    return {
        "asks": asks_in(events),
        "binds": binds,
        "entry_s": before_s,
        "rounds_s": rounds_s,
        "whole_s": rounds_s,
    }
