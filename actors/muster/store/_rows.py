"""Batches and checkpoints as rows, and their digests.

STORE-4, STORE-5. The digest of a batch covers the digest of the batch before it, so the last one
covers everything up to it; the digest of a part of a checkpoint covers its batch and the parts
before.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Final, final

import attrs
from typing_extensions import override

from muster.store._codec import decode_events, encode_events
from muster.store._decisions import decode_decisions, encode_decisions
from muster.store._msgpack import HEAD_BYTES, CodecError, length_of
from muster.store._trouble import damaged
from muster_core.decisions import Announced
from muster_core.events import Event

_BATCH: Final = struct.Struct(">qqqqqq")
_PART: Final = struct.Struct(">qqqq")


@final
@attrs.frozen
class BatchRow:
    """One batch, ready to be written.

    Attributes:
        number: Its number; each is one more than the one before.
        at_us: Its instant, in microseconds since the origin.
        events: What was let in, as :func:`~muster.store._codec.encode_events` writes it.
        decisions: What was decided, as ``encode_decisions`` writes it.
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
        events: What was let in, in order.
        decisions: What was decided, in order.
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
class Otherwise:
    """The first decision that is another one today.

    Attributes:
        batch: The number of its batch.
        seq: Its number.
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
        """What was let in, in order.

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
        """What was decided, in order.

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

    def first_difference(self, decided: Sequence[Announced]) -> Otherwise | None:
        """Return the first decision that is another one today, or None if all are the same.

        Args:
            decided: What this version decides for this batch, after all that came before.

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
        return Otherwise(self.number, one.seq, _told(was), _told(now))

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


def _told(announced: Announced | None) -> str:
    if announced is None:
        return "none"
    return " ".join(f"{name}={value!r}" for name, value in announced.as_map().items())


@final
@attrs.frozen
class Checkpoint:
    """What is known of a checkpoint without reading it.

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
