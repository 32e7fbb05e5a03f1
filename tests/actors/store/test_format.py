"""Formats: what is brought up to date, what is refused; verification; and the lock on a store."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import muster
from muster import StoreError
from muster.store import StateReader
from muster.store._file import MIGRATIONS, Migration
from muster.store._reader import verify
from muster.store._rows import FORMAT, BatchRow, MetaFacts, facts_digest
from muster.store._sql import RequestRow
from muster.store._writer import StateWriter
from tests.actors.store.program import NEW, S, made, numbers, parts_of, put_checkpoint, rows

MOST = 2**63 - 1


def change(directory: Path, *statements: str) -> None:
    connection = sqlite3.connect(directory / "muster.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def put_facts(directory: Path, **changes: object) -> None:
    """Change facts, with a digest that holds; None takes one away."""
    connection = sqlite3.connect(directory / "muster.db")
    with connection:
        facts = dict(connection.execute("SELECT key, value FROM meta"))
        del facts["digest"]
        facts = {key: one for key, one in (facts | changes).items() if one is not None}
        connection.execute("DELETE FROM meta")
        facts["digest"] = facts_digest(facts)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
    connection.close()


BEFORE_2 = ("DROP TABLE request", "DROP TABLE companion")


def format_0(directory: Path) -> Path:
    """Make a directory of an older format: other names of batches, and no partition."""
    made(directory, 3).close()
    change(directory, "ALTER TABLE batch RENAME TO lot", *BEFORE_2)
    put_facts(directory, format=0, partition=None, written_by="0.0.9")
    return directory


def to_1(connection: sqlite3.Connection, facts: MetaFacts) -> None:
    sql = "SELECT replace(sql, '\"lot\"', 'batch') FROM sqlite_master WHERE name = 'lot'"
    (create,) = connection.execute(sql).fetchone()
    connection.execute(create)
    connection.execute("INSERT INTO batch SELECT * FROM lot")
    connection.execute("DROP TABLE lot")
    facts["partition"] = "default"


def test_an_older_format_is_brought_up_to_date_after_a_copy(tmp_path: Path) -> None:
    # STORE-8
    directory = format_0(tmp_path / "state")
    old = (directory / "muster.db").read_bytes()

    with StateWriter.open(directory, migrations={**MIGRATIONS, 0: to_1}) as writer:
        assert writer.meta.format == FORMAT
        assert writer.meta.written_by == muster.__version__
        assert writer.wrote_last == "0.0.9"
        writer.append(rows(4, 4))

    assert numbers(directory) == [1, 2, 3, 4]
    copy = sqlite3.connect(directory / "muster.db.format-0")
    assert copy.execute("SELECT count(*) FROM lot").fetchone() == (3,)
    assert copy.execute("SELECT value FROM meta WHERE key = 'format'").fetchone() == (0,)
    copy.close()
    assert len((directory / "muster.db.format-0").read_bytes()) == len(old)
    StateWriter.open(directory).close()


def test_format_1_gets_the_tables_of_a_service(tmp_path: Path) -> None:
    # STORE-8
    made(tmp_path, 3).close()
    change(tmp_path, *BEFORE_2)
    put_facts(tmp_path, format=1)

    with StateWriter.open(tmp_path) as writer:
        writer.append(rows(4, 4), [RequestRow("ann", "k", b"d", 4, 0, 1, 40)])

    assert numbers(tmp_path) == [1, 2, 3, 4]
    with StateReader(tmp_path) as reader:
        assert [one.key for one in reader.requests(0)] == ["k"]


def test_format_2_gets_the_first_term(tmp_path: Path) -> None:
    # STORE-8
    made(tmp_path, 3).close()
    put_facts(tmp_path, format=2, term=None)

    with StateWriter.open(tmp_path) as writer:
        assert (writer.meta.format, writer.meta.term, writer.last.batch) == (FORMAT, 1, 3)


def test_a_step_that_fails_changes_nothing(tmp_path: Path) -> None:
    # STORE-8
    directory = format_0(tmp_path / "state")

    def halfway(connection: sqlite3.Connection, facts: MetaFacts) -> None:
        to_1(connection, facts)
        connection.execute("SELECT * FROM what_is_not_there")

    with pytest.raises(StoreError, match=r"cannot open the file: .*no such table"):
        StateWriter.open(directory, migrations={**MIGRATIONS, 0: halfway})

    with StateWriter.open(directory, migrations={**MIGRATIONS, 0: to_1}) as writer:
        assert writer.last.batch == 3


def test_a_format_that_is_too_old_is_refused(tmp_path: Path) -> None:
    # STORE-8
    directory = format_0(tmp_path / "state")

    with pytest.raises(
        StoreError, match=r"has format 0, and Muster .* cannot bring it to format 3"
    ):
        StateWriter.open(directory)
    assert not (directory / "muster.db.format-0").exists()


def test_a_reader_leaves_an_older_format_as_it_is(tmp_path: Path) -> None:
    # STORE-8
    directory = format_0(tmp_path / "state")

    with pytest.raises(StoreError, match="has the older format 0: open it once for writing"):
        StateReader(directory)


def opened_by_a_writer(directory: Path) -> None:
    migrations: dict[int, Migration] = {**MIGRATIONS, 0: to_1}
    StateWriter.open(directory, migrations=migrations).close()


def opened_by_a_reader(directory: Path) -> None:
    StateReader(directory).close()


OPENED = pytest.mark.parametrize("opened", [opened_by_a_writer, opened_by_a_reader])


@OPENED
def test_a_newer_format_is_refused(tmp_path: Path, opened: Callable[[Path], None]) -> None:
    # STORE-8
    made(tmp_path, 1).close()
    put_facts(tmp_path, format=4, written_by="9.1")

    with pytest.raises(StoreError, match=r"has format 4, written by Muster 9\.1; this is Muster"):
        opened(tmp_path)


@OPENED
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA application_id = 7", "is a SQLite file of something else"),
        ("DROP TABLE meta", "no such table: meta"),
        ("DELETE FROM meta", "the table meta does not match its digest"),
        ("UPDATE meta SET value = 1 WHERE key = 'origin_us'", "the table meta does not match"),
        ("UPDATE meta SET value = NULL WHERE key = 'origin'", "a value of another type"),
        ("DROP TABLE checkpoint", "its tables are not those of format 3"),
        ("CREATE TABLE more (a)", "its tables are not those of format 3"),
        ("DELETE FROM batch WHERE number = 3", "batches 3 to 3 are missing"),
        ("DELETE FROM batch", "batches 1 to 3 are missing"),
        ("DELETE FROM batch WHERE number = 1", "the first batch is 2, not 1"),
        ("UPDATE batch SET at_us = 1 WHERE number = 3", "batch 3 does not match its digest"),
        ("UPDATE batch SET digest = 7 WHERE number = 2", "batch 2 is missing, or not of the right"),
    ],
)
def test_what_cannot_be_right_is_refused(
    tmp_path: Path, opened: Callable[[Path], None], statement: str, message: str
) -> None:
    # STORE-17
    made(tmp_path, 3).close()
    change(tmp_path, statement)

    with pytest.raises(StoreError, match=message) as caught:
        opened(tmp_path)
        with StateReader(tmp_path) as reader:
            reader.last()
    assert caught.value.path == tmp_path / "muster.db"


@OPENED
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": None}, "the table meta does not say its format"),
        ({"partition": None}, "the table meta is not that of format 3: partition"),
        ({"origin_us": "x"}, "the table meta is not that of format 3: origin_us"),
        ({"colour": "red"}, "the table meta is not that of format 3: colour"),
        ({"anchor_batch": 2, "last_batch": MOST}, "is missing|are missing|the first batch is"),
    ],
)
def test_facts_that_cannot_be_right_are_refused(
    tmp_path: Path, opened: Callable[[Path], None], changes: dict[str, object], message: str
) -> None:
    made(tmp_path, 3).close()
    put_facts(tmp_path, **changes)

    with pytest.raises(StoreError, match=message):
        opened(tmp_path)
        with StateReader(tmp_path) as reader:
            reader.last()


@OPENED
@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "it is empty"), (b"x" * 5000, "is no SQLite file"), (b"SQLite format 3\0", "is")],
)
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, opened: Callable[[Path], None], content: bytes, message: str
) -> None:
    (tmp_path / "muster.db").write_bytes(content)

    with pytest.raises(StoreError, match=message):
        opened(tmp_path)
    assert (tmp_path / "muster.db").read_bytes() == content


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
    ("statements", "messages"),
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
def test_damage_is_reported(directory: Path, statements: list[str], messages: list[str]) -> None:
    # STORE-18
    connection = sqlite3.connect(directory / "muster.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()

    found = list(verify(directory))

    assert len(found) == len(messages)
    assert all(part in problem for part, problem in zip(messages, found, strict=True))


def test_pages_that_hang_together_wrongly_are_reported(directory: Path) -> None:
    # STORE-18: a page that is in no list and in no table harms nothing yet.
    connection = sqlite3.connect(directory / "muster.db", isolation_level=None)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE type = 'index'")
    connection.close()

    assert any("muster.db: " in problem for problem in verify(directory))


def test_what_this_version_does_not_know_is_refused(tmp_path: Path) -> None:
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


PROJECT = Path(__file__).parents[3]
HOLD = """
    import sys
    from pathlib import Path
    from tests.actors.store.program import made
    writer = made(Path(sys.argv[1]), 3)
    print("open", flush=True)
    sys.stdin.read()
