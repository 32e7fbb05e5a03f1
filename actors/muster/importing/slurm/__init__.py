"""What Slurm says of its jobs, nodes and accounts: ``sacct``, ``scontrol``, ``sacctmgr``, slurm.conf."""

from __future__ import annotations

from muster.importing.slurm.cluster.nodes import conf_of, nodes_of_slurm
from muster.importing.slurm.jobs import FIELDS, QUEUES
from muster.importing.slurm.priorities import Source
from muster.importing.slurm.reader import Sources, read_slurm

__all__ = ["FIELDS", "QUEUES", "Source", "Sources", "conf_of", "nodes_of_slurm", "read_slurm"]
