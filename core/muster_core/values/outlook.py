"""When a pending ask will start, as far as that can be told from the present state."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

import attrs

UNKNOWN_START: Final = "unknown"
"""A start with the end of an ask of which no end is known."""

Start: TypeAlias = int | Literal["unknown"] | None
"""A start in microseconds since the origin, :data:`UNKNOWN_START`, or None for never."""


@final
@attrs.frozen
class Forecast:
    """What a copy of the state says about the start of a pending ask.

    Attributes:
        fits_at: The start that a reservation of its party alone would have now.
        starts_at_us: When it is bound in the copy, which runs on without further events, in
            microseconds since the origin; None if it is not.
        stopped_us: The instant at which the copy was stopped before the ask was bound, because
            there was more to do than is done for an answer; None if it ran to its end.
    """

    fits_at: Start
    starts_at_us: int | None
    stopped_us: int | None = None


@final
@attrs.frozen
class Outlook:
    """When a pending ask will start.

    Attributes:
        position: Its place, from 1, if all pending asks were taken in order and none was placed.
        forecast: What a copy of the state says; None if there was none.
    """

    position: int
    forecast: Forecast | None = None
