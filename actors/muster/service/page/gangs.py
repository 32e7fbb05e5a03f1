"""Gangs: finding them; and one of them, with its members and why it does not start.

A gang sums up the reasons of its members.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from starlette.responses import Response

from muster.figures.text import instant_of
from muster.service.access import Role
from muster.service.api.lists import UnknownItem, full_gang
from muster.service.endpoints.schemas import row_of
from muster.service.page.asks import lines_of
from muster.service.page.history import HistorySubject, earlier_history, subject_page
from muster.service.page.renderer import TemplateData, render_page
from muster.service.page.requests import Page, PageRequest, filters_of, place_of, queue_of, word_of
from muster.service.queries.apps import GANGS, GangRow, leaves_of
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.asks import AskRow, place_of_ask, row_of_ask
from muster.service.queries.reader import ReadContext, cursor
from muster_core.gangs import GangState
from muster_core.reasons import Code
from muster_core.structures.steps import Steps, in_pieces
from muster_core.view.gangs import ViewGang

_LIMIT: Final = 50
"""How many gangs a page shows."""

_PIECE: Final = 128
"""How many gangs are looked at between two places to pause."""

STATES: Final[Mapping[GangState, str]] = {
    GangState.PLACEHOLDER: "not defined",
    GangState.GATHERING: "does not hold nodes yet",
    GangState.WAITING: "members wait on their nodes for the rest",
    GangState.SATISFIED: "its members run",
    GangState.TIMED_OUT: "its members are parked",
}
"""Each state of a gang in words."""

_WORDS: Final = {state.value: words for state, words in STATES.items()}


def gang_line(row: GangRow, *, single: bool = False) -> TemplateData:
    """Return a gang as it is shown."""
    context, gang = row.context, row.gang
    apps = context.view.apps
    return {
        "item": row_of(GANGS.picked(None, single=single), row),
        "state": gang.state,
        "queues": sorted({apps[key].identity.path for key in app_keys(gang)}),
        "why": _why(context, gang),
        "since_us": gang.since_us,
        "end_us": row.end_us(),
    }


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


def _why(context: ReadContext, gang: ViewGang) -> str:
    if gang.state is GangState.SATISFIED:
        return ""
    member = next(missing_members(gang), None)
    if member is None:
        return "it has no members yet"
    key, name = member
    app = context.view.apps[key]
    return context.view.explainer.dominant(app, name, context.now_us).summary


# PAGE-48
async def _gangs(page: PageRequest) -> Response:
    place = place_of(page, "gangs", str)
    state, queue = word_of(page, "state", GangState), queue_of(page)
    text = page.text("name").lower()

    def matches(gang: ViewGang, context: ReadContext, leaves: frozenset[int] | None) -> bool:
        apps = context.view.apps
        return (
            (state is None or gang.state is state)
            and text in gang.name
            and (leaves is None or any(apps[key].identity.leaf in leaves for key in app_keys(gang)))
        )

    def read(context: ReadContext) -> Steps[TemplateData]:
        yield from context.view.explainer.prepare()
        gangs = context.view.gangs
        leaves = None if queue is None else leaves_of(context, queue)
        names = sorted(gangs)
        first = 0 if place is None else bisect_right(names, place[0])
        found: list[ViewGang] = []
        for piece in in_pieces(names[first:], _PIECE):
            yield
            found += [gangs[name] for name in piece if matches(gangs[name], context, leaves)]
            if len(found) > _LIMIT:
                break
        lines: list[TemplateData] = []
        for gang in found[:_LIMIT]:
            yield
            lines.append(gang_line(GangRow(context, gang)))
        more = cursor("gangs", found[_LIMIT - 1].name) if len(found) > _LIMIT else None
        return {"lines": lines, "next": more, "count": len(gangs)}

    found = await page.moment.read(read)
    return render_page(
        page,
        "gangs.html",
        found=found,
        listed=found.value,
        filters=filters_of(page, "name", "queue", "state"),
        states=_WORDS,
    )


GANG_LIST_PAGES: Final = (Page("GET", "/gangs", Role.READER, _gangs),)
"""The list of gangs."""


_MOST: Final = 10_000
"""Of how many members the reasons are summed up."""

_A_FEW: Final = 16
"""How many members are looked at between two places to pause."""


def _read(name: str, context: ReadContext) -> Steps[TemplateData]:
    yield
    seq, gangs = context.ledger.seq, context.view.gangs
    gang = gangs.get(name)
    if gang is None:
        return {"line": None, "unknown": UnknownItem.of(name, gangs), "last_seq": seq}
    yield from context.view.explainer.prepare()
    rows = yield from select_asks(context, AskFilter(gang=name), None, _LIMIT)
    lines = yield from lines_of(context, rows)
    lacks = yield from context.view.explainer.shortfalls_of_gang(gang)
    sums: Sequence[TemplateData] = ()
    if gang.state is not GangState.SATISFIED:
        sums = yield from _reason_sums(context, gang)
    names = () if gang.definition is None else gang.definition.groups
    group = [
        (one, gangs[one].state.value if one in gangs else None) for one in names if one != name
    ]
    line = gang_line(GangRow(context, gang))
    reserved = context.view.explainer.reserved_for_gang(gang)
    return {
        "line": line,
        "unknown": None,
        "last_seq": seq,
        "lines": lines,
        "count": gang.children,
        "shortfalls": lacks,
        "sums": sums,
        "group": group,
        "reserved": reserved,
    }


# PAGE-49
def _reason_sums(context: ReadContext, gang: ViewGang) -> Steps[Sequence[TemplateData]]:
    """Return why the members of a gang do not run, summed up."""
    apps = context.view.apps
    found: dict[Code, list[AskRow]] = {}
    for piece in in_pieces(list(islice(missing_members(gang), _MOST)), _A_FEW):
        yield
        for key, name in piece:
            row = row_of_ask(context, apps[key], name)
            assert row is not None, "a member of a gang is gone"
            code = context.view.explainer.dominant(row.app, name, context.now_us)
            found.setdefault(code, []).append(row)
    sums: list[TemplateData] = []
    for code, rows in found.items():
        yield
        # In which order a gang has its members says nothing.
        first = min(rows, key=place_of_ask)
        reason = first.dominant()
        sums.append(
            {
                "code": code.value,
                "words": code.summary,
                "count": len(rows),
                "app": first.app.identity.name,
                "ask": first.ask.name,
                "message": "" if reason is None else reason.message,
                "at_us": None if reason is None else instant_of(reason.facts),
            }
        )
    return sorted(sums, key=lambda one: -one["count"])


async def _gang(page: PageRequest) -> Response:
    name = full_gang(page.in_path("name"))
    subject = HistorySubject("gang", None, name)
    if page.text("before"):
        return await earlier_history(page, subject, lambda _: None)

    return await subject_page(
        page, "gang.html", subject, lambda context: _read(name, context), name=name, states=_WORDS
    )


GANG_PAGES: Final = (Page("GET", "/gangs/{name:path}", Role.READER, _gang),)
"""A gang."""
