"""Reasons why asks are not running, with their instants as readers want them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from muster_core.view.reasons.words import seconds

if TYPE_CHECKING:
    from muster_core.reasons import Fact

INSTANTS: Final[Mapping[str, str]] = {"until_us": "until", "start_us": "start"}
"""The facts that are instants, in microseconds since the origin, and what readers call them: until when
an ask backs off, and when the reservation starts that one would delay, or that is for its group. No reason has two of them."""


def instant_of(facts: Mapping[str, Fact]) -> int | None:
    """Return the instant that the message of a reason names, or None."""
    found = (facts.get(name) for name in INSTANTS)
    return next((fact for fact in found if isinstance(fact, int)), None)


# PAGE-42
def dated(message: str, at_us: object, date: Callable[[int], str]) -> str:
    """Return the message of a reason with a date where it counts seconds since the origin.

    Args:
        message: The message.
        at_us: The instant that it names, as :func:`instant_of` gives it; or None.
        date: Returns an instant in microseconds since the origin as a date.
    """
    if not isinstance(at_us, int):
        return message
    written = re.escape(seconds(at_us))
    return re.sub(
        rf"\b(before|at|from) {written}(?![\w.])", lambda at: f"{at[1]} {date(at_us)}", message
    )
