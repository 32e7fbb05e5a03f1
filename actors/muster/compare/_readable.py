"""Telling a feed from what is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.feeds import FeedError, FeedItem, Refused


def events_of(items: Iterable[FeedItem], name: str) -> Iterator[FeedItem]:
    """Hand a feed on, unless nothing in it is an event.

    An event that cannot be read is refused, and the others go on. If none can, this is no
    feed: a configuration, maybe.

    Args:
        items: The feed.
        name: Its name, for errors.

    Yields:
        Its items.

    Raises:
        FeedError: At its end, if there was something in it and all of it was refused unread.
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
