from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from muster import StoreError
from muster.store._reader import verify
from muster.store._rows import BatchRow
from tests.actors.store.program import S, made, parts_of, put_checkpoint


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with five batches and two checkpoints, closed."""
    with made(tmp_path / "state", 5) as writer:
        put_checkpoint(writer, 2, parts_of(2))
        put_checkpoint(writer, 4, parts_of(4))
    return tmp_path / "state"


def test_a_directory_that_is_whole(directory: Path) -> None:
    # STORE-18
    seen: list[int] = []

    assert list(verify(directory, seen.append)) == []
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["UPDATE batch SET at_us = 0 WHERE number = 3"], ["batch 3 does not match its digest"]),
        (["DELETE FROM batch WHERE number = 5"], ["batches 5 to 5 are missing"]),
        (
            ["UPDATE checkpoint SET state = x'00' WHERE part = 1"],
            ["part 1 of the checkpoint of batch 2", "part 1 of the checkpoint of batch 4"],
        ),
        (
            [
                "UPDATE batch SET at_us = 0 WHERE number = 5",
                "UPDATE checkpoint SET state = x'00' WHERE batch = 4 AND part = 0",
            ],
            [
                "batch 5 does not match its digest",
                "batch 5 does not match its digest",
                "part 0 of the checkpoint of",
            ],
        ),
    ],
)
def test_what_is_damaged_is_told(directory: Path, statements: list[str], told: list[str]) -> None:
    # STORE-18
    connection = sqlite3.connect(directory / "muster.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()

    found = list(verify(directory))

    assert len(found) == len(told)
    assert all(part in problem for part, problem in zip(told, found, strict=True))


def test_pages_that_hang_together_wrongly_are_told(directory: Path) -> None:
    # STORE-18: a page that is in no list and in no table harms nothing yet.
    connection = sqlite3.connect(directory / "muster.db", isolation_level=None)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE type = 'index'")
    connection.close()

    assert any("muster.db: " in problem for problem in verify(directory))


def test_what_this_version_does_not_know_is_told(tmp_path: Path) -> None:
    # STORE-12
    with made(tmp_path, 0) as writer:
        writer.append([BatchRow(1, S, b"\x91\xc0", b"\x90", 1, 0)])

    (problem,) = verify(tmp_path)

    assert "batch 1: event 0 is unreadable" in problem


def test_a_part_of_a_checkpoint_that_is_being_written_is_no_problem(directory: Path) -> None:
    with made(directory.parent / "other", 2) as writer:
        writer.put_part(2, 0, b"x", last=False)
        assert list(verify(directory.parent / "other")) == []


def test_what_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        list(verify(tmp_path / "missing"))
