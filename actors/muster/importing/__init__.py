"""Importers: make a feed of the workload of another system.

Each importer reads dumps of one kind and puts jobs into a :class:`Workload`, which writes them as a
feed in the order in which they came. Every record of a dump becomes part of the feed or is counted
as left out, by cause.
"""

from __future__ import annotations

from muster.importing.queues import Queues, default_queues, read_queues
from muster.importing.workload import Cause, FeedSummary, ImportAccount, Workload

__all__ = [
    "Cause",
    "FeedSummary",
    "ImportAccount",
    "Queues",
    "Workload",
    "default_queues",
    "read_queues",
]