"""

FORK = """
    import os, sys
    from pathlib import Path
    from muster.store._writer import StateWriter
    from tests.actors.store.program import made
    directory = Path(sys.argv[1])
    writer = made(directory, 1)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        StateWriter.open(directory)
    except Exception as error:
        print(type(error).__name__)
    writer.close()
    StateWriter.open(directory).close()
    os.close(writing)
    os.waitpid(child, 0)
"""


def holder(directory: Path) -> subprocess.Popen[str]:
    """Start a process that has a directory open until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(directory)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_the_error_of_a_second_process_names_the_first(tmp_path: Path) -> None:
    # STORE-14
    directory = tmp_path / "state"
    with holder(directory) as process:
        with pytest.raises(StoreError) as caught:
            StateWriter.open(directory)
        process.communicate(timeout=300)

    message = str(caught.value)
    assert message.startswith(
        f"{directory}: process {process.pid} on {socket.gethostname()} has had the directory open"
    )
    assert str(directory) in message.partition("(command: ")[2]
    assert " since 20" in message
    assert caught.value.path == directory
    StateWriter.open(directory).close()


def test_a_process_that_was_killed_has_it_no_longer(tmp_path: Path) -> None:
    # STORE-14
    directory = tmp_path / "state"
    with holder(directory) as process:
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL

    with StateWriter.open(directory) as writer:
        writer.append(rows(4, 4))
    assert numbers(directory) == [1, 2, 3, 4]


