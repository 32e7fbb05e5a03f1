"""A feed up to an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import final

import attrs

from muster.explain._history import History
from muster.explain._trials import let_in
from muster.feeds import FeedItem
from muster_core.plain import PlainScheduler


@final
@attrs.frozen
class Moment:
    """The end of the batch of an instant.

    Attributes:
        scheduler: The scheduler, between two batches.
        at_us: The instant, in microseconds since the start.
        later: What the feed goes on with, not read yet.
    """

    scheduler: PlainScheduler
    at_us: int
    later: Iterator[FeedItem]


def replay_until(
    items: Iterable[FeedItem], at_us: int | None, history: History | None = None
) -> Moment:
    """Replay a feed up to the end of the batch of an instant.

    Args:
        items: The feed; its instants never go back.
        at_us: The instant, in microseconds since the start; None for that of the last event.
        history: Follows an ask.

    Raises:
        FeedError: If the feed cannot be read on before that.
    """
    scheduler = PlainScheduler()
    rest = iter(items)
    last_us = 0
    for item in rest:
        if at_us is not None and item.at_us > at_us:
            rest = chain([item], rest)
            break
        let_in(scheduler, item)
        _announce(scheduler, history)
        if history is not None:
            history.saw(item)
        last_us = item.at_us
    end_us = last_us if at_us is None else at_us
    scheduler.settle(end_us)
    if history is not None:
        history.heard(scheduler.announced)
    scheduler.announced = []
    return Moment(scheduler, end_us, rest)


def _announce(scheduler: PlainScheduler, history: History | None) -> None:
    """Hand on what was announced, and keep none of it: a feed may be long."""
    if scheduler.announced:
        if history is not None:
            history.heard(scheduler.announced)
        scheduler.announced = []
