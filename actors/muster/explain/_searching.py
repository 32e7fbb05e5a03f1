"""The search for what would help an ask, from a state and without a feed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, final

import attrs

from muster.explain._remedies.case import Case
from muster.explain._remedies.combined import combined_remedies
from muster.explain._remedies.estimates import estimate_remedies
from muster.explain._remedies.gangs import gang_remedies
from muster.explain._remedies.nodes import node_remedies
from muster.explain._remedies.orders import ask_remedies, order_remedies
from muster.explain._remedies.quotas import quota_remedies
from muster.explain._remedies.remedy import AT_ONCE, Remedy, RemedyKind, Starts
from muster.explain._remedies.start import alone
from muster.explain._remedies.user_limits import user_limit_remedies
from muster.explain._trials import Trials, evicted_in, node_of
from muster.replay import event_of
from muster_core.coordinator.forecast import forecast
from muster_core.coordinator.plain import PlainScheduler
from muster_core.events import AddAsk
from muster_core.reasons import UNKNOWN_START, Explanation

_MIN_MEMBER: Final = RemedyKind.MIN_MEMBER

_MOST_WORK: Final = 10_000
"""How much a copy of the state does to foretell a start, as for a forecast."""


# COMMAND-4
@final
class Search:
    """Tries all kinds of remedies; iterating over it yields those that work, as they are found.

    Args:
        scheduler: The scheduler, between two batches; it does not change.
        event: The event that adds only the ask, under its own name.
        explanation: Why the ask is not running.
        at_us: The instant, in microseconds.
    """

    def __init__(
        self, scheduler: PlainScheduler, event: AddAsk, explanation: Explanation, at_us: int
    ) -> None:
        self._trials = Trials(scheduler, at_us, event.app, event.ask)
        self._case = Case(scheduler, self._trials, event, explanation, at_us)
        self._alone: Case | None = None

    @property
    def made(self) -> int:
        """How many trials were made so far."""
        return self._trials.made + (0 if self._alone is None else self._alone.trials.made)

    @property
    def exhausted(self) -> bool:
        """Whether no more trials are allowed, because the state is large."""
        others = self._alone
        return self._trials.exhausted or (others is not None and others.trials.exhausted)

    # OUTLOOK-30, OUTLOOK-31
    def __iter__(self) -> Iterator[Remedy]:
        """Search, and yield the remedies: first those without which the ask never starts."""
        case = self._case
        self._alone = alone(case)
        if self._alone is None:
            yield from _changes(case, chain(estimate_remedies(case), order_remedies(case)))
            yield from ask_remedies(case)
            return
        found: list[Remedy] = []
        for remedy in _changes(self._alone):
            whole = self._in_full(remedy)
            if whole is not None:
                found.append(whole)
                yield whole
        # Nothing else than these changes lets it start, so no other one does so at once.
        if not found or any(remedy.starts != AT_ONCE for remedy in found):
            told = {remedy.text for remedy in found}
            yield from (one for one in _changes(case) if one.text not in told)

    # OUTLOOK-32
    def _in_full(self, remedy: Remedy) -> Remedy | None:
        """Return a remedy that helps the ask alone with its start beside all others.

        Returns:
            None if the change is refused.
        """
        case, (_, *events) = self._case, remedy.events
        app, ask = case.event.app, case.event.ask
        after = self._trials.after([dict(event) for event in events])
        if after is None:
            unknown = attrs.evolve(remedy, node=None, starts=UNKNOWN_START, evicted=())
            return unknown if self._trials.exhausted else None
        node = node_of(after, app, ask)
        if node is not None:
            return attrs.evolve(remedy, node=node, evicted=evicted_in(after))
        starts: Starts = UNKNOWN_START
        made = forecast(after.facts(), app, ask, case.at_us, most_work=_MOST_WORK)
        if made is not None and made.starts_at_us is not None:
            starts = made.starts_at_us
        return attrs.evolve(remedy, node=None, starts=starts, evicted=())


def _changes(case: Case, first: Iterable[Remedy] = ()) -> Iterator[Remedy]:
    """Try changes of limits, gangs and nodes; several at once if none is enough alone.

    Args:
        case: The ask.
        first: What is tried before.
    """
    found = False
    for remedy in chain(
        first,
        quota_remedies(case),
        user_limit_remedies(case),
        gang_remedies(case),
        node_remedies(case),
    ):
        # With few enough members a gang starts nearly anywhere: that does not say what it lacks.
        found = found or case.real is None or remedy.kind is not _MIN_MEMBER
        yield remedy
    if not found:
        yield from combined_remedies(case)


def event_like(scheduler: PlainScheduler, app: str, ask: str) -> AddAsk | None:
    """Return an event that adds an ask like one that is there, or None if there is none."""
    key = scheduler.machine.registry.locate(app)
    found = None if key is None else scheduler.machine.view.apps[key].find(ask)
    classes = scheduler.machine.registry.classes.facts()
    return None if found is None else event_of(app, found, classes)
