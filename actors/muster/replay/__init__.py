"""Replay feeds, and compare the results with what the feeds expect.

Nothing is decided here. :func:`replay` submits every event of a feed to a scheduler at its
instant. A :class:`Census` tracks nodes and asks, a :class:`Tally` counts what happens, and a
:class:`Check` compares the state with what the feed expects.
"""

from __future__ import annotations

from muster.replay._beginning import Beginning, OldAsk, beginning_of, event_of
from muster.replay._census import Census, Key, Listener, LiveAsk
from muster.replay._check import Check
from muster.replay._costs import Costs, Fairness, LostRuns
from muster.replay._driver import Watcher, replay
from muster.replay._expect import Absent, Difference, Found, Value
from muster.replay._reading.warning import FeedWarning
from muster.replay._reserving import Reserved, ReservedTally
from muster.replay._starting import begun_at, configured
from muster.replay._summary import QueueSummary, Remark, Summary
from muster.replay._tally import Tally
from muster.replay._waits import Waits, WaitSummary

__all__ = [
    "Absent",
    "Beginning",
    "Census",
    "Check",
    "Costs",
    "Difference",
    "Fairness",
    "FeedWarning",
    "Found",
    "Key",
    "Listener",
    "LiveAsk",
    "LostRuns",
    "OldAsk",
    "QueueSummary",
    "Remark",
    "Reserved",
    "ReservedTally",
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
    "replay",
]
