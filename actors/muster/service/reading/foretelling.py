"""When a pending ask starts, as a copy of the state that runs on says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster.explain._maps import reason_of
from muster.service.problems import Problem
from muster.service.reading.copies import LIMIT_S, told_by_copy
from muster_core.reasons import Forecast, PendingReason

if TYPE_CHECKING:
    from muster.service.state import Service

_TURN: Final = trio.Lock()


@final
@attrs.frozen
class Foretold:
    """What a copy of the state says about the start of an ask.

    Attributes:
        foretold: The number of the batch after which the state was copied.
        foretold_us: When that was, in microseconds since the origin.
        forecast: What it says; None if the ask is not pending.
        held_back_later: Why the ask is held back when it would fit alone; None if it is not, or if
            the time was over before that was known.
    """

    foretold: int
    foretold_us: int
    forecast: Forecast | None
    held_back_later: PendingReason | None = None


# LISTS-13
async def foretell(service: Service, app: str, ask: str) -> Foretold:
    """Find out when an ask starts.

    Args:
        service: The service.
        app: The name of its application.
        ask: Its name.

    Raises:
        Problem: 503 if this, or other forecasts before it, take too long.
    """
    told = await told_by_copy(service, _TURN, "forecast", (app, ask), "other forecasts")
    if not told.lines:
        detail = f"the state is too large to be copied and run on within {LIMIT_S:.0f} s"
        raise Problem(503, detail)
    line, *more = told.lines
    forecast = None if line["forecast"] is None else Forecast(**line["forecast"])
    later = reason_of(more[0]["held_back_later"]) if more else None
    return Foretold(told.batch, told.at_us, forecast, later)
