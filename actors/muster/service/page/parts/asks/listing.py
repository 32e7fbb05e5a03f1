"""Asks: finding them by name, queue, user, state and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.instants import instant_of
from muster.figures.words import REASONS
from muster.service.access.who import Role
from muster.service.endpoints.columns import row_of
from muster.service.page.parts.asks.asking import filters_of, queue_of, word_of
from muster.service.page.parts.places import place_of
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.reading.apps import leaves_of
from muster.service.reading.asks import ASKS, AskRow
from muster.service.reading.cursors import cursor
from muster.service.reading.selecting import AskFilter, select_asks
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import in_pieces
from muster_core.values.gang_names import canonical_gang

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.reading.looking import Looking
    from muster_core.snapshots import ReservationSnapshot
    from muster_core.structures.steps import Steps

_LIMIT: Final = 50
"""How many asks a page shows."""

_FILTERS: Final = ("name", "queue", "user", "state", "reason", "app", "gang")

# PAGE-84
_COLUMNS: Final = ASKS.picked(
    (
        "app",
        "ask",
        "queue",
        "user",
        "place",
        "node",
        "priority",
        "resources",
        "devices",
        "gang",
        "reason",
    ),
    single=False,
)

_A_FEW: Final = 256
"""How many applications are counted between two places to pause."""


@final
@attrs.frozen
class AskLine:
    """An ask, as a list shows it.

    Attributes:
        item: The columns of the list of asks.
        why: The dominant reason in words; None if it is bound.
        at_us: The instant that this reason names, in microseconds since the origin; or None.
        since_us: Since when it waits, or is bound, likewise.
        reserved: The node that is reserved for it, and from when on; None for none.
    """

    item: Mapping[str, object]
    why: str | None
    at_us: int | None
    since_us: int | None
    reserved: ReservationSnapshot | None

    @classmethod
    def of(cls, row: AskRow) -> AskLine:
        """Return an ask as it is shown."""
        since_us = row.since_us()
        if since_us is None and row.told is not None:
            since_us = row.told.bound_us
        item = row_of(_COLUMNS, row)
        return cls(item, *_why(row, item["reason"]), since_us, row.reservation())


def _why(row: AskRow, code: object) -> tuple[str | None, int | None]:
    """Return the dominant reason in words, and the instant that it names; None if it is bound.

    What keeps a whole gang from starting takes a look at each node, and its page has it.
    """
    if row.ask.gang is not None and code is not None:
        return REASONS[Code(str(code))], None
    reason = row.dominant()
    return (None, None) if reason is None else (reason.message, instant_of(reason.facts))


@final
@attrs.frozen
class _Listed:
    """The asks of a page.

    Attributes:
        lines: The asks.
        next: The cursor of the next page, or None.
        counts: How many there are in each place; None if only a search would tell.
    """

    lines: Sequence[AskLine]
    next: str | None
    counts: Mapping[str, int] | None


def lines_of(looking: Looking, rows: Sequence[AskRow]) -> Steps[list[AskLine]]:
    """Return asks as they are shown."""
    yield from looking.view.prepare_to_explain()
    lines: list[AskLine] = []
    for row in rows:
        yield
        lines.append(AskLine.of(row))
    return lines


def full_gang(written: str) -> str:
    """Return the full name of a gang; what cannot be one is the name of none."""
    try:
        return canonical_gang(written)
    except ValueError:
        return written


def _wanted(viewed: Viewed) -> AskFilter:
    place = word_of(viewed, "state", AskPlace)
    code = word_of(viewed, "reason", Code)
    gang = viewed.text("gang")
    return AskFilter(
        places=None if place is None else frozenset({place}),
        queue=queue_of(viewed),
        app=viewed.text("app") or None,
        user=viewed.text("user") or None,
        gang=full_gang(gang) if gang else None,
        codes=None if code is None else frozenset({code}),
        text=viewed.text("name").lower() or None,
    )


# PAGE-40
async def _asks(viewed: Viewed) -> Response:
    wanted = _wanted(viewed)
    place = place_of(viewed, "asks", int, int)

    def read(looking: Looking) -> Steps[_Listed]:
        found = yield from select_asks(looking, wanted, place, _LIMIT + 1)
        rows = found[:_LIMIT]
        lines = yield from lines_of(looking, rows)
        more = None
        if len(found) > _LIMIT:
            last = rows[-1].ask
            more = cursor("asks", last.seq, last.number)
        counts = yield from _counts(looking, wanted)
        return _Listed(lines, more, counts)

    found = await viewed.moment.seen(read)
    return shown(
        viewed,
        "asks.html",
        found=found,
        listed=found.value,
        filters=filters_of(viewed, *_FILTERS),
        places=[place.value for place in AskPlace],
        reasons={code.value: words for code, words in REASONS.items()},
    )


def _counts(looking: Looking, wanted: AskFilter) -> Steps[Mapping[str, int] | None]:
    """Return how many asks are in each place, if the applications tell."""
    if wanted.text is not None or wanted.gang is not None or wanted.codes is not None:
        return None
    counts = dict.fromkeys((place.value for place in AskPlace), 0)
    leaves = None if wanted.queue is None else leaves_of(looking, wanted.queue)
    for piece in in_pieces(list(looking.view.apps.values()), _A_FEW):
        yield
        for app in piece:
            identity = app.identity
            if (
                (leaves is None or identity.leaf in leaves)
                and (wanted.user is None or identity.user[0] == wanted.user)
                and (wanted.app is None or identity.name == wanted.app)
            ):
                counts["pending"] += len(app.pending) + len(app.backing_off)
                counts["parked"] += len(app.parked)
                counts["waiting"] += len(app.waiting)
                counts["bound"] += len(app.bound)
    return counts


PAGES: Final = (Page("GET", "/asks", Role.READER, _asks),)
"""The list of asks."""
