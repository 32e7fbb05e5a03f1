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
from muster.service.endpoints import schemas
from muster.service.endpoints.routes import (
    Answer,
    ApiRequest,
    Endpoint,
    Handler,
    json_response,
    not_found,
)
from muster.service.endpoints.schemas import Parameter, Table, integer, listed, query, row_of
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
    "batch": {
        **schemas.NUMBER,
        "description": "the number of the batch after which this is the state",
    },
    "at": {**schemas.SECONDS, "description": "its instant, in seconds since the origin"},
    "time": {**schemas.TEXT, "format": "date-time", "description": "the same as a date, in UTC"},
}


def _list_answer(*tables: Table[Any]) -> Answer:
    items = {"type": "array", "items": _one_of([one.schema(single=False) for one in tables])}
    after = {
        **schemas.maybe(schemas.TEXT),
        "description": "the cursor of the next page; null if this is the last",
    }
    properties = {**_HEADING, "items": items, "next": after}
    return Answer("A page.", _object(properties))


def single_answer(*tables: Table[Any]) -> Answer:
    """Return the answer with a single item, which comes from one of some tables."""
    item = _one_of([one.schema(single=True) for one in tables])
    return Answer("The item.", _object({**_HEADING, "item": item}))


def _one_of(schemas_of_items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(schemas_of_items) == 1:
        return schemas_of_items[0]
    return {"anyOf": [*schemas_of_items]}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


_UNKNOWN: Final = Answer("There is no such item.", media="application/problem+json")


async def answer_page(
    asked: ApiRequest, read: Callable[[ReadContext], Steps[ListPage]]
) -> Response:
    """Answer with a page."""
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
    what: str,
    name: str,
    find: Callable[[ReadContext], R | UnknownItem],
    otherwise: Callable[[], Awaitable[Mapping[str, object] | None]] | None = None,
) -> Response:
    """Answer with a single item.

    Args:
        asked: The request.
        table: The fields of such items.
        what: What it is.
        name: Its name in the request.
        find: Returns it, or that it is unknown.
        otherwise: Returns what to answer if it is unknown; None if nothing is known.
    """
    columns = table.picked(field_names(asked), single=True)

    def read(looking: ReadContext) -> Steps[dict[str, object] | UnknownItem]:
        yield
        item = find(looking)
        return item if isinstance(item, UnknownItem) else dict(row_of(columns, item))

    found = await read_state(asked.service, read)
    item: Mapping[str, object] | None
    if isinstance(found.value, UnknownItem):
        item = None if otherwise is None else await otherwise()
        if item is None:
            raise await found.value.problem(what, name)
    else:
        item = found.value
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


def page_by_name(
    asked: ApiRequest,
    table: Table[R],
    listed: str,
    names: Callable[[ReadContext], Iterable[str]],
    row: Callable[[ReadContext, str], R],
) -> Callable[[ReadContext], Steps[ListPage]]:
    """Return what reads a page of a list that is ordered by name."""
    columns = table.picked(field_names(asked), single=False)

    def read(looking: ReadContext) -> Steps[ListPage]:
        yield
        found = names_behind(names(looking), place_behind(asked, str), limit_of(asked) + 1)
        return (
            yield from page_of(
                found,
                limit_of(asked),
                columns,
                lambda name: row(looking, name),
                lambda name: cursor(listed, name),
            )
        )

    return read


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
    return _reading(path, summary, handler, asked, {200: _list_answer(table, *also)})


def single_endpoint(
    path: str,
    summary: str,
    handler: Handler,
    table: Table[Any],
    *parameters: Parameter,
    also: Sequence[Table[Any]] = (),
) -> Endpoint:
    """Return the end point of single items; ``also`` as for a list."""
    asked = (*parameters, fields_of(table, *also, single=True))
    answers = {200: single_answer(table, *also), 404: _UNKNOWN}
    return _reading(path, summary, handler, asked, answers)


def _reading(
    path: str,
    summary: str,
    handler: Handler,
    parameters: tuple[Parameter, ...],
    answers: Mapping[int, Answer],
) -> Endpoint:
    return Endpoint("GET", path, summary, Role.READER, handler, parameters, answers=answers)
