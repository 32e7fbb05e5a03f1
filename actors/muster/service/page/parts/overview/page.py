"""The overview as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.figures.words import REASONS
from muster.service.access.who import Role
from muster.service.page.parts.overview.charts import drawn
from muster.service.page.parts.overview.latest import counted_anew, latest_decisions, reasons
from muster.service.page.parts.overview.state import PERIODS, Period, State, Waits, read_state
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps


def _period(viewed: Viewed) -> Period:
    name = viewed.text("period", "1h")
    found = next((period for period in PERIODS if period.name == name), None)
    if found is None:
        names = ", ".join(period.name for period in PERIODS)
        raise Problem(400, f"period: {name[:100]!r}: must be one of {names}")
    return found


# PAGE-10, PAGE-11
async def _overview(viewed: Viewed) -> Response:
    period = _period(viewed)
    now_us = viewed.moment.now_us()

    def read(looking: Looking) -> Steps[State]:
        return (yield from read_state(looking, now_us, period))

    found = await viewed.moment.seen(read)
    state = found.value
    return shown(
        viewed,
        "overview.html",
        found=found,
        state=state,
        health=viewed.service.health.life()[1],
        directory=viewed.service.options.state,
        waits=Waits.of(state.now.waits),
        reasons=await reasons(viewed, state.now),
        decisions=await latest_decisions(viewed, state.last),
        period=period,
        periods=PERIODS,
        words=REASONS,
        figures=drawn(state.samples, period, viewed.service.unix_us(0)),
        now_us=now_us,
    )


PAGES: Final = (
    Page("GET", "/", Role.READER, _overview),
    Page("GET", "/reasons", Role.READER, counted_anew),
)
"""The overview."""
