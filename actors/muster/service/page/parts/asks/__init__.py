"""Asks, applications and gangs: finding them, and one of them with its history.

An ask says all reasons why it is not running and what would help; a gang sums up its members'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.page.parts.asks import apps, gang, gangs, helping, listing, output, single

if TYPE_CHECKING:
    from muster.service.page.viewed import Page

PAGES: Final[tuple[Page, ...]] = (
    *listing.PAGES,
    *single.PAGES,
    *helping.PAGES,
    *output.PAGES,
    *apps.PAGES,
    *gangs.PAGES,
    *gang.PAGES,
)
"""The pages of asks, applications and gangs."""
