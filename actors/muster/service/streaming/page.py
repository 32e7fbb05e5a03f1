"""A page of decisions as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

if TYPE_CHECKING:
    from muster._runtime.clients.observers import Filter
    from muster.service.streaming.cursor import Cursor

_PAGE_BYTES: Final = 16 * 1024 * 1024
"""After how many bytes a page ends."""

_PAGE_DECISIONS: Final = 200_000
"""After how many decisions a page ends that a filter did not let through, too."""


@final
@attrs.frozen
class Page:
    """Some decisions.

    Attributes:
        lines: Their lines.
        position: The number of the last decision that was looked at.
        is_last: Whether nothing follows that was announced when the page was begun.
    """

    lines: list[bytes]
    position: int
    is_last: bool


# STREAM-1
async def read_page(cursor: Cursor, wanted: Filter | None, end: int, limit: int) -> Page:
    """Read a page of decisions.

    Args:
        cursor: Where it begins.
        wanted: Which decisions are wanted; None for all.
        end: The number of the last decision that may be on it.
        limit: How many decisions there are on it at most.

    Raises:
        Gone: If decisions are not kept any more.
        StoreError: If the store cannot be read.
    """
    lines: list[bytes] = []
    size, begin = 0, cursor.position
    while (
        cursor.position < end
        and len(lines) < limit
        and size < _PAGE_BYTES
        and cursor.position - begin < _PAGE_DECISIONS
    ):
        block = await cursor.next()
        if block is None:
            break
        places, cursor.position = block.choose(cursor.position, end, wanted, limit - len(lines))
        some = block.lines_at(places)
        lines += some
        size += sum(map(len, some))
    return Page(lines, cursor.position, cursor.position >= end)
