"""The table ``meta``: facts about the whole file, and their digest."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias, cast, final

import attrs

from muster._version import __version__
from muster.store._msgpack import pack
from muster.store._trouble import damaged

FORMAT: Final = 2
"""The format that this version writes."""

Facts: TypeAlias = dict[str, "str | int | bytes"]
"""The rows of the table, without the digest."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DIGEST: Final = "digest"


@final
@attrs.frozen
class Anchor:
    """Where the batches that are kept begin.

    Attributes:
        batch: The number of the last batch that was removed; 0 if none was.
        at_us: Its instant, in microseconds since the origin.
        seq: The number of the last decision that was removed.
        digest: Its digest, to which the first batch that is left is chained.
    """

    batch: int
    at_us: int
    seq: int
    digest: bytes


@final
@attrs.frozen
class StateMeta:
    """Facts about a state directory.

    Attributes:
        format: The format of the file.
        written_by: The version of Muster that wrote last.
        origin_us: The origin of time, in microseconds since 1970 in UTC.
        partition: The name of the partition that runs.
        anchor: Where the batches that are kept begin.
        last_batch: A batch that the file had at some time: when it was last closed, at least.
    """

    format: int
    written_by: str
    origin_us: int
    partition: str
    anchor: Anchor
    last_batch: int

    @property
    def origin(self) -> str:
        """The origin of time, as an ISO instant."""
        return iso(self.origin_us)


def iso(instant_us: int) -> str:
    """Return an instant, in microseconds since 1970, in the ISO form."""
    try:
        return (_EPOCH + timedelta(microseconds=instant_us)).isoformat()
    except OverflowError:
        return f"{instant_us} us since 1970"


# STORE-3
def new_facts(partition: str, origin_us: int) -> Facts:
    """Return the facts of a file that is made now.

    Args:
        partition: The name of the partition.
        origin_us: The origin of time, in microseconds since 1970 in UTC.
    """
    first = sha256(pack(["muster", FORMAT, origin_us, partition])).digest()
    return {
        "format": FORMAT,
        "written_by": __version__,
        "origin": iso(origin_us),
        "origin_us": origin_us,
        "partition": partition,
        "anchor_batch": 0,
        "anchor_at_us": 0,
        "anchor_seq": 0,
        "anchor_digest": first,
        "last_batch": 0,
    }


_KINDS: Final = {key: type(value) for key, value in new_facts("", 0).items()}
"""The type of each fact of the present format."""


# STORE-3
def facts_digest(facts: Mapping[str, object]) -> bytes:
    """Return the digest of the rows of the table but for its own."""
    return sha256(pack(sorted([key, value] for key, value in facts.items()))).digest()


def write_facts(connection: sqlite3.Connection, facts: Mapping[str, object]) -> None:
    """Write all rows of the table anew; the caller has begun a transaction.

    Args:
        connection: The connection.
        facts: All rows but for the digest.
    """
    rows = [*facts.items(), (_DIGEST, facts_digest(facts))]
    connection.execute("DELETE FROM meta")
    connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", rows)


def read_facts(connection: sqlite3.Connection, path: Path) -> Facts:
    """Read the rows of the table, of any format.

    Raises:
        StoreError: If their digest does not hold.
        sqlite3.Error: If they cannot be read.
    """
    facts: Facts = dict(connection.execute("SELECT key, value FROM meta ORDER BY key").fetchall())
    digest = facts.pop(_DIGEST, None)
    keys: set[type] = {type(key) for key in facts}
    if keys - {str} or any(type(value) not in {str, int, bytes} for value in facts.values()):
        raise damaged(path, "the table meta has a value of another type")
    if digest != facts_digest(facts):
        raise damaged(path, "the table meta does not match its digest")
    return facts


def as_meta(facts: Facts, path: Path) -> StateMeta:
    """Return the facts with their types.

    Raises:
        StoreError: If one is missing or has another type.
    """
    wrong = [key for key, kind in _KINDS.items() if type(facts.get(key)) is not kind]
    wrong += sorted(facts.keys() - _KINDS.keys())
    if wrong:
        raise damaged(path, f"the table meta is not that of format {FORMAT}: {', '.join(wrong)}")
    numbers = {key: value for key, value in facts.items() if isinstance(value, int)}
    anchor = Anchor(
        numbers["anchor_batch"],
        numbers["anchor_at_us"],
        numbers["anchor_seq"],
        cast("bytes", facts["anchor_digest"]),
    )
    return StateMeta(
        numbers["format"],
        str(facts["written_by"]),
        numbers["origin_us"],
        str(facts["partition"]),
        anchor,
        numbers["last_batch"],
    )
