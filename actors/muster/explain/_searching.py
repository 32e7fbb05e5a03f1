"""The search for what would help an ask, from a state and without a feed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import final

from muster.explain._remedies.case import Case
from muster.explain._remedies.combined import combined_remedies
from muster.explain._remedies.estimates import estimate_remedies
from muster.explain._remedies.gangs import gang_remedies
from muster.explain._remedies.nodes import node_remedies
from muster.explain._remedies.orders import ask_remedies, order_remedies
from muster.explain._remedies.quotas import quota_remedies
from muster.explain._remedies.remedy import Remedy
from muster.explain._remedies.user_limits import user_limit_remedies
from muster.explain._trials import Trials
from muster.replay import event_of
from muster_core.coordinator.plain import PlainScheduler
from muster_core.events import AddAsk
from muster_core.reasons import Explanation


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

    @property
    def made(self) -> int:
        """How many trials were made so far."""
        return self._trials.made

    @property
    def exhausted(self) -> bool:
        """Whether no more trials are allowed, because the state is large."""
        return self._trials.exhausted

    def __iter__(self) -> Iterator[Remedy]:
        """Search, and yield the remedies."""
        case = self._case
        found = False
        for remedy in chain(
            estimate_remedies(case),
            order_remedies(case),
            quota_remedies(case),
            user_limit_remedies(case),
            gang_remedies(case),
            node_remedies(case),
        ):
            found = True
            yield remedy
        if not found:
            yield from combined_remedies(case)
        yield from ask_remedies(case)


def event_like(scheduler: PlainScheduler, app: str, ask: str) -> AddAsk | None:
    """Return an event that adds an ask like one that is there, or None if there is none."""
    key = scheduler.machine.registry.locate(app)
    found = None if key is None else scheduler.machine.view.apps[key].find(ask)
    classes = scheduler.machine.registry.classes.facts()
    return None if found is None else event_of(app, found, classes)
