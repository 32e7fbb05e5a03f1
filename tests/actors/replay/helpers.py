"""Feeds as they stand in a test."""

from __future__ import annotations

import io

from muster.feeds import FeedItem, read_feed
from muster.replay import Tally, replay


def items(text: str) -> list[FeedItem]:
    """Read a feed in YAML."""
    return list(read_feed(io.BytesIO(text.encode())))


async def tally_of(text: str, *, until_us: int | None = None, strict: bool = False) -> Tally:
    """Replay a feed in YAML and count."""
    tally = Tally()
    await replay(items(text), tally=tally, until_us=until_us, strict=strict)
    tally.check()
    return tally
