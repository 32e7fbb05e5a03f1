"""What a feed comes to: a sequence of items, each at its instant."""

from __future__ import annotations

from typing import TypeAlias, final

import attrs

from muster.feeds._expect import Expect
from muster_core.events import Event


@final
@attrs.frozen
class Settle:
    """The batch is closed, and the rounds run."""


@final
@attrs.frozen
class Refused:
    """What stands there is no event; the state is as if it had not come.

    Attributes:
        message: Names the field as it is written, and the offending value.
    """

    message: str


Content: TypeAlias = Event | Settle | Expect | Refused
"""What an item can be."""


@final
@attrs.frozen
class FeedItem:
    """One event of a feed, in typed form.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line in the feed, from 1, or None where there are none.
        at_us: Its instant, in microseconds since the start; never before the one before it.
        content: What it is.
    """

    index: int
    line: int | None
    at_us: int
    content: Content
