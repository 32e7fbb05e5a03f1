"""Applications, with their states, asks and gangs; and users, with what they hold and have used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import attrs
from starlette.responses import Response

from muster.feeds import Raw
from muster.figures.usage import DAY_US
from muster.service.access import Role
from muster.service.api.answers import UnknownItem
from muster.service.api.lists import app_of, unknown_app
from muster.service.ask_index import each_ask
from muster.service.endpoints.schemas import row_of
from muster.service.ledger.records import AppEntry, AskEnding
from muster.service.page.actions import refusal_of
from muster.service.page.asks import AskLine, lines_of
from muster.service.page.history import HistorySubject, decision_history, earlier_history
from muster.service.page.renderer import render_page
from muster.service.page.requests import Page, PageRequest
from muster.service.payloads import Problem
from muster.service.queries.apps import APPS, row_of_app
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.queues import UserRow, users_of
from muster.service.queries.reader import ReadContext
from muster_core.structures.steps import Steps, in_pieces
from muster_core.view.tree.application import ViewApp

_LIMIT: Final = 50
"""How many asks, and how many gangs, are shown."""


@final
@attrs.frozen
class AppPage:
    """An application at a moment; or that it has completed, or was never there.

    Attributes:
        item: Its columns; None if it is not there.
        came_us: When it came, in microseconds since the origin, or None.
        states: When it entered which state, oldest first, as far as known.
        ended: What it was at the end, if it has completed and this is known.
        unknown: What may have been meant, if it is not there.
        lines: Its first asks.
        has_more: Whether there are more.
        gangs: The names of the gangs of its asks.
        last_seq: The number of the last decision then.
        cancel: The events that end it.
        refused: Why whoever looks may not send these; empty if they may.
    """

    item: Mapping[str, Any] | None
    came_us: int | None
    states: Sequence[tuple[int, str]]
    ended: AppEntry | None
    unknown: UnknownItem | None
    last_seq: int
    lines: Sequence[AskLine] = ()
    has_more: bool = False
    gangs: Sequence[str] = ()
    cancel: Sequence[Mapping[str, Raw]] = ()
    refused: str = ""


def _read(viewed: PageRequest, name: str, looking: ReadContext) -> Steps[AppPage]:
    yield
    app = app_of(looking, name)
    entry = looking.ledger.app(name) or looking.ledger.completed.get(name)
    came_us = None if entry is None else entry.came_us
    states = () if entry is None else tuple(entry.states)
    seq = looking.ledger.seq
    if app is None:
        unknown = unknown_app(looking, name)
        return AppPage(None, came_us, states, entry, unknown, seq)
    rows = yield from select_asks(looking, AskFilter(app=name), None, _LIMIT + 1)
    lines = yield from lines_of(looking, rows[:_LIMIT])
    gangs = yield from _gangs(app)
    cancel: list[Mapping[str, Raw]] = [{"op": "remove_app", "app": name}]
    return AppPage(
        item=row_of(APPS.picked(None, single=True), row_of_app(looking, app)),
        came_us=came_us,
        states=states,
        ended=None,
        unknown=None,
        last_seq=seq,
        lines=lines,
        has_more=len(rows) > _LIMIT,
        gangs=gangs,
        cancel=cancel,
        refused=refusal_of(viewed, looking, cancel),
    )


def _gangs(app: ViewApp) -> Steps[list[str]]:
    found: set[str] = set()
    for piece in in_pieces(list(each_ask(app))):
        yield
        found.update(ask.gang for ask in piece if ask.gang is not None)
    return sorted(found)[:_LIMIT]


# PAGE-46
async def _app(viewed: PageRequest) -> Response:
    name = viewed.in_path("app")

    def read(looking: ReadContext) -> Steps[AppPage]:
        return _read(viewed, name, looking)

    found = await viewed.moment.seen(read)
    seen = found.value
    subject, is_known = HistorySubject("app", name, None), seen.ended is not None
    told, problem = await decision_history(
        viewed, subject, seen.last_seq, seen.came_us, seen.unknown, is_known=is_known
    )
    return render_page(
        viewed,
        "app.html",
        found=found,
        name=name,
        seen=seen,
        item=seen.item,
        told=told,
        problem=problem,
        about="app",
    )


# PAGE-44
async def _earlier(viewed: PageRequest) -> Response:
    name = viewed.in_path("app")

    def begin_us(looking: ReadContext) -> int | None:
        entry = looking.ledger.app(name) or looking.ledger.completed.get(name)
        return None if entry is None else entry.came_us

    return await earlier_history(viewed, HistorySubject("app", name, None), begin_us)


APP_PAGES: Final = (
    Page("GET", "/apps/{app}", Role.READER, _app),
    Page("GET", "/apps/{app}/earlier", Role.READER, _earlier),
)
"""An application."""


_MOST: Final = 100
"""How many users the page shows."""

_SPANS: Final[Mapping[str, str]] = {
    "1": "a day",
    "7": "7 days",
    "30": "30 days",
    "90": "90 days",
}
"""How far the page looks back, in days, and in words."""

_USUAL: Final = "7"


@final
@attrs.frozen
class _UserList:
    """The users of a page.

    Attributes:
        rows: The first ones.
        count: How many there are in all.
    """

    rows: Sequence[UserRow]
    count: int


# LISTS-24
async def _users(viewed: PageRequest) -> Response:
    days = viewed.text("days", _USUAL) or _USUAL
    if days not in _SPANS:
        raise Problem(400, f"days: {days[:100]!r}: must be one of {', '.join(_SPANS)}")
    now_us = viewed.moment.now_us()

    def read(looking: ReadContext) -> Steps[_UserList]:
        rows = yield from users_of(looking, now_us - int(days) * DAY_US, now_us)
        return _UserList(rows[:_MOST], len(rows))

    found = await viewed.moment.seen(read)
    return render_page(
        viewed,
        "users.html",
        listed=found.value,
        days=days,
        spans=_SPANS,
        endings=[ending.value for ending in AskEnding],
    )


USERS_PAGES: Final = (Page("GET", "/users", Role.READER, _users),)
"""The list of users."""
