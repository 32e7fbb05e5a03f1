"""Queues: the tree, and a queue with its applications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.access.who import Role
from muster.service.endpoints.columns import row_of
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster.service.reading.looking import Looking
from muster.service.reading.queues import QUEUES, QueueRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from muster_core.structures.steps import Steps


def _tree(looking: Looking) -> Steps[list[Mapping[str, object]]]:
    rows: list[Mapping[str, object]] = []
    columns = QUEUES.picked(None, single=False)
    for _, entry in sorted(looking.machine.registry.queues.items(), key=_place):
        yield
        rows.append(row_of(columns, QueueRow.of(looking, entry)))
    return rows


def _place(item: tuple[str, object]) -> list[str]:
    return item[0].split(".")


async def _queues(viewed: Viewed) -> Response:
    found = await viewed.moment.seen(_tree)
    return shown(viewed, "queues.html", found=found, rows=found.value)


async def _queue(viewed: Viewed) -> Response:
    path = viewed.in_path("path")

    def read(looking: Looking) -> Steps[Mapping[str, object] | None]:
        yield
        entry = looking.machine.registry.queues.get(path)
        if entry is None:
            return None
        return row_of(QUEUES.picked(None, single=True), QueueRow.of(looking, entry))

    found = await viewed.moment.seen(read)
    if found.value is None:
        raise Problem(404, f"there is no queue {path[:200]!r}")
    return shown(viewed, "queue.html", found=found, queue=found.value)


PAGES: Final = (
    Page("GET", "/queues", Role.READER, _queues),
    Page("GET", "/queues/{path}", Role.READER, _queue),
)
"""The queues."""
