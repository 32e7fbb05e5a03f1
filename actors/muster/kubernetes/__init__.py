"""Muster as a scheduler of Kubernetes: it decides where pods run that ask for it, kubelets run them.

:func:`connect` follows a cluster; :meth:`Cluster.follow` lets a scheduler have its pods and nodes, and
:attr:`Cluster.binder` binds and evicts pods as the scheduler decides. ``muster serve --run kubernetes``
does all of it.
"""

from __future__ import annotations

from muster._bind_options import SCHEDULER_NAME, BindOptions, Eviction
from muster.kubernetes._access import Access, AccessError
from muster.kubernetes._api import ApiError, SilenceError
from muster.kubernetes._binder import KubernetesBinder
from muster.kubernetes._cluster import Cluster, access_of, connect
from muster.kubernetes._lease import Lease

__all__ = [
    "SCHEDULER_NAME",
    "Access",
    "AccessError",
    "ApiError",
    "BindOptions",
    "Cluster",
    "Eviction",
    "KubernetesBinder",
    "Lease",
    "SilenceError",
    "access_of",
    "connect",
]
