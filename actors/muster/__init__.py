"""Muster: an actor-based scheduler on trio.

The public surface; everything else is private, but for :mod:`muster.feeds`.
"""

from __future__ import annotations

from muster._coordinator import Journal
from muster._errors import BrokenSchedulerError, ClosedSchedulerError
from muster._scheduler import Scheduler, open_scheduler
from muster._version import __version__

__all__ = [
    "BrokenSchedulerError",
    "ClosedSchedulerError",
    "Journal",
    "Scheduler",
    "__version__",
    "open_scheduler",
]
