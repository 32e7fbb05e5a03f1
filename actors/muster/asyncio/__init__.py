"""Muster in asyncio programs, for example with FastAPI, with the same API as in trio.

The scheduler itself runs in trio: in a thread of its own, so that it does not block the
program's loop, or as a guest in that loop (:class:`Mode`). Errors and messages are those of
:mod:`muster`.
"""

from __future__ import annotations

from muster._surface.allocation import Allocation, Binder, ResumingBinder
from muster.asyncio._links import Mode
from muster.asyncio._open import open_scheduler
from muster.asyncio._scheduler import (
    Application,
    Ask,
    AsyncioAllocation,
    Decisions,
    Gang,
    Scheduler,
)

__all__ = [
    "Allocation",
    "Application",
    "Ask",
    "AsyncioAllocation",
    "Binder",
    "Decisions",
    "Gang",
    "Mode",
    "ResumingBinder",
    "Scheduler",
    "open_scheduler",
]
