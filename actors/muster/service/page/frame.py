"""What every page needs besides its content: login, static files, and live updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import trio
from starlette.responses import RedirectResponse, Response
from typing_extensions import override

from muster.service.access import Role
from muster.service.page.renderer import HEADERS, assets, plain_page
from muster.service.page.requests import Page, PageRequest
from muster.service.payloads import Problem
from muster.service.streams import EVENT_STREAM, HEARTBEAT_S, Broadcast, LongResponse

if TYPE_CHECKING:
    from starlette.types import Send


async def _form(viewed: PageRequest) -> Response:
    return plain_page("login.html", 200, {}, wanted=local_path(viewed.text("wanted")), wrong="")


# PAGE-2
async def _log_in(viewed: PageRequest) -> Response:
    """Begin a session for whoever has a token."""
    form = await viewed.form()
    wanted = local_path(form.text("wanted"))
    who = viewed.service.access.holder(form.text("token").strip())
    if who is None:
        told = "this token is unknown, or no longer valid"
        return plain_page("login.html", 403, {}, wanted=wanted, wrong=told)
    response = RedirectResponse(wanted, 303, HEADERS)
    is_secure = viewed.request.url.scheme == "https"
    viewed.service.sessions.begin(who, response, is_secure=is_secure)
    return response


async def _log_out(viewed: PageRequest) -> Response:
    response = RedirectResponse("/login", 303, HEADERS)
    viewed.service.sessions.end(viewed.request, response)
    return response


def local_path(path: str) -> str:
    """Return a path of this service, and nothing that leads to another."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local else "/"


# A form of a page that nobody has logged in to needs no proof: who forges it has a token anyway,
# and the cookie of a session is not sent with a form of another web site.
LOGIN: Final = (
    Page("GET", "/login", Role.ANYONE, _form),
    Page("POST", "/login", Role.ANYONE, _log_in),
    Page("POST", "/logout", Role.ANYONE, _log_out),
)
"""The pages to log in and out."""


async def _file(viewed: PageRequest) -> Response:
    name = viewed.in_path("name")
    found = assets().get(name)
    if found is None:
        raise Problem(404, f"there is no file {name[:100]!r}")
    # The address has the digest of the content, so another content has another address.
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found[0], 200, headers, media_type=found[1])


FILES: Final = (Page("GET", "/static/{name:path}", Role.ANYONE, _file),)
"""The files."""


PAUSE_S: Final = 0.5
"""How often a page is told at most, in seconds."""


# PAGE-4, PAGE-68
@final
class LiveUpdates(LongResponse):
    """The response that tells whenever there are new decisions: server-sent events, without an end.

    It says only how far the batches have come; a page then fetches itself again.

    Args:
        broadcast: The latest decisions.
    """

    def __init__(self, broadcast: Broadcast) -> None:
        super().__init__(broadcast, EVENT_STREAM, {"Cache-Control": "no-store"})

    @override
    async def _follow(self, send: Send) -> bytes:
        """Tell until the service ends."""
        tail = self._broadcast.tail
        while not tail.is_over:
            batch, told_at = tail.batch, trio.current_time()
            await self._push(send, f"event: decided\ndata: {batch}\n\n".encode())
            await self._wait(batch, told_at + HEARTBEAT_S)
            await trio.sleep_until(told_at + PAUSE_S)
        return b""

    async def _wait(self, batch: int, until: float) -> None:
        """Wait for another batch, until some time at most.

        An ask that has to wait changes what is shown, though nothing is decided about it.
        """
        tail = self._broadcast.tail
        while tail.batch == batch and not tail.is_over and trio.current_time() < until:
            with trio.move_on_after(PAUSE_S):
                await tail.wait(tail.last)


async def _live(viewed: PageRequest) -> Response:
    viewed.service.broadcast.check_room()
    return LiveUpdates(viewed.service.broadcast)


LIVE: Final = (Page("GET", "/live", Role.READER, _live),)
"""The stream that keeps pages up to date."""
