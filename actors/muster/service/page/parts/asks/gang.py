"""One gang: its members, what is missing, how long it waits, and why it does not start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.instants import instant_of
from muster.figures.words import REASONS
from muster.service.access.who import Role
from muster.service.api.answering import Unknown
from muster.service.page.parts.asks.gangs import STATES, GangLine, missing_members
from muster.service.page.parts.asks.history import further, history
from muster.service.page.parts.asks.listing import AskLine, full_gang, lines_of
from muster.service.page.parts.asks.told import Subject
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.reading.gangs import GangRow
from muster.service.reading.selecting import AskFilter, select_asks
from muster_core.gangs.states import GangState
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.reading.looking import Looking
    from muster_core.reasons import Code, Reserved, Shortfall
    from muster_core.structures.steps import Steps
    from muster_core.view.gangs.gang import ViewGang

_LIMIT: Final = 50
"""How many members are shown."""

_MOST: Final = 10_000
"""Of how many members the reasons are summed up."""

_A_FEW: Final = 16
"""How many members are looked at between two places to pause."""


@final
@attrs.frozen
class Sum:
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
class GangSeen:
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
    unknown: Unknown | None
    last_seq: int
    lines: Sequence[AskLine] = ()
    count: int = 0
    shortfalls: Sequence[Shortfall] = ()
    sums: Sequence[Sum] = ()
    group: Sequence[tuple[str, str | None]] = ()
    reserved: Reserved | None = None


def _read(name: str, looking: Looking) -> Steps[GangSeen]:
    yield
    seq, gangs = looking.ledger.seq, looking.view.gangs
    gang = gangs.get(name)
    if gang is None:
        return GangSeen(None, Unknown.of(name, gangs), seq)
    yield from looking.view.prepare_to_explain()
    rows = yield from select_asks(looking, AskFilter(gang=name), None, _LIMIT)
    lines = yield from lines_of(looking, rows)
    lacks = yield from looking.view.shortfalls_of_gang(gang)
    sums: Sequence[Sum] = ()
    if gang.state is not GangState.SATISFIED:
        sums = yield from _sums(looking, gang)
    names = () if gang.definition is None else gang.definition.groups
    group = [
        (one, gangs[one].state.value if one in gangs else None) for one in names if one != name
    ]
    line = GangLine.of(GangRow(looking, gang))
    reserved = looking.view.reserved_for_group(gang)
    return GangSeen(line, None, seq, lines, gang.children, lacks, sums, group, reserved)


# PAGE-49
def _sums(looking: Looking, gang: ViewGang) -> Steps[Sequence[Sum]]:
    """Return why the members of a gang do not run, summed up."""
    apps = looking.view.apps
    found: dict[Code, list[tuple[int, str]]] = {}
    for piece in in_pieces(list(islice(missing_members(gang), _MOST)), _A_FEW):
        yield
        for key, name in piece:
            code = looking.view.dominant(apps[key], name, looking.now_us)
            found.setdefault(code, []).append((key, name))
    sums: list[Sum] = []
    for code, members in sorted(found.items(), key=lambda one: -len(one[1])):
        yield
        key, name = members[0]
        app = apps[key].identity.name
        explained = looking.machine.explain(app, name)
        message, at_us = "", None
        if explained is not None:
            reason = explained.dominant
            message, at_us = reason.message, instant_of(reason.facts)
        sums.append(Sum(code.value, REASONS[code], len(members), app, name, message, at_us))
    return sums


async def _gang(viewed: Viewed) -> Response:
    name = full_gang(viewed.in_path("name"))
    subject = Subject("gang", None, name)
    if viewed.text("before"):
        return await further(viewed, subject, lambda _: None)

    def read(looking: Looking) -> Steps[GangSeen]:
        return _read(name, looking)

    found = await viewed.moment.seen(read)
    seen = found.value
    told, problem = await history(viewed, subject, seen.last_seq, None, seen.unknown)
    return shown(
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


PAGES: Final = (Page("GET", "/gangs/{name:path}", Role.READER, _gang),)
"""A gang."""
