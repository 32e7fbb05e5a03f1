"""The output of the command of an ask: its last lines on the page of the ask, and all of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import trio

from muster.service.access.who import Role
from muster.service.api.logs import written_by
from muster.service.local.following import Output
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response

_LAST_BYTES: Final = 16 * 1024
"""How much of the end is shown, in bytes."""

_HIGHEST: Final = 999_999_999


# PAGE-45
async def _tail(viewed: Viewed) -> Response:
    """Show the end of the output."""
    app, name = viewed.in_path("app"), viewed.in_path("ask")
    try:
        written = await written_by(viewed.service, app, name, None)
    except Problem as problem:
        # PAGE-86
        earlier = cast("list[int]", problem.members.get("earlier") or [])
        others = [(number, True) for number in reversed(earlier)]
        return shown(viewed, "output.html", written=None, told=problem.detail, others=others)
    text, cut = await trio.to_thread.run_sync(_end_of, written.file)
    others = [*written.others]
    return shown(viewed, "output.html", written=written, text=text, cut=cut, told="", others=others)


def _end_of(file: Path) -> tuple[str, int]:
    """Return the end of a file, and how many bytes are before it."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:  # it was removed with history
        return "", 0
    try:
        begin = max(os.fstat(descriptor).st_size - _LAST_BYTES, 0)
        read = os.pread(descriptor, _LAST_BYTES, begin)
    finally:
        os.close(descriptor)
    return read.decode(errors="replace"), begin


# PAGE-45
async def _whole(viewed: Viewed) -> Response:
    """Send all of the output as text."""
    app, name = viewed.in_path("app"), viewed.in_path("ask")
    attempt = viewed.number("attempt", 0, 0, _HIGHEST) or None
    written = await written_by(viewed.service, app, name, attempt)
    viewed.service.broadcast.check_room()
    return Output(written, viewed.service.broadcast, follows=False)


PAGES: Final = (
    Page("GET", "/asks/{app}/{ask}/output", Role.READER, _tail),
    Page("GET", "/asks/{app}/{ask}/output.txt", Role.READER, _whole),
)
"""The output of asks."""
