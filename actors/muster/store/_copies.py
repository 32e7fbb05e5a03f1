"""The frames that one server sends another: a copy of its store, and its batches.

A frame is its length and a value as msgpack. A copy begins with the facts about the file; the parts
of the newest checkpoint follow, then the state of the service beside it. Batches that were written
together are one frame, with the digest of the last one.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Generator, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self, final

import attrs

from muster._errors import StoreError
from muster._version import __version__
from muster.store._errors import store_errors
from muster.store._file import NAME, sync_directory
from muster.store._msgpack import CodecError, pack, unpack
from muster.store._reader import StateReader
from muster.store._rows import FORMAT, Anchor, BatchRow, KeptBatch, batch_digest
from muster.store._sql import CompanionState, RequestRow
from muster.store._writer import Durability, NewState, StateWriter

MAX_FRAME_BYTES: Final = 1024 * 1024 * 1024
"""The longest frame that is read. A batch has as much as one request may send, and its decisions."""

_LENGTH: Final = struct.Struct(">I")
_REQUESTS_AT_ONCE: Final = 1000


def frame_of(value: Sequence[object]) -> bytes:
    """Return a frame with a value."""
    packed = pack([*value])
    return _LENGTH.pack(len(packed)) + packed


@final
class FrameReader:
    """Reads frames from bytes that come piece by piece."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, some: bytes) -> Iterator[list[Any]]:
        """Take the next bytes, and yield the values of the frames that are complete.

        Raises:
            CodecError: If they are no frames.
        """
        self._bytes += some
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > MAX_FRAME_BYTES:
                msg = f"a frame of {length} bytes is longer than {MAX_FRAME_BYTES}"
                raise CodecError(msg)
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                return
            value = unpack(bytes(self._bytes[_LENGTH.size : end]))
            del self._bytes[:end]
            if not isinstance(value, list) or not value:
                msg = "a frame is no array, or an empty one"
                raise CodecError(msg)
            yield value


@final
@attrs.frozen
class BatchGroup:
    """Batches that were written together, as they are written.

    Attributes:
        rows: The batches, in order; at least one.
        requests: The requests of clients whose events are in them.
        digest: The digest of the last one.
    """

    rows: tuple[BatchRow, ...]
    requests: tuple[RequestRow, ...]
    digest: bytes

    KIND = "batches"

    def frame(self) -> bytes:
        """Return the frame that :meth:`of` reads."""
        rows = [[*attrs.astuple(one)] for one in self.rows]
        requests = [[*attrs.astuple(one)] for one in self.requests]
        return frame_of([self.KIND, rows, requests, self.digest])

    @classmethod
    def of(cls, frame: Sequence[Any]) -> Self:
        """Return the group in a frame.

        Raises:
            CodecError: If it is none.
        """
        try:
            kind, rows, requests, digest = frame
            made = cls(
                tuple(BatchRow(*one) for one in rows),
                tuple(RequestRow(*one) for one in requests),
                digest,
            )
        except (TypeError, ValueError) as error:
            msg = f"a frame of batches is malformed: {error}"
            raise CodecError(msg) from error
        if kind != cls.KIND or not made.rows:
            msg = f"a frame of kind {kind!r} has no batches"
            raise CodecError(msg)
        return made

    def after(self, last: Anchor, path: Path) -> list[KeptBatch]:
        """Return the batches as they will be kept, with their events decoded.

        Args:
            last: The batch that they follow.
            path: The file that they go to.

        Raises:
            StoreError: If they do not follow it, their digest does not hold, or a newer version
                of Muster wrote something that this one does not know.
        """
        made: list[KeptBatch] = []
        digest, number, seq = last.digest, last.batch, last.seq
        for row in self.rows:
            if row.number != number + 1 or row.first_seq != seq + 1:
                what = f"batch {row.number} from the leader does not follow batch {number}"
                raise StoreError(what, path)
            digest, number, seq = batch_digest(digest, row), row.number, row.last_seq
            made.append(
                KeptBatch(
                    row.number,
                    row.at_us,
                    row.first_seq,
                    row.last_seq,
                    digest,
                    row.events,
                    row.decisions,
                    path,
                )
            )
            _ = made[-1].events
        if digest != self.digest:
            what = f"batch {number} from the leader does not match its digest"
            raise StoreError(what, path)
        return made


