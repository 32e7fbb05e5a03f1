"""The Standard Workload Format of the Parallel Workloads Archive."""

from __future__ import annotations

from muster.importing.swf.jobs import FIELDS, QUEUES, read_swf

__all__ = ["FIELDS", "QUEUES", "read_swf"]
