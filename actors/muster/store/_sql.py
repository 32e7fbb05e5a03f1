"""The statements of SQL for batches, checkpoints, requests and companions.

Batches are checked as they are read: any other content than Muster writes is damage.

A checkpoint is kept in parts, each with a digest chained to the part before. It is complete when
its last part is there: that one has the number of parts, and those before it have 0 in its place.

A request of a client is kept with its batch, in one transaction, so that its repeat changes
nothing. A companion is an object that observes every batch and can be built again from them; its
state is kept so that this does not take long.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, final

import attrs

from muster.store._errors import damaged
from muster.store._msgpack import pack
from muster.store._rows import Anchor, Checkpoint, KeptBatch, StateMeta, batch_digest, part_digest

_BATCH_COLUMNS: Final = "number, at_us, first_seq, last_seq, digest, events, decisions"
_BATCH_TYPES: Final = (int, int, int, int, bytes, bytes, bytes)
_BATCH_NAMES: Final = tuple(_BATCH_COLUMNS.split(", "))

CHUNK_BYTES: Final = 1024 * 1024
"""After how many bytes of batches a read ends, so that it never holds up the writer for long."""

CHUNK_ROWS: Final = 1000
"""After how many batches it ends."""


@final
@attrs.frozen
class BatchRange:
    """Where the batches that are kept begin and end.

    Attributes:
        anchor: Where they begin.
        last: The last one; the same as the anchor if there is none.
    """

    anchor: Anchor
    last: Anchor


# STORE-4
def batch_range(connection: sqlite3.Connection, path: Path, meta: StateMeta) -> BatchRange:
    """Return where the batches begin and end, after checking the last one.

    Raises:
        StoreError: If the first one or the last one cannot be right.
        sqlite3.Error: If SQLite reports an error.
    """
    anchor = meta.anchor
    first, last = connection.execute(
        "SELECT (SELECT min(number) FROM batch), (SELECT max(number) FROM batch)"
    ).fetchone()
    (newest,) = connection.execute("SELECT max(batch) FROM checkpoint").fetchone()
    floor = max(meta.last_batch, newest if isinstance(newest, int) else 0)
    if first is None:
        if floor > anchor.batch:
            raise damaged(path, f"batches {anchor.batch + 1} to {floor} are missing")
        return BatchRange(anchor, anchor)
    if first != anchor.batch + 1:
        raise damaged(path, f"the first batch is {first}, not {anchor.batch + 1}")
    if last < floor:
        raise damaged(path, f"batches {last + 1} to {floor} are missing")
    before = anchor if last == first else anchor_at(connection, path, anchor, last - 1)
    found = chunk_of(connection, path, before, last)
    if not found:
        raise damaged(path, f"batch {last} is missing")
    row = found[-1]
    return BatchRange(anchor, Anchor(row.number, row.at_us, row.last_seq, row.digest))


def anchor_at(connection: sqlite3.Connection, path: Path, anchor: Anchor, number: int) -> Anchor:
    """Return the digest of a batch with the columns beside it, as they are written.

    Args:
        connection: The connection.
        path: The file.
        anchor: Where the batches begin.
        number: The number of the batch, or that of the anchor.

    Raises:
        StoreError: If there is no such batch, or the row cannot be right.
        sqlite3.Error: If SQLite reports an error.
    """
    if number == anchor.batch:
        return anchor
    row = connection.execute(
        "SELECT number, at_us, last_seq, digest FROM batch WHERE number = ?", (number,)
    ).fetchone()
    if row is None or [type(value) for value in row] != [int, int, int, bytes]:
        raise damaged(path, f"batch {number} is missing, or not of the right types")
    return Anchor(*row)


def last_until(connection: sqlite3.Connection, column: str, most: int, low: int) -> int:
    """Return the last batch whose value in a column, which never falls, is not above one.

    Args:
        connection: The connection.
        column: The column.
        most: The value.
        low: A batch that is not behind the wanted one; returned if no later one fits.

    Raises:
        sqlite3.Error: If SQLite reports an error.
    """
    (last,) = connection.execute("SELECT max(number) FROM batch").fetchone()
    high = low if last is None else last
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(
            f"SELECT {column} FROM batch WHERE number = ?", (middle,)
        ).fetchone()
        if row is not None and row[0] <= most:
            low = middle
        else:
            high = middle - 1
    return low


# STORE-4, STORE-17
def chunk_of(
    connection: sqlite3.Connection,
    path: Path,
    before: Anchor,
    until: int | None,
    *,
    verify: bool = True,
) -> list[KeptBatch]:
    """Read some batches in one look at the file.

    Args:
        connection: The connection.
        path: The file.
        before: The batch before the first one.
        until: The number of the last one, or None.
        verify: Whether to check the digests.

    Raises:
        StoreError: If a batch is missing, or its digest does not hold.
        sqlite3.Error: If SQLite reports an error.
    """
    found = connection.execute(
        f"SELECT {_BATCH_COLUMNS} FROM batch WHERE number > ? AND number <= ? ORDER BY number",
        (before.batch, 2**63 - 1 if until is None else until),
    )
    made: list[KeptBatch] = []
    try:
        _gather(found, made, path, before, verify=verify)
    finally:
        found.close()
    return made


def _gather(
    rows: Iterable[tuple[object, ...]],
    made: list[KeptBatch],
    path: Path,
    before: Anchor,
    *,
    verify: bool,
) -> None:
    number, digest, seq, size = before.batch, before.digest, before.seq, 0
    for row in rows:
        number += 1
        batch = _batch(row, number, path)
        if verify and batch_digest(digest, batch.row()) != batch.digest:
            raise damaged(path, f"batch {number} does not match its digest")
        if batch.first_seq != seq + 1:
            what = f"batch {number} begins with decision {batch.first_seq}, not {seq + 1}"
            raise damaged(path, what)
        digest, seq = batch.digest, batch.last_seq
        made.append(batch)
        size += len(batch.packed_events) + len(batch.packed_decisions)
        if size >= CHUNK_BYTES or len(made) >= CHUNK_ROWS:
            return


def _batch(row: tuple[object, ...], number: int, path: Path) -> KeptBatch:
    if row[0] != number:
        raise damaged(path, f"batch {number} is missing")
    for name, value, wanted in zip(_BATCH_NAMES, row, _BATCH_TYPES, strict=True):
        if type(value) is not wanted:
            what = f"batch {number}: {name} is {type(value).__name__}, not {wanted.__name__}"
            raise damaged(path, what)
    values: Any = row
    at_us, first_seq, last_seq, digest, events, decisions = values[1:]
    return KeptBatch(number, at_us, first_seq, last_seq, digest, events, decisions, path)


# STORE-5
def insert(
    connection: sqlite3.Connection,
    anchor: Anchor,
    batch: int,
    part: int,
    state: bytes,
    *,
    last: bool,
) -> None:
    """Write one part; the caller has begun a transaction.

    Raises:
        ValueError: If the batch is not kept, a part is missing before this one, or there is one
            of this number.
        sqlite3.Error: If SQLite reports an error.
    """
    row = connection.execute(
        "SELECT part, parts, digest FROM checkpoint WHERE batch = ? ORDER BY part DESC LIMIT 1",
        (batch,),
    ).fetchone()
    before, parts, digest = (-1, 0, None) if row is None else row
    if parts or part != before + 1:
        msg = f"part {part} of the checkpoint of batch {batch} does not follow part {before}"
        raise ValueError(msg)
    if digest is None:
        digest = _digest_of_batch(connection, anchor, batch)
    count = part + 1 if last else 0
    connection.execute(
        "INSERT INTO checkpoint (batch, part, parts, state, digest) VALUES (?, ?, ?, ?, ?)",
        (batch, part, count, state, part_digest(digest, batch, part, count, state)),
    )


def _digest_of_batch(connection: sqlite3.Connection, anchor: Anchor, batch: int) -> bytes:
    if batch == anchor.batch:
        return anchor.digest
    row = connection.execute("SELECT digest FROM batch WHERE number = ?", (batch,)).fetchone()
    if row is None:
        msg = f"batch {batch} is not kept"
        raise ValueError(msg)
    digest: bytes = row[0]
    return digest


def listed(connection: sqlite3.Connection, anchor: Anchor) -> list[Checkpoint]:
    """Return the rows of the checkpoints without reading their parts, the oldest first.

    Raises:
        sqlite3.Error: If SQLite reports an error.
    """
    rows = connection.execute(
        "SELECT c.batch, coalesce(b.at_us, ?), count(*), sum(length(c.state)),"
        " max(c.parts) = count(*) AND max(c.part) = count(*) - 1"
        " FROM checkpoint AS c LEFT JOIN batch AS b ON b.number = c.batch"
        " GROUP BY c.batch ORDER BY c.batch",
        (anchor.at_us,),
    ).fetchall()
    return [
        Checkpoint(batch, at_us, parts, size, bool(complete))
        for batch, at_us, parts, size, complete in rows
    ]


# STORE-5, STORE-17
def parts_of(connection: sqlite3.Connection, path: Path, anchor: Anchor, batch: int) -> list[bytes]:
    """Return the parts of a checkpoint, whose digests hold.

    Args:
        connection: The connection.
        path: The file.
        anchor: Where the batches begin.
        batch: The batch after which it was taken.

    Raises:
        StoreError: If a part is missing or its digest does not hold, or if the batch is not kept.
        sqlite3.Error: If SQLite reports an error.
    """
    digest = anchor_at(connection, path, anchor, batch).digest
    rows = connection.execute(
        "SELECT part, parts, state, digest FROM checkpoint WHERE batch = ? ORDER BY part", (batch,)
    ).fetchall()
    if not rows:
        raise damaged(path, f"there is no checkpoint of batch {batch}")
    states: list[bytes] = []
    for number, (part, parts, state, kept) in enumerate(rows):
        wanted = len(rows) if number == len(rows) - 1 else 0
        if part != number or parts != wanted or type(state) is not bytes:
            raise damaged(path, f"the checkpoint of batch {batch} is not complete")
        digest = part_digest(digest, batch, part, parts, state)
        if digest != kept:
            what = f"part {part} of the checkpoint of batch {batch} does not match its digest"
            raise damaged(path, what)
        states.append(state)
    return states


def drop_unfinished(connection: sqlite3.Connection) -> None:
    """Remove the parts of checkpoints that were not finished; the caller began a transaction."""
    connection.execute(
        "DELETE FROM checkpoint WHERE batch NOT IN (SELECT batch FROM checkpoint WHERE parts > 0)"
    )


def remove(connection: sqlite3.Connection, batches: Collection[int], most: int) -> int:
    """Remove some parts of checkpoints, the last one of each first; within a transaction.

    Args:
        connection: The connection.
        batches: The batches of the checkpoints.
        most: How many parts are removed at most.

    Returns:
        How many parts were removed.
    """
    left = most
    for batch in batches:
        done = connection.execute(
            "DELETE FROM checkpoint WHERE batch = ? AND part IN"
            " (SELECT part FROM checkpoint WHERE batch = ? ORDER BY part DESC LIMIT ?)",
            (batch, batch, left),
        )
        left -= done.rowcount
        if left <= 0:
            break
    return most - left


NONE_DENIED: Final = pack([])
"""The result of a request of which every event was let in."""

_REQUEST_COLUMNS: Final = "user, key, digest, batch, first, count, at_us, denied"


@final
@attrs.frozen
class RequestRow:
    """A request of a client that had a key of its own.

    Attributes:
        user: Its user.
        key: Its key, unique for this user.
        batch: The batch that its events went into.
        first: The index of its first event, from 0, among all events that were let in.
        count: How many of its events were let in.
        at_us: The instant of the batch, in microseconds since the origin.
        denied: Why others were not: pairs of the index in the request and the message, as msgpack.
    """

    user: str
    key: str
    digest: bytes
    batch: int
    first: int
    count: int
    at_us: int
    denied: bytes = NONE_DENIED


@final
@attrs.frozen
class CompanionState:
    """The state of a companion.

    Attributes:
        batch: The last batch that it contains.
    """

    batch: int
    parts: tuple[bytes, ...]


# STORE-21
def insert_requests(connection: sqlite3.Connection, rows: Sequence[RequestRow]) -> None:
    """Write requests; the caller has begun the transaction of their batch."""
    connection.executemany(
        "INSERT OR REPLACE INTO request"
        f" ({_REQUEST_COLUMNS}, row_digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*attrs.astuple(row), _digest_of(row)) for row in rows],
    )


def requests_since(connection: sqlite3.Connection, path: Path, since_us: int) -> list[RequestRow]:
    """Return the requests of an instant and later, the oldest first.

    Raises:
        StoreError: If the digest of a row does not hold.
        sqlite3.Error: If SQLite reports an error.
    """
    found = connection.execute(
        f"SELECT {_REQUEST_COLUMNS}, row_digest FROM request WHERE at_us >= ? ORDER BY batch, first",
        (since_us,),
    )
    return _checked(found, path)


def request_of(
    connection: sqlite3.Connection, path: Path, user: str, key: str
) -> RequestRow | None:
    """Return the request of a user with a key, or None.

    Raises:
        StoreError: If the digest of the row does not hold.
        sqlite3.Error: If SQLite reports an error.
    """
    found = connection.execute(
        f"SELECT {_REQUEST_COLUMNS}, row_digest FROM request WHERE user = ? AND key = ?",
        (user, key),
    )
    return next(iter(_checked(found, path)), None)


def _checked(found: sqlite3.Cursor, path: Path) -> list[RequestRow]:
    rows: list[RequestRow] = []
    for *values, digest in found:
        row = RequestRow(*values)
        if _digest_of(row) != digest:
            raise damaged(path, f"the digest of request {row.key!r} does not hold")
        rows.append(row)
    return rows


def _digest_of(row: RequestRow) -> bytes:
    return sha256(pack([*attrs.astuple(row)])).digest()


def forget_requests(connection: sqlite3.Connection, before_us: int) -> int:
    """Remove the requests before an instant; return how many there were."""
    return connection.execute("DELETE FROM request WHERE at_us < ?", (before_us,)).rowcount


# STORE-22
def put_companion_part(connection: sqlite3.Connection, batch: int, part: int, state: bytes) -> None:
    """Write one part of a companion's state; the caller has begun a transaction."""
    connection.execute(
        "INSERT OR REPLACE INTO companion (batch, part, parts, state, digest)"
        " VALUES (?, ?, 0, ?, ?)",
        (batch, part, state, _digest_of_part(batch, part, state)),
    )


