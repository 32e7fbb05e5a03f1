"""How fast decisions are made, through the whole scheduler with its tasks.

    python benchmarks/run.py                 everything, in some minutes
    python benchmarks/run.py --scale 0.1     a tenth of the asks, for a first look
    python benchmarks/run.py W1 W4           only these

Times are those of the processor, so that other programs do not count. They are also given as
multiples of the work that no scheduler can avoid (see ``lower_bound.py``), measured in the same
run: these numbers mean the same on every machine. The last column compares with the same
machines driven by one loop, without tasks (``muster_core.plain``): what the tasks cost.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import attrs
import trio
from lower_bound import seconds_per_allocation
from rich.console import Console
from rich.table import Table

import muster
from muster_core.config.model import Configuration, QueueConfig, Settings, SortPolicy
from muster_core.decisions import Announced, Kind
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Configure, Event, Release
from muster_core.gangs.definition import GangFields, GangMode
from muster_core.plain import PlainScheduler
from muster_core.resources import Resources

NODES = 1_000
NODE = Resources({"vcore": 64_000, "memory": 256 * 2**30})
RELEASES = 2_000
"""How many asks are released at the most."""


@attrs.define
class Counter:
    """A journal that counts binds and remembers where asks run, and writes nothing."""

    binds: int = 0
    bound: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]])

    def write(self, batch: Sequence[Announced]) -> None:
        """Count what a batch decided."""
        for announced in batch:
            decision = announced.decision
            if decision.kind is Kind.BOUND and decision.app and decision.ask:
                self.binds += 1
                self.bound.append((decision.app, decision.ask))


@attrs.frozen
class Workload:
    """What is measured.

    Attributes:
        name: What it is called.
        about: What it is.
        config: The queues.
        events: Everything that comes, for a share of the full size; all of it before the rounds.
        releases: After the rounds so many asks are released at a time, until as many
            as were bound have been released; 0 for none.
    """

    name: str
    about: str
    config: Configuration
    events: Callable[[float], Iterator[Event]]
    releases: int = 0


def queue(path: str, settings: Settings, children: Sequence[QueueConfig] = ()) -> QueueConfig:
    """Make a queue without limits."""
    name = path.rpartition(".")[2]
    return QueueConfig(
        name=name, path=path, is_parent=bool(children), settings=settings, children=tuple(children)
    )


def tree(parents: int, leaves: int, policy: SortPolicy) -> Configuration:
    """Make a tree of two levels below the root."""
    leaf = Settings(sort_policy=policy)
    middle = [
        queue(
            f"root.p{at}",
            Settings(),
            [queue(f"root.p{at}.l{leaf_at}", leaf) for leaf_at in range(leaves)],
        )
        for at in range(parents)
    ]
    return Configuration(partition="default", root=queue("root", Settings(), middle))


def nodes(room: float = 1.0) -> Iterator[Event]:
    """Give the nodes, with a share of what they usually have."""
    capacity = Resources({name: int(amount * room) for name, amount in NODE.items()})
    for at in range(NODES):
        yield AddNode(node=f"node-{at:04}", capacity=capacity)


def plain(scale: float) -> Iterator[Event]:
    """Two applications with equal asks, which all fit."""
    yield from nodes()
    for at in range(2):
        yield AddApp(app=f"app-{at}", queue=f"root.p{at}.l0")
        yield AddAsk(
            app=f"app-{at}",
            ask="ask",
            count=max(1, int(5_000 * scale)),
            resources=Resources({"vcore": 1_000, "memory": 2**30}),
        )


def mixed(room: float) -> Callable[[float], Iterator[Event]]:
    """Many applications, priorities and shapes."""

    def events(scale: float) -> Iterator[Event]:
        yield from nodes(room * scale)
        for at in range(int(10_000 * scale)):
            name = f"app-{at:05}"
            yield AddApp(app=name, queue=f"root.p{at % 10}.l{at // 10 % 10}")
            for ask in range(10):
                shape = (at + ask) % 16
                yield AddAsk(
                    app=name,
                    ask=f"ask-{ask}",
                    priority=(at * 7 + ask * 3) % 10,
                    resources=Resources(
                        {"vcore": 100 + 25 * shape, "memory": (1 + shape % 4) * 2**28}
                    ),
                )

    return events


def gangs(room: float, mode: GangMode | None) -> Callable[[float], Iterator[Event]]:
    """A thousand gangs of 8 to 64 members, and room for a share of them; None for plain asks."""

    def events(scale: float) -> Iterator[Event]:
        sizes = [8 + at * 37 % 57 for at in range(int(1_000 * scale))]
        vcores = max(1, int(sum(sizes) * room / NODES))
        for at in range(NODES):
            yield AddNode(node=f"node-{at:04}", capacity=Resources({"vcore": vcores}))
        for at, size in enumerate(sizes):
            app, name = f"app-{at:04}", f"default/gang-{at:04}"
            yield AddApp(app=app, queue=f"root.p{at % 10}.l0")
            if mode is not None:
                yield AddGang(gang=name, says=GangFields(min_member=size, mode=mode))
            gang = None if mode is None else name
            one = Resources({"vcore": 1})
            yield AddAsk(app=app, ask="member", count=size, resources=one, gang=gang)

    return events


TEN = tree(10, 1, SortPolicy.FIFO)
FIFO = tree(10, 10, SortPolicy.FIFO)
FAIR = tree(10, 10, SortPolicy.FAIR)
WORKLOADS = (
    Workload("W1", "2 leaves, 10,000 equal asks", tree(2, 1, SortPolicy.FIFO), plain),
    Workload("W2", "100 leaves, 100,000 asks, 16 shapes, fifo", FIFO, mixed(1.0)),
    Workload("W3a", "W2, room for a fifth, releases one by one", FIFO, mixed(0.09), releases=1),
    Workload("W3b", "W2, room for a fifth, releases by 100", FIFO, mixed(0.09), releases=100),
    Workload("W4", "W2 with the policy fair", FAIR, mixed(1.0)),
    Workload("W6", "the members of 1,000 gangs of 8 to 64 as plain asks", TEN, gangs(1.1, None)),
    Workload("W6a", "Strict gangs of them, all fit", TEN, gangs(1.1, GangMode.STRICT)),
    Workload("W6b", "Strict, room for 60 %", TEN, gangs(0.6, GangMode.STRICT)),
    Workload("W6c", "NonStrict, room for 60 %", TEN, gangs(0.6, GangMode.NON_STRICT)),
)


@attrs.frozen
class Result:
    """What was measured: asks that came and allocations made, and the seconds that it took."""

    asks: int
    entry_s: float
    binds: int
    rounds_s: float
    whole_s: float


async def measure(workload: Workload, scale: float) -> Result:
    """Run a workload once.

    Args:
        workload: What to run.
        scale: Which share of its full size.
    """
    counter = Counter()
    async with muster.open_simulation(workload.config, journal=counter) as scheduler:
        await scheduler.submit(Configure(config=workload.config))
        asks = 0
        start = time.process_time()
        for event in workload.events(scale):
            await scheduler.submit(event)
            if isinstance(event, AddAsk):
                asks += event.count or 1
        entered = time.process_time()
        await scheduler.settle()
        settled = time.process_time()
        if not workload.releases:
            return Result(asks, entered - start, counter.binds, settled - entered, settled - start)
        first, number = counter.binds, 0
        while number < min(first, RELEASES):
            for app, ask in counter.bound[number : number + workload.releases]:
                await scheduler.submit(Release(app=app, ask=ask))
            await scheduler.settle()
            number += workload.releases
        released = time.process_time()
        return Result(
            asks,
            entered - start,
            counter.binds - first,
            released - settled,
            released - start,
        )


def without_tasks(workload: Workload, scale: float) -> float:
    """Do the same without tasks; give the seconds that all of it took."""
    scheduler = PlainScheduler(workload.config)
    scheduler.submit(Configure(config=workload.config))
    start = time.process_time()
    for event in workload.events(scale):
        scheduler.submit(event)
    scheduler.settle()
    if workload.releases:
        counter = Counter()
        counter.write(scheduler.announced)
        for number in range(0, min(counter.binds, RELEASES), workload.releases):
            for app, ask in counter.bound[number : number + workload.releases]:
                scheduler.submit(Release(app=app, ask=ask))
            scheduler.settle()
    return time.process_time() - start


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure how fast decisions are made.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="W1 … W4; all if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    options = parser.parse_args(arguments)
    gc.set_threshold(100_000, 50, 100)  # the usual thresholds cost a third of the time
    unavoidable = min(seconds_per_allocation() for _ in range(3))

    table = Table(
        "workload",
        "what",
        "asks/s in",
        "allocations",
        "a second",
        "times unavoidable",
        "times without tasks",
    )
    for workload in WORKLOADS:
        if options.names and workload.name not in options.names:
            continue
        result = trio.run(measure, workload, options.scale)
        gc.collect()
        plainly_s = without_tasks(workload, options.scale)
        gc.collect()
        each = result.rounds_s / max(1, result.binds)
        table.add_row(
            workload.name,
            workload.about,
            f"{result.asks / result.entry_s:,.0f}",
            f"{result.binds:,}",
            f"{1 / each:,.0f}",
            f"{each / unavoidable:.1f}",
            f"{result.whole_s / plainly_s:.2f}",
        )
    console = Console(width=110)
    console.print(table)
    console.print(
        f"Python {platform.python_version()}; unavoidable: {unavoidable * 1e6:.2f} µs an allocation"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
