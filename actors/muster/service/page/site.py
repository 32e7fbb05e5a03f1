"""The routes of the page: who may, what forms must prove, and errors as pages."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

import attrs

from muster.service.access.sessions import Session, Sessions
from muster.service.access.who import NOBODY, WHO, OpenAccess, Role
from muster.service.endpoints.paths import routes_by_path
from muster.service.endpoints.routing import problem_of
from muster.service.page.absent import absent, thing_of
from muster.service.page.files import FILES
from muster.service.page.live import LIVE
from muster.service.page.login import LOGIN
from muster.service.page.moment import Moment, moment_of, present_of
from muster.service.page.pace import PAUSE, pause_ms
from muster.service.page.parts.table import PARTS
from muster.service.page.rendering import plain_page, shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from muster.service.access.who import Who
    from muster.service.state import Service

_LOG: Final = logging.getLogger("muster.service")

PAGES: Final[tuple[Page, ...]] = (*PARTS, *LIVE, *LOGIN, *FILES)
"""All pages, and what their forms do."""


def page_routes(service: Callable[[], Service]) -> list[BaseRoute]:
    """Return the routes of the page.

    Args:
        service: Returns the running service.
    """
    return routes_by_path(service, PAGES, _answered)


async def _answered(service: Service, page: Page, request: Request) -> Response:
    """Return the response to a request, whatever happens."""
    viewed: Viewed | None = None
    try:
        who, session = _session_of(service, page, request)
        request.scope[WHO] = who
        # What is wrong with the moment is told on a page of the present.
        moment, batch = Moment(service, request), service.broadcast.tail.batch
        viewed = Viewed(service, request, who, session, moment, batch)
        if who.role < page.role:
            needed = page.role.name.lower()
            has = f"{who.name!r} has the role {who.role.name.lower()}"
            raise Problem(403, f"this needs the role {needed}; {has}")
        is_form = page.method != "GET" and page.role is not Role.ANYONE
        if is_form and not _is_proved(request, session):
            return _outdated(viewed)
        if page.role is not Role.ANYONE:
            viewed = attrs.evolve(viewed, moment=await present_of(service, request))
            viewed = attrs.evolve(viewed, moment=await moment_of(service, request))
        began_s = time.thread_time()
        response = await _handled(page, viewed)
        if viewed.is_part:
            response.headers[PAUSE] = str(pause_ms(time.thread_time() - began_s))
        return response
    except Problem as problem:
        service.usage.refusals.note(problem)
        return _told(service, viewed, request, problem)
    except MusterError as error:
        return _told(service, viewed, request, problem_of(error))
    except Exception:  # noqa: BLE001 - a bug in one page must not end the service
        _LOG.exception("%s %s", request.method, request.url.path)
        bug = Problem(500, "the service has a bug here; its log says more")
        return _told(service, viewed, request, bug)


# PAGE-69
async def _handled(page: Page, viewed: Viewed) -> Response:
    """Return the page; where what it is about is not there, when it was."""
    try:
        return await page.handler(viewed)
    except Problem as problem:
        moment, thing = viewed.moment, thing_of(page.path, viewed.request.path_params)
        # A page that follows what is decided would look through the history again and again.
        is_asked = moment.kept is not None and (moment.is_past or not viewed.is_part)
        if problem.status != 404 or thing is None or not is_asked:
            raise
        viewed.service.usage.refusals.note(problem)
        return await absent(viewed, thing, problem)


# PAGE-2
def _session_of(service: Service, page: Page, request: Request) -> tuple[Who, Session]:
    """Return who sends a request, and in which session.

    Raises:
        Problem: 401 if a token is needed, and the browser has not logged in.
    """
    sessions: Sessions = service.sessions
    if page.role is Role.ANYONE:
        return NOBODY, sessions.of(request, service.access) or sessions.without(NOBODY)
    if isinstance(service.access, OpenAccess) or "authorization" in request.headers:
        who = service.access.who(request)
        return who, sessions.without(who)
    session = sessions.of(request, service.access)
    if session is None:
        service.access.who(request)  # Says that a token is missing.
        raise AssertionError
    return session.who, session


# PAGE-3
def _is_proved(request: Request, session: Session) -> bool:
    """Return whether a form comes from a page of this session, and not from another web site.

    A request with a token of its own needs no proof: no other web site can make a browser send it.
    """
    if "authorization" in request.headers:
        return True
    return session.is_proved_by(request.headers.get("x-muster-proof", ""))


# PAGE-70
def _outdated(viewed: Viewed) -> Response:
    """Say that a form is from another session, or from before the service was started again."""
    problem = Problem(403, "this form is from another session: load the page again")
    viewed.service.usage.refusals.note(problem)
    return shown(viewed, "outdated.html", status=problem.status, problem=problem)


def _told(service: Service, viewed: Viewed | None, request: Request, problem: Problem) -> Response:
    """Return the page that tells of a problem."""
    if problem.status == 401 or viewed is None:
        open_ = isinstance(service.access, OpenAccess)
        wanted = request.scope["path"] if request.method in {"GET", "HEAD"} else "/"
        return plain_page(
            "login.html",
            problem.status,
            problem.headers,
            wanted=f"{wanted}?{request.url.query}" if request.url.query else wanted,
            wrong="" if problem.status == 401 and not open_ else problem.detail,
        )
    return shown(
        viewed, "problem.html", status=problem.status, headers=problem.headers, problem=problem
    )
