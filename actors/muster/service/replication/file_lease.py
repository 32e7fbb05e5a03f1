"""A lease in a file that machines share, and how an option names a lease.

The file is one of SQLite with one row. Each look and each exchange is a transaction that has SQLite's
lock on the file from its beginning, on a connection of its own: whatever becomes of the file, the next
attempt sees it. SQLite runs in a thread, which stays behind if the file system hangs.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, final

import trio
from typing_extensions import override

from muster._leases import TIMES, Lease, LeaseRecord, LeaseTimes
from muster_core.errors import MusterError

APPLICATION_ID: Final = 0x4D75734C
"""What marks a SQLite file as one with a lease: the bytes ``MusL`` in its header."""

_TABLE: Final = (
    "CREATE TABLE lease (writes INTEGER NOT NULL CHECK (typeof(writes) = 'integer'),"
    " holder TEXT NOT NULL, url TEXT NOT NULL,"
    " term INTEGER NOT NULL CHECK (typeof(term) = 'integer'),"
    " seconds INTEGER NOT NULL CHECK (typeof(seconds) = 'integer'))"
)

# The first one whose words begin the name of an error of SQLite counts.
_KNOWN_ERRORS: Final = (
    ("SQLITE_FULL", "cannot be written: make room on its file system"),
    ("SQLITE_BUSY", "stays locked: end what has it open, such as a shell of sqlite3"),
    ("SQLITE_IOERR", "cannot be used: its file system reports an error; mend it"),
    ("SQLITE_READONLY", "cannot be written: let this user write it and its folder"),
    ("SQLITE_CANTOPEN", "cannot be opened: let this user read and write it and its folder"),
    ("SQLITE_PERM", "cannot be opened: let this user read and write it and its folder"),
)
_STRANGE: Final = "is no lease file: name another one, or one that is not there yet"

_Row: TypeAlias = tuple[int, str, str, int, int]
"""How often it was written, which is 0 for a file that is new, and the record."""

_T = TypeVar("_T")


@final
class LeaseError(MusterError):
    """A lease cannot be used as it is named; the message says what would be right."""


# REPLICA-25
@final
class FileLease(Lease):
    """A lease in a file, wanted by this process.

    Args:
        path: The file, in a folder that is there; its file system has to keep locks among all
            machines that use it.
        holder: What this process calls itself there; no other has that name.
        url: Where the others are told that this process is reached.
        times: Its times.
    """

    def __init__(
        self, path: Path, holder: str, url: str = "", *, times: LeaseTimes = TIMES
    ) -> None:
        super().__init__(f"the lease file {path}", holder, url, times)
        self._path = path.absolute()
        # One thread hangs where the file system does; more would not help, and trio's own stay free.
        self._threads = trio.CapacityLimiter(1)

    async def check(self) -> None:
        """Look whether the file can be used; make it if it is not there.

        Raises:
            LeaseError: If it cannot be.
        """
        attempt_s = self._times.attempt_s
        with trio.move_on_after(attempt_s):
            await self._read()
            return
        msg = f"{self} does not answer within {attempt_s:g} s: see whether its file system hangs"
        raise LeaseError(msg)

    @override
    async def _read(self) -> tuple[LeaseRecord, object] | None:
        row = await self._transact(_row)
        return None if row is None else (LeaseRecord(*row[1:]), row)

    @override
    async def _swap(self, version: object, record: LeaseRecord) -> bool:
        def exchange(connection: sqlite3.Connection) -> bool:
            if _row(connection) != version:
                return False
            connection.execute(
                "UPDATE lease SET writes = writes + 1, holder = ?, url = ?, term = ?, seconds = ?",
                (record.holder, record.url, record.term, record.seconds),
            )
            return True

        return await self._transact(exchange)

    async def _transact(self, step: Callable[[sqlite3.Connection], _T]) -> _T:
        def transact() -> _T:
            try:
                with closing(self._connect()) as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    _make(connection)
                    result = step(connection)
                    connection.execute("COMMIT")
                    return result
            except sqlite3.Error as error:
                msg = f"{self} {_what_is_wrong(self._path, error)}"
                raise LeaseError(msg) from error

        return await trio.to_thread.run_sync(
            transact, abandon_on_cancel=True, limiter=self._threads
        )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode=rwc",
            uri=True,
            timeout=self._times.attempt_s / 2,  # A lock that is not had ends the attempt by itself.
            isolation_level=None,
        )
        connection.execute("PRAGMA synchronous = FULL")
        return connection


def _make(connection: sqlite3.Connection) -> None:
    """Make the table in a file that is new."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    if mark == APPLICATION_ID:
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if mark or tables:
        msg = "it is of something else"
        raise sqlite3.DatabaseError(msg)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(_TABLE)
    connection.execute("INSERT INTO lease VALUES (0, '', '', 0, 0)")


def _row(connection: sqlite3.Connection) -> _Row | None:
    """Return the row; None if nobody has written it yet."""
    found = "SELECT writes, holder, url, term, seconds FROM lease"
    row: _Row | None = connection.execute(found).fetchone()
    if row is None:
        msg = "its row is missing"
        raise sqlite3.DatabaseError(msg)
    return row if row[0] else None


def _what_is_wrong(path: Path, error: sqlite3.Error) -> str:
    if os.path.isdir(path):
        return "is a folder: name a file"
    if not os.path.isdir(path.parent):
        return f"cannot be made: make the folder {path.parent}, or mount what has it"
    name = getattr(error, "sqlite_errorname", None) or ""
    known = (text for start, text in _KNOWN_ERRORS if name.startswith(start))
    return f"{next(known, _STRANGE)} ({error})"


def lease_of(
    text: str, holder: str, url: str, kubeconfig: Path | None = None
) -> AbstractAsyncContextManager[Lease]:
    """Return the lease that a text names, for the time of a block.

    Args:
        text: ``file:PATH`` or ``kubernetes:NAMESPACE/NAME``.
        holder: What this process calls itself there; no other has that name.
        url: Where the others are told that this process is reached.
        kubeconfig: How the API server is reached; None for what the environment says.

    Raises:
        LeaseError: If the text names none; in the block, if the file cannot be used.
        MusterError: In the block, if there is no credential, or the kubeconfig file is wrong.
    """
    kind, _, place = text.partition(":")
    if kind == "file" and place:
        return _file_lease(Path(place), holder, url)
    if kind == "kubernetes" and place.count("/") == 1 and all(place.split("/")):
        return _kubernetes_lease(place, holder, url, kubeconfig)
    msg = (
        f"{text}: must be file:PATH, a file that all servers share, or kubernetes:NAMESPACE/NAME, "
        f"a Lease of a cluster"
    )
    raise LeaseError(msg)


@asynccontextmanager
async def _file_lease(path: Path, holder: str, url: str) -> AsyncGenerator[Lease]:
    lease = FileLease(path, holder, url)
    await lease.check()
    yield lease


@asynccontextmanager
async def _kubernetes_lease(
    place: str, holder: str, url: str, kubeconfig: Path | None
) -> AsyncGenerator[Lease]:
    from muster import kubernetes  # noqa: PLC0415 - of an extra

    namespace, name = place.split("/")
    access = kubernetes.access_of(kubeconfig)
    async with kubernetes.Lease.of(access, namespace, name, holder, url) as lease:
        yield lease
