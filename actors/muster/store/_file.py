"""The file and its directory: where it is, its lock, its tables, how it is made and migrated.

STORE-14. One process writes, and the lock names it to others. The operating system holds the lock,
so it ends with the process, however that ends. The lock's file stays, with the facts of who has it
or had it last.

An older format becomes this one by the table of migrations.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sqlite3
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias, final

from muster._errors import StoreError
from muster._version import __version__
from muster.store._errors import damaged, store_errors
from muster.store._rows import (
    FIRST_TERM,
    FORMAT,
    MetaFacts,
    StateMeta,
    as_meta,
    read_facts,
    write_facts,
)

LOCK_NAME: Final = "lock"
"""The name of the file in the directory."""

_LONGEST_HOLDER: Final = 4096
"""The most bytes of the facts that are read."""

if sys.platform == "win32":
    import msvcrt

    _BEYOND: Final = 1 << 30
    """The byte that is locked: others can still read those before it."""

    def _take(file: int) -> None:
        os.lseek(file, _BEYOND, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _give(file: int) -> None:
        os.close(file)

else:
    import fcntl

    def _take(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give(file: int) -> None:
        # A process that was forked meanwhile has the file open as well, so closing is not enough.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


@final
class Lock:
    """The right to write to a directory, until :meth:`release` or the end of the process.

    Args:
        directory: The directory, which exists.

    Raises:
        StoreError: If a process has it already, this one included; or if there can be no lock.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_NAME
        self._process = os.getpid()
        with store_errors(self._path, "lock the directory"):
            self._file = self._taken()

    def _taken(self) -> int:
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                try:
                    _take(file)
                except (BlockingIOError, PermissionError) as error:
                    raise StoreError(self._refusal(), self._path.parent) from error
                if _is_there(file, self._path):
                    _write_holder(file)
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # another process has removed the file in between

    # STORE-14
    def _refusal(self) -> str:
        facts = holder_of(self._path.parent)
        if facts is None:
            return "another process has the directory open for writing: end it, or use another directory"
        whom = f"process {facts.get('pid')} on {facts.get('host')}"
        if facts.get("pid") == os.getpid() and facts.get("host") == socket.gethostname():
            whom = f"this process ({facts.get('pid')})"
        return (
            f"{whom} has had the directory open for writing since {facts.get('since')} "
            f"(command: {facts.get('command')}): end it, or use another directory"
        )

    def release(self) -> None:
        """Give the right back; in a process that was forked meanwhile, only forget it."""
        if self._file < 0:
            return
        file, self._file = self._file, -1
        if os.getpid() == self._process:
            _give(file)
        else:
            os.close(file)


def holder_of(directory: Path) -> dict[str, object] | None:
    """Return the present or last holder of the lock of a directory, or None if it is not known."""
    try:
        with (directory / LOCK_NAME).open("rb") as file:
            facts: object = json.loads(file.read(_LONGEST_HOLDER))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None  # pyright: ignore[reportUnknownVariableType] - shown, no more


def _is_there(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _write_holder(file: int) -> None:
    facts = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join(sys.orig_argv)[: _LONGEST_HOLDER // 8],
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(file, 0)
    os.write(file, json.dumps(facts).encode() + b"\n")


NAME: Final = "muster.db"
"""The name of the file in the directory."""

APPLICATION_ID: Final = 0x4D757374
"""The mark of a SQLite file of Muster: the bytes ``Must`` in its header."""

PAGE_BYTES: Final = 4096
"""The default size of a page of the file."""

SOCKET_NAME: Final = "muster.sock"
"""The default name of the socket of a service in the directory."""

_OF_OTHERS: Final = 0o077
"""The rights of all users but the owner. Work may have secrets in its environment."""

WAIT_S: Final = 5.0
"""How long a lock of another program, such as a shell of sqlite3, is waited for, in seconds."""

# STORE-2
TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        "batch": (
            "CREATE TABLE batch (number INTEGER PRIMARY KEY, at_us INTEGER NOT NULL,"
            " events BLOB NOT NULL, decisions BLOB NOT NULL, first_seq INTEGER NOT NULL,"
            " last_seq INTEGER NOT NULL, digest BLOB NOT NULL)"
        ),
        "checkpoint": (
            "CREATE TABLE checkpoint (batch INTEGER NOT NULL, part INTEGER NOT NULL,"
            " parts INTEGER NOT NULL, state BLOB NOT NULL, digest BLOB NOT NULL,"
            " PRIMARY KEY (batch, part))"
        ),
        "request": (
            "CREATE TABLE request (user TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL,"
            " batch INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL,"
            " at_us INTEGER NOT NULL, denied BLOB NOT NULL, row_digest BLOB NOT NULL, PRIMARY KEY (user, key))"
            " WITHOUT ROWID"
        ),
        "companion": (
            "CREATE TABLE companion (batch INTEGER NOT NULL, part INTEGER NOT NULL,"
            " parts INTEGER NOT NULL, state BLOB NOT NULL, digest BLOB NOT NULL,"
            " PRIMARY KEY (batch, part))"
        ),
    }
)
"""The tables of the present format, as they are made."""

