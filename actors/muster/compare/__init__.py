"""Compare two feeds, one feed under several configurations, or two decision logs.

A :class:`Comparison` advances its sides from instant to instant. It reports the first decision
that differs and why, and the figures of both sides for queues, priorities and applications.
Everywhere, ``a`` is the first side and ``b`` the second::

    sides = sides_of(read_raw("feed.yaml"), (None, read_configuration("new.yaml")))
    compared = Comparison(*sides, in_step=True).run()
"""

from __future__ import annotations

from muster.compare._comparison import Comparison
from muster.compare._inputs import LoggedDecision, events_of, is_decision, read_decisions
from muster.compare._result import (
    MOST_JOBS,
    MOST_PRIORITIES,
    MOST_REFUSALS,
    Compared,
    Elsewhere,
    Figures,
    FirstDifference,
    JobChange,
    JobChanges,
    JobTimes,
    LeftOut,
    Movement,
    PriorityRow,
    QueueRow,
    Refusals,
    Version,
    Warned,
    as_map,
)
from muster.compare._sides import (
    FeedSide,
    LogSide,
    Side,
    is_uncounted,
    noting,
    others,
    sides_of,
    sides_of_kept,
    unconfigured,
)

__all__ = [
    "MOST_JOBS",
    "MOST_PRIORITIES",
    "MOST_REFUSALS",
    "Compared",
    "Comparison",
    "Elsewhere",
    "FeedSide",
    "Figures",
    "FirstDifference",
    "JobChange",
    "JobChanges",
    "JobTimes",
    "LeftOut",
    "LogSide",
    "LoggedDecision",
    "Movement",
    "PriorityRow",
    "QueueRow",
    "Refusals",
    "Side",
    "Version",
    "Warned",
    "as_map",
    "events_of",
    "is_decision",
    "is_uncounted",
    "noting",
    "others",
    "read_decisions",
    "sides_of",
    "sides_of_kept",
    "unconfigured",
]
