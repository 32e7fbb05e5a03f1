"""The cluster and its partition, its history, and its health."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from muster import _version
from muster.service.yunikorn.objects.forms import RM_ID, Made, Seen, percentages, shown
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster_core.structures.steps import Steps


@cache
def _build_date() -> str:
    """Return when this copy of Muster was made, as YuniKorn writes dates of builds."""
    made = Path(_version.__file__).stat().st_mtime
    return datetime.fromtimestamp(made, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")


# REST-6
def clusters(seen: Seen) -> list[Made]:
    """Return the cluster, once for each partition."""
    return [
        {
            "clusterName": seen.cluster,
            "partition": seen.partition,
            "startTime": seen.started_us * 1_000,
            "rmBuildInformation": [
                {
                    "buildVersion": _version.__version__,
                    "buildDate": _build_date(),
                    "rmId": RM_ID,
                }
            ],
        }
    ]


# REST-6
def partitions(seen: Seen) -> Steps[list[Made]]:
    """Return the partition."""
    view, config = seen.view, seen.machine.configuration
    states: Counter[str] = Counter()
    containers = 0
    used: Counter[str] = Counter()
    for piece in in_pieces(view.apps.values()):
        yield
        for app in piece:
            states[app.state.value] += 1
            containers += len(app.bound) + len(app.waiting)
    for nodes in in_pieces(view.nodes.nodes.values()):
        yield
        for node in nodes:
            used.update(node.used)
    if seen.ledger.completed:
        states["Completed"] += len(seen.ledger.completed)
    capacity = dict(view.nodes.total)
    in_use = {**dict.fromkeys(capacity, 0), **used}
    return [
        {
            "clusterId": RM_ID,
            "name": seen.partition,
            "state": "Active",
            "lastStateTransitionTime": seen.started_us * 1_000,
            "capacity": {
                "capacity": shown(capacity),
                "usedCapacity": shown(in_use),
                "utilization": percentages(in_use, capacity),
            },
            "nodeSortingPolicy": {
                "type": config.node_sort.value,
                "resourceWeights": {kind: float(weight) for kind, weight in config.node_weights},
            },
            "preemptionEnabled": config.preemption_enabled,
            "quotaPreemptionEnabled": False,
            "totalNodes": len(view.nodes.nodes),
            "totalContainers": containers,
            "applications": {**dict(sorted(states.items())), "total": states.total()},
        }
    ]


# REST-18
def history(seen: Seen, now_us: int, *, containers: bool) -> list[Made]:
    """Return what ran, minute by minute; the numbers are texts.

    Args:
        seen: The state.
        now_us: The present instant, in microseconds since the origin.
        containers: Whether asks that hold a node are told, and not applications.
    """
    name = "totalContainers" if containers else "totalApplications"
    return [
        {
            "timestamp": seen.ns(point.at_us),
            name: str(point.containers if containers else point.apps),
        }
        for point in seen.ledger.history(now_us)
    ]
