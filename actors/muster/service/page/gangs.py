"""Gangs: finding them; and one of them, with its members and why it does not start.

A gang sums up the reasons of its members.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, final

import attrs
from starlette.responses import Response

from muster.figures.text import REASONS, instant_of
from muster.service.access import Role
from muster.service.api.answers import UnknownItem
from muster.service.endpoints.schemas import row_of
from muster.service.page.asks import AskLine, full_gang, lines_of
from muster.service.page.history import HistorySubject, decision_history, earlier_history
from muster.service.page.renderer import render_page
from muster.service.page.requests import Page, PageRequest, filters_of, place_of, queue_of, word_of
from muster.service.queries.apps import GANGS, GangRow, leaves_of
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.reader import ReadContext, cursor
from muster_core.gangs import GangState
from muster_core.reasons import Code, Reserved, Shortfall
from muster_core.structures.steps import Steps, in_pieces
from muster_core.view.gangs import ViewGang

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


def _why(looking: ReadContext, gang: ViewGang) -> str:
    if gang.state is _SATISFIED:
        return ""
    member = next(missing_members(gang), None)
    if member is None:
        return "it has no members yet"
    key, name = member
    return REASONS[looking.view.explainer.dominant(looking.view.apps[key], name, looking.now_us)]


@final
@attrs.frozen
class _GangList:
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
async def _gangs(viewed: PageRequest) -> Response:
    place = place_of(viewed, "gangs", str)
    state, queue = word_of(viewed, "state", GangState), queue_of(viewed)
    text = viewed.text("name").lower()

    def is_meant(gang: ViewGang, looking: ReadContext, leaves: frozenset[int] | None) -> bool:
        apps = looking.view.apps
        return (
            (state is None or gang.state is state)
            and text in gang.name
            and (leaves is None or any(apps[key].identity.leaf in leaves for key in app_keys(gang)))
        )

    def read(looking: ReadContext) -> Steps[_GangList]:
        yield from looking.view.explainer.prepare()
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
        return _GangList(lines, more, len(gangs))

    found = await viewed.moment.seen(read)
    return render_page(
        viewed,
        "gangs.html",
        found=found,
        listed=found.value,
        filters=filters_of(viewed, "name", "queue", "state"),
        states={state.value: words for state, words in STATES.items()},
    )


GANG_LIST_PAGES: Final = (Page("GET", "/gangs", Role.READER, _gangs),)
"""The list of gangs."""


_MOST: Final = 10_000
"""Of how many members the reasons are summed up."""

_A_FEW: Final = 16
"""How many members are looked at between two places to pause."""


@final
@attrs.frozen
class ReasonGroup:
    """The members of a gang that do not run for the same reason.

    Attributes:
        code: The reason.
        words: The reason in a few words.
        count: How many members have it.
        app: The application of one of them.
        ask: The name of this one.
        message: The reason of this one, with names and figures.
        at_us: The instant that this reason names, in microseconds since the origin; or None.
    """

    code: str
    words: str
    count: int
    app: str
    ask: str
    message: str
    at_us: int | None


@final
@attrs.frozen
class GangPage:
    """A gang at a moment; or that there is none.

    Attributes:
        line: The gang; None if there is none.
        unknown: What may have been meant, if there is none.
        last_seq: The number of the last decision then.
        lines: Its first members.
        count: How many members it has.
        shortfalls: What there is too little of for it, even if nothing else ran.
        sums: Why members do not run, the most frequent reason first.
        group: The other gangs of its group, with their states; None for those that are not there.
        reserved: What is reserved for its group, or None.
    """

    line: GangLine | None
    unknown: UnknownItem | None
    last_seq: int
    lines: Sequence[AskLine] = ()
    count: int = 0
    shortfalls: Sequence[Shortfall] = ()
    sums: Sequence[ReasonGroup] = ()
    group: Sequence[tuple[str, str | None]] = ()
    reserved: Reserved | None = None


def _read(name: str, looking: ReadContext) -> Steps[GangPage]:
    yield
    seq, gangs = looking.ledger.seq, looking.view.gangs
    gang = gangs.get(name)
    if gang is None:
        return GangPage(None, UnknownItem.of(name, gangs), seq)
    yield from looking.view.explainer.prepare()
    rows = yield from select_asks(looking, AskFilter(gang=name), None, _LIMIT)
    lines = yield from lines_of(looking, rows)
    lacks = yield from looking.view.explainer.shortfalls_of_gang(gang)
    sums: Sequence[ReasonGroup] = ()
    if gang.state is not GangState.SATISFIED:
        sums = yield from _sums(looking, gang)
    names = () if gang.definition is None else gang.definition.groups
    group = [
        (one, gangs[one].state.value if one in gangs else None) for one in names if one != name
    ]
    line = GangLine.of(GangRow(looking, gang))
    reserved = looking.view.explainer.reserved_for_gang(gang)
    return GangPage(line, None, seq, lines, gang.children, lacks, sums, group, reserved)


# PAGE-49
def _sums(looking: ReadContext, gang: ViewGang) -> Steps[Sequence[ReasonGroup]]:
    """Return why the members of a gang do not run, summed up."""
    apps = looking.view.apps
    found: dict[Code, list[tuple[int, str]]] = {}
    for piece in in_pieces(list(islice(missing_members(gang), _MOST)), _A_FEW):
        yield
        for key, name in piece:
            code = looking.view.explainer.dominant(apps[key], name, looking.now_us)
            found.setdefault(code, []).append((key, name))
    sums: list[ReasonGroup] = []
    for code, members in sorted(found.items(), key=lambda one: -len(one[1])):
        yield
        key, name = members[0]
        app = apps[key].identity.name
        explained = looking.machine.explain(app, name)
        message, at_us = "", None
        if explained is not None:
            reason = explained.dominant
            message, at_us = reason.message, instant_of(reason.facts)
        sums.append(ReasonGroup(code.value, REASONS[code], len(members), app, name, message, at_us))
    return sums


async def _gang(viewed: PageRequest) -> Response:
    name = full_gang(viewed.in_path("name"))
    subject = HistorySubject("gang", None, name)
    if viewed.text("before"):
        return await earlier_history(viewed, subject, lambda _: None)

    def read(looking: ReadContext) -> Steps[GangPage]:
        return _read(name, looking)

    found = await viewed.moment.seen(read)
    seen = found.value
    told, problem = await decision_history(viewed, subject, seen.last_seq, None, seen.unknown)
    return render_page(
        viewed,
        "gang.html",
        found=found,
        name=name,
        seen=seen,
        line=seen.line,
        told=told,
        problem=problem,
        about="gang",
        states=_words(),
    )


def _words() -> Mapping[str, str]:
    return {state.value: words for state, words in STATES.items()}


GANG_PAGES: Final = (Page("GET", "/gangs/{name:path}", Role.READER, _gang),)
"""A gang."""
