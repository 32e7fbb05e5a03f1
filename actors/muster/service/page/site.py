"""The routes of the page: login, files, live updates, what forms must prove, and errors as pages.

An object that does not exist at a moment has a page, too: when it came, or since when it is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import attrs
import trio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute
from typing_extensions import override

from muster.service.access import ANONYMOUS, WHO, OpenAccess, Principal, Role
from muster.service.authentication import Session, Sessions
from muster.service.endpoints.routes import problem_of, routes_by_path
from muster.service.page import (
    actions,
    asks,
    configuration,
    gangs,
    nodes,
    overview,
    queues,
    timeline,
)
from muster.service.page.renderer import HEADERS, assets, plain_page, render_page
from muster.service.page.requests import (
    Moment,
    Page,
    PageRequest,
    local_path,
    moment_of,
    present_of,
)
from muster.service.past.spans import PastKind, PastObject, existence_of
from muster.service.payloads import Problem
from muster.service.queries.reader import ReadContext
from muster.service.streams import EVENT_STREAM, HEARTBEAT_S, Broadcast, LongResponse
from muster_core.errors import MusterError
from muster_core.structures.steps import Steps
from muster_core.values.names import canonical_gang

if TYPE_CHECKING:
    from starlette.types import Send

    from muster.service.state import Service


async def _form(page: PageRequest) -> Response:
    return plain_page("login.html", 200, {}, wanted=local_path(page.text("wanted")), wrong="")


# PAGE-2
async def _log_in(page: PageRequest) -> Response:
    """Begin a session for the sender of a token."""
    form = await page.form()
    wanted = local_path(form.text("wanted"))
    who = page.service.access.holder(form.text("token").strip())
    if who is None:
        wrong = "this token is unknown, or no longer valid"
        return plain_page("login.html", 403, {}, wanted=wanted, wrong=wrong)
    response = RedirectResponse(wanted, 303, HEADERS)
    is_secure = page.request.url.scheme == "https"
    page.service.sessions.begin(who, response, is_secure=is_secure)
    return response


async def _log_out(page: PageRequest) -> Response:
    response = RedirectResponse("/login", 303, HEADERS)
    page.service.sessions.end(page.request, response)
    return response


# A form without a session needs no proof: to forge it takes a token anyway, and the cookie of a
# session is not sent with a form of another web site.
LOGIN: Final = (
    Page("GET", "/login", Role.ANYONE, _form),
    Page("POST", "/login", Role.ANYONE, _log_in),
    Page("POST", "/logout", Role.ANYONE, _log_out),
)
"""The pages to log in and out."""


async def _file(page: PageRequest) -> Response:
    name = page.in_path("name")
    found = assets().get(name)
    if found is None:
        raise Problem(404, f"there is no file {name[:100]!r}")
    # The address has the digest of the content, so another content has another address.
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found[0], 200, headers, media_type=found[1])


FILES: Final = (Page("GET", "/static/{name:path}", Role.ANYONE, _file),)
"""The files."""


PAUSE_S: Final = 0.5
"""The least time between two events of a live page, in seconds."""


# PAGE-4, PAGE-68
@final
class LiveUpdates(LongResponse):
    """The endless stream of server-sent events that reports new decisions.

    An event says only how far the batches have come; a page then fetches itself again.

    Args:
        broadcast: The latest decisions.
    """

    def __init__(self, broadcast: Broadcast) -> None:
        super().__init__(broadcast, EVENT_STREAM, {"Cache-Control": "no-store"})

    @override
    async def _follow(self, send: Send) -> bytes:
        """Send events until the service ends."""
        tail = self._broadcast.tail
        while not tail.is_over:
            batch, sent_at = tail.batch, trio.current_time()
            await self._push(send, f"event: decided\ndata: {batch}\n\n".encode())
            await self._wait(batch, sent_at + HEARTBEAT_S)
            await trio.sleep_until(sent_at + PAUSE_S)
        return b""

    async def _wait(self, batch: int, until: float) -> None:
        """Wait for another batch, until some time at most.

        An ask that has to wait changes what is shown, though nothing is decided about it.
        """
        tail = self._broadcast.tail
        while tail.batch == batch and not tail.is_over and trio.current_time() < until:
            with trio.move_on_after(PAUSE_S):
                await tail.wait(tail.last)


async def _live(page: PageRequest) -> Response:
    page.service.broadcast.check_room()
    return LiveUpdates(page.service.broadcast)


LIVE: Final = (Page("GET", "/live", Role.READER, _live),)
"""The stream that keeps pages up to date."""


PAUSE: Final = "X-Muster-Pause"
"""The header that says after how many milliseconds an open page may fetch itself again."""

_SHARE: Final = 10
"""A page rests for so many times as long as it took: it never takes more than one part in eleven."""

MOST_S: Final = 5.0
"""How long it rests at most, in seconds."""


# PAGE-67
def pause_ms(took_s: float) -> int:
    """Return how long a page rests after it was rendered, in milliseconds.

    Args:
        took_s: How long the service was busy with it, in seconds.
    """
    return round(min(took_s * _SHARE, MOST_S) * 1_000)


_SORTS: Final = {
    "/asks/{app}/{ask}": PastKind.ASK,
    "/apps/{app}": PastKind.APP,
    "/gangs/{name:path}": PastKind.GANG,
    "/nodes/{name:path}": PastKind.NODE,
    "/queues/{path:path}": PastKind.QUEUE,
}
"""The pages of single things."""


def object_of(path: str, names: dict[str, str]) -> PastObject | None:
    """Return what a page is about; None if it is not about a single thing.

    Args:
        path: The path of the page, with ``{name}`` for its parts.
        names: The parts.
    """
    sort = _SORTS.get(path)
    match sort:
        case None:
            return None
        case PastKind.ASK:
            return PastObject(sort, names["ask"], names["app"])
        case PastKind.APP:
            return PastObject(sort, names["app"])
        case PastKind.NODE:
            return PastObject(sort, names["name"])
        case PastKind.QUEUE:
            return PastObject(sort, names["path"].lower())
        case PastKind.GANG:
            try:
                return PastObject(sort, canonical_gang(names["name"]))
            except ValueError:
                return None  # No gang has this name.


# PAGE-69
async def absence_page(page: PageRequest, thing: PastObject, problem: Problem) -> Response:
    """Show when an object came that does not exist at a moment, or since when it is gone.

    Args:
        page: The request for its page.
        thing: The object.
        problem: The problem that is shown where neither is known.
    """
    service, at_us = page.service, page.moment.now_us()
    directory = service.options.state
    assert directory is not None, "there is a history"

    def read(context: ReadContext) -> Steps[tuple[int, int]]:
        yield
        return context.machine.batches, context.machine.requests

    entered = (await Moment(service, page.request).read(read)).value
    found = await service.past.work(
        page.request, lambda gone: existence_of(directory, thing, at_us, entered, gone)
    )
    return render_page(
        page,
        "absent.html",
        status=problem.status,
        problem=problem,
        thing=thing,
        at_us=at_us,
        found=found,
    )


PARTS: Final[tuple[Page, ...]] = (
    *overview.OVERVIEW_PAGES,
    *queues.QUEUE_TREE_PAGES,
    *queues.QUEUE_PAGES,
    *nodes.NODE_LIST_PAGES,
    *nodes.NODE_PAGES,
    *asks.USERS_PAGES,
    *configuration.CONFIGURATION_PAGES,
    *actions.ACTION_PAGES,
    *asks.ASK_LIST_PAGES,
    *asks.ASK_PAGES,
    *actions.REMEDY_PAGES,
    *actions.FORECAST_PAGES,
    *asks.OUTPUT_PAGES,
    *asks.APP_PAGES,
    *gangs.GANG_LIST_PAGES,
    *gangs.GANG_PAGES,
    *timeline.TIME_PAGES,
    *timeline.STEP_PAGES,
)
"""All parts."""


_LOG: Final = logging.getLogger("muster.service")

ALL_PAGES: Final[tuple[Page, ...]] = (*PARTS, *LIVE, *LOGIN, *FILES)
"""All pages, and what their forms do."""


def page_routes(service: Callable[[], Service]) -> list[BaseRoute]:
    """Return the routes of the page.

    Args:
        service: Returns the running service.
    """
    return routes_by_path(service, ALL_PAGES, _respond)


async def _respond(service: Service, route: Page, request: Request) -> Response:
    """Return the response to a request, whatever happens."""
    page: PageRequest | None = None
    try:
        who, session = _session_of(service, route, request)
        # REPLICA-8
        if service.leadership.leader is not None and who.role > Role.READER:
            who = attrs.evolve(who, role=Role.READER)  # What changes something is for the leader.
        request.scope[WHO] = who
        # A page of the present shows what is wrong with the moment.
        moment, batch = Moment(service, request), service.broadcast.tail.batch
        page = PageRequest(service, request, who, session, moment, batch)
        if who.role < route.role:
            needed = route.role.name.lower()
            has = f"{who.name!r} has the role {who.role.name.lower()}"
            raise Problem(403, f"this needs the role {needed}; {has}")
        is_form = route.method != "GET" and route.role is not Role.ANYONE
        if is_form and not _is_proved(request, session):
            return _outdated_page(page)
        if route.role is not Role.ANYONE:
            page = attrs.evolve(page, moment=await present_of(service, request))
            page = attrs.evolve(page, moment=await moment_of(service, request))
        began_s = time.thread_time()
        response = await _handle(route, page)
        if page.is_part:
            response.headers[PAUSE] = str(pause_ms(time.thread_time() - began_s))
        return response
    except Problem as problem:
        service.usage.refusals.note(problem)
        return _problem_page(service, page, request, problem)
    except MusterError as error:
        return _problem_page(service, page, request, problem_of(error))
    except Exception:  # noqa: BLE001 - a bug in one page must not end the service
        _LOG.exception("%s %s", request.method, request.url.path)
        bug = Problem(500, "the service has a bug here; its log says more")
        return _problem_page(service, page, request, bug)


# PAGE-69
async def _handle(route: Page, page: PageRequest) -> Response:
    """Return the page; if its object does not exist, the page that says when it did."""
    try:
        return await route.handler(page)
    except Problem as problem:
        moment, thing = page.moment, object_of(route.path, page.request.path_params)
        # A page that follows what is decided would look through the history again and again.
        is_asked = moment.extent is not None and (moment.is_past or not page.is_part)
        if problem.status != 404 or thing is None or not is_asked:
            raise
        page.service.usage.refusals.note(problem)
        return await absence_page(page, thing, problem)


# PAGE-2
def _session_of(service: Service, route: Page, request: Request) -> tuple[Principal, Session]:
    """Return the principal and the session of a request.

    Raises:
        Problem: 401 if a token is needed, and the browser has not logged in.
    """
    sessions: Sessions = service.sessions
    if route.role is Role.ANYONE:
        return ANONYMOUS, sessions.of(request, service.access) or sessions.without(ANONYMOUS)
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
def _outdated_page(page: PageRequest) -> Response:
    """Show that a form is from another session, or from before the service was started again."""
    problem = Problem(403, "this form is from another session: load the page again")
    page.service.usage.refusals.note(problem)
    return render_page(page, "outdated.html", status=problem.status, problem=problem)


def _problem_page(
    service: Service, page: PageRequest | None, request: Request, problem: Problem
) -> Response:
    """Return the page that shows a problem."""
    if problem.status == 401 or page is None:
        open_ = isinstance(service.access, OpenAccess)
        wanted = request.scope["path"] if request.method in {"GET", "HEAD"} else "/"
        return plain_page(
            "login.html",
            problem.status,
            problem.headers,
            wanted=f"{wanted}?{request.url.query}" if request.url.query else wanted,
            wrong="" if problem.status == 401 and not open_ else problem.detail,
        )
    return render_page(
        page, "problem.html", status=problem.status, headers=problem.headers, problem=problem
    )
