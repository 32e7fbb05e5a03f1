"""The rows of the file, with digests: facts about the whole file, batches and checkpoints.

The table ``meta`` has the facts about the whole file, and their digest.

STORE-4, STORE-5. The digest of a batch covers the digest of the batch before it, so the last one
covers everything up to it; the digest of a part of a checkpoint covers its batch and the parts
before.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeAlias, cast, final

import attrs
from typing_extensions import override

from muster._version import __version__
from muster.store._codec import decode_events, encode_events
from muster.store._errors import damaged
from muster.store._msgpack import (
    HEAD_BYTES,
    CodecError,
    decode_decisions,
    encode_decisions,
    length_of,
    pack,
)
from muster_core.decisions import Announced
from muster_core.events import Event

FORMAT: Final = 3
"""The format that this version writes."""

FIRST_TERM: Final = 1
"""The term of a store before any promotion."""

MetaFacts: TypeAlias = dict[str, "str | int | bytes"]
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
        term: The term of its leader; each promotion begins the next one.
    """

    format: int
    written_by: str
    origin_us: int
    partition: str
    anchor: Anchor
    last_batch: int
    term: int

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
def new_facts(
    partition: str, origin_us: int, *, anchor: Anchor | None = None, term: int = FIRST_TERM
) -> MetaFacts:
    """Return the facts of a file that is made now.

    Args:
        partition: The name of the partition.
        origin_us: The origin of time, in microseconds since 1970 in UTC.
        anchor: Where its batches begin; None for those of a new history.
        term: The term of its leader.
    """
    if anchor is None:
        first = sha256(pack(["muster", FORMAT, origin_us, partition])).digest()
        anchor = Anchor(0, 0, 0, first)
    return {
        "format": FORMAT,
        "written_by": __version__,
        "origin": iso(origin_us),
        "origin_us": origin_us,
        "partition": partition,
        "anchor_batch": anchor.batch,
        "anchor_at_us": anchor.at_us,
        "anchor_seq": anchor.seq,
        "anchor_digest": anchor.digest,
        "last_batch": anchor.batch,
        "term": term,
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


def read_facts(connection: sqlite3.Connection, path: Path) -> MetaFacts:
    """Read the rows of the table, of any format.

    Raises:
        StoreError: If their digest does not hold.
        sqlite3.Error: If they cannot be read.
    """
    facts: MetaFacts = dict(
        connection.execute("SELECT key, value FROM meta ORDER BY key").fetchall()
    )
    digest = facts.pop(_DIGEST, None)
    keys: set[type] = {type(key) for key in facts}
    if keys - {str} or any(type(value) not in {str, int, bytes} for value in facts.values()):
        raise damaged(path, "the table meta has a value of another type")
    if digest != facts_digest(facts):
        raise damaged(path, "the table meta does not match its digest")
    return facts


def as_meta(facts: MetaFacts, path: Path) -> StateMeta:
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
        numbers["term"],
    )


_BATCH: Final = struct.Struct(">qqqqqq")
_PART: Final = struct.Struct(">qqqq")


@final
@attrs.frozen
class BatchRow:
    """One batch, ready to be written.

    Attributes:
        number: Its number; each is one more than the one before.
        at_us: Its instant, in microseconds since the origin.
        events: Its events, as :func:`~muster.store._codec.encode_events` writes them.
        decisions: Its decisions, as ``encode_decisions`` writes them.
        first_seq: The number of its first decision, or of the next one if it has none.
        last_seq: The number of the last decision so far; ``first_seq - 1`` if it has none.
    """

    number: int
    at_us: int
    events: bytes
    decisions: bytes
    first_seq: int
    last_seq: int


def row_of(
    number: int,
    at_us: int,
    events: Sequence[Event],
    decisions: Sequence[Announced],
    last_seq: int,
) -> BatchRow:
    """Return the row of a batch.

    Args:
        number: Its number.
        at_us: Its instant, in microseconds since the origin.
        events: Its events, in order.
        decisions: Its decisions, in order.
        last_seq: The number of the last decision before it; 0 if there was none.
    """
    return BatchRow(
        number,
        at_us,
        encode_events(events),
        encode_decisions(decisions),
        last_seq + 1,
        last_seq + len(decisions),
    )


# STORE-4
def batch_digest(before: bytes, row: BatchRow) -> bytes:
    """Return the digest of a batch, from that of the batch before it."""
    made = sha256(before)
    made.update(
        _BATCH.pack(
            row.number,
            row.at_us,
            row.first_seq,
            row.last_seq,
            len(row.events),
            len(row.decisions),
        )
    )
    made.update(row.events)
    made.update(row.decisions)
    return made.digest()


