"""Replay feeds, and compare the results with what the feeds expect.

Nothing is decided here. :func:`replay` submits every event of a feed to a scheduler at its
instant. A :class:`Census` tracks nodes and asks, a :class:`Tally` counts what happens, and a
:class:`Check` compares the state with what the feed expects.
"""

from __future__ import annotations

from muster.replay._census import (
    Beginning,
    Census,
    ExistingAsk,
    Key,
    Listener,
    LiveAsk,
    beginning_of,
    event_of,
)
from muster.replay._check import Check, Difference, Mismatch, MissingValue, Value
from muster.replay._costs import Costs, Fairness, LostRuns
from muster.replay._driver import Watcher, begun_at, configured, replay
from muster.replay._jobs import JOB_COLUMNS, JobColumn, JobTable
from muster.replay._measures import JobGroup, JobMeasures, SlowdownSummary, Waits, WaitSummary
from muster.replay._parts import QueuePart, parts_of
from muster.replay._tally import QueueSummary, Remark, Reserved, ReservedTally, Summary, Tally
from muster.replay._warnings import FeedWarning

__all__ = [
    "JOB_COLUMNS",
    "Beginning",
    "Census",
    "Check",
    "Costs",
    "Difference",
    "ExistingAsk",
    "Fairness",
    "FeedWarning",
    "JobColumn",
    "JobGroup",
    "JobMeasures",
    "JobTable",
    "Key",
    "Listener",
    "LiveAsk",
    "LostRuns",
    "Mismatch",
    "MissingValue",
    "QueuePart",
    "QueueSummary",
    "Remark",
    "Reserved",
    "ReservedTally",
    "SlowdownSummary",
    "Summary",
    "Tally",
    "Value",
    "WaitSummary",
    "Waits",
    "Watcher",
    "beginning_of",
    "begun_at",
    "configured",
    "event_of",
    "parts_of",
    "replay",
]
