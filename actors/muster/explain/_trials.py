"""Trials: submit events to copies of a state, and see whether an ask is bound.

The core is pure, so its state can be copied. The events are parsed like those of a feed: a user
who adds them to the feed gets the same result.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Final, final

from muster.explain._writing import Written, settle
from muster.feeds import RawEvent, Refused, parse
from muster.replay._plainly import let_in_plainly
from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Kind, Reason
from muster_core.snapshots import AskPlace

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_REJECTED: Final = Kind.REJECTED
_BOUND: Final = AskPlace.BOUND

MOST: Final = 1_000
"""The most trials, however small the state is."""

_LEAST: Final = 30
"""How many trials are allowed, however large the state is."""

_BYTES: Final = 500_000_000
"""How many bytes all trials may copy, if that is more than :data:`_LEAST` trials."""

_TO_OTHERS: Final = {Reason.RECLAIMED, Reason.PREEMPTED, Reason.DEADLOCK}


# COMMAND-4
@final
class Trials:
    """Tries events on copies of a state.

    Args:
        scheduler: The scheduler, between two batches; it does not change.
        at_us: The instant of the trials, in microseconds.
        app: The application of the ask that is to be bound.
        ask: Its name.
        most: The most trials; fewer if the state is large.
    """

    def __init__(
        self, scheduler: PlainScheduler, at_us: int, app: str, ask: str, most: int = MOST
    ) -> None:
        self._state = pickle.dumps(scheduler, pickle.HIGHEST_PROTOCOL)
        self._at_us = at_us
        self._app, self._ask = app, ask
        self._left = min(most, max(_LEAST, _BYTES // len(self._state)))
        #: How many trials were made.
        self.made = 0

    @property
    def exhausted(self) -> bool:
        """Whether no more trials are allowed, because they would take too long."""
        return self.made >= self._left

    def copy(self) -> PlainScheduler:
        """Return a new copy of the state."""
        copied = pickle.loads(self._state)
        assert isinstance(copied, PlainScheduler)
        return copied

    def put_first(self, events: Sequence[Written]) -> tuple[Written, ...]:
        """Return events as a user adds them to the feed: in a batch of their own."""
        return (settle(self._at_us), *events)

    def after(self, events: Sequence[Written]) -> PlainScheduler | None:
        """Submit events to a copy.

        Args:
            events: The events, as written in a feed.

        Returns:
            The copy after their batch; None if one of them is refused, or no more trials are
            allowed.
        """
        if self.exhausted:
            return None
        self.made += 1
        scheduler = self.copy()
        for item in parse(
            RawEvent(index, None, event) for index, event in enumerate(self.put_first(events))
        ):
            if isinstance(item.content, Refused):
                return None
            let_in_plainly(scheduler, item)
        scheduler.settle(self._at_us)
        kinds = {announced.decision.kind for announced in scheduler.announced}
        return None if _REJECTED in kinds else scheduler

    def node_after(self, events: Sequence[Written]) -> str | None:
        """Return the node on which the ask is bound at once after these events, or None."""
        scheduler = self.after(events)
        return None if scheduler is None else node_of(scheduler, self._app, self._ask)

    def bind(self, events: Sequence[Written]) -> bool:
        """Return whether the ask is bound at once after these events."""
        return self.node_after(events) is not None


def evicted_in(scheduler: PlainScheduler) -> tuple[str, ...]:
    """Return the asks that lost their nodes to other asks in a trial, as ``app/ask``."""
    lost = (announced.decision for announced in scheduler.announced)
    return tuple(f"{one.app}/{one.ask}" for one in lost if one.reason in _TO_OTHERS)


def node_of(scheduler: PlainScheduler, app: str, ask: str) -> str | None:
    """Return the node on which an ask is bound, or None."""
    found = scheduler.app(app)
    for one in () if found is None else found.asks:
        if one.name == ask and one.place is _BOUND:
            return one.node
    return None