# STORE-5
def part_digest(before: bytes, batch: int, part: int, parts: int, state: bytes) -> bytes:
    """Return the digest of a part of a checkpoint.

    Args:
        before: The digest of the part before it; for the first one, that of the batch.
        batch: The batch after which the checkpoint was taken.
        part: The number of the part, from 0.
        parts: How many parts there are, in the last one; 0 in those before it.
        state: Its content.
    """
    return sha256(before + _PART.pack(batch, part, parts, len(state)) + state).digest()


@final
@attrs.frozen
class ReplayDifference:
    """The first decision that is another one today.

    Attributes:
        batch: The number of its batch.
        was: The decision that is kept, as a text; ``none`` if there is none.
        now: The decision of this version, likewise.
    """

    batch: int
    seq: int
    was: str
    now: str

    @override
    def __str__(self) -> str:
        """Return it as the beginning of a sentence."""
        return (
            f"batch {self.batch} decides otherwise today, from decision {self.seq} on: "
            f"it was {self.was}, and is now {self.now}"
        )


@final
@attrs.frozen(slots=False)  # `cached_property` needs a dict
class KeptBatch:
    """A batch that was read.

    Attributes:
        number: Its number.
        at_us: Its instant, in microseconds since the origin.
        first_seq: The number of its first decision, or of the next one if it has none.
        last_seq: The number of the last decision so far.
        digest: Its digest.
        packed_events: Its events as msgpack.
        packed_decisions: Its decisions as msgpack.
        path: The file that it comes from.
    """

    number: int
    at_us: int
    first_seq: int
    last_seq: int
    digest: bytes = attrs.field(repr=False)
    packed_events: bytes = attrs.field(repr=False)
    packed_decisions: bytes = attrs.field(repr=False)
    path: Path = attrs.field(repr=False, eq=False)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Its events, in order.

        Raises:
            StoreError: If a newer version of Muster wrote something that this one does not know.
        """
        try:
            return decode_events(self.packed_events)
        except CodecError as error:
            raise damaged(self.path, f"batch {self.number}: {error}") from error

    @property
    def event_count(self) -> int:
        """How many events it has; nothing is decoded for that."""
        return length_of(self.packed_events[:HEAD_BYTES])

    @cached_property
    def decisions(self) -> tuple[Announced, ...]:
        """Its decisions, in order.

        Raises:
            StoreError: As for the events.
        """
        try:
            made = decode_decisions(self.packed_decisions, self.first_seq, self.at_us)
        except CodecError as error:
            raise damaged(self.path, f"batch {self.number}: {error}") from error
        if len(made) != self.last_seq - self.first_seq + 1:
            what = f"batch {self.number} has {len(made)} decisions"
            raise damaged(self.path, f"{what}, not {self.last_seq - self.first_seq + 1}")
        return made

    def first_difference(self, decided: Sequence[Announced]) -> ReplayDifference | None:
        """Return the first decision that is another one today, or None if all are the same.

        Args:
            decided: The decisions of this version for this batch, after all that came before.

        Raises:
            StoreError: As for the events.
        """
        if encode_decisions(decided) == self.packed_decisions and all(
            one.at_us == self.at_us for one in decided
        ):
            return None
        pairs = zip_longest(self.decisions, decided)
        was, now = next(pair for pair in pairs if pair[0] != pair[1])
        one = was or now
        assert one is not None, "two decisions that are missing differ"
        return ReplayDifference(self.number, one.seq, _decision_text(was), _decision_text(now))

    def row(self) -> BatchRow:
        """Return the row that it was read from."""
        return BatchRow(
            self.number,
            self.at_us,
            self.packed_events,
            self.packed_decisions,
            self.first_seq,
            self.last_seq,
        )


def _decision_text(announced: Announced | None) -> str:
    if announced is None:
        return "none"
    return " ".join(f"{name}={value!r}" for name, value in announced.as_map().items())


@final
@attrs.frozen
class Checkpoint:
    """The row of a checkpoint, without its parts.

    Attributes:
        batch: The batch after which it was taken; 0 before the first one.
        at_us: The instant of that batch, in microseconds since the origin.
        parts: How many parts of it there are.
        size: The bytes of its state.
        complete: Whether all its parts are there.
    """

    batch: int
    at_us: int
    parts: int
    size: int
    complete: bool
