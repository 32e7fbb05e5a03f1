"""Detect files that are not feeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.feeds import FeedError, FeedItem, Refused


def events_of(items: Iterable[FeedItem], name: str) -> Iterator[FeedItem]:
    """Yield the items of a feed; raise an error at its end if none of them is a valid event.

    A single event that cannot be read is refused. If no event can be read, the file is no feed,
    but perhaps a configuration.

    Args:
        items: The feed.
        name: Its name, for errors.

    Yields:
        Its items.

    Raises:
        FeedError: At its end, if it is not empty and all its items are refused.
    """
    first: FeedItem | None = None
    is_feed = False
    for item in items:
        if not isinstance(item.content, Refused):
            is_feed = True
        elif first is None:
            first = item
        yield item
    if is_feed or first is None or not isinstance(first.content, Refused):
        return
    place = "" if first.line is not None else f"event {first.index}: "
    problem = f"{place}{first.content.message}; nothing in it can be read as an event"
    raise FeedError(name, problem, first.line)
