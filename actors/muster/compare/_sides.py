"""The sides of a comparison: a feed that is replayed, or a decision log that is read."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, final

from muster.compare._asks import find_ask
from muster.compare._log import Logged
from muster.compare._result import Elsewhere
from muster.compare._turns import why_first
from muster.feeds import Expect, FeedItem, Refused, Settle
from muster.replay._plainly import let_in_plainly
from muster_core.config.model import Configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Announced
from muster_core.events import AddApp, Apply, Event, PodObject

_Place = tuple[int | None, int | None]
"""The index of something in its feed or log, and its line."""


class Side(Protocol):
    """One side of a comparison, which goes from instant to instant.

    Attributes:
        events: How many events, or lines of a log, were read.
    """

    events: int

    @property
    def machine(self) -> CoordinatorMachine | None:
        """The machine of the scheduler that makes the decisions, if there is one."""
        ...

    def next_us(self) -> int | None:
        """Give the next instant at which anything happens, in microseconds, or None."""
        ...

    def act(self, at_us: int) -> Iterator[Sequence[Announced]]:
        """Do what happens at the next instant; give the decisions batch by batch."""
        ...

    def place_of(self, announced: Announced) -> _Place:
        """Say where a decision of the batch that was given last is from."""
        ...

    def apps_of(self, announced: Announced, /) -> Sequence[str]:
        """Give the applications that the event of a refusal of that batch would have brought."""
        ...

    def forget_places(self) -> None:
        """Take note that nobody will ask where decisions are from."""
        ...

    def find(self, app: str, ask: str, instead: Announced | None, /) -> Elsewhere | None:
        """Say where an ask is now; None if nobody can say.

        Args:
            app: Its application.
            ask: Its name.
            instead: What was decided instead of what the other side decided about it, in the
                batch that was given last; None if nothing more.
        """
        ...


@final
class FeedSide:
    """A feed, which is replayed in virtual time.

    Attributes:
        events: How many events were read.

    Args:
        items: The feed; its instants never go back.
        configuration: What is in force from the start; default: only ``root``, without limits.
    """

    def __init__(
        self, items: Iterable[FeedItem], configuration: Configuration | None = None
    ) -> None:
        self.events = 0
        self._items = iter(items)
        self._next = next(self._items, None)
        self._scheduler = PlainScheduler(configuration)
        self._batch: list[Announced] = []
        #: The applications that events bring, by index: of the open batch, and of the last.
        self._bringing: dict[int, Sequence[str]] = {}
        self._brought: dict[int, Sequence[str]] = {}
        #: The positions of the events in the input, and their indexes and lines (0 is none).
        self._entered: array[int] | None = array("q")
        self._places: tuple[array[int], array[int]] = (array("q"), array("q"))

    @property
    def machine(self) -> CoordinatorMachine:
        """The machine of the scheduler that makes the decisions."""
        return self._scheduler.machine

    def next_us(self) -> int | None:
        """Give the next instant at which anything happens, in microseconds, or None."""
        due_us = self.machine.next_deadline_us()
        if self._next is None:
            return due_us
        return self._next.at_us if due_us is None else min(self._next.at_us, due_us)

    def act(self, at_us: int) -> Iterator[Sequence[Announced]]:
        """Do what happens at the next instant; give the decisions batch by batch.

        Args:
            at_us: What :meth:`next_us` gave.

        Raises:
            FeedError: If the feed cannot be read on.
        """
        while self._next is not None and self._next.at_us == at_us:
            item = self._next
            self.events += 1
            if self._let_in(item):
                yield self._taken()
            self._next = next(self._items, None)
        self._scheduler.pass_until(at_us)
        yield self._taken()

    def _let_in(self, item: FeedItem) -> bool:
        """Hand an item to the scheduler; say whether that has closed the batch."""
        let_in_plainly(self._scheduler, item)
        if isinstance(item.content, Settle | Expect):
            return True
        apps = _apps_of(item.content)
        if apps:
            self._bringing[item.index] = apps
        if self._entered is not None:
            self._entered.append(self.machine.entered)
            self._places[0].append(item.index)
            self._places[1].append(item.line or 0)
        return False

    def _taken(self) -> Sequence[Announced]:
        self._batch, self._scheduler.announced = self._scheduler.announced, []
        self._brought, self._bringing = self._bringing, {}
        return self._batch

    def place_of(self, announced: Announced) -> _Place:
        """Give index and line of the event that a decision is about, or that brought its ask."""
        decision = announced.decision
        if decision.index is not None:
            return decision.index, decision.line
        if decision.app is None or decision.ask is None or self._entered is None:
            return None, None
        ask = find_ask(self.machine, decision.app, decision.ask)
        if ask is None:
            return None, None
        number = bisect_right(self._entered, ask.seq) - 1
        indexes, lines = self._places
        return indexes[number], lines[number] or None

    def apps_of(self, announced: Announced, /) -> Sequence[str]:
        """Give the applications that the event of a refusal of that batch would have brought."""
        index = announced.decision.index
        return () if index is None else self._brought.get(index, ())

    def forget_places(self) -> None:
        """Take note that nobody will ask where decisions are from."""
        self._entered = None
        self._places = (array("q"), array("q"))

    def find(self, app: str, ask: str, instead: Announced | None, /) -> Elsewhere:
        """Say where an ask is now, and if it is not bound, why not.

        Args:
            app: Its application.
            ask: Its name.
            instead: What was decided instead of what the other side decided about it, in the
                batch that was given last; None if nothing more.
        """
        found = self._scheduler.app(app)
        for one in () if found is None else found.asks:
            if one.name == ask:
                explanation = self._scheduler.explain(app, ask)
                reasons = () if explanation is None else explanation.reasons
                turn = self._turn(app, ask, instead)
                return Elsewhere(app, ask, one.place, one.node, tuple(map(str, reasons)), turn)
        return Elsewhere(app, ask)

    def _turn(self, app: str, ask: str, instead: Announced | None) -> str | None:
        """Say why another ask was tried before one, if that was in the last batch."""
        if instead is None or instead not in self._batch:
            return None
        undone = [decided for decided in self._batch if decided.seq >= instead.seq]
        return why_first(self._scheduler, undone, app, ask)


def _apps_of(event: Event | Refused) -> Sequence[str]:
    """Give the applications that an event may bring."""
    match event:
        case AddApp(app=app):
            return (app,)
        case Apply(objects=manifests):
            contents = (manifest.content for manifest in manifests)
            return [content.app for content in contents if isinstance(content, PodObject)]
        case _:
            return ()


@final
class LogSide:
    """A decision log, which is read.

    Attributes:
        events: How many lines were read.

    Args:
        decisions: The decisions, from :func:`read_decisions`.
    """

    def __init__(self, decisions: Iterable[Logged]) -> None:
        self.events = 0
        self._decisions = iter(decisions)
        self._next = next(self._decisions, None)
        self._present: dict[int, Logged] = {}

    @property
    def machine(self) -> None:
        """There is none."""
        return

    def next_us(self) -> int | None:
        """Give the instant of the next decision, in microseconds, or None."""
        return None if self._next is None else self._next.announced.at_us

    def act(self, at_us: int) -> Iterator[Sequence[Announced]]:
        """Give the decisions of the next instant.

        Args:
            at_us: What :meth:`next_us` gave.

        Raises:
            FeedError: If the log cannot be read on.
        """
        self._present.clear()
        while self._next is not None and self._next.announced.at_us == at_us:
            self.events += 1
            self._present[self._next.announced.seq] = self._next
            self._next = next(self._decisions, None)
        yield [logged.announced for logged in self._present.values()]

    def place_of(self, announced: Announced) -> _Place:
        """Give index and line of a decision."""
        logged = self._present[announced.seq]
        return logged.index, logged.line

    def apps_of(self, _announced: Announced, /) -> Sequence[str]:
        """Nobody can say: a refusal does not name what was refused."""
        return ()

    def forget_places(self) -> None:
        """Take note that nobody will ask where decisions are from."""

    def find(self, _app: str, _ask: str, _instead: Announced | None, /) -> None:
        """Nobody can say where an ask is."""
        return
