"""The files of the page: its style, its script, and the libraries that it uses."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from muster.service.access.who import Role
from muster.service.page.assets import assets
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem


async def _file(viewed: Viewed) -> Response:
    name = viewed.in_path("name")
    found = assets().get(name)
    if found is None:
        raise Problem(404, f"there is no file {name[:100]!r}")
    # The address has the digest of the content, so another content has another address.
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found[0], 200, headers, media_type=found[1])


FILES: Final = (Page("GET", "/static/{name:path}", Role.ANYONE, _file),)
"""The files."""
