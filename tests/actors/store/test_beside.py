"""What a service keeps beside the batches: requests that may be repeated, and its companion."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from muster import StoreError
from muster.store import StateReader
from muster.store._sql import CompanionState, RequestRow
from muster.store._writer import StateWriter
from tests.actors.store.program import made, put_checkpoint, rows


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
        assert reader.companion() == CompanionState(3, (b"d", b"e"))


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
        found = [reader.companion(batch) for batch in (2, 3, 4, 5)]
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
        assert reader.companion() is None
        assert reader.last().batch == 3


def test_a_directory_without_a_companion(tmp_path: Path) -> None:
    made(tmp_path, 1).close()

    with StateReader(tmp_path) as reader:
        assert reader.companion() is None
    StateWriter.open(tmp_path).close()
