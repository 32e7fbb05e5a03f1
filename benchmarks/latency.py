"""How long the other tasks of a program wait while the scheduler works.

    python -m benchmarks.latency                 every part, with its longest stretches
    python -m benchmarks.latency --where         and what ran in those of more than 3 ms
    python -m benchmarks.latency --scale 0.1     a tenth of the size

A *step* is the work of one task between two checkpoints. A *pass* is the work of all tasks that
were ready at once: trio checks timers and sockets only between two passes. So the length of passes
matters to a service, and many short steps make one long pass. Both are measured in processor time,
without other programs. For the *lag*, a task sleeps 5 ms at a time: the lag is how much too late
it wakes. It is wall-clock time, including the effect of other programs.

The garbage collector of the interpreter stops every task. Its pauses are measured separately, and
are not part of steps and passes: they depend on the thresholds, which each program sets, and on
all other objects of the program (see docs/performance.md).
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeVar, final

import attrs
import trio
from typing_extensions import override

import muster
from benchmarks.figures import Figure, with_unit
from benchmarks.workloads import FIFO, mixed
from muster_core.decisions import Announced, Kind
from muster_core.events import AddApp, AddAsk, Event, Release

T = TypeVar("T")

LARGE: Final = frozenset(
    {
        "one call with a count",
        "waiting for each of these",
        "releases by their handles",
        "an application leaves",
    }
)
"""The parts with one application that has many asks."""

BEAT_S: Final = 0.005
LIMITS_MS: Final = (1, 2, 3, 5, 10)
LONG_S: Final = 0.003
"""The duration from which the report shows what ran in a pass, in seconds."""
CALLERS: Final = 50


@final
@attrs.define
class Part:
    """The measurements of one part of the work.

    Attributes:
        name: The name of the part.
        took_s: Its wall-clock time, in seconds.
        steps: How many steps were longer than each number of milliseconds.
        passes: The same for passes.
        longest_step_s: The longest step in seconds, without pauses of the collector.
        longest_task: The name of the task of this step.
        longest_pass_s: The longest pass in seconds, without pauses of the collector.
        pauses_s: The pauses of the collector in seconds, by generation.
        lags_s: The lags in seconds, without and with pauses of the collector.
        where: What ran in long passes, and how often.
    """

    name: str
    took_s: float = 0.0
    steps: Counter[int] = attrs.field(factory=Counter[int])
    passes: Counter[int] = attrs.field(factory=Counter[int])
    longest_step_s: float = 0.0
    longest_task: str = ""
    longest_pass_s: float = 0.0
    pauses_s: dict[int, list[float]] = attrs.field(factory=dict[int, list[float]])
    lags_s: list[tuple[float, float]] = attrs.field(factory=list[tuple[float, float]])
    where: Counter[str] = attrs.field(factory=Counter[str])

    def lag_ms(self, share: float, *, pauses: bool = False) -> float:
        """Return the lag that this share of all lags does not exceed, in milliseconds."""
        lags = sorted(lag[pauses] for lag in self.lags_s)
        return 1e3 * lags[min(len(lags) - 1, int(share * len(lags)))] if lags else 0.0


@final
class Stopwatch(trio.abc.Instrument):
    """Measures steps, passes and pauses, part by part."""

    def __init__(self, *, where: bool = False) -> None:
        self.parts: list[Part] = [Part("start")]
        #: Objects of the program, such as its handles: the time to free them should not count.
        self.kept: list[object] = []
        self._step_s = self._pass_s = self._pause_s = self._paused_s = 0.0
        self._paused_before_step_s = self._paused_before_pass_s = 0.0
        self._has_passed = False
        self._where = where

    @contextmanager
    def part(self, name: str) -> Generator[None, None, None]:
        """Measure the block as a part of its own."""
        self.parts.append(Part(name))
        start = time.perf_counter()
        try:
            yield
        finally:
            self.parts[-1].took_s = time.perf_counter() - start

    @override
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._paused_before_step_s = self._paused_s
        self._step_s = time.thread_time()

    @override
    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_s = time.thread_time() - self._step_s - self._paused_s + self._paused_before_step_s
        part = self.parts[-1]
        if took_s > part.longest_step_s:
            part.longest_step_s, part.longest_task = took_s, task.name
        _count(part.steps, took_s)

    @override
    def after_io_wait(self, timeout: float) -> None:
        self._paused_before_pass_s = self._paused_s
        self._has_passed = True
        if self._where:
            signal.setitimer(signal.ITIMER_PROF, LONG_S, LONG_S)
        self._pass_s = time.thread_time()

    @override
    def before_io_wait(self, timeout: float) -> None:
        took_s = time.thread_time() - self._pass_s - self._paused_s + self._paused_before_pass_s
        if self._where:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if self._has_passed:
            part = self.parts[-1]
            part.longest_pass_s = max(part.longest_pass_s, took_s)
            _count(part.passes, took_s)

    def record_stack(self, _: int, frame: FrameType | None) -> None:
        """Record the stack if the pass is long already."""
        frames = traceback.extract_stack(frame, 12)
        files = [one for one in frames if "/trio/" not in one.filename]
        text = " < ".join(
            f"{one.filename.rpartition('/')[2]}:{one.lineno} {one.name}" for one in files[:-6:-1]
        )
        self.parts[-1].where[text] += 1

    def collecting(self, phase: str, info: dict[str, int]) -> None:
        """Record a pause of the collector."""
        now_s = time.thread_time()
        if phase == "start":
            self._pause_s = now_s
        else:
            pause_s = now_s - self._pause_s
            self._paused_s += pause_s
            self.parts[-1].pauses_s.setdefault(info["generation"], []).append(pause_s)

    async def beat(self) -> None:
        """Measure the lag of short sleeps, repeatedly."""
        while True:
            due_s, paused_s = time.perf_counter() + BEAT_S, self._paused_s
            await trio.sleep(BEAT_S)
            lag_s = time.perf_counter() - due_s
            self.parts[-1].lags_s.append((max(0, lag_s - self._paused_s + paused_s), lag_s))


def _count(counter: Counter[int], took_s: float) -> None:
    if took_s >= 0.001:
        for limit in LIMITS_MS:
            counter[limit] += took_s >= limit / 1e3


@final
class Binds:
    """A journal that only keeps decisions in memory, as its time should not count."""

    def __init__(self) -> None:
        self._batches: list[Sequence[Announced]] = []

    def write(self, batch: Sequence[Announced]) -> None:
        """Keep a batch."""
        self._batches.append(batch)

    def take(self) -> list[tuple[str, str]]:
        """Return the binds since the last call."""
        batches, self._batches = self._batches, []
        return [
            (decision.app, decision.ask)
            for decision in (announced.decision for batch in batches for announced in batch)
            if decision.kind is Kind.BOUND and decision.app and decision.ask
        ]


@final
@attrs.frozen
class Work:
    """The input, which is created before the measurement.

    Attributes:
        events: Nodes, applications and asks.
        burst: Nodes, and the first half of the applications with their asks.
        maps: The others, in the form of a feed.
        calls: Some more asks, which are submitted one by one.
        count: The number of asks in one call.
    """

    events: Sequence[Event]
    burst: Sequence[Event]
    maps: Sequence[dict[str, object]]
    calls: Sequence[Event]
    count: int


def work(scale: float) -> Work:
    """Create the input at a share of the full size."""
    events = list(mixed(1.3)(scale))
    half = len(events) // 2
    asks = [event for event in events if isinstance(event, AddAsk)]
    return Work(
        events=events,
        burst=events[:half],
        maps=[as_map(event) for event in events[half:]],
        calls=[attrs.evolve(ask, ask=f"{ask.ask}-more") for ask in asks[:: max(10, CALLERS)]],
        count=count_at(scale),
    )


def count_at(scale: float) -> int:
    """Return the number of asks in one call."""
    return max(1, int(10_000 * scale))


def as_map(event: Event) -> dict[str, object]:
    """Convert an application or an ask to the form of a feed."""
    match event:
        case AddAsk():
            resources = {
                name: f"{amount}m" if name == "vcore" else amount
                for name, amount in event.resources.items()
            }
            return {
                "op": "add_ask",
                "app": event.app,
                "ask": event.ask,
                "priority": event.priority,
                "resources": resources,
            }
        case AddApp():
            return {"op": "add_app", "app": event.app, "queue": event.queue}
        case _:
            raise NotImplementedError(event)


async def live(stopwatch: Stopwatch, given: Work) -> None:
    """Run all parts of the work with a running scheduler."""
    binds = Binds()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stopwatch.beat)
        with stopwatch.part("rest"):
            await trio.sleep(0.5)
        async with muster.open_scheduler(FIFO, journal=binds) as scheduler:
            nursery.start_soon(_observe, scheduler.decisions(buffer=1_000_000))
            await _use(scheduler, stopwatch, given, binds)
            stopwatch.parts.append(Part("close"))
        nursery.cancel_scope.cancel()


async def _use(
    scheduler: muster.Scheduler, stopwatch: Stopwatch, given: Work, binds: Binds
) -> None:
    with stopwatch.part("burst of events"):
        await scheduler.submit_many(given.burst)
    with stopwatch.part("burst of maps"):
        await scheduler.submit_many(given.maps)
    with stopwatch.part("single calls"):
        await _together(given.calls, scheduler.submit)
    await scheduler.add_app("large", "root.p0.l0")
    with stopwatch.part("one call with a count"):
        asks = await scheduler.add_asks("large", "ask", {"vcore": "100m"}, given.count)
    with stopwatch.part("waiting for each of these"):
        held = [await ask.bound() for ask in asks]

    async def release(allocation: muster.Allocation) -> None:
        await allocation.release()

    async def ask_why(name: tuple[str, str]) -> None:
        await scheduler.ask(*name).why()

    with stopwatch.part("releases by their handles"):
        await _together(held[: max(1, len(held) // 10)], release)
    with stopwatch.part("(preparing)"):
        bound = [name for name in binds.take() if name[0] != "large"]
        releases = [Release(app, ask) for app, ask in bound[: len(given.events) // 10]]
        await trio.lowlevel.checkpoint()
    with stopwatch.part("burst of releases"):
        await scheduler.submit_many(releases)
    with stopwatch.part("asking why"):
        await _together(bound[-1000:], ask_why)
    with stopwatch.part("an application leaves"):
        await scheduler.remove_app("large")
    with stopwatch.part("snapshot"):
        snapshot = await scheduler.snapshot()
    stopwatch.kept += [binds, asks, held, bound, releases, snapshot]


async def _together(things: Sequence[T], use: Callable[[T], Awaitable[object]]) -> None:
    """Call a function with many items, by several tasks at once."""

    async def use_some(first: int) -> None:
        for thing in things[first::CALLERS]:
            await use(thing)

    async with trio.open_nursery() as nursery:
        for first in range(min(CALLERS, len(things))):
            nursery.start_soon(use_some, first)


async def _observe(decisions: muster.Decisions) -> None:
    while await decisions.take():
        pass


async def virtual(stopwatch: Stopwatch, given: Work) -> None:
    """Run the parts of the work that a simulation can do."""
    binds = Binds()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stopwatch.beat)
        async with muster.open_simulation(FIFO, journal=binds) as simulation:
            with stopwatch.part("simulation: entry"):
                for event in given.events:
                    await simulation.submit(event)
            with stopwatch.part("simulation: batch"):
                await simulation.settle()
            with stopwatch.part("(preparing)"):
                bound = binds.take()[: len(given.events) // 5]
                await trio.lowlevel.checkpoint()
            with stopwatch.part("simulation: releases"):
                for app, ask in bound:
                    await simulation.submit(Release(app, ask))
                await simulation.settle()
            stopwatch.kept += [binds, bound]
            stopwatch.parts.append(Part("simulation: close"))
        nursery.cancel_scope.cancel()


def run(scale: float, *, where: bool = False) -> list[Part]:
    """Run all parts of the work once, and return the measurements."""
    stopwatch = Stopwatch(where=where)
    given = work(scale)
    gc.callbacks.append(stopwatch.collecting)
    signal.signal(signal.SIGPROF, stopwatch.record_stack)
    try:
        # Imports and caches of the first use should not count.
        for program in (live, virtual):
            trio.run(program, Stopwatch(), work(0.001))
        for program in (live, virtual):
            gc.collect()
            trio.run(program, stopwatch, given, instruments=[stopwatch])
    finally:
        gc.callbacks.remove(stopwatch.collecting)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    return [part for part in stopwatch.parts if part.name not in {"start", "(preparing)"}]


def measure(scale: float) -> list[Figure]:
    """Measure everything once."""
    parts = run(scale)
    busy = [part for part in parts if part.name != "rest"]
    usual = [part for part in busy if part.name not in LARGE and "close" not in part.name]
    large = [part for part in busy if part.name in LARGE]
    closing = max(part.longest_pass_s for part in busy if "close" in part.name)
    step = max(usual, key=lambda part: part.longest_step_s)
    longest = max(usual, key=lambda part: part.longest_pass_s)
    largest = max(large, key=lambda part: part.longest_pass_s)
    lags = Part("all", lags_s=[lag for part in busy for lag in part.lags_s])
    pauses = [pause for part in busy for some in part.pauses_s.values() for pause in some]
    count = f"an application with {count_at(scale):,} asks"
    found = [
        ("longest step", step.longest_step_s, 5, step.name),
        ("longest pass", longest.longest_pass_s, 5, longest.name),
        (f"longest pass, {count}", largest.longest_pass_s, 5, largest.name),
        ("longest pass, closing", closing, 5, "memory is freed"),
        ("longest pause of the collector", max(pauses, default=0), None, ""),
    ]
    figures = [
        Figure("latency", what, 1e3 * seconds, "ms", target=target, note=note)
        for what, seconds, target, note in found
    ]
    for what, share in (("half", 0.5), ("99 %", 0.99), ("longest", 1.0)):
        apart = f"{with_unit(lags.lag_ms(share, pauses=True), 'ms')} with the collector"
        lag_ms = lags.lag_ms(share)
        figures.append(Figure("latency", f"lag of another task, {what}", lag_ms, "ms", raw=apart))
    return figures


def main(arguments: Sequence[str]) -> None:
    """Measure once, and print a line for each part."""
    parser = argparse.ArgumentParser(description="Measure how long other tasks wait.")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    parser.add_argument("--where", action="store_true", help="say what runs in long passes")
    parser.add_argument("--gc", type=int, nargs=3, default=(100_000, 50, 100))
    options = parser.parse_args(arguments)
    gc.set_threshold(*options.gc)
    over = " ".join(f"{f'≥{limit}':>5}" for limit in LIMITS_MS)
    print(
        f"{'ms':26} {'took':>7} {'step':>6} {over} {'pass':>7} {over}"
        f" {'lag ½':>6} {'99%':>6} {'max':>6}  gc"
    )
    for part in run(options.scale, where=options.where):
        steps = " ".join(f"{part.steps[limit]:5}" for limit in LIMITS_MS)
        passes = " ".join(f"{part.passes[limit]:5}" for limit in LIMITS_MS)
        lags = " ".join(f"{part.lag_ms(share):6.1f}" for share in (0.5, 0.99, 1.0))
        pauses = ", ".join(
            f"{len(some)} of {generation}: {1e3 * max(some):.1f}"
            for generation, some in sorted(part.pauses_s.items())
        )
        print(
            f"{part.name:26} {1e3 * part.took_s:7.0f} {1e3 * part.longest_step_s:6.1f} {steps}"
            f" {1e3 * part.longest_pass_s:7.1f} {passes} {lags}  {pauses}"
            f"  [{part.longest_task.rpartition('.')[0].rpartition('.')[2]}]"
        )
        for text, times in part.where.most_common(8):
            print(f"    {times:4} {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
