"""What happened in a span of the kept history, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from muster.figures.text import HOUR, MINUTE
from muster.service.access.who import Role
from muster.service.page.parts.time.asked import Asked, asked_of
from muster.service.page.parts.time.going import now_us
from muster.service.page.parts.time.rows import Row, groups_of
from muster.service.page.rendering import shown
from muster.service.page.slider import address_without
from muster.service.page.viewed import Page, Viewed
from muster.service.past.happened import Happened, what_happened
from muster_core.decisions import Kind
from muster_core.values.application_states import AppState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from muster.service.page.moment import Moment
    from muster.service.past.kept import Kept


# PAGE-65
async def _time(viewed: Viewed) -> Response:
    """Say what happened in a span."""
    kept = viewed.moment.kept
    if kept is None:
        return shown(viewed, "time.html", kept=None, is_off=viewed.service.options.state is None)
    asked = await asked_of(viewed, kept)
    found = await _happened(viewed, asked)
    more = None if found is None else found.more
    length_us = 0 if asked.span is None else asked.span.until_us - asked.span.from_us
    return shown(
        viewed,
        "time.html",
        status=400 if asked.wrong else 200,
        kept=kept,
        asked=asked,
        notes=asked.notes if found is None else asked.told(found),
        span=asked.span,
        found=found,
        groups=[] if found is None else groups_of(found.decisions),
        evictions=[] if found is None else [Row.of(one) for one in found.evictions],
        kinds=tuple(Kind),
        states=[state.value for state in AppState if state is not AppState.NEW],
        further="" if more is None else _with_after(viewed, str(more)),
        earlier=0 if asked.span is None else max(asked.span.from_us - length_us, 0),
        presets=_presets(viewed.moment, kept),
        begin=urlencode({"from": viewed.moment.iso(kept.first_us)}),
    )


async def _happened(viewed: Viewed, asked: Asked) -> Happened | None:
    """Return what happened in a span; None if nothing is there of it."""
    directory, span = viewed.service.options.state, asked.span
    assert directory is not None, "there is a history"
    if span is None:
        return None
    return await viewed.service.past.work(
        viewed.request, lambda gone: what_happened(directory, span, gone)
    )


def _with_after(viewed: Viewed, after: str) -> str:
    address = address_without(viewed.request, ("after",))
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'after': after})}"


def _presets(moment: Moment, kept: Kept) -> Sequence[tuple[str, str]]:
    """Return spans that one may want: what each is called, and its query."""
    until_us = now_us(moment, kept) if moment.past_us is None else moment.past_us
    day_us = 24 * HOUR
    spans = (
        ("last 10 minutes", 10 * MINUTE),
        ("last hour", HOUR),
        ("last 24 hours", day_us),
    )
    return [(name, urlencode({"from": moment.iso(until_us - back_us)})) for name, back_us in spans]


PAGES: Final = (Page("GET", "/time", Role.READER, _time),)
"""What happened."""
