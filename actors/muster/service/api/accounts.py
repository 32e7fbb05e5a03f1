"""Asks that have ended, and what users have used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from muster.service.api.answering import (
    answer_page,
    field_names,
    limit_of,
    parts_of,
    place_behind,
    queue_of,
    words_of,
)
from muster.service.endpoints.columns import row_of
from muster.service.endpoints.table import Asked, json_response
from muster.service.input.looking_back import Since
from muster.service.ledger.lives import LifeFilter
from muster.service.problems import Problem
from muster.service.reading.cursors import cursor
from muster.service.reading.ended import ENDED, PLACE, ended_ask, ended_asks
from muster.service.reading.looking import Looking
from muster.service.reading.pages import Page, page_of
from muster.service.reading.users import USERS, users_of
from muster_core.structures.steps import all_at_once

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.state import Service
    from muster_core.structures.steps import Steps

_WEEK: Final = Since(back_us=7 * 86_400_000_000)
"""Since when use is counted, if nothing is said."""

_NOT_OF_ENDED: Final = ("gang", "reason")
"""The filters of asks that those that have ended do not have."""


def since_us(service: Service, since: Since) -> int:
    """Return where a span begins, in microseconds since the origin."""
    if since.back_us is not None:
        return service.now_us() - since.back_us
    assert since.at_us is not None, "it has one of the two"
    return since.at_us - service.origin_us


def check_not_ended(asked: Asked) -> None:
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
async def answer_ended(asked: Asked) -> Response:
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
    since = asked.maybe("since", Since)
    wanted = LifeFilter(
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
async def ended_item(asked: Asked, app: str, ask: str) -> Mapping[str, object] | None:
    """Return the last life of an ask as a single item, or None."""
    life = await ended_ask(asked.service, asked.request, app, ask)
    if life is None:
        return None
    names = field_names(asked) if "fields" in asked.values else None
    return row_of(ENDED.picked(names, single=True), life)


# LISTS-21
async def answer_users(asked: Asked) -> Response:
    """Answer with a page of users, those who have used most first."""
    since = since_us(asked.service, asked.maybe("since", Since) or _WEEK)
    now_us = asked.service.now_us()
    columns, limit = USERS.picked(field_names(asked), single=False), limit_of(asked)

    def read(looking: Looking) -> Steps[Page]:
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


__all__ = [
    "answer_ended",
    "answer_users",
    "check_not_ended",
    "ended_item",
    "since_us",
]
