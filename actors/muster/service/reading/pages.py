"""Pages: a list of items behind a place, and the cursor of the next page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs

from muster.service.endpoints.columns import Column, row_of
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster_core.structures.steps import Steps

R = TypeVar("R")
T = TypeVar("T")

_A_FEW: Final = 16
"""How many rows are made between two places to pause."""


@final
@attrs.frozen
class Page:
    """A page of a list.

    Attributes:
        items: Its items.
        next: The cursor of the next page; None if this is the last.
    """

    items: Sequence[Mapping[str, object]]
    next: str | None


# LISTS-2
def page_of(
    found: Sequence[T],
    limit: int,
    columns: Iterable[Column[R]],
    row: Callable[[T], R],
    cursor: Callable[[T], str],
) -> Steps[Page]:
    """Return a page.

    Args:
        found: What it begins with, in order; one more than ``limit`` if there is another page.
        limit: How many items it has at most.
        columns: The fields of its items.
        row: Returns what the fields are read from.
        cursor: Returns the cursor behind an item.
    """
    columns = list(columns)
    items: list[Mapping[str, object]] = []
    for piece in in_pieces(found[:limit], _A_FEW):
        yield
        items += [row_of(columns, row(one)) for one in piece]
    more = cursor(found[limit - 1]) if len(found) > limit else None
    return Page(items, more)


def names_behind(names: Iterable[str], behind: str | None, most: int) -> list[str]:
    """Return the first names behind one, in their order.

    Args:
        names: All names, in any order.
        behind: The name, which need not exist any more; None for the first names.
        most: How many at most.
    """
    in_order = sorted(names)
    first = 0 if behind is None else bisect_right(in_order, behind)
    return in_order[first : first + most]
