from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from muster import StoreError
from muster.store import StateReader
from muster.store._rows import BatchRow
from muster.store._writer import StateWriter
from tests.actors.store.program import (
    S,
    batches_in,
    copied,
    events_of,
    made,
    parts_of,
    put_checkpoint,
    rows,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with seven batches and two checkpoints, closed."""
    with made(tmp_path / "state", 7) as writer:
        put_checkpoint(writer, 3, parts_of(3))
        put_checkpoint(writer, 6, parts_of(6))
    return tmp_path / "state"


def test_batches_come_back_with_what_was_let_in_and_decided(directory: Path) -> None:
    found = batches_in(directory)

    assert [batch.row() for batch in found] == rows(1, 7)
    assert [batch.at_us for batch in found] == [number * S for number in range(1, 8)]
    assert found[4].events == events_of(5)
    assert [one.at_us for one in found[4].decisions] == [5 * S] * 2


@pytest.mark.parametrize(
    ("after", "until", "wanted"),
    [
        (None, None, [1, 2, 3, 4, 5, 6, 7]),
        (0, None, [1, 2, 3, 4, 5, 6, 7]),
        (4, None, [5, 6, 7]),
        (2, 5, [3, 4, 5]),
        (7, None, []),
        (None, 0, []),
    ],
)
def test_some_batches(
    directory: Path, after: int | None, until: int | None, wanted: list[int]
) -> None:
    with StateReader(directory) as reader:
        assert [batch.number for batch in reader.batches(after, until)] == wanted


def test_a_batch_that_is_not_there_is_an_error(directory: Path) -> None:
    with StateReader(directory) as reader, pytest.raises(StoreError, match="batch 8 is missing"):
        list(reader.batches(after=8))


def test_long_reads_are_made_of_short_ones(tmp_path: Path) -> None:
    # STORE-17
    with made(tmp_path / "state", 0) as writer, StateReader(tmp_path / "state") as reader:
        writer.append(rows(1, 2500))
        assert [batch.number for batch in reader.batches()] == list(range(1, 2501))


def test_what_is_let_in_while_it_is_read_comes_too(directory: Path) -> None:
    # STORE-17
    seen: list[int] = []
    with StateWriter.open(directory) as writer, StateReader(directory) as reader:
        for batch in reader.batches():
            seen.append(batch.number)
            if batch.number < 12 and batch.number >= 7:
                writer.append(rows(batch.number + 1, batch.number + 1))

    assert seen == list(range(1, 13))


def test_a_writer_that_comes_and_goes_is_noticed(directory: Path) -> None:
    # STORE-17: without a WAL the file is read as one that nobody writes.
    with StateReader(directory) as reader:
        for number in range(8, 12):
            with StateWriter.open(directory) as writer:
                writer.append(rows(number, number))
                assert reader.last().batch == number
            assert reader.last().batch == number
            assert [batch.row() for batch in reader.batches()] == rows(1, number)


def test_a_reader_leaves_no_files(directory: Path) -> None:
    # STORE-14
    before = sorted(path.name for path in directory.iterdir())

    assert len(batches_in(directory)) == 7

    assert sorted(path.name for path in directory.iterdir()) == before


def test_a_killed_writer_leaves_its_batches(tmp_path: Path) -> None:
    with made(tmp_path / "state", 5):
        killed = copied(tmp_path / "state", tmp_path / "killed")
    assert (killed / "muster.db-wal").stat().st_size > 0

    assert [batch.number for batch in batches_in(killed)] == [1, 2, 3, 4, 5]


READ = """
    import os, sys
    from pathlib import Path
    from muster import StoreError
    from muster.store import StateReader
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        with StateReader(Path(sys.argv[1])) as reader:
            print(len(list(reader.batches())))
    except StoreError as error:
        print(error)
"""


@pytest.fixture
def readable() -> Iterator[Path]:
    """An empty folder that every user can look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def read_by_another(directory: Path) -> str:
    """Return how many batches a user reads who may not write there, or the error."""
    for path in directory.iterdir():
        path.chmod(0o444)
    directory.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READ), str(directory)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    directory.chmod(0o755)
    return done.stdout


def test_a_directory_can_be_read_that_cannot_be_written(directory: Path, readable: Path) -> None:
    # STORE-14
    shutil.copytree(directory, readable / "state")

    assert read_by_another(readable / "state") == "7\n"


def test_a_directory_in_use_can_be_read_that_cannot_be_written(readable: Path) -> None:
    # STORE-14
    with made(readable / "state", 5):
        assert read_by_another(readable / "state") == "5\n"


def test_a_directory_that_was_not_closed_and_cannot_be_written_says_what_to_do(
    tmp_path: Path, readable: Path
) -> None:
    with made(tmp_path / "state", 5):
        killed = copied(tmp_path / "state", readable / "state")

    message = read_by_another(killed)

    assert (
        "it was not closed, and SQLite must make a file beside it to read it: copy the" in message
    )