Migration: TypeAlias = Callable[[sqlite3.Connection, MetaFacts], None]
"""Brings tables and facts from one format to the next, within a transaction that is open."""


def _from_1_to_2(connection: sqlite3.Connection, _: MetaFacts) -> None:
    """Make the tables of a service; format 1 had none."""
    for table in ("request", "companion"):
        connection.execute(TABLES[table])


def _from_2_to_3(_: sqlite3.Connection, facts: MetaFacts) -> None:
    """Say the term; until format 3 there was no other server."""
    facts["term"] = FIRST_TERM


MIGRATIONS: Final[Mapping[int, Migration]] = MappingProxyType({1: _from_1_to_2, 2: _from_2_to_3})
"""For each older format, the function that brings it to the next one."""


def connect(path: Path, parameters: str) -> sqlite3.Connection:
    """Open the file.

    Args:
        path: The file.
        parameters: The parameters of SQLite's URI, such as ``mode=ro``.

    Raises:
        sqlite3.Error: If SQLite cannot open it.
    """
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{parameters}",
        uri=True,
        timeout=WAIT_S,
        isolation_level=None,  # transactions begin where the code says so
        check_same_thread=False,
    )


# STORE-1
def make_directory(directory: Path) -> None:
    """Make the directory, if it is not there, and look whether it can become a state directory.

    Raises:
        StoreError: If it cannot be made, or something else is there.
    """
    if directory.exists() and not directory.is_dir():
        raise StoreError("is a file: name a state directory, or a new one", directory)
    with store_errors(directory, "make the directory"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with store_errors(directory, "look into the directory"):
        names = {entry.name for entry in directory.iterdir()}
    if NAME in names:
        return
    if f"{NAME}-wal" in names:
        what = f"there is {NAME}-wal, but {NAME} itself is missing"
        raise damaged(directory, what)
    others = sorted(name for name in names if not _is_ours(name))
    if others:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        what = f"holds other files ({shown}) and no {NAME}"
        raise StoreError(f"{what}: name an empty directory, or a new one", directory)


def _is_ours(name: str) -> bool:
    return name in {LOCK_NAME, SOCKET_NAME, "lost+found"} or name.startswith((".", NAME))


# STORE-28
def make_private(directory: Path) -> list[str]:
    """Take away the rights that others have on the directory and its files.

    An older version gave them, or a person.

    Args:
        directory: The directory, for which the caller holds the lock.

    Returns:
        The changed rights, and those that cannot be changed, each as a sentence for the log.

    Raises:
        StoreError: If the directory cannot be read.
    """
    warnings: list[str] = []
    with store_errors(directory, "look into the directory"):
        # A socket has rights of its own.
        files = [one for one in directory.iterdir() if not one.is_socket()]
    for path in (directory, *sorted(files)):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & _OF_OTHERS and sys.platform != "win32":
                path.chmod(mode & ~_OF_OTHERS)
                warnings.append(f"{path} had mode {mode:04o}: it is only for its owner now")
        except FileNotFoundError:
            continue  # SQLite has removed it meanwhile
        except OSError as error:
            warnings.append(f"{path} may be read by others, and stays so: {error.strerror}")
    return warnings


def _make_empty(path: Path) -> None:
    """Make a file that only its owner may read; SQLite gives the files beside it the same mode."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def make_file(directory: Path, facts: MetaFacts, *, page_bytes: int, sync: bool) -> None:
    """Make the file with its tables: the whole of it, or nothing under its name.

    Args:
        directory: The directory, for which the caller holds the lock.
        facts: The rows of ``meta``.
        page_bytes: The size of a page.
        sync: Whether to wait until the disk has it.

    Raises:
        StoreError: If it cannot be made.
    """
    path, draft = directory / NAME, directory / f"{NAME}.new"
    with store_errors(path, "make the file"):
        for suffix in ("", "-wal", "-shm", "-journal"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
        _make_empty(draft)
        connection = connect(draft, "mode=rw")
        try:
            connection.execute(f"PRAGMA page_size = {page_bytes}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'OFF'}")
            connection.execute("BEGIN IMMEDIATE")
            for table in TABLES.values():
                connection.execute(table)
            write_facts(connection, facts)
            connection.execute("COMMIT")
            _use_wal(connection, path)
        finally:
            connection.close()
        if sync:
            sync_file(draft)
        draft.replace(path)
        if sync:
            sync_directory(directory)
            sync_directory(directory.parent)


def _use_wal(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        what = "the file system cannot hold a SQLite file in WAL mode"
        raise StoreError(f"{what}: use a directory on a local disk", path)


def sync_file(path: Path) -> None:
    """Wait until the disk has the content of a file."""
    file = os.open(path, os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_directory(directory: Path) -> None:
    """Wait until the disk has the names in a directory, where the system offers that."""
    if sys.platform == "win32":
        return
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


# STORE-8
def bring_directory_up_to_date(directory: Path) -> None:
    """Bring the file of a directory, if it has one, to the present format, as a writer would.

    Args:
        directory: The directory, which no process has open for writing.

    Raises:
        StoreError: If a process has, or the file cannot be brought there.
    """
    path = directory / NAME
    with store_errors(path, "open the file"):
        if not path.exists():
            return
        lock = Lock(directory)
        try:
            with closing(connect(path, "mode=rw")) as connection:
                bring_up_to_date(connection, path, MIGRATIONS)
        finally:
            lock.release()


# STORE-8
def bring_up_to_date(
    connection: sqlite3.Connection, path: Path, migrations: Mapping[int, Migration]
) -> None:
    """Bring a file of an older format to the present one, after making a copy of it.

    Args:
        connection: The connection, for writing.
        path: The file.
        migrations: For each older format, the function that brings it to the next one.

    Raises:
        StoreError: If it is of a newer format, of one that is too old, or not of Muster.
        sqlite3.Error: If SQLite reports an error.
    """
    facts = facts_of(connection, path)
    found = format_of(facts, path)
    if found == FORMAT:
        return
    for number in range(found, FORMAT):
        if number not in migrations:
            raise StoreError(_too_old(found), path)
    _copy(connection, path.with_name(f"{path.name}.format-{found}"))
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(found, FORMAT):
            migrations[number](connection, facts)
        facts["format"] = FORMAT  # A writer says its version when it begins to write.
        write_facts(connection, facts)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _copy(connection: sqlite3.Connection, path: Path) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    _make_empty(draft)
    copy = sqlite3.connect(draft)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    sync_file(draft)
    draft.replace(path)
    sync_directory(path.parent)


# STORE-8
def format_of(facts: MetaFacts, path: Path) -> int:
    """Return the format of a file.

    Raises:
        StoreError: If this version cannot know it, because a newer one wrote it.
    """
    found = facts.get("format")
    if not isinstance(found, int):
        raise damaged(path, "the table meta does not say its format")
    if found > FORMAT:
        writer = facts.get("written_by")
        raise StoreError(
            f"has format {found}, written by Muster {writer!s}; this is Muster "
            f"{__version__}, which knows formats up to {FORMAT}: use the newer version",
            path,
        )
    return found


def _too_old(found: int) -> str:
    return (
        f"has format {found}, and Muster {__version__} cannot bring it to format {FORMAT}: "
        f"open it with an older version that can"
    )


def facts_of(connection: sqlite3.Connection, path: Path) -> MetaFacts:
    """Read the facts about a file of any format.

    Raises:
        StoreError: If it is a file of something else, or its facts are damaged.
        sqlite3.Error: If SQLite reports an error.
    """
    if path.stat().st_size == 0:
        raise damaged(path, "it is empty")
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    if found != APPLICATION_ID:
        raise StoreError(
            "is a SQLite file of something else, or its beginning is damaged: "
            "name the state directory of Muster, or restore it from a copy",
            path,
        )
    return read_facts(connection, path)


def checked_meta(connection: sqlite3.Connection, path: Path) -> StateMeta:
    """Return the facts about a file of the present format, whose tables are as they should be.

    Raises:
        StoreError: If it is of another format, or if it is damaged.
        sqlite3.Error: If SQLite reports an error.
    """
    facts = facts_of(connection, path)
    found = format_of(facts, path)
    if found < FORMAT:
        raise StoreError(
            f"has the older format {found}: open it once for writing, which brings it to "
            f"format {FORMAT} after making a copy",
            path,
        )
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    if tables != dict(TABLES):
        raise damaged(path, f"its tables are not those of format {FORMAT}")
    return as_meta(facts, path)
