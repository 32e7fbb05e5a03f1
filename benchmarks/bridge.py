"""The cost of using the scheduler from asyncio, and the lag of the host's loop during a round.

    python -m benchmarks.bridge                 some seconds
    python -m benchmarks.bridge --repeats 20    more precise
    python -m benchmarks.bridge --json          the same figures for programs

Everything is measured several times, in turns, in one run; the figures are medians. ``trio`` is
the scheduler without a bridge, in a trio program, for comparison. A call is ``Scheduler.settle``
with nothing to decide. For the lag, a task of the host sleeps a millisecond at a time: the lag is
how much too late it wakes, while one batch of many asks is decided, and while nothing happens.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Protocol

import attrs
import trio
from rich.console import Console
from rich.table import Table

import muster
import muster.asyncio
from benchmarks.figures import Figure
from muster import RefusedError
from muster.asyncio import Mode
from muster_core.events import AddApp, AddAsk, AddNode, Event, RemoveApp
from muster_core.resources import Resources

CALLS = 1_000
AT_ONCE = 100
NODES = 50
BATCHES = 5
"""The number of batches in each turn."""
TICK_S = 0.001
ROUND_MS = 50.0
"""The intended duration of a batch, in milliseconds."""
QUIET_S = 0.25
"""How long the lag is measured while nothing happens, in seconds."""


class Scheduler(Protocol):
    """The common methods of the two schedulers that this module uses."""

    async def settle(self) -> None:
        """Wait until all submitted events are decided."""
        ...

    async def submit_many(self, events: Sequence[Event]) -> tuple[RefusedError | None, ...]:
        """Submit many events."""
        ...


@attrs.frozen
class Host:
    """The asynchronous framework of the program around the scheduler.

    Attributes:
        sleep: Sleeps some seconds.
        together: Runs the same function several times at once.
        beside: Runs a second function until the first one has ended.
    """

    sleep: Callable[[float], Awaitable[None]]
    together: Callable[[Callable[[], Awaitable[None]], int], Awaitable[None]]
    beside: Callable[
        [Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]], Awaitable[None]
    ]


@attrs.frozen
class Figures:
    """The figures of one measurement.

    Attributes:
        one_by_one: Calls per second, one after the other.
        at_once: Calls per second, by a hundred tasks.
        p50_us: The median duration of a call, in microseconds.
        p95_us: The 95th percentile of the duration of a call, in microseconds.
        round_ms: The duration of the batch, in milliseconds.
        lag_p95_ms: The 95th percentile of the lag of the loop during it, in milliseconds.
        lag_max_ms: The longest lag of the loop during it, in milliseconds.
        quiet_p95_ms: The 95th percentile of the lag while nothing is decided, in milliseconds.
        quiet_max_ms: The longest lag while nothing is decided, in milliseconds.
    """

    one_by_one: float
    at_once: float
    p50_us: float
    p95_us: float
    round_ms: float
    lag_p95_ms: float
    lag_max_ms: float
    quiet_p95_ms: float
    quiet_max_ms: float


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def measure_once(scheduler: Scheduler, host: Host, asks: int) -> Figures:
    """Measure everything once, with either framework."""
    await scheduler.submit_many(list(nodes()))
    for _ in range(50):
        await scheduler.settle()

    took: list[float] = []
    for _ in range(CALLS):
        before = time.perf_counter()
        await scheduler.settle()
        took.append(time.perf_counter() - before)

    async def call_repeatedly() -> None:
        for _ in range(CALLS // AT_ONCE):
            await scheduler.settle()

    start = time.perf_counter()
    await host.together(call_repeatedly, AT_ONCE)
    at_once_s = time.perf_counter() - start

    async def rest() -> None:
        await host.sleep(QUIET_S)

    events = list(load(asks))  # not while the lag is measured: it is not the scheduler's work

    async def batch() -> None:
        await scheduler.submit_many(events)

    _, quiet_lags = await lag(host, rest)
    lags: list[float] = []
    rounds: list[float] = []
    for _ in range(BATCHES):
        round_s, more = await lag(host, batch)
        rounds.append(round_s)
        lags += more
        await scheduler.submit_many([RemoveApp("load")])
    return Figures(
        one_by_one=CALLS / sum(took),
        at_once=CALLS / at_once_s,
        p50_us=median(took) * 1e6,
        p95_us=percentile(took, 0.95) * 1e6,
        round_ms=median(rounds) * 1e3,
        lag_p95_ms=percentile(lags, 0.95) * 1e3,
        lag_max_ms=max(lags) * 1e3,
        quiet_p95_ms=percentile(quiet_lags, 0.95) * 1e3,
        quiet_max_ms=max(quiet_lags) * 1e3,
    )


async def lag(host: Host, work: Callable[[], Awaitable[None]]) -> tuple[float, list[float]]:
    """Run work; return its duration and the lags of the loop during it, in seconds."""
    lags: list[float] = []
    is_over = False
    took_s = 0.0

    async def run() -> None:
        nonlocal is_over, took_s
        start = time.perf_counter()
        await work()
        took_s = time.perf_counter() - start
        is_over = True

    async def tick() -> None:
        while not is_over:
            before = time.perf_counter()
            await host.sleep(TICK_S)
            lags.append(time.perf_counter() - before - TICK_S)

    await host.beside(run, tick)
    return took_s, lags


def nodes() -> Iterator[Event]:
    """Return nodes with room for all asks."""
    for at in range(NODES):
        yield AddNode(f"node-{at:03}", Resources({"vcore": 10**9, "memory": 2**50}))


def load(asks: int) -> Iterator[Event]:
    """Return an application and its asks, of several shapes and priorities."""
    yield AddApp("load", "root.load")
    for at in range(asks):
        shape = Resources({"vcore": 100 + 25 * (at % 16), "memory": 2**28})
        yield AddAsk("load", f"ask-{at:05}", shape, priority=at % 10)


async def _together_trio(function: Callable[[], Awaitable[None]], times: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(times):
            nursery.start_soon(function)


async def _beside_trio(
    first: Callable[[], Awaitable[None]], second: Callable[[], Awaitable[None]]
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(second)
        nursery.start_soon(first)


async def _together_asyncio(function: Callable[[], Awaitable[None]], times: int) -> None:
    await asyncio.gather(*(function() for _ in range(times)))


async def _beside_asyncio(
    first: Callable[[], Awaitable[None]], second: Callable[[], Awaitable[None]]
) -> None:
    await asyncio.gather(second(), first())


TRIO = Host(trio.sleep, _together_trio, _beside_trio)
ASYNCIO = Host(asyncio.sleep, _together_asyncio, _beside_asyncio)


async def in_trio(asks: int) -> Figures:
    """Measure the scheduler in a trio program."""
    async with muster.open_scheduler() as scheduler:
        return await measure_once(scheduler, TRIO, asks)


async def in_asyncio(mode: Mode, asks: int) -> Figures:
    """Measure the scheduler in an asyncio program."""
    async with muster.asyncio.open_scheduler(mode=mode) as scheduler:
        return await measure_once(scheduler, ASYNCIO, asks)


def run_trio(asks: int) -> Figures:
    """Run a trio program that measures the scheduler."""
    return trio.run(in_trio, asks)


def run_asyncio(mode: Mode, asks: int) -> Figures:
    """Run an asyncio program that measures the scheduler."""
    return asyncio.run(in_asyncio(mode, asks))


def enough_asks(round_ms: float) -> int:
    """Find the number of asks for a batch of the intended duration."""
    asks = 500
    for _ in range(3):
        asks = max(10, int(asks * round_ms / run_trio(asks).round_ms))
    return asks


def measure(scale: float) -> list[Figure]:
    """Measure all ways of use once, for the table of all benchmarks."""
    asks = enough_asks(ROUND_MS * max(0.1, scale))
    base = run_trio(asks)
    found: list[Figure] = []
    for mode in Mode:
        one = run_asyncio(mode, asks)
        rounds = f"{one.round_ms:.1f} ms over {base.round_ms:.1f} ms"
        ratio, added = one.round_ms / base.round_ms, one.p50_us - base.p50_us
        found += [
            Figure("bridge", f"{mode.value}: a batch", ratio, "× trio", raw=rounds),
            Figure("bridge", f"{mode.value}: added to a call", added, "µs"),
            Figure("bridge", f"{mode.value}: lag of the loop, 95 %", one.lag_p95_ms, "ms"),
        ]
    return found


def medians_of(results: Sequence[Figures]) -> Figures:
    """Return the medians."""
    names = [field.name for field in attrs.fields(Figures)]
    return Figures(**{name: median(getattr(one, name) for one in results) for name in names})


def show(medians: dict[str, Figures], asks: int, repeats: int) -> None:
    """Print a table."""
    table = Table(title=f"a batch of {asks:,} asks; medians of {repeats} turns")
    for title in (
        "",
        "calls/s",
        f"calls/s by {AT_ONCE}",
        "added µs p50",
        "p95",
        "batch ms",
        "lag ms p95",
        "max",
        "quiet p95",
        "max",
    ):
        table.add_column(title, justify="right" if title else "left")
    base = medians["trio"]
    for name, one in medians.items():
        added = (one.p50_us - base.p50_us, one.p95_us - base.p95_us)
        table.add_row(
            name,
            f"{one.one_by_one:,.0f}",
            f"{one.at_once:,.0f}",
            *("" if one is base else f"{us:+.0f}" for us in added),
            f"{one.round_ms:.0f}",
            f"{one.lag_p95_ms:.1f}",
            f"{one.lag_max_ms:.1f}",
            f"{one.quiet_p95_ms:.1f}",
            f"{one.quiet_max_ms:.1f}",
        )
    console = Console(width=110)
    console.print(table)
    console.print(
        f"Python {platform.python_version()}; a call in trio: p50 {base.p50_us:.0f} µs, "
        f"p95 {base.p95_us:.0f} µs"
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure the bridge between asyncio and trio.")
    parser.add_argument("--repeats", type=int, default=7, help="how often all is measured")
    parser.add_argument("--round-ms", type=float, default=ROUND_MS, help="how long a batch takes")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)

    asks = enough_asks(options.round_ms)
    turns: dict[str, Callable[[], Figures]] = {"trio": partial(run_trio, asks)}
    for mode in Mode:
        turns[mode.value] = partial(run_asyncio, mode, asks)
    results: dict[str, list[Figures]] = {name: [] for name in turns}
    for _ in range(options.repeats):
        for name, turn in turns.items():
            gc.collect()
            results[name].append(turn())
    medians = {name: medians_of(found) for name, found in results.items()}
    if options.json:
        figures = {name: attrs.asdict(one) for name, one in medians.items()}
        print(json.dumps({"asks": asks, "repeats": options.repeats, "medians": figures}))
    else:
        show(medians, asks, options.repeats)


if __name__ == "__main__":
    main(sys.argv[1:])
