"""The lists: queues, applications, asks, gangs and nodes after the last batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from muster._runtime.clients.observers import path_of
from muster.service.api.accounts import (
    answer_ended,
    answer_users,
    check_not_ended,
    ended_item,
)
from muster.service.api.answering import (
    Unknown,
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
from muster.service.endpoints.kinds import (
    TEXT as SOME_TEXT,
    in_path,
    listed,
    query,
)
from muster.service.endpoints.table import (
    Asked,
)
from muster.service.reading.apps import APPS, AppFilter, AppRow, row_of_app, select_apps
from muster.service.reading.asks import ASKS, AskRow, row_of_ask
from muster.service.reading.cursors import cursor, cursors, either
from muster.service.reading.ended import ENDED, PLACE
from muster.service.reading.gangs import GANGS, GangRow
from muster.service.reading.looking import Looking
from muster.service.reading.nodes import NODES, NodeRow
from muster.service.reading.pages import Page, page_of
from muster.service.reading.queues import QUEUES, QueueRow
from muster.service.reading.selecting import AskFilter, select_asks
from muster.service.reading.users import USERS
from muster.service.roll import each_ask
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace
from muster_core.values.application_states import AppState
from muster_core.values.gang_names import canonical_gang

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp


_QUEUE: Final = query("queue", SOME_TEXT, "Those of this queue and below it.")
_USER: Final = query("user", SOME_TEXT, "Those of this user.")


# Queues


async def _queues(asked: Asked) -> Response:
    def row(looking: Looking, path: str) -> QueueRow:
        return QueueRow.of(looking, looking.machine.registry.queues[path])

    return await answer_page(
        asked, page_by_name(asked, QUEUES, "queues", lambda one: one.machine.registry.queues, row)
    )


async def _queue(asked: Asked) -> Response:
    written = asked.value("path", str)

    def find(looking: Looking) -> QueueRow | Unknown:
        queues = looking.machine.registry.queues
        entry = queues.get(path_of(written))
        if entry is None:
            return Unknown.of(path_of(written), queues)
        return QueueRow.of(looking, entry)

    return await answer_item(asked, QUEUES, "path", written, find)


# Applications


async def _apps(asked: Asked) -> Response:
    columns = APPS.picked(field_names(asked), single=False)
    wanted = AppFilter(words_of(asked, "state"), queue_of(asked), asked.maybe("user", str))

    def read(looking: Looking) -> Steps[Page]:
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


async def _app(asked: Asked) -> Response:
    name = asked.value("app", str)

    def find(looking: Looking) -> AppRow | Unknown:
        app = app_of(looking, name)
        return what_app(looking, name) if app is None else row_of_app(looking, app)

    return await answer_item(asked, APPS, "app", name, find)


def app_of(looking: Looking, name: str) -> ViewApp | None:
    """Return an application by its name, or None."""
    key = looking.machine.registry.locate(name)
    return None if key is None else looking.view.apps.get(key)


def what_app(looking: Looking, name: str, said: str = "") -> Unknown:
    """Return that an application is unknown, or that it has completed."""
    if name in looking.machine.registry.completed:
        return Unknown(said=f"{said}: it has completed", members={"completed": True})
    known = (app.identity.name for app in looking.view.apps.values())
    return Unknown.of(name, known, said=said)


# Asks


async def _asks(asked: Asked) -> Response:
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

    def read(looking: Looking) -> Steps[Page]:
        place = parts_of(asked, "after")
        found = yield from select_asks(looking, wanted, place, limit_of(asked) + 1)
        return (
            yield from page_of(found, limit_of(asked), columns, lambda row: row, _cursor_of_ask)
        )

    return await answer_page(asked, read)


def _cursor_of_ask(row: AskRow) -> str:
    return cursor("asks", row.ask.seq, row.ask.number)


async def _ask(asked: Asked) -> Response:
    app_name, name = asked.value("app", str), asked.value("ask", str)

    def find(looking: Looking) -> AskRow | Unknown:
        app = app_of(looking, app_name)
        found = None if app is None else row_of_ask(looking, app, name)
        return found or what_ask(looking, app_name, name)

    async def over() -> Mapping[str, object] | None:
        return await ended_item(asked, app_name, name)

    return await answer_item(asked, ASKS, "ask", f"{app_name}/{name}", find, over)


def what_ask(looking: Looking, app_name: str, name: str) -> Unknown:
    """Return that an ask or its application is unknown."""
    app = app_of(looking, app_name)
    if app is None:
        return what_app(looking, app_name, f": app {app_name!r} is unknown")
    failure = looking.ledger.failure(app_name, name)
    if failure is not None:
        return Unknown(said=f"; it was removed, and {failure.told()}")
    known = (ask.name for ask in each_ask(app))
    return Unknown.of(name, known, before=f"{app_name}/")


# Gangs


def full_gang(written: str) -> str:
    """Return the full name of a gang; what cannot be one is the name of none."""
    try:
        return canonical_gang(written)
    except ValueError:
        return written


async def _gangs(asked: Asked) -> Response:
    def row(looking: Looking, name: str) -> GangRow:
        return GangRow(looking, looking.view.gangs[name])

    return await answer_page(
        asked, page_by_name(asked, GANGS, "gangs", lambda one: one.view.gangs, row)
    )


async def _gang(asked: Asked) -> Response:
    written = asked.value("name", str)

    def find(looking: Looking) -> GangRow | Unknown:
        gang = looking.view.gangs.get(full_gang(written))
        if gang is None:
            return Unknown.of(full_gang(written), looking.view.gangs)
        return GangRow(looking, gang)

    return await answer_item(asked, GANGS, "name", written, find)


# Nodes


async def _nodes(asked: Asked) -> Response:
    def row(looking: Looking, name: str) -> NodeRow:
        return NodeRow(looking, looking.view.nodes.nodes[name])

    return await answer_page(
        asked, page_by_name(asked, NODES, "nodes", lambda one: one.view.nodes.nodes, row)
    )


async def _node(asked: Asked) -> Response:
    name = asked.value("name", str)

    def find(looking: Looking) -> NodeRow | Unknown:
        node = looking.view.nodes.nodes.get(name)
        if node is None:
            return Unknown.of(name, looking.view.nodes.nodes)
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
