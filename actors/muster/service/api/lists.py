"""The lists of the API: queues, applications, asks, gangs, nodes and users after the last batch.

Asks that have ended are listed from the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from muster._runtime.observers import path_of
from muster.service.api.answers import (
    UnknownItem,
    answer_page,
    behind_cursor,
    field_names,
    limit_of,
    list_endpoint,
    named_endpoints,
    parts_of,
    place_behind,
    queue_of,
    single_endpoint,
    words_of,
)
from muster.service.api.config import SINCE
from muster.service.ask_index import each_ask
from muster.service.endpoints.routes import ApiRequest, json_response
from muster.service.endpoints.schemas import TEXT_KIND as SOME_TEXT, in_path, listed, query, row_of
from muster.service.input.dry_runs import HistoryStart
from muster.service.ledger.records import EndedAskFilter
from muster.service.payloads import Problem
from muster.service.queries.apps import (
    APPS,
    GANGS,
    AppFilter,
    AppRow,
    GangRow,
    row_of_app,
    select_apps,
)
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.asks import (
    ASKS,
    ENDED,
    PLACE,
    AskRow,
    ended_ask,
    ended_asks,
    place_of_ask,
    row_of_ask,
)
from muster.service.queries.nodes import NODES, NodeRow
from muster.service.queries.queues import QUEUES, USERS, QueueRow, UserRow, users_of
from muster.service.queries.reader import ReadContext, cursor, cursors, either, page_of
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps, all_at_once
from muster_core.values.application_states import AppState
from muster_core.values.names import canonical_gang
from muster_core.view.tree.application import ViewApp

if TYPE_CHECKING:
    from muster.service.state import Service


_WEEK: Final = HistoryStart(back_us=7 * 86_400_000_000)
"""Since when use is counted, if nothing is said."""

_NOT_OF_ENDED: Final = ("gang", "reason")
"""The filters of asks that those that have ended do not have."""


def since_us(service: Service, since: HistoryStart) -> int:
    """Return where a span begins, in microseconds since the origin."""
    if since.back_us is not None:
        return service.now_us() - since.back_us
    assert since.at_us is not None, "it has one of the two"
    return since.at_us - service.origin_us


def check_not_ended(asked: ApiRequest) -> None:
    """Check that a list of asks that are there asks for nothing that only ended ones have.

    Raises:
        Problem: 400 if it does.
    """
    if asked.values["since"] is not None:
        raise Problem(
            400, "since: is for those that have ended: add state=ended", parameter="since"
        )
    place = parts_of(asked, "after")
    if place is not None and len(place) == 1:
        _refuse_cursor()


def _refuse_cursor() -> None:
    told = "after: is no cursor of this list; take the `next` of an earlier page"
    raise Problem(400, told, parameter="after")


# LISTS-15
async def answer_ended(asked: ApiRequest) -> Response:
    """Answer with a page of asks that have ended, the latest first.

    Raises:
        Problem: 400 if something is asked for that they do not have.
    """
    if words_of(asked, "state") != frozenset({PLACE}):
        told = "state: 'ended' stands alone: those that have ended are another list"
        raise Problem(400, told, parameter="state")
    for name in _NOT_OF_ENDED:
        if asked.values[name] is not None:
            told = f"{name}: is not known of asks that have ended"
            raise Problem(400, told, parameter=name)
    place = parts_of(asked, "after")
    if place is not None and len(place) != 1:
        _refuse_cursor()
    since = asked.maybe("since", HistoryStart)
    wanted = EndedAskFilter(
        queue=queue_of(asked),
        app=asked.maybe("app", str),
        user=asked.maybe("user", str),
        since_us=None if since is None else since_us(asked.service, since),
    )
    limit, before = limit_of(asked), None if place is None else int(place[0])
    found = await ended_asks(asked.service, asked.request, wanted, before, limit + 1)
    page = all_at_once(
        page_of(
            found.value,
            limit,
            ENDED.picked(field_names(asked), single=False),
            lambda life: life,
            lambda life: cursor(PLACE, life.seq),
        )
    )
    heading = found.heading(asked.service)
    return json_response({**heading, "items": page.items, "next": page.next})


# LISTS-18
async def ended_item(asked: ApiRequest, app: str, ask: str) -> Mapping[str, object] | None:
    """Return the last life of an ask as a single item, or None."""
    life = await ended_ask(asked.service, asked.request, app, ask)
    if life is None:
        return None
    names = field_names(asked) if "fields" in asked.values else None
    return row_of(ENDED.picked(names, single=True), life)


# LISTS-21
async def answer_users(asked: ApiRequest) -> Response:
    """Answer with a page of users, those who have used most first."""
    since = since_us(asked.service, asked.maybe("since", HistoryStart) or _WEEK)
    now_us = asked.service.now_us()
    first = place_behind(asked, int) or 0

    def select(looking: ReadContext, most: int) -> Steps[Sequence[tuple[int, UserRow]]]:
        rows = yield from users_of(looking, since, now_us)
        return list(enumerate(rows, 1))[first : first + most]

    return await answer_page(
        asked, USERS, "users", select, lambda _, one: one[1], lambda one: (one[0],)
    )


_QUEUE: Final = query("queue", SOME_TEXT, "Those of this queue and below it.")
_USER: Final = query("user", SOME_TEXT, "Those of this user.")


# Applications


async def _apps(asked: ApiRequest) -> Response:
    wanted = AppFilter(words_of(asked, "state"), queue_of(asked), asked.maybe("user", str))

    def select(looking: ReadContext, most: int) -> Steps[Sequence[ViewApp]]:
        return (yield from select_apps(looking, wanted, place_behind(asked, int), most))

    return await answer_page(
        asked, APPS, "apps", select, row_of_app, lambda app: (app.identity.key,)
    )


def _app(looking: ReadContext, name: str) -> AppRow | UnknownItem:
    app = app_of(looking, name)
    return unknown_app(looking, name) if app is None else row_of_app(looking, app)


def app_of(looking: ReadContext, name: str) -> ViewApp | None:
    """Return an application by its name, or None."""
    key = looking.machine.registry.locate(name)
    return None if key is None else looking.view.apps.get(key)


def unknown_app(looking: ReadContext, name: str, said: str = "") -> UnknownItem:
    """Return that an application is unknown, or that it has completed."""
    if name in looking.machine.registry.completed:
        return UnknownItem(said=f"{said}: it has completed", members={"completed": True})
    known = (app.identity.name for app in looking.view.apps.values())
    return UnknownItem.of(name, known, said=said)


# Asks


async def _asks(asked: ApiRequest) -> Response:
    places, codes = words_of(asked, "state"), words_of(asked, "reason")
    if places is not None and PLACE in places:
        return await answer_ended(asked)
    check_not_ended(asked)
    gang = asked.maybe("gang", str)
    wanted = AskFilter(
        places=None if places is None else frozenset(map(AskPlace, places)),
        queue=queue_of(asked),
        app=asked.maybe("app", str),
        user=asked.maybe("user", str),
        gang=None if gang is None else full_gang(gang),
        codes=None if codes is None else frozenset(map(Code, codes)),
    )

    def select(looking: ReadContext, most: int) -> Steps[Sequence[AskRow]]:
        return (yield from select_asks(looking, wanted, parts_of(asked, "after"), most))

    return await answer_page(asked, ASKS, "asks", select, lambda _, row: row, place_of_ask)


def _ask(looking: ReadContext, app_name: str, name: str) -> AskRow | UnknownItem:
    app = app_of(looking, app_name)
    found = None if app is None else row_of_ask(looking, app, name)
    return found or unknown_ask(looking, app_name, name)


def unknown_ask(looking: ReadContext, app_name: str, name: str) -> UnknownItem:
    """Return that an ask or its application is unknown."""
    app = app_of(looking, app_name)
    if app is None:
        return unknown_app(looking, app_name, f": app {app_name!r} is unknown")
    failure = looking.ledger.failure(app_name, name)
    if failure is not None:
        return UnknownItem(said=f"; it was removed, and {failure.told()}")
    known = (ask.name for ask in each_ask(app))
    return UnknownItem.of(name, known, before=f"{app_name}/")


def full_gang(written: str) -> str:
    """Return the full name of a gang; what cannot be one is the name of none."""
    try:
        return canonical_gang(written)
    except ValueError:
        return written


# LISTS-1, LISTS-2, LISTS-3
ENDPOINTS: Final = (
    *named_endpoints(
        "queues",
        "A queue",
        "path",
        QUEUES,
        lambda looking: looking.machine.registry.queues,
        QueueRow.of,
        full=path_of,
    ),
    list_endpoint(
        "/api/v1/apps",
        "Applications, in the order in which they came.",
        _apps,
        APPS,
        query(
            "state", listed(*AppState), "Those in one of these states, with commas between them."
        ),
        _QUEUE,
        _USER,
        behind_cursor("apps", int),
    ),
    single_endpoint(
        "/api/v1/apps/{app}", "An application.", _app, APPS, in_path("app", "Its name.")
    ),
    list_endpoint(
        "/api/v1/asks",
        "Asks, in the order in which they were added; those that have ended, the latest first.",
        _asks,
        ASKS,
        query(
            "state",
            listed(*AskPlace, PLACE),
            "Those in one of these places, with commas between them; or `ended` alone: those that "
            "have ended. Without it all that are there.",
        ),
        _QUEUE,
        query("app", SOME_TEXT, "Those of this application."),
        _USER,
        query(
            "since",
            SINCE,
            "With `state=ended`: those that ended so long ago at most, or at this instant or later.",
        ),
        query("gang", SOME_TEXT, "The members of this gang."),
        query(
            "reason",
            listed(*Code),
            "Those that are not bound and have one of these dominant reasons.",
        ),
        query(
            "after",
            either(cursors("asks", int, int), cursors(PLACE, int)),
            "Behind which item the page begins: the `next` of the page before.",
        ),
        also=(ENDED,),
    ),
    single_endpoint(
        "/api/v1/asks/{app}/{ask}",
        "An ask.",
        _ask,
        ASKS,
        in_path("app", "The name of its application."),
        in_path("ask", "Its name."),
        also=(ENDED,),
        otherwise=ended_item,
    ),
    list_endpoint(
        "/api/v1/users",
        "Users, those who have used most first.",
        answer_users,
        USERS,
        query(
            "since",
            SINCE,
            "Since when it counts what was used: so long ago, or from this instant on; default 7d.",
        ),
        behind_cursor("users", int),
    ),
    *named_endpoints(
        "gangs",
        "A gang",
        "name",
        GANGS,
        lambda looking: looking.view.gangs,
        GangRow,
        full=full_gang,
    ),
    *named_endpoints(
        "nodes", "A node", "name", NODES, lambda looking: looking.view.nodes.nodes, NodeRow
    ),
)
"""The lists and the single items."""
