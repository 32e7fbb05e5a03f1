"""Steps from moment to moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from starlette.responses import PlainTextResponse, RedirectResponse

from muster.figures.text import HOUR, MINUTE
from muster.service.access.who import Role
from muster.service.page.login import local
from muster.service.page.moment import Moment, instant_of
from muster.service.page.rendering import HEADERS
from muster.service.page.viewed import Page, Viewed
from muster.service.past.kept import beside
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.past.kept import Kept

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
        at_us = min(moment.now_us(), now_us(moment, kept))
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
    return None if wanted >= now_us(moment, kept) else wanted


def _kept(moment: Moment) -> Kept:
    """Return the extent of the kept history.

    Raises:
        Problem: 409 if there is none.
    """
    if moment.kept is None:
        raise Problem(409, "there is no kept history: start the service with --state")
    return moment.kept


def now_us(moment: Moment, kept: Kept) -> int:
    """Return the last instant that may be looked at, in microseconds since the origin."""
    return max(moment.service.now_us(), kept.last_us)


# PAGE-61
async def _made(viewed: Viewed) -> Response:
    """Return how much is made of the past state that was begun last, in percent, as a text."""
    share = viewed.service.past.under_way()
    return PlainTextResponse("" if share is None else f"{share * 100:.0f}", headers=HEADERS)


PAGES: Final = (
    Page("GET", "/time/go", Role.READER, _go),
    Page("GET", "/time/made", Role.READER, _made),
)
"""Steps."""
