"""Kept events: those let in, the configurations, and when objects came and went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from threading import Event as Flag
from typing import Final, final

import attrs

from muster.service.input.configuration import difference_of
from muster.service.input.dry_runs import ClientGoneError
from muster.store import KeptBatch, StateReader
from muster.store._codec import tag_of
from muster_core import events
from muster_core.config.model import Configuration, QueueConfig
from muster_core.decisions import Kind


@final
class AcceptedEvents:
    """Finds the events of a batch that were not refused.

    A refusal names its event by its index among all that were let in, which is counted back from a
    batch of which it is known.

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
"""What is written in the batches that have an event with a configuration."""

_WINDOW: Final = 2_000
"""How many batches are read at once on the way back to the configuration before the first one."""

_FAR: Final = 50_000
"""How many batches are read at most on this way."""


@final
@attrs.frozen
class Change:
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
class Changes:
    """Collects the configurations of a span.

    Args:
        reader: The state directory.
        let_in: Knows the index of each event.
        most: Of how many it is said how they differ, the first ones.
    """

    def __init__(self, reader: StateReader, let_in: AcceptedEvents, most: int) -> None:
        self._reader = reader
        self._let_in = let_in
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
        first = self._let_in.index_of(batch)
        for one in batch.decisions:
            if one.decision.kind is Kind.CONFIG and one.decision.index is not None:
                event = batch.events[one.decision.index - first]
                assert isinstance(event, events.Configure), "another event has configured"
                yield event.config

    def end(self) -> Sequence[Change]:
        """Return the changes, the first one first."""
        if not self._found:
            return ()
        before, is_first = self._before(self._found[0][0])
        changes: list[Change] = []
        for _, at_us, after in self._found:
            difference = None if before is None else difference_of(before, after)
            changes.append(Change(at_us, difference, is_first))
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
    """What something is."""

    ASK = "ask"
    APP = "application"
    GANG = "gang"
    NODE = "node"
    QUEUE = "queue"


@final
@attrs.frozen
class PastObject:
    """Something that comes and goes.

    Attributes:
        sort: What it is.
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

    def comes(self, event: events.Event) -> bool:
        """Return whether it is there after an event that was let in."""
        match event:
            case events.AddNode(node=node):
                return self.sort is PastKind.NODE and node == self.name
            case events.AddApp(app=app, queue=queue):
                return self._is_app(app) or self._is_queue(queue)
            case events.AddAsk():
                return self._comes_with(event)
            case events.AddGang(gang=gang):
                return self._is_gang(gang)
            case events.Configure(config=config):
                return self.sort is PastKind.QUEUE and _has(config.root, self.name)
            case events.Apply(objects=manifests):
                return any(self._is_applied(one.content) for one in manifests)
            case _:
                return False

    def goes(self, event: events.Event) -> bool:
        """Return whether it is not there after an event that was let in.

        Only nodes and queues are asked for: what else is over still has its page.
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

    def _comes_with(self, event: events.AddAsk) -> bool:
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
    """When something that is not there at an instant was there.

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
    """Return when something was there that is not there at an instant.

    Args:
        directory: The state directory.
        thing: The thing.
        at_us: The instant, in microseconds since the origin.
        entered: The last batch, and how many events were let in until then.
        gone: Set when nobody waits for it any more.

    Raises:
        StoreError: If the directory cannot be read.
        GoneError: If nobody waits for it any more.
    """
    with StateReader(directory) as reader:
        looking = _ExistenceSearch(reader, thing, AcceptedEvents(reader, entered), gone)
        here, last = reader.batch_at(at_us), entered[0]
        return Existence(looking.forward(here, last), looking.back(here))


@final
@attrs.frozen
class _ExistenceSearch:
    reader: StateReader
    thing: PastObject
    let_in: AcceptedEvents
    gone: Flag

    def _events(self, after: int, until: int) -> Iterator[tuple[KeptBatch, events.Event]]:
        """Yield the events that may be about the thing, each with its batch."""
        tags = [self.thing.needle]
        if self.thing.sort is PastKind.QUEUE:
            tags.append(CONFIGURES)
        for batch in self.reader.batches(after=after, until=until, verify=False):
            if self.gone.is_set():
                raise ClientGoneError
            if any(tag in batch.packed_events for tag in tags):
                for event in self.let_in.events(batch):
                    yield batch, event

    def forward(self, here: int, last: int) -> int | None:
        """Return when it comes first after a batch."""
        found = self._events(here, min(last, here + _FAR_EACH_WAY))
        return next((batch.at_us for batch, event in found if self.thing.comes(event)), None)

    def back(self, here: int) -> int | None:
        """Return when it went last until a batch, if it was there before."""
        anchor, end = self.reader.meta.anchor.batch, here
        went_us: int | None = None
        while end > anchor and here - end < _FAR_EACH_WAY:
            begin = max(end - _WINDOW, anchor)
            for batch, event in reversed([*self._events(begin, end)]):
                # A configuration without a queue says that it went only if it was there before.
                if self.thing.comes(event):
                    return went_us
                if self.thing.goes(event):
                    went_us = batch.at_us
                    if self.thing.sort is PastKind.NODE:
                        return went_us
            end = begin
        return None


def _has(queue: QueueConfig, path: str) -> bool:
    return queue.path == path or any(_has(child, path) for child in queue.children)
