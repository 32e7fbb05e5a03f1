"""Items: the events of a feed in typed form, each with its instant."""

from __future__ import annotations

from typing import TypeAlias, final

import attrs

from muster.feeds._expect import Expect
from muster_core.events import Event


@final
@attrs.frozen
class Settle:
    """An event that closes the batch, so that the rounds run."""


@final
@attrs.frozen
class Refused:
    """An event that is invalid; it does not change the state.

    Attributes:
        message: Names the field as written, and the invalid value.
    """

    message: str


Content: TypeAlias = Event | Settle | Expect | Refused
"""The content of an item."""


@final
@attrs.frozen
class FeedItem:
    """One event of a feed, in typed form.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line in the feed, from 1, or None if the encoding has no lines.
        at_us: Its instant, in microseconds since the start; not before that of the previous item.
        content: The event itself.
    """

    index: int
    line: int | None
    at_us: int
    content: Content
