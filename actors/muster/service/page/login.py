"""Logging in with a token, and out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse

from muster.service.access.who import Role
from muster.service.page.rendering import HEADERS, plain_page
from muster.service.page.viewed import Page, Viewed

if TYPE_CHECKING:
    from starlette.responses import Response


async def _form(viewed: Viewed) -> Response:
    return plain_page("login.html", 200, {}, wanted=local(viewed.text("wanted")), wrong="")


# PAGE-2
async def _log_in(viewed: Viewed) -> Response:
    """Begin a session for whoever has a token."""
    form = await viewed.form()
    wanted = local(form.text("wanted"))
    who = viewed.service.access.holder(form.text("token").strip())
    if who is None:
        told = "this token is unknown, or no longer valid"
        return plain_page("login.html", 403, {}, wanted=wanted, wrong=told)
    response = RedirectResponse(wanted, 303, HEADERS)
    is_secure = viewed.request.url.scheme == "https"
    viewed.service.sessions.begin(who, response, is_secure=is_secure)
    return response


async def _log_out(viewed: Viewed) -> Response:
    response = RedirectResponse("/login", 303, HEADERS)
    viewed.service.sessions.end(viewed.request, response)
    return response


def local(path: str) -> str:
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
