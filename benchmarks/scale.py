"""The scale of everything at once: a million asks, in 10,000 queues, on 100,000 nodes.

    python -m benchmarks.scale              the full size, and a tenth of it in each direction
    python -m benchmarks.scale --scale 0.1  a tenth of both

The smaller cluster has the size of W2, so the figures say what growth in all directions costs. There
is room for some four tenths of the asks. After they are bound, some end, one at a time. The objects
that were loaded are frozen for the collector before the rounds, as ``muster serve`` does.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, final

import attrs
import trio

import muster
from benchmarks.figures import Figure
from benchmarks.latency import Binds, Part, Stopwatch
from benchmarks.workloads import nodes, tree
from muster_core.config.model import Configuration, SortPolicy
from muster_core.events import AddApp, AddAsk, Event, Release
from muster_core.resources import Resources

PARENTS: Final = 100
LEAVES: Final = 100
NODES: Final = 100_000
APPS: Final = 10
"""How many applications a leaf has."""

ASKS: Final = 10
"""How many asks an application has."""

ROOM: Final = 0.035
"""The share of a usual node that each node has, so that four tenths of the asks fit."""

RELEASES: Final = 500
SMALLER: Final = 0.1


@final
@attrs.frozen
class Size:
    """A size of everything.

    Attributes:
        parents: How many queues there are below the root.
        leaves: How many leaves each of them has.
        nodes: How many nodes there are.
    """

    parents: int
    leaves: int
    nodes: int

    @classmethod
    def at(cls, scale: float) -> Size:
        """Return a share of the full size; the number of queues follows it, too."""
        return cls(PARENTS, max(1, int(LEAVES * scale)), max(1, int(NODES * scale)))

    def configuration(self) -> Configuration:
        """Return the queues."""
        return tree(self.parents, self.leaves, SortPolicy.FIFO)

    def events(self) -> Iterator[Event]:
        """Yield nodes, applications and asks of 16 shapes and ten priorities."""
        yield from nodes(self.nodes, ROOM)
        for at in range(self.parents * self.leaves * APPS):
            queue = f"root.p{at % self.parents}.l{at // self.parents % self.leaves}"
            yield AddApp(app=f"app-{at}", queue=queue)
            for ask in range(ASKS):
                shape = (at + ask) % 16
                amounts = {"vcore": 100 + 25 * shape, "memory": (1 + shape % 4) * 2**28}
                priority = (at * 7 + ask * 3) % 10
                yield AddAsk(f"app-{at}", f"ask-{ask}", Resources(amounts), priority=priority)


@final
@attrs.frozen
class RunFigures:
    """The figures of a run.

    Attributes:
        bind_us: The processor time of an allocation, in microseconds.
        release_us: That of a release with its batch.
        pass_ms: The longest pass of trio without pauses of the collector, in milliseconds.
        pause_ms: The longest pause of the collector after loading, in milliseconds.
    """

    bind_us: float
    release_us: float
    pass_ms: float
    pause_ms: float


def run(size: Size) -> RunFigures:
    """Run a size once."""
    stopwatch = Stopwatch()
    gc.callbacks.append(stopwatch.collecting)
    try:
        return trio.run(_run, size, stopwatch, instruments=[stopwatch])
    finally:
        gc.callbacks.remove(stopwatch.collecting)
        gc.unfreeze()


async def _run(size: Size, stopwatch: Stopwatch) -> RunFigures:
    journal, config = Binds(), size.configuration()
    await trio.lowlevel.checkpoint()
    async with muster.open_simulation(config, journal=journal) as scheduler:
        with stopwatch.part("load"):
            for event in size.events():
                await scheduler.submit(event)
        gc.freeze()
        with stopwatch.part("rounds"):
            start = time.process_time()
            await scheduler.settle()
            rounds_s = time.process_time() - start
        gc.freeze()
        stopwatch.parts.append(Part("(preparing)"))
        found = journal.take()
        binds, bound = len(found), found[:RELEASES]
        await trio.lowlevel.checkpoint()
        with stopwatch.part("releases"):
            start = time.process_time()
            for app, ask in bound:
                await scheduler.submit(Release(app=app, ask=ask))
                await scheduler.settle()
            releases_s = time.process_time() - start
        stopwatch.parts.append(Part("close"))
    measured = [part for part in stopwatch.parts if part.name in {"load", "rounds", "releases"}]
    after = [part for part in measured if part.name != "load"]
    pauses = [pause for part in after for some in part.pauses_s.values() for pause in some]
    return RunFigures(
        bind_us=1e6 * rounds_s / max(1, binds),
        release_us=1e6 * releases_s / max(1, len(bound)),
        pass_ms=1e3 * max(part.longest_pass_s for part in measured),
        pause_ms=1e3 * max(pauses, default=0.0),
    )


def measure(scale: float) -> list[Figure]:
    """Measure the full size, and a tenth of everything."""
    small, large = run(Size.at(scale * SMALLER)), run(Size.at(scale))
    return [
        Figure("scale", "an allocation", large.bind_us, "µs"),
        Figure("scale", "over a tenth of it", large.bind_us / small.bind_us, "×", 2.0),
        Figure("scale", "a release with its batch", large.release_us, "µs"),
        Figure("scale", "over a tenth of it", large.release_us / small.release_us, "×"),
        Figure("scale", "longest pass", large.pass_ms, "ms", 20.0),
        Figure("scale", "longest pause of the collector", large.pause_ms, "ms"),
    ]


def main(arguments: Sequence[str]) -> None:
    """Measure once, and print the figures."""
    parser = argparse.ArgumentParser(description="Measure everything at once.")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    gc.set_threshold(100_000, 50, 100)
    for figure in measure(parser.parse_args(arguments).scale):
        print(f"{figure.what:32} {figure.value:12,.2f} {figure.unit}")


if __name__ == "__main__":
    main(sys.argv[1:])
