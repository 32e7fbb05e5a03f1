"""Read one feed once for two sides with different configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import tee
from pathlib import Path
from typing import final

import attrs

from muster.compare._readable import events_of
from muster.compare._sides import FeedSide
from muster.feeds import FeedItem, FeedOrigin, KeptFeed, RawEvent, parse
from muster_core.config.model import Configuration
from muster_core.events import Configure


@final
@attrs.frozen
class LeftOut:
    """A ``configure`` event that is left out because another configuration is in force.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line, from 1, or None if the encoding has no lines.
        partition: The partition that it names, or None.
    """

    index: int
    line: int | None
    partition: str | None


def sides_of(
    raws: Iterable[RawEvent],
    configurations: tuple[Configuration | None, Configuration],
    *,
    name: str = "the feed",
    base: Path | None = None,
    left_out: list[LeftOut] | None = None,
    origin: FeedOrigin | None = None,
) -> tuple[FeedSide, FeedSide]:
    """Return the two sides of one feed under two configurations.

    A given configuration is in force from the start. Every ``configure`` event of the feed is
    then left out on that side, valid or not, because it would replace this configuration. The
    feed is read once, while both sides advance. If none of it can be read as an event, reading
    its end raises a :class:`muster.feeds.FeedError`.

    Args:
        raws: The feed, from :func:`muster.feeds.read_raw`.
        configurations: One for each side. If the first is None, the feed configures that side.
        name: The name of the feed, for errors.
        base: The folder to which ``file`` in a ``configure`` event is relative; None for the
            working folder.
        left_out: Gets the events that are left out.
        origin: Gets the origin of time of the feed, or None.
    """
    noted: list[LeftOut] = [] if left_out is None else left_out
    mine, theirs = tee(_marked(raws, name, base, noted, origin))
    before, after = configurations
    return (
        FeedSide((item for item, marked in mine if before is None or not marked), before),
        FeedSide((item for item, marked in theirs if not marked), after),
    )


# COMMAND-15
def sides_of_kept(
    kept: KeptFeed,
    configurations: tuple[Configuration | None, Configuration],
    left_out: list[LeftOut],
) -> tuple[FeedSide, FeedSide]:
    """Return the two sides of a state directory under two configurations.

    If it begins with a checkpoint, both sides do, and a given configuration comes in right then.

    Args:
        kept: The state directory.
        configurations: As for :func:`sides_of`.
        left_out: Gets the ``configure`` events that are left out.

    Raises:
        RefusedError: If a configuration cannot replace the one that is in force at the beginning.
    """
    before, after = configurations
    mine, theirs = tee(_noted(kept.items(), left_out))
    return (
        FeedSide(mine if before is None else _others(mine), before, kept.facts),
        FeedSide(_others(theirs), after, kept.facts),
    )


def _noted(items: Iterable[FeedItem], noted: list[LeftOut]) -> Iterator[FeedItem]:
    for item in items:
        if isinstance(item.content, Configure):
            noted.append(LeftOut(item.index, item.line, item.content.config.partition))
        yield item


def _others(items: Iterable[FeedItem]) -> Iterator[FeedItem]:
    return (item for item in items if not isinstance(item.content, Configure))


def _marked(
    raws: Iterable[RawEvent],
    name: str,
    base: Path | None,
    noted: list[LeftOut],
    origin: FeedOrigin | None,
) -> Iterator[tuple[FeedItem, bool]]:
    """Parse a feed; yield each item, and whether it is a ``configure``."""

    def seen() -> Iterator[RawEvent]:
        for raw in raws:
            value = raw.value
            if isinstance(value, dict) and value.get("op") == "configure":
                partition = value.get("partition")
                named = str(partition) if isinstance(partition, str) else None
                noted.append(LeftOut(raw.index, raw.line, named))
            yield raw

    for item in events_of(parse(seen(), base=base, origin=origin), name):
        yield item, bool(noted) and noted[-1].index == item.index