@pytest.mark.parametrize(
    ("at_us", "batch"), [(0, 0), (S - 1, 0), (S, 1), (3 * S + 1, 3), (7 * S, 7), (99 * S, 7)]
)
def test_the_batch_at_an_instant(directory: Path, at_us: int, batch: int) -> None:
    with StateReader(directory) as reader:
        assert reader.batch_at(at_us) == batch


def test_the_batch_before_a_decision(directory: Path) -> None:
    with StateReader(directory) as reader:
        for batch in reader.batches():
            for decision in batch.decisions:
                before = reader.batch_before_seq(decision.seq)
                (found, *_) = [one for one in reader.batches(before) if one.decisions]
                assert decision in found.decisions
        assert reader.batch_before_seq(10**9) == 7


def test_a_summary(directory: Path) -> None:
    # STORE-18
    with StateReader(directory) as reader:
        found = reader.summary()

    assert (found.batches, found.first_us, found.last_us, found.last_batch) == (7, S, 7 * S, 7)
    assert found.decisions == sum(number % 3 for number in range(1, 8))
    assert found.events == found.decisions  # in this program, by chance
    assert found.events_bytes == sum(len(row.events) for row in rows(1, 7))
    assert found.decisions_bytes == sum(len(row.decisions) for row in rows(1, 7))
    assert found.file_bytes == (directory / "muster.db").stat().st_size
    assert [one.batch for one in found.checkpoints] == [3, 6]
    assert found.meta.partition == "default"


def test_a_summary_of_nothing(tmp_path: Path) -> None:
    with made(tmp_path / "state", 0), StateReader(tmp_path / "state") as reader:
        found = reader.summary()

    assert (found.batches, found.first_us, found.last_us, found.decisions) == (0, None, None, 0)


def change(directory: Path, statement: str) -> None:
    connection = sqlite3.connect(directory / "muster.db")
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE batch SET at_us = 7 WHERE number = 5", "batch 5 does not match its digest"),
        ("UPDATE batch SET events = x'90' WHERE number = 5", "batch 5 does not match its digest"),
        (
            "UPDATE batch SET decisions = x'90' WHERE number = 5",
            "batch 5 does not match its digest",
        ),
        ("UPDATE batch SET digest = x'90' WHERE number = 5", "batch 5 does not match its digest"),
        ("UPDATE batch SET last_seq = 99 WHERE number = 5", "batch 5 does not match its digest"),
        ("UPDATE batch SET at_us = 'x' WHERE number = 5", "batch 5: at_us is str, not int"),
        ("UPDATE batch SET events = 'x' WHERE number = 5", "batch 5: events is str, not bytes"),
        ("DELETE FROM batch WHERE number = 5", "batch 5 is missing"),
    ],
)
def test_a_batch_that_was_changed_is_refused(directory: Path, statement: str, message: str) -> None:
    # STORE-4
    change(directory, statement)

    seen: list[int] = []
    with StateReader(directory) as reader, pytest.raises(StoreError, match=message) as caught:
        seen += [batch.number for batch in reader.batches()]
    assert caught.value.path == directory / "muster.db"
    assert "restore it from a copy of the folder" in str(caught.value)


def test_digests_need_not_be_checked(directory: Path) -> None:
    change(directory, "UPDATE batch SET at_us = 7 WHERE number = 5")

    with StateReader(directory) as reader:
        assert len(list(reader.batches(verify=False))) == 7


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("events", [{"op": "paint"}], "batch 1: event 0 is unreadable: op is 'paint'"),
        ("decisions", [["bound"]], "batch 1: decision 1 has 1 fields"),
        ("decisions", [], "batch 1 has 0 decisions, not 1"),
    ],
)
def test_what_a_newer_version_wrote_is_refused(
    tmp_path: Path, column: str, value: object, message: str
) -> None:
    # STORE-12
    (row,) = rows(1, 1)
    packed = {"events": row.events, "decisions": row.decisions} | {column: msgpack.packb(value)}
    with made(tmp_path, 0) as writer:
        writer.append([BatchRow(1, S, packed["events"], packed["decisions"], 1, 1)])

    with StateReader(tmp_path) as reader:
        (batch,) = reader.batches()
        with pytest.raises(StoreError, match=message):
            _ = (batch.events, batch.decisions)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (None, "place: No such file or directory"),
        ("file", "place: is a file: name a state directory"),
        ("folder", r"place: is not a state directory: it has no file muster\.db"),
    ],
)
def test_what_is_no_state_directory_is_refused(
    tmp_path: Path, make: str | None, message: str
) -> None:
    place = tmp_path / "place"
    if make == "file":
        place.write_bytes(b"")
    elif make == "folder":
        place.mkdir()

    with pytest.raises(StoreError, match=message):
        StateReader(place)


def test_a_reader_may_be_closed_twice(directory: Path) -> None:
    reader = StateReader(directory)
    reader.close()
    reader.close()


def test_sqlite_finds_nothing_wrong_with_the_pages(directory: Path) -> None:
    with StateReader(directory) as reader:
        assert reader.problems_of_pages() == []
