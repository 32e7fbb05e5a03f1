"""Replay a feed up to an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, final

import attrs

from muster.explain._before import first_refusals, learn
from muster.explain._history import History
from muster.feeds import Expect, FeedItem, KeptFeed, Settle
from muster.replay import Remark
from muster.replay._plainly import let_in_plainly
from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Announced, Kind

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_REJECTED: Final = Kind.REJECTED

_TOLD: Final = 10
"""How many refusals are kept with their messages."""


@final
@attrs.frozen
class RefusedSoFar:
    """The events that were refused up to an instant.

    Attributes:
        events: How many events there were, without ``settle`` and ``expect``.
        count: How many of them were refused.
        first: The first refusals, with their messages.
    """

    events: int = 0
    count: int = 0
    first: tuple[Remark, ...] = ()

    @property
    def all(self) -> bool:
        """Whether there were events and all of them were refused."""
        return 0 < self.events == self.count

    def then(self, batch: Sequence[Announced]) -> RefusedSoFar:
        """Return these refusals and those in ``batch``."""
        kinds = (announced.decision for announced in batch)
        refused = [decision for decision in kinds if decision.kind is _REJECTED]
        if not refused:
            return self
        more = [Remark.of(decision) for decision in refused[: _TOLD - len(self.first)]]
        return attrs.evolve(self, count=self.count + len(refused), first=(*self.first, *more))


@final
@attrs.frozen
class Moment:
    """The state at the end of the batch of an instant.

    Attributes:
        scheduler: The scheduler, between two batches.
        at_us: The instant, in microseconds since the start.
        refusals: The events that were refused up to the instant.
        later: The rest of the feed, not read yet.
    """

    scheduler: PlainScheduler
    at_us: int
    refusals: RefusedSoFar
    later: Iterator[FeedItem]


def replay_until(
    items: Iterable[FeedItem],
    at_us: int | None,
    history: History | None = None,
    kept: KeptFeed | None = None,
) -> Moment:
    """Replay a feed up to the end of the batch of an instant.

    Args:
        items: The feed; its instants never go back.
        at_us: The instant, in microseconds since the start; None for that of the last event.
        history: Gets the events and decisions, or None.
        kept: The state directory from which the items come, or None.

    Raises:
        FeedError: If the feed cannot be read up to the instant.
    """
    scheduler = PlainScheduler(facts=None if kept is None else kept.facts)
    rest = iter(items)
    last_us, events, refusals = scheduler.machine.now_us, 0, RefusedSoFar()
    if kept is not None and kept.facts is not None:
        events, refused = kept.facts.coordinator.requests, kept.facts.coordinator.refused
        refusals = RefusedSoFar(0, refused, first_refusals(kept, min(_TOLD, refused)))
        if history is not None:
            learn(kept, history)
    for item in rest:
        if at_us is not None and item.at_us > at_us:
            rest = chain([item], rest)
            break
        if history is not None:
            refusals = _pass_until(scheduler, item.at_us, history, refusals)
        let_in_plainly(scheduler, item)
        events += not isinstance(item.content, Settle | Expect)
        refusals = refusals.then(_heard(scheduler, history))
        if history is not None:
            history.saw(item)
        last_us = item.at_us
    end_us = last_us if at_us is None else at_us
    if history is not None:
        refusals = _pass_until(scheduler, end_us, history, refusals)
    scheduler.settle(end_us)
    refusals = refusals.then(_heard(scheduler, history))
    if history is not None:
        history.heard(())  # The last batch may have no decisions.
    return Moment(scheduler, end_us, attrs.evolve(refusals, events=events), rest)


# OUTLOOK-8
def _pass_until(
    scheduler: PlainScheduler, before_us: int, history: History, refusals: RefusedSoFar
) -> RefusedSoFar:
    """Let time pass up to an instant batch by batch: what was passed is known for one batch."""
    due_us: int | None = scheduler.machine.now_us
    while due_us is not None and due_us < before_us:
        scheduler.pass_until(due_us)
        refusals = refusals.then(_heard(scheduler, history))
        due_us = scheduler.machine.next_deadline_us()
    return refusals


def _heard(scheduler: PlainScheduler, history: History | None) -> Sequence[Announced]:
    """Take the new decisions from the scheduler, and pass them to the history."""
    announced = scheduler.announced
    if announced:
        if history is not None:
            history.heard(announced)
            history.looked(scheduler.machine)
        scheduler.announced = []
    return announced
