"""The sides of a comparison: a feed that is replayed, or a decision log that is read.

One feed is read once for several sides with different configurations. A side also says why an ask was
tried before another one.
"""

from __future__ import annotations

import pickle
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path
from typing import Final, Protocol, final

from muster.compare._inputs import LoggedDecision, events_of
from muster.compare._result import Elsewhere, LeftOut
from muster.feeds import Expect, FeedItem, FeedOrigin, KeptFeed, RawEvent, Refused, Settle, parse
from muster.replay import Beginning, Census, Costs, beginning_of
from muster.replay._driver import submit_item_directly
from muster_core.config.model import Configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Kind
from muster_core.errors import RefusedError
from muster_core.events import (
    AddApp,
    Apply,
    BindFailed,
    Configure,
    Event,
    PodObject,
    Release,
    SetUsage,
    UpdateNode,
)
from muster_core.facts import Facts
from muster_core.owners.asks import Ask
from muster_core.reasons import Code
from muster_core.values.configuration import lack_of_usage


def find_ask(machine: CoordinatorMachine, app: str, name: str) -> Ask | None:
    """Return an ask in any state, or None if it does not exist."""
    found = machine.app(app)
    return None if found is None else found.find(name)


_PLACEMENTS: Final = frozenset({Kind.ASSIGNED, Kind.BOUND})
_UNDOABLE: Final = _PLACEMENTS | {
    Kind.WAITING,
    Kind.GANG_SATISFIED,
    Kind.APP_STATE,
    Kind.QUEUE_PRIORITY,
    Kind.RESERVED,
}


def why_first(
    scheduler: PlainScheduler, undone: Sequence[Announced], app: str, ask: str
) -> str | None:
    """Return why another ask was placed before the given one was tried.

    After a batch, the asks that it placed no longer compete, and the nodes are taken. So this
    works on a copy of the scheduler: it undoes the binds from that decision on, and makes all
    nodes unschedulable. Both asks are then pending, as they were.

    Args:
        scheduler: The scheduler, between two batches; it does not change.
        undone: The decisions of the last batch, from the one that placed the other ask.
        app: The application of the ask that was not placed.
        ask: Its name.

    Returns:
        The code, a colon, and a sentence that names the other ask and what puts it first; None
        if the other ask was not before it, or the batch has decisions that cannot be undone.
    """
    placed = undone[0].decision
    if placed.kind not in _PLACEMENTS or {one.decision.kind for one in undone} - _UNDOABLE:
        return None
    bound = _named(undone, Kind.BOUND)
    if not set(_named(undone, Kind.WAITING)) <= set(bound):
        return None
    before = pickle.loads(pickle.dumps(scheduler, pickle.HIGHEST_PROTOCOL))
    assert isinstance(before, PlainScheduler)
    for node in scheduler.machine.view.nodes.nodes:
        before.submit(UpdateNode(node, schedulable=False))
    for name in bound:
        before.submit(BindFailed(*name))
    before.settle()
    explanation = before.explain(app, ask)
    if explanation is None or explanation.first != f"{placed.app}/{placed.ask}":
        return None
    return next(
        (str(reason) for reason in explanation.reasons if reason.code is Code.NOT_YOUR_TURN), None
    )


def _named(decisions: Sequence[Announced], kind: Kind) -> list[tuple[str, str]]:
    """Return the asks of all decisions of a kind."""
    return [
        (one.decision.app, one.decision.ask)
        for one in decisions
        if one.decision.kind is kind
        and one.decision.app is not None
        and one.decision.ask is not None
    ]


_Place = tuple[int | None, int | None]
"""An index in a feed or log, and a line."""


class Side(Protocol):
    """One side of a comparison, which advances from instant to instant.

    Attributes:
        events: How many events, or decisions of a log, were read.
    """

    events: int

    @property
    def machine(self) -> CoordinatorMachine | None:
        """The machine of the scheduler that makes the decisions, if there is one."""
        ...

    @property
    def beginning(self) -> Beginning | None:
        """The state with which it begins, or None if it begins with nothing."""
        ...

    @property
    def costs(self) -> Costs | None:
        """The costs of evictions, and the evenness of shares; None if that is not known."""
        ...

    def end(self, now_us: int, /) -> None:
        """Record that nothing comes any more, at ``now_us`` in microseconds."""
        ...

    def next_us(self) -> int | None:
        """Return the next instant at which anything happens, in microseconds, or None."""
        ...

    def act(self, at_us: int) -> Iterator[Sequence[Announced]]:
        """Process the next instant; yield its decisions batch by batch."""
        ...

    def place_of(self, announced: Announced) -> _Place:
        """Return index and line of the origin of a decision of the last batch."""
        ...

    def apps_of(self, announced: Announced, /) -> Sequence[str]:
        """Return the applications that a refused event of the last batch would have added."""
        ...

    def is_end(self, announced: Announced, /) -> bool:
        """Return whether a refused event of the last batch would have ended the work of an ask."""
        ...

    def forget_places(self) -> None:
        """Free the memory that :meth:`place_of` needs; it is not called any more."""
        ...

    def find(self, app: str, ask: str, instead: Announced | None, /) -> Elsewhere | None:
        """Return the current state of an ask; None if this side does not know it.

        Args:
            app: Its application.
            ask: Its name.
            instead: The decision of this side, in the last batch, in place of the other side's
                decision about the ask; None if this side made no more.
        """
        ...


