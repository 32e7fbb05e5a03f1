"""One feed under two configurations: both sides from one reading of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import tee
from pathlib import Path
from typing import final

import attrs

from muster.compare._readable import events_of
from muster.compare._sides import FeedSide
from muster.feeds import FeedItem, RawEvent, parse
from muster_core.config.model import Configuration


@final
@attrs.frozen
class LeftOut:
    """A ``configure`` event that is left out, as another configuration is in force.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line, from 1, or None where there are none.
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
) -> tuple[FeedSide, FeedSide]:
    """Give the two sides of one feed under two configurations.

    A configuration that is given is in force from the start, and every ``configure`` of the
    feed is left out on that side, good or not: what it would be under this configuration is
    what is asked. The feed is read once, as both sides go on; if nothing in it can be read as an
    event, that is a :class:`muster.feeds.FeedError` at its end.

    Args:
        raws: The feed, from :func:`muster.feeds.read_raw`.
        configurations: One for each side; None for the first: as the feed configures itself.
        name: The name of the feed, for errors.
        base: The folder that ``file`` in a ``configure`` event is relative to; None for the
            working folder.
        left_out: Takes the events that are left out.
    """
    noted: list[LeftOut] = [] if left_out is None else left_out
    mine, theirs = tee(_marked(raws, name, base, noted))
    before, after = configurations
    return (
        FeedSide((item for item, marked in mine if before is None or not marked), before),
        FeedSide((item for item, marked in theirs if not marked), after),
    )


def _marked(
    raws: Iterable[RawEvent], name: str, base: Path | None, noted: list[LeftOut]
) -> Iterator[tuple[FeedItem, bool]]:
    """Parse a feed, and say of each item whether it is a ``configure``."""

    def seen() -> Iterator[RawEvent]:
        for raw in raws:
            value = raw.value
            if isinstance(value, dict) and value.get("op") == "configure":
                partition = value.get("partition")
                named = str(partition) if isinstance(partition, str) else None
                noted.append(LeftOut(raw.index, raw.line, named))
            yield raw

    for item in events_of(parse(seen(), base=base), name):
        yield item, bool(noted) and noted[-1].index == item.index
