"""What it costs to keep a scheduler's state on disk.

All times are of the clock on the wall, since the disk is waited for, but for the stretches during
a checkpoint. What is compared takes turns in one process, on one disk: a temporary folder's, which
``TMPDIR`` names.
"""

from __future__ import annotations

import gc
import itertools
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, final

import msgpack
import trio

import muster
from benchmarks.figures import Better, Figure, with_unit
from muster.feeds import read_feed
from muster.replay import Tally, replay
from muster.store._file import NAME, connect
from muster.store._writer import MAX_WAL_BYTES, NewState, StateWriter
from muster_core.events import AddApp, AddAsk, AddNode, Event
from muster_core.resources import Resources

ONE: Final = Resources({"vcore": 1_000, "memory": 2**30})
NODE: Final = Resources({"vcore": 64_000, "memory": 256 * 2**30})
CALLERS: Final = 100
ROUNDS: Final = 40
CALLS: Final = 10
"""How many calls a caller makes in one round."""
BATCHES: Final = 3_000
"""How many batches of ten events are let in again."""


class StoppedError(Exception):
    """Ends a block without a checkpoint."""


def measure(scale: float) -> list[Figure]:
    """Measure everything once."""
    with tempfile.TemporaryDirectory() as folder:
        rounds = max(2, int(ROUNDS * scale))
        return [
            *trio.run(_one_caller, Path(folder), rounds),
            *trio.run(_many_callers, Path(folder), rounds),
            *_replay(Path(folder), scale),
            *_large(Path(folder), scale),
        ]


# Calls


def small(nodes: int = 100) -> Iterator[Event]:
    """Yield a small cluster with one application."""
    for at in range(nodes):
        yield AddNode(f"node-{at:04}", NODE)
    yield AddApp("app", "root.leaf")


async def call(scheduler: muster.Scheduler, caller: int, number: int) -> None:
    """Add an ask, or release it: every second call releases what the one before has added."""
    name = f"ask-{caller}-{number // 2}"
    if number % 2:
        await scheduler.release("app", name)
    else:
        await scheduler.add_ask("app", name, ONE)


