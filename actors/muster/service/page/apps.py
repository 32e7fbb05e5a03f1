"""Applications, with their states, asks and gangs; and users, with what they hold and have used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from muster._pod_identity import deletion_of
from muster.feeds import Raw
from muster.figures.usage import DAY_US
from muster.service.access import Role
from muster.service.api.lists import app_of, unknown_app
from muster.service.ask_index import each_ask
from muster.service.endpoints.schemas import row_of
from muster.service.ledger.records import AskEnding
from muster.service.page.actions import refusal_of
from muster.service.page.asks import lines_of
from muster.service.page.history import HistorySubject, earlier_history, subject_page
from muster.service.page.renderer import Shown, render_page
from muster.service.page.requests import Page, PageRequest
from muster.service.payloads import Problem
from muster.service.queries.apps import APPS, row_of_app
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.queues import users_of
from muster.service.queries.reader import ReadContext
from muster_core.structures.steps import Steps, in_pieces
from muster_core.view.tree.application import ViewApp

_LIMIT: Final = 50
"""How many asks, and how many gangs, are shown."""


def _read(page: PageRequest, name: str, context: ReadContext) -> Steps[Shown]:
    yield
    app = app_of(context, name)
    entry = context.ledger.app(name) or context.ledger.completed.get(name)
    known: Shown = {
        "came_us": None if entry is None else entry.came_us,
        "states": () if entry is None else tuple(entry.states),
        "last_seq": context.ledger.seq,
    }
    if app is None:
        unknown = unknown_app(context, name)
        return {**known, "item": None, "ended": entry, "unknown": unknown}
    rows = yield from select_asks(context, AskFilter(app=name), None, _LIMIT + 1)
    lines = yield from lines_of(context, rows[:_LIMIT])
    gangs = yield from _gangs(app)
    cancel: list[Mapping[str, Raw]] = [{"op": "remove_app", "app": name}]
    return {
        **known,
        "item": row_of(APPS.picked(None, single=True), row_of_app(context, app)),
        "ended": None,
        "unknown": None,
        "lines": lines,
        "has_more": len(rows) > _LIMIT,
        "gangs": gangs,
        "cancel": cancel,
        "refused": refusal_of(page, context, cancel),
    }


def _gangs(app: ViewApp) -> Steps[list[str]]:
    found: set[str] = set()
    for piece in in_pieces(list(each_ask(app))):
        yield
        found.update(ask.gang for ask in piece if ask.gang is not None)
    return sorted(found)[:_LIMIT]


# PAGE-46
async def _app(page: PageRequest) -> Response:
    name = page.in_path("app")
    return await subject_page(
        page,
        "app.html",
        HistorySubject("app", name, None),
        lambda context: _read(page, name, context),
        name=name,
        deletion_of=deletion_of,
    )


# PAGE-44
async def _earlier(page: PageRequest) -> Response:
    name = page.in_path("app")

    def begin_us(context: ReadContext) -> int | None:
        entry = context.ledger.app(name) or context.ledger.completed.get(name)
        return None if entry is None else entry.came_us

    return await earlier_history(page, HistorySubject("app", name, None), begin_us)


APP_PAGES: Final = (
    Page("GET", "/apps/{app}", Role.READER, _app),
    Page("GET", "/apps/{app}/earlier", Role.READER, _earlier),
)
"""An application."""


_MOST: Final = 100
"""How many users the page shows."""

_SPANS: Final[Mapping[str, str]] = {"1": "a day", "7": "7 days", "30": "30 days", "90": "90 days"}
"""How far the page looks back, in days, and in words."""

_USUAL: Final = "7"


# LISTS-24
async def _users(page: PageRequest) -> Response:
    days = page.text("days", _USUAL) or _USUAL
    if days not in _SPANS:
        raise Problem(400, f"days: {days[:100]!r}: must be one of {', '.join(_SPANS)}")
    now_us = page.moment.now_us()

    def read(context: ReadContext) -> Steps[Shown]:
        rows = yield from users_of(context, now_us - int(days) * DAY_US, now_us)
        return {"rows": rows[:_MOST], "count": len(rows)}

    found = await page.moment.read(read)
    return render_page(
        page,
        "users.html",
        listed=found.value,
        days=days,
        spans=_SPANS,
        endings=[ending.value for ending in AskEnding],
    )


USERS_PAGES: Final = (Page("GET", "/users", Role.READER, _users),)
"""The list of users."""