def end_companion(connection: sqlite3.Connection, batch: int, parts: int) -> None:
    """Mark the state as complete, and remove older ones; in one transaction.

    A state stays while the checkpoint of its batch does: together they are a whole past state.
    """
    connection.execute("UPDATE companion SET parts = ? WHERE batch = ?", (parts, batch))
    connection.execute("DELETE FROM companion WHERE batch = ? AND part >= ?", (batch, parts))
    connection.execute(
        "DELETE FROM companion WHERE batch <> ? AND batch NOT IN"
        " (SELECT batch FROM checkpoint WHERE parts > 0)",
        (batch,),
    )


def companion_of(
    connection: sqlite3.Connection, at_most_batch: int | None = None
) -> CompanionState | None:
    """Return the newest complete state of a companion; None if none is there and whole.

    One that is damaged is of no use, and none is needed: it can be built from the batches.

    Args:
        connection: The connection.
        at_most_batch: The last batch that it may contain; None for any.
    """
    rows = connection.execute(
        "SELECT batch, part, parts, state, digest FROM companion WHERE parts > 0 AND batch ="
        " (SELECT max(batch) FROM companion WHERE parts > 0 AND batch <= ?) ORDER BY part",
        (2**63 - 1 if at_most_batch is None else at_most_batch,),
    ).fetchall()
    states: list[bytes] = []
    for number, (batch, part, parts, state, digest) in enumerate(rows):
        is_right = part == number and parts == len(rows)
        if not is_right or _digest_of_part(batch, part, state) != digest:
            return None
        states.append(state)
    return CompanionState(rows[0][0], tuple(states)) if rows else None


def _digest_of_part(batch: int, part: int, state: bytes) -> bytes:
    return sha256(pack([batch, part, state])).digest()