@final
class FeedSide:
    """A side that replays a feed in virtual time.

    Attributes:
        events: How many events were read.
        usage_left_out: How many ``set_usage`` were left out, as the given configuration counts no
            such usage: a policy that looks at the present alone has no past.

    Args:
        items: The feed; its instants never go back.
        configuration: The configuration in force from the start; by default only ``root``,
            without limits. If there are facts, it comes in as ``configure``, in a batch of its own
            before the items; by default the one of the facts stays.
        facts: The state with which the feed begins, or None if it begins with nothing.

    Raises:
        RefusedError: If that ``configure`` is refused.
    """

    def __init__(
        self,
        items: Iterable[FeedItem],
        configuration: Configuration | None = None,
        facts: Facts | None = None,
    ) -> None:
        self.events = self.usage_left_out = 0
        self._given = configuration
        self._items = iter(items)
        self._next = next(self._items, None)
        self._scheduler = PlainScheduler(configuration, facts)
        self._beginning: Beginning | None = None
        self._costs = Costs()
        self._census = Census(self._costs)
        if facts is None and configuration is not None:
            self._costs.configured(0, configuration)
        #: Whether a batch of the configuration is open, before all items.
        self._is_configuring = False
        if facts is not None and facts.has_begun:
            self._beginning = beginning_of(facts, self._scheduler.snapshot())
            self._census.begin(self._beginning)
            if configuration is not None:
                self._configure(configuration)
        self._batch: list[Announced] = []
        #: The applications that events add, by index: of the open batch, and of the last one.
        self._bringing: dict[int, Sequence[str]] = {}
        #: The events of the last batch, and of this one, that end the work of an ask, by index.
        self._ended: set[int] = set()
        self._ending: set[int] = set()
        self._brought: dict[int, Sequence[str]] = {}
        #: The positions of the events in the input, and their indexes and lines (0: no line).
        self._entered: array[int] | None = array("q")
        self._places: tuple[array[int], array[int]] = (array("q"), array("q"))

    def _configure(self, configuration: Configuration) -> None:
        machine = self._scheduler.machine
        self._scheduler.submit(Configure(configuration))
        refusal = machine.refusal_of(machine.entered)
        if refusal is not None:
            raise RefusedError(refusal)
        self._is_configuring = True

    @property
    def beginning(self) -> Beginning | None:
        """The state with which it begins, or None."""
        return self._beginning

    @property
    def costs(self) -> Costs:
        """The costs of evictions, and the evenness of shares."""
        return self._costs

    def end(self, now_us: int, /) -> None:
        """Record that nothing comes any more."""
        self._census.catch_up(now_us)
        self._costs.pass_to(now_us)
        self._costs.jobs.end(self._census.alive())

    @property
    def machine(self) -> CoordinatorMachine:
        """The machine of the scheduler that makes the decisions."""
        return self._scheduler.machine

    def next_us(self) -> int | None:
        """Return the next instant at which anything happens, in microseconds, or None."""
        if self._is_configuring:
            return self.machine.now_us
        due_us = self.machine.next_deadline_us()
        if self._next is None:
            return due_us
        return self._next.at_us if due_us is None else min(self._next.at_us, due_us)

    def act(self, at_us: int) -> Iterator[Sequence[Announced]]:
        """Process the next instant; yield its decisions batch by batch.

        Args:
            at_us: The instant that :meth:`next_us` returned.

        Raises:
            FeedError: If the feed cannot be read.
        """
        if self._is_configuring:
            self._is_configuring = False
            self._scheduler.settle()
            yield self._taken()
        while self._next is not None and self._next.at_us == at_us:
            item = self._next
            self.events += 1
            if self._let_in(item):
                yield self._taken()
            self._next = next(self._items, None)
        self._scheduler.pass_until(at_us)
        yield self._taken()

    def _let_in(self, item: FeedItem) -> bool:
        """Submit an item to the scheduler; return whether it has closed the batch."""
        if self._given is not None and is_uncounted(item.content, self._given):
            self.usage_left_out += 1
            return False
        self._census.saw(item)
        submit_item_directly(self._scheduler, item)
        if isinstance(item.content, Settle | Expect):
            return True
        apps = _apps_of(item.content)
        if apps:
            self._bringing[item.index] = apps
        elif isinstance(item.content, Release | BindFailed):
            self._ending.add(item.index)
        if self._entered is not None:
            self._entered.append(self.machine.entered)
            self._places[0].append(item.index)
            self._places[1].append(item.line or 0)
        return False

    def _taken(self) -> Sequence[Announced]:
        self._batch, self._scheduler.announced = self._scheduler.announced, []
        self._brought, self._bringing = self._bringing, {}
        self._ended, self._ending = self._ending, set()
        if self._batch:
            self._census.write(self._batch)
        return self._batch

    def place_of(self, announced: Announced) -> _Place:
        """Return index and line of the event that a decision is about, or that added its ask."""
        decision = announced.decision
        if decision.index is not None:
            return decision.index, decision.line
        if decision.app is None or decision.ask is None or self._entered is None:
            return None, None
        ask = find_ask(self.machine, decision.app, decision.ask)
        if ask is None:
            return None, None
        number = bisect_right(self._entered, ask.seq) - 1
        if number < 0:  # It was there at the beginning.
            return None, None
        indexes, lines = self._places
        return indexes[number], lines[number] or None

    def apps_of(self, announced: Announced, /) -> Sequence[str]:
        """Return the applications that a refused event of the last batch would have added."""
        index = announced.decision.index
        return () if index is None else self._brought.get(index, ())

    def is_end(self, announced: Announced, /) -> bool:
        """Return whether a refused event of the last batch would have ended the work of an ask."""
        return announced.decision.index in self._ended

    def forget_places(self) -> None:
        """Free the memory that :meth:`place_of` needs; it is not called any more."""
        self._entered = None
        self._places = (array("q"), array("q"))

    def find(self, app: str, ask: str, instead: Announced | None, /) -> Elsewhere:
        """Return the current state of an ask, with the reasons if it is not bound.

        Args:
            app: Its application.
            ask: Its name.
            instead: The decision of this side, in the last batch, in place of the other side's
                decision about the ask; None if this side made no more.
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
        """Return why another ask was tried first, if that was in the last batch, or None."""
        if instead is None or instead not in self._batch:
            return None
        undone = [decided for decided in self._batch if decided.seq >= instead.seq]
        return why_first(self._scheduler, undone, app, ask)


def _apps_of(event: Event | Refused) -> Sequence[str]:
    """Return the applications that an event may add."""
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
    """A side that reads a decision log.

    Attributes:
        events: How many decisions were read.

    Args:
        decisions: The decisions, from :func:`read_decisions`.
    """

    def __init__(self, decisions: Iterable[LoggedDecision]) -> None:
        self.events = 0
        self._decisions = iter(decisions)
        self._next = next(self._decisions, None)
        self._present: dict[int, LoggedDecision] = {}

    @property
    def machine(self) -> None:
        """None: a log has no scheduler."""
        return

    @property
    def beginning(self) -> None:
        """None: a log does not know the state."""
        return

    @property
    def costs(self) -> None:
        """None: a log does not know what asks hold."""
        return

    def end(self, _now_us: int, /) -> None:
        """Do nothing, likewise."""

    def next_us(self) -> int | None:
        """Return the instant of the next decision, in microseconds, or None."""
        return None if self._next is None else self._next.announced.at_us

    def act(self, at_us: int) -> Iterator[Sequence[Announced]]:
        """Yield the decisions of the next instant.

        Args:
            at_us: The instant that :meth:`next_us` returned.

        Raises:
            FeedError: If the log cannot be read.
        """
        self._present.clear()
        while self._next is not None and self._next.announced.at_us == at_us:
            self.events += 1
            self._present[self._next.announced.seq] = self._next
            self._next = next(self._decisions, None)
        yield [logged.announced for logged in self._present.values()]

    def place_of(self, announced: Announced) -> _Place:
        """Return index and line of a decision."""
        logged = self._present[announced.seq]
        return logged.index, logged.line

    def apps_of(self, _announced: Announced, /) -> Sequence[str]:
        """Return nothing: in a log, a refusal does not name what was refused."""
        return ()

    def is_end(self, _announced: Announced, /) -> bool:
        """Return False, likewise."""
        return False

    def forget_places(self) -> None:
        """Do nothing: a log keeps no places."""

    def find(self, _app: str, _ask: str, _instead: Announced | None, /) -> None:
        """Return None: a log does not know the state of an ask."""
        return


def sides_of(
    raws: Iterable[RawEvent],
    configurations: Sequence[Configuration | None],
    *,
    name: str = "the feed",
    base: Path | None = None,
    left_out: list[LeftOut] | None = None,
    origin: FeedOrigin | None = None,
) -> tuple[FeedSide, ...]:
    """Return the sides of one feed under several configurations.

    A given configuration is in force from the start. Every ``configure`` event of the feed is
    then left out on that side, valid or not, because it would replace this configuration. The
    feed is read once, while all sides advance. If none of it can be read as an event, reading
    its end raises a :class:`muster.feeds.FeedError`.

    Args:
        raws: The feed, from :func:`muster.feeds.read_raw`.
        configurations: One for each side; None where the feed configures it.
        name: The name of the feed, for errors.
        base: The folder to which ``file`` in a ``configure`` event is relative; None for the
            working folder.
        left_out: Gets the events that are left out.
        origin: Gets the origin of time of the feed, or None.
    """
    noted: list[LeftOut] = [] if left_out is None else left_out
    copies = tee(_marked(raws, name, base, noted, origin), len(configurations))

    def side(
        configuration: Configuration | None, copy: Iterator[tuple[FeedItem, bool]]
    ) -> FeedSide:
        keeps = configuration is None
        return FeedSide((item for item, marked in copy if keeps or not marked), configuration)

    return tuple(map(side, configurations, copies))


# COMMAND-30
def unconfigured(
    raws: Iterable[RawEvent],
    *,
    name: str,
    base: Path | None,
    left_out: list[LeftOut],
    origin: FeedOrigin,
) -> Iterator[FeedItem]:
    """Yield a feed without its ``configure`` events; see :func:`sides_of`."""
    return (item for item, marked in _marked(raws, name, base, left_out, origin) if not marked)


# COMMAND-15
def sides_of_kept(
    kept: KeptFeed,
    configurations: Sequence[Configuration | None],
    left_out: list[LeftOut],
) -> tuple[FeedSide, ...]:
    """Return the sides of a state directory under several configurations.

    If it begins with a checkpoint, all sides do, and a given configuration comes in right then.

    Args:
        kept: The state directory.
        configurations: As for :func:`sides_of`.
        left_out: Gets the ``configure`` events that are left out.

    Raises:
        RefusedError: If a configuration cannot replace the one that is in force at the beginning.
    """
    copies = tee(noting(kept.items(), left_out), len(configurations))
    return tuple(
        FeedSide(copy if one is None else others(copy), one, kept.facts)
        for one, copy in zip(configurations, copies, strict=True)
    )


# COMMAND-35
def is_uncounted(content: object, configuration: Configuration) -> bool:
    """Return whether an item sets usage that a configuration does not count."""
    if not isinstance(content, SetUsage):
        return False
    of_user = content.user is not None
    return lack_of_usage(configuration.root, content.queue, of_user=of_user) is not None


def noting(items: Iterable[FeedItem], noted: list[LeftOut]) -> Iterator[FeedItem]:
    """Yield all items, and note those that configure."""
    for item in items:
        if isinstance(item.content, Configure):
            noted.append(LeftOut(item.index, item.line, item.content.config.partition))
        yield item


def others(items: Iterable[FeedItem]) -> Iterator[FeedItem]:
    """Yield the items that do not configure."""
    return (item for item in items if not isinstance(item.content, Configure))


def _marked(
    raws: Iterable[RawEvent],
    name: str,
    base: Path | None,
    noted: list[LeftOut],
    origin: FeedOrigin | None,
) -> Iterator[tuple[FeedItem, bool]]:
    """Parse a feed; yield each item, and whether it is a ``configure``."""

    def seen() -> Iterator[RawEvent]:
        for raw in raws:
            value = raw.value
            if isinstance(value, dict) and value.get("op") == "configure":
                partition = value.get("partition")
                named = str(partition) if isinstance(partition, str) else None
                noted.append(LeftOut(raw.index, raw.line, named))
            yield raw

    for item in events_of(parse(seen(), base=base, origin=origin), name):
        yield item, bool(noted) and noted[-1].index == item.index