def test_the_same_process_cannot_open_it_twice(tmp_path: Path) -> None:
    # STORE-14
    directory = tmp_path / "state"
    with made(directory, 1) as writer:
        with pytest.raises(
            StoreError, match=rf"this process \({os.getpid()}\) has had the directory"
        ):
            StateWriter.open(directory)
        writer.append(rows(2, 2))
    assert numbers(directory) == [1, 2]


def test_readers_need_no_lock(tmp_path: Path) -> None:
    # STORE-14
    directory = tmp_path / "state"
    with made(directory, 2) as writer, StateReader(directory) as reader:
        assert [batch.number for batch in reader.batches()] == [1, 2]
        writer.append(rows(3, 3))
        assert [batch.number for batch in reader.batches()] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_holder_that_is_not_known_is_refused_all_the_same(tmp_path: Path, content: bytes) -> None:
    directory = tmp_path / "state"
    with made(directory, 1):
        (directory / "lock").write_bytes(content)
        with pytest.raises(StoreError, match="another process has the directory open for writing"):
            StateWriter.open(directory)


def test_a_lock_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    made(directory, 1).close()
    (directory / "lock").unlink()

    with StateWriter.open(directory), pytest.raises(StoreError, match="has had the directory open"):
        StateWriter.open(directory)


def test_a_lock_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state" / "lock").mkdir(parents=True)

    with pytest.raises(StoreError, match="cannot lock the directory: Is a directory"):
        StateWriter.create(tmp_path / "state", NEW)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_process_that_was_forked_does_not_keep_it(tmp_path: Path) -> None:
    # STORE-14
    command = [sys.executable, "-c", textwrap.dedent(FORK), str(tmp_path / "state")]
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "StoreError\n"), done.stderr
