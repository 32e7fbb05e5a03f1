"""Muster's queues, gangs and preemption for nodes of Slurm: Muster decides, Slurm runs.

:func:`connect` checks that Slurm can be used; :meth:`Slurm.follow` makes the nodes of a partition
nodes of a scheduler; a :class:`SlurmBinder` runs bound asks there as jobs. Only Slurm's own
commands are used, so nothing has to be installed on its nodes.
"""

from __future__ import annotations

from muster.slurm._binder import SlurmBinder
from muster.slurm._commands import JobLostError, SilentError, SlurmError
from muster.slurm._connection import Slurm, connect
from muster.slurm._jobs import JobResult
from muster.slurm._nodes import DEFAULT_RESOURCES
from muster.subprocesses import Command

__all__ = [
    "DEFAULT_RESOURCES",
    "Command",
    "JobLostError",
    "JobResult",
    "SilentError",
    "Slurm",
    "SlurmBinder",
    "SlurmError",
    "connect",
]
