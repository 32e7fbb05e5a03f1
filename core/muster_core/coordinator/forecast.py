"""When a pending ask starts if nothing more comes: a copy of the state runs on, and is watched.

The copy is made from the facts of a checkpoint in which every ask runs for as long as it is
expected to. So the rules of the scheduler need not know that this is a copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from muster_core.coordinator.facts import Facts
from muster_core.coordinator.plain import PlainScheduler
from muster_core.owners.messages.asks import Allocation, Ask
from muster_core.owners.messages.to_applications import AppFacts
from muster_core.values.decisions import Announced, Kind
from muster_core.values.reasons import Code, Forecast, PendingReason
from muster_core.view.facts import CompletionFacts

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_BOUND: Final = Kind.BOUND
_HELD_BACK: Final = Code.HELD_BACK

MOST_BATCHES: Final = 10_000
"""How many batches a copy runs at most."""

MOST_WORK: Final = 30_000
"""How many asks a copy tries, and how many decisions it makes, at most."""


def forecast(
    facts: Facts,
    app: str,
    ask: str,
    now_us: int | None = None,
    *,
    most_batches: int = MOST_BATCHES,
    most_work: int = MOST_WORK,
) -> Forecast | None:
    """Return what a copy of the state says about the start of a pending ask.

    What it looks at is limited by counts and not by a clock, so that the same state gives the same
    answer.

    Args:
        facts: The state, between two batches.
        app: The application of the ask.
        ask: Its name.
        now_us: The present instant, in microseconds; default: that of the last batch.
        most_batches: How many batches the copy runs at most.
        most_work: How many asks it tries, and how many decisions it makes, at most.

    Returns:
        The forecast; None if the ask is not pending.
    """
    if now_us is None:
        now_us = facts.coordinator.now_us
    expected = _as_expected(facts, now_us)
    copy = PlainScheduler(facts=expected)
    key = copy.machine.registry.locate(app)
    found = None if key is None else copy.machine.view.pending_ask(key, ask)
    if key is None or found is None:
        return None
    # A Strict group is rolled back first; no owner hears of that, so that copy cannot run on.
    view = copy.machine.view
    if found.gang is not None:
        view = PlainScheduler(facts=expected).machine.view
        found = view.pending_ask(key, ask)
        assert found is not None, "a copy of the same facts differs"
    fits_at, fits_now = view.fits_at(key, found, now_us), view.fits_now(key, found)
    run = _run(copy, app, ask, most_batches, _work(copy) + most_work)
    return Forecast(fits_at, *run, fits_now)


# OUTLOOK-10
def held_back_later(
    facts: Facts, app: str, ask: str, fits_at_us: int, now_us: int
) -> PendingReason | None:
    """Return why a pending ask is held back when it would fit alone.

    Args:
        facts: The state, between two batches.
        app: The application of the ask.
        ask: Its name.
        fits_at_us: When it would fit alone, in microseconds; after the present instant.
        now_us: The present instant, in microseconds.

    Returns:
        The reason in a copy of the state that runs on up to then; None if the ask is not held back
        there, or if the copy was stopped before.
    """
    copy = PlainScheduler(facts=_as_expected(facts, now_us))
    most_work = _work(copy) + MOST_WORK
    for _ in range(MOST_BATCHES):
        due_us = copy.machine.next_deadline_us()
        if due_us is None or due_us > fits_at_us or _work(copy) > most_work:
            break
        copy.pass_until(due_us)
        copy.announced.clear()
    found = copy.explain(app, ask) if copy.machine.now_us == fits_at_us else None
    reasons = () if found is None else found.reasons
    return next((reason for reason in reasons if reason.code is _HELD_BACK), None)


# OUTLOOK-3, OUTLOOK-4
def _run(
    copy: PlainScheduler, app: str, ask: str, most_batches: int, most_work: int
) -> tuple[int | None, int | None]:
    """Let a copy run on; return when an ask is bound, and where it was stopped before that."""
    for _ in range(most_batches):
        due_us = copy.machine.next_deadline_us()
        if due_us is None:
            return None, None
        copy.pass_until(due_us)
        if _binds(copy.announced, app, ask):
            return due_us, None
        copy.announced.clear()
        if _work(copy) > most_work:
            break
    return None, copy.machine.now_us


def _work(copy: PlainScheduler) -> int:
    statistics = copy.machine.statistics()
    return statistics.steps + statistics.decisions


def _binds(announced: Iterable[Announced], app: str, ask: str) -> bool:
    decisions = (one.decision for one in announced)
    return any(one.kind is _BOUND and (one.app, one.ask) == (app, ask) for one in decisions)


def _as_expected(facts: Facts, now_us: int) -> Facts:
    """Return facts in which every ask completes when it is expected to, and not otherwise."""
    defaults = {queue.key: queue.config.settings.estimate_us for queue in facts.queues}
    apps: list[AppFacts] = []
    ends: list[CompletionFacts] = []
    for app in facts.apps:
        key, default_us = app.identity.key, defaults[app.identity.leaf]
        expected = _expected(app, default_us)
        apps.append(expected)
        ends += (
            (_end_us(held.bound_us, length_us, now_us), held.number, key, held.ask.name)
            for held in expected.bound
            if (length_us := held.ask.run_for_us) is not None
        )
    own = facts.coordinator
    timers = attrs.evolve(own.view.timers, completions=tuple(sorted(ends)))
    view = attrs.evolve(own.view, timers=timers)
    return attrs.evolve(facts, apps=tuple(apps), coordinator=attrs.evolve(own, view=view))


def _expected(app: AppFacts, default_us: int | None) -> AppFacts:
    """Return an application whose asks run for as long as they are expected to."""

    def asks(some: Iterable[Ask]) -> tuple[Ask, ...]:
        return tuple(_as_long_as_expected(ask, default_us) for ask in some)

    def held(some: Iterable[Allocation]) -> tuple[Allocation, ...]:
        return tuple(
            attrs.evolve(one, ask=_as_long_as_expected(one.ask, default_us)) for one in some
        )

    return attrs.evolve(
        app,
        pending=asks(app.pending),
        parked=asks(app.parked),
        waiting=held(app.waiting),
        bound=held(app.bound),
    )


def _as_long_as_expected(ask: Ask, default_us: int | None) -> Ask:
    length_us = ask.estimate_us
    if length_us is None:
        length_us = default_us if ask.run_for_us is None else ask.run_for_us
    return ask if length_us == ask.run_for_us else ask._replace(run_for_us=length_us)


def _end_us(bound_us: int, length_us: int, now_us: int) -> int:
    """Return when a bound ask is expected to end: after 1, 2, 4 … times its estimate."""
    while bound_us + length_us <= now_us:
        length_us *= 2
    return bound_us + length_us
