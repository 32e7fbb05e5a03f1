"""The tables ``request`` and ``companion``: what a service keeps beside the batches.

A request of a client is kept with its batch, in one transaction, so that its repeat changes
nothing. A companion is an object that hears of every batch and can be built again from them; its
state is kept so that this does not take long.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, final

import attrs

from muster.store._msgpack import pack
from muster.store._trouble import damaged

NONE_DENIED: Final = pack([])
"""What is kept of a request of which every event was let in."""

_COLUMNS: Final = "user, key, digest, batch, first, count, at_us, denied"


@final
@attrs.frozen
class RequestRow:
    """A request of a client that had a key of its own.

    Attributes:
        user: Who sent it.
        key: Its key, unique for this user.
        digest: The digest of its content.
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
        batch: The last batch of which it has heard.
        parts: Its parts, in order.
    """

    batch: int
    parts: tuple[bytes, ...]


# STORE-21
def insert_requests(connection: sqlite3.Connection, rows: Sequence[RequestRow]) -> None:
    """Write requests; the caller has begun the transaction of their batch."""
    connection.executemany(
        "INSERT OR REPLACE INTO request"
        f" ({_COLUMNS}, row_digest)"
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
        f"SELECT {_COLUMNS}, row_digest FROM request WHERE at_us >= ? ORDER BY batch, first",
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
        f"SELECT {_COLUMNS}, row_digest FROM request WHERE user = ? AND key = ?", (user, key)
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
    """Say that all parts are there, and remove what nobody needs; in one transaction.

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
        at_most_batch: The last batch of which it may have heard; None for any.
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
