"""The state directory: the events and decisions, batch by batch, in one SQLite file.

It knows how batches and checkpoints are written, checked and read. It decides nothing, runs no
task, and does not know the meaning of a checkpoint.
"""

from __future__ import annotations

from muster.store._reader import Loaded, StateReader, Summary
from muster.store._rows import Anchor, Checkpoint, KeptBatch, StateMeta

__all__ = [
    "Anchor",
    "Checkpoint",
    "KeptBatch",
    "Loaded",
    "StateMeta",
    "StateReader",
    "Summary",
]
