"""Writing the events of a state directory, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, final

import attrs

from muster.export._expecting import happened, state
from muster.export._preamble import Preamble, preamble_of
from muster.feeds import Encoding, FeedError, KeptFeed, Output
from muster.feeds._convert import target_encoding_of
from muster.feeds._encodings.encode import Encoder
from muster.feeds._encodings.target import Target
from muster.feeds._written.amounts import Written, duration
from muster.feeds._written.events import written_and_read
from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Announced, Decision, Kind

if TYPE_CHECKING:
    from muster.store import KeptBatch

_REJECTED = Kind.REJECTED
_WARNING = Kind.WARNING
"""A configuration may warn of fields without effect, which are not written."""


@final
@attrs.frozen
class Exported:
    """What was written.

    Attributes:
        events: How many events.
        notes: What the feed does not say as it was, in sentences for a person.
    """

    events: int
    notes: tuple[str, ...]


# COMMAND-13, COMMAND-14
def export(
    directory: str | PathLike[str],
    target: Target,
    *,
    since_us: int | None = None,
    until_us: int | None = None,
    expects: bool = False,
    encoding: Encoding | None = None,
) -> Exported:
    """Write what a state directory holds as a feed.

    Args:
        directory: The state directory.
        target: A path, ``-`` for standard output, or a stream of bytes. A name that ends in
            ``.gz`` is compressed.
        since_us: The instant at which to begin, in microseconds since the origin; None for the
            earliest.
        until_us: The last instant, likewise; None for all batches.
        expects: Whether what happened is written, too, as ``expect`` after each batch.
        encoding: The encoding to write; None to take it from the name of the target, or JSON
            Lines if the target has no name.

    Raises:
        FeedError: If the directory cannot be read, what it holds cannot be said in a feed, or the
            target cannot be written. An existing file is then unchanged.
    """
    encoder = Encoder(encoding or target_encoding_of(target))
    _check_apart(Path(directory), target)
    with KeptFeed(directory, since_us=since_us, until_us=until_us) as feed:
        writing = _Writing(feed, expects=expects)
        events = writing.events()
        first = next(events, None)  # before the target is opened
        count = 0
        with Output(target, whole=True) as output:
            for event in () if first is None else chain([first], events):
                output.write(encoder.event(event))
                count += 1
            output.write(encoder.end())
    return Exported(count, tuple(writing.notes))


def _check_apart(directory: Path, target: Target) -> None:
    if isinstance(target, (str, PathLike)) and target != "-":
        path = Path(target)
        if path.resolve().parent == directory.resolve():
            raise FeedError(str(path), "is in the state directory: write to another folder")


@final
class _Writing:
    """Writes one feed.

    Args:
        feed: The state directory.
        expects: Whether to write what happened.

    Attributes:
        notes: What the feed does not say as it was.
    """

    def __init__(self, feed: KeptFeed, *, expects: bool) -> None:
        self.notes: list[str] = []
        self._feed = feed
        #: Decides again what is written, and so makes sure that it happens again; None if
        #: nobody expects anything.
        self._scheduler = PlainScheduler() if expects else None
        self._at_us = 0
        self._index = 0

    def events(self) -> Iterator[Written]:
        """Yield the events."""
        if self._feed.facts is not None:
            yield from self._begin(preamble_of(self._feed.facts))
        last_us = self._at_us
        for batch, following in pairwise(chain(self._feed.batches(), [None])):
            assert batch is not None, "a batch after the last one"
            at_once = following is not None and following.at_us == batch.at_us
            yield from self._batch(batch, must_close=at_once)
            last_us = batch.at_us  # A timer may have done something that no event says.
        if self._scheduler is not None and self._scheduler.machine.batches:
            yield self._at({"op": "expect", **state(self._scheduler.snapshot())}, last_us)

    def _begin(self, preamble: Preamble) -> Iterator[Written]:
        """Yield the events that lead to the state with which the feed begins."""
        self.notes += preamble.notes
        for written in preamble.events:
            self._index += 1
            yield self._at(written, preamble.at_us)
        if self._scheduler is not None:
            self._scheduler = preamble.scheduler
            self._scheduler.announced = []
            yield self._at({"op": "expect", **state(self._scheduler.snapshot())}, preamble.at_us)
            self._index += 1

    def _at(self, written: Written, at_us: int) -> Written:
        """Return an event with its instant, if the event before it has another one."""
        if at_us == self._at_us:
            return written
        self._at_us = at_us
        op, *others = written.items()
        return dict([op, ("at", duration(at_us)), *others])

    def _batch(self, batch: KeptBatch, *, must_close: bool) -> Iterator[Written]:
        """Yield the events of a batch, and what closes it where time alone does not."""
        for event in batch.events:
            try:
                written, read = written_and_read(event)
            except ValueError as error:
                what = f"batch {batch.number}: no feed can say {type(event).__name__}: {error}"
                raise FeedError(str(self._feed.path), what) from error
            if self._scheduler is not None:
                self._scheduler.submit(read, batch.at_us, self._index)
            self._index += 1
            yield self._at(written, batch.at_us)
        expected = self._expected(batch)
        if expected is not None and (batch.events or must_close or len(expected) > 1):
            yield self._at({"op": "expect", **expected}, batch.at_us)
        elif must_close:
            yield self._at({"op": "settle"}, batch.at_us)
        else:
            return
        self._index += 1

    def _expected(self, batch: KeptBatch) -> Written | None:
        """Return what happened in a batch; None if nobody wants to know, or it is not known."""
        scheduler = self._scheduler
        if scheduler is None:
            return None
        scheduler.settle(batch.at_us)
        announced, scheduler.announced = scheduler.announced, []
        if _alike(announced) != _alike(batch.decisions):
            self._scheduler = None
            self.notes.append(
                f"batch {batch.number} decides otherwise from what the feed says than it did: "
                "from there on nothing is expected"
            )
            return None
        return happened(announced)


def _alike(batch: Sequence[Announced]) -> list[tuple[int, Decision]]:
    """Return decisions without what depends on how the events before were written."""
    kept = (one for one in batch if one.decision.kind is not _WARNING)
    return [(one.at_us, _plain(one.decision)) for one in kept]


def _plain(decision: Decision) -> Decision:
    if decision.index is None:
        return decision
    message = None if decision.kind is _REJECTED else decision.message
    return attrs.evolve(decision, index=None, line=None, message=message)
