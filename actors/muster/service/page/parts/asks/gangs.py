"""Gangs: finding them, and one of them with its members and why it does not start."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from muster.figures.words import REASONS
from muster.service.access.who import Role
from muster.service.endpoints.columns import row_of
from muster.service.page.parts.asks.asking import filters_of, queue_of, word_of
from muster.service.page.parts.places import place_of
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.reading.apps import leaves_of
from muster.service.reading.cursors import cursor
from muster.service.reading.gangs import GANGS, GangRow
from muster_core.gangs.states import GangState
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps
    from muster_core.view.gangs.gang import ViewGang

_LIMIT: Final = 50
"""How many gangs a page shows."""

_PIECE: Final = 128
"""How many gangs are looked at between two places to pause."""

_SATISFIED: Final = GangState.SATISFIED

STATES: Final[Mapping[GangState, str]] = {
    GangState.PLACEHOLDER: "not defined",
    GangState.GATHERING: "does not hold nodes yet",
    GangState.WAITING: "members wait on their nodes for the rest",
    GangState.SATISFIED: "its members run",
    GangState.TIMED_OUT: "its members are parked",
}
"""Each state of a gang in words."""


@final
@attrs.frozen
class GangLine:
    """A gang, as the page shows it.

    Attributes:
        item: The columns of the list of gangs.
        state: Its state.
        queues: The paths of the queues of its members.
        why: Why it does not start, in a few words; empty if it does, or nobody waits.
        since_us: When its present wait began, in microseconds since the origin, or None.
        end_us: When its present wait is over, or None.
    """

    item: Mapping[str, Any]
    state: GangState
    queues: Sequence[str]
    why: str
    since_us: int | None
    end_us: int | None

    @classmethod
    def of(cls, row: GangRow, *, single: bool = False) -> GangLine:
        """Return a gang as it is shown."""
        looking, gang = row.looking, row.gang
        apps = looking.view.apps
        return cls(
            row_of(GANGS.picked(None, single=single), row),
            gang.state,
            sorted({apps[key].identity.path for key in app_keys(gang)}),
            _why(looking, gang),
            gang.since_us,
            row.end_us(),
        )


def app_keys(gang: ViewGang) -> set[int]:
    """Return the keys of the applications of the members of a gang."""
    placed = chain(gang.backing_off, gang.waiting, gang.parked, gang.bound)
    return {*gang.slots, *(key for key, _ in placed)}


def missing_members(gang: ViewGang) -> Iterator[tuple[int, str]]:
    """Yield the members that do not run, those that lack a node first."""
    for key, slot in gang.slots.items():
        for name in slot.members:
            yield key, name
    yield from chain(gang.backing_off, gang.parked, gang.waiting)


def _why(looking: Looking, gang: ViewGang) -> str:
    if gang.state is _SATISFIED:
        return ""
    member = next(missing_members(gang), None)
    if member is None:
        return "it has no members yet"
    key, name = member
    return REASONS[looking.view.dominant(looking.view.apps[key], name, looking.now_us)]


@final
@attrs.frozen
class _Listed:
    """The gangs of a page.

    Attributes:
        lines: The gangs.
        next: The cursor of the next page, or None.
        count: How many there are in all, without filters.
    """

    lines: Sequence[GangLine]
    next: str | None
    count: int


# PAGE-48
async def _gangs(viewed: Viewed) -> Response:
    place = place_of(viewed, "gangs", str)
    state, queue = word_of(viewed, "state", GangState), queue_of(viewed)
    text = viewed.text("name").lower()

    def is_meant(gang: ViewGang, looking: Looking, leaves: frozenset[int] | None) -> bool:
        apps = looking.view.apps
        return (
            (state is None or gang.state is state)
            and text in gang.name
            and (leaves is None or any(apps[key].identity.leaf in leaves for key in app_keys(gang)))
        )

    def read(looking: Looking) -> Steps[_Listed]:
        yield from looking.view.prepare_to_explain()
        gangs = looking.view.gangs
        leaves = None if queue is None else leaves_of(looking, queue)
        names = sorted(gangs)
        first = 0 if place is None else bisect_right(names, place[0])
        found: list[ViewGang] = []
        for piece in in_pieces(names[first:], _PIECE):
            yield
            found += [gangs[name] for name in piece if is_meant(gangs[name], looking, leaves)]
            if len(found) > _LIMIT:
                break
        lines: list[GangLine] = []
        for gang in found[:_LIMIT]:
            yield
            lines.append(GangLine.of(GangRow(looking, gang)))
        more = cursor("gangs", found[_LIMIT - 1].name) if len(found) > _LIMIT else None
        return _Listed(lines, more, len(gangs))

    found = await viewed.moment.seen(read)
    return shown(
        viewed,
        "gangs.html",
        found=found,
        listed=found.value,
        filters=filters_of(viewed, "name", "queue", "state"),
        states={state.value: words for state, words in STATES.items()},
    )


PAGES: Final = (Page("GET", "/gangs", Role.READER, _gangs),)
"""The list of gangs."""
