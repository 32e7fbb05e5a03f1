"""Asks: finding them by name, queue, user, state and reason; and one of them, with its output.

An ask says all reasons why it is not running. Also applications, with their states, asks and gangs;
and users, with what they hold and have used.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import trio
from starlette.responses import Response

from muster._pod_identity import deletion_of
from muster.explain._output import explanation_map
from muster.feeds import Raw
from muster.figures.text import instant_of
from muster.figures.usage import DAY_US
from muster.service.access import Role
from muster.service.api.lists import app_of, full_gang, unknown_app, unknown_ask
from muster.service.api.logs import OutputBody, written_by
from muster.service.ask_index import ask_counts, each_ask
from muster.service.endpoints.schemas import row_of
from muster.service.ledger.records import AskEnding
from muster.service.page.actions import refusal_of
from muster.service.page.history import HistorySubject, earlier_history, subject_page
from muster.service.page.renderer import TemplateData, render_page
from muster.service.page.requests import Page, PageRequest, filters_of, place_of, queue_of, word_of
from muster.service.payloads import Problem
from muster.service.queries.apps import APPS, leaves_of, row_of_app
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.asks import ASKS, AskRow, place_of_ask, row_of_ask
from muster.service.queries.queues import users_of
from muster.service.queries.reader import ReadContext, cursor
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.affinity import terms_in_words
from muster_core.view.tree.application import ViewApp

_LIMIT: Final = 50
"""How many asks, and how many gangs, a page shows."""

_FILTERS: Final = ("name", "queue", "user", "state", "reason", "app", "gang")

# PAGE-84, POD-14
_COLUMNS: Final = ASKS.picked(
    (
        "app",
        "ask",
        "pod",
        "queue",
        "user",
        "place",
        "node",
        "priority",
        "aged",
        "resources",
        "devices",
        "gang",
        "reason",
    ),
    single=False,
)

_A_FEW: Final = 256
"""How many applications are counted between two places to pause."""


def ask_line(row: AskRow) -> TemplateData:
    """Return an ask as it is shown."""
    since_us = row.since_us()
    if since_us is None:
        since_us = row.bound_us()
    item = row_of(_COLUMNS, row)
    why, at_us = _why(row, item["reason"])
    return {
        "item": item,
        "why": why,
        "at_us": at_us,
        "since_us": since_us,
        "reserved": row.reservation(),
    }


def _why(row: AskRow, code: object) -> tuple[str | None, int | None]:
    """Return the dominant reason in words, and the instant that it names; None if it is bound.

    What keeps a whole gang from starting takes a look at each node, and its page has it.
    """
    if row.ask.gang is not None and code is not None:
        return Code(str(code)).summary, None
    reason = row.dominant()
    return (None, None) if reason is None else (reason.message, instant_of(reason.facts))


def lines_of(context: ReadContext, rows: Sequence[AskRow]) -> Steps[list[TemplateData]]:
    """Return asks as they are shown."""
    yield from context.view.explainer.prepare()
    lines: list[TemplateData] = []
    for row in rows:
        yield
        lines.append(ask_line(row))
    return lines


def _filter_of(page: PageRequest) -> AskFilter:
    place = word_of(page, "state", AskPlace)
    code = word_of(page, "reason", Code)
    gang = page.text("gang")
    return AskFilter(
        places=None if place is None else frozenset({place}),
        queue=queue_of(page),
        app=page.text("app") or None,
        user=page.text("user") or None,
        gang=full_gang(gang) if gang else None,
        codes=None if code is None else frozenset({code}),
        text=page.text("name").lower() or None,
    )


# PAGE-40
async def _asks(page: PageRequest) -> Response:
    wanted = _filter_of(page)
    place = place_of(page, "asks", int, int)

    def read(context: ReadContext) -> Steps[TemplateData]:
        found = yield from select_asks(context, wanted, place, _LIMIT + 1)
        rows = found[:_LIMIT]
        lines = yield from lines_of(context, rows)
        more = None
        if len(found) > _LIMIT:
            more = cursor("asks", *place_of_ask(rows[-1]))
        counts = yield from _counts(context, wanted)
        return {"lines": lines, "next": more, "counts": counts}

    found = await page.moment.read(read)
    return render_page(
        page,
        "asks.html",
        found=found,
        listed=found.value,
        filters=filters_of(page, *_FILTERS),
        places=[place.value for place in AskPlace],
        reasons={code.value: code.summary for code in Code},
    )


def _counts(context: ReadContext, wanted: AskFilter) -> Steps[Mapping[str, int] | None]:
    """Return how many asks are in each place, if the filter allows to sum up applications."""
    if wanted.text is not None or wanted.gang is not None or wanted.codes is not None:
        return None
    counts = Counter(dict.fromkeys((place.value for place in AskPlace), 0))
    leaves = None if wanted.queue is None else leaves_of(context, wanted.queue)
    for piece in in_pieces(list(context.view.apps.values()), _A_FEW):
        yield
        for app in piece:
            identity = app.identity
            if (
                (leaves is None or identity.leaf in leaves)
                and (wanted.user is None or identity.user[0] == wanted.user)
                and (wanted.app is None or identity.name == wanted.app)
            ):
                counts.update(ask_counts(app))
    return counts


ASK_LIST_PAGES: Final = (Page("GET", "/asks", Role.READER, _asks),)
"""The list of asks."""


_ASK_COLUMNS: Final = [one for one in ASKS.picked(None, single=True) if one.name != "message"]


def _read_ask(
    page: PageRequest, app_name: str, name: str, context: ReadContext
) -> Steps[TemplateData]:
    yield
    app = app_of(context, app_name)
    row = None if app is None else row_of_ask(context, app, name)
    seq = context.ledger.seq
    if row is None:
        came_us, unknown = _app_came_us(context, app_name), unknown_ask(context, app_name, name)
        return {"item": None, "came_us": came_us, "unknown": unknown, "last_seq": seq}
    yield from context.view.explainer.prepare()
    explanation = yield from context.machine.explain_fully(app_name, name)
    cancel = _cancel(row)
    refused = refusal_of(page, context, cancel)
    shape = row.ask.shape
    return {
        "item": row_of(_ASK_COLUMNS, row),
        "instants": _instants(row, page.moment.now_us()),
        "why": explanation_map(explanation),
        "came_us": row.ask.came_us,
        "unknown": None,
        "last_seq": seq,
        "cancel": cancel,
        "refused": refused,
        "outlook": None if explanation is None else explanation.outlook,
        "passed": row.passed(),
        "tolerations": list(map(str, shape.tolerations)),
        "affinity": None if shape.affinity is None else terms_in_words(shape.affinity),
    }


def _app_came_us(context: ReadContext, name: str) -> int | None:
    entry = context.ledger.app(name) or context.ledger.completed.get(name)
    return None if entry is None else entry.came_us


def _instants(row: AskRow, now_us: int) -> dict[str, int | None]:
    reservation = row.reservation()
    return {
        "came": row.ask.came_us,
        "since": row.since_us(),
        "taken": row.taken_us(),
        "bound": row.bound_us(),
        "ends": row.ends_at_us(now_us),
        "gone": row.gone_at_us(),
        "backs_off_until": row.back_off_us(),
        "last_failed": row.last_failed_us(),
        "reserved": None if reservation is None else reservation.start_us,
    }


def _cancel(row: AskRow) -> Sequence[Mapping[str, Raw]]:
    """Return the event that ends an ask, wherever it is."""
    names: dict[str, Raw] = {"app": row.app.identity.name, "ask": row.ask.name}
    if row.place is AskPlace.BOUND:
        return [{"op": "release", **names, "message": "cancelled"}]
    return [{"op": "remove_ask", **names}]


# PAGE-41, PAGE-42
async def _ask(page: PageRequest) -> Response:
    app, name = page.in_path("app"), page.in_path("ask")
    return await subject_page(
        page,
        "ask.html",
        HistorySubject("ask", app, name),
        lambda context: _read_ask(page, app, name, context),
        app=app,
        name=name,
        deletion_of=deletion_of,
        runs_commands=page.service.backend is not None,
    )


# PAGE-44
async def _earlier_decisions(page: PageRequest) -> Response:
    app, name = page.in_path("app"), page.in_path("ask")

    def begin_us(context: ReadContext) -> int | None:
        entry = context.ledger.ask(app, name)
        if entry is not None and entry.came_us is not None:
            return entry.came_us
        return _app_came_us(context, app)

    return await earlier_history(page, HistorySubject("ask", app, name), begin_us)


ASK_PAGES: Final = (
    Page("GET", "/asks/{app}/{ask}", Role.READER, _ask),
    Page("GET", "/asks/{app}/{ask}/earlier", Role.READER, _earlier_decisions),
)
"""An ask."""


_LAST_BYTES: Final = 16 * 1024
"""How much of the end is shown, in bytes."""

_HIGHEST: Final = 999_999_999


# PAGE-45
async def _tail(page: PageRequest) -> Response:
    """Show the end of the output."""
    app, name = page.in_path("app"), page.in_path("ask")
    try:
        written = await written_by(page.service, app, name, None)
    except Problem as problem:
        # PAGE-86
        earlier = cast("list[int]", problem.members.get("earlier") or [])
        others = [(number, True) for number in reversed(earlier)]
        return render_page(page, "output.html", written=None, hint=problem.detail, others=others)
    text, cut = await trio.to_thread.run_sync(_end_of, written.file)
    others = [*written.others]
    return render_page(
        page, "output.html", written=written, text=text, cut=cut, hint="", others=others
    )


def _end_of(file: Path) -> tuple[str, int]:
    """Return the end of a file, and how many bytes are before it."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:  # it was removed with history
        return "", 0
    try:
        begin = max(os.fstat(descriptor).st_size - _LAST_BYTES, 0)
        read = os.pread(descriptor, _LAST_BYTES, begin)
    finally:
        os.close(descriptor)
    return read.decode(errors="replace"), begin


