"""One ask: where it is, why it is not running, what was decided about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from muster.explain._maps import explanation_map
from muster.service.access.who import Role
from muster.service.api.lists import app_of, what_ask
from muster.service.endpoints.columns import row_of
from muster.service.page.parts.asks.history import further, history
from muster.service.page.parts.asks.rights import refusal_of
from muster.service.page.parts.asks.told import Subject
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.reading.asks import ASKS, AskRow, row_of_ask
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.feeds import Raw
    from muster.service.api.answering import Unknown
    from muster.service.reading.looking import Looking
    from muster_core.reasons import Outlook, Passed
    from muster_core.structures.steps import Steps

_COLUMNS: Final = [one for one in ASKS.picked(None, single=True) if one.name != "message"]

_BOUND: Final = AskPlace.BOUND


@final
@attrs.frozen
class AskSeen:
    """An ask at a moment; or that it is over, or was never there.

    Attributes:
        item: Its columns; None if it is not there.
        instants: Its instants by name, in microseconds since the origin.
        why: Why it is not running, as a map; without reasons if it is bound.
        begin_us: Since when its history may go, in microseconds since the origin, or None.
        unknown: What may have been meant, if it is not there.
        last_seq: The number of the last decision then.
        cancel: The events that end it.
        refused: Why whoever looks may not send these; empty if they may.
        has_command: Whether it has a command that this service may run.
        outlook: When it will start; None if it is not pending.
        passed: The reservations that it did not delay when it got the node that it holds.
    """

    item: Mapping[str, Any] | None
    instants: Mapping[str, int | None]
    why: Mapping[str, Any]
    begin_us: int | None
    unknown: Unknown | None
    last_seq: int
    cancel: Sequence[Mapping[str, Raw]] = ()
    refused: str = ""
    has_command: bool = False
    outlook: Outlook | None = None
    passed: Sequence[Passed] = ()


def _read(viewed: Viewed, app_name: str, name: str, looking: Looking) -> Steps[AskSeen]:
    yield
    app = app_of(looking, app_name)
    row = None if app is None else row_of_ask(looking, app, name)
    seq = looking.ledger.seq
    if row is None:
        entry = looking.ledger.app(app_name) or looking.ledger.completed.get(app_name)
        begin_us = None if entry is None else entry.came_us
        unknown = what_ask(looking, app_name, name)
        return AskSeen(None, {}, explanation_map(None), begin_us, unknown, seq)
    yield from looking.view.prepare_to_explain()
    explanation = yield from looking.machine.explain_fully(app_name, name)
    cancel = _cancel(row)
    refused = refusal_of(viewed, looking, cancel)
    return AskSeen(
        item=row_of(_COLUMNS, row),
        instants=_instants(row, viewed.moment.now_us()),
        why=explanation_map(explanation),
        begin_us=row.ask.came_us,
        unknown=None,
        last_seq=seq,
        cancel=cancel,
        refused=refused,
        has_command=row.command() is not None,
        outlook=None if explanation is None else explanation.outlook,
        passed=row.passed(),
    )


def _instants(row: AskRow, now_us: int) -> dict[str, int | None]:
    told, reservation = row.told, row.reservation()
    return {
        "came": row.ask.came_us,
        "since": row.since_us(),
        "taken": None if told is None else told.taken_us,
        "bound": None if told is None else told.bound_us,
        "ends": row.ends_at_us(now_us),
        "backs_off_until": row.back_off_us(),
        "last_failed": row.last_failed_us(),
        "reserved": None if reservation is None else reservation.start_us,
    }


def _cancel(row: AskRow) -> Sequence[Mapping[str, Raw]]:
    """Return the event that ends an ask, wherever it is."""
    names: dict[str, Raw] = {"app": row.app.identity.name, "ask": row.ask.name}
    if row.place is _BOUND:
        return [{"op": "release", **names, "message": "cancelled"}]
    return [{"op": "remove_ask", **names}]


# PAGE-41, PAGE-42
async def _ask(viewed: Viewed) -> Response:
    app, name = viewed.in_path("app"), viewed.in_path("ask")

    def read(looking: Looking) -> Steps[AskSeen]:
        return _read(viewed, app, name, looking)

    found = await viewed.moment.seen(read)
    seen = found.value
    subject = Subject("ask", app, name)
    told, problem = await history(viewed, subject, seen.last_seq, seen.begin_us, seen.unknown)
    return shown(
        viewed,
        "ask.html",
        found=found,
        app=app,
        name=name,
        seen=seen,
        item=seen.item,
        told=told,
        problem=problem,
        about="ask",
        runs_commands=viewed.service.local is not None or viewed.service.ray is not None,
    )


# PAGE-44
async def _earlier(viewed: Viewed) -> Response:
    app, name = viewed.in_path("app"), viewed.in_path("ask")

    def begin_us(looking: Looking) -> int | None:
        owner = looking.ledger.app(app) or looking.ledger.completed.get(app)
        entry = looking.ledger.ask(app, name)
        if entry is not None and entry.came_us is not None:
            return entry.came_us
        return None if owner is None else owner.came_us

    return await further(viewed, Subject("ask", app, name), begin_us)


PAGES: Final = (
    Page("GET", "/asks/{app}/{ask}", Role.READER, _ask),
    Page("GET", "/asks/{app}/{ask}/earlier", Role.READER, _earlier),
)
"""An ask."""
