"""Time: steps from moment to moment, and what happened in a span of the kept history.

Equal decisions of an instant are one row that opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, final
from urllib.parse import urlencode

import attrs
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from muster._runtime.observers import Filter, path_of
from muster.figures.text import HOUR, MINUTE, counted
from muster.service.access import Role
from muster.service.api.lists import full_gang
from muster.service.page.renderer import (
    HEADERS,
    TemplateData,
    address_without,
    moment_words,
    render_page,
    segment,
)
from muster.service.page.requests import Moment, Page, PageRequest, instant_of, local_path
from muster.service.past.spans import (
    HistoryExtent,
    Span,
    SpanSummary,
    adjacent_instant,
    summarize_span,
)
from muster.service.payloads import Problem
from muster.service.queries.reader import ReadContext
from muster_core.decisions import Announced, Kind
from muster_core.structures.steps import Steps
from muster_core.values.application_states import AppState
from muster_core.values.names import did_you_mean

_BATCHES: Final = {"-batch": -1, "batch": 1}
_SPANS_US: Final = {"-3600": -HOUR, "-60": -MINUTE, "60": MINUTE, "3600": HOUR}


# PAGE-63
async def _go(page: PageRequest) -> Response:
    """Redirect to the same page at another moment."""
    at_us = await _step_instant(page)
    path, _, query = local_path(page.text("back", "/")).partition("?")
    pairs = [one for one in query.split("&") if one and not one.startswith("at=")]
    if at_us is not None:
        pairs.append(urlencode({"at": page.moment.iso(at_us)}))
    return RedirectResponse(f"{path}?{'&'.join(pairs)}" if pairs else path, 303, HEADERS)


async def _step_instant(page: PageRequest) -> int | None:
    """Return the instant that a step leads to; None for the present."""
    moment, by = page.moment, page.text("by", "when")
    kept = _extent(moment)
    if by in _BATCHES:
        at_us = min(moment.now_us(), now_us(moment, kept))
        found = await page.service.past.inspect_store(
            lambda reader: adjacent_instant(reader, at_us, _BATCHES[by])
        )
        if found is None and by == "-batch":
            return kept.first_us
        return found
    if by in _SPANS_US:
        wanted = moment.now_us() + _SPANS_US[by]
    elif by in {"when", "slide"}:
        wanted = instant_of(by, page.text(by), page.service)
    else:
        known = ", ".join([*_BATCHES, *_SPANS_US, "when", "slide"])
        raise Problem(400, f"by: {by[:100]!r}: must be one of {known}")
    wanted = max(wanted, kept.first_us)
    return None if wanted >= now_us(moment, kept) else wanted


def _extent(moment: Moment) -> HistoryExtent:
    """Return the extent of the kept history.

    Raises:
        Problem: 409 if there is none.
    """
    if moment.extent is None:
        raise Problem(409, "there is no kept history: start the service with --state")
    return moment.extent


def now_us(moment: Moment, kept: HistoryExtent) -> int:
    """Return the last instant that may be looked at, in microseconds since the origin."""
    return max(moment.service.now_us(), kept.last_us)


# PAGE-61
async def _progress(page: PageRequest) -> Response:
    """Return the progress of the past state that was begun last, in percent, as a text."""
    share = page.service.past.under_way()
    return PlainTextResponse("" if share is None else f"{share * 100:.0f}", headers=HEADERS)


STEP_PAGES: Final = (
    Page("GET", "/time/go", Role.READER, _go),
    Page("GET", "/time/made", Role.READER, _progress),
)
"""Steps."""


_NAMES: Final = ("queue", "app", "gang")
_LIMIT: Final = 500
"""How many decisions are on a page."""


# PAGE-65
@final
@attrs.frozen
class SpanQuery:
    """The query of the page: a span, and which of its decisions are shown.

    Attributes:
        fields: The fields of the form as they were filled in, by name.
        kinds: The kinds of decisions that were chosen, as written.
        span: The part of the span that is kept; None if none is.
        notes: Notes where it is not the span that was asked for.
        unknown: The message if the queue does not exist now; empty if it does, or none is given.
        wrong: What is wrong with the query; empty if nothing is.
    """

    fields: Mapping[str, str]
    kinds: Sequence[str]
    span: Span | None = None
    notes: Sequence[str] = ()
    unknown: str = ""
    wrong: str = ""

    def summary(self, found: SpanSummary) -> list[str]:
        """Return the sentences about the span, from what happened in it."""
        notes = [*self.notes]
        if not found.kinds:
            if self.unknown:
                notes.append(self.unknown)
            for name, what in (("app", "application"), ("gang", "gang")):
                if self.fields[name]:
                    notes.append(
                        f"No decision of this span is about the {what} {self.fields[name]!r}."
                    )
        return notes


async def span_query(page: PageRequest, kept: HistoryExtent) -> SpanQuery:
    """Return what the address of a page asks for; by default the last hour before the moment."""
    kinds = page.request.query_params.getlist("kind")
    fields = {name: page.text(name) for name in _NAMES}
    fields |= {name: _as_date(page, name) for name in ("from", "until")}
    try:
        return await _read_query(page, kept, fields, kinds)
    except Problem as problem:
        if problem.status != 400:
            raise
        return SpanQuery(fields, kinds, wrong=problem.detail)


def _as_date(page: PageRequest, name: str) -> str:
    """Return the value of a field in the form of the browser; empty if it is no instant."""
    try:
        at_us = instant_of(name, page.text(name), page.service)
    except Problem:
        return ""
    return page.moment.iso(at_us)[:19]


async def _read_query(
    page: PageRequest, kept: HistoryExtent, fields: Mapping[str, str], kinds: Sequence[str]
) -> SpanQuery:
    moment = page.moment
    last_us = now_us(moment, kept) if moment.past_us is None else moment.past_us
    from_us, until_us = _span_bounds(page, last_us)
    wanted = _filter(page, kinds)
    if until_us < kept.first_us or from_us > last_us:
        return SpanQuery(fields, kinds, notes=[_nothing(moment, kept, from_us, until_us, last_us)])
    notes: list[str] = []
    if from_us < kept.first_us and fields["from"]:
        begins = _instant_words(moment, kept.first_us)
        requested = _instant_words(moment, from_us)
        notes.append(f"You asked from {requested} on. History is kept from {begins} on only.")
    if until_us > last_us:
        requested, ends = _instant_words(moment, until_us), _instant_words(moment, last_us)
        notes.append(f"You asked until {requested}, which lies in the future: it ends at {ends}.")
    begin_us, end_us = max(from_us, kept.first_us), min(until_us, last_us)
    if not fields["from"]:
        fields = {**fields, "from": moment.iso(begin_us)[:19]}
    if not fields["until"]:
        # A browser writes whole seconds, and the last one counts in full.
        fields = {**fields, "until": moment.iso(end_us + 999_999)[:19]}
    entered, unknown = await _present(page, wanted.queue)
    after = page.number("after", 0, 0, 2**62)
    span = Span(begin_us, end_us, wanted, after, _LIMIT, entered)
    return SpanQuery(fields, kinds, span, notes, unknown)


def _span_bounds(page: PageRequest, last_us: int) -> tuple[int, int]:
    """Return the span as the address has it.

    Raises:
        Problem: 400 if it ends before it begins, or one of the two is no instant.
    """
    since, until = page.text("from"), page.text("until")
    until_us = instant_of("until", until, page.service) if until else last_us
    if not since:
        return min(until_us, last_us) - HOUR, until_us
    from_us = instant_of("from", since, page.service)
    if until and from_us > until_us:
        raise Problem(400, f"from: {since!r} is after until: {until!r}")
    return from_us, max(from_us, until_us)


def _nothing(moment: Moment, kept: HistoryExtent, from_us: int, until_us: int, last_us: int) -> str:
    """Return the sentence that nothing of a span is kept."""
    wanted = (
        f"You asked for {_instant_words(moment, from_us)} until {_instant_words(moment, until_us)}."
    )
    if from_us > last_us:
        return f"{wanted} That lies in the future: it is {_instant_words(moment, last_us)} now."
    begins = _instant_words(moment, kept.first_us)
    return f"{wanted} Nothing is kept of that span: history is kept from {begins} on."


def _instant_words(moment: Moment, at_us: int) -> str:
    return moment_words(moment.iso(at_us)[:19])


async def _present(page: PageRequest, queue: str | None) -> tuple[tuple[int, int], str]:
    """Return how much was let in until now, and the message if a queue does not exist."""

    def read(context: ReadContext) -> Steps[tuple[tuple[int, int], str]]:
        yield
        machine, queues = context.machine, context.machine.registry.queues
        unknown = ""
        if queue is not None and queue not in queues:
            near = did_you_mean(queue, queues)
            unknown = f"There is no queue {queue[:200]!r} now{near}; no decision is about it."
        return (machine.batches, machine.requests), unknown

    return (await Moment(page.service, page.request).read(read)).value


def _filter(page: PageRequest, kinds: Sequence[str]) -> Filter:
    known = {kind.value: kind for kind in Kind}
    for one in kinds:
        if one not in known:
            raise Problem(400, f"kind: {one[:100]!r}: must be one of {', '.join(known)}")
    queue, app, gang = (page.text(name) for name in ("queue", "app", "gang"))
    return Filter(
        frozenset(known[one] for one in kinds) or None,
        app or None,
        path_of(queue) if queue else None,
        full_gang(gang) if gang else None,
    )


_VERBS: Final[Mapping[Kind, str]] = {
    **{kind: kind.value for kind in Kind},
    Kind.WAITING: "waiting for the rest of the gang",
    Kind.REJECTED: "refused",
    Kind.GANG_SATISFIED: "satisfied",
    Kind.GANG_TIMED_OUT: "timed out",
    Kind.GANG_RETRY: "tried again",
    **dict.fromkeys((Kind.APP_STATE, Kind.QUEUE_PRIORITY, Kind.CONFIG), ""),
}
"""What was decided, in a word."""

_BESIDE: Final[Mapping[Kind, str]] = {
    **dict.fromkeys(Kind, "on"),
    Kind.ASSIGNED: "to",
    Kind.BOUND: "to",
    Kind.RELEASED: "from",
}
"""The word before the names of nodes."""

_NAMED: Final = 3
"""How many nodes are named in a group."""


def decision_row(announced: Announced) -> TemplateData:
    """Return a decision as it is shown behind the name of what it is about."""
    path, about = _page_of(announced)
    return {
        "seq": announced.seq,
        "at_us": announced.at_us,
        "words": _decision_words(announced),
        "path": path,
        "about": about,
    }


def _decision_words(announced: Announced) -> str:
    """Return in words what was decided, without the name of what it is about."""
    one = announced.decision
    match one.kind:
        case Kind.APP_STATE:
            return f"is {one.state}"
        case Kind.QUEUE_PRIORITY if one.priority is None:
            return "has no currentPriority any more"
        case Kind.QUEUE_PRIORITY:
            return f"has currentPriority {one.priority}"
        case Kind.REJECTED | Kind.WARNING:
            return f"{_VERBS[one.kind]}: {one.message}"
        case _:
            words = [_VERBS[one.kind], *_cause(announced)]
            if one.node is not None:
                words.append(f"{_BESIDE[one.kind]} {one.node}")
            if one.message:
                words.append(one.message)
            return " ".join(word for word in words if word)


def _cause(announced: Announced) -> Iterator[str]:
    """Yield the reasons that a decision has."""
    reason = announced.decision.reason
    if reason is not None:
        yield f"({reason.value.replace('_', ' ')})"


# PAGE-66
def _page_of(announced: Announced) -> tuple[str, str]:
    """Return the address of the page of what a decision is about, and its name."""
    one = announced.decision
    if one.app is not None and one.ask is not None:
        return f"/asks/{segment(one.app)}/{segment(one.ask)}", f"{one.app}/{one.ask}"
    if one.kind is Kind.APP_STATE and one.app is not None:
        return f"/apps/{segment(one.app)}", one.app
    if one.gang is not None:
        return f"/gangs/{segment(one.gang)}", one.gang
    if one.node is not None:
        return f"/nodes/{segment(one.node)}", one.node
    if one.queue is not None:
        return f"/queues/{segment(one.queue)}", one.queue
    return ("/config", "configuration") if one.kind is Kind.CONFIG else ("", "")


# PAGE-65
def groups_of(decisions: Iterable[Announced]) -> list[TemplateData]:
    """Return decisions in groups, in the order of the first one of each."""
    found: dict[object, list[Announced]] = {}
    for one in decisions:
        found.setdefault(_key(one), []).append(one)
    return [_group(several) for several in found.values()]


def _key(announced: Announced) -> object:
    one = announced.decision
    # Each application is a group of its own, and so is each message.
    app = one.app if one.ask is not None else None
    message = one.message if one.kind in {Kind.REJECTED, Kind.WARNING} else None
    return (announced.at_us, one.kind, app, one.reason, one.state, message)


def _group(several: Sequence[Announced]) -> TemplateData:
    rows = [decision_row(one) for one in several]
    if len(rows) == 1:
        return {**rows[0], "rows": rows}
    first = several[0].decision
    app = first.app if first.ask is not None else None
    path = "" if app is None else f"/apps/{segment(app)}"
    return {"rows": rows, "words": _sum(several), "path": path, "about": app or ""}


def _sum(several: Sequence[Announced]) -> str:
    """Return in words what several decisions have decided."""
    first = several[0].decision
    words = [counted(len(several), _noun(several[0]))]
    match first.kind:
        case Kind.APP_STATE:
            words.append(f"are {first.state}")
        case Kind.QUEUE_PRIORITY:
            words.append("have another currentPriority")
        case Kind.REJECTED | Kind.WARNING:
            words.append(f"{_VERBS[first.kind]}: {first.message}")
        case _:
            words += [_VERBS[first.kind], *_cause(several[0])]
    nodes = list(dict.fromkeys(one.decision.node for one in several if one.decision.node))
    if nodes:
        more = len(nodes) - _NAMED
        rest = f" and {counted(more, 'other node')}" if more > 0 else ""
        words.append(f"{_BESIDE[first.kind]} {', '.join(nodes[:_NAMED])}{rest}")
    return " ".join(word for word in words if word)


def _noun(announced: Announced) -> str:
    one = announced.decision
    if one.kind is Kind.REJECTED:
        return "event"
    nouns = {"ask": one.ask, "application": one.app, "gang": one.gang, "queue": one.queue}
    return next((noun for noun, name in nouns.items() if name is not None), "decision")


# PAGE-65
async def _time(page: PageRequest) -> Response:
    """Show what happened in a span."""
    kept = page.moment.extent
    if kept is None:
        return render_page(page, "time.html", kept=None, is_off=page.service.options.state is None)
    query = await span_query(page, kept)
    found = await _summary_of(page, query)
    more = None if found is None else found.more
    length_us = 0 if query.span is None else query.span.until_us - query.span.from_us
    return render_page(
        page,
        "time.html",
        status=400 if query.wrong else 200,
        kept=kept,
        query=query,
        notes=query.notes if found is None else query.summary(found),
        span=query.span,
        found=found,
        groups=[] if found is None else groups_of(found.decisions),
        evictions=[] if found is None else [decision_row(one) for one in found.evictions],
        kinds=tuple(Kind),
        states=[state.value for state in AppState if state is not AppState.NEW],
        further="" if more is None else _with_after(page, str(more)),
        earlier=0 if query.span is None else max(query.span.from_us - length_us, 0),
        presets=_presets(page.moment, kept),
        begin=urlencode({"from": page.moment.iso(kept.first_us)}),
    )


async def _summary_of(page: PageRequest, query: SpanQuery) -> SpanSummary | None:
    """Return what happened in a span; None if nothing of it is kept."""
    directory, span = page.service.options.state, query.span
    assert directory is not None, "there is a history"
    if span is None:
        return None
    return await page.service.past.work(
        page.request, lambda gone: summarize_span(directory, span, gone)
    )


def _with_after(page: PageRequest, after: str) -> str:
    address = address_without(page.request, ("after",))
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'after': after})}"


def _presets(moment: Moment, kept: HistoryExtent) -> Sequence[tuple[str, str]]:
    """Return spans that one may want: what each is called, and its query."""
    until_us = now_us(moment, kept) if moment.past_us is None else moment.past_us
    day_us = 24 * HOUR
    spans = (("last 10 minutes", 10 * MINUTE), ("last hour", HOUR), ("last 24 hours", day_us))
    return [(name, urlencode({"from": moment.iso(until_us - back_us)})) for name, back_us in spans]


TIME_PAGES: Final = (Page("GET", "/time", Role.READER, _time),)
"""What happened."""
