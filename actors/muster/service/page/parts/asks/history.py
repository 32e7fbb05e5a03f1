"""The history on the page of an ask, an application or a gang, there or gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from muster.service.page.parts.asks.told import Subject, Told, earlier, lately
from muster.service.page.rendering import shown

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.api.answering import Unknown
    from muster.service.page.viewed import Viewed
    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps


# PAGE-44
async def history(
    viewed: Viewed,
    subject: Subject,
    last_seq: int,
    begin_us: int | None,
    unknown: Unknown | None,
    *,
    is_known: bool = False,
) -> tuple[Told, str]:
    """Return the latest decisions about a thing, and why it is not there.

    Args:
        viewed: The request.
        subject: The thing.
        last_seq: The number of the last decision of the state that is shown.
        begin_us: When it came, in microseconds since the origin; None if nobody knows.
        unknown: What may have been meant, if it is not there.
        is_known: Whether it is known to have been there.

    Returns:
        The decisions, and why it is not there; empty if it is.

    Raises:
        Problem: 404 if it is not there, and nothing says that it ever was.
    """
    told = await lately(viewed, subject, last_seq, begin_us, is_there=unknown is None)
    if unknown is None:
        return told, ""
    name = "/".join(part for part in (subject.app, subject.name) if part is not None)
    problem = await unknown.problem(subject.kind, name)
    if not (is_known or told.lines or told.before):
        raise problem
    return told, problem.detail


# PAGE-44
async def further(
    viewed: Viewed, subject: Subject, begin_us: Callable[[Looking], int | None]
) -> Response:
    """Answer with what was decided before the decision that the address names.

    Args:
        viewed: The request.
        subject: What it is about.
        begin_us: Returns when that came, in microseconds since the origin; None if nobody knows.
    """

    def read(looking: Looking) -> Steps[int | None]:
        yield
        return begin_us(looking)

    found = await viewed.moment.seen(read)
    before = viewed.number("before", 0, 0, 2**63 - 1)
    is_inside = viewed.number("inside", 0, 0, 1) == 1
    told = await earlier(viewed, subject, before, found.value, is_inside=is_inside)
    return shown(viewed, "earlier.html", told=told, about=subject.kind)
