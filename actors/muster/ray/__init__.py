"""Muster's queues, gangs and preemption for a cluster of Ray: Muster decides, Ray runs.

:func:`connect` starts an *agent*, a process of its own that is connected to Ray;
:meth:`Cluster.follow` makes the nodes of Ray nodes of a scheduler; a :class:`RayBinder` runs bound
asks there. Importing this package does not import ray: only the agent does.
"""

from __future__ import annotations

from muster.ray._cluster import Cluster, RayBinder, Survivor, connect
from muster.ray._nodes import DEFAULT_RESOURCES
from muster.ray._work import (
    Call,
    RayLostError,
    RayUnreachableError,
    Result,
    RunFailedError,
    WorkError,
)
from muster.subprocesses import Command

__all__ = [
    "DEFAULT_RESOURCES",
    "Call",
    "Cluster",
    "Command",
    "RayBinder",
    "RayLostError",
    "RayUnreachableError",
    "Result",
    "RunFailedError",
    "Survivor",
    "WorkError",
    "connect",
]
