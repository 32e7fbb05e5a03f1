"""Importers: make a feed of the workload of another system.

Each importer reads dumps of one kind and puts jobs into a :class:`Workload`, which writes them as a
feed in the order in which they came. Every record of a dump becomes part of the feed or is counted
as left out, by cause.
"""

from __future__ import annotations

from muster.importing.workload.account import Account, Cause
from muster.importing.workload.queues import Queues, default_queues, read_queues
from muster.importing.workload.workload import Workload, Written

__all__ = [
    "Account",
    "Cause",
    "Queues",
    "Workload",
    "Written",
    "default_queues",
    "read_queues",
]
