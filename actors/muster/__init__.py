"""Muster: an actor-based scheduler on trio.

What a program needs to run a scheduler; :mod:`muster.asyncio`, :mod:`muster.config_files`,
:mod:`muster.feeds`, :mod:`muster.replay`, :mod:`muster.subprocesses` and
:mod:`muster.testing` are public as well. What begins with an underscore is private.
"""

from __future__ import annotations

from muster._audience import Decisions, Lag
from muster._batches import Journal
from muster._binding import Binder
from muster._clock import Clock
from muster._errors import (
    AllocationEndedError,
    AskParkedError,
    AskRemovedError,
    BindFailedError,
    BrokenSchedulerError,
    ClosedSchedulerError,
    GangRemovedError,
    GangTimedOutError,
    LaggedError,
    PreemptedError,
)
from muster._handles import Allocation, Application, Ask, Gang
from muster._live import Record
from muster._open import open_scheduler
from muster._scheduler import Scheduler
from muster._simulation import Simulation, open_simulation
from muster._version import __version__
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.errors import ConfigError, EventError, MusterError, RefusedError
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace, Snapshot, Statistics

__all__ = [
    "Allocation",
    "AllocationEndedError",
    "Announced",
    "Application",
    "Ask",
    "AskParkedError",
    "AskPlace",
    "AskRemovedError",
    "BindFailedError",
    "Binder",
    "BrokenSchedulerError",
    "Clock",
    "ClosedSchedulerError",
    "ConfigError",
    "Decision",
    "Decisions",
    "EventError",
    "Gang",
    "GangRemovedError",
    "GangTimedOutError",
    "Journal",
    "Kind",
    "Lag",
    "LaggedError",
    "MusterError",
    "PreemptedError",
    "Reason",
    "Record",
    "RefusedError",
    "Resources",
    "Scheduler",
    "Simulation",
    "Snapshot",
    "Statistics",
    "__version__",
    "open_scheduler",
    "open_simulation",
]
