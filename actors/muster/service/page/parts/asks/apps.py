"""One application: its states, its asks, its gangs, and what was decided about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from muster.service.access.who import Role
from muster.service.api.lists import app_of, what_app
from muster.service.endpoints.columns import row_of
from muster.service.page.parts.asks.history import further, history
from muster.service.page.parts.asks.listing import AskLine, lines_of
from muster.service.page.parts.asks.rights import refusal_of
from muster.service.page.parts.asks.told import Subject
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.reading.apps import APPS, row_of_app
from muster.service.reading.selecting import AskFilter, select_asks
from muster.service.roll import each_ask
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.feeds import Raw
    from muster.service.api.answering import Unknown
    from muster.service.ledger.entries import AppEntry
    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp

_LIMIT: Final = 50
"""How many asks, and how many gangs, are shown."""


@final
@attrs.frozen
class AppSeen:
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
    unknown: Unknown | None
    last_seq: int
    lines: Sequence[AskLine] = ()
    has_more: bool = False
    gangs: Sequence[str] = ()
    cancel: Sequence[Mapping[str, Raw]] = ()
    refused: str = ""


def _read(viewed: Viewed, name: str, looking: Looking) -> Steps[AppSeen]:
    yield
    app = app_of(looking, name)
    entry = looking.ledger.app(name) or looking.ledger.completed.get(name)
    came_us = None if entry is None else entry.came_us
    states = () if entry is None else tuple(entry.states)
    seq = looking.ledger.seq
    if app is None:
        unknown = what_app(looking, name)
        return AppSeen(None, came_us, states, entry, unknown, seq)
    rows = yield from select_asks(looking, AskFilter(app=name), None, _LIMIT + 1)
    lines = yield from lines_of(looking, rows[:_LIMIT])
    gangs = yield from _gangs(app)
    cancel: list[Mapping[str, Raw]] = [{"op": "remove_app", "app": name}]
    return AppSeen(
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
async def _app(viewed: Viewed) -> Response:
    name = viewed.in_path("app")

    def read(looking: Looking) -> Steps[AppSeen]:
        return _read(viewed, name, looking)

    found = await viewed.moment.seen(read)
    seen = found.value
    subject, is_known = Subject("app", name, None), seen.ended is not None
    told, problem = await history(
        viewed, subject, seen.last_seq, seen.came_us, seen.unknown, is_known=is_known
    )
    return shown(
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
async def _earlier(viewed: Viewed) -> Response:
    name = viewed.in_path("app")

    def begin_us(looking: Looking) -> int | None:
        entry = looking.ledger.app(name) or looking.ledger.completed.get(name)
        return None if entry is None else entry.came_us

    return await further(viewed, Subject("app", name, None), begin_us)


PAGES: Final = (
    Page("GET", "/apps/{app}", Role.READER, _app),
    Page("GET", "/apps/{app}/earlier", Role.READER, _earlier),
)
"""An application."""
