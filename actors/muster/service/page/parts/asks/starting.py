"""When an ask starts, as a copy of the state that runs on says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.access.who import Role
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster.service.reading.foretelling import foretell

if TYPE_CHECKING:
    from starlette.responses import Response


# PAGE-80
async def _starts(viewed: Viewed) -> Response:
    """Foretell when an ask starts, which takes up to some ten seconds."""
    app, name = viewed.in_path("app"), viewed.in_path("ask")
    if viewed.moment.is_past:
        raise Problem(409, "the start of an ask is forecast in the present only")
    try:
        found = await foretell(viewed.service, app, name)
    except Problem as problem:
        told = problem.detail
        return shown(viewed, "starts.html", app=app, name=name, told=told, found=None)
    return shown(viewed, "starts.html", app=app, name=name, told="", found=found)


PAGES: Final = (Page("GET", "/asks/{app}/{ask}/starts", Role.READER, _starts),)
"""When an ask starts."""
