"""The lists: queues, applications, asks, gangs and nodes after the last batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from muster._runtime.clients.observers import path_of
from muster.service.access.who import Role
from muster.service.endpoints.columns import NUMBER, SECONDS, TEXT, Table, maybe, row_of
from muster.service.endpoints.kinds import (
    TEXT as SOME_TEXT,
    Parameter,
    in_path,
    integer,
    listed,
    query,
)
from muster.service.endpoints.table import (
    Answer,
    Asked,
    Endpoint,
    Handler,
    json_response,
    not_found,
)
from muster.service.reading.apps import APPS, AppFilter, AppRow, row_of_app, select_apps
from muster.service.reading.asks import ASKS, AskRow, row_of_ask
from muster.service.reading.cursors import cursor, cursors
from muster.service.reading.gangs import GANGS, GangRow
from muster.service.reading.looking import Looking, seen
from muster.service.reading.nodes import NODES, NodeRow
from muster.service.reading.pages import Page, names_behind, page_of
from muster.service.reading.queues import QUEUES, QueueRow
from muster.service.reading.selecting import AskFilter, select_asks
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace
from muster_core.values.application_states import AppState
from muster_core.values.gang_names import canonical_gang
from muster_core.values.nearest import did_you_mean

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp

R = TypeVar("R")
T = TypeVar("T")

_MOST: Final = 1_000
_USUAL: Final = 100


# Parameters

_LIMIT: Final = query(
    "limit", integer(1, _MOST), "How many items the page has at most.", default=_USUAL
)


def _after(name: str, *types: type) -> Parameter:
    about = "Behind which item the page begins: the `next` of the page before."
    return query("after", cursors(name, *types), about)


def _fields(table: Table[Any], *, single: bool = False) -> Parameter:
    about = "Which fields the items have, with commas between them; default: all."
    return query("fields", table.fields(single=single), about)


_QUEUE: Final = query("queue", SOME_TEXT, "Those of this queue and below it.")
_USER: Final = query("user", SOME_TEXT, "Those of this user.")


# Answers

_HEADING: Final = {
    "batch": {**NUMBER, "description": "the number of the batch after which this is the state"},
    "at": {**SECONDS, "description": "its instant, in seconds since the origin"},
    "time": {**TEXT, "format": "date-time", "description": "the same as a date, in UTC"},
}


def _list_answer(table: Table[Any]) -> Answer:
    items = {"type": "array", "items": table.schema(single=False)}
    after = {**maybe(TEXT), "description": "the cursor of the next page; null if this is the last"}
    properties = {**_HEADING, "items": items, "next": after}
    return Answer("A page.", _object(properties))


def single_answer(table: Table[Any]) -> Answer:
    """Return the answer with a single item."""
    return Answer("The item.", _object({**_HEADING, "item": table.schema(single=True)}))


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


_UNKNOWN: Final = Answer("There is no such item.", media="application/problem+json")


async def _page(asked: Asked, read: Callable[[Looking], Steps[Page]]) -> Response:
    found = await seen(asked.service, read)
    page = found.value
    heading = found.heading(asked.service)
    return json_response({**heading, "items": page.items, "next": page.next})


async def _item(
    asked: Asked, table: Table[R], what: str, name: str, find: Callable[[Looking], R | str]
) -> Response:
    """Answer with a single item.

    Args:
        asked: The request.
        table: The fields of such items.
        what: What it is.
        name: Its name in the request.
        find: Returns it, or what was meant by the unknown name.
    """
    columns = table.picked(_names(asked), single=True)

    def read(looking: Looking) -> Steps[dict[str, object] | str]:
        yield
        item = find(looking)
        return item if isinstance(item, str) else dict(row_of(columns, item))

    found = await seen(asked.service, read)
    if isinstance(found.value, str):
        raise not_found(what, name, found.value)
    return json_response({**found.heading(asked.service), "item": found.value})


def _names(asked: Asked) -> Sequence[str] | None:
    return asked.maybe("fields", tuple)


def _limit(asked: Asked) -> int:
    return asked.value("limit", int)


def _behind(asked: Asked, part: type[T]) -> T | None:
    """Return the only part of the place in a cursor, or None."""
    place: tuple[object, ...] | None = asked.maybe("after", tuple)
    if place is None:
        return None
    (found,) = place
    assert isinstance(found, part), "a cursor of another list"
    return found


def _path(asked: Asked) -> str | None:
    written = asked.maybe("queue", str)
    return None if written is None else path_of(written)


def _words(asked: Asked, name: str) -> frozenset[str] | None:
    found = asked.maybe(name, tuple)
    return None if found is None else frozenset(found)


def _by_name(
    asked: Asked,
    table: Table[R],
    listed: str,
    names: Callable[[Looking], Iterable[str]],
    row: Callable[[Looking, str], R],
) -> Callable[[Looking], Steps[Page]]:
    """Return what reads a page of a list that is ordered by name."""
    columns = table.picked(_names(asked), single=False)

    def read(looking: Looking) -> Steps[Page]:
        yield
        found = names_behind(names(looking), _behind(asked, str), _limit(asked) + 1)
        return (
            yield from page_of(
                found,
                _limit(asked),
                columns,
                lambda name: row(looking, name),
                lambda name: cursor(listed, name),
            )
        )

    return read


# Queues


async def _queues(asked: Asked) -> Response:
    def row(looking: Looking, path: str) -> QueueRow:
        return QueueRow.of(looking, looking.machine.registry.queues[path])

    return await _page(
        asked, _by_name(asked, QUEUES, "queues", lambda one: one.machine.registry.queues, row)
    )


async def _queue(asked: Asked) -> Response:
    written = asked.value("path", str)

    def find(looking: Looking) -> QueueRow | str:
        queues = looking.machine.registry.queues
        entry = queues.get(path_of(written))
        if entry is None:
            return did_you_mean(path_of(written), queues)
        return QueueRow.of(looking, entry)

    return await _item(asked, QUEUES, "path", written, find)


# Applications


async def _apps(asked: Asked) -> Response:
    columns = APPS.picked(_names(asked), single=False)
    wanted = AppFilter(_words(asked, "state"), _path(asked), asked.maybe("user", str))

    def read(looking: Looking) -> Steps[Page]:
        found = yield from select_apps(looking, wanted, _behind(asked, int), _limit(asked) + 1)
        return (
            yield from page_of(
                found,
                _limit(asked),
                columns,
                lambda app: row_of_app(looking, app),
                lambda app: cursor("apps", app.identity.key),
            )
        )

    return await _page(asked, read)


async def _app(asked: Asked) -> Response:
    name = asked.value("app", str)

    def find(looking: Looking) -> AppRow | str:
        app = app_of(looking, name)
        return what_app(looking, name) if app is None else row_of_app(looking, app)

    return await _item(asked, APPS, "app", name, find)


def app_of(looking: Looking, name: str) -> ViewApp | None:
    """Return an application by its name, or None."""
    key = looking.machine.registry.locate(name)
    return None if key is None else looking.view.apps.get(key)


def what_app(looking: Looking, name: str) -> str:
    """Return what to add to the message that an application is unknown."""
    registry = looking.machine.registry
    if name in registry.completed:
        return ": it has completed"
    return did_you_mean(name, (app.identity.name for app in looking.view.apps.values()))


# Asks


async def _asks(asked: Asked) -> Response:
    columns = ASKS.picked(_names(asked), single=False)
    places, codes = _words(asked, "state"), _words(asked, "reason")
    gang = asked.maybe("gang", str)
    wanted = AskFilter(
        places=None if places is None else frozenset(map(AskPlace, places)),
        queue=_path(asked),
        app=asked.maybe("app", str),
        user=asked.maybe("user", str),
        gang=None if gang is None else full_gang(gang),
        codes=None if codes is None else frozenset(map(Code, codes)),
    )

    def read(looking: Looking) -> Steps[Page]:
        place = asked.maybe("after", tuple)
        found = yield from select_asks(looking, wanted, place, _limit(asked) + 1)
        return (yield from page_of(found, _limit(asked), columns, lambda row: row, _cursor_of_ask))

    return await _page(asked, read)


def _cursor_of_ask(row: AskRow) -> str:
    return cursor("asks", row.ask.seq, row.ask.number)


async def _ask(asked: Asked) -> Response:
    app_name, name = asked.value("app", str), asked.value("ask", str)

    def find(looking: Looking) -> AskRow | str:
        app = app_of(looking, app_name)
        found = None if app is None else row_of_ask(looking, app, name)
        return found or what_ask(looking, app_name, name)

    return await _item(asked, ASKS, "ask", f"{app_name}/{name}", find)


def what_ask(looking: Looking, app_name: str, name: str) -> str:
    """Return what to add to the message that an ask is unknown."""
    app = app_of(looking, app_name)
    if app is None:
        return f": app {app_name!r} is unknown{what_app(looking, app_name)}"
    names = (*app.pending, *app.backing_off, *app.parked, *app.waiting, *app.bound)
    return did_you_mean(name, names, before=f"{app_name}/")


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

    return await _page(asked, _by_name(asked, GANGS, "gangs", lambda one: one.view.gangs, row))


async def _gang(asked: Asked) -> Response:
    written = asked.value("name", str)

    def find(looking: Looking) -> GangRow | str:
        gang = looking.view.gangs.get(full_gang(written))
        if gang is None:
            return did_you_mean(full_gang(written), looking.view.gangs)
        return GangRow(looking, gang)

    return await _item(asked, GANGS, "name", written, find)


# Nodes


async def _nodes(asked: Asked) -> Response:
    def row(looking: Looking, name: str) -> NodeRow:
        return NodeRow(looking, looking.view.nodes.nodes[name])

    return await _page(
        asked, _by_name(asked, NODES, "nodes", lambda one: one.view.nodes.nodes, row)
    )


async def _node(asked: Asked) -> Response:
    name = asked.value("name", str)

    def find(looking: Looking) -> NodeRow | str:
        node = looking.view.nodes.nodes.get(name)
        if node is None:
            return did_you_mean(name, looking.view.nodes.nodes)
        return NodeRow(looking, node)

    return await _item(asked, NODES, "name", name, find)


# The table


def _list(
    path: str, summary: str, handler: Handler, table: Table[Any], *parameters: Parameter
) -> Endpoint:
    return Endpoint(
        "GET",
        path,
        summary,
        Role.READER,
        handler,
        (*parameters, _LIMIT, _fields(table)),
        answers={200: _list_answer(table)},
    )


def _single(
    path: str, summary: str, handler: Handler, table: Table[Any], *parameters: Parameter
) -> Endpoint:
    return Endpoint(
        "GET",
        path,
        summary,
        Role.READER,
        handler,
        (*parameters, _fields(table, single=True)),
        answers={200: single_answer(table), 404: _UNKNOWN},
    )


# LISTS-1, LISTS-2, LISTS-3
ENDPOINTS: Final = (
    _list("/api/v1/queues", "All queues, by path.", _queues, QUEUES, _after("queues", str)),
    _single("/api/v1/queues/{path:path}", "A queue.", _queue, QUEUES, in_path("path", "Its path.")),
    _list(
        "/api/v1/apps",
        "Applications, in the order in which they came.",
        _apps,
        APPS,
        query(
            "state", listed(*AppState), "Those in one of these states, with commas between them."
        ),
        _QUEUE,
        _USER,
        _after("apps", int),
    ),
    _single("/api/v1/apps/{app}", "An application.", _app, APPS, in_path("app", "Its name.")),
    _list(
        "/api/v1/asks",
        "Asks, in the order in which they were added.",
        _asks,
        ASKS,
        query(
            "state", listed(*AskPlace), "Those in one of these places, with commas between them."
        ),
        _QUEUE,
        query("app", SOME_TEXT, "Those of this application."),
        _USER,
        query("gang", SOME_TEXT, "The members of this gang."),
        query(
            "reason",
            listed(*Code),
            "Those that are not bound and have one of these dominant reasons.",
        ),
        _after("asks", int, int),
    ),
    _single(
        "/api/v1/asks/{app}/{ask}",
        "An ask.",
        _ask,
        ASKS,
        in_path("app", "The name of its application."),
        in_path("ask", "Its name."),
    ),
    _list("/api/v1/gangs", "All gangs, by name.", _gangs, GANGS, _after("gangs", str)),
    _single("/api/v1/gangs/{name:path}", "A gang.", _gang, GANGS, in_path("name", "Its name.")),
    _list("/api/v1/nodes", "All nodes, by name.", _nodes, NODES, _after("nodes", str)),
    _single("/api/v1/nodes/{name:path}", "A node.", _node, NODES, in_path("name", "Its name.")),
)
"""The lists and the single items."""
