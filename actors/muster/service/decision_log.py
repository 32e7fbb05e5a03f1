"""The decision log as clients read it: the latest decisions in memory, all others from the store.

Decisions are encoded once, in blocks, for all readers. A cursor goes through memory
and store as if they were one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, final

import trio

from muster._errors import StoreError
from muster._runtime.clock import slices
from muster.feeds._output import decision_line
from muster.store import KeptBatch, StateReader
from muster_core.decisions import Announced
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster._runtime.observers import Filter


BLOCK: Final = 256
"""How many decisions a block has at most."""

_BASE_BYTES: Final = 600
"""About what a decision takes that is not encoded, in bytes."""


@final
class DecisionBlock:
    """Some decisions that follow one another. Once it was read, nothing is added to it.

    Args:
        announced: The decisions, at least one; more may be added until they are read.
        grown: Called with the bytes by which it grows.

    Attributes:
        first: The number of the first one.
        size: About what it takes, in bytes.
    """

    __slots__ = ("_announced", "_events", "_grown", "_lines", "first", "size")

    def __init__(
        self, announced: Sequence[Announced], grown: Callable[[int], None] | None = None
    ) -> None:
        self._announced: list[Announced] = []
        self._lines: list[bytes] | None = None
        self._events: bytes | None = None
        self._grown = grown
        self.first = announced[0].seq
        self.size = 0
        self.add(announced)

    def __len__(self) -> int:
        return len(self._announced)

    @property
    def last(self) -> int:
        """The number of the last one."""
        return self.first + len(self._announced) - 1

    @property
    def announced(self) -> Sequence[Announced]:
        """The decisions."""
        return self._announced

    def add(self, more: Sequence[Announced]) -> bool:
        """Add the decisions that follow; return False if they need a block of their own."""
        if self._lines is not None or len(self._announced) + len(more) > BLOCK:
            return False
        self._announced.extend(more)
        texts = sum([len(one.decision.message or "") for one in more])
        self._grow(len(more) * _BASE_BYTES + texts)
        return True

    def _grow(self, size: int) -> None:
        self.size += size
        if self._grown is not None:
            self._grown(size)

    @property
    def lines(self) -> Sequence[bytes]:
        """The lines of the decision log, each with a line feed at its end."""
        if self._lines is None:
            self._lines = [decision_line(one) for one in self._announced]
            self._grow(sum(map(len, self._lines)))
        return self._lines

    @property
    def events(self) -> bytes:
        """All of them as events of a stream."""
        if self._events is None:
            events = [_event(seq, line) for seq, line in enumerate(self.lines, self.first)]
            self._events = b"".join(events)
            self._grow(len(self._events))
        return self._events

    def choose(
        self, after: int, until: int | None, wanted: Filter | None, most: int | None
    ) -> tuple[Sequence[int], int]:
        """Return the places of the decisions that a reader wants.

        Args:
            after: Only decisions after this number.
            until: Only decisions up to this number; None for all.
            wanted: Only those that this filter lets through; None for all.
            most: How many at most, from 1; None for all.

        Returns:
            Their places in this block, and the number of the last decision that was looked at.
        """
        start = max(0, after + 1 - self.first)
        stop = len(self._announced)
        if until is not None:
            stop = min(stop, until + 1 - self.first)
        chosen: Sequence[int] = range(start, stop)
        if wanted is not None:
            chosen = [at for at in chosen if wanted.wants(self._announced[at])]
        if most is not None and len(chosen) > most:
            chosen = chosen[:most]
            stop = chosen[-1] + 1
        return chosen, self.first + stop - 1

    def lines_at(self, places: Sequence[int]) -> list[bytes]:
        """Return the lines of decisions at some places."""
        lines = self.lines
        return [lines[at] for at in places]

    def events_at(self, places: Sequence[int]) -> bytes:
        """Return the decisions at some places as events of a stream."""
        if len(places) == len(self._announced):
            return self.events
        lines, first = self.lines, self.first
        return b"".join([_event(first + at, lines[at]) for at in places])


# STREAM-3
def _event(seq: int, line: bytes) -> bytes:
    return b"id: %d\nevent: decision\ndata: %s\n" % (seq, line)


MOST_IN_MEMORY: Final = 100_000
"""How many decisions are kept in memory at most."""

MOST_BYTES: Final = 128 * 1024 * 1024
"""How many bytes they take at most, about."""

PAUSE_S: Final = 0.02
"""How often streams are woken at most, in seconds: so they send more at a time when there is much."""


# STREAM-2
@final
class DecisionTail:
    """The latest decisions, oldest first.

    Args:
        most: How many decisions are kept at most.
        most_bytes: How many bytes they take at most, about.

    Attributes:
        batch: The number of the last batch; with a store it is on disk.
        last: The number of the last decision that was announced.
        is_over: Whether no decision follows.
    """

    def __init__(self, most: int = MOST_IN_MEMORY, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._blocks: deque[DecisionBlock] = deque()
        self._count = 0
        self._bytes = 0
        self.batch = 0
        self.last = 0
        self.is_over = False
        self._fresh = trio.Event()
        self._news = trio.Event()

    @property
    def first(self) -> int:
        """The number of the first decision in memory; that of the next one if there is none."""
        return self._blocks[0].first if self._blocks else self.last + 1

    # Filled by the scheduler

    def begin(self, batch: int, last: int) -> None:
        """Set where it begins, before the first batch.

        Args:
            batch: The number of the last batch.
            last: The number of the last decision.
        """
        if not self._blocks:
            self.batch, self.last = batch, last

    def observe(self, number: int, announced: Sequence[Announced]) -> Steps[None]:
        """Add the decisions of a batch, in steps.

        Args:
            number: Its number.
            announced: Its decisions.
        """
        self.batch = number
        for piece in slices(announced):
            self._append(piece)
            self._fresh.set()
            yield

    def _append(self, piece: Sequence[Announced]) -> None:
        if not self._blocks or not self._blocks[-1].add(piece):
            self._blocks.append(DecisionBlock(piece, self._grow))
        self._count += len(piece)
        self.last = piece[-1].seq
        self._forget()

    def _grow(self, size: int) -> None:
        self._bytes += size

    def _forget(self) -> None:
        while len(self._blocks) > 1 and (
            self._count > self._most or self._bytes > self._most_bytes
        ):
            gone = self._blocks.popleft()
            self._count -= len(gone)
            self._bytes -= gone.size

    async def run(self) -> None:
        """Wake the waiting streams, at most once in :data:`PAUSE_S`."""
        while True:
            await self._fresh.wait()
            self._fresh = trio.Event()
            self._wake()
            await trio.sleep(PAUSE_S)

    def close(self) -> None:
        """End it: no decision follows."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    # Read by streams

    async def wait(self, after: int) -> None:
        """Wait until there is a decision after a number, or none will follow."""
        while self.last <= after and not self.is_over:
            await self._news.wait()

    def after(self, seq: int) -> DecisionBlock | None:
        """Return the block with the decision after a number; None if there is none in memory."""
        if not self.first <= seq + 1 <= self.last:
            return None
        low, high = 0, len(self._blocks) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._blocks[middle].first <= seq + 1:
                low = middle
            else:
                high = middle - 1
        return self._blocks[low]


