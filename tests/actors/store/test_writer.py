from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import msgpack
import pytest

import muster
from muster import StoreError
from muster.store import StateReader
from muster.store._rows import BatchRow, batch_digest, row_of
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
    assert meta["format"] == 2
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


def test_the_wal_stays_small_while_somebody_reads(tmp_path: Path) -> None:
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


def test_a_shell_that_holds_a_lock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.store._file.WAIT_S", 0.01)
    with made(tmp_path / "state", 1) as writer:
        shell = sqlite3.connect(tmp_path / "state" / "muster.db")
        shell.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program holds a lock on it"):
            writer.append(rows(2, 2))
        shell.close()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("queues.yaml",), r"holds other files \(queues.yaml\) and no muster.db: name an empty"),
        (("a", "b", "c", "d"), r"\(a, b, c, …\)"),
        (("muster.db-wal",), "there is muster.db-wal, but muster.db itself is missing"),
    ],
)
def test_a_directory_of_something_else_is_refused(
    tmp_path: Path, names: tuple[str, ...], told: str
) -> None:
    # STORE-1
    for name in names:
        (tmp_path / name).write_bytes(b"x")

    with pytest.raises(StoreError, match=told) as caught:
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
