"""The files of the page: its style, its script, and the libraries that it uses."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from muster.service.access.who import Role
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

_MEDIA: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_FOLDERS: Final = (("", ()), ("vendor/", ("vendor",)))


@lru_cache(maxsize=1)
def _contents() -> Mapping[str, tuple[bytes, str]]:
    """Return all files by name, with their media types."""
    folder = files("muster.service.page").joinpath("static")
    return {
        f"{prefix}{one.name}": (one.read_bytes(), media)
        for prefix, below in _FOLDERS
        for one in folder.joinpath(*below).iterdir()
        for suffix, media in _MEDIA.items()
        if one.name.endswith(suffix)
    }


async def _file(viewed: Viewed) -> Response:
    name = viewed.in_path("name")
    found = _contents().get(name)
    if found is None:
        raise Problem(404, f"there is no file {name[:100]!r}")
    # The address has the digest of the content, so another content has another address.
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found[0], 200, headers, media_type=found[1])


FILES: Final = (Page("GET", "/static/{name:path}", Role.ANYONE, _file),)
"""The files."""