def groups_after(reader: StateReader, after: int) -> Iterator[BatchGroup]:
    """Yield the batches after one that are in a store.

    Args:
        reader: Reads the store.
        after: The number of the batch before the first one.

    Raises:
        StoreError: If batches that are wanted were removed, or one is missing.
    """
    chunk: list[KeptBatch] = []
    size = 0
    for batch in reader.batches(after=after, verify=False):
        chunk.append(batch)
        size += len(batch.packed_events) + len(batch.packed_decisions)
        if len(chunk) >= 1000 or size >= 1024 * 1024:
            yield _group(reader, chunk)
            chunk, size = [], 0
    if chunk:
        yield _group(reader, chunk)


def _group(reader: StateReader, chunk: Sequence[KeptBatch]) -> BatchGroup:
    numbers = range(chunk[0].number, chunk[-1].number + 1)
    requests = reader.requests(chunk[0].at_us)
    return BatchGroup(
        tuple(one.row() for one in chunk),
        tuple(one for one in requests if one.batch in numbers),
        chunk[-1].digest,
    )


# A copy


@final
@attrs.frozen
class CopyHead:
    """The facts about a store with which its copy begins.

    Attributes:
        version: The version of Muster that sends it.
        format: The format that this version writes.
        origin_us: The origin of time, in microseconds since 1970 in UTC.
        partition: The partition that runs.
        term: The term of the leader.
        anchor: The batch after which its checkpoint was taken; where its batches begin, without one.
        has_checkpoint: Whether there is a checkpoint; without one it begins with the first batch.
    """

    version: str
    format: int
    origin_us: int
    partition: str
    term: int
    anchor: Anchor
    has_checkpoint: bool

    def values(self) -> list[object]:
        """Return its values, of which :meth:`of` makes the same."""
        *facts, anchor, has_checkpoint = attrs.astuple(self)
        return [*facts, [*anchor], has_checkpoint]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Self:
        """Return the head with some values.

        Raises:
            CodecError: If they are those of something else.
        """
        try:
            version, form, origin_us, partition, term, anchor, has_checkpoint = values
            return cls(version, form, origin_us, partition, term, Anchor(*anchor), has_checkpoint)
        except (TypeError, ValueError) as error:
            msg = f"the head of a copy is malformed: {error}"
            raise CodecError(msg) from error


# REPLICA-2
def copy_of(directory: Path) -> Generator[bytes]:
    """Yield the frames of a copy of a store: its newest checkpoint, and the rows that belong to it.

    Args:
        directory: The state directory, which may be in use.

    Raises:
        StoreError: If it cannot be read.
    """
    with StateReader(directory) as reader:
        found = reader.newest_checkpoint()
        anchor = reader.meta.anchor if found is None else reader.places([found.batch])[0]
        meta = reader.meta
        head = CopyHead(
            __version__,
            FORMAT,
            meta.origin_us,
            meta.partition,
            meta.term,
            anchor,
            found is not None,
        )
        digest = sha256()

        def next_frame(*value: object) -> bytes:
            frame = frame_of(value)
            digest.update(frame)
            return frame

        yield next_frame("store", *head.values())
        for part in () if found is None else found.parts:
            yield next_frame("part", part)
        state = reader.observer_state(anchor.batch)
        for part in () if state is None or state.batch != anchor.batch else state.parts:
            yield next_frame("companion", part)
        requests = [one for one in reader.requests(0) if one.batch <= anchor.batch]
        for first in range(0, len(requests), _REQUESTS_AT_ONCE):
            some = requests[first : first + _REQUESTS_AT_ONCE]
            yield next_frame("requests", [[*attrs.astuple(one)] for one in some])
        yield frame_of(["end", digest.digest()])


