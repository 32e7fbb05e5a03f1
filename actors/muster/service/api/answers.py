"""What all lists of the API have in common: parameters, pages, single items, unknown names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar, final

import attrs
import trio
from starlette.responses import Response

from muster._runtime.observers import path_of
from muster.service.access import Role
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
from muster.service.payloads import Problem
from muster.service.queries.reader import (
    ListPage,
    ReadContext,
    cursor,
    cursors,
    names_behind,
    page_of,
    read_state,
)
from muster_core.structures.steps import Steps
from muster_core.values.names import MOST_COMPARED, did_you_mean

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
    asked: ApiRequest,
    table: Table[R],
    name: str,
    select: Callable[[ReadContext, int], Steps[Sequence[T]]],
    row: Callable[[ReadContext, T], R],
    place: Callable[[T], tuple[str | int, ...]],
) -> Response:
    """Answer with a page.

    Args:
        asked: The request.
        table: The fields of the items.
        name: The name of the list.
        select: Returns what the page begins with, at most so many.
        row: Returns what the fields of an item are read from.
        place: Returns the place of an item in the order of the list.
    """
    columns, limit = table.picked(field_names(asked), single=False), limit_of(asked)

    def read(looking: ReadContext) -> Steps[ListPage]:
        found = yield from select(looking, limit + 1)
        return (
            yield from page_of(
                found,
                limit,
                columns,
                lambda one: row(looking, one),
                lambda one: cursor(name, *place(one)),
            )
        )

    found = await read_state(asked.service, read)
    page = found.value
    heading = found.heading(asked.service)
    return json_response({**heading, "items": page.items, "next": page.next})


@final
@attrs.frozen
class UnknownItem:
    """There is no such item.

    Attributes:
        known: The names that may have been meant.
        name: The name to compare them with.
        said: What else there is to say.
        before: What is written before each name that is offered.
        members: Further members of the answer.
    """

    known: tuple[str, ...] = ()
    name: str = ""
    said: str = ""
    before: str = ""
    members: Mapping[str, object] = attrs.field(factory=dict[str, object])

    @classmethod
    def of(
        cls, name: str, known: Iterable[str], *, said: str = "", before: str = ""
    ) -> UnknownItem:
        """Return that a name is none of those that are known."""
        return cls(tuple(islice(known, MOST_COMPARED)), name, said, before)

    async def problem(self, what: str, name: str) -> Problem:
        """Return what the client is told.

        Args:
            what: What is unknown.
            name: Its name in the request.
        """
        # To compare a thousand names takes some milliseconds, and anybody may ask for anything.
        guess = await trio.to_thread.run_sync(
            partial(did_you_mean, self.name, self.known, before=self.before)
        )
        return not_found(what, name, f"{self.said}{guess}", **self.members)


# LISTS-12
async def answer_item(
    asked: ApiRequest,
    table: Table[R],
    names: Sequence[str],
    find: Callable[..., R | UnknownItem],
    otherwise: Callable[..., Awaitable[Mapping[str, object] | None]] | None = None,
) -> Response:
    """Answer with a single item.

    Args:
        asked: The request.
        table: The fields of such items.
        names: The parts of the path that name it; the last one says what it is.
        find: Returns the item of a state with these names, or that it is unknown.
        otherwise: Returns what to answer to the request with these names if it is unknown; None
            if nothing is known.
    """
    columns = table.picked(field_names(asked), single=True)
    named = [asked.value(name, str) for name in names]

    def read(looking: ReadContext) -> Steps[Mapping[str, object] | UnknownItem]:
        yield
        item = find(looking, *named)
        return item if isinstance(item, UnknownItem) else row_of(columns, item)

    found = await read_state(asked.service, read)
    item = found.value
    if isinstance(item, UnknownItem):
        known = None if otherwise is None else await otherwise(asked, *named)
        if known is None:
            raise await item.problem(names[-1], "/".join(named))
        item = known
    return json_response({**found.heading(asked.service), "item": item})


def parts_of(asked: ApiRequest, name: str) -> tuple[Any, ...] | None:
    """Return the value of a parameter that has several parts, or None."""
    found: tuple[Any, ...] | None = asked.values[name]
    return found


def field_names(asked: ApiRequest) -> Sequence[str] | None:
    """Return which fields are wanted; None for all."""
    return parts_of(asked, "fields")


def limit_of(asked: ApiRequest) -> int:
    """Return how many items are wanted at most."""
    return asked.value("limit", int)


def place_behind(asked: ApiRequest, part: type[T]) -> T | None:
    """Return the only part of the place in a cursor, or None."""
    place = parts_of(asked, "after")
    if place is None:
        return None
    (found,) = place
    assert isinstance(found, part), "a cursor of another list"
    return found


def queue_of(asked: ApiRequest) -> str | None:
    """Return the full path of the queue that is asked for, or None."""
    written = asked.maybe("queue", str)
    return None if written is None else path_of(written)


def words_of(asked: ApiRequest, name: str) -> frozenset[str] | None:
    """Return the values of a parameter that takes several, or None."""
    found = parts_of(asked, name)
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
    asked = (*parameters, _LIMIT, fields_of(table, *also))
    answers = {200: _list_answer(table, *also)}
    return Endpoint("GET", path, summary, Role.READER, handler, asked, answers=answers)


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

    async def answer(asked: ApiRequest) -> Response:
        return await answer_item(asked, table, [one.name for one in names], find, otherwise)

    asked = (*names, fields_of(table, *also, single=True))
    answers = {200: single_answer(table, *also), 404: _UNKNOWN}
    return Endpoint("GET", path, summary, Role.READER, answer, asked, answers=answers)


def named_endpoints(
    name: str,
    one: str,
    key: str,
    table: Table[R],
    there: Callable[[ReadContext], Mapping[str, T]],
    row: Callable[[ReadContext, T], R],
    *,
    full: Callable[[str], str] = str,
) -> tuple[Endpoint, Endpoint]:
    """Return the end points of things that are listed by name: of the list, and of single ones.

    Args:
        name: The name of the list.
        one: What one of them is, in words.
        key: What its name is called.
        table: The fields.
        there: Returns all of them by name.
        row: Returns what the fields of one are read from.
        full: Returns the full name from one in a path.
    """

    async def answer(asked: ApiRequest) -> Response:
        def select(looking: ReadContext, most: int) -> Steps[Sequence[str]]:
            yield
            return names_behind(there(looking), place_behind(asked, str), most)

        return await answer_page(
            asked,
            table,
            name,
            select,
            lambda looking, found: row(looking, there(looking)[found]),
            lambda found: (found,),
        )

    def find(looking: ReadContext, written: str) -> R | UnknownItem:
        found, known = full(written), there(looking)
        return row(looking, known[found]) if found in known else UnknownItem.of(found, known)

    return (
        list_endpoint(
            f"/api/v1/{name}", f"All {name}, by {key}.", answer, table, behind_cursor(name, str)
        ),
        single_endpoint(
            f"/api/v1/{name}/{{{key}:path}}", f"{one}.", find, table, in_path(key, f"Its {key}.")
        ),
    )
