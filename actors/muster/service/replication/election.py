"""Which of several servers leads, by a lease that one of them holds at a time.

A server that follows takes the lease when it is free and nothing of the leader is missing here. A
leader that loses it ends: it can be started again, and follows then.

A lease in a file: the file is one of SQLite with one row. Each look and each exchange is a
transaction that has SQLite's lock on the file from its beginning, on a connection of its own:
whatever becomes of the file, the next attempt sees it. SQLite runs in a thread, which stays behind
if the file system hangs.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeAlias, TypeVar, final

import trio
from typing_extensions import override

from muster._leases import TIMES, Lease, LeaseRecord, LeaseTimes
from muster.service.replication.following import (
    FollowError,
    Following,
    Promotion,
    name_of,
)
from muster.service.replication.leadership import Leadership, OverError
from muster.store import StateReader
from muster.store._file import NAME
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from muster._runtime.calls import Client

APPLICATION_ID: Final = 0x4D75734C
"""What marks a SQLite file as one with a lease: the bytes ``MusL`` in its header."""

_TABLE: Final = (
    "CREATE TABLE lease (writes INTEGER NOT NULL CHECK (typeof(writes) = 'integer'),"
    " holder TEXT NOT NULL, url TEXT NOT NULL,"
    " term INTEGER NOT NULL CHECK (typeof(term) = 'integer'),"
    " seconds INTEGER NOT NULL CHECK (typeof(seconds) = 'integer'))"
)

# The first one that begins the name of an error of SQLite counts.
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
        url: The address of this process for the others.
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
        attempt_s = self.times.attempt_s
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
                msg = f"{self} {_explain_error(self._path, error)}"
                raise LeaseError(msg) from error

        return await trio.to_thread.run_sync(
            transact, abandon_on_cancel=True, limiter=self._threads
        )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode=rwc",
            uri=True,
            timeout=self.times.attempt_s / 2,  # A lock that is not had ends the attempt by itself.
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
    """Return the row; None if it was never written."""
    found = "SELECT writes, holder, url, term, seconds FROM lease"
    row: _Row | None = connection.execute(found).fetchone()
    if row is None:
        msg = "its row is missing"
        raise sqlite3.DatabaseError(msg)
    return row if row[0] else None


def _explain_error(path: Path, error: sqlite3.Error) -> str:
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
        url: The address of this process for the others.
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


_LOG: Final = logging.getLogger("muster.service")
_CHANGE: Final = {"fields": {"what": "change"}}

_AGAIN_S: Final = 0.2
_PROMOTION_S: Final = 30.0
"""How long a promotion waits for the lease: longer than a lease holds that is not renewed."""


@final
class LeaseLostError(MusterError):
    """The lease was lost: another server may lead."""


@final
class Election:
    """Wants a lease for a server. Make one by :meth:`of`.

    Args:
        lease: The lease.
        leadership: The role of the server.
        state: Its state directory.
    """

    def __init__(self, lease: Lease, leadership: Leadership, state: Path) -> None:
        self._lease = lease
        self._leadership = leadership
        self._state = state
        self._trying = trio.CancelScope()
        #: Whether an administrator has said that this server shall lead.
        self._is_promoted = False
        self._has_warned = False

    @classmethod
    @asynccontextmanager
    async def of(cls, text: str, leadership: Leadership, state: Path) -> AsyncGenerator[Self]:
        """Want the lease that an option names for the time of a block; give it back at its end.

        Raises:
            MusterError: If there is no such lease, or it cannot be used.
        """
        holder = name_of(state)
        async with lease_of(text, holder, leadership.url) as lease:
            try:
                yield cls(lease, leadership, state)
            finally:
                if lease.is_held:
                    await lease.release()

    def note_term(self, term: int) -> None:
        """Write a term with the lease from now on."""
        self._lease.term = term

    # REPLICA-18
    def check(self) -> None:
        """Check that this server may lead at this moment, by its own clock.

        Raises:
            LeaseLostError: If it may not.
        """
        if not self._lease.is_held:
            msg = f"{self._lease} is lost: another server may lead now, so this one ends"
            raise LeaseLostError(msg)

    # REPLICA-17
    async def begin(self, follow: str | None) -> str | None:
        """Return the address of the server to follow; None when this one holds the lease.

        The server that led last goes on. One without a leader to follow waits for the lease.

        Args:
            follow: The address of the other server, if there is one.

        Raises:
            OverError: If there is no leader to follow, and a higher term has begun.
        """
        term = await trio.to_thread.run_sync(self._own_term)
        self.note_term(term)
        if follow is None:
            await self._acquire_first(term)
            return None
        record = await self._lease.look() or LeaseRecord()
        if term and self._led_last(record, term):
            with trio.move_on_after(self._lease.times.attempt_s):
                await self._lease.acquire(lambda one: self._led_last(one, term))
                _LOG.info("this server has %s again, and leads", self._lease, extra=_CHANGE)
                return None
        is_other = record.holder not in {"", self._lease.holder}
        return record.url if is_other and record.url else follow

    async def _acquire_first(self, term: int) -> None:
        record = await self._lease.look() or LeaseRecord()
        if record.term > max(term, 1) or (record.term > term > 0):
            place = f" at {record.url}" if record.url else ""
            message = (
                f"{self._lease} has term {record.term}: another server leads{place}, or has led"
            )
            raise OverError(
                f"{message}: start this one with --follow{f' {record.url}' if place else ''}"
            )
        self._leadership.waits_for = f"another server holds {self._lease}"
        await self._lease.acquire(lambda one: one.term <= max(term, 1))
        self._leadership.waits_for = None

    def _own_term(self) -> int:
        """Return the term of the own store; 0 without one."""
        if not (self._state / NAME).exists():
            return 0
        with StateReader(self._state) as reader:
            return reader.meta.term

    def _led_last(self, record: LeaseRecord, term: int) -> bool:
        """Return whether no other server has led since this one did."""
        is_own = record.holder == self._lease.holder
        was_given = record.holder == "" and record.url == self._lease.url != ""
        return record.term <= term and (is_own or was_given)

    # REPLICA-18
    async def hold(self) -> None:
        """Renew the lease as long as that is possible.

        Raises:
            LeaseLostError: When it is lost.
        """
        await self._lease.hold()
        self.check()

    # REPLICA-19
    async def stand(self, following: Following, client: Client) -> None:
        """Lead when the lease can be had and nothing of the leader is missing, then hold it.

        Raises:
            LeaseLostError: When it is lost.
        """

        def may_lead(record: LeaseRecord) -> bool:
            is_right = record.term <= self._leadership.term and following.is_level
            if not is_right and not self._has_warned:
                message = (
                    "nobody holds %s, and it is not known whether this server has all that was "
                    "decided: muster promote lets it lead"
                )
                _LOG.warning(message, self._lease, extra=_CHANGE)
                self._has_warned = True
            return is_right or self._is_promoted

        while not self._lease.is_held:
            self._trying = trio.CancelScope()
            with self._trying:
                await self._lease.acquire(may_lead)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.hold)
            made = await following.promote(client)
            self.note_term(made.term)

    async def take(self, following: Following) -> Promotion:
        """Let this server lead at once, on request of an administrator: the old leader ends.

        Raises:
            FollowError: If the old leader keeps the lease.
        """
        self._is_promoted = True
        await following.tell_old_leader(self._leadership.term + 1)
        with trio.move_on_after(_PROMOTION_S):
            while not following.leads.is_set():
                if not self._lease.is_held:
                    self._trying.cancel()
                with trio.move_on_after(_AGAIN_S):
                    await following.leads.wait()
        if following.made is None:
            self._is_promoted = False
            message = (
                f"{self._lease} is held by {self._lease.seen.holder}, which does not give it back"
            )
            raise FollowError(message)
        return following.made
