"""The same input gives the same decisions, whatever the order of tasks.

Evictions come to rest; what anybody outside sees of gangs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from hypothesis import event, given, strategies as st
from typing_extensions import override

import muster
from muster.feeds import DecisionLog, Expect, FeedItem, Refused, Settle, read_feed
from muster.testing import Interleaving, check
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.errors import RefusedError
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Event, Release
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace, Snapshot
from tests.actors import real
from tests.actors.program import S, shuffled
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
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
    """Return every third feed: all of them are replayed in some order of tasks by test_feeds."""
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


EVICTIONS: Final = (Reason.RECLAIMED, Reason.PREEMPTED)
FOR: Final = re.compile(r"for (\S+): ")

Batch = tuple[Decision, ...]


class BatchJournal:
    """A journal that keeps batches apart."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def write(self, batch: Sequence[Announced], /) -> None:
        """Keep a batch."""
        self.batches.append(tuple(one.decision for one in batch))


async def play(scenario: list[Step], journal: BatchJournal) -> int:
    """Play a scenario, and let time pass until no timer is left.

    Returns:
        How many batches there were before the last events were decided on.
    """
    async with muster.open_simulation(journal=journal) as scheduler:
        await real.play(scheduler, scenario)
        before = len(journal.batches)
        await scheduler.finish()
    return before


def evicted(batch: Batch) -> Iterator[tuple[int, Decision]]:
    """Yield who was evicted in a batch, each with its place in it."""
    for place, decision in enumerate(batch):
        if decision.reason in EVICTIONS:
            yield place, decision


def asker(decision: Decision) -> str:
    """Return for whom an ask was evicted."""
    found = FOR.match(decision.message or "")
    assert found is not None, decision
    return found[1]


@share(0.15)
@given(evictions())
def test_evictions_place_their_askers_and_come_to_rest(scenario: list[Step]) -> None:
    journal = BatchJournal()
    before = trio.run(play, scenario, journal)

    for batch in journal.batches:
        # Nobody is evicted twice at one instant.
        victims = [(decision.app, decision.ask) for _, decision in evicted(batch)]
        assert len(victims) == len(set(victims))
        for place, decision in evicted(batch):
            event(f"{decision.reason}")
            # An asker that was evicted itself may take something and lose it again: the log says
            # only once in a batch that an ask was evicted, and leaves such a detour out.
            lost = {f"{app}/{ask}" for app, ask in victims}
            assert asker(decision) in placed(batch[place:]) | lost
    # Who is evicted waits for its delay, and may take from others then: that ends, too.
    asks = {(one.app, one.ask) for batch in journal.batches for one in batch if one.ask}
    times = sum(1 for batch in journal.batches[before:] for _ in evicted(batch))
    event(f"evicted since the last event: {min(times, 5)}")
    assert times <= len(asks) ** 2


def placed(batch: Batch) -> set[str]:
    """Return the asks for which a node was chosen."""
    return {f"{one.app}/{one.ask}" for one in batch if one.kind is Kind.ASSIGNED}


class Witness:
    """A journal that asserts, decision by decision, what no observer may ever see."""

    def __init__(self) -> None:
        self._satisfied: set[str] = set()
        self._holding: dict[tuple[str, str], str] = {}

    def write(self, batch: Sequence[Announced], /) -> None:
        """Look at the decisions of a batch, each as if it were the last one."""
        for announced in batch:
            self._see(announced.decision)

    def _see(self, decision: Decision) -> None:
        if decision.kind is Kind.GANG_SATISFIED:
            assert decision.gang is not None
            self._satisfied.add(decision.gang)
        if decision.app is None or decision.ask is None:
            return
        key = (decision.app, decision.ask)
        match decision.kind:
            case Kind.BOUND:
                # Nobody sees a member bound before its gang is satisfied.
                assert decision.gang is None or decision.gang in self._satisfied
                assert self._holding.get(key, decision.node) == decision.node
                self._holding[key] = decision.node or ""
            case Kind.WAITING:
                assert key not in self._holding
                self._holding[key] = decision.node or ""
            case Kind.RELEASED:
                # Who is released gives up what it held, and nothing else.
                assert self._holding.pop(key, decision.node) == decision.node
            case _:
                pass


def check_gangs(snapshot: Snapshot) -> None:
    """Assert what must be so of gangs between two batches."""
    for app in snapshot.apps.values():
        for ask in app.asks:
            # Who is released, or parked, holds nothing.
            assert (ask.node is None) == (ask.place in {AskPlace.PENDING, AskPlace.PARKED})
            if ask.gang is None:
                assert ask.place in {AskPlace.PENDING, AskPlace.BOUND}
                continue
            gang = snapshot.gangs[ask.gang]
            # Only members of gangs that have timed out are parked, and all that hold nothing.
            held = ask.place in {AskPlace.WAITING, AskPlace.BOUND}
            assert held or gang.timed_out == (ask.place is AskPlace.PARKED)
            assert not (ask.place is AskPlace.WAITING and (gang.satisfied or gang.timed_out))


async def run_with_witness(scenario: list[Step], seed: int) -> None:
    witness = Witness()
    async with muster.open_simulation(journal=witness, interleave=Interleaving(seed)) as scheduler:

        async def settled() -> None:
            check_gangs(await check(scheduler))

        await real.play(scheduler, scenario, settled)
        await scheduler.finish()
        await settled()


@share(0.4)
@given(gang_scenarios(), st.integers(0, 2**16))
def test_what_no_observer_ever_sees(scenario: list[Step], seed: int) -> None:
    trio.run(run_with_witness, scenario, seed)


async def test_a_gang_is_all_there_or_not_at_all() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(AddNode("n", Resources({"vcore": 3})))
        await scheduler.submit(AddApp("a", "root.q"))
        for name, count in (("default/large", 4), ("default/small", 3)):
            says = GangFields(min_member=count, mode=GangMode.STRICT)
            await scheduler.request(AddGang(name, says))
            ask = name.partition("/")[2]
            one = Resources({"vcore": 1})
            await scheduler.request(AddAsk("a", ask, one, count=count, gang=name))
        snapshot = await check(scheduler)

        assert not snapshot.gangs["default/large"].satisfied
        assert not snapshot.gangs["default/large"].bound
        assert len(snapshot.gangs["default/small"].bound) == 3
        reason = await scheduler.why_pending("a", "large-0")
        assert str(reason).startswith("GangCycleInvalid")