_AT_ONCE: Final = 2_000
"""After how many decisions a read ends."""


@final
class DecisionsRemovedError(Exception):
    """The requested decisions are not kept any more.

    Args:
        first: The number of the first decision that there is.
    """

    def __init__(self, first: int) -> None:
        super().__init__(f"the decisions before {first} are not kept any more")
        self.first = first


# STREAM-2
@final
class StoredDecisions:
    """Reads the decisions of a state directory in order, in a thread and in pieces.

    Args:
        directory: The state directory.
        limiter: Limits how many threads read at the same time.
    """

    def __init__(self, directory: Path, limiter: trio.CapacityLimiter) -> None:
        self._directory = directory
        self._limiter = limiter
        self._reader: StateReader | None = None
        #: The decisions that were read, and not taken yet.
        self._read: deque[DecisionBlock] = deque()

    async def first(self) -> int:
        """Return the number of the first decision that is kept.

        Raises:
            StoreError: If the store cannot be read.
        """
        return await trio.to_thread.run_sync(self._first, limiter=self._limiter)

    async def after(self, seq: int, until_batch: int) -> DecisionBlock | None:
        """Return the decisions after a number, which is that of the last one that was taken.

        Args:
            seq: The number.
            until_batch: The last batch to read.

        Returns:
            A block in which the next one is; None if there is none up to that batch.

        Raises:
            DecisionsRemovedError: If some of them are not kept any more.
            StoreError: If the store cannot be read.
        """
        while self._read and self._read[0].last <= seq:
            self._read.popleft()
        if not self._read:
            found = await trio.to_thread.run_sync(
                self._blocks, seq, until_batch, limiter=self._limiter
            )
            self._read.extend(found)
        return self._read[0] if self._read else None

    def close(self) -> None:
        """Close the store."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # In a thread

    def _open_reader(self) -> StateReader:
        if self._reader is None:
            self._reader = StateReader(self._directory)
        return self._reader

    def _first(self) -> int:
        reader = self._open_reader()
        reader.batch_before_seq(1)  # looks at the file, so that `meta` is what holds now
        return reader.meta.anchor.seq + 1

    def _blocks(self, seq: int, until_batch: int) -> list[DecisionBlock]:
        reader = self._open_reader()
        before = reader.batch_before_seq(seq + 1)
        if reader.meta.anchor.seq > seq:
            raise DecisionsRemovedError(reader.meta.anchor.seq + 1)
        found: list[DecisionBlock] = []
        try:
            for batch in reader.batches(before, until_batch, verify=False):
                found.extend(_after(batch, seq))
                if sum(map(len, found)) >= _AT_ONCE:
                    break
        except StoreError:
            if self._first() > seq + 1:  # They were removed since.
                raise DecisionsRemovedError(reader.meta.anchor.seq + 1) from None
            raise
        for block in found:
            _ = block.lines  # encoded here, not in the service's loop
        return found


def _after(batch: KeptBatch, seq: int) -> Iterator[DecisionBlock]:
    """Yield the decisions of a batch after a number, in blocks."""
    if batch.last_seq > seq:
        decisions = batch.decisions
        yield from map(DecisionBlock, slices(decisions[max(0, seq + 1 - batch.first_seq) :]))


@final
class LaggingError(Exception):
    """A stream has read so slowly that what follows is not in memory any more."""


# STREAM-2, STREAM-6
@final
class Cursor:
    """Goes through the decisions after a number, each once and in order; a context manager.

    What is not in memory comes from the store.

    Args:
        tail: The latest decisions.
        history: The store, or None without one.
        after: The number of the decision before the first one.
        lags: Whether it does not go back to the store when it has once read from memory: a stream
            that reads so slowly is to begin again.

    Attributes:
        position: The number of the last decision that was passed.
    """

    def __init__(
        self, tail: DecisionTail, history: StoredDecisions | None, after: int, *, lags: bool = False
    ) -> None:
        self._tail: Final = tail
        self._history: Final = history
        self._lags: Final = lags
        self._is_live = False
        self.position = after

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._history is not None:
            self._history.close()

    @property
    def is_at_end(self) -> bool:
        """Whether every decision that was announced was passed."""
        return self.position >= self._tail.last

    async def next(self) -> DecisionBlock | None:
        """Return a block in which the next decision is; None if none was announced yet.

        The caller sets :attr:`position` to what it has passed of it.

        Raises:
            DecisionsRemovedError: If the next decision is not kept any more.
            LaggingError: If it is not in memory any more, and this cursor lags.
            StoreError: If the store cannot be read.
        """
        if self.is_at_end:
            return None
        found = self._tail.after(self.position)
        if found is not None:
            self._is_live = True
            await trio.lowlevel.checkpoint()  # To encode a block takes a moment.
            return found
        if self._is_live and self._lags:
            raise LaggingError
        if self._history is None:
            raise DecisionsRemovedError(self._tail.first)
        return await self._history.after(self.position, self._tail.batch)


MOST_OF_SUBJECT: Final = 200
"""How many decisions about one subject are cached; the oldest go first."""

_SUBJECTS: Final = 64
"""For how many subjects decisions are cached; the least recently used go first."""

Test = Callable[[Announced], bool]
"""Returns whether a decision is about the subject."""


@final
class _SubjectEntry:
    """The cached decisions about one subject."""

    def __init__(self, position: int) -> None:
        self.first = position + 1
        self.position = position
        self.found: deque[Announced] = deque(maxlen=MOST_OF_SUBJECT)


# PAGE-44
@final
class SubjectDecisions:
    """A cache of the decisions in memory about the subjects of open pages.

    An open page repeats its request, and then only the decisions since the last one are searched.
    """

    def __init__(self) -> None:
        self._by_subject: OrderedDict[tuple[str, ...], _SubjectEntry] = OrderedDict()

    async def about(
        self, tail: DecisionTail, subject: tuple[str, ...], matches: Test
    ) -> tuple[list[Announced], int]:
        """Return the latest decisions in memory about a subject, and where they begin.

        Args:
            tail: The latest decisions.
            subject: The subject; its kind comes first.
            matches: Returns whether a decision is about it.

        Returns:
            The decisions, oldest first, :data:`MOST_OF_SUBJECT` at most; and the number of the first decision
            since which all of them are there.
        """
        finding = self._by_subject.get(subject)
        if finding is None or finding.position + 1 < tail.first:
            finding = self._by_subject[subject] = _SubjectEntry(tail.first - 1)
            while len(self._by_subject) > _SUBJECTS:
                self._by_subject.popitem(last=False)
        self._by_subject.move_to_end(subject)
        while (block := tail.after(finding.position)) is not None:
            begin = finding.position + 1 - block.first
            finding.found.extend(filter(matches, block.announced[begin:]))
            finding.position = block.last
            await trio.lowlevel.checkpoint()
        found = list(finding.found)
        return found, found[0].seq if len(found) == MOST_OF_SUBJECT else finding.first
