"""Reading rows of batches, checked: what is not as Muster writes it is damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, final

import attrs

from muster.store._meta import Anchor, StateMeta
from muster.store._rows import KeptBatch, batch_digest
from muster.store._trouble import damaged

_COLUMNS: Final = "number, at_us, first_seq, last_seq, digest, events, decisions"
_TYPES: Final = (int, int, int, int, bytes, bytes, bytes)
_NAMES: Final = tuple(_COLUMNS.split(", "))

CHUNK_BYTES: Final = 1024 * 1024
"""After how many bytes of batches a read ends, so that it never holds up the writer for long."""

CHUNK_ROWS: Final = 1000
"""After how many batches it ends."""


@final
@attrs.frozen
class Ends:
    """Where the batches that are kept begin and end.

    Attributes:
        anchor: Where they begin.
        last: The last one; the same as the anchor if there is none.
    """

    anchor: Anchor
    last: Anchor


# STORE-4
def ends_of(connection: sqlite3.Connection, path: Path, meta: StateMeta) -> Ends:
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
        return Ends(anchor, anchor)
    if first != anchor.batch + 1:
        raise damaged(path, f"the first batch is {first}, not {anchor.batch + 1}")
    if last < floor:
        raise damaged(path, f"batches {last + 1} to {floor} are missing")
    before = anchor if last == first else anchor_at(connection, path, anchor, last - 1)
    found = chunk_of(connection, path, before, last)
    if not found:
        raise damaged(path, f"batch {last} is missing")
    row = found[-1]
    return Ends(anchor, Anchor(row.number, row.at_us, row.last_seq, row.digest))


def anchor_at(connection: sqlite3.Connection, path: Path, anchor: Anchor, number: int) -> Anchor:
    """Return the digest of a batch with what stands beside it, as it is written there.

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
        low: A batch that is not behind the wanted one; what is returned if nothing else fits.

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
        f"SELECT {_COLUMNS} FROM batch WHERE number > ? AND number <= ? ORDER BY number",
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
    for name, value, wanted in zip(_NAMES, row, _TYPES, strict=True):
        if type(value) is not wanted:
            what = f"batch {number}: {name} is {type(value).__name__}, not {wanted.__name__}"
            raise damaged(path, what)
    values: Any = row
    at_us, first_seq, last_seq, digest, events, decisions = values[1:]
    return KeptBatch(number, at_us, first_seq, last_seq, digest, events, decisions, path)
