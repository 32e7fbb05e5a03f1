"""The same input gives the same decisions and the same state, whatever the order of tasks.

Three things disturb that order, alone and together: the seed with which trio shuffles the
tasks that are ready, checkpoints injected before each reading of a mailbox, and callers who
do not wait for one event to be taken in before they send the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from hypothesis import given, strategies as st
from typing_extensions import override

import muster
from muster.feeds import DecisionLog, Expect, FeedItem, Refused, Settle, read_feed
from muster.testing import Interleaving, check
from muster_core.errors import RefusedError
from muster_core.events import AddApp, AddAsk, AddNode, Event, Release
from muster_core.resources import Resources
from muster_core.snapshots import Snapshot
from tests.actors.program import S, shuffled
from tests.naive.harness import Marker, Step
from tests.naive.strategies import scenarios
from tests.share import every, share

FEEDS: Final = Path(__file__).parents[2] / "feeds"
FOLDERS: Final = (
    "apps",
    "config",
    "format",
    "gangs",
    "nodes",
    "objects",
    "order",
    "preemption",
    "priority",
    "quantities",
    "reclaim",
    "rounds",
)

Entry = tuple[int, Event | str | None]
"""An instant and what comes in: an event, a refusal, or None to settle."""


@attrs.frozen
class Outcome:
    """All that can be seen of a run."""

    log: bytes
    snapshot: Snapshot


def run(entries: Sequence[Entry], *, trio_seed: int = 0, seed: int | None = None) -> Outcome:
    with shuffled(trio_seed):
        return trio.run(_run, entries, seed)


async def _run(entries: Sequence[Entry], seed: int | None) -> Outcome:
    stream = BytesIO()
    interleave = None if seed is None else Interleaving(seed)
    journal = DecisionLog(stream)
    async with muster.open_simulation(journal=journal, interleave=interleave) as scheduler:
        for index, (at_us, what) in enumerate(entries):
            match what:
                case None:
                    await scheduler.settle(at_us)
                case str() as message:
                    await scheduler.refuse(message, at_us=at_us, index=index)
                case event:
                    await scheduler.submit(event, at_us=at_us, index=index)
        await scheduler.finish()
        snapshot = await scheduler.snapshot()
    return Outcome(stream.getvalue(), snapshot)


def of_scenario(scenario: Iterable[Step]) -> list[Entry]:
    return [(step.at_us, None if isinstance(step.what, Marker) else step.what) for step in scenario]


def of_feed(items: Iterable[FeedItem]) -> list[Entry]:
    entries: list[Entry] = []
    for item in items:
        match item.content:
            case Settle() | Expect():
                entries.append((item.at_us, None))
            case Refused(message):
                entries.append((item.at_us, message))
            case event:
                entries.append((item.at_us, event))
    return entries


def crowd() -> list[Entry]:
    """Make a scenario with many owners at work in every batch."""
    paths = [f"root.p{number % 3}.q{number % 7}" for number in range(21)]
    entries: list[Entry] = [
        (0, AddNode(f"n{number}", Resources({"vcore": 8, "memory": 4 + number})))
        for number in range(5)
    ]
    entries += [(0, AddApp(f"a{number}", paths[number % 21])) for number in range(42)]
    for number in range(120):
        event = AddAsk(
            app=f"a{number * 5 % 42}",
            ask=f"k{number}",
            resources=Resources({"vcore": 1 + number % 3, "memory": number % 2}),
            priority=number * 7 % 5,
            count=1 + number % 4,
            run_for_us=(1 + number % 9) * S,
        )
        entries.append((number // 40 * 2 * S, event))
        if number % 6 == 0:
            entries.append((entries[-1][0], Release(event.app, f"{event.ask}-0")))
    return entries


def feeds() -> list[Path]:
    """Give every third feed: all of them are replayed in some order of tasks by test_feeds."""
    found = (path for folder in FOLDERS for path in (FEEDS / folder).iterdir() if path.is_file())
    return sorted(found)[::3]


def test_there_is_something_to_disturb() -> None:
    """The order of tasks really differs between seeds: the test below is no sham."""
    orders: set[tuple[str, ...]] = set()

    async def watch() -> None:
        order: list[str] = []

        class Watch(trio.abc.Instrument):
            @override
            def before_task_step(self, task: trio.lowlevel.Task) -> None:
                order.append(task.name)

        async with muster.open_simulation() as scheduler:
            for number in range(3):
                await scheduler.submit(AddApp(f"a{number}", f"root.q{number}"))
            trio.lowlevel.add_instrument(Watch())
            await scheduler.settle()
        orders.add(tuple(order))

    for seed in range(10):
        with shuffled(seed):
            trio.run(watch)
    with shuffled(0):
        trio.run(watch)

    assert 5 <= len(orders) <= 10


@pytest.mark.parametrize("seed", every(2, range(4)))
def test_a_crowd(seed: int) -> None:
    entries = crowd()
    expected = run(entries)
    assert expected.log.count(b'"bound"') > 200

    assert run(entries, trio_seed=seed + 1) == expected
    assert run(entries, seed=seed) == expected
    assert run(entries, trio_seed=seed + 1, seed=seed) == expected


@pytest.mark.parametrize(
    "path", every(3, feeds()), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_feeds(path: Path) -> None:
    entries = of_feed(read_feed(path))

    assert run(entries, trio_seed=2, seed=2) == run(entries)


@share(0.3)
@given(scenarios(), st.integers(0, 2**16))
def test_scenarios(scenario: list[Step], seed: int) -> None:
    entries = of_scenario(scenario)
    expected = run(entries)

    assert run(entries, trio_seed=seed + 1) == expected
    assert run(entries, seed=seed) == expected
    assert run(entries, trio_seed=seed + 1, seed=seed) == expected


async def _checked(scenario: Sequence[Step], seed: int) -> None:
    """Work off a scenario, and check everything after each batch."""
    async with muster.open_simulation(interleave=Interleaving(seed)) as scheduler:
        now_us, before = 0, await check(scheduler)
        for step in scenario:
            if step.at_us > now_us:
                await check(scheduler, before)
                now_us = step.at_us
                await scheduler.finish(now_us - 1)  # Timers in between have batches of their own.
                before = await check(scheduler)
            match step.what:
                case Marker():
                    before = await check(scheduler, before)
                case str() as message:
                    await scheduler.refuse(message, at_us=now_us)
                case event:
                    await scheduler.submit(event, at_us=now_us)
        await check(scheduler, before)
        await scheduler.finish()
        await check(scheduler)


@share(0.3)
@given(scenarios(), st.integers(0, 2**16))
def test_the_invariants_hold_after_every_batch(scenario: list[Step], seed: int) -> None:
    with shuffled(seed):
        trio.run(_checked, scenario, seed)


async def _with_requests(scenario: Sequence[Step], seed: int) -> bytes:
    """Work off a scenario with a request for each event, which closes an epoch each time."""
    stream = BytesIO()
    interleave = Interleaving(seed)
    async with muster.open_simulation(
        journal=DecisionLog(stream), interleave=interleave
    ) as scheduler:
        for index, (at_us, what) in enumerate(of_scenario(scenario)):
            match what:
                case None:
                    await scheduler.settle(at_us)
                case str() as message:
                    await scheduler.refuse(message, at_us=at_us, index=index)
                case event:
                    try:
                        await scheduler.request(event, at_us=at_us, index=index)
                    except RefusedError:
                        continue
        await scheduler.finish()
    return stream.getvalue()


@share(0.3)
@given(scenarios(), st.integers(0, 2**16))
def test_waiting_for_each_answer_changes_nothing(scenario: list[Step], seed: int) -> None:
    expected = run(of_scenario(scenario))
    with shuffled(seed):
        assert trio.run(_with_requests, scenario, seed) == expected.log


def test_several_senders_are_taken_in_the_order_of_entry() -> None:
    """Which of several callers comes first is chance; all else follows from that order."""

    async def main() -> bytes:
        stream = BytesIO()
        async with muster.open_simulation(
            journal=DecisionLog(stream), interleave=Interleaving(3)
        ) as scheduler:

            async def send(who: int) -> None:
                for number in range(10):
                    await scheduler.submit(AddApp(f"{who}-{number}", f"root.q{number % 3}"))

            async with trio.open_nursery() as nursery:
                for who in range(4):
                    nursery.start_soon(send, who)
        return stream.getvalue()

    logs: list[bytes] = []
    for _ in range(2):
        with shuffled(11):
            logs.append(trio.run(main))
    assert logs[0] == logs[1]
    assert logs[0].count(b'"New"') == 40
