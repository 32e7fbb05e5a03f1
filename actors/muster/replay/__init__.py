"""Feeds driven through a scheduler: replaying them, and checking what they expect.

Nothing is decided here. The driver hands every event of a feed to the scheduler at its
instant; a :class:`Census` listens and follows what is there, a :class:`Tally` counts, a
:class:`Check` compares what is with what the feed expects.
"""

from __future__ import annotations

from muster.replay._census import GONE, Census, Key, Listener, LiveAsk
from muster.replay._check import Check
from muster.replay._driver import Watcher, replay
from muster.replay._expect import Difference, Found, Value
from muster.replay._summary import QueueSummary, Remark, Summary
from muster.replay._tally import Tally
from muster.replay._waits import Waits, WaitSummary

__all__ = [
    "GONE",
    "Census",
    "Check",
    "Difference",
    "Found",
    "Key",
    "Listener",
    "LiveAsk",
    "QueueSummary",
    "Remark",
    "Summary",
    "Tally",
    "Value",
    "WaitSummary",
    "Waits",
    "Watcher",
    "replay",
]
