"""When a pending ask will start, as far as that is known now, and what backfill promises, from
batch to batch.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

import attrs

from muster_core.decisions import Decision, Kind, Reason
from muster_core.events import AddApp, AddAsk, AddPriorityClass, Event, Release
from muster_core.snapshots import AskPlace
from tests.naive import order
from tests.naive.gangs import constrained, group_of, let_go, waiting
from tests.naive.harness import Batch
from tests.naive.picture import Picture
from tests.naive.rounds import first_start, is_placed, party_of
from tests.naive.scheduler import NaiveScheduler
from tests.naive.state import (
    ROOT,
    Ask,
    Instant,
    Reservation,
    Trial,
    World,
    estimate_us,
    expected_end_us,
    scope_of,
)

_MOST_BATCHES: Final = 10_000


def position(world: World, ask: Ask) -> int:
    """Return the place of a pending ask, from 1, if all were taken with nothing placed."""
    return [one is ask for one in _in_order(Picture(world), ROOT)].index(True) + 1


def fits_at(world: World, ask: Ask) -> Instant | None:
    """Return the start that a reservation of an ask's party alone would have now."""
    with _rolled_back(world, ask):
        party = party_of(world, ask)
        found = None if party is None else first_start(world, party, [])
    return None if found is None else found[0]


def fits_now(world: World, ask: Ask) -> bool:
    """Return whether an ask's party alone fits now."""
    with _rolled_back(world, ask):
        party = party_of(world, ask)
        return party is not None and is_placed(world, party)


@contextmanager
def _rolled_back(world: World, ask: Ask) -> Generator[None]:
    """Let the Strict group of an ask hold nothing for a while."""
    trial = Trial(world)
    gang = constrained(world, ask)
    if gang is not None and (group := group_of(world, gang.name)).strict:
        for member in waiting(world, *group.gangs):
            let_go(world, member)
    yield
    trial.undo()


def starts_at_us(model: NaiveScheduler, app: str, name: str) -> int | None:
    """Return when an ask is bound in a copy that runs on without events; None if never."""
    copied = copy.deepcopy(model)
    ask = copied.world.apps[app].asks[name]
    for _ in range(_MOST_BATCHES):
        for one in copied.world.bound():
            one.ends_at = expected_end_us(copied.world, one)
        due_us = copied.next_deadline()
        if due_us is None:
            return None
        copied.begin(max(due_us, copied.world.now_us))
        # It may be bound and released again in the same batch.
        if any(_binds(one, ask) for one in copied.close(copied.world.now_us)):
            return copied.world.now_us
    msg = f"{ask.full} is not bound after {_MOST_BATCHES} batches"
    raise RuntimeError(msg)


def _binds(decision: Decision, ask: Ask) -> bool:
    return decision.kind is Kind.BOUND and (decision.app, decision.ask) == (ask.app.name, ask.name)


def _in_order(picture: Picture, path: str) -> Iterator[Ask]:
    """Yield all pending asks in the order of queues, applications and asks; none is skipped."""
    for child in order.sorted_queues(picture, path, picture.with_pending(path)):
        yield from _in_order(picture, child.path)
    apps = [app for app in picture.apps(path) if app.pending()]
    for app in order.sorted_applications(picture, path, apps):
        yield from order.asks(picture, app)


_CHANGE_NOTHING: Final = (AddApp, AddAsk, AddPriorityClass, Release)
"""Events after which a promise holds as before; of all others most are exceptions."""

_CLAIMED: Final = frozenset(
    {Reason.PREEMPTED, Reason.RECLAIMED, Reason.BIND_FAILED, Reason.DEADLOCK}
)


@attrs.frozen(eq=False)
class Promise:
    """That a party is bound by a time.

    Attributes:
        scope: The path of the queue whose scope it is of.
        asks: Who is to be bound.
        by_us: By when.
    """

    scope: str
    asks: frozenset[Ask]
    by_us: int


