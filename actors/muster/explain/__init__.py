"""Explain why an ask of a feed is not running at an instant, and what would help.

Nothing is guessed: the feed is replayed up to the instant. Every remedy was tried on a copy of
the state, with the events that a user would add to the feed.
"""

from __future__ import annotations

from muster.explain._answer import (
    Answer,
    Overview,
    PendingGroup,
    RefusedSoFar,
    explain,
    explain_all,
)
from muster.explain._history import Fate, Hold, Whereabouts
from muster.explain._output import (
    how_it_runs,
    not_then,
    what_is_reserved,
    when_it_starts,
    where_it_is,
    whom_it_passed,
)
from muster.explain._remedies.case import AT_ONCE, Remedy, RemedyKind, Starts

__all__ = [
    "AT_ONCE",
    "Answer",
    "Fate",
    "Hold",
    "Overview",
    "PendingGroup",
    "RefusedSoFar",
    "Remedy",
    "RemedyKind",
    "Starts",
    "Whereabouts",
    "explain",
    "explain_all",
    "how_it_runs",
    "not_then",
    "what_is_reserved",
    "when_it_starts",
    "where_it_is",
    "whom_it_passed",
]
