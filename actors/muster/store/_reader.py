"""Reading and verifying a state directory without locking it, also while it is in use.

Each look at the file is short, so it never keeps the writer from reusing its WAL.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar, final

import attrs

from muster._errors import StoreError
from muster.store import _sql
from muster.store._errors import name_of, not_there, store_errors
from muster.store._file import NAME, checked_meta, connect
from muster.store._msgpack import HEAD_BYTES, length_of
from muster.store._rows import Anchor, Checkpoint, KeptBatch, StateMeta
from muster.store._sql import anchor_at, batch_range, chunk_of, last_until

T = TypeVar("T")

_HEADS: Final = f"SELECT substr(events, 1, {HEAD_BYTES}) FROM batch"

_TRIES: Final = 5
"""How often a look at the file begins again because a writer came or went meanwhile."""


@final
@attrs.frozen
class Summary:
    """A summary of a state directory.

    Attributes:
        meta: The facts about it.
        batches: How many batches are kept.
        first_us: The instant of the first one, in microseconds since the origin, or None.
        last_us: The instant of the last one, or None.
        last_batch: The number of the last batch; that of the anchor if none is kept.
        events: How many events are kept.
        decisions: How many decisions are kept.
        events_bytes: The bytes of the events.
        decisions_bytes: The bytes of the decisions.
        file_bytes: The bytes of the file and its WAL.
        checkpoints: The checkpoints, the oldest first.
    """

    meta: StateMeta
    batches: int
    first_us: int | None
    last_us: int | None
    last_batch: int
    events: int
    decisions: int
    events_bytes: int
    decisions_bytes: int
    file_bytes: int
    checkpoints: tuple[Checkpoint, ...]


@final
@attrs.frozen
class Loaded:
    """The newest checkpoint whose digest holds.

    Attributes:
        batch: The batch after which it was taken.
        parts: The parts of its state.
        broken: Newer ones that are damaged: the batch of each, and the problem.
    """

    batch: int
    parts: tuple[bytes, ...]
    broken: tuple[tuple[int, str], ...] = ()


@final
class StateReader:
    """A state directory, to be read, as a context manager.

    Args:
        directory: The directory.

    Attributes:
        path: The file.

    Raises:
        StoreError: If it is no state directory, if it is damaged or of another format, or if it
            cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self.path: Final = directory / NAME
        with store_errors(self.path, "open the file"):
            is_there = self.path.is_file()
        if not is_there:
            raise not_there(directory, NAME)
        self._connection: sqlite3.Connection | None = None
        self._seen: object = None
        try:
            self._meta = self._look("read the file", lambda one: checked_meta(one, self.path))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. It may be called twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def meta(self) -> StateMeta:
        """The facts about it, at the last look."""
        return self._meta

    # STORE-17
    def _look(self, doing: str, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of ``read`` in one transaction on the file.

        Raises:
            StoreError: That of ``read``, or if SQLite or the system reports an error.
        """
        with store_errors(self.path, doing):
            for _ in range(_TRIES):
                try:
                    found = self._once(read)
                except (StoreError, UnicodeDecodeError, sqlite3.Error):
                    if not self._has_changed():
                        raise
                else:
                    if not self._has_changed():
                        return found
                self.close()
        what = "writers come and go too fast to read it: try again"
        raise StoreError(f"cannot {doing}: {what}", self.path)

    def _once(self, read: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            self._connection = self._connected()
        connection = self._connection
        connection.execute("BEGIN")
        try:
            return read(connection)
        finally:
            connection.execute("ROLLBACK")

    def _connected(self) -> sqlite3.Connection:
        # With a WAL SQLite needs a file of shared memory beside it. Without one there is no writer,
        # and then it can read where it may not write, and leaves no file of its own.
        self._seen = _state_of(self.path)
        if self._seen is not None:
            return connect(self.path, "mode=ro&immutable=1")
        connection = connect(self.path, "mode=ro")
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            connection.close()
            shared = self.path.with_name(f"{NAME}-shm")
            if name_of(error).startswith("SQLITE_CANTOPEN") and not shared.exists():
                raise StoreError(_UNREADABLE, self.path) from error
            raise
        return connection

    def _has_changed(self) -> bool:
        """Return whether a writer came while the file was read as one without writers."""
        return self._seen is not None and self._seen != _state_of(self.path)

    # STORE-4, STORE-17
    def batches(
        self, after: int | None = None, until: int | None = None, *, verify: bool = True
    ) -> Iterator[KeptBatch]:
        """Read batches in order; events and decisions are decoded when they are looked at.

        Args:
            after: The number of the batch before the first one; None for all that are kept.
            until: The number of the last one; None for all that there are when it gets there.
            verify: Whether to check that the digest of each follows from the one before.

        Raises:
            StoreError: If a batch is missing, if its digest does not hold, or if batches that
                are wanted have been removed.
        """
        before: Anchor | None = None
        while True:
            found = self._look("read batches", self._chunk(before, after, until, verify=verify))
            if not found:
                return
            yield from found
            last = found[-1]
            before = Anchor(last.number, last.at_us, last.last_seq, last.digest)

    def _chunk(
        self, before: Anchor | None, after: int | None, until: int | None, *, verify: bool
    ) -> Callable[[sqlite3.Connection], list[KeptBatch]]:
        def read(connection: sqlite3.Connection) -> list[KeptBatch]:
            anchor = self._anchor(connection)
            wanted = after if before is None else before.batch
            if wanted is not None and wanted < anchor.batch:
                what = f"batches up to {anchor.batch} were removed, as `keep` says"
                raise StoreError(f"{what}: read from batch {anchor.batch + 1} on", self.path)
            start = before
            if start is None:
                number = anchor.batch if wanted is None else wanted
                start = anchor_at(connection, self.path, anchor, number)
            return chunk_of(connection, self.path, start, until, verify=verify)

        return read

    def _anchor(self, connection: sqlite3.Connection) -> Anchor:
        self._meta = checked_meta(connection, self.path)
        return self._meta.anchor

    def last(self) -> Anchor:
        """Return the last batch: its number, instant, last ``seq`` and digest, which holds.

        If none is kept, it is where the batches begin.

        Raises:
            StoreError: If it is damaged, or batches are missing before it.
        """

        def read(connection: sqlite3.Connection) -> Anchor:
            self._meta = checked_meta(connection, self.path)
            return batch_range(connection, self.path, self._meta).last

        return self._look("read the last batch", read)

    def batch_at(self, at_us: int) -> int:
        """Return the number of the last batch at or before an instant.

        Args:
            at_us: The instant, in microseconds since the origin.

        Returns:
            The number; that of the anchor if all batches that are kept come later.

        Raises:
            StoreError: If the file cannot be read.
        """
        return self._search("at_us", at_us)

    def batch_before_seq(self, seq: int) -> int:
        """Return the number of the last batch whose decisions all come before one.

        Args:
            seq: The number of the decision.

        Returns:
            The number; that of the anchor if no batch that is kept is like that.

        Raises:
            StoreError: If the file cannot be read.
        """
        return self._search("last_seq", seq - 1)

    def _search(self, column: str, most: int) -> int:
        """Return the last batch whose value in a column, which never falls, is not above one."""

        def read(connection: sqlite3.Connection) -> int:
            return last_until(connection, column, most, self._anchor(connection).batch)

        return self._look("look for a batch", read)

    def places(self, numbers: Sequence[int]) -> list[Anchor]:
        """Return where batches are, in one look at the file.

        Args:
            numbers: Their numbers; each is kept, or is that of the anchor.

        Raises:
            StoreError: If one is missing, or the file cannot be read.
        """

        def read(connection: sqlite3.Connection) -> list[Anchor]:
            anchor = self._anchor(connection)
            return [anchor_at(connection, self.path, anchor, number) for number in numbers]

        return self._look("look for batches", read)

    def places_at(self, instants: Sequence[int]) -> list[Anchor]:
        """Return for each of some instants the last batch at or before it, in one look.

        Args:
            instants: The instants, in microseconds since the origin, none before the one before.

        Returns:
            The batches; the anchor where all batches that are kept come later.

        Raises:
            StoreError: If the file cannot be read.
        """

        def read(connection: sqlite3.Connection) -> list[Anchor]:
            anchor = self._anchor(connection)
            found: list[Anchor] = []
            low = anchor.batch
            for at_us in instants:
                low = last_until(connection, "at_us", at_us, low)
                found.append(anchor_at(connection, self.path, anchor, low))
            return found

        return self._look("look for batches", read)

    def event_count(self, after: int, until: int | None = None) -> int:
        """Return how many events the batches after one have.

        Args:
            after: The number of the batch before the first one.
            until: The number of the last one; None for all.

        Raises:
            StoreError: If the file cannot be read.
        """

        def read(connection: sqlite3.Connection) -> int:
            last = 2**63 - 1 if until is None else until
            heads = connection.execute(f"{_HEADS} WHERE number > ? AND number <= ?", (after, last))
            return sum(length_of(head) for (head,) in heads)

        return self._look("count events", read)

    def requests(self, since_us: int) -> list[_sql.RequestRow]:
        """Return the requests of clients that had a key, the oldest first.

        Args:
            since_us: The instant from which on, in microseconds since the origin.

        Raises:
            StoreError: If the file cannot be read.
        """
        return self._look(
            "read the requests", lambda one: _sql.requests_since(one, self.path, since_us)
        )

    def request(self, user: str, key: str) -> _sql.RequestRow | None:
        """Return the request of a user with a key, or None.

        Raises:
            StoreError: If the file cannot be read.
        """
        return self._look("read a request", lambda one: _sql.request_of(one, self.path, user, key))

    def observer_state(self, at_most_batch: int | None = None) -> _sql.CompanionState | None:
        """Return the newest state of the companion, or None if none was kept.

        Args:
            at_most_batch: The last batch that it may contain; None for any.

        Raises:
            StoreError: If the file cannot be read.
        """
        return self._look(
            "read the state of the companion", lambda one: _sql.companion_of(one, at_most_batch)
        )

    def checkpoints(self) -> list[Checkpoint]:
        """Return the rows of the checkpoints without reading their parts, the oldest first.

        Raises:
            StoreError: If the file cannot be read.
        """
        return self._look("read the checkpoints", lambda one: _sql.listed(one, self._anchor(one)))

    # STORE-5
    def checkpoint(self, batch: int) -> list[bytes]:
        """Return the parts of a checkpoint.

        Args:
            batch: The batch after which it was taken.

        Raises:
            StoreError: If there is none that is complete, or a digest does not hold.
        """
        return self._look(
            f"read the checkpoint of batch {batch}",
            lambda one: _sql.parts_of(one, self.path, self._anchor(one), batch),
        )

    # STORE-5
    def newest_checkpoint(self, at_most_batch: int | None = None) -> Loaded | None:
        """Return the newest checkpoint whose digest holds, or None if there is none.

        Args:
            at_most_batch: The last batch that it may have been taken after; None for any.

        Raises:
            StoreError: If the file cannot be read; or if every checkpoint is damaged and the
                first batches have been removed, so that nothing leads to the state.
        """
        broken: list[tuple[int, str]] = []
        for found in reversed(self.checkpoints()):
            if not found.complete or (at_most_batch is not None and found.batch > at_most_batch):
                continue
            try:
                parts = self.checkpoint(found.batch)
            except StoreError as error:
                broken.append((found.batch, str(error)))
            else:
                return Loaded(found.batch, tuple(parts), tuple(broken))
        if broken and self._meta.anchor.batch:
            what = "every checkpoint is damaged, and the first batches were removed"
            problems = "; ".join(problem for _, problem in broken)
            raise StoreError(
                f"{what}: restore it from a copy of the folder ({problems})", self.path
            )
        return None

    def summary(self) -> Summary:
        """Return a summary, without checking digests.

        Raises:
            StoreError: If the file cannot be read.
        """

        def read(connection: sqlite3.Connection) -> Summary:
            anchor = self._anchor(connection)
            number, seq = connection.execute(
                "SELECT number, last_seq FROM batch ORDER BY number DESC LIMIT 1"
            ).fetchone() or (anchor.batch, anchor.seq)
            row = connection.execute(
                "SELECT count(*), min(at_us), max(at_us), total(length(events)),"
                " total(length(decisions)) FROM batch"
            ).fetchone()
            return Summary(
                self._meta,
                row[0],
                row[1],
                row[2],
                number,
                sum(length_of(head) for (head,) in connection.execute(_HEADS)),
                seq - anchor.seq,
                int(row[3]),
                int(row[4]),
                _bytes_of(self.path),
                tuple(_sql.listed(connection, anchor)),
            )

        return self._look("read the file", read)

    # STORE-18
    def problems_of_pages(self) -> list[str]:
        """Return the problems that SQLite finds in the structure of the file.

        Raises:
            StoreError: If the file cannot be read.
        """

        def read(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute("PRAGMA integrity_check").fetchall()
            return [str(row[0]) for row in rows if row[0] != "ok"]

        return self._look("check the pages", read)


_UNREADABLE: Final = (
    "cannot be read: it was not closed, and SQLite must make a file beside it to read it: "
    "copy the folder to one where you can write, and read that"
)


def _state_of(path: Path) -> object:
    """Return a change stamp of the file; None while a WAL exists."""
    try:
        if os.stat(f"{path}-wal").st_size:
            return None
    except FileNotFoundError:
        pass
    found = path.stat()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _bytes_of(path: Path) -> int:
    wal = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)


# STORE-18
def verify(directory: Path, on_batch: Callable[[int], None] = lambda _: None) -> Iterator[str]:
    """Check all pages, all batches and all checkpoints, and their content.

    Args:
        directory: The directory.
        on_batch: Called with the number of each batch that has been checked.

    Yields:
        Each problem, as a text for a person. After a batch that is damaged no later one is
        looked at: nothing leads to them.

    Raises:
        StoreError: If it cannot be opened at all.
    """
    with StateReader(directory) as reader:
        for check in (_verify_pages, _verify_last, _verify_batches(on_batch), _verify_checkpoints):
            try:
                yield from check(reader)
            except StoreError as error:
                yield str(error)


def _verify_pages(reader: StateReader) -> Iterator[str]:
    for problem in reader.problems_of_pages():
        yield f"{reader.path}: {problem}"


def _verify_last(reader: StateReader) -> Iterator[str]:
    reader.last()
    yield from ()


def _verify_batches(on_batch: Callable[[int], None]) -> Callable[[StateReader], Iterator[str]]:
    def check(reader: StateReader) -> Iterator[str]:
        for batch in reader.batches():
            # Both raise an error if this version does not know the content.
            _ = (batch.events, batch.decisions)
            on_batch(batch.number)
        yield from ()

    return check


def _verify_checkpoints(reader: StateReader) -> Iterator[str]:
    for found in reader.checkpoints():
        if not found.complete:
            continue  # it is being written, or goes at the next start
        try:
            reader.checkpoint(found.batch)
        except StoreError as error:
            if found in reader.checkpoints():  # otherwise the writer has removed it meanwhile
                yield str(error)
