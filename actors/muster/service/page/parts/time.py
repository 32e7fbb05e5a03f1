"""Time: steps from moment to moment, and what happened in a span of the kept history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final
from urllib.parse import urlencode

import attrs
from starlette.responses import PlainTextResponse, RedirectResponse

from muster._runtime.clients.observers import Filter, path_of
from muster.figures.text import HOUR, MINUTE
from muster.figures.words import as_words
from muster.service.access.who import Role
from muster.service.page.login import local
from muster.service.page.moment import Moment, instant_of
from muster.service.page.rendering import HEADERS, segment, shown
from muster.service.page.slider import address_without
from muster.service.page.viewed import Page, Viewed
from muster.service.past.happened import Span, what_happened
from muster.service.past.kept import beside
from muster.service.problems import Problem
from muster_core.decisions import Kind
from muster_core.values.gang_names import canonical_gang

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from muster.service.past.kept import Kept
    from muster.service.reading.looking import Looking
    from muster_core.decisions import Announced
    from muster_core.structures.steps import Steps

_LIMIT: Final = 100
"""How many decisions are on a page."""

_BATCHES: Final = {"-batch": -1, "batch": 1}
_SPANS_US: Final = {"-3600": -HOUR, "-60": -MINUTE, "60": MINUTE, "3600": HOUR}


# PAGE-63
async def _go(viewed: Viewed) -> Response:
    """Lead to the same page at another moment."""
    at_us = await _wanted(viewed)
    path, _, query = local(viewed.text("back", "/")).partition("?")
    pairs = [one for one in query.split("&") if one and not one.startswith("at=")]
    if at_us is not None:
        pairs.append(urlencode({"at": viewed.moment.iso(at_us)}))
    return RedirectResponse(f"{path}?{'&'.join(pairs)}" if pairs else path, 303, HEADERS)


async def _wanted(viewed: Viewed) -> int | None:
    """Return the instant that a step leads to; None for the present."""
    moment, by = viewed.moment, viewed.text("by", "when")
    kept = _kept(moment)
    if by in _BATCHES:
        at_us = min(moment.now_us(), _now_us(moment, kept))
        found = await viewed.service.past.look(lambda reader: beside(reader, at_us, _BATCHES[by]))
        if found is None and by == "-batch":
            return kept.first_us
        return found
    if by in _SPANS_US:
        wanted = moment.now_us() + _SPANS_US[by]
    elif by in {"when", "slide"}:
        wanted = instant_of(by, viewed.text(by), viewed.service)
    else:
        known = ", ".join([*_BATCHES, *_SPANS_US, "when", "slide"])
        raise Problem(400, f"by: {by[:100]!r}: must be one of {known}")
    wanted = max(wanted, kept.first_us)
    return None if wanted >= _now_us(moment, kept) else wanted


def _kept(moment: Moment) -> Kept:
    """Return the extent of the kept history.

    Raises:
        Problem: 409 if there is none.
    """
    if moment.kept is None:
        raise Problem(409, "there is no kept history: start the service with --state")
    return moment.kept


def _now_us(moment: Moment, kept: Kept) -> int:
    return max(moment.service.now_us(), kept.last_us)


# PAGE-61
async def _made(viewed: Viewed) -> Response:
    """Return how much is made of the past state that was begun last, in percent, as a text."""
    share = viewed.service.past.under_way()
    return PlainTextResponse("" if share is None else f"{share * 100:.0f}", headers=HEADERS)


# PAGE-65
async def _time(viewed: Viewed) -> Response:
    """Say what happened in a span."""
    moment = viewed.moment
    if moment.kept is None:
        return shown(viewed, "time.html", kept=None, is_off=viewed.service.options.state is None)
    span = await _span(viewed, moment.kept)
    directory = viewed.service.options.state
    assert directory is not None, "there is a history"
    found = await viewed.service.past.work(
        viewed.request, lambda gone: what_happened(directory, span, gone)
    )
    after = "" if found.more is None else str(found.more)
    return shown(
        viewed,
        "time.html",
        kept=moment.kept,
        span=span,
        found=found,
        rows=[_Row.of(one) for one in found.decisions],
        kinds=tuple(Kind),
        chosen=_kinds(viewed),
        further=_with_after(viewed, after) if after else "",
        earlier=max(span.from_us - (span.until_us - span.from_us), 0),
        presets=_presets(moment, moment.kept),
    )


async def _span(viewed: Viewed, kept: Kept) -> Span:
    """Return the span that the address names; by default the last hour before the moment."""
    moment = viewed.moment
    now_us = _now_us(moment, kept) if moment.past_us is None else moment.past_us
    until = viewed.text("until")
    until_us = instant_of("until", until, viewed.service) if until else now_us
    until_us = min(max(until_us, kept.first_us), now_us)
    since = viewed.text("from")
    from_us = instant_of("from", since, viewed.service) if since else until_us - HOUR
    if since and until and from_us > instant_of("until", until, viewed.service):
        raise Problem(400, f"from: {since!r} is after until: {until!r}")
    from_us = min(max(from_us, kept.first_us), until_us)

    def read(looking: Looking) -> Steps[tuple[int, int]]:
        yield
        return looking.machine.batches, looking.machine.requests

    entered = (await Moment(viewed.service, viewed.request).seen(read)).value
    after = viewed.number("after", 0, 0, 2**62)
    return Span(from_us, until_us, _filter(viewed), after, _LIMIT, entered)


def _kinds(viewed: Viewed) -> Sequence[str]:
    return viewed.request.query_params.getlist("kind")


def _filter(viewed: Viewed) -> Filter:
    known = {kind.value: kind for kind in Kind}
    kinds = _kinds(viewed)
    for one in kinds:
        if one not in known:
            raise Problem(400, f"kind: {one[:100]!r}: must be one of {', '.join(known)}")
    queue, app, gang = (viewed.text(name) for name in ("queue", "app", "gang"))
    return Filter(
        frozenset(known[one] for one in kinds) or None,
        app or None,
        path_of(queue) if queue else None,
        _gang(gang) if gang else None,
    )


def _gang(written: str) -> str:
    try:
        return canonical_gang(written)
    except ValueError:
        return written  # No gang has this name.


def _with_after(viewed: Viewed, after: str) -> str:
    address = address_without(viewed.request, ("after",))
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'after': after})}"


def _presets(moment: Moment, kept: Kept) -> Sequence[tuple[str, str]]:
    """Return spans that one may want: what each is called, and its query."""
    now_us = _now_us(moment, kept) if moment.past_us is None else moment.past_us
    day_us = 24 * HOUR
    spans = (
        ("last 10 minutes", 10 * MINUTE),
        ("last hour", HOUR),
        ("last 24 hours", day_us),
    )
    return [
        (name, urlencode({"from": moment.iso(max(now_us - back_us, kept.first_us))}))
        for name, back_us in spans
    ]


@final
@attrs.frozen
class _Row:
    """A decision as the page shows it.

    Attributes:
        seq: Its number.
        at_us: Its instant.
        words: What was decided.
        path: The address of the page of what it is about; empty if there is none.
        about: What that is.
    """

    seq: int
    at_us: int
    words: str
    path: str
    about: str

    @classmethod
    def of(cls, announced: Announced) -> _Row:
        path, about = _page_of(announced)
        return cls(announced.seq, announced.at_us, as_words(announced.as_map()), path, about)


# PAGE-66
def _page_of(announced: Announced) -> tuple[str, str]:
    """Return the address of the page of what a decision is about, and its name."""
    one = announced.decision
    if one.app is not None and one.ask is not None:
        return f"/asks/{segment(one.app)}/{segment(one.ask)}", f"{one.app}/{one.ask}"
    if one.gang is not None:
        return f"/gangs/{segment(one.gang)}", one.gang
    if one.node is not None:
        return f"/nodes/{segment(one.node)}", one.node
    if one.queue is not None:
        return f"/queues/{segment(one.queue)}", one.queue
    return ("/config", "configuration") if one.kind is Kind.CONFIG else ("", "")


PAGES: Final = (
    Page("GET", "/time", Role.READER, _time),
    Page("GET", "/time/go", Role.READER, _go),
    Page("GET", "/time/made", Role.READER, _made),
)
"""Time."""
