"""Why an ask that would fit alone at an instant does not start then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from muster_core.coordinator.forecast import held_back_later
from muster_core.reasons import Code, Explanation, Forecast, PendingReason

if TYPE_CHECKING:
    from muster_core.facts import Facts

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_HELD_BACK: Final = Code.HELD_BACK


# OUTLOOK-10
def why_held_back_later(
    explanation: Explanation, made: Forecast, facts: Callable[[], Facts], at_us: int
) -> PendingReason | None:
    """Return why an ask that is not held back now is so when it would fit alone, or None.

    Args:
        explanation: Why it is pending now.
        made: What a copy of the state says about its start.
        facts: Returns the facts of the state; called only if another copy is needed.
        at_us: The present instant, in microseconds.
    """
    fits_at = made.fits_at
    if not isinstance(fits_at, int) or fits_at <= at_us or fits_at == made.starts_at_us:
        return None
    if any(reason.code is _HELD_BACK for reason in explanation.reasons):
        return None
    return held_back_later(facts(), explanation.app, explanation.ask, fits_at, at_us)
