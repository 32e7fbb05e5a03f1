"""The table ``checkpoint``: states in parts, each with a digest chained to the part before.

A checkpoint is complete when its last part is there: that one has the number of parts, and those
before it have 0 in its place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path

from muster.store._meta import Anchor
from muster.store._rows import Checkpoint, part_digest
from muster.store._sql.select import anchor_at
from muster.store._trouble import damaged


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
    """Return what is known of the checkpoints without reading them, the oldest first.

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
