"""Muster: an actor-based scheduler on trio.

This package has everything that a program needs to run a scheduler. The modules
:mod:`muster.asyncio`, :mod:`muster.config_files`, :mod:`muster.feeds`, :mod:`muster.replay`,
:mod:`muster.store`, :mod:`muster.subprocesses` and :mod:`muster.testing` are public, too. Names that begin with an
underscore are private.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from os import environ as _environ
from typing import TYPE_CHECKING as _TYPE_CHECKING, Final as _Final

from muster._version import __version__

if _environ.get("MUSTER_PURE"):  # Before anything of the core is imported.
    from muster._pure import take_sources as _take_sources

    _take_sources()

if _TYPE_CHECKING:
    from muster._errors import (
        AllocationEndedError,
        AllocationLostError,
        AskFailedError,
        AskParkedError,
        AskRemovedError,
        BindFailedError,
        BrokenSchedulerError,
        ClosedSchedulerError,
        GangRemovedError,
        GangTimedOutError,
        LaggedError,
        NotStartedError,
        PreemptedError,
        StoreError,
        WorkFailedError,
    )
    from muster._runtime.announcer import Journal, Record
    from muster._runtime.clock import Clock
    from muster._runtime.observers import Decisions, Lag
    from muster._surface.allocation import Allocation, Binder, ResumingBinder, TrioAllocation
    from muster._surface.handles import Application, Ask, AskOptions, Gang
    from muster._surface.open import open_scheduler
    from muster._surface.scheduler import Scheduler
    from muster._surface.simulation import Simulation, open_simulation
    from muster_core.decisions import Announced, Decision, Kind, Reason
    from muster_core.errors import ConfigError, EventError, MusterError, RefusedError
    from muster_core.reasons import (
        Code,
        ComparedKey,
        Explanation,
        Forecast,
        Level,
        Outlook,
        PendingReason,
        Reserved,
        Shortfall,
    )
    from muster_core.resources import Resources
    from muster_core.snapshots import AskPlace, Snapshot, Statistics

__all__ = [
    "Allocation",
    "AllocationEndedError",
    "AllocationLostError",
    "Announced",
    "Application",
    "Ask",
    "AskFailedError",
    "AskOptions",
    "AskParkedError",
    "AskPlace",
    "AskRemovedError",
    "BindFailedError",
    "Binder",
    "BrokenSchedulerError",
    "Clock",
    "ClosedSchedulerError",
    "Code",
    "ComparedKey",
    "ConfigError",
    "Decision",
    "Decisions",
    "EventError",
    "Explanation",
    "Forecast",
    "Gang",
    "GangRemovedError",
    "GangTimedOutError",
    "Journal",
    "Kind",
    "Lag",
    "LaggedError",
    "Level",
    "MusterError",
    "NotStartedError",
    "Outlook",
    "PendingReason",
    "PreemptedError",
    "Reason",
    "Record",
    "RefusedError",
    "Reserved",
    "Resources",
    "ResumingBinder",
    "Scheduler",
    "Shortfall",
    "Simulation",
    "Snapshot",
    "Statistics",
    "StoreError",
    "TrioAllocation",
    "WorkFailedError",
    "__version__",
    "open_scheduler",
    "open_simulation",
]

# Public names are imported at their first use: the command `muster` needs few of them, and so
# starts faster.
_HOMES: _Final = {
    "muster._errors": (
        "AllocationEndedError",
        "AllocationLostError",
        "AskFailedError",
        "AskParkedError",
        "AskRemovedError",
        "BindFailedError",
        "BrokenSchedulerError",
        "ClosedSchedulerError",
        "GangRemovedError",
        "GangTimedOutError",
        "LaggedError",
        "NotStartedError",
        "PreemptedError",
        "StoreError",
        "WorkFailedError",
    ),
    "muster._runtime.announcer": (
        "Journal",
        "Record",
    ),
    "muster._runtime.clock": ("Clock",),
    "muster._runtime.observers": (
        "Decisions",
        "Lag",
    ),
    "muster._surface.allocation": (
        "Allocation",
        "Binder",
        "ResumingBinder",
        "TrioAllocation",
    ),
    "muster._surface.handles": (
        "Application",
        "Ask",
        "AskOptions",
        "Gang",
    ),
    "muster._surface.open": ("open_scheduler",),
    "muster._surface.scheduler": ("Scheduler",),
    "muster._surface.simulation": (
        "Simulation",
        "open_simulation",
    ),
    "muster_core.decisions": (
        "Announced",
        "Decision",
        "Kind",
        "Reason",
    ),
    "muster_core.errors": (
        "ConfigError",
        "EventError",
        "MusterError",
        "RefusedError",
    ),
    "muster_core.reasons": (
        "Code",
        "ComparedKey",
        "Explanation",
        "Forecast",
        "Level",
        "Outlook",
        "PendingReason",
        "Reserved",
        "Shortfall",
    ),
    "muster_core.resources": ("Resources",),
    "muster_core.snapshots": (
        "AskPlace",
        "Snapshot",
        "Statistics",
    ),
}
_HOME_OF: _Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    home = _HOME_OF.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(_import_module(home), name)
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return [*globals(), *(name for name in _HOME_OF if name not in globals())]
