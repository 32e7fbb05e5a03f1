"""When something came, and when it went, as the kept events say it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.input.looking_back import GoneError
from muster.service.past.changes import CONFIGURES
from muster.service.past.let_in import LetIn
from muster.store import StateReader
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    Apply,
    Configure,
    Delete,
    NodeObject,
    ObjectKind,
    PodObject,
    QueueObject,
    RemoveNode,
)

if TYPE_CHECKING:
    from muster.store import KeptBatch
    from muster_core.config.model import QueueConfig
    from muster_core.events import AppliedObject, Event

_FAR: Final = 100_000
"""How many batches are looked at in each direction."""

_WINDOW: Final = 2_000
"""How many batches are read at once on the way back."""


@final
class Sort(StrEnum):
    """What something is."""

    ASK = "ask"
    APP = "application"
    GANG = "gang"
    NODE = "node"
    QUEUE = "queue"


@final
@attrs.frozen
class Thing:
    """Something that comes and goes.

    Attributes:
        sort: What it is.
        name: Its name; of a gang its full name, and of a queue its path.
        app: The application of an ask; empty for others.
    """

    sort: Sort
    name: str
    app: str = ""

    @property
    def needle(self) -> bytes:
        """What is written in each event that brings it or takes it away, but configurations."""
        match self.sort:
            case Sort.ASK:
                return self.app.encode()
            case Sort.GANG:
                return self.name.rpartition("/")[2].encode()
            case Sort.QUEUE:
                return self.name.rpartition(".")[2].encode()
            case Sort.APP | Sort.NODE:
                return self.name.encode()

    def comes(self, event: Event) -> bool:
        """Return whether it is there after an event that was let in."""
        match event:
            case AddNode(node=node):
                return self.sort is Sort.NODE and node == self.name
            case AddApp(app=app, queue=queue):
                return self._is_app(app) or self._is_queue(queue)
            case AddAsk():
                return self._comes_with(event)
            case AddGang(gang=gang):
                return self._is_gang(gang)
            case Configure(config=config):
                return self.sort is Sort.QUEUE and _has(config.root, self.name)
            case Apply(objects=manifests):
                return any(self._is_applied(one.content) for one in manifests)
            case _:
                return False

    def goes(self, event: Event) -> bool:
        """Return whether it is not there after an event that was let in.

        Only nodes and queues are asked for: what else is over still has its page.
        """
        match event:
            case RemoveNode(node=node):
                return self.sort is Sort.NODE and node == self.name
            case Configure(config=config):
                return self.sort is Sort.QUEUE and not _has(config.root, self.name)
            case Delete(objects=manifests):
                names = [one.content.name for one in manifests if one.content.kind is _NODE]
                return self.sort is Sort.NODE and self.name in names
            case _:
                return False

    def _is_app(self, app: str) -> bool:
        return self.sort is Sort.APP and app == self.name

    def _is_gang(self, gang: str | None) -> bool:
        return self.sort is Sort.GANG and gang == self.name

    def _is_queue(self, path: str | None) -> bool:
        """Return whether a path is its path, or that of a queue below it."""
        written = "" if path is None else f"{path.lower()}."
        return self.sort is Sort.QUEUE and written.startswith(f"{self.name}.")

    def _comes_with(self, event: AddAsk) -> bool:
        if self.sort is Sort.ASK:
            return event.app == self.app and self.name in event.names()
        return self._is_gang(event.gang)

    def _is_applied(self, content: AppliedObject) -> bool:
        match content:
            case NodeObject(node=node):
                return self.sort is Sort.NODE and node == self.name
            case PodObject(app=app, name=name, queue=queue, ask=ask):
                is_ask = self.sort is Sort.ASK and (app, name) == (self.app, self.name)
                in_gang = ask is not None and self._is_gang(ask.gang)
                return is_ask or in_gang or self._is_app(app) or self._is_queue(queue)
            case AddGang(gang=gang):
                return self._is_gang(gang)
            case QueueObject(name=name):
                return self.sort is Sort.QUEUE and self.name.rpartition(".")[2] == name.lower()
            case _:
                return False


_NODE: Final = ObjectKind.NODE


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
    directory: Path, thing: Thing, at_us: int, entered: tuple[int, int], gone: Flag
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
        looking = _Looking(reader, thing, LetIn(reader, entered), gone)
        here, last = reader.batch_at(at_us), entered[0]
        return Existence(looking.forward(here, last), looking.back(here))


@final
@attrs.frozen
class _Looking:
    reader: StateReader
    thing: Thing
    let_in: LetIn
    gone: Flag

    def _events(self, after: int, until: int) -> Iterator[tuple[KeptBatch, Event]]:
        """Yield the events that may be about the thing, each with its batch."""
        tags = [self.thing.needle]
        if self.thing.sort is Sort.QUEUE:
            tags.append(CONFIGURES)
        for batch in self.reader.batches(after=after, until=until, verify=False):
            if self.gone.is_set():
                raise GoneError
            if any(tag in batch.packed_events for tag in tags):
                for event in self.let_in.events(batch):
                    yield batch, event

    def forward(self, here: int, last: int) -> int | None:
        """Return when it comes first after a batch."""
        found = self._events(here, min(last, here + _FAR))
        return next((batch.at_us for batch, event in found if self.thing.comes(event)), None)

    def back(self, here: int) -> int | None:
        """Return when it went last until a batch, if it was there before."""
        anchor, end = self.reader.meta.anchor.batch, here
        went_us: int | None = None
        while end > anchor and here - end < _FAR:
            begin = max(end - _WINDOW, anchor)
            for batch, event in reversed([*self._events(begin, end)]):
                # A configuration without a queue says that it went only if it was there before.
                if self.thing.comes(event):
                    return went_us
                if self.thing.goes(event):
                    went_us = batch.at_us
                    if self.thing.sort is Sort.NODE:
                        return went_us
            end = begin
        return None


def _has(queue: QueueConfig, path: str) -> bool:
    return queue.path == path or any(_has(child, path) for child in queue.children)
