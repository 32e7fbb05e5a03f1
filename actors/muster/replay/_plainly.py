"""Submit the items of a feed to a scheduler without tasks, for code that needs only decisions."""

from __future__ import annotations

from muster.feeds import Expect, FeedItem, Refused, Settle
from muster_core.coordinator.plain import PlainScheduler


def let_in_plainly(scheduler: PlainScheduler, item: FeedItem) -> None:
    """Submit an item to a scheduler; an ``expect`` only closes the batch, as a ``settle`` does."""
    match item.content:
        case Settle() | Expect():
            scheduler.settle(item.at_us)
        case Refused(message):
            scheduler.submit(message, item.at_us, item.index, item.line)
        case event:
            scheduler.submit(event, item.at_us, item.index, item.line)
