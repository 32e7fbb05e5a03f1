"""The output and files of Slurm about jobs, nodes and accounts: ``sacct``, ``scontrol``, ``sacctmgr``."""

from __future__ import annotations

from muster.importing.slurm.accounts import PrioritySource
from muster.importing.slurm.jobs import FIELDS, QUEUES, ClusterFiles, read_slurm
from muster.importing.slurm.resources import conf_of, nodes_of_slurm

__all__ = [
    "FIELDS",
    "QUEUES",
    "ClusterFiles",
    "PrioritySource",
    "conf_of",
    "nodes_of_slurm",
    "read_slurm",
]
