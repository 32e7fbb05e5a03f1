"""The lists of the API: queues, applications, asks, gangs, nodes and users after the last batch.

They have parameters, pages, single items and unknown names in common. Asks that have ended are
listed from the history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import attrs
import trio
from starlette.responses import Response

from muster._pod_identity import PodFilter
from muster._runtime.observers import path_of
from muster.service.access import Role
from muster.service.api.config import SINCE
from muster.service.ask_index import each_ask
from muster.service.endpoints.routes import (
    Answer,
    ApiRequest,
    Endpoint,
    Handler,
    json_response,
    not_found,
)
from muster.service.endpoints.schemas import (
    NUMBER,
    SECONDS,
    TEXT,
    TEXT_KIND as SOME_TEXT,
    Parameter,
    Table,
    about,
    array,
    in_path,
    integer,
    listed,
    maybe,
    only,
    query,
    record,
    row_of,
)
from muster.service.input.dry_runs import HistoryStart
from muster.service.ledger.records import EndedAsk, EndedAskFilter
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
from muster.service.queries.reader import (
    ListPage,
    ReadContext,
    cursor,
    cursors,
    either,
    names_behind,
    page_of,
    read_state,
)
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps, all_at_once
from muster_core.values.application_states import AppState
from muster_core.values.names import MOST_COMPARED, canonical_gang, did_you_mean
from muster_core.view.tree.application import ViewApp

if TYPE_CHECKING:
    from muster.service.state import Service


R = TypeVar("R")
T = TypeVar("T")

_MOST: Final = 1_000
_USUAL: Final = 100


# Parameters

_LIMIT: Final = query(
    "limit", integer(1, _MOST), "How many items the page has at most.", default=_USUAL
)


def behind_cursor(name: str, *types: type) -> Parameter:
    """Return the parameter with the cursor of a list, whose places have parts of these types."""
    about = "Behind which item the page begins: the `next` of the page before."
    return query("after", cursors(name, *types), about)


def fields_of(*tables: Table[Any], single: bool = False) -> Parameter:
    """Return the parameter with the fields of items that come from one of some tables."""
    about = "Which fields the items have, with commas between them; default: all."
    names = [name for table in tables for name in table.names(single=single)]
    return query("fields", listed(*dict.fromkeys(names)), about)


# Answers

_HEADING: Final = {
    "batch": about(NUMBER, "the number of the batch after which this is the state"),
    "at": about(SECONDS, "its instant, in seconds since the origin"),
    "time": about({**TEXT, "format": "date-time"}, "the same as a date, in UTC"),
}


def _list_answer(*tables: Table[Any]) -> Answer:
    items = array(_one_of([one.schema(single=False) for one in tables]))
    after = about(maybe(TEXT), "the cursor of the next page; null if this is the last")
    return Answer("A page.", only(record(**_HEADING, items=items, next=after)))


def single_answer(*tables: Table[Any]) -> Answer:
    """Return the answer with a single item, which comes from one of some tables."""
    item = _one_of([one.schema(single=True) for one in tables])
    return Answer("The item.", only(record(**_HEADING, item=item)))


def _one_of(schemas_of_items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(schemas_of_items) == 1:
        return schemas_of_items[0]
    return {"anyOf": [*schemas_of_items]}


_UNKNOWN: Final = Answer("There is no such item.", media="application/problem+json")


async def answer_page(
    request: ApiRequest,
    table: Table[R],
    name: str,
    select: Callable[[ReadContext, int], Steps[Sequence[T]]],
    row: Callable[[ReadContext, T], R],
    place: Callable[[T], tuple[str | int, ...]],
) -> Response:
    """Answer with a page.

    Args:
        request: The request.
        table: The fields of the items.
        name: The name of the list.
        select: Returns what the page begins with, at most so many.
        row: Returns what the fields of an item are read from.
        place: Returns the place of an item in the order of the list.
    """
    columns, limit = table.picked(field_names(request), single=False), limit_of(request)

    def read(context: ReadContext) -> Steps[ListPage]:
        found = yield from select(context, limit + 1)
        return (
            yield from page_of(
                found,
                limit,
                columns,
                lambda one: row(context, one),
                lambda one: cursor(name, *place(one)),
            )
        )

    found = await read_state(request.service, read)
    page = found.value
    heading = found.heading(request.service)
    return json_response({**heading, "items": page.items, "next": page.next})


@final
@attrs.frozen
class UnknownItem:
    """There is no such item.

    Attributes:
        known: The names that may have been meant.
        name: The name to compare them with.
        details: Details for the message.
        before: What is written before each name that is offered.
        members: Further members of the answer.
    """

    known: tuple[str, ...] = ()
    name: str = ""
    details: str = ""
    before: str = ""
    members: Mapping[str, object] = attrs.field(factory=dict[str, object])

    @classmethod
    def of(
        cls, name: str, known: Iterable[str], *, details: str = "", before: str = ""
    ) -> UnknownItem:
        """Return that a name is none of those that are known."""
        return cls(tuple(islice(known, MOST_COMPARED)), name, details, before)

    async def problem(self, what: str, name: str) -> Problem:
        """Return the problem for the client.

        Args:
            what: What is unknown.
            name: Its name in the request.
        """
        # Comparing a thousand names takes some milliseconds, and a request may name anything.
        guess = await trio.to_thread.run_sync(
            partial(did_you_mean, self.name, self.known, before=self.before)
        )
        return not_found(what, name, f"{self.details}{guess}", **self.members)


# LISTS-12
async def answer_item(
    request: ApiRequest,
    table: Table[R],
    names: Sequence[str],
    find: Callable[..., R | UnknownItem],
    otherwise: Callable[..., Awaitable[Mapping[str, object] | None]] | None = None,
) -> Response:
    """Answer with a single item.

    Args:
        request: The request.
        table: The fields of such items.
        names: The parts of the path that name it; the last one says what it is.
        find: Returns the item of a state with these names, or that it is unknown.
        otherwise: Returns the item to answer with if the names are unknown; None for 404.
    """
    columns = table.picked(field_names(request), single=True)
    named = [request.value(name, str) for name in names]

    def read(context: ReadContext) -> Steps[Mapping[str, object] | UnknownItem]:
        yield
        item = find(context, *named)
        return item if isinstance(item, UnknownItem) else row_of(columns, item)

    found = await read_state(request.service, read)
    item = found.value
    if isinstance(item, UnknownItem):
        known = None if otherwise is None else await otherwise(request, *named)
        if known is None:
            raise await item.problem(names[-1], "/".join(named))
        item = known
    return json_response({**found.heading(request.service), "item": item})


def parts_of(request: ApiRequest, name: str) -> tuple[Any, ...] | None:
    """Return the value of a parameter that has several parts, or None."""
    found: tuple[Any, ...] | None = request.values[name]
    return found


def field_names(request: ApiRequest) -> Sequence[str] | None:
    """Return which fields are wanted; None for all."""
    return parts_of(request, "fields")


def limit_of(request: ApiRequest) -> int:
    """Return how many items are wanted at most."""
    return request.value("limit", int)


def place_behind(request: ApiRequest, part: type[T]) -> T | None:
    """Return the only part of the place in a cursor, or None."""
    place = parts_of(request, "after")
    if place is None:
        return None
    (found,) = place
    assert isinstance(found, part), "a cursor of another list"
    return found


def queue_of(request: ApiRequest) -> str | None:
    """Return the full path of the queue that is asked for, or None."""
    written = request.maybe("queue", str)
    return None if written is None else path_of(written)


def values_of(request: ApiRequest, name: str) -> frozenset[str] | None:
    """Return the values of a parameter that takes several, or None."""
    found = parts_of(request, name)
    return None if found is None else frozenset(found)


# End points


def list_endpoint(
    path: str,
    summary: str,
    handler: Handler,
    table: Table[Any],
    *parameters: Parameter,
    also: Sequence[Table[Any]] = (),
) -> Endpoint:
    """Return the end point of a list; with ``also`` its items may come from other tables, too."""
    accepted = (*parameters, _LIMIT, fields_of(table, *also))
    answers = {200: _list_answer(table, *also)}
    return Endpoint("GET", path, summary, Role.READER, handler, accepted, answers=answers)


def single_endpoint(
    path: str,
    summary: str,
    find: Callable[..., R | UnknownItem],
    table: Table[R],
    *names: Parameter,
    also: Sequence[Table[Any]] = (),
    otherwise: Callable[..., Awaitable[Mapping[str, object] | None]] | None = None,
) -> Endpoint:
    """Return the end point of single items; ``also`` as for a list, the rest as `answer_item`."""

    async def answer(request: ApiRequest) -> Response:
        return await answer_item(request, table, [one.name for one in names], find, otherwise)

    accepted = (*names, fields_of(table, *also, single=True))
    answers = {200: single_answer(table, *also), 404: _UNKNOWN}
    return Endpoint("GET", path, summary, Role.READER, answer, accepted, answers=answers)


def named_endpoints(
    name: str,
    noun: str,
    key: str,
    table: Table[R],
    items_of: Callable[[ReadContext], Mapping[str, T]],
    row: Callable[[ReadContext, T], R],
    *,
    full: Callable[[str], str] = str,
) -> tuple[Endpoint, Endpoint]:
    """Return the end points of items that are listed by name: of the list, and of single items.

    Args:
        name: The name of the list.
        noun: What an item is, in words.
        key: The name of the path parameter.
        table: The fields.
        items_of: Returns all items by name.
        row: Returns the row of an item, from which its fields are read.
        full: Returns the full name from one in a path.
    """

    async def answer(request: ApiRequest) -> Response:
        def select(context: ReadContext, most: int) -> Steps[Sequence[str]]:
            yield
            return names_behind(items_of(context), place_behind(request, str), most)

        return await answer_page(
            request,
            table,
            name,
            select,
            lambda context, found: row(context, items_of(context)[found]),
            lambda found: (found,),
        )

    def find(context: ReadContext, written: str) -> R | UnknownItem:
        found, known = full(written), items_of(context)
        return row(context, known[found]) if found in known else UnknownItem.of(found, known)

    return (
        list_endpoint(
            f"/api/v1/{name}", f"All {name}, by {key}.", answer, table, behind_cursor(name, str)
        ),
        single_endpoint(
            f"/api/v1/{name}/{{{key}:path}}", f"{noun}.", find, table, in_path(key, f"Its {key}.")
        ),
    )


_WEEK: Final = HistoryStart(back_us=7 * 86_400_000_000)
"""Since when usage is counted by default."""

_NOT_OF_ENDED: Final = ("gang", "reason")
"""The filters that the list of ended asks does not have."""


def since_us(service: Service, since: HistoryStart) -> int:
    """Return where a span begins, in microseconds since the origin."""
    if since.back_us is not None:
        return service.now_us() - since.back_us
    assert since.at_us is not None, "it has one of the two"
    return since.at_us - service.origin_us


def check_not_ended(request: ApiRequest) -> None:
    """Check that a list of present asks has no parameter that only ended asks have.

    Raises:
        Problem: 400 if it does.
    """
    if request.values["since"] is not None:
        raise Problem(
            400, "since: is for those that have ended: add state=ended", parameter="since"
        )
    place = parts_of(request, "after")
    if place is not None and len(place) == 1:
        _refuse_cursor()


def _refuse_cursor() -> None:
    message = "after: is no cursor of this list; take the `next` of an earlier page"
    raise Problem(400, message, parameter="after")


# LISTS-15
async def answer_ended(request: ApiRequest, pod: PodFilter | None) -> Response:
    """Answer with a page of asks that have ended, the latest first.

    Args:
        request: The request.
        pod: Only those that stood for such a pod; None for all.

    Raises:
        Problem: 400 if a parameter does not apply to ended asks.
    """
    if values_of(request, "state") != frozenset({PLACE}):
        message = "state: 'ended' stands alone: those that have ended are another list"
        raise Problem(400, message, parameter="state")
    for name in _NOT_OF_ENDED:
        if request.values[name] is not None:
            message = f"{name}: is not known of asks that have ended"
            raise Problem(400, message, parameter=name)
    place = parts_of(request, "after")
    if place is not None and len(place) != 1:
        _refuse_cursor()
    since = request.maybe("since", HistoryStart)
    wanted = EndedAskFilter(
        queue=queue_of(request),
        app=request.maybe("app", str),
        user=request.maybe("user", str),
        since_us=None if since is None else since_us(request.service, since),
        pod=pod,
    )
    limit, before = limit_of(request), None if place is None else int(place[0])
    found = await ended_asks(request.service, request.http, wanted, before, limit + 1)
    page = all_at_once(
        page_of(
            found.value,
            limit,
            ENDED.picked(field_names(request), single=False),
            lambda life: life,
            lambda life: cursor(PLACE, life.seq),
        )
    )
    heading = found.heading(request.service)
    return json_response({**heading, "items": page.items, "next": page.next})


# LISTS-18
async def ended_item(request: ApiRequest, app: str, ask: str) -> Mapping[str, object] | None:
    """Return the last life of an ask as a single item, or None."""
    return item_of_life(request, await ended_ask(request.service, request.http, app, ask))


def item_of_life(request: ApiRequest, life: EndedAsk | None) -> Mapping[str, object] | None:
    """Return a life as a single item, with the fields that are wanted; None if there is none."""
    if life is None:
        return None
    names = field_names(request) if "fields" in request.values else None
    return row_of(ENDED.picked(names, single=True), life)


# LISTS-21
async def answer_users(request: ApiRequest) -> Response:
    """Answer with a page of users, those who have used most first."""
    since = since_us(request.service, request.maybe("since", HistoryStart) or _WEEK)
    now_us = request.service.now_us()
    first = place_behind(request, int) or 0

    def select(context: ReadContext, most: int) -> Steps[Sequence[tuple[int, UserRow]]]:
        rows = yield from users_of(context, since, now_us)
        return list(enumerate(rows, 1))[first : first + most]

    return await answer_page(
        request, USERS, "users", select, lambda _, one: one[1], lambda one: (one[0],)
    )


_QUEUE: Final = query("queue", SOME_TEXT, "Those of this queue and below it.")
_USER: Final = query("user", SOME_TEXT, "Those of this user.")


# Applications


async def _apps(request: ApiRequest) -> Response:
    wanted = AppFilter(values_of(request, "state"), queue_of(request), request.maybe("user", str))

    def select(context: ReadContext, most: int) -> Steps[Sequence[ViewApp]]:
        return (yield from select_apps(context, wanted, place_behind(request, int), most))

    return await answer_page(
        request, APPS, "apps", select, row_of_app, lambda app: (app.identity.key,)
    )


def _app(context: ReadContext, name: str) -> AppRow | UnknownItem:
    app = app_of(context, name)
    return unknown_app(context, name) if app is None else row_of_app(context, app)


def app_of(context: ReadContext, name: str) -> ViewApp | None:
    """Return an application by its name, or None."""
    key = context.machine.registry.locate(name)
    return None if key is None else context.view.apps.get(key)


def unknown_app(context: ReadContext, name: str, details: str = "") -> UnknownItem:
    """Return that an application is unknown, or that it has completed."""
    if name in context.machine.registry.completed:
        return UnknownItem(details=f"{details}: it has completed", members={"completed": True})
    known = (app.identity.name for app in context.view.apps.values())
    return UnknownItem.of(name, known, details=details)


# Asks


async def answer_asks(
    request: ApiRequest, name: str = "asks", pod: PodFilter | None = None
) -> Response:
    """Answer with a page of asks.

    Args:
        request: The request.
        name: The name of the list.
        pod: Only those that stand for such a pod; None for all.

    Raises:
        Problem: 400 if parameters do not go together.
    """
    places, codes = values_of(request, "state"), values_of(request, "reason")
    if places is not None and PLACE in places:
        return await answer_ended(request, pod)
    check_not_ended(request)
    gang = request.maybe("gang", str)
    wanted = AskFilter(
        places=None if places is None else frozenset(map(AskPlace, places)),
        queue=queue_of(request),
        app=request.maybe("app", str),
        user=request.maybe("user", str),
        gang=None if gang is None else full_gang(gang),
        codes=None if codes is None else frozenset(map(Code, codes)),
        pod=pod,
    )

    def select(context: ReadContext, most: int) -> Steps[Sequence[AskRow]]:
        return (yield from select_asks(context, wanted, parts_of(request, "after"), most))

    return await answer_page(request, ASKS, name, select, lambda _, row: row, place_of_ask)


def _ask(context: ReadContext, app_name: str, name: str) -> AskRow | UnknownItem:
    app = app_of(context, app_name)
    found = None if app is None else row_of_ask(context, app, name)
    return found or unknown_ask(context, app_name, name)


def unknown_ask(context: ReadContext, app_name: str, name: str) -> UnknownItem:
    """Return that an ask or its application is unknown."""
    app = app_of(context, app_name)
    if app is None:
        return unknown_app(context, app_name, f": app {app_name!r} is unknown")
    failure = context.ledger.failure(app_name, name)
    if failure is not None:
        return UnknownItem(details=f"; it was removed, and {failure.text()}")
    known = (ask.name for ask in each_ask(app))
    return UnknownItem.of(name, known, before=f"{app_name}/")


def full_gang(written: str) -> str:
    """Return the full name of a gang; what cannot be one is the name of none."""
    try:
        return canonical_gang(written)
    except ValueError:
        return written


def ask_filters(name: str) -> tuple[Parameter, ...]:
    """Return the filters and the cursor of a list of asks with this name."""
    return (
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
            either(cursors(name, int, int), cursors(PLACE, int)),
            "Behind which item the page begins: the `next` of the page before.",
        ),
    )


# LISTS-1, LISTS-2, LISTS-3
ENDPOINTS: Final = (
    *named_endpoints(
        "queues",
        "A queue",
        "path",
        QUEUES,
        lambda context: context.machine.registry.queues,
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
        answer_asks,
        ASKS,
        *ask_filters("asks"),
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
        lambda context: context.view.gangs,
        GangRow,
        full=full_gang,
    ),
    *named_endpoints(
        "nodes", "A node", "name", NODES, lambda context: context.view.nodes.nodes, NodeRow
    ),
)
"""The lists and the single items."""
