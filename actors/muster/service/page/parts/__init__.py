"""The parts of the page: overview, queues, asks and gangs, nodes, configuration, time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.page.parts import (
    applying,
    asks,
    configuring,
    nodes,
    overview,
    queues,
    time,
)

if TYPE_CHECKING:
    from muster.service.page.viewed import Page

PARTS: Final[tuple[Page, ...]] = (
    *overview.PAGES,
    *queues.PAGES,
    *nodes.PAGES,
    *configuring.PAGES,
    *applying.PAGES,
    *asks.PAGES,
    *time.PAGES,
)
"""All parts."""
