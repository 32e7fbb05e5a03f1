"""The lists of the API: queues, applications, asks, gangs, nodes and users after the last batch.

Asks that have ended are listed from the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from muster._runtime.observers import path_of
from muster.service.api.answers import (
    UnknownItem,
    answer_item,
    answer_page,
    behind_cursor,
    field_names,
    limit_of,
    list_endpoint,
    page_by_name,
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
    row_of_ask,
)
from muster.service.queries.nodes import NODES, NodeRow
from muster.service.queries.queues import QUEUES, USERS, QueueRow, users_of
from muster.service.queries.reader import ListPage, ReadContext, cursor, cursors, either, page_of
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
    columns, limit = USERS.picked(field_names(asked), single=False), limit_of(asked)

    def read(looking: ReadContext) -> Steps[ListPage]:
        rows = yield from users_of(looking, since, now_us)
        first = place_behind(asked, int) or 0
        numbered = list(enumerate(rows, 1))[first : first + limit + 1]
        return (
            yield from page_of(
                numbered,
                limit,
                columns,
                lambda one: one[1],
                lambda one: cursor("users", one[0]),
            )
        )

    return await answer_page(asked, read)


_QUEUE: Final = query("queue", SOME_TEXT, "Those of this queue and below it.")
_USER: Final = query("user", SOME_TEXT, "Those of this user.")


# Queues


async def _queues(asked: ApiRequest) -> Response:
    def row(looking: ReadContext, path: str) -> QueueRow:
        return QueueRow.of(looking, looking.machine.registry.queues[path])

    return await answer_page(
        asked, page_by_name(asked, QUEUES, "queues", lambda one: one.machine.registry.queues, row)
    )


async def _queue(asked: ApiRequest) -> Response:
    written = asked.value("path", str)

    def find(looking: ReadContext) -> QueueRow | UnknownItem:
        queues = looking.machine.registry.queues
        entry = queues.get(path_of(written))
        if entry is None:
            return UnknownItem.of(path_of(written), queues)
        return QueueRow.of(looking, entry)

    return await answer_item(asked, QUEUES, "path", written, find)


# Applications


async def _apps(asked: ApiRequest) -> Response:
    columns = APPS.picked(field_names(asked), single=False)
    wanted = AppFilter(words_of(asked, "state"), queue_of(asked), asked.maybe("user", str))

    def read(looking: ReadContext) -> Steps[ListPage]:
        found = yield from select_apps(
            looking, wanted, place_behind(asked, int), limit_of(asked) + 1
        )
        return (
            yield from page_of(
                found,
                limit_of(asked),
                columns,
                lambda app: row_of_app(looking, app),
                lambda app: cursor("apps", app.identity.key),
            )
        )

    return await answer_page(asked, read)


async def _app(asked: ApiRequest) -> Response:
    name = asked.value("app", str)

    def find(looking: ReadContext) -> AppRow | UnknownItem:
        app = app_of(looking, name)
        return unknown_app(looking, name) if app is None else row_of_app(looking, app)

    return await answer_item(asked, APPS, "app", name, find)


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
    columns = ASKS.picked(field_names(asked), single=False)
    gang = asked.maybe("gang", str)
    wanted = AskFilter(
        places=None if places is None else frozenset(map(AskPlace, places)),
        queue=queue_of(asked),
        app=asked.maybe("app", str),
        user=asked.maybe("user", str),
        gang=None if gang is None else full_gang(gang),
        codes=None if codes is None else frozenset(map(Code, codes)),
    )

    def read(looking: ReadContext) -> Steps[ListPage]:
        place = parts_of(asked, "after")
        found = yield from select_asks(looking, wanted, place, limit_of(asked) + 1)
        return (
            yield from page_of(found, limit_of(asked), columns, lambda row: row, _cursor_of_ask)
        )

    return await answer_page(asked, read)


def _cursor_of_ask(row: AskRow) -> str:
    return cursor("asks", row.ask.seq, row.ask.number)


async def _ask(asked: ApiRequest) -> Response:
    app_name, name = asked.value("app", str), asked.value("ask", str)

    def find(looking: ReadContext) -> AskRow | UnknownItem:
        app = app_of(looking, app_name)
        found = None if app is None else row_of_ask(looking, app, name)
        return found or unknown_ask(looking, app_name, name)

    async def over() -> Mapping[str, object] | None:
        return await ended_item(asked, app_name, name)

    return await answer_item(asked, ASKS, "ask", f"{app_name}/{name}", find, over)


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


# Gangs


def full_gang(written: str) -> str:
    """Return the full name of a gang; what cannot be one is the name of none."""
    try:
        return canonical_gang(written)
    except ValueError:
        return written


async def _gangs(asked: ApiRequest) -> Response:
    def row(looking: ReadContext, name: str) -> GangRow:
        return GangRow(looking, looking.view.gangs[name])

    return await answer_page(
        asked, page_by_name(asked, GANGS, "gangs", lambda one: one.view.gangs, row)
    )


async def _gang(asked: ApiRequest) -> Response:
    written = asked.value("name", str)

    def find(looking: ReadContext) -> GangRow | UnknownItem:
        gang = looking.view.gangs.get(full_gang(written))
        if gang is None:
            return UnknownItem.of(full_gang(written), looking.view.gangs)
        return GangRow(looking, gang)

    return await answer_item(asked, GANGS, "name", written, find)


# Nodes


async def _nodes(asked: ApiRequest) -> Response:
    def row(looking: ReadContext, name: str) -> NodeRow:
        return NodeRow(looking, looking.view.nodes.nodes[name])

    return await answer_page(
        asked, page_by_name(asked, NODES, "nodes", lambda one: one.view.nodes.nodes, row)
    )


async def _node(asked: ApiRequest) -> Response:
    name = asked.value("name", str)

    def find(looking: ReadContext) -> NodeRow | UnknownItem:
        node = looking.view.nodes.nodes.get(name)
        if node is None:
            return UnknownItem.of(name, looking.view.nodes.nodes)
        return NodeRow(looking, node)

    return await answer_item(asked, NODES, "name", name, find)


# LISTS-1, LISTS-2, LISTS-3
ENDPOINTS: Final = (
    list_endpoint(
        "/api/v1/queues", "All queues, by path.", _queues, QUEUES, behind_cursor("queues", str)
    ),
    single_endpoint(
        "/api/v1/queues/{path:path}", "A queue.", _queue, QUEUES, in_path("path", "Its path.")
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
    list_endpoint(
        "/api/v1/gangs", "All gangs, by name.", _gangs, GANGS, behind_cursor("gangs", str)
    ),
    single_endpoint(
        "/api/v1/gangs/{name:path}", "A gang.", _gang, GANGS, in_path("name", "Its name.")
    ),
    list_endpoint(
        "/api/v1/nodes", "All nodes, by name.", _nodes, NODES, behind_cursor("nodes", str)
    ),
    single_endpoint(
        "/api/v1/nodes/{name:path}", "A node.", _node, NODES, in_path("name", "Its name.")
    ),
)
"""The lists and the single items."""
