"""Going through all decisions: from the store, then from memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from muster.service.decision_log import Cursor, DecisionTail, Gone, Lagged
from muster.service.limits import RETRY_AFTER_S
from muster.service.payloads import Problem
from muster.service.streams import Broadcast
from muster.store import KeptBatch, StateReader
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from tests.actors.kept import ONE, Keeper, S
from tests.actors.serving.streaming.announcing import new_broadcast, tell

BATCHES = 60
PRUNED = 20


def filled(directory: Path, *, pruned: bool = False) -> list[KeptBatch]:
    """Keep batches with some decisions each, and one with thousands; return what is kept."""
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
    """Return a broadcast that has heard of batches, of which memory has the latest decisions."""
    broadcast = new_broadcast(directory)
    broadcast.tail = DecisionTail(most)
    for batch in batches:
        all_at_once(broadcast.tail.hear(batch.number, batch.decisions))
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
            all_at_once(broadcast.tail.hear(batch.number, batch.decisions))
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
    with broadcast.cursor(first - 2, lags=True) as cursor, pytest.raises(Gone):
        await cursor.next()


async def test_without_a_store_only_memory_counts() -> None:
    broadcast = new_broadcast()
    broadcast.tail = DecisionTail(1000)
    tell(broadcast, 5_000)
    first = broadcast.tail.first

    assert await broadcast.first() == first > 1
    await broadcast.check(first - 1)
    with pytest.raises(Problem) as caught:
        await broadcast.check(0)
    assert caught.value.status == 410
    assert caught.value.detail == f"after: the decisions before {first} are not kept any more"
    with broadcast.cursor(0, lags=True) as cursor, pytest.raises(Gone):
        await cursor.next()


# STREAM-6


@pytest.mark.parametrize("lags", [True, False])
async def test_a_stream_that_fell_behind_does_not_go_back(tmp_path: Path, lags: bool) -> None:
    batches = filled(tmp_path / "state")
    broadcast = open_broadcast(tmp_path / "state", batches[:30], 256)
    with broadcast.cursor(broadcast.tail.last - 1, lags=lags) as cursor:
        assert len(await seqs(cursor)) == 1
        for batch in batches[30:]:
            all_at_once(broadcast.tail.hear(batch.number, batch.decisions))
        if lags:
            with pytest.raises(Lagged):
                await cursor.next()
        else:
            assert (await seqs(cursor))[-1] == batches[-1].last_seq


# STREAM-7


async def test_there_are_not_more_streams_than_may_be() -> None:
    broadcast = new_broadcast(most=2)
    with broadcast.one_more():
        broadcast.check_room()
        with broadcast.one_more():
            with pytest.raises(Problem) as caught:
                broadcast.check_room()
            await trio.lowlevel.checkpoint()
        broadcast.check_room()

    assert caught.value.status == 503
    assert caught.value.headers == {"Retry-After": str(RETRY_AFTER_S)}