@final
class BareFile:
    """A file like that of a store, to which SQLite writes rows without the rest of Muster.

    Args:
        directory: The directory.
    """

    def __init__(self, directory: Path) -> None:
        StateWriter.create(directory, NewState("default", 0)).close()
        self._connection = connect(directory / NAME, "mode=rw")
        self._connection.execute(f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA fullfsync = 1")

    def commit(self, row: tuple[object, ...]) -> None:
        """Write the row of a batch in a transaction of its own."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def rows_of(directory: Path, after: int) -> list[tuple[object, ...]]:
    """Return the rows of the batches after one."""
    connection = sqlite3.connect(directory / NAME)
    try:
        return connection.execute("SELECT * FROM batch WHERE number > ?", (after,)).fetchall()
    finally:
        connection.close()


async def _one_caller(folder: Path, rounds: int) -> list[Figure]:
    """Compare calls of one caller with bare commits of the same bytes, in turns."""
    directory = folder / "one"
    bare = BareFile(folder / "bare")
    of_calls: list[float] = []
    of_commits: list[float] = []
    without: list[float] = []
    async with (
        muster.open_scheduler(store=directory) as scheduler,
        muster.open_scheduler() as plain,
    ):
        for one in (scheduler, plain):
            await one.submit_many(small())
        done = 0
        for row in rows_of(directory, done):
            done += 1
            bare.commit(row)
        gc.collect()
        for turn in range(rounds):
            of_calls += await _timed(scheduler, turn)
            without += await _timed(plain, turn)
            for row in rows_of(directory, done):
                done += 1
                start = time.perf_counter()
                bare.commit(row)
                of_commits.append(time.perf_counter() - start)
    bare.close()
    assert len(of_commits) == len(of_calls), "a call is not a batch"
    ours, theirs, plainly = (
        with_unit(median(one) * 1e6, "µs") for one in (of_calls, of_commits, without)
    )
    return [
        Figure(
            "store",
            "a call by one caller",
            median(of_calls) / median(of_commits),
            "× commit",
            2,
            raw=f"{ours} over {theirs}",
            note=f"without a store {plainly}",
        )
    ]


async def _timed(scheduler: muster.Scheduler, turn: int) -> list[float]:
    """Make the calls of one caller in one turn; return how long each took."""
    took: list[float] = []
    for number in range(CALLS):
        start = time.perf_counter()
        await call(scheduler, 0, turn * CALLS + number)
        took.append(time.perf_counter() - start)
    return took


async def _many_callers(folder: Path, rounds: int) -> list[Figure]:
    """Compare calls of many callers with and without a store, in turns."""
    with_store: list[float] = []
    without: list[float] = []
    async with (
        muster.open_scheduler(store=folder / "many") as kept,
        muster.open_scheduler() as plain,
    ):
        for scheduler in (kept, plain):
            await scheduler.submit_many(small())
        gc.collect()
        for turn in range(rounds):
            for scheduler, times in ((kept, with_store), (plain, without)):
                start = time.perf_counter()
                async with trio.open_nursery() as nursery:
                    for caller in range(CALLERS):
                        nursery.start_soon(_calls, scheduler, caller, turn)
                times.append(time.perf_counter() - start)
    calls = CALLERS * CALLS
    ours, theirs = calls / median(with_store), calls / median(without)
    raw = f"{ours:,.0f} over {theirs:,.0f} calls a second"
    what = f"calls by {CALLERS} callers"
    return [Figure("store", what, ours / theirs, "× without", 0.8, better=Better.HIGHER, raw=raw)]


async def _calls(scheduler: muster.Scheduler, caller: int, turn: int) -> None:
    for number in range(CALLS):
        await call(scheduler, caller, turn * CALLS + number)


# Replaying


def churn(batches: int) -> Iterator[list[dict[str, object]]]:
    """Yield batches of ten events: in every second one asks are added, and then released."""
    for batch in range(batches):
        asks = [{"app": "app", "ask": f"ask-{batch // 2}-{at}"} for at in range(10)]
        if batch % 2:
            yield [{"op": "release", **ask} for ask in asks]
        else:
            amounts = {"vcore": 1, "memory": "1Gi"}
            yield [{"op": "add_ask", **ask, "resources": amounts} for ask in asks]


def cluster() -> list[dict[str, object]]:
    """Return the cluster of :func:`small` as a feed has it."""
    nodes: list[dict[str, object]] = [
        {"op": "add_node", "node": f"node-{at:04}", "capacity": {"vcore": 64, "memory": "256Gi"}}
        for at in range(100)
    ]
    return [*nodes, {"op": "add_app", "app": "app", "queue": "root.leaf"}]


def _replay(folder: Path, scale: float) -> list[Figure]:
    """Compare the start from a store without a checkpoint with a replay of the same events."""
    batches = [cluster(), *churn(max(10, int(BATCHES * scale)))]
    feed = folder / "feed.msgpack"
    with feed.open("wb") as file:
        for second, batch in enumerate(batches):
            file.writelines(msgpack.packb({"at": second, **event}) for event in batch)
    trio.run(_kept_without_checkpoint, folder / "again", batches)
    events = sum(map(len, batches))
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(3):
        gc.collect()
        start = time.perf_counter()
        trio.run(_replayed, feed)
        theirs.append(time.perf_counter() - start)
        gc.collect()
        ours.append(trio.run(_opened, folder / "again"))
    rate, replay_rate = events / min(ours), events / min(theirs)
    raw = f"{rate:,.0f} over {replay_rate:,.0f} events a second"
    figure = Figure(
        "store", "letting in again", rate / replay_rate, "× replay", 0.5, Better.HIGHER, raw=raw
    )
    return [figure]


async def _kept_without_checkpoint(
    directory: Path, batches: Sequence[Sequence[Mapping[str, object]]]
) -> None:
    try:
        async with muster.open_scheduler(
            store=directory, durability="process", checkpoint_every=10**9
        ) as scheduler:
            for batch in batches:
                await scheduler.submit_many(batch)
            raise StoppedError
    except StoppedError:
        pass


async def _replayed(feed: Path) -> None:
    tally = Tally()
    await replay(read_feed(feed), tally=tally)
    assert tally.summary().events > 0, "nothing was replayed"


async def _opened(directory: Path) -> float:
    """Return how long it takes until the body of a block begins, in seconds."""
    took_s = 0.0
    try:
        start = time.perf_counter()
        async with muster.open_scheduler(
            store=directory, durability="process", checkpoint_every=10**9
        ):
            took_s = time.perf_counter() - start
            raise StoppedError
    except StoppedError:
        return took_s


# A large state


def large(scale: float) -> Iterator[Event]:
    """Yield 10,000 nodes, and 100,000 asks in 10,000 applications that fit on none of them."""
    count = max(10, int(10_000 * scale))
    for at in range(count):
        yield AddNode(f"node-{at:05}", ONE)
    for at in range(count):
        app = f"app-{at}"
        yield AddApp(app, f"root.parent-{at % 10}.leaf-{at // 10 % 10}")
        for ask in range(10):
            amounts = {"vcore": 2_000 + 1_000 * (ask % 4), "memory": (1 + ask % 3) * 2**30}
            yield AddAsk(app, f"ask-{ask}", Resources(amounts), priority=ask)


def _large(folder: Path, scale: float) -> list[Figure]:
    """Measure checkpoints of a large state, and the start from one."""
    directory = folder / "large"
    figures = trio.run(_checkpoints, directory, list(large(scale)))
    gc.collect()
    took_s = trio.run(_opened, directory)
    what = "loading 100,000 pending asks on 10,000 nodes"
    return [*figures, Figure("store", what, took_s, "s", 5)]


async def _checkpoints(directory: Path, events: list[Event]) -> list[Figure]:
    async with muster.open_scheduler(store=directory, durability="process") as scheduler:
        await scheduler.submit_many(events)
        events.clear()
        await scheduler.checkpoint()  # The first one also imports and compiles.
        stretches: list[float] = []
        calls: list[float] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tick, stretches)
            nursery.start_soon(_call_again_and_again, scheduler, calls)
            apart = await _longest_during(scheduler, stretches, calls)
            gc.collect()
            gc.disable()
            try:
                longest = await _longest_during(scheduler, stretches, calls)
            finally:
                gc.enable()
            nursery.cancel_scope.cancel()
    raw = f"{with_unit(apart[0] * 1e3, 'ms')} with the collector"
    return [
        Figure("store", "a checkpoint: longest stretch", longest[0] * 1e3, "ms", 5, note=raw),
        Figure("store", "a checkpoint: longest wait of a call", longest[1] * 1e3, "ms"),
    ]


async def _longest_during(
    scheduler: muster.Scheduler, stretches: list[float], calls: list[float]
) -> tuple[float, float]:
    """Return the longest stretch, and the longest call, while a checkpoint is written."""
    await trio.sleep(0.05)
    stretches.clear()
    calls.clear()
    await scheduler.checkpoint()
    await scheduler.settle()
    await trio.sleep(0.05)
    return max(stretches), max(calls)


async def _tick(stretches: list[float]) -> None:
    """Run as often as the other tasks allow, and note the processor time in between."""
    last = time.process_time()
    while True:
        await trio.lowlevel.checkpoint()
        now = time.process_time()
        stretches.append(now - last)
        last = now


async def _call_again_and_again(scheduler: muster.Scheduler, calls: list[float]) -> None:
    for number in itertools.count():
        start = time.perf_counter()
        await scheduler.add_app(f"other-{number}", "root.other")
        calls.append(time.perf_counter() - start)
        await trio.sleep(0.001)


if __name__ == "__main__":
    for one in measure(1.0):
        print(one)
