"""When a pending ask will start, as far as that can be told now: what ``explain`` adds."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from muster_core.decisions import Decision, Kind
from tests.naive import order
from tests.naive.backfill.estimates import expected_end_us
from tests.naive.backfill.parties import party_of
from tests.naive.backfill.reservations import first_start, is_placed
from tests.naive.gangs import group_of, let_go, waiting
from tests.naive.permits import constrained
from tests.naive.picture import Picture
from tests.naive.scheduler import NaiveScheduler
from tests.naive.state import ROOT, Ask, Instant, World
from tests.naive.trial import Trial

_MOST_BATCHES: Final = 10_000


def position(world: World, ask: Ask) -> int:
    """Give the place of a pending ask, from 1, if all were taken with nothing placed."""
    return [one is ask for one in _in_order(Picture(world), ROOT)].index(True) + 1


def fits_at(world: World, ask: Ask) -> Instant | None:
    """Give the start that a reservation of an ask's party alone would have now."""
    with _rolled_back(world, ask):
        party = party_of(world, ask)
        found = None if party is None else first_start(world, party, [])
    return None if found is None else found[0]


def fits_now(world: World, ask: Ask) -> bool:
    """Say whether an ask's party alone fits as things are."""
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
    """Give when an ask is bound in a copy that runs on without events; None if never."""
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
    """Give all pending asks in the order of queues, applications and asks; none is skipped."""
    for child in order.sorted_queues(picture, path, picture.with_pending(path)):
        yield from _in_order(picture, child.path)
    apps = [app for app in picture.apps(path) if app.pending()]
    for app in order.sorted_applications(picture, path, apps):
        yield from order.asks(picture, app)
