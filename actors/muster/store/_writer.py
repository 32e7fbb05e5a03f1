"""The one writer of a state directory: batches, each group of them one transaction.

All methods may be called in any thread, but by one at a time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias, final

import attrs

from muster._errors import StoreError
from muster._version import __version__
from muster.store import _sql
from muster.store._errors import not_there, store_errors
from muster.store._file import (
    MIGRATIONS,
    NAME,
    PAGE_BYTES,
    Lock,
    Migration,
    bring_up_to_date,
    checked_meta,
    connect,
    facts_of,
    make_directory,
    make_file,
    make_private,
)
from muster.store._rows import (
    FIRST_TERM,
    Anchor,
    BatchRow,
    Checkpoint,
    StateMeta,
    batch_digest,
    new_facts,
    read_facts,
    write_facts,
)
from muster.store._sql import batch_range

Durability: TypeAlias = Literal["full", "process"]
"""The event that a kept batch survives: a power cut, or the end of the process."""

_PARTS_AT_ONCE: Final = 16
"""How many parts of checkpoints one transaction removes."""

MAX_WAL_BYTES: Final = 64 * 1024 * 1024
"""The size to which the WAL is cut when it has been copied into the file."""

_INSERT: Final = (
    "INSERT INTO batch (number, at_us, events, decisions, first_seq, last_seq, digest)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


@final
@attrs.frozen
class NewState:
    """The facts of a new state directory.

    Attributes:
        origin_us: The origin of time, in microseconds since 1970 in UTC.
        page_bytes: The size of a page of the file.
        anchor: Where its batches begin; None for those of a new history.
        term: The term of its leader.
    """

    partition: str
    origin_us: int
    page_bytes: int = PAGE_BYTES
    anchor: Anchor | None = None
    term: int = FIRST_TERM


@final
class StateWriter:
    """The writer of a state directory. Make one by :meth:`open` or :meth:`create`.

    After an error of the disk it refuses to write more: the content of the disk is then unknown.
    Close it, and open another one when the cause is mended.

    Attributes:
        is_new: Whether this call of :meth:`open` has made it.
        wrote_last: The version of Muster that wrote before this call of :meth:`open`.
        privacy: The warnings of this call of :meth:`open` about the rights of others.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: Lock,
        *,
        is_new: bool,
        wrote_last: str,
        privacy: Sequence[str],
    ) -> None:
        self.path = path
        self.is_new = is_new
        self.wrote_last = wrote_last
        self.privacy = privacy
        self._connection = connection
        self._lock = lock
        self._inode = path.stat().st_ino
        self._broken: StoreError | None = None
        self._is_closed = False
        self._meta = checked_meta(connection, path)
        self._ends = batch_range(connection, path, self._meta)
        self._checked: set[int] = set()

    @classmethod
    def create(
        cls, directory: Path, new: NewState, *, durability: Durability = "full"
    ) -> StateWriter:
        """Make a state directory, with parents, and open it.

        Raises:
            StoreError: If there is one already, or something else, or it cannot be made.
        """
        if (directory / NAME).exists():
            raise StoreError("is a state directory already: open it", directory)
        return cls.open(directory, durability=durability, new=new)

    # STORE-1, STORE-15
    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        durability: Durability = "full",
        new: NewState | None = None,
        migrations: Mapping[int, Migration] = MIGRATIONS,
    ) -> StateWriter:
        """Open a state directory for writing.

        Args:
            directory: The directory.
            durability: ``full`` to wait at each commit until the disk has it; ``process`` not to.
            new: The facts for a new one if there is none; None if that is an error.
            migrations: For each older format, the function that brings it to the next one.

        Raises:
            StoreError: If another process has it open for writing, if it is damaged or of a
                newer format, or if it cannot be read and written.
        """
        path = directory / NAME
        with store_errors(directory, "open the directory"):
            is_there = path.exists()
        if new is None and not is_there:
            raise not_there(directory, NAME)
        make_directory(directory)
        lock = Lock(directory)
        try:
            privacy = make_private(directory)
            is_new = new is not None and not path.exists()
            if new is not None and is_new:
                facts = new_facts(new.partition, new.origin_us, anchor=new.anchor, term=new.term)
                sync = durability == "full"
                make_file(directory, facts, page_bytes=new.page_bytes, sync=sync)
            with store_errors(path, "open the file"):
                return cls._opened(
                    path, lock, durability, migrations, is_new=is_new, privacy=privacy
                )
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _opened(
        cls,
        path: Path,
        lock: Lock,
        durability: Durability,
        migrations: Mapping[int, Migration],
        *,
        is_new: bool,
        privacy: Sequence[str],
    ) -> StateWriter:
        connection = connect(path, "mode=rw")
        try:
            connection.execute(f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'OFF'}")
            connection.execute(f"PRAGMA fullfsync = {int(durability == 'full')}")
            wrote_last = str(facts_of(connection, path).get("written_by"))
            bring_up_to_date(connection, path, migrations)
            made = cls(
                path, connection, lock, is_new=is_new, wrote_last=wrote_last, privacy=privacy
            )
            with made._transaction("open the file"):
                made._change_facts(written_by=__version__, last_batch=made.last.batch)
                _sql.drop_unfinished(connection)
        except BaseException:
            connection.close()
            raise
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def meta(self) -> StateMeta:
        """The facts about it."""
        return self._meta

    @property
    def last(self) -> Anchor:
        """The last batch that is kept: its number, instant, digest and last ``seq``.

        If none is kept, it is where the batches begin.
        """
        return self._ends.last

    # STORE-15, STORE-20
    def append(
        self,
        rows: Sequence[BatchRow],
        requests: Sequence[_sql.RequestRow] = (),
        *,
        partition: str | None = None,
    ) -> None:
        """Write batches in one transaction; when this returns, they are kept.

        Args:
            rows: The batches in order; the first one follows :attr:`last`.
            requests: The requests of clients whose events are in them.
            partition: The partition that runs after them; None if it is the one before.

        Raises:
            StoreError: If they cannot be written. None of them may be announced then; all of
                them or none of them are kept.
            ValueError: If a number or a ``seq`` does not follow the one before.
        """
        last = self._ends.last
        values: list[tuple[object, ...]] = []
        for row in rows:
            if row.number != last.batch + 1 or row.first_seq != last.seq + 1:
                msg = f"batch {row.number} does not follow batch {last.batch}"
                raise ValueError(msg)
            digest = batch_digest(last.digest, row)
            values.append(
                (
                    row.number,
                    row.at_us,
                    row.events,
                    row.decisions,
                    row.first_seq,
                    row.last_seq,
                    digest,
                )
            )
            last = Anchor(row.number, row.at_us, row.last_seq, digest)
        with self._transaction(f"write batch {last.batch}"):
            self._connection.executemany(_INSERT, values)
            if requests:
                _sql.insert_requests(self._connection, requests)
            if partition is not None:
                self._change_facts(partition=partition)
        self._ends = attrs.evolve(self._ends, last=last)

    @contextmanager
    def _transaction(self, doing: str) -> Generator[None]:
        if self._broken is not None:
            what = "nothing more is written after an error; close the scheduler, and open it again"
            raise StoreError(f"cannot {doing}: {what}", self.path) from self._broken
        try:
            with store_errors(self.path, doing):
                self._check_place(doing)
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self._connection.execute("COMMIT")
                except BaseException:
                    self._roll_back()
                    raise
        except StoreError as error:
            self._broken = error
            raise

    def _check_place(self, doing: str) -> None:
        # SQLite would go on to write to a file that cannot be opened any more.
        try:
            inode = os.stat(self.path).st_ino  # faster than the method of a path
        except FileNotFoundError:
            inode = None
        if inode != self._inode:
            what = "the file was removed or replaced while it was open"
            raise StoreError(f"cannot {doing}: {what}: put it back and start again", self.path)

    def _roll_back(self) -> None:
        # SQLite has rolled back by itself after some errors. After others a rollback may fail too,
        # and the error that came first is the one to tell.
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass

    def _change_facts(self, **changes: str | int | bytes) -> None:
        facts = read_facts(self._connection, self.path)
        if any(facts[key] != value for key, value in changes.items()):
            write_facts(self._connection, facts | changes)
            self._meta = checked_meta(self._connection, self.path)

    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints, the oldest first.

        Raises:
            StoreError: If they cannot be read.
        """
        with store_errors(self.path, "read the checkpoints"):
            return _sql.listed(self._connection, self._meta.anchor)

    # STORE-5
    def put_part(self, batch: int, part: int, state: bytes, *, last: bool) -> None:
        """Write one part of a checkpoint, in a transaction of its own.

        Batches may be appended between two parts. The checkpoint counts when the last part is
        there; parts of one that was not finished go when the directory is opened again.

        Args:
            batch: The batch after which it was taken; 0 before the first one.
            part: The number of the part; they come in order, from 0.
            state: Its content.
            last: Whether it is the last one.

        Raises:
            StoreError: If it cannot be written.
            ValueError: If the batch is not kept, a part is missing before this one, or there is
                a complete checkpoint of that batch.
        """
        anchor = self._meta.anchor
        with self._transaction(f"write the checkpoint of batch {batch}"):
            _sql.insert(self._connection, anchor, batch, part, state, last=last)
        if last:
            self._checked.add(batch)

    # STORE-19
    def drop_checkpoints(
        self, keep: int = 3, *, apart_us: int | None = None, most: int = _PARTS_AT_ONCE
    ) -> int:
        """Remove checkpoints that are not needed any more, a few parts in one transaction.

        The newest ones stay, and if the first batches were removed, the one with which the others
        begin.

        Args:
            keep: How many of the newest complete ones stay, at least 1.
            apart_us: Besides, those stay that are this long after the one before that stays, in
                microseconds, and the first one; None if none of them is needed.
            most: How many parts are removed at most.

        Returns:
            How many parts were removed; 0 if nothing is left to do.

        Raises:
            StoreError: If they cannot be removed.
        """
        found = self.checkpoints()
        # One that is gone in part is not complete any more.
        complete = [one for one in found if one.complete]
        if not complete:
            return 0
        stays = {one.batch for one in complete[-max(1, keep) :]}
        anchor = self._meta.anchor
        if anchor.batch:
            stays.update([one.batch for one in complete if one.batch >= anchor.batch][:1])
        if apart_us is not None:
            due_us = complete[0].at_us
            for one in complete:
                if one.at_us >= due_us:
                    stays.add(one.batch)
                    due_us = one.at_us + apart_us
        newest = complete[-1].batch
        superfluous = [one.batch for one in found if one.batch < newest and one.batch not in stays]
        return self._drop(superfluous, most)

    def remove_checkpoints(self, batches: Collection[int]) -> None:
        """Remove checkpoints that are of no use, such as damaged ones.

        Args:
            batches: The batches after which they were taken.

        Raises:
            StoreError: If they cannot be removed.
        """
        self._checked.difference_update(batches)
        while self._drop(batches, _PARTS_AT_ONCE):
            pass

    def _drop(self, batches: Collection[int], most: int) -> int:
        if not batches:
            return 0
        with self._transaction("remove checkpoints"):
            return _sql.remove(self._connection, batches, most)

    # The state of a service beside the batches

    def put_companion(self, state: _sql.CompanionState) -> None:
        """Write the state of a companion, each part in a transaction of its own.

        Args:
            state: Its state. Those before it go, but for those of batches that have a checkpoint.

        Raises:
            StoreError: If it cannot be written.
        """
        for part, content in enumerate(state.parts):
            with self._transaction("write the state of the companion"):
                _sql.put_companion_part(self._connection, state.batch, part, content)
        with self._transaction("write the state of the companion"):
            _sql.end_companion(self._connection, state.batch, len(state.parts))

    def put_requests(self, rows: Sequence[_sql.RequestRow]) -> None:
        """Write requests of clients whose batches another server has let in.

        Raises:
            StoreError: If they cannot be written.
        """
        with self._transaction("write requests"):
            _sql.insert_requests(self._connection, rows)

    # REPLICA-12
    def begin_term(self, term: int) -> None:
        """Write the term of the leader from now on; a lower one never comes back.

        Raises:
            StoreError: If it cannot be written.
            ValueError: If it is lower than the one before.
        """
        if term < self._meta.term:
            msg = f"term {term} comes before term {self._meta.term}"
            raise ValueError(msg)
        with self._transaction(f"begin term {term}"):
            self._change_facts(term=term)

    def forget_requests(self, before_us: int) -> None:
        """Remove the requests of clients that are older than an instant.

        Raises:
            StoreError: If they cannot be removed.
        """
        with self._transaction("remove old requests"):
            _sql.forget_requests(self._connection, before_us)

    # STORE-16
    def prune(self, before_us: int, *, most: int = 1000) -> int:
        """Remove batches that are older than an instant, some in one transaction.

        Only batches up to the newest complete checkpoint before that instant go, and only if its
        digest holds. So the rest begins with that checkpoint. Those before it go as well.

        Args:
            before_us: The instant, in microseconds since the origin.
            most: How many batches are removed at most.

        Returns:
            How many batches and parts of checkpoints were removed; 0 if nothing is left to do.

        Raises:
            StoreError: If they cannot be removed, or the checkpoint that covers them is damaged.
        """
        anchor = self._meta.anchor
        found = self.checkpoints()
        stale = [one.batch for one in found if one.batch < anchor.batch]
        if stale:
            return self._drop(stale, most)
        # The rest has to begin with a checkpoint, or it could not be loaded again.
        covering = (one.batch for one in found if one.complete and one.at_us < before_us)
        newest = max(covering, default=0)
        if newest <= anchor.batch:
            return 0
        if newest not in self._checked:
            with store_errors(self.path, f"read the checkpoint of batch {newest}"):
                _sql.parts_of(self._connection, self.path, anchor, newest)
            self._checked.add(newest)
        limit = min(newest, anchor.batch + most)
        with self._transaction("remove old batches"):
            return self._remove_batches(before_us, limit)

    def _remove_batches(self, before_us: int, limit: int) -> int:
        row = self._connection.execute(
            "SELECT number, at_us, last_seq, digest FROM batch"
            " WHERE number <= ? AND at_us < ? ORDER BY number DESC LIMIT 1",
            (limit, before_us),
        ).fetchone()
        if row is None:
            return 0
        removed = Anchor(*row)
        done = self._connection.execute("DELETE FROM batch WHERE number <= ?", (removed.batch,))
        self._change_facts(
            anchor_batch=removed.batch,
            anchor_at_us=removed.at_us,
            anchor_seq=removed.seq,
            anchor_digest=removed.digest,
            last_batch=max(self._meta.last_batch, removed.batch),
        )
        return done.rowcount

    def compact(self) -> None:
        """Return the space of removed rows to the file system.

        Raises:
            StoreError: If it fails; then nothing has changed.
        """
        with store_errors(self.path, "compact the file"):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Copy the WAL into the file, close it, and let others write. It may be called twice.

        Raises:
            StoreError: If the WAL cannot be copied. Nothing is lost: it stays beside the file.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._broken is None:
                with self._transaction("close the file"):
                    self._change_facts(last_batch=self.last.batch)
                with store_errors(self.path, "close the file"):
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            try:
                with store_errors(self.path, "close the file"):
                    self._connection.close()
            finally:
                self._lock.release()
