"""All parts of the page, with their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.page.parts import applying, configuring, overview, users
from muster.service.page.parts.asks import (
    apps,
    gang,
    gangs,
    helping,
    listing,
    output,
    single,
    starting,
)
from muster.service.page.parts.nodes import every as nodes, one as node
from muster.service.page.parts.queues import one as queue, tree
from muster.service.page.parts.time import going, page

if TYPE_CHECKING:
    from muster.service.page.viewed import Page

PARTS: Final[tuple[Page, ...]] = (
    *overview.PAGES,
    *tree.PAGES,
    *queue.PAGES,
    *nodes.PAGES,
    *node.PAGES,
    *users.PAGES,
    *configuring.PAGES,
    *applying.PAGES,
    *listing.PAGES,
    *single.PAGES,
    *helping.PAGES,
    *starting.PAGES,
    *output.PAGES,
    *apps.PAGES,
    *gangs.PAGES,
    *gang.PAGES,
    *page.PAGES,
    *going.PAGES,
)
"""All parts."""
