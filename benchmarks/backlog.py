"""The jobs of two weeks, of which more and more wait.

    python -m benchmarks.backlog                      all variants, with 3,000 jobs each
    python -m benchmarks.backlog --scale 0.1          a tenth of the two weeks
    python -m benchmarks.backlog greedy "depth 100"   these alone

Twelve users of four accounts submit 3,000 jobs to 24 nodes with 32 cores and 8 nodes with 64 cores and
4 GPUs: single jobs, arrays, and gangs of several nodes. The time limits of jobs, which are their
estimates, are longer than they run. Some hundreds of them are pending at a time, and more than a
thousand with a limit of 64 cores for each user: a batch must not look at each of them anew.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Final, final

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure
from muster_core.config.model import (
    Configuration,
    LimitEntry,
    Limits,
    QueueConfig,
    SchedulingOrder,
    Settings,
)
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import MICROSECONDS, Decision, Kind
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Configure, Event
from muster_core.gangs import GangFields
from muster_core.resources import Resources

JOBS: Final = 3_000
GANGS: Final = 464
DAYS: Final = 14
SEED: Final = 1

HOUR_US: Final = 3_600 * MICROSECONDS
GIB: Final = 2**30
CORE: Final = 1_000
GPU: Final = "nvidia.com/gpu"

ACCOUNTS: Final = ("physics", "chemistry", "biology", "climate")
USERS: Final = 12
LIMITS_H: Final = (1, 2, 4, 8, 12, 24, 48)
"""The time limits of jobs, in hours."""


@final
@attrs.frozen
class Variant:
    """How the jobs are scheduled.

    Attributes:
        order: The ``scheduling.order`` of the root.
        depth: Its ``backfill.depth``.
        cores: The most cores that each user may use, or None.
        target_s: The most seconds of the processor that the replay may take; None where it takes
            too long to be measured with all others.
    """

    order: SchedulingOrder = SchedulingOrder.BACKFILL
    depth: int = 1
    cores: int | None = None
    target_s: float | None = 60


VARIANTS: Final[Mapping[str, Variant]] = {
    "backfill": Variant(),
    "a limit of 64 cores": Variant(cores=64),
    "depth 100": Variant(depth=100),
    "depth 100 and a limit of 64 cores": Variant(depth=100, cores=64, target_s=None),
    "greedy": Variant(SchedulingOrder.GREEDY),
    "greedy and a limit of 64 cores": Variant(SchedulingOrder.GREEDY, cores=64),
}


@final
@attrs.frozen
class ReplayResult:
    """The result of a replay.

    Attributes:
        took_s: The seconds of the processor.
        bound: How many asks were bound.
        backlog: The most asks that were pending at once.
        digest: A digest of all decisions.
    """

    took_s: float
    bound: int
    backlog: int
    digest: str


def configuration(variant: Variant) -> Configuration:
    """Return the queues of a variant."""
    limits: tuple[LimitEntry, ...] = ()
    if variant.cores is not None:
        limits = (LimitEntry(users=("*",), max=Limits.of({"vcore": variant.cores * CORE})),)
    settings = Settings(scheduling_order=variant.order, backfill_depth=variant.depth)
    leaves = tuple(
        QueueConfig(name=name, path=f"root.{name}", is_parent=False, settings=Settings())
        for name in ACCOUNTS
    )
    root = QueueConfig(
        name="root", path="root", is_parent=True, settings=settings, children=leaves, limits=limits
    )
    return Configuration(partition="default", root=root)


def trace(scale: float = 1.0, seed: int = SEED) -> Iterator[tuple[int, Event]]:
    """Yield the nodes and the jobs, with their instants in microseconds.

    Args:
        scale: The share of the two weeks, and of their jobs.
        seed: The seed of all choices.
    """
    for at in range(24):
        capacity = Resources({"vcore": 32 * CORE, "memory": 128 * GIB})
        yield 0, AddNode(node=f"c{at:02}", capacity=capacity, attributes={"partition": "cpu"})
    for at in range(8):
        capacity = Resources({"vcore": 64 * CORE, "memory": 512 * GIB, GPU: 4})
        yield 0, AddNode(node=f"g{at:02}", capacity=capacity, attributes={"partition": "gpu"})
    random = Random(seed)
    left, gangs, span_us = int(JOBS * scale), int(GANGS * scale), int(DAYS * scale * 24 * HOUR_US)
    kinds = ["gang"] * gangs
    while left > len(kinds):
        kinds.append("array" if random.random() < 0.02 else "single")
        left -= 14 if kinds[-1] == "array" else 0
    random.shuffle(kinds)
    instants = sorted(random.randrange(span_us) // MICROSECONDS * MICROSECONDS for _ in kinds)
    for number, (at_us, kind) in enumerate(zip(instants, kinds, strict=True)):
        for event in _job(random, f"{number}", kind):
            yield at_us, event


def _job(random: Random, name: str, kind: str) -> Iterator[Event]:
    # A few users submit most of the jobs.
    user = min(int(random.expovariate(0.3)), USERS - 1)
    account = ACCOUNTS[user % len(ACCOUNTS)]
    yield AddApp(app=name, queue=f"root.{account}", user=f"user-{user}", groups=(account,))
    on_gpus = random.random() < 0.25
    cores = random.choice((1, 1, 2, 4, 4, 8, 8, 16, 32))
    if kind == "gang":
        cores = random.choice((8, 16, 32, 32))
    memory = cores * random.choice((1, 2, 2, 3)) * GIB
    amounts = {"vcore": cores * CORE, "memory": memory}
    if on_gpus:
        amounts[GPU] = random.choice((1, 1, 2, 4))
    limit_us = random.choice(LIMITS_H) * HOUR_US
    ask = AddAsk(
        app=name,
        ask="task",
        resources=Resources(amounts),
        selector={"partition": "gpu" if on_gpus else "cpu"},
        estimate_us=limit_us,
        run_for_us=_run_for_us(random, limit_us),
    )
    if kind == "gang":
        gang, members = f"default/job-{name}", random.choice((2, 2, 2, 3, 4, 4, 8))
        yield AddGang(gang=gang, says=GangFields(min_member=members))
        yield attrs.evolve(ask, gang=gang, count=members)
    elif kind == "array":
        for task in range(15):
            yield attrs.evolve(ask, ask=f"{task}", run_for_us=_run_for_us(random, limit_us))
    else:
        yield ask


def _run_for_us(random: Random, limit_us: int) -> int:
    """Return how long a job runs: one in ten until its limit, most much shorter."""
    share = 1.0 if random.random() < 0.1 else random.random() ** 1.5
    return max(MICROSECONDS, int(limit_us * share) // MICROSECONDS * MICROSECONDS)


def replay(variant: Variant, scale: float = 1.0) -> ReplayResult:
    """Replay the jobs, and measure it.

    Args:
        variant: How they are scheduled.
        scale: The share of the full size.
    """
    config, events = configuration(variant), list(trace(scale))
    scheduler = PlainScheduler(config)
    gc.collect()
    start = time.process_time()
    scheduler.submit(Configure(config=config))
    for at_us, event in events:
        scheduler.submit(event, at_us)
    scheduler.finish()
    took_s = time.process_time() - start
    decisions = [(one.at_us, one.decision) for one in scheduler.announced]
    digest = hashlib.sha256("\n".join(f"{at} {one}" for at, one in decisions).encode()).hexdigest()
    bound = sum(one.kind is Kind.BOUND for _, one in decisions)
    return ReplayResult(took_s, bound, _backlog(events, decisions), digest)


def _backlog(events: Iterable[tuple[int, Event]], decisions: Iterable[tuple[int, Decision]]) -> int:
    """Return the most asks that were pending at the end of an instant."""
    changes: dict[int, int] = {}
    for at_us, event in events:
        if isinstance(event, AddAsk):
            changes[at_us] = changes.get(at_us, 0) + (event.count or 1)
    for at_us, decision in decisions:
        if decision.kind is Kind.BOUND:
            changes[at_us] = changes.get(at_us, 0) - 1
    return max(accumulate(change for _, change in sorted(changes.items())), default=0)


def measure(name: str, scale: float) -> list[Figure]:
    """Replay the jobs in one way.

    Args:
        name: The variant.
        scale: The share of the two weeks.
    """
    variant = VARIANTS[name]
    found = replay(variant, scale)
    note = f"{found.bound:,} asks bound, at most {found.backlog:,} pending"
    return [Figure("backlog", name, found.took_s, "s", variant.target_s, note=note)]


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure replays in which a backlog grows.")
    parser.add_argument("names", nargs="*", help=f"{', '.join(VARIANTS)}; all if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the two weeks")
    options = parser.parse_args(arguments)
    gc.set_threshold(100_000, 50, 100)
    table = Table("what", "s", "asks bound", "most pending", "digest of the decisions")
    for name in options.names or VARIANTS:
        found = replay(VARIANTS[name], options.scale)
        shown = f"{found.took_s:.1f}", f"{found.bound:,}", f"{found.backlog:,}", found.digest[:16]
        table.add_row(name, *shown)
    Console(width=110).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
