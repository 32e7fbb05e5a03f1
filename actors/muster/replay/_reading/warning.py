"""A warning about a feed."""

from __future__ import annotations

from typing import final

import attrs


@final
@attrs.frozen
class FeedWarning:
    """A warning about a feed.

    Attributes:
        file: The file of the configuration that it is about; None if it is about the feed itself.
        index: The index of the event, from 0, or None if no single event brought it.
        line: The line in the file or in the feed, from 1, or None if it is not known.
        path: The path of the field, or an empty text.
        message: The message.
    """

    file: str | None
    index: int | None
    line: int | None
    path: str
    message: str
