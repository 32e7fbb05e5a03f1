"""The history of an ask, an application or a gang: the decisions about it, newest first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs
import trio
from starlette.responses import Response

from muster.figures.text import held_words
from muster.service.decision_log import MOST_OF_SUBJECT, DecisionsRemovedError
from muster.service.page.renderer import TemplateData, render_page
from muster.service.payloads import Problem
from muster.service.queries.reader import ReadContext
from muster_core.decisions import GONE, Announced, Kind, Reason
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster.service.api.lists import UnknownItem
    from muster.service.page.requests import PageRequest
    from muster.service.streams import Broadcast


_WINDOW: Final = 20_000
"""How many decisions of the store are looked through at once."""

_ENOUGH: Final = 50
"""After how many decisions the search stops until the reader asks for more."""

_PATIENCE_S: Final = 2.0
"""After how long it stops until then, in seconds."""

_WORDS: Final[Mapping[Kind, str]] = {
    **{kind: kind.value.replace("_", " ") for kind in Kind},
    Kind.WAITING: "waits for its gang",
    Kind.REJECTED: "refused",
    Kind.APP_STATE: "application",
    Kind.QUEUE_PRIORITY: "priority of the queue",
    Kind.CONFIG: "configuration",
}

ENDS: Final = GONE - {Reason.FAILED}
"""The reasons of releases after which an ask is over; after ``failed`` it may be tried again."""


@final
@attrs.frozen
class HistorySubject:
    """What a history is about.

    Attributes:
        kind: ``ask``, ``app`` or ``gang``.
        app: The application; of an ask, too.
        name: The name of the ask or the gang.
    """

    kind: str
    app: str | None
    name: str | None

    @property
    def key(self) -> tuple[str, ...]:
        """Its names."""
        return (self.kind, self.app or "", self.name or "")

    def concerns(self, announced: Announced) -> bool:
        """Return whether a decision is about it."""
        decision = announced.decision
        match self.kind:
            case "ask":
                is_of_app = decision.app == self.app
                return is_of_app and (decision.ask == self.name or _is_new(announced))
            case "app":
                return decision.app == self.app
            case _:
                return decision.gang == self.name

    def is_shown(self, announced: Announced) -> bool:
        """Return whether a decision about it is shown; that an application is new is not."""
        return self.kind != "ask" or announced.decision.ask is not None

    # PAGE-85
    def begins(self, announced: Announced) -> bool:
        """Return whether a decision is the first one about another thing of the same name."""
        return self.kind != "gang" and _is_new(announced)

    def ends(self, announced: Announced) -> bool:
        """Return whether a decision is the last one about a thing, and others are about another."""
        decision = announced.decision
        return self.kind == "ask" and decision.ask is not None and decision.reason in ENDS


def _is_new(announced: Announced) -> bool:
    decision = announced.decision
    return decision.kind is Kind.APP_STATE and decision.state == "New"


def _is_refusal(announced: Announced) -> bool:
    return announced.decision.kind is Kind.REJECTED


def history_line(announced: Announced) -> TemplateData:
    """Return a decision as it is shown."""
    decision = announced.decision
    reason = "" if decision.reason is None else decision.reason.value.replace("_", " ")
    what = _WORDS[decision.kind]
    if decision.state is not None:
        what = f"{what} {decision.state}"
    return {
        "seq": announced.seq,
        "at_us": announced.at_us,
        "what": what,
        "reason": reason,
        "app": decision.app,
        "ask": decision.ask,
        "node": decision.node,
        "message": decision.message or "",
        "tone": _tone(decision.kind, decision.reason),
        "is_reserved": decision.kind is Kind.RESERVED,
        "start_us": decision.start_us,
        "devices": held_words(decision.devices or {}, {}),
    }


def _tone(kind: Kind, reason: Reason | None) -> str:
    match kind:
        case Kind.BOUND | Kind.GANG_SATISFIED:
            return "fine"
        case Kind.ASSIGNED | Kind.WAITING | Kind.RESERVED:
            return "wait"
        case Kind.RELEASED:
            return "" if reason in ENDS else "wrong"
        case Kind.REJECTED | Kind.GANG_TIMED_OUT | Kind.WARNING:
            return "wrong"
        case Kind.APP_STATE | Kind.QUEUE_PRIORITY | Kind.CONFIG | Kind.GANG_RETRY:
            return ""


def earlier_life(life: Sequence[Announced]) -> TemplateData:
    """Return an earlier object of the name, from all decisions about it, oldest first."""
    last = next((one for one in reversed(life) if not _is_refusal(one)), None)
    reason = None if last is None else last.decision.reason
    reason_words = "" if reason is None else reason.value.replace("_", " ")
    return {"lines": [history_line(one) for one in reversed(life)], "how": reason_words}


# PAGE-85
def split_lives(
    subject: HistorySubject, found: Sequence[Announced], came_us: int | None, *, is_there: bool
) -> list[list[Announced]]:
    """Divide decisions among the objects that had one name, one after the other.

    Args:
        subject: What the decisions are about.
        found: The decisions, oldest first.
        came_us: When the last object came, in microseconds since the origin; None if unknown.
        is_there: Whether it is still there.

    Returns:
        The decisions about each, oldest first. The last ones are about the present thing, or about
        the one that was there last.
    """
    begin = _begin(subject, found, came_us)
    places = {at for at, one in enumerate(found) if subject.begins(one)}
    places |= {at + 1 for at, one in enumerate(found) if subject.ends(one)}
    if begin is not None:
        places = {at for at in places if at < begin or not is_there} | {begin}
    edges = [0, *sorted(places - {0}), len(found)]
    divided = [
        [one for one in found[begin:end] if subject.is_shown(one)]
        for begin, end in itertools.pairwise(edges)
    ]
    present = [divided.pop()] if is_there else []
    former: list[list[Announced]] = []
    for life in divided:
        # What was refused afterwards is no other object.
        if former and all(map(_is_refusal, life)):
            former[-1] += life
        elif life:
            former.append(life)
    return [*former, *present] or [[]]


def _begin(subject: HistorySubject, found: Sequence[Announced], came_us: int | None) -> int | None:
    """Return where the decisions about an object begin that came at an instant.

    An earlier object of its name may have ended in the same batch, before it came.
    """
    if came_us is None:
        return None
    at_once = [at for at, one in enumerate(found) if one.at_us == came_us]
    for at in reversed(at_once):
        if subject.begins(found[at]):
            return at
        if subject.ends(found[at]):
            return at + 1
    return next((at for at, one in enumerate(found) if one.at_us >= came_us), len(found))


# PAGE-44, PAGE-85
async def latest_part(
    page: PageRequest, subject: HistorySubject, last: int, begin_us: int | None, *, is_there: bool
) -> TemplateData:
    """Return the latest decisions, as far as they are in memory.

    Args:
        page: The request.
        subject: What it is about.
        last: The number of the last decision of the state that is shown, as far as known.
        begin_us: When the thing came, in microseconds since the origin; None if unknown.
        is_there: Whether the thing is in the state that is shown.
    """
    broadcast = page.service.broadcast
    tail = broadcast.tail
    # Before the first decision, no number is known.
    end = last if page.moment.is_past and last else tail.last
    is_kept = page.service.options.state is not None
    found, since = await page.service.findings.about(tail, subject.key, subject.concerns)
    until_us = page.moment.past_us
    visible = [
        one for one in found if one.seq <= end and (until_us is None or one.at_us <= until_us)
    ]
    *former, present = split_lives(subject, visible, begin_us, is_there=is_there)
    before = min(since, end + 1)
    is_all = len(found) < MOST_OF_SUBJECT and _is_whole(_tail_begin_us(broadcast), begin_us)
    is_over = is_all or bool(former) or before <= (1 if is_kept else tail.first)
    return {
        "lines": [history_line(one) for one in reversed(present)],
        "before": None if is_over else before,
        "is_kept": is_kept,
        "first": tail.first,
        "former": [earlier_life(life) for life in reversed(former)],
        "is_inside": is_there or not all(map(_is_refusal, present)),
        "is_over": False,
    }


def _is_whole(known_us: int | None, begin_us: int | None) -> bool:
    """Return whether everything since something came is known.

    Args:
        known_us: Since when all decisions are known, in microseconds since the origin, or None.
        begin_us: When it came, or None.
    """
    return known_us is not None and begin_us is not None and known_us < begin_us


def _tail_begin_us(broadcast: Broadcast) -> int | None:
    """Return the instant of the oldest decision in memory, or None."""
    block = broadcast.tail.after(broadcast.tail.first - 1)
    return None if block is None else block.announced[0].at_us


# PAGE-44, PAGE-85
async def earlier_part(
    page: PageRequest,
    subject: HistorySubject,
    before: int,
    begin_us: int | None,
    *,
    is_inside: bool,
) -> TemplateData:
    """Return earlier decisions, as far as a short search finds them.

    Args:
        page: The request.
        subject: What it is about.
        before: The number of the decision before which it is looked for.
        begin_us: When the thing came, in microseconds since the origin; None if unknown.
        is_inside: Whether something that was decided about the thing was found already, so that
            another one of the same name is meant before its first decision.

    Raises:
        StoreError: If the store cannot be read.
    """
    broadcast = page.service.broadcast
    first = await broadcast.first()
    if before > broadcast.tail.last + 1:
        raise Problem(400, f"before: {before}: the last decision is {broadcast.tail.last}")
    until_us = page.moment.past_us
    until = trio.current_time() + _PATIENCE_S
    back = _BackwardSearch(subject, begin_us, is_inside)
    while before > first and len(back.found) < _ENOUGH and trio.current_time() < until:
        after = max(before - 1 - _WINDOW, first - 1)
        found, began_us = await _window(broadcast, subject, after, before - 1)
        back.take(one for one in reversed(found) if until_us is None or one.at_us <= until_us)
        before = after + 1
        if back.is_over or _is_whole(began_us, begin_us):
            before = first
    more = before if before > first else None
    lines = [history_line(one) for one in back.found]
    is_kept = page.service.options.state is not None
    return {
        "lines": lines,
        "before": more,
        "is_kept": is_kept,
        "first": first,
        "former": (),
        "is_inside": back.is_inside,
        "is_over": back.is_over,
    }


# PAGE-85
@final
class _BackwardSearch:
    """The decisions about one thing, on the way back to its first one.

    Args:
        subject: What they are about.
        begin_us: When the thing came, in microseconds since the origin; None if unknown.
        is_inside: Whether a decision about it was found.

    Attributes:
        found: The decisions, newest first.
        is_over: Whether its first decision was found, or one about an earlier thing of its name.
    """

    def __init__(self, subject: HistorySubject, begin_us: int | None, is_inside: bool) -> None:
        self._subject = subject
        self._begin_us = begin_us
        self.is_inside = is_inside
        self.found: list[Announced] = []
        self.is_over = False

    def take(self, decisions: Iterable[Announced]) -> None:
        """Take decisions, newest first, up to the first one about the thing."""
        subject = self._subject
        for one in decisions:
            is_before = self._begin_us is not None and one.at_us < self._begin_us
            if is_before or (self.is_inside and subject.ends(one)):
                self.is_over = True
            elif subject.is_shown(one):
                self.found.append(one)
                self.is_inside = self.is_inside or not _is_refusal(one)
            if self.is_inside and subject.begins(one):
                self.is_over = True
            if self.is_over:
                return


async def _window(
    broadcast: Broadcast, subject: HistorySubject, after: int, end: int
) -> tuple[list[Announced], int | None]:
    """Return the decisions of a window about a subject, and the instant of its first decision."""
    found: list[Announced] = []
    began_us: int | None = None
    with broadcast.cursor(after, lags=False) as cursor:
        while cursor.position < end:
            try:
                block = await cursor.next()
            except DecisionsRemovedError:  # Removed since: nothing before it is kept either.
                break
            if block is None:
                break
            begin = cursor.position + 1 - block.first
            announced = block.announced[begin : end + 1 - block.first]
            if began_us is None:
                began_us = announced[0].at_us
            found += filter(subject.concerns, announced)
            cursor.position = min(block.last, end)
    return found, began_us


# PAGE-44
async def decision_history(
    page: PageRequest,
    subject: HistorySubject,
    last_seq: int,
    begin_us: int | None,
    unknown: UnknownItem | None,
    *,
    is_known: bool = False,
) -> tuple[TemplateData, str]:
    """Return the latest decisions about a subject, and why it is not there.

    Args:
        page: The request.
        subject: The subject.
        last_seq: The number of the last decision of the state that is shown.
        begin_us: When it came, in microseconds since the origin; None if unknown.
        unknown: What may have been meant, if it is not there.
        is_known: Whether it is known to have been there.

    Returns:
        The decisions, and why it is not there; empty if it is.

    Raises:
        Problem: 404 if it is not there, and no decision shows that it ever was.
    """
    excerpt = await latest_part(page, subject, last_seq, begin_us, is_there=unknown is None)
    if unknown is None:
        return excerpt, ""
    name = "/".join(part for part in (subject.app, subject.name) if part is not None)
    problem = await unknown.problem(subject.kind, name)
    if not (is_known or excerpt["lines"] or excerpt["before"]):
        raise problem
    return excerpt, problem.detail


async def subject_page(
    page: PageRequest,
    template: str,
    subject: HistorySubject,
    read: Callable[[ReadContext], Steps[TemplateData]],
    **context: object,
) -> Response:
    """Return the page of a subject, with its history.

    Args:
        page: The request.
        template: Its template, which finds what was read as ``seen``, and its parts as well.
        subject: The subject.
        read: Reads it: ``last_seq``, ``unknown``, and, if that is known, ``came_us`` and ``ended``;
            see :func:`decision_history`.
        **context: Further data of the template.
    """
    found = await page.moment.read(read)
    seen = found.value
    excerpt, problem = await decision_history(
        page,
        subject,
        seen["last_seq"],
        seen.get("came_us"),
        seen["unknown"],
        is_known=seen.get("ended") is not None,
    )
    shown: TemplateData = {**seen, **context, "found": found, "seen": seen, "excerpt": excerpt}
    return render_page(page, template, about=subject.kind, problem=problem, **shown)


# PAGE-44
async def earlier_history(
    page: PageRequest, subject: HistorySubject, begin_us: Callable[[ReadContext], int | None]
) -> Response:
    """Answer with the decisions before the one that the address names.

    Args:
        page: The request.
        subject: What it is about.
        begin_us: Returns when that came, in microseconds since the origin; None if unknown.
    """

    def read(context: ReadContext) -> Steps[int | None]:
        yield
        return begin_us(context)

    found = await page.moment.read(read)
    before = page.number("before", 0, 0, 2**63 - 1)
    is_inside = page.number("inside", 0, 0, 1) == 1
    excerpt = await earlier_part(page, subject, before, found.value, is_inside=is_inside)
    return render_page(page, "earlier.html", excerpt=excerpt, about=subject.kind)
