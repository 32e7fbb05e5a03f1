"""The events of a state directory as a feed, batch by batch.

What happened in a batch, and the state after it, become fields of ``expect``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, final

import attrs

from muster.export._preamble import Preamble, preamble_of
from muster.feeds import Encoding, FeedError, KeptFeed, Output, Raw
from muster.feeds._configuration import without_missing
from muster.feeds._encodings import Encoder
from muster.feeds._files import Target
from muster.feeds._kinds import EventFields, write_amounts, write_duration
from muster.feeds._output import target_encoding_of, write_and_read
from muster.replay._check import DecisionRecord
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Decision, Kind
from muster_core.resources import MAX_QUANTITY, Resources
from muster_core.snapshots import AskPlace, Snapshot

if TYPE_CHECKING:
    from muster.store import KeptBatch


# COMMAND-13
def happened(batch: Sequence[Announced]) -> EventFields:
    """Return the decisions of a batch as fields: ``order`` always, the others if they are not empty.

    Args:
        batch: Its decisions.
    """
    record = DecisionRecord()
    record.write(batch)
    written: EventFields = {"order": [*record.bound]}
    placed = _placed(batch)
    if placed:
        written["placed"] = placed
    return written | without_missing(
        {
            "preempted": [*record.preempted],
            "reclaimed": [*record.reclaimed],
            "rejected": [refusal.message for refusal in record.refusals],
            "warnings": [*record.warnings],
        }
    )


def _placed(batch: Sequence[Announced]) -> EventFields:
    """Return the nodes of the asks that got one and still have it at the end of the batch."""
    nodes: EventFields = {}
    for announced in batch:
        decision = announced.decision
        name = f"{decision.app}/{decision.ask}"
        if decision.kind is Kind.BOUND or decision.kind is Kind.WAITING:
            nodes[name] = decision.node
        elif decision.kind is Kind.RELEASED:
            nodes.pop(name, None)
    return nodes


def state(snapshot: Snapshot) -> EventFields:
    """Return the whole state that ``expect`` can name."""
    places: dict[str, list[str]] = {place.value: [] for place in AskPlace}
    placed: EventFields = {}
    for app in snapshot.apps.values():
        for ask in app.asks:
            name = f"{app.name}/{ask.name}"
            places[str(ask.place)].append(name)
            if ask.node is not None:
                placed[name] = ask.node
    written: EventFields = {place: [*names] for place, names in places.items()}
    if placed:
        written["placed"] = placed
    written["queues"] = {
        path: {
            "priority": queue.priority,
            **_summed("allocated", queue.allocated),
            **_summed("pending", queue.pending),
            "state": "draining" if queue.draining else "active",
        }
        for path, queue in snapshot.queues.items()
    }
    apps: dict[str, Raw] = {
        app.name: {"state": str(app.state), "priority": app.priority}
        for app in snapshot.apps.values()
    }
    gangs: dict[str, Raw] = {
        gang.name: {
            "waiting": len(gang.waiting),
            "bound": len(gang.bound),
            "satisfied": gang.satisfied,
            "timed_out": gang.timed_out,
        }
        for gang in snapshot.gangs.values()
    }
    return written | without_missing({"apps": apps, "gangs": gangs})


def _summed(field: str, sums: Mapping[str, int]) -> EventFields:
    """Return a field with sums; nothing if one is larger than any quantity of a feed."""
    if max(sums.values(), default=0) > MAX_QUANTITY:
        return {}
    return {field: write_amounts(Resources(dict(sums)))}


_REJECTED = Kind.REJECTED
_WARNING = Kind.WARNING
"""A configuration may warn of fields without effect, which are not written."""


@final
@attrs.frozen
class Exported:
    """The result of an export.

    Attributes:
        events: How many events.
        notes: The differences of the feed, in sentences for a person.
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
    """Write the content of a state directory as a feed.

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
        FeedError: If the directory cannot be read, a feed cannot have its content, or the
            target cannot be written. An existing file is then unchanged.
    """
    encoder = Encoder(encoding or target_encoding_of(target))
    _check_apart(Path(directory), target)
    with KeptFeed(directory, since_us=since_us, until_us=until_us) as feed:
        writing = _FeedWriter(feed, expects=expects)
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
class _FeedWriter:
    """Writes one feed.

    Args:
        feed: The state directory.
        expects: Whether to write the results.

    Attributes:
        notes: The differences of the feed.
    """

    def __init__(self, feed: KeptFeed, *, expects: bool) -> None:
        self.notes: list[str] = []
        self._feed = feed
        #: Decides again what is written, and so makes sure that it happens again; None if
        #: no results are written.
        self._scheduler = PlainScheduler() if expects else None
        self._at_us = 0
        self._index = 0

    def events(self) -> Iterator[EventFields]:
        """Yield the events."""
        if self._feed.facts is not None:
            yield from self._begin(preamble_of(self._feed.facts))
        last_us, is_closed = self._at_us, True
        for batch, following in pairwise(chain(self._feed.batches(), [None])):
            assert batch is not None, "a batch after the last one"
            at_once = following is not None and following.at_us == batch.at_us
            is_closed = yield from self._batch(batch, must_close=at_once)
            last_us = batch.at_us  # A timer may have done something that no event says.
        if self._scheduler is not None and self._scheduler.machine.batches:
            if is_closed:  # The `expect` makes one more batch, with the timers that are due.
                self._scheduler.settle(last_us)
            yield self._at({"op": "expect", **state(self._scheduler.snapshot())}, last_us)

    def _begin(self, preamble: Preamble) -> Iterator[EventFields]:
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

    def _at(self, written: EventFields, at_us: int) -> EventFields:
        """Return an event with its instant, if the event before it has another one."""
        if at_us == self._at_us:
            return written
        self._at_us = at_us
        op, *others = written.items()
        return dict([op, ("at", write_duration(at_us)), *others])

    def _batch(self, batch: KeptBatch, *, must_close: bool) -> Generator[EventFields, None, bool]:
        """Yield the events of a batch, and the event that closes it where time alone does not.

        Returns:
            Whether something closes it.
        """
        for event in batch.events:
            try:
                written, read = write_and_read(event)
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
            return False
        self._index += 1
        return True

    def _expected(self, batch: KeptBatch) -> EventFields | None:
        """Return what happened in a batch; None if that is not asked for, or not known."""
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
    return decision._replace(index=None, line=None, message=message)
