"""A log of jobs on one node, and the shortest program that decides the same.

Each job is an application with one ask: it is submitted, bound, ends by itself, and its application
closes, in three to four batches. So this measures what a batch costs, and hardly what an
allocation does. The plain simulator knows a heap of ends and a queue of jobs, first come first served,
and starts every job at the same instant as Muster (:func:`measure` compares them).
"""

from __future__ import annotations

import gc
import heapq
import time
from collections import deque
from collections.abc import Iterator, Mapping
from random import Random
from typing import Final, final

import attrs
import trio

import muster
from benchmarks.drive import Counter
from benchmarks.figures import Figure
from benchmarks.workloads import partition, queue
from muster_core.config.model import Configuration, SchedulingOrder, Settings
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import MICROSECONDS, Announced, Kind
from muster_core.events import AddApp, AddAsk, AddNode, Configure, Event
from muster_core.resources import Resources

JOBS: Final = 10_000
CORES: Final = 256
CORE: Final = 1_000
APART_US: Final = 700 * MICROSECONDS


@final
@attrs.frozen
class Variant:
    """How the jobs are scheduled.

    Attributes:
        order: The ``scheduling.order`` of the root.
        hours: The longest that a job runs; the longer, the more jobs wait.
    """

    order: SchedulingOrder
    hours: float


VARIANTS: Final[Mapping[str, Variant]] = {
    "jobs": Variant(SchedulingOrder.GREEDY, 1),
    "jobs that wait": Variant(SchedulingOrder.STRICT, 5),
    "jobs, backfill": Variant(SchedulingOrder.BACKFILL, 5),
}


@final
@attrs.frozen
class Job:
    """A job.

    Attributes:
        at_us: When it arrives, in microseconds.
        cores: How many cores it takes.
        run_us: How long it runs, in microseconds.
    """

    at_us: int
    cores: int
    run_us: int


def log(variant: Variant, number: int) -> Iterator[Job]:
    """Yield jobs with 1 to 64 cores, always the same ones."""
    random = Random(1)
    for at in range(number):
        cores = random.choice((1, 2, 4, 8, 16, 32, 64))
        run_s = random.randrange(60, int(3_600 * variant.hours))
        yield Job(at * APART_US, cores, run_s * MICROSECONDS)


def configuration(variant: Variant) -> Configuration:
    """Return one leaf."""
    whole = partition([queue("root.all", Settings())])
    settings = attrs.evolve(whole.root.settings, scheduling_order=variant.order)
    return attrs.evolve(whole, root=attrs.evolve(whole.root, settings=settings))


def feed(variant: Variant, number: int) -> Iterator[tuple[int, Event]]:
    """Yield the node and the jobs, with their instants in microseconds."""
    yield 0, AddNode(node="node", capacity=Resources({"vcore": CORES * CORE}))
    for at, job in enumerate(log(variant, number)):
        yield job.at_us, AddApp(app=f"{at}", queue="root.all")
        ask = AddAsk(
            app=f"{at}",
            ask="job",
            resources=Resources({"vcore": job.cores * CORE}),
            run_for_us=job.run_us,
            estimate_us=job.run_us,
        )
        yield job.at_us, ask


def without_tasks(name: str, number: int) -> list[Announced]:
    """Run jobs through the state machines of the core; return the decisions."""
    variant = VARIANTS[name]
    events = list(feed(variant, number))
    scheduler = PlainScheduler(configuration(variant))
    scheduler.submit(Configure(config=configuration(variant)))
    gc.collect()
    for at_us, event in events:
        scheduler.submit(event, at_us)
    scheduler.finish()
    return scheduler.announced


def with_tasks(name: str, number: int) -> int:
    """Run jobs through the scheduler with its tasks; return how many were bound."""
    return trio.run(_with_tasks, VARIANTS[name], number)


async def _with_tasks(variant: Variant, number: int) -> int:
    counter, events = Counter(), list(feed(variant, number))
    async with muster.open_simulation(configuration(variant), journal=counter) as scheduler:
        await scheduler.submit(Configure(config=configuration(variant)))
        gc.collect()
        for at_us, event in events:
            await scheduler.submit(event, at_us=at_us)
        await scheduler.finish()
    return counter.binds


def simulated(jobs: Iterator[Job]) -> list[int]:
    """Return the start of each job in microseconds, by plain first come, first served."""
    starts: list[int] = []
    ends: list[tuple[int, int]] = []
    waiting: deque[Job] = deque()
    free = CORES

    def start(now_us: int) -> None:
        nonlocal free
        while waiting and waiting[0].cores <= free:
            job = waiting.popleft()
            free -= job.cores
            heapq.heappush(ends, (now_us + job.run_us, job.cores))
            starts.append(now_us)

    def end(until_us: float) -> None:
        nonlocal free
        while ends and ends[0][0] <= until_us:
            now_us = ends[0][0]
            while ends and ends[0][0] == now_us:
                free += heapq.heappop(ends)[1]
            start(now_us)

    for job in jobs:
        end(job.at_us)
        waiting.append(job)
        start(job.at_us)
    end(float("inf"))
    return starts


def measure(scale: float) -> list[Figure]:
    """Measure each variant with and without tasks, and the plain simulator beside them."""
    number = max(10, int(JOBS * scale))
    figures: list[Figure] = []
    for name, variant in VARIANTS.items():
        if variant.order is SchedulingOrder.STRICT:
            start = time.process_time()
            expected = simulated(log(variant, number))
            plain_s = time.process_time() - start
            announced = without_tasks(name, number)
            found = [one.at_us for one in announced if one.decision.kind is Kind.BOUND]
            if found != expected:
                msg = "Muster and the plain simulator start jobs at different instants"
                raise AssertionError(msg)
            figures.append(
                Figure("jobs", "the plain simulator", plain_s / number * 1e6, "µs a job")
            )
        start = time.process_time()
        with_tasks(name, number)
        took_s = time.process_time() - start
        figures.append(Figure("jobs", f"{name}, with tasks", took_s / number * 1e6, "µs a job"))
    return figures
