"""Replay the beginning of a feed, of which nobody hears, and go on with the state there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from muster.feeds import FeedItem
from muster.replay._plainly import let_in_plainly
from muster_core.coordinator.plain import PlainScheduler
from muster_core.facts import Facts


# COMMAND-16
def begun_at(
    items: Iterator[FeedItem], start_us: int, facts: Facts | None = None
) -> tuple[Facts, Iterator[FeedItem]]:
    """Let in what comes before an instant.

    Args:
        items: The feed.
        start_us: The instant, in microseconds since the start; its events are not let in.
        facts: The state with which the feed begins, or None if it begins with nothing.

    Returns:
        The state at the instant, and the rest of the feed: :func:`replay` decides with them what
        it would have decided from there on.

    Raises:
        FeedError: If the feed cannot be read.
    """
    scheduler = PlainScheduler(facts=facts)
    rest = items
    for item in items:
        if item.at_us >= start_us:
            rest = chain([item], items)
            break
        let_in_plainly(scheduler, item)
        scheduler.announced = []
    if not scheduler.machine.batches and start_us:
        scheduler.settle()  # A state is one after a batch; nothing is decided in this one.
    scheduler.advance(start_us)
    return scheduler.facts(), rest
