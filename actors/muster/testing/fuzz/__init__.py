"""Fuzzing a scheduler: programs of many clients, drawn at random, run in every order of tasks.

``python -m muster.testing.fuzz`` runs it, also with a binder and a configuration of one's own;
:doc:`/fuzzing` tells how. Programs are drawn by Hypothesis, which the extra ``fuzz`` brings:
``pip install 'muster-scheduler[fuzz]'``.
"""

from __future__ import annotations

from muster.testing.fuzz._chance import UnknownTrioError
from muster.testing.fuzz._drawing.programs import Drawn, Given, draw_program
from muster.testing.fuzz._program import (
    Bind,
    Client,
    Fate,
    How,
    Leave,
    Order,
    Program,
    Step,
    Watcher,
)
from muster.testing.fuzz._records.story import Entry, Story
from muster.testing.fuzz._run import Oracle, Outcome, run_program
from muster.testing.fuzz._session import Finding, MissingHypothesisError, Session, Tally

__all__ = [
    "Bind",
    "Client",
    "Drawn",
    "Entry",
    "Fate",
    "Finding",
    "Given",
    "How",
    "Leave",
    "MissingHypothesisError",
    "Oracle",
    "Order",
    "Outcome",
    "Program",
    "Session",
    "Step",
    "Story",
    "Tally",
    "UnknownTrioError",
    "Watcher",
    "draw_program",
    "run_program",
]