# PAGE-45
async def _all_output(page: PageRequest) -> Response:
    """Send all of the output as text."""
    app, name = page.in_path("app"), page.in_path("ask")
    attempt = page.number("attempt", 0, 0, _HIGHEST) or None
    written = await written_by(page.service, app, name, attempt)
    page.service.broadcast.check_room()
    return OutputBody(written, page.service.broadcast, follows=False)


OUTPUT_PAGES: Final = (
    Page("GET", "/asks/{app}/{ask}/output", Role.READER, _tail),
    Page("GET", "/asks/{app}/{ask}/output.txt", Role.READER, _all_output),
)
"""The output of asks."""


def _read_app(page: PageRequest, name: str, context: ReadContext) -> Steps[TemplateData]:
    yield
    app = app_of(context, name)
    entry = context.ledger.app(name) or context.ledger.completed.get(name)
    known: TemplateData = {
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
        lambda context: _read_app(page, name, context),
        name=name,
        deletion_of=deletion_of,
    )


# PAGE-44
async def _earlier_of_app(page: PageRequest) -> Response:
    name = page.in_path("app")
    subject = HistorySubject("app", name, None)
    return await earlier_history(page, subject, lambda context: _app_came_us(context, name))


APP_PAGES: Final = (
    Page("GET", "/apps/{app}", Role.READER, _app),
    Page("GET", "/apps/{app}/earlier", Role.READER, _earlier_of_app),
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

    def read(context: ReadContext) -> Steps[TemplateData]:
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
