"""With what a replay begins: the state at an instant of a feed, or another configuration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from muster.feeds import FeedItem, Settle
from muster.replay._plainly import let_in_plainly
from muster_core.config.model import Configuration
from muster_core.coordinator.plain import PlainScheduler
from muster_core.errors import RefusedError
from muster_core.events import Configure
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


# COMMAND-15, COMMAND-30
def configured(
    items: Iterator[FeedItem], configuration: Configuration, facts: Facts | None = None
) -> tuple[Facts, Iterator[FeedItem]]:
    """Let a configuration be in force from the start of a feed.

    Args:
        items: The feed, which configures nothing itself.
        configuration: The configuration. If the feed begins with a state, it comes in right then,
            in a batch of its own.
        facts: The state with which the feed begins, or None if it begins with nothing.

    Returns:
        The state and the feed to replay.

    Raises:
        RefusedError: If the configuration cannot replace the one of the state.
    """
    if facts is None:
        return PlainScheduler(configuration).facts(), items
    scheduler = PlainScheduler(facts=facts)
    scheduler.submit(Configure(configuration))
    refusal = scheduler.machine.refusal_of(scheduler.machine.entered)
    if refusal is not None:
        raise RefusedError(refusal)
    at_us, index = facts.coordinator.now_us, max(facts.coordinator.requests - 1, 0)
    begun = (
        FeedItem(index, None, at_us, Configure(configuration)),
        FeedItem(index, None, at_us, Settle()),
    )
    return facts, chain(begun, items)
