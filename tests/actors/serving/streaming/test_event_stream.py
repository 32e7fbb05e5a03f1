"""Streams that go on: signs of life, ends, and clients that do not keep up."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from muster._runtime.observers import Filter
from muster.service.decision_log import MOST_IN_MEMORY
from muster.service.streams import HEARTBEAT_S, Broadcast, EventStream
from muster_core.decisions import Kind
from tests.actors.serving.streaming.announcing import Following, new_broadcast, tell


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
    tell(broadcast, 600)
    client = Following()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast, 10))
        await wait_all_tasks_blocked()
        assert client.seqs == list(range(11, 601))
        tell(broadcast, 3)
        await trio.sleep(0.1)
        assert client.seqs == list(range(11, 604))
        client.leaves.set()
    assert broadcast.slots.in_use == 0


async def test_it_ends_after_a_number_or_a_count(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    tell(broadcast, 600)
    until, counted, filtered = Following(), Following(), Following()
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
    tell(broadcast, 250)
    first = broadcast.tail.after(0)
    assert first is not None
    await Following().run(stream(broadcast, 0, until=250))
    events = first.events

    await Following().run(stream(broadcast, 0, until=250))

    found = broadcast.tail.after(0)
    assert found is not None
    assert found.events is events


# STREAM-5


async def test_a_quiet_stream_shows_that_it_lives(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    client = Following()
    with trio.move_on_after(3.5 * HEARTBEAT_S):
        await client.run(stream(broadcast))

    assert client.reader.comments == 3
    assert client.sent == []


async def test_a_filtered_stream_tells_its_place_at_times(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    client = Following()
    nothing = Filter(app="nobody")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast, 0, nothing))
        await wait_all_tasks_blocked()
        tell(broadcast, 25_000)
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
    client = Following()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast))
        await wait_all_tasks_blocked()
        tell(broadcast, 10)
        await trio.sleep(1.0)
        client.is_reading = trio.Event()
        tell(broadcast, 10)
        await trio.sleep(1.0)
        tell(broadcast, MOST_IN_MEMORY + 10_000)
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
    client = Following()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run, stream(broadcast))
        await wait_all_tasks_blocked()
        client.is_reading = trio.Event()
        tell(broadcast, 10)
        before = trio.current_time()
        # The nursery ends when the stream has given up.

    assert 30.0 <= trio.current_time() - before < 31.0
    assert broadcast.stalled == 1
    assert broadcast.slots.in_use == 0


async def test_who_reads_now_and_then_is_not_cut_off(
    broadcast: Broadcast, autojump_clock: MockClock
) -> None:
    tell(broadcast, 50_000)
    client = Following()
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
    clients = [Following() for _ in range(5)]
    async with broadcast.running(ends), trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(client.run, stream(broadcast))
        await wait_all_tasks_blocked()
        tell(broadcast, 10)
        ends.set()

    assert [client.seqs for client in clients] == [list(range(1, 11))] * 5
    assert all(client.is_over for client in clients)
