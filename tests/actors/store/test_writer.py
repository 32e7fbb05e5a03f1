"""Writing: batches, checkpoints, and what a service keeps beside the batches."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import msgpack
import pytest

import muster
from muster import StoreError
from muster.store import Checkpoint, StateReader
from muster.store._rows import BatchRow, batch_digest, row_of
from muster.store._sql import CompanionState, RequestRow
from muster.store._writer import Durability, NewState, StateWriter
from tests.actors.store.program import (
    NEW,
    ORIGIN_US,
    S,
    made,
    numbers,
    parts_of,
    put_checkpoint,
    rows,
)


def query(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(directory / "muster.db")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_a_person_can_read_the_tables(tmp_path: Path) -> None:
    # STORE-2, STORE-3, STORE-4, STORE-6, STORE-7
    directory = tmp_path / "deep" / "state"
    with made(directory, 2) as writer:
        digest = writer.last.digest

    meta: dict[str, Any] = dict(query(directory, "SELECT key, value FROM meta"))
    assert meta["format"] == 3
    assert meta["written_by"] == muster.__version__
    assert datetime.fromisoformat(str(meta["origin"])).timestamp() * S == ORIGIN_US
    assert meta["origin_us"] == ORIGIN_US
    assert meta["partition"] == "default"
    (row,) = query(directory, "SELECT * FROM batch WHERE number = 2")
    number, at_us, events, decisions, first_seq, last_seq, kept = row
    assert (number, at_us, first_seq, last_seq, kept) == (2, 2 * S, 2, 3, digest)
    assert [one["op"] for one in msgpack.unpackb(events)] == ["add_ask", "remove_ask"]
    assert [one[:3] for one in msgpack.unpackb(decisions)] == [["bound", "app", "ask-2"]] * 2


def test_the_digest_of_a_batch_covers_the_one_before() -> None:
    # STORE-4
    first, second = rows(1, 2)
    chained = batch_digest(batch_digest(b"start", first), second)
    other = BatchRow(1, S, first.events + b"x", first.decisions, first.first_seq, first.last_seq)

    assert batch_digest(batch_digest(b"other", first), second) != chained
    assert batch_digest(batch_digest(b"start", other), second) != chained
    assert len(chained) == 32


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    with made(directory, 4) as writer:
        last = writer.last
        assert writer.is_new

    with StateWriter.open(directory) as writer:
        assert not writer.is_new
        assert writer.last == last
        assert writer.meta.origin_us == ORIGIN_US
        assert writer.meta.last_batch == 4
        writer.append(rows(5, 7))

    assert numbers(directory) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("durability", ["full", "process"])
def test_batches_are_there_as_soon_as_append_returns(
    tmp_path: Path, durability: Durability
) -> None:
    # STORE-15
    with StateWriter.create(tmp_path / "state", NEW, durability=durability) as writer:
        for number in range(1, 6):
            writer.append(rows(number, number))
            assert numbers(tmp_path / "state") == list(range(1, number + 1))


def test_several_batches_are_one_transaction(tmp_path: Path) -> None:
    # STORE-15
    with StateWriter.create(tmp_path / "state", NEW) as writer:
        with pytest.raises(ValueError, match="batch 4 does not follow batch 2"):
            writer.append([*rows(1, 2), *rows(4, 4)])
        assert numbers(tmp_path / "state") == []
        writer.append(rows(1, 3))
        assert numbers(tmp_path / "state") == [1, 2, 3]


@pytest.mark.parametrize(
    "row", [row_of(1, 0, [], [], 0), row_of(3, 0, [], [], 3), row_of(2, 0, [], [], 0)]
)
def test_a_batch_that_does_not_follow_is_a_mistake_of_the_caller(
    tmp_path: Path, row: BatchRow
) -> None:
    with made(tmp_path / "state", 1) as writer:
        with pytest.raises(ValueError, match="does not follow batch 1"):
            writer.append([row])
        writer.append(rows(2, 2))

    assert numbers(tmp_path / "state") == [1, 2]


def test_the_wal_stays_small_beside_a_reader(tmp_path: Path) -> None:
    # STORE-17
    directory = tmp_path / "state"
    state = NewState("default", ORIGIN_US, page_bytes=512)
    wal = directory / "muster.db-wal"
    with StateWriter.create(directory, state, durability="process") as writer:
        writer.append(rows(1, 3000))
        with StateReader(directory) as reader:
            batches = reader.batches()
            next(batches)
            for number in range(3001, 7001):
                writer.append(rows(number, number, seq=writer.last.seq))
            assert wal.stat().st_size < 4 * 1000 * 512
            assert len(list(batches)) == 6999


def test_compacting_gives_room_back(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    with made(directory, 3) as writer:
        writer.append(rows(4, 3000))
        put_checkpoint(writer, 2999, parts_of(2999))
    with StateWriter.open(directory) as writer:
        while writer.prune(10**18):
            pass
        before = (directory / "muster.db").stat().st_size
        writer.compact()
        assert (directory / "muster.db").stat().st_size < before / 4
        writer.append(rows(3001, 3001))

    assert numbers(directory) == [3000, 3001]


def test_it_may_be_closed_twice_and_not_used_then(tmp_path: Path) -> None:
    writer = made(tmp_path / "state", 1)
    writer.close()
    writer.close()

    with pytest.raises(StoreError, match="cannot write batch 2"):
        writer.append(rows(2, 2))


def test_a_shell_that_holds_a_lock_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.store._file.WAIT_S", 0.01)
    with made(tmp_path / "state", 1) as writer:
        shell = sqlite3.connect(tmp_path / "state" / "muster.db")
        shell.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program holds a lock on it"):
            writer.append(rows(2, 2))
        shell.close()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("queues.yaml",), r"holds other files \(queues.yaml\) and no muster.db: name an empty"),
        (("a", "b", "c", "d"), r"\(a, b, c, …\)"),
        (("muster.db-wal",), "there is muster.db-wal, but muster.db itself is missing"),
    ],
)
def test_a_directory_of_something_else_is_refused(
    tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    # STORE-1
    for name in names:
        (tmp_path / name).write_bytes(b"x")

    with pytest.raises(StoreError, match=message) as caught:
        StateWriter.create(tmp_path, NEW)

    assert caught.value.path == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    # STORE-1
    file = tmp_path / "state"
    file.write_bytes(b"")

    with pytest.raises(StoreError, match="is a file: name a state directory"):
        StateWriter.create(file, NEW)
    with pytest.raises(StoreError, match="state/below: cannot make the directory: Not a directory"):
        StateWriter.create(file / "below", NEW)


def test_a_directory_without_a_store_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is not a state directory: it has no file muster\.db"):
        StateWriter.open(tmp_path)
    with pytest.raises(StoreError, match="missing: No such file or directory"):
        StateWriter.open(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_a_store_is_made_once(tmp_path: Path) -> None:
    made(tmp_path / "state", 2).close()

    with pytest.raises(StoreError, match="is a state directory already: open it"):
        StateWriter.create(tmp_path / "state", NEW)
    with StateWriter.open(tmp_path / "state", new=NewState("other", 7)) as writer:
        assert (writer.meta.partition, writer.last.batch) == ("default", 2)


def test_what_was_left_half_made_is_made_anew(tmp_path: Path) -> None:
    # STORE-1
    for name in ("muster.db.new", "muster.db.new-wal", "muster.db.new-journal", "lock"):
        (tmp_path / name).write_bytes(b"half")

    StateWriter.create(tmp_path, NEW).close()

    assert numbers(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "muster.db"]


def batches_of(writer: StateWriter) -> list[int]:
    return [one.batch for one in writer.checkpoints() if one.complete]


def test_batches_come_in_between_the_parts(tmp_path: Path) -> None:
    # STORE-5
    directory = tmp_path / "state"
    with made(directory, 3) as writer:
        writer.put_part(3, 0, b"first", last=False)
        writer.append(rows(4, 4))
        with StateReader(directory) as reader:
            assert reader.checkpoints() == [Checkpoint(3, 3 * S, 1, 5, complete=False)]
            assert reader.newest_checkpoint() is None
            with pytest.raises(StoreError, match="the checkpoint of batch 3 is not complete"):
                reader.checkpoint(3)
        writer.put_part(3, 1, b"second", last=True)

    with StateReader(directory) as reader:
        assert reader.checkpoints() == [Checkpoint(3, 3 * S, 2, 11, complete=True)]
        assert reader.checkpoint(3) == [b"first", b"second"]


def test_one_that_was_not_finished_goes_when_it_is_opened_again(tmp_path: Path) -> None:
    # STORE-5
    directory = tmp_path / "state"
    with made(directory, 3) as writer:
        put_checkpoint(writer, 2, parts_of(2))
        writer.put_part(3, 0, b"first", last=False)

    with StateWriter.open(directory) as writer:
        assert [one.batch for one in writer.checkpoints()] == [2]
        put_checkpoint(writer, 3, parts_of(3))
        assert batches_of(writer) == [2, 3]


def test_a_checkpoint_may_come_before_the_first_batch(tmp_path: Path) -> None:
    with made(tmp_path / "state", 0) as writer:
        put_checkpoint(writer, 0, [b"empty"])
        writer.append(rows(1, 1))

    with StateReader(tmp_path / "state") as reader:
        assert reader.checkpoint(0) == [b"empty"]


@pytest.mark.parametrize(
    ("batch", "part", "message"),
    [
        (9, 0, "batch 9 is not kept"),
        (1, 1, "part 1 of the checkpoint of batch 1 does not follow part -1"),
        (2, 2, "part 2 of the checkpoint of batch 2 does not follow part 1"),
        (2, 0, "part 0 of the checkpoint of batch 2 does not follow part 1"),
    ],
)
def test_a_part_that_does_not_follow_is_a_mistake_of_the_caller(
    tmp_path: Path, batch: int, part: int, message: str
) -> None:
    with made(tmp_path / "state", 3) as writer:
        put_checkpoint(writer, 2, parts_of(2))
        with pytest.raises(ValueError, match=message):
            writer.put_part(batch, part, b"x", last=True)
        assert batches_of(writer) == [2]


def test_old_ones_are_dropped_in_small_transactions(tmp_path: Path) -> None:
    with made(tmp_path / "state", 5) as writer:
        for batch in range(1, 6):
            put_checkpoint(writer, batch, [b"x"] * 4)
        steps = 0
        while removed := writer.drop_checkpoints(2, most=3):
            assert removed <= 3
            steps += 1
        assert steps == 4
        assert [one.batch for one in writer.checkpoints()] == [4, 5]
        writer.drop_checkpoints(0)
        assert 5 in batches_of(writer)


def test_the_newest_three_stay(tmp_path: Path) -> None:
    # STORE-19
    with made(tmp_path / "state", 9) as writer:
        for batch in range(1, 10):
            put_checkpoint(writer, batch, parts_of(batch))
        drop_all(writer)
        assert batches_of(writer) == [7, 8, 9]


def test_the_one_with_which_history_begins_stays(tmp_path: Path) -> None:
    # STORE-19
    with made(tmp_path / "state", 9) as writer:
        for batch in range(1, 10):
            put_checkpoint(writer, batch, parts_of(batch))
        while writer.prune(4 * S):
            pass
        drop_all(writer)
        assert batches_of(writer) == [3, 7, 8, 9]
        assert writer.meta.anchor.batch == 3


def test_those_that_are_far_apart_stay_for_pruning(tmp_path: Path) -> None:
    # STORE-19: batch n is of second n
    with made(tmp_path / "state", 12) as writer:
        for batch in range(1, 13):
            put_checkpoint(writer, batch, parts_of(batch))
            drop_all(writer, apart_us=4 * S)
        assert batches_of(writer) == [1, 5, 9, 10, 11, 12]
        while writer.prune(7 * S):
            pass
        drop_all(writer, apart_us=4 * S)
        assert batches_of(writer) == [5, 9, 10, 11, 12]


def drop_all(writer: StateWriter, apart_us: int | None = None) -> None:
    while writer.drop_checkpoints(apart_us=apart_us):
        pass


def test_pruning_needs_a_checkpoint(tmp_path: Path) -> None:
    # STORE-16
    with made(tmp_path / "state", 6) as writer:
        assert writer.prune(10**18) == 0
        writer.put_part(6, 0, b"x", last=False)
        assert writer.prune(10**18) == 0
        put_checkpoint(writer, 4, parts_of(4))
        assert writer.prune(4 * S) == 0  # The checkpoint is not older than that.
        assert writer.prune(4 * S + 1, most=3) == 3
        assert numbers(tmp_path / "state") == [4, 5, 6]
        assert writer.prune(10**18) == 1  # those that the checkpoint covers
        assert writer.prune(10**18) == 0

    assert numbers(tmp_path / "state") == [5, 6]


def test_the_chain_holds_after_pruning(tmp_path: Path) -> None:
    # STORE-16
    directory = tmp_path / "state"
    with made(directory, 9) as writer:
        fourth = writer.last
        put_checkpoint(writer, 2, parts_of(2))
        put_checkpoint(writer, 9, parts_of(9))
        while removed := writer.prune(9 * S, most=1):
            assert removed == 1
            assert writer.last == fourth
        # What is left begins with a checkpoint, or it could not be let in again.
        assert writer.meta.anchor.batch == 2
        assert [one.batch for one in writer.checkpoints()] == [2, 9]
    with StateWriter.open(directory) as writer:
        assert writer.last == fourth
        assert writer.prune(10**18) == 7
        assert writer.prune(10**18) == 2  # the parts of the first checkpoint
        assert [one.batch for one in writer.checkpoints()] == [9]
        assert writer.last == fourth
        writer.append(rows(10, 10))

    with StateReader(directory) as reader:
        assert reader.checkpoint(9) == parts_of(9)
        assert reader.checkpoints()[0].at_us == 9 * S
        assert [batch.number for batch in reader.batches()] == [10]
        with pytest.raises(StoreError, match="batches up to 9 were removed, as `keep` says"):
            list(reader.batches(after=4))


def spoil(directory: Path, batch: int) -> None:
    connection = sqlite3.connect(directory / "muster.db")
    with connection:
        connection.execute("UPDATE checkpoint SET state = 'x' WHERE batch = ?", (batch,))
    connection.close()


def test_batches_stay_if_the_checkpoint_that_covers_them_is_damaged(tmp_path: Path) -> None:
    # STORE-16
    directory = tmp_path / "state"
    with made(directory, 4) as writer:
        put_checkpoint(writer, 3, parts_of(3))
    spoil(directory, 3)

    with StateWriter.open(directory) as writer, pytest.raises(StoreError, match="batch 3"):
        writer.prune(10**18)

    assert numbers(directory) == [1, 2, 3, 4]


def test_an_older_checkpoint_takes_the_place_of_one_that_is_damaged(tmp_path: Path) -> None:
    # STORE-5
    directory = tmp_path / "state"
    with made(directory, 6) as writer:
        for batch in (2, 4, 6):
            put_checkpoint(writer, batch, parts_of(batch))
    spoil(directory, 6)
    spoil(directory, 4)

    with StateReader(directory) as reader:
        found = reader.newest_checkpoint()
        assert found is not None
        assert (found.batch, list(found.parts)) == (2, parts_of(2))
        assert [batch for batch, _ in found.broken] == [6, 4]
        assert "checkpoint of batch 6" in found.broken[0][1]
        assert reader.newest_checkpoint(1) is None


def test_damaged_checkpoints_without_the_first_batches_lead_to_no_state(tmp_path: Path) -> None:
    # STORE-5
    directory = tmp_path / "state"
    with made(directory, 4) as writer:
        put_checkpoint(writer, 3, parts_of(3))
        writer.prune(10**18)
    spoil(directory, 3)

    with (
        StateReader(directory) as reader,
        pytest.raises(StoreError, match="every checkpoint is damaged, and the first batches were"),
    ):
        reader.newest_checkpoint()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE checkpoint SET state = zeroblob(length(state)) WHERE part = 0",
        "UPDATE checkpoint SET digest = zeroblob(32) WHERE part = 1",
        "UPDATE checkpoint SET part = 7 WHERE part = 1",
        "UPDATE checkpoint SET parts = 1 WHERE part = 0",
        "UPDATE checkpoint SET batch = 2 WHERE part = 1",
        "UPDATE checkpoint SET batch = 2",
        "DELETE FROM checkpoint WHERE part = 0",
        "DELETE FROM checkpoint WHERE part = 1",
        "UPDATE batch SET digest = zeroblob(32) WHERE number = 3",
    ],
)
def test_a_checkpoint_that_was_changed_is_refused(tmp_path: Path, change: str) -> None:
    # STORE-5
    directory = tmp_path / "state"
    with made(directory, 4) as writer:
        put_checkpoint(writer, 3, parts_of(3))
    connection = sqlite3.connect(directory / "muster.db")
    with connection:
        connection.execute(change)
    connection.close()

    with StateReader(directory) as reader:
        for batch in (2, 3):
            with pytest.raises(StoreError, match=f"checkpoint of batch {batch}"):
                reader.checkpoint(batch)


def request(key: str, batch: int, at_us: int) -> RequestRow:
    return RequestRow("ann", key, b"digest", batch, batch, 1, at_us)


def test_a_request_is_kept_with_its_batch(tmp_path: Path) -> None:
    # STORE-21
    with made(tmp_path, 1) as writer:
        writer.append(rows(2, 2), [request("a", 2, 20)])
        writer.append(rows(3, 3), [request("b", 3, 30)])

    with StateReader(tmp_path) as reader:
        assert reader.requests(0) == [request("a", 2, 20), request("b", 3, 30)]
        assert reader.requests(21) == [request("b", 3, 30)]


def test_a_batch_that_cannot_be_written_takes_its_request_with_it(tmp_path: Path) -> None:
    # STORE-21
    with (
        made(tmp_path, 1) as writer,
        pytest.raises(ValueError, match="batch 4 does not follow batch 1"),
    ):
        writer.append(rows(4, 4), [request("a", 4, 40)])

    with StateReader(tmp_path) as reader:
        assert reader.requests(0) == []


def test_old_requests_go(tmp_path: Path) -> None:
    # STORE-21
    with made(tmp_path, 1) as writer:
        writer.append(rows(2, 3), [request("a", 2, 20), request("b", 3, 30)])
        writer.forget_requests(30)

    with StateReader(tmp_path) as reader:
        assert [one.key for one in reader.requests(0)] == ["b"]


def test_a_request_that_was_changed_is_damage(tmp_path: Path) -> None:
    # STORE-21
    with made(tmp_path, 1) as writer:
        writer.append(rows(2, 2), [request("a", 2, 20)])
    connection = sqlite3.connect(tmp_path / "muster.db", isolation_level=None)
    connection.execute("UPDATE request SET count = 9")
    connection.close()

    with (
        StateReader(tmp_path) as reader,
        pytest.raises(StoreError, match="the digest of request 'a' does not hold"),
    ):
        reader.requests(0)


def test_a_companion_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    # STORE-22
    with made(tmp_path, 3) as writer:
        writer.put_companion(CompanionState(1, (b"a", b"b", b"c")))
        writer.put_companion(CompanionState(3, (b"d", b"e")))

    with StateReader(tmp_path) as reader:
        assert reader.observer_state() == CompanionState(3, (b"d", b"e"))


def test_a_companion_stays_as_long_as_the_checkpoint_of_its_batch(tmp_path: Path) -> None:
    # STORE-22
    with made(tmp_path, 5) as writer:
        for batch in (1, 2, 3, 4):
            if batch != 2:
                put_checkpoint(writer, batch, [b"x"])
            writer.put_companion(CompanionState(batch, (b"%d" % batch, b"y")))
        while writer.drop_checkpoints(2):
            pass
        writer.put_companion(CompanionState(5, (b"5",)))

    with StateReader(tmp_path) as reader:
        found = [reader.observer_state(batch) for batch in (2, 3, 4, 5)]
    assert [None if one is None else one.batch for one in found] == [None, 3, 4, 5]
    assert found[1] == CompanionState(3, (b"3", b"y"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE companion SET state = 'x' WHERE part = 1",
        "DELETE FROM companion WHERE part = 0",
        "DELETE FROM companion WHERE part = 1",
        "UPDATE companion SET parts = 0",
    ],
)
def test_a_damaged_companion_is_not_used(tmp_path: Path, change: str) -> None:
    # STORE-22
    with made(tmp_path, 3) as writer:
        writer.put_companion(CompanionState(2, (b"a", b"b")))
    connection = sqlite3.connect(tmp_path / "muster.db", isolation_level=None)
    connection.execute(change)
    connection.close()

    with StateReader(tmp_path) as reader:
        assert reader.observer_state() is None
        assert reader.last().batch == 3


def test_a_directory_without_a_companion(tmp_path: Path) -> None:
    made(tmp_path, 1).close()

    with StateReader(tmp_path) as reader:
        assert reader.observer_state() is None
    StateWriter.open(tmp_path).close()