@attrs.define
class Promises:
    """Follows the promises that are made.

    Attributes:
        made: Those that hold.
        counts: How many were kept, and how many fell away, and why.
        holds_until_us: By when one of the asks bound ends if its estimate is an upper bound; None
            if no estimate is known.
    """

    made: list[Promise] = attrs.field(factory=list[Promise])
    counts: Counter[str] = attrs.field(factory=Counter[str])
    holds_until_us: int | None = None

    def after(self, model: NaiveScheduler, batch: Batch) -> None:
        """Look at what a batch made of the promises; fail if one is broken."""
        self._drop_if_too_short(model.world, batch)
        self._drop_bound(batch)
        if not _is_quiet(batch):
            self._drop("something changed", self.made)
        for promise in list(self.made):
            self._follow(model, promise, batch)
        self._make(model, batch)

    def _follow(self, model: NaiveScheduler, promise: Promise, batch: Batch) -> None:
        first = _first(model).get(promise.scope)
        if _is_preceded(model.world, promise.asks):
            self._drop("one before it got a node", [promise])
        elif _stranger_came(model, promise.scope, batch):
            self._drop("one of no or another scope got a node", [promise])
        elif first is None or first.asks != promise.asks:
            self._drop("another is the first", [promise])
        elif batch.at_us >= promise.by_us:
            names = sorted(ask.full for ask in promise.asks)
            msg = f"{', '.join(names)} was to be bound by {promise.by_us} us"
            raise AssertionError(msg)

    def _drop_if_too_short(self, world: World, batch: Batch) -> None:
        """Drop all if an ask has run for longer than its estimate; so may a feed made smaller."""
        before, now_us = self.holds_until_us, batch.at_us
        lengths = [(ask, estimate_us(world, ask)) for ask in world.bound()]
        ends = [ask.bound_at_us + length_us for ask, length_us in lengths if length_us is not None]
        if (before is not None and before < now_us) or any(end <= now_us for end in ends):
            self._drop("an estimate was too short", self.made)
        self.holds_until_us = min(ends, default=None)

    def _drop_bound(self, batch: Batch) -> None:
        for promise in list(self.made):
            if all(ask.place is AskPlace.BOUND for ask in promise.asks):
                assert batch.at_us <= promise.by_us
                self._drop("kept", [promise])

    def _drop(self, why: str, promises: list[Promise]) -> None:
        self.counts[why] += len(promises)
        self.made = [one for one in self.made if one not in promises]

    def _make(self, model: NaiveScheduler, batch: Batch) -> None:
        there = {promise.scope for promise in self.made}
        for scope, one in _first(model).items():
            if scope in there or one.start.start_us is None:
                continue
            assert one.start.start_us > batch.at_us
            self.made.append(Promise(scope, one.asks, one.start.start_us))


def _first(model: NaiveScheduler) -> dict[str, Reservation]:
    """Return the first reservation of each scope."""
    first: dict[str, Reservation] = {}
    for one in model.world.reserved:
        first.setdefault(one.scope, one)
    return first


def _is_preceded(world: World, party: frozenset[Ask]) -> bool:
    """Return whether a round of the batch placed an ask before it sought a party's nodes."""
    rounds = world.searches
    for number, one in enumerate(rounds, 1):
        end = rounds[number].began if number < len(rounds) else world.moves
        if one.sought.get(party, end) > one.began:
            return True
    return False


def _is_quiet(batch: Batch) -> bool:
    """Return whether nothing happened in a batch that the text names as an exception."""
    quiet = all(_changes_nothing(entry) for _, entry in batch.entries)
    return quiet and not any(
        one.reason in _CLAIMED or one.kind is Kind.GANG_TIMED_OUT for one in batch.decisions
    )


def _changes_nothing(entry: Event | str) -> bool:
    return isinstance(entry, (str, *_CHANGE_NOTHING))


def _stranger_came(model: NaiveScheduler, scope: str, batch: Batch) -> bool:
    """Return whether an ask that takes no notice of a scope got a node."""
    for one in batch.decisions:
        if one.kind is Kind.ASSIGNED:
            found = scope_of(model.world, one.queue or "")
            if found is None or found.path != scope:
                return True
    return False
