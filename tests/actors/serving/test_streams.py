"""Streams of decisions: from the store, then from memory.

Signs of life, ends, and clients that do not keep up.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, final

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from muster._runtime.observers import Filter
from muster.service.decision_log import (
    MOST_IN_MEMORY,
    MOST_OF_SUBJECT,
    Cursor,
    DecisionsRemovedError,
    DecisionTail,
    LaggingError,
    SubjectDecisions,
)
from muster.service.limits import RETRY_AFTER_S, Slots
from muster.service.payloads import Problem
from muster.service.streams import HEARTBEAT_S, Broadcast, EventStream
from muster.store import KeptBatch, StateReader
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from tests.actors.serving.served import EventReader, StreamEvent
from tests.actors.state_directories import ONE, Keeper, S


def new_broadcast(directory: Path | None = None, most: int = 100) -> Broadcast:
    """Return a broadcast for so many streams."""
    return Broadcast(directory, Slots("streams", most), 30.0)


def announced(first: int, count: int, message: str | None = None) -> list[Announced]:
    """Return decisions with the numbers from one on; every third one is a warning."""
    return [
        Announced(
            seq,
            seq * 1000,
            Decision(Kind.BOUND, app="a", ask=f"k-{seq}", queue="root.q", message=message)
            if seq % 3
            else Decision(Kind.WARNING, message=message),
        )
        for seq in range(first, first + count)
    ]


def announce_batch(broadcast: Broadcast, count: int, message: str | None = None) -> None:
    """Announce the next decisions, as one batch."""
    tail = broadcast.tail
    all_at_once(tail.observe(tail.batch + 1, announced(tail.last + 1, count, message)))


@final
class StreamClient:
    """A client of a stream, which can stop reading.

    Attributes:
        reader: Reads the events.
        sent: The events that came.
        is_reading: Set while it reads.
        is_over: Whether the server has ended the response.
    """

    def __init__(self) -> None:
        self.reader = EventReader()
        self.sent: list[StreamEvent] = []
        self.is_over = False
        self.is_reading = trio.Event()
        self.is_reading.set()
        self.leaves = trio.Event()

    async def run(self, stream: EventStream) -> None:
        """Read a stream to its end."""
        scope: MutableMapping[str, Any] = {"type": "http", "method": "GET"}
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]] = self._receive
        await stream(scope, receive, self._send)

    async def _receive(self) -> MutableMapping[str, Any]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.is_reading.wait()
        self.sent += self.reader.feed(message.get("body", b""))
        self.is_over = message.get("more_body") is False

    @property
    def seqs(self) -> list[int]:
        """The numbers of the decisions that came."""
        return [one.value["seq"] for one in self.sent if one.kind == "decision"]


BATCHES = 60
PRUNED = 20


def filled(directory: Path, *, pruned: bool = False) -> list[KeptBatch]:
    """Store batches with some decisions each, and one with thousands; return the stored ones."""
    keeper = Keeper(directory, checkpoints=[PRUNED])
    keeper.run(S, [AddNode("n", Resources({"vcore": 10**9})), AddApp("a", "root.q")])
    for number in range(2, BATCHES + 1):
        asks = 5_000 if number == 40 else number % 3
        keeper.run(number * S, [AddAsk("a", f"{number}-{at}", ONE) for at in range(asks)])
    if pruned:
        keeper.prune((PRUNED + 1) * S)
    keeper.close()
    with StateReader(directory) as reader:
        return list(reader.batches())


def open_broadcast(directory: Path | None, batches: list[KeptBatch], most: int) -> Broadcast:
    """Return a broadcast that observed batches, and has their latest decisions in memory."""
    broadcast = new_broadcast(directory)
    broadcast.tail = DecisionTail(most)
    for batch in batches:
        all_at_once(broadcast.tail.observe(batch.number, batch.decisions))
    return broadcast


async def seqs(cursor: Cursor) -> list[int]:
    found: list[int] = []
    while (block := await cursor.next()) is not None:
        places, cursor.position = block.choose(cursor.position, None, None, None)
        found += [block.announced[at].seq for at in places]
    return found


# STREAM-2


@pytest.mark.parametrize("most", [1, 256, 3_000])
async def test_what_is_not_in_memory_comes_from_the_store(tmp_path: Path, most: int) -> None:
    batches = filled(tmp_path / "state")
    broadcast = open_broadcast(tmp_path / "state", batches, most)
    last = broadcast.tail.last
    assert broadcast.tail.first > 1

    for after in (0, 1, 17, 2_500, last - 3, last):
        await broadcast.check(after)
        with broadcast.cursor(after, lags=True) as cursor:
            assert await seqs(cursor) == list(range(after + 1, last + 1))


async def test_the_store_is_read_up_to_what_was_announced(tmp_path: Path) -> None:
    """A batch is on disk a moment before it is announced."""
    batches = filled(tmp_path / "state")
    broadcast = open_broadcast(tmp_path / "state", batches[:-10], 1)

    with broadcast.cursor(0, lags=True) as cursor:
        assert await seqs(cursor) == list(range(1, batches[-11].last_seq + 1))
        for batch in batches[-10:]:
            all_at_once(broadcast.tail.observe(batch.number, batch.decisions))
            assert (await seqs(cursor))[-1:] == ([batch.last_seq] if batch.decisions else [])


async def test_the_lines_are_the_same_from_both(tmp_path: Path) -> None:
    batches = filled(tmp_path / "state")
    found: list[list[bytes]] = []
    for most in (1, 100_000):
        broadcast = open_broadcast(tmp_path / "state", batches, most)
        lines: list[bytes] = []
        with broadcast.cursor(0, lags=False) as cursor:
            while (block := await cursor.next()) is not None:
                places, cursor.position = block.choose(cursor.position, None, None, None)
                lines += block.lines_at(places)
        found.append(lines)

    assert found[0] == found[1]
    assert len(found[0]) == batches[-1].last_seq


# STREAM-4


async def test_what_was_removed_from_the_store_is_gone(tmp_path: Path) -> None:
    batches = filled(tmp_path / "state", pruned=True)
    broadcast = open_broadcast(tmp_path / "state", batches, 256)
    first = batches[0].first_seq
    assert first > 1

    assert await broadcast.first() == first
    await broadcast.check(first - 1)
    with pytest.raises(Problem) as caught:
        await broadcast.check(first - 2)
    assert caught.value.status == 410
    assert caught.value.members == {"first": first}
    with broadcast.cursor(first - 2, lags=True) as cursor, pytest.raises(DecisionsRemovedError):
        await cursor.next()


async def test_without_a_store_only_memory_counts() -> None:
    broadcast = new_broadcast()
    broadcast.tail = DecisionTail(1000)
    announce_batch(broadcast, 5_000)
    first = broadcast.tail.first

    assert await broadcast.first() == first > 1
    await broadcast.check(first - 1)
    with pytest.raises(Problem) as caught:
        await broadcast.check(0)
    assert caught.value.status == 410
    assert caught.value.detail == f"after: the decisions before {first} are not kept any more"
    with broadcast.cursor(0, lags=True) as cursor, pytest.raises(DecisionsRemovedError):
        await cursor.next()


# STREAM-6


@pytest.mark.parametrize("lags", [True, False])
async def test_a_stream_that_fell_behind_does_not_go_back(tmp_path: Path, lags: bool) -> None:
    batches = filled(tmp_path / "state")
    broadcast = open_broadcast(tmp_path / "state", batches[:30], 256)
    with broadcast.cursor(broadcast.tail.last - 1, lags=lags) as cursor:
        assert len(await seqs(cursor)) == 1
        for batch in batches[30:]:
            all_at_once(broadcast.tail.observe(batch.number, batch.decisions))
        if lags:
            with pytest.raises(LaggingError):
                await cursor.next()
        else:
            assert (await seqs(cursor))[-1] == batches[-1].last_seq


# STREAM-7


async def test_there_are_not_more_streams_than_may_be() -> None:
    broadcast = new_broadcast(most=2)
    with broadcast.counted():
        broadcast.check_room()
        with broadcast.counted():
            with pytest.raises(Problem) as caught:
                broadcast.check_room()
            await trio.lowlevel.checkpoint()
        broadcast.check_room()

    assert caught.value.status == 503
    assert caught.value.headers == {"Retry-After": str(RETRY_AFTER_S)}


# PAGE-44


def is_warning(one: Announced) -> bool:
    return one.decision.kind is Kind.WARNING


@given(st.lists(st.integers(1, 900), max_size=6), st.integers(1, 1500))
async def test_it_finds_what_is_in_memory_and_what_comes(batches: list[int], most: int) -> None:
    tail, findings = DecisionTail(most=most), SubjectDecisions()
    for number, count in enumerate(batches, 1):
        all_at_once(tail.observe(number, announced(tail.last + 1, count)))
        found, first = await findings.about(tail, ("warnings",), is_warning)
        meant = [seq for seq in range(first, tail.last + 1) if not seq % 3]

        assert [one.seq for one in found] == meant[-MOST_OF_SUBJECT:]
        assert first <= max(tail.first, tail.last - 3 * (MOST_OF_SUBJECT - 1))


async def test_things_that_nobody_asks_about_are_forgotten() -> None:
    tail, findings = DecisionTail(), SubjectDecisions()
    all_at_once(tail.observe(1, announced(1, 300)))
    for number in range(200):
        found, first = await findings.about(tail, (f"{number % 100}",), is_warning)
        assert len(found) == 100
        assert first == 1


@pytest.fixture
async def broadcast() -> AsyncGenerator[Broadcast]:
    made = new_broadcast()
    async with made.running(trio.Event()):
        yield made


def stream(
    broadcast: Broadcast,
    after: int = 0,
    wanted: Filter | None = None,
    until: int | None = None,
    limit: int | None = None,
) -> EventStream:
    return EventStream(broadcast, after, wanted, until, limit)


async def test_it_sends_what_there_is_and_what_follows(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    announce_batch(broadcast, 600)
    client = StreamClient()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast, 10))
        await wait_all_tasks_blocked()
        assert client.seqs == list(range(11, 601))
        announce_batch(broadcast, 3)
        await trio.sleep(0.1)
        assert client.seqs == list(range(11, 604))
        client.leaves.set()
    assert broadcast.slots.in_use == 0


async def test_it_ends_after_a_number_or_a_count(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    announce_batch(broadcast, 600)
    until, counted, filtered = StreamClient(), StreamClient(), StreamClient()
    warnings = Filter(frozenset({Kind.WARNING}))
    await until.run(stream(broadcast, 10, until=300))
    await counted.run(stream(broadcast, 500, limit=20))
    await filtered.run(stream(broadcast, 0, warnings, limit=3))

    assert until.seqs == list(range(11, 301))
    assert counted.seqs == list(range(501, 521))
    assert filtered.seqs == [3, 6, 9]
    assert filtered.reader.last_id == "9"


async def test_all_streams_share_what_is_encoded(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    announce_batch(broadcast, 250)
    first = broadcast.tail.after(0)
    assert first is not None
    await StreamClient().run(stream(broadcast, 0, until=250))
    events = first.events

    await StreamClient().run(stream(broadcast, 0, until=250))

    found = broadcast.tail.after(0)
    assert found is not None
    assert found.events is events


# STREAM-5


async def test_a_quiet_stream_shows_that_it_lives(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    client = StreamClient()
    with trio.move_on_after(3.5 * HEARTBEAT_S):
        await client.run(stream(broadcast))

    assert client.reader.comments == 3
    assert client.sent == []


async def test_a_filtered_stream_tells_its_place_at_times(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    client = StreamClient()
    nothing = Filter(app="nobody")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast, 0, nothing))
        await wait_all_tasks_blocked()
        announce_batch(broadcast, 25_000)
        await trio.sleep(1.0)
        assert 10_000 <= int(client.reader.last_id) < 25_000
        await trio.sleep(HEARTBEAT_S)
        assert client.reader.last_id == "25000"
        assert client.reader.comments == 0
        client.leaves.set()
    assert client.sent == []


# STREAM-6


async def test_who_reads_too_slowly_is_cut_off(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    client = StreamClient()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast))
        await wait_all_tasks_blocked()
        announce_batch(broadcast, 10)
        await trio.sleep(1.0)
        client.is_reading = trio.Event()
        announce_batch(broadcast, 10)
        await trio.sleep(1.0)
        announce_batch(broadcast, MOST_IN_MEMORY + 10_000)
        client.is_reading.set()
    last = client.sent[-1]

    assert client.is_over
    assert client.seqs == list(range(1, 21))
    assert last.kind == "lagged"
    assert last.value == {"after": 20, "first": broadcast.tail.first}
    assert last.last_id == "20"
    assert broadcast.lagged == 1


async def test_who_does_not_read_at_all_is_cut_off(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    client = StreamClient()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast))
        await wait_all_tasks_blocked()
        client.is_reading = trio.Event()
        announce_batch(broadcast, 10)
        before = trio.current_time()
        # The nursery ends when the stream has given up.

    assert 30.0 <= trio.current_time() - before < 31.0
    assert broadcast.stalled == 1
    assert broadcast.slots.in_use == 0


async def test_who_reads_now_and_then_is_not_cut_off(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    announce_batch(broadcast, 50_000)
    client = StreamClient()
    client.is_reading = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast, until=50_000))
        for _ in range(10):
            await trio.sleep(20.0)
            client.is_reading.set()
            await wait_all_tasks_blocked()
            client.is_reading = trio.Event()
        client.is_reading.set()
        client.leaves.set()
    assert broadcast.stalled == broadcast.lagged == 0


# STREAM-8


async def test_all_streams_end_with_the_service(autojump_clock: MockClock) -> None:
    broadcast, ends = new_broadcast(), trio.Event()
    clients = [StreamClient() for _ in range(5)]
    async with broadcast.running(ends), trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(client.run, stream(broadcast))
        await wait_all_tasks_blocked()
        announce_batch(broadcast, 10)
        ends.set()

    assert [client.seqs for client in clients] == [list(range(1, 11))] * 5
    assert all(client.is_over for client in clients)
