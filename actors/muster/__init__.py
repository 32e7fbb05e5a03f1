"""Muster: an actor-based scheduler on trio.

What a program needs to run a scheduler; :mod:`muster.config_files`, :mod:`muster.feeds`,
:mod:`muster.replay` and :mod:`muster.testing` are public as well. What begins with an
underscore is private.
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
