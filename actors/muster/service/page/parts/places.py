"""Where the page of a list begins, as its address says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from muster.service.problems import Problem
from muster.service.reading.cursors import cursors

if TYPE_CHECKING:
    from muster.service.page.viewed import Viewed


def place_of(viewed: Viewed, listed: str, *types: type) -> tuple[Any, ...] | None:
    """Return the place behind which a page of a list begins; None for the first page.

    Args:
        viewed: The request.
        listed: The name of the list.
        types: The types of the parts of a place.

    Raises:
        Problem: 400 if the cursor is not one of this list.
    """
    written = viewed.text("after")
    if not written:
        return None
    try:
        place = cursors(listed, *types).read(written)
    except ValueError as error:
        raise Problem(400, f"after: {error}") from None
    return cast("tuple[Any, ...]", place)
