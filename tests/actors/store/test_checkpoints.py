from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from muster import StoreError
from muster.store import Checkpoint, StateReader
from muster.store._writer import StateWriter
from tests.actors.store.program import S, made, numbers, parts_of, put_checkpoint, rows


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
    ("batch", "part", "told"),
    [
        (9, 0, "batch 9 is not kept"),
        (1, 1, "part 1 of the checkpoint of batch 1 does not follow part -1"),
        (2, 2, "part 2 of the checkpoint of batch 2 does not follow part 1"),
        (2, 0, "part 0 of the checkpoint of batch 2 does not follow part 1"),
    ],
)
def test_a_part_that_does_not_follow_is_a_mistake_of_the_caller(
    tmp_path: Path, batch: int, part: int, told: str
) -> None:
    with made(tmp_path / "state", 3) as writer:
        put_checkpoint(writer, 2, parts_of(2))
        with pytest.raises(ValueError, match=told):
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
def test_a_checkpoint_that_was_changed_is_told(tmp_path: Path, change: str) -> None:
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
