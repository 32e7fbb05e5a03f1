"""Comparing two feeds, one feed under two configurations, or two decision logs.

A :class:`Comparison` takes two sides, lets both go on from instant to instant, and says where
they first decide differently and why, and what that comes to: for queues, priorities and
applications. ``a`` is the first of the two everywhere, ``b`` the second::

    sides = sides_of(read_raw("feed.yaml"), (None, read_configuration("new.yaml")))
    compared = Comparison(*sides, in_step=True).run()
"""

from __future__ import annotations

from muster.compare._comparison import Comparison
from muster.compare._log import Logged, is_decision, read_decisions
from muster.compare._one_feed import LeftOut, sides_of
from muster.compare._readable import events_of
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
    Movement,
    PriorityRow,
    QueueRow,
    Refusals,
    Version,
)
from muster.compare._sides import FeedSide, LogSide, Side

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
    "Logged",
    "Movement",
    "PriorityRow",
    "QueueRow",
    "Refusals",
    "Side",
    "Version",
    "events_of",
    "is_decision",
    "read_decisions",
    "sides_of",
]
