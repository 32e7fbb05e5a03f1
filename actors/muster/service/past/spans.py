"""The kept history: its extent, what happened in a span, and when objects came and went."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from threading import Event as Flag
from typing import Final, final

import attrs

from muster._runtime.observers import Filter
from muster.service.input.configuration import difference_of
from muster.service.input.dry_runs import ClientGoneError
from muster.store import KeptBatch, StateReader
from muster.store._codec import tag_of
from muster_core import events
from muster_core.config.model import Configuration, QueueConfig
from muster_core.decisions import EVICTIONS, Announced, Kind, Reason
from muster_core.events import AddNode, Delete, Event, ObjectKind, RemoveNode


@final
class AcceptedEvents:
    """Finds the events of a batch that were not refused.

    A refusal names its event by its index among all that were let in. That index is counted back
    from a batch for which it is known.

    Args:
        reader: The state directory.
        entered: The number of a batch that is not before those that are looked at, and how many
            events were let in until then.
    """

    def __init__(self, reader: StateReader, entered: tuple[int, int]) -> None:
        self._reader = reader
        self._entered = entered

    def index_of(self, batch: KeptBatch) -> int:
        """Return the index of the first event of a batch among all that were let in."""
        number, count = self._entered
        return count - self._reader.event_count(batch.number - 1, number)

    def events(self, batch: KeptBatch) -> list[events.Event]:
        """Return the events of a batch that were not refused, in order."""
        kinds = (one.decision for one in batch.decisions)
        refused = {decision.index for decision in kinds if decision.kind is Kind.REJECTED}
        if not refused:
            return [*batch.events]
        first = self.index_of(batch)
        return [one for index, one in enumerate(batch.events, first) if index not in refused]


CONFIGURES: Final = tag_of(events.Configure).encode()
"""The bytes that are in each batch with an event that has a configuration."""

_WINDOW: Final = 2_000
"""How many batches are read at once on the way back to the configuration before the first one."""

_FAR: Final = 50_000
"""How many batches are read at most on this way."""


@final
@attrs.frozen
class ConfigChange:
    """A configuration that came into force.

    Attributes:
        at_us: When, in microseconds since the origin.
        difference: How it differs from the one before, as :func:`difference_of` has it; None if
            that one is not known.
        is_first: Whether there was none before.
    """

    at_us: int
    difference: Mapping[str, object] | None
    is_first: bool


# PAGE-65
@final
class ConfigChanges:
    """Collects the configurations of a span.

    Args:
        reader: The state directory.
        accepted: Knows the index of each event.
        most: Of how many it is said how they differ, the first ones.
    """

    def __init__(self, reader: StateReader, accepted: AcceptedEvents, most: int) -> None:
        self._reader = reader
        self._accepted = accepted
        self._most = most
        self._found: list[tuple[int, int, Configuration]] = []

    def take(self, batch: KeptBatch) -> None:
        """Note the configurations of a batch that came into force."""
        for configuration in self._in_force(batch):
            if len(self._found) < self._most:
                self._found.append((batch.number, batch.at_us, configuration))

    def _in_force(self, batch: KeptBatch) -> Iterator[Configuration]:
        """Yield the configurations that came into force in a batch."""
        if CONFIGURES not in batch.packed_events:
            return
        first = self._accepted.index_of(batch)
        for one in batch.decisions:
            if one.decision.kind is Kind.CONFIG and one.decision.index is not None:
                event = batch.events[one.decision.index - first]
                assert isinstance(event, events.Configure), "another event has configured"
                yield event.config

    def end(self) -> Sequence[ConfigChange]:
        """Return the changes, the first one first."""
        if not self._found:
            return ()
        before, is_first = self._before(self._found[0][0])
        changes: list[ConfigChange] = []
        for _, at_us, after in self._found:
            difference = None if before is None else difference_of(before, after)
            changes.append(ConfigChange(at_us, difference, is_first))
            before, is_first = after, False
        return changes

    def _before(self, number: int) -> tuple[Configuration | None, bool]:
        """Return the configuration before that of a batch, and whether there was none."""
        reader = self._reader
        anchor, end = reader.meta.anchor.batch, number - 1
        while end > anchor and number - end <= _FAR:
            begin = max(end - _WINDOW, anchor)
            batches = reader.batches(after=begin, until=end, verify=False)
            found = [one for batch in batches for one in self._in_force(batch)]
            if found:
                return found[-1], False
            end = begin
        return None, end <= anchor == 0


_FAR_EACH_WAY: Final = 100_000
"""How many batches are looked at in each direction."""


@final
class PastKind(StrEnum):
    """The kind of an object."""

    ASK = "ask"
    APP = "application"
    GANG = "gang"
    NODE = "node"
    QUEUE = "queue"


@final
@attrs.frozen
class PastObject:
    """An object that comes and goes.

    Attributes:
        sort: Its kind.
        name: Its name; of a gang its full name, and of a queue its path.
        app: The application of an ask; empty for others.
    """

    sort: PastKind
    name: str
    app: str = ""

    @property
    def needle(self) -> bytes:
        """What is written in each event that brings it or takes it away, but configurations."""
        match self.sort:
            case PastKind.ASK:
                return self.app.encode()
            case PastKind.GANG:
                return self.name.rpartition("/")[2].encode()
            case PastKind.QUEUE:
                return self.name.rpartition(".")[2].encode()
            case PastKind.APP | PastKind.NODE:
                return self.name.encode()

    def is_added_by(self, event: events.Event) -> bool:
        """Return whether it exists after an event that was let in."""
        match event:
            case events.AddNode(node=node):
                return self.sort is PastKind.NODE and node == self.name
            case events.AddApp(app=app, queue=queue):
                return self._is_app(app) or self._is_queue(queue)
            case events.AddAsk():
                return self._is_added_with(event)
            case events.AddGang(gang=gang):
                return self._is_gang(gang)
            case events.Configure(config=config):
                return self.sort is PastKind.QUEUE and _has(config.root, self.name)
            case events.Apply(objects=manifests):
                return any(self._is_applied(one.content) for one in manifests)
            case _:
                return False

    def is_removed_by(self, event: events.Event) -> bool:
        """Return whether it does not exist after an event that was let in.

        Only nodes and queues are searched for: other objects that are over still have their pages.
        """
        match event:
            case events.RemoveNode(node=node):
                return self.sort is PastKind.NODE and node == self.name
            case events.Configure(config=config):
                return self.sort is PastKind.QUEUE and not _has(config.root, self.name)
            case events.Delete(objects=manifests):
                names = [
                    one.content.name
                    for one in manifests
                    if one.content.kind is events.ObjectKind.NODE
                ]
                return self.sort is PastKind.NODE and self.name in names
            case _:
                return False

    def _is_app(self, app: str) -> bool:
        return self.sort is PastKind.APP and app == self.name

    def _is_gang(self, gang: str | None) -> bool:
        return self.sort is PastKind.GANG and gang == self.name

    def _is_queue(self, path: str | None) -> bool:
        """Return whether a path is its path, or that of a queue below it."""
        written = "" if path is None else f"{path.lower()}."
        return self.sort is PastKind.QUEUE and written.startswith(f"{self.name}.")

    def _is_added_with(self, event: events.AddAsk) -> bool:
        if self.sort is PastKind.ASK:
            return event.app == self.app and self.name in event.names()
        return self._is_gang(event.gang)

    def _is_applied(self, content: events.AppliedObject) -> bool:
        match content:
            case events.NodeObject(node=node):
                return self.sort is PastKind.NODE and node == self.name
            case events.PodObject(app=app, name=name, queue=queue, ask=ask):
                is_ask = self.sort is PastKind.ASK and (app, name) == (self.app, self.name)
                in_gang = ask is not None and self._is_gang(ask.gang)
                return is_ask or in_gang or self._is_app(app) or self._is_queue(queue)
            case events.AddGang(gang=gang):
                return self._is_gang(gang)
            case events.QueueObject(name=name):
                return self.sort is PastKind.QUEUE and self.name.rpartition(".")[2] == name.lower()
            case _:
                return False


@final
@attrs.frozen
class Existence:
    """When an object existed that does not exist at an instant.

    Attributes:
        came_us: When it came afterwards, in microseconds since the origin; None if it did not, or
            only very much later.
        gone_us: When it went before, likewise; None if it did not, or very much earlier.
    """

    came_us: int | None
    gone_us: int | None


# PAGE-69
def existence_of(
    directory: Path, thing: PastObject, at_us: int, entered: tuple[int, int], gone: Flag
) -> Existence:
    """Return when an object existed that does not exist at an instant.

    Args:
        directory: The state directory.
        thing: The object.
        at_us: The instant, in microseconds since the origin.
        entered: The last batch, and how many events were let in until then.
        gone: Set when the client has gone.

    Raises:
        StoreError: If the directory cannot be read.
        ClientGoneError: If the client has gone.
    """
    with StateReader(directory) as reader:
        context = _ExistenceSearch(reader, thing, AcceptedEvents(reader, entered), gone)
        batch_number, last = reader.batch_at(at_us), entered[0]
        return Existence(context.forward(batch_number, last), context.back(batch_number))


@final
@attrs.frozen
class _ExistenceSearch:
    reader: StateReader
    thing: PastObject
    accepted: AcceptedEvents
    gone: Flag

    def _events(self, after: int, until: int) -> Iterator[tuple[KeptBatch, events.Event]]:
        """Yield the events that may be about the object, each with its batch."""
        tags = [self.thing.needle]
        if self.thing.sort is PastKind.QUEUE:
            tags.append(CONFIGURES)
        for batch in self.reader.batches(after=after, until=until, verify=False):
            if self.gone.is_set():
                raise ClientGoneError
            if any(tag in batch.packed_events for tag in tags):
                for event in self.accepted.events(batch):
                    yield batch, event

    def forward(self, batch_number: int, last: int) -> int | None:
        """Return when it comes first after a batch."""
        found = self._events(batch_number, min(last, batch_number + _FAR_EACH_WAY))
        return next((batch.at_us for batch, event in found if self.thing.is_added_by(event)), None)

    def back(self, batch_number: int) -> int | None:
        """Return when it went last until a batch, if it was there before."""
        anchor, end = self.reader.meta.anchor.batch, batch_number
        went_us: int | None = None
        while end > anchor and batch_number - end < _FAR_EACH_WAY:
            begin = max(end - _WINDOW, anchor)
            for batch, event in reversed([*self._events(begin, end)]):
                # A configuration without a queue says that it went only if it was there before.
                if self.thing.is_added_by(event):
                    return went_us
                if self.thing.is_removed_by(event):
                    went_us = batch.at_us
                    if self.thing.sort is PastKind.NODE:
                        return went_us
            end = begin
        return None


def _has(queue: QueueConfig, path: str) -> bool:
    return queue.path == path or any(_has(child, path) for child in queue.children)


BUCKETS: Final = 120
"""Into how many spans the history is divided to show where decisions were many."""


@final
@attrs.frozen
class HistoryExtent:
    """The extent of the kept history.

    Attributes:
        first: The first batch whose state can be made again.
        first_us: Its instant, in microseconds since the origin.
        last: The last batch.
        last_us: Its instant.
        per_bucket: How many decisions each of :data:`BUCKETS` equal spans in between has.
    """

    first: int
    first_us: int
    last: int
    last_us: int
    per_bucket: Sequence[int]


def history_extent(directory: Path) -> HistoryExtent | None:
    """Return the extent of the history in a state directory; None if it has no batch.

    Raises:
        StoreError: If it cannot be read.
    """
    with StateReader(directory) as reader:
        first = _first_batch(reader)
        if first is None:
            return None
        (begin,) = reader.places([first])
        end = reader.last()
        span_us = end.at_us - begin.at_us
        ends_us = [begin.at_us + span_us * n // BUCKETS for n in range(1, BUCKETS + 1)]
        places = [begin, *reader.places_at(ends_us)]
        counts = [two.seq - one.seq for one, two in pairwise(places)]
        return HistoryExtent(begin.batch, begin.at_us, end.batch, end.at_us, counts)


def _first_batch(reader: StateReader) -> int | None:
    """Return the first batch whose state can be made again."""
    anchor, last = reader.meta.anchor, reader.last().batch
    if not anchor.batch:
        return 1 if last else None
    # The first batches were removed: what is left begins with a checkpoint.
    whole = [one.batch for one in reader.checkpoints() if one.complete]
    return next((batch for batch in whole if batch >= anchor.batch), None)


def adjacent_instant(reader: StateReader, at_us: int, by: int) -> int | None:
    """Return the instant of the batch before or after those of an instant.

    Args:
        reader: The state directory.
        at_us: The instant, in microseconds since the origin.
        by: -1 for the one before, 1 for the one after.

    Returns:
        Its instant; None if there is none, or its state cannot be made again.

    Raises:
        StoreError: If the directory cannot be read.
    """
    number = reader.batch_at(at_us)
    if by < 0:
        # Several batches may have the same instant, and are looked at together.
        (place,) = reader.places([number])
        number = reader.batch_at(place.at_us - 1)
        first = _first_batch(reader)
        if first is None or number < first:
            return None
    elif number >= reader.last().batch:
        return None
    else:
        number += 1
    (found,) = reader.places([number])
    return found.at_us


MOST: Final = 500_000
"""How many decisions are looked at for one span."""

NAMED: Final = 20
"""How many nodes, gangs and configurations of a span are named."""
_RARE: Final = (b"_node", b"delete")
"""The bytes that are in each batch with an event that the summary names."""


@final
@attrs.frozen
class NamedItems:
    """Things of a span: how many there were, and the first ones.

    Attributes:
        count: How many there were.
        first: The first ones: each with its instant in microseconds since the origin.
    """

    count: int
    first: Sequence[tuple[int, str]]


@final
@attrs.frozen
class SpanSummary:
    """What happened in a span.

    Attributes:
        batches: How many batches it has.
        events: How many events were let in.
        kinds: How many decisions of each kind, those that the filter admits.
        reasons: How many releases for each reason, likewise.
        bound: How many asks of which application were bound, likewise.
        states: How many applications entered which state, likewise.
        evictions: The first asks that were evicted, likewise.
        refusals: The first events that were refused, likewise.
        came: The nodes that were added.
        went: The nodes that were removed.
        gangs: The gangs that timed out.
        configurations: The configurations that came into force.
        changes: The first ones of them, with how each differs from the one before.
        until_us: The instant up to which it was looked at, if the span has too many decisions.
        decisions: A page of the decisions that the filter admits.
        more: The number of the last decision of the page if there are more, or None.
    """

    batches: int
    events: int
    kinds: Counter[Kind]
    reasons: Counter[Reason]
    bound: Counter[str]
    states: Counter[str]
    evictions: Sequence[Announced]
    refusals: Sequence[Announced]
    came: NamedItems
    went: NamedItems
    gangs: NamedItems
    configurations: NamedItems
    changes: Sequence[ConfigChange]
    until_us: int | None
    decisions: Sequence[Announced]
    more: int | None

    @property
    def evicted(self) -> int:
        """How many asks were evicted."""
        return sum(self.reasons[reason] for reason in EVICTIONS)


@final
@attrs.frozen
class Span:
    """A span of the history, and what of it is wanted.

    Attributes:
        from_us: Its first instant, in microseconds since the origin.
        until_us: Its last instant.
        filter: Which decisions.
        after: The number of the decision behind which the page begins; 0 for the first one.
        limit: How many decisions a page has.
        entered: The number of a batch that is not before the span, and how many events were let
            in until then.
    """

    from_us: int
    until_us: int
    filter: Filter
    after: int
    limit: int
    entered: tuple[int, int]


# PAGE-65
def summarize_span(directory: Path, span: Span, gone: Flag) -> SpanSummary:
    """Return what happened in a span.

    Args:
        directory: The state directory.
        span: The span.
        gone: Set when the client has gone.

    Raises:
        StoreError: If the directory cannot be read.
        ClientGoneError: If the client has gone.
    """
    with StateReader(directory) as reader:
        counting = _SpanCounts(span, reader)
        before, last = reader.places_at([span.from_us - 1, span.until_us])
        most = before.seq + MOST
        for batch in reader.batches(after=before.batch, until=last.batch, verify=False):
            if gone.is_set():
                raise ClientGoneError
            counting.take(batch)
            time.sleep(0)  # Lets the service's own thread run.
            if batch.last_seq > most and batch.number < last.batch:
                return counting.end(batch.at_us)
    return counting.end(None)


@final
class _NameList:
    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[int, str]] = []

    def add(self, at_us: int, name: str) -> None:
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append((at_us, name))

    def end(self) -> NamedItems:
        return NamedItems(self.count, self.first)


@final
class _SpanCounts:
    """What was counted so far."""

    def __init__(self, span: Span, reader: StateReader) -> None:
        self._span = span
        self._accepted = AcceptedEvents(reader, span.entered)
        self._batches = self._events = 0
        self._kinds: Counter[Kind] = Counter()
        self._reasons: Counter[Reason] = Counter()
        self._bound, self._states = Counter[str](), Counter[str]()
        self._evictions: list[Announced] = []
        self._refusals: list[Announced] = []
        self._changes = ConfigChanges(reader, self._accepted, NAMED)
        self._came, self._went, self._gangs, self._configured = (_NameList() for _ in range(4))
        self._page: list[Announced] = []
        self._is_more = False

    def take(self, batch: KeptBatch) -> None:
        """Count a batch."""
        decisions = batch.decisions
        self._batches += 1
        self._events += batch.event_count
        if any(tag in batch.packed_events for tag in _RARE):
            for event in self._accepted.events(batch):
                self._take_event(batch.at_us, event)
        for one in decisions:
            if one.decision.kind is Kind.GANG_TIMED_OUT:
                self._gangs.add(one.at_us, one.decision.gang or "")
            elif one.decision.kind is Kind.CONFIG:
                self._configured.add(one.at_us, "")
        self._changes.take(batch)
        self._count([one for one in decisions if self._span.filter.wants(one)])

    def _take_event(self, at_us: int, event: Event) -> None:
        match event:
            case AddNode(node=node):
                self._came.add(at_us, node)
            case RemoveNode(node=node):
                self._went.add(at_us, node)
            case Delete(objects=manifests):
                for one in manifests:
                    if one.content.kind is ObjectKind.NODE:
                        self._went.add(at_us, one.content.name)
            case _:
                pass

    def _count(self, chosen: Sequence[Announced]) -> None:
        span = self._span
        for one in chosen:
            decision = one.decision
            self._kinds[decision.kind] += 1
            if decision.reason is not None:
                self._reasons[decision.reason] += 1
            self._note(one)
        if self._is_more or (chosen and chosen[-1].seq <= span.after):
            return
        rest = [one for one in chosen if one.seq > span.after]
        room = span.limit - len(self._page)
        self._page += rest[:room]
        self._is_more = len(rest) > room

    def _note(self, one: Announced) -> None:
        """Note what the summary says of a decision."""
        decision = one.decision
        if decision.kind is Kind.BOUND:
            self._bound[decision.app or ""] += 1
        elif decision.kind is Kind.APP_STATE:
            self._states[decision.state or ""] += 1
        elif decision.kind is Kind.REJECTED and len(self._refusals) < NAMED:
            self._refusals.append(one)
        elif decision.reason in EVICTIONS and len(self._evictions) < NAMED:
            self._evictions.append(one)

    def end(self, until_us: int | None) -> SpanSummary:
        """Return what was counted."""
        return SpanSummary(
            batches=self._batches,
            events=self._events,
            kinds=self._kinds,
            reasons=self._reasons,
            bound=self._bound,
            states=self._states,
            evictions=self._evictions,
            refusals=self._refusals,
            came=self._came.end(),
            went=self._went.end(),
            gangs=self._gangs.end(),
            configurations=self._configured.end(),
            changes=self._changes.end(),
            until_us=until_us,
            decisions=self._page,
            more=self._page[-1].seq if self._is_more else None,
        )
