"""A fuzzer for schedulers: random programs of many clients, run in random orders of tasks.

``python -m muster.testing.fuzz`` runs it, also with your own binder and configuration; see
:doc:`/fuzzing`. Hypothesis draws the programs; the extra ``fuzz`` installs it:
``pip install 'muster-scheduler[fuzz]'``.
"""

from __future__ import annotations

from muster.testing.fuzz._determinism import UnknownTrioError
from muster.testing.fuzz._generator import DrawnBytes, FixedParts, draw_program
from muster.testing.fuzz._program import (
    Bind,
    Client,
    Fate,
    Leave,
    LeaveMethod,
    Order,
    Program,
    Step,
    Store,
    Watcher,
)
from muster.testing.fuzz._records import Entry, Story
from muster.testing.fuzz._run import Oracle, Outcome, run_program
from muster.testing.fuzz._session import Finding, MissingHypothesisError, Session, Tally

__all__ = [
    "Bind",
    "Client",
    "DrawnBytes",
    "Entry",
    "Fate",
    "Finding",
    "FixedParts",
    "Leave",
    "LeaveMethod",
    "MissingHypothesisError",
    "Oracle",
    "Order",
    "Outcome",
    "Program",
    "Session",
    "Step",
    "Store",
    "Story",
    "Tally",
    "UnknownTrioError",
    "Watcher",
    "draw_program",
    "run_program",
]