@final
class CopyWriter:
    """Makes a state directory of the frames of a copy: the whole of it, or nothing.

    All methods may be called in any thread, but by one at a time.

    Args:
        directory: The state directory, which holds no state.
        durability: Whether to wait until the disk has it.

    Attributes:
        is_complete: Whether the whole copy is there.
    """

    def __init__(self, directory: Path, durability: Durability) -> None:
        self._directory = directory
        self._draft = directory / f"{NAME}.copy"
        self._durability: Durability = durability
        self._writer: StateWriter | None = None
        self._head: CopyHead
        self._digest = sha256()
        self._part: bytes | None = None
        self._parts = 0
        self._companion: list[bytes] = []
        self.is_complete = False

    def take(self, frame: Sequence[Any]) -> None:
        """Take the next frame.

        Raises:
            CodecError: If it does not belong there.
            StoreError: If it cannot be written.
        """
        kind, *values = frame
        if kind == "end":
            self._finish(values[0])
            return
        self._digest.update(frame_of(frame))
        if kind == "store":
            self._begin(CopyHead.of(values))
        elif self._writer is None:
            msg = f"a copy begins with {kind!r}"
            raise CodecError(msg)
        elif kind == "part":
            self._put_part(last=False)
            self._part = values[0]
        elif kind == "companion":
            self._companion.append(values[0])
        elif kind == "requests":
            self._writer.put_requests([RequestRow(*one) for one in values[0]])
        else:
            msg = f"a copy has no {kind!r}"
            raise CodecError(msg)

    def _begin(self, head: CopyHead) -> None:
        self.abandon()
        if head.format > FORMAT:
            what = (
                f"the leader writes format {head.format} (Muster {head.version}); this is Muster "
                f"{__version__}, which knows formats up to {FORMAT}: use the newer version here, too"
            )
            raise StoreError(what, self._directory)
        self._head = head
        new = NewState(head.partition, head.origin_us, anchor=head.anchor, term=head.term)
        with store_errors(self._directory, "make the directory"):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._writer = StateWriter.create(self._draft, new, durability=self._durability)

    def _put_part(self, *, last: bool) -> None:
        # The last part is marked as such, so each waits for the next frame.
        if self._writer is not None and self._part is not None:
            batch = self._head.anchor.batch
            self._writer.put_part(batch, self._parts, self._part, last=last)
            self._parts += 1
            self._part = None

    def _finish(self, digest: bytes) -> None:
        if self._writer is None or digest != self._digest.digest():
            msg = "the copy is not what the leader has sent"
            raise CodecError(msg)
        self._put_part(last=True)
        if self._companion:
            state = CompanionState(self._head.anchor.batch, tuple(self._companion))
            self._writer.put_companion(state)
        self._writer.close()
        with store_errors(self._directory, "put the copy in its place"):
            (self._draft / NAME).replace(self._directory / NAME)
            if self._durability == "full":
                sync_directory(self._directory)
        self._writer = None
        self.abandon()
        self.is_complete = True

    def abandon(self) -> None:
        """Remove the incomplete copy; the state directory is as it was."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        shutil.rmtree(self._draft, ignore_errors=True)
        self._parts, self._part = 0, None
        self._companion.clear()


# REPLICA-11
def set_aside(directory: Path) -> Path | None:
    """Rename the file of a store that went another way than the leader's, and return its new name.

    Args:
        directory: The state directory, which no process has open for writing.

    Raises:
        StoreError: If it cannot be renamed.
    """
    path = directory / NAME
    if not path.exists():
        return None
    with StateReader(directory) as reader:
        last = reader.last().batch
    number = 1
    while (new := path.with_name(f"{NAME}.aside-{last}-{number}")).exists():
        number += 1
    with store_errors(path, "set the file aside"):
        for suffix in ("-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                beside.replace(new.with_name(new.name + suffix))
        path.replace(new)
        sync_directory(directory)
    return new
