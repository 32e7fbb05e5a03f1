"""Muster: an actor-based scheduler on trio.

What a program needs to run a scheduler; :mod:`muster.config_files`, :mod:`muster.feeds`,
:mod:`muster.replay` and :mod:`muster.testing` are public as well. What begins with an
underscore is private.
"""

from __future__ import annotations

from muster._batches import Journal
from muster._errors import BrokenSchedulerError, ClosedSchedulerError
from muster._simulation import Simulation, open_simulation
from muster._version import __version__

__all__ = [
    "BrokenSchedulerError",
    "ClosedSchedulerError",
    "Journal",
    "Simulation",
    "__version__",
    "open_simulation",
]
