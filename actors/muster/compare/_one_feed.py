"""Read one feed once for several sides with different configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    configurations: Sequence[Configuration | None],
    *,
    name: str = "the feed",
    base: Path | None = None,
    left_out: list[LeftOut] | None = None,
    origin: FeedOrigin | None = None,
) -> tuple[FeedSide, ...]:
    """Return the sides of one feed under several configurations.

    A given configuration is in force from the start. Every ``configure`` event of the feed is
    then left out on that side, valid or not, because it would replace this configuration. The
    feed is read once, while all sides advance. If none of it can be read as an event, reading
    its end raises a :class:`muster.feeds.FeedError`.

    Args:
        raws: The feed, from :func:`muster.feeds.read_raw`.
        configurations: One for each side; None where the feed configures it.
        name: The name of the feed, for errors.
        base: The folder to which ``file`` in a ``configure`` event is relative; None for the
            working folder.
        left_out: Gets the events that are left out.
        origin: Gets the origin of time of the feed, or None.
    """
    noted: list[LeftOut] = [] if left_out is None else left_out
    copies = tee(_marked(raws, name, base, noted, origin), len(configurations))

    def side(
        configuration: Configuration | None, copy: Iterator[tuple[FeedItem, bool]]
    ) -> FeedSide:
        keeps = configuration is None
        return FeedSide((item for item, marked in copy if keeps or not marked), configuration)

    return tuple(map(side, configurations, copies))


# COMMAND-30
def unconfigured(
    raws: Iterable[RawEvent],
    *,
    name: str,
    base: Path | None,
    left_out: list[LeftOut],
    origin: FeedOrigin,
) -> Iterator[FeedItem]:
    """Yield a feed without its ``configure`` events; see :func:`sides_of`."""
    return (item for item, marked in _marked(raws, name, base, left_out, origin) if not marked)


# COMMAND-15
def sides_of_kept(
    kept: KeptFeed,
    configurations: Sequence[Configuration | None],
    left_out: list[LeftOut],
) -> tuple[FeedSide, ...]:
    """Return the sides of a state directory under several configurations.

    If it begins with a checkpoint, all sides do, and a given configuration comes in right then.

    Args:
        kept: The state directory.
        configurations: As for :func:`sides_of`.
        left_out: Gets the ``configure`` events that are left out.

    Raises:
        RefusedError: If a configuration cannot replace the one that is in force at the beginning.
    """
    copies = tee(noting(kept.items(), left_out), len(configurations))
    return tuple(
        FeedSide(copy if one is None else others(copy), one, kept.facts)
        for one, copy in zip(configurations, copies, strict=True)
    )


def noting(items: Iterable[FeedItem], noted: list[LeftOut]) -> Iterator[FeedItem]:
    """Yield all items, and note those that configure."""
    for item in items:
        if isinstance(item.content, Configure):
            noted.append(LeftOut(item.index, item.line, item.content.config.partition))
        yield item


def others(items: Iterable[FeedItem]) -> Iterator[FeedItem]:
    """Yield the items that do not configure."""
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
