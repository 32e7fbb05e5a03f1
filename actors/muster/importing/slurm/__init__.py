"""What Slurm says of its jobs, nodes and accounts: ``sacct``, ``scontrol``, ``sacctmgr``, slurm.conf."""

from __future__ import annotations

from muster.importing.slurm.jobs import FIELDS, QUEUES, Priority
from muster.importing.slurm.reader import (
    no_priority,
    priority_of_job,
    priority_of_qos,
    read_sacct,
)

__all__ = [
    "FIELDS",
    "QUEUES",
    "Priority",
    "no_priority",
    "priority_of_job",
    "priority_of_qos",
    "read_sacct",
]
