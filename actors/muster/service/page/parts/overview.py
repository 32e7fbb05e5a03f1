"""The overview: is it healthy, how full is it, what waits, what was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.access.who import Role
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.reading.looking import Looking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from muster_core.structures.steps import Steps


@final
@attrs.frozen
class _State:
    """What the overview shows of the state."""

    nodes: int
    apps: int
    capacity: Mapping[str, int]
    used: Mapping[str, int]


def _read(looking: Looking) -> Steps[_State]:
    yield
    root = looking.view.queues.get(looking.machine.registry.queues["root"].key)
    capacity: dict[str, int] = {}
    for entry in looking.ledger.book.nodes.values():
        for kind, amount in entry.event.capacity.amounts.items():
            capacity[kind] = capacity.get(kind, 0) + amount
    return _State(
        nodes=len(looking.ledger.book.nodes),
        apps=len(looking.ledger.book.apps),
        capacity=capacity,
        used={} if root is None else dict(root.usage()),
    )


async def _overview(viewed: Viewed) -> Response:
    found = await viewed.moment.seen(_read)
    return shown(viewed, "overview.html", found=found, state=found.value)


PAGES: Final = (Page("GET", "/", Role.READER, _overview),)
"""The overview."""
