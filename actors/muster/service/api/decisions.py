"""Decisions in the API: ``/api/v1/decisions``, as pages of lines and as a stream."""

from __future__ import annotations

import re
from typing import Final, final

import attrs
from starlette.requests import Request
from starlette.responses import Response

from muster._runtime.observers import Filter, path_of
from muster.service.access import Role
from muster.service.decision_log import Cursor, DecisionsRemovedError
from muster.service.endpoints.routes import Answer, ApiRequest, Endpoint
from muster.service.endpoints.schemas import (
    TEXT_KIND,
    ParameterKind as KindOf,
    header,
    integer,
    listed,
    query,
)
from muster.service.streams import EVENT_STREAM, EventStream, removed_problem
from muster_core.decisions import Kind
from muster_core.values.names import canonical_gang

_PAGE_BYTES: Final = 16 * 1024 * 1024
"""After how many bytes a page ends."""

_PAGE_DECISIONS: Final = 200_000
"""After how many decisions a page ends that a filter did not let through, too."""


@final
@attrs.frozen
class DecisionPage:
    """Some decisions.

    Attributes:
        lines: Their lines.
        position: The number of the last decision that was looked at.
        is_last: Whether nothing follows that was announced when the page was begun.
    """

    lines: list[bytes]
    position: int
    is_last: bool


# STREAM-1
async def read_page(cursor: Cursor, wanted: Filter | None, end: int, limit: int) -> DecisionPage:
    """Read a page of decisions.

    Args:
        cursor: Where it begins.
        wanted: Which decisions are wanted; None for all.
        end: The number of the last decision that may be on it.
        limit: How many decisions there are on it at most.

    Raises:
        DecisionsRemovedError: If decisions are not kept any more.
        StoreError: If the store cannot be read.
    """
    lines: list[bytes] = []
    size, begin = 0, cursor.position
    while (
        cursor.position < end
        and len(lines) < limit
        and size < _PAGE_BYTES
        and cursor.position - begin < _PAGE_DECISIONS
    ):
        block = await cursor.next()
        if block is None:
            break
        places, cursor.position = block.choose(cursor.position, end, wanted, limit - len(lines))
        some = block.lines_at(places)
        lines += some
        size += sum(map(len, some))
    return DecisionPage(lines, cursor.position, cursor.position >= end)


LINES: Final = "application/x-ndjson"

_DEFAULT_LIMIT: Final = 10_000
_HIGHEST: Final = 2**63 - 1


_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAME: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_GANG_NAME: Final = rf"({_LABEL}/)?{_NAME}(\.{_NAME})*"
_LONGEST_GANG: Final = 317


def _gang(written: str) -> str:
    if len(written) > _LONGEST_GANG or re.fullmatch(_GANG_NAME, written) is None:
        msg = "must be the name of a gang: `name` or `namespace/name`, each as RFC 1123 has it"
        raise ValueError(msg)
    try:
        return canonical_gang(written)
    except ValueError:
        return written  # No gang has a name that is so long.


_GANG: Final = KindOf(
    {"type": "string", "pattern": f"^{_GANG_NAME}$", "maxLength": _LONGEST_GANG}, _gang
)

_SEQ: Final = integer(0, _HIGHEST)


# STREAM-1, STREAM-3
async def _decisions(request: ApiRequest) -> Response:
    broadcast = request.service.broadcast
    wanted = _filter(request)
    until = request.maybe("until", int)
    limit = request.maybe("limit", int)
    if _wants_stream(request.http):
        resumed = request.maybe("Last-Event-ID", int)
        after = request.maybe("after", int) if resumed is None else resumed
        if after is None:
            after = broadcast.tail.last
        await broadcast.check(after)
        broadcast.check_room()
        return EventStream(broadcast, after, wanted, until, limit)
    return await _page(request, wanted, until, limit or _DEFAULT_LIMIT)


async def _page(
    request: ApiRequest, wanted: Filter | None, until: int | None, limit: int
) -> Response:
    broadcast = request.service.broadcast
    after = request.maybe("after", int)
    if after is None:
        after = await broadcast.first() - 1
    await broadcast.check(after)
    last = broadcast.tail.last
    end = last if until is None else min(last, until)
    try:
        with broadcast.cursor(after, lags=False) as cursor:
            page = await read_page(cursor, wanted, end, limit)
    except DecisionsRemovedError as error:
        raise removed_problem(error) from None
    headers = {"Muster-Last-Seq": str(page.position)}
    if not page.is_last:
        url = request.http.url.include_query_params(after=page.position)
        headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    return Response(b"".join(page.lines), 200, headers, media_type=LINES)


def _wants_stream(request: Request) -> bool:
    accepted = ",".join(request.headers.getlist("accept")).lower().split(",")
    return any(one.partition(";")[0].strip() == EVENT_STREAM for one in accepted)


def _filter(request: ApiRequest) -> Filter | None:
    kinds: tuple[str, ...] | None = request.values["kinds"]
    app, queue, gang = (request.maybe(name, str) for name in ("app", "queue", "gang"))
    if kinds is None and app is None and queue is None and gang is None:
        return None
    return Filter(
        None if kinds is None else frozenset(map(Kind, kinds)),
        app,
        None if queue is None else path_of(queue),
        gang,
    )


_ABOUT_AFTER: Final = (
    "Only decisions after this number. Default: for lines all that are kept, for a stream those "
    "from now on."
)

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/decisions",
        "The decisions, as lines or as a stream.",
        Role.READER,
        _decisions,
        parameters=(
            query("after", _SEQ, _ABOUT_AFTER),
            query("until", _SEQ, "Only decisions up to this number; a stream ends with it."),
            query(
                "limit",
                integer(1, 100_000),
                "How many decisions at most. Default: for lines 10,000, for a stream no limit.",
            ),
            query("kinds", listed(*Kind), "Only decisions of these kinds."),
            query("queue", TEXT_KIND, "Only decisions about this queue and the queues below it."),
            query("app", TEXT_KIND, "Only decisions about this application."),
            query("gang", _GANG, "Only decisions about this gang and its members."),
            header("Last-Event-ID", _SEQ, "For a stream: as `after`, and comes before it."),
        ),
        answers={
            200: Answer(
                "The decisions, each on a line; or with `Accept: text/event-stream` a stream.",
                {"type": "string"},
                LINES,
                others={EVENT_STREAM: {"type": "string"}},
                headers={
                    "Muster-Last-Seq": "The number of the last decision that was looked at.",
                    "Link": "The next page, if there is more, with `rel` `next`.",
                },
            ),
            409: Answer("The decision `after` is not announced yet."),
            410: Answer("Decisions that are wanted are not kept any more."),
        },
        tag="decisions",
    ),
)
