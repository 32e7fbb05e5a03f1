"""Nodes, and how many of them are used how much."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from muster.service.yunikorn.objects.applications import allocation
from muster.service.yunikorn.objects.forms import RM_ID, Made, Seen, percentages
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster_core.nodes.node import Node
    from muster_core.structures.steps import Steps

_HOST: Final = "si/hostname"
_RACK: Final = "si/rackname"

BUCKETS: Final = tuple(f"{low}-{low + 10}%" for low in range(0, 100, 10))


def nodes(seen: Seen) -> Steps[list[Made]]:
    """Return all nodes, by name."""
    found: list[Made] = []
    for piece in in_pieces(sorted(seen.view.nodes.nodes), 8):
        yield
        found += [node(seen, seen.view.nodes.nodes[name]) for name in piece]
    return found


# REST-13
def node(seen: Seen, one: Node) -> Made:
    """Return a node, with what stands on it."""
    used = allocated(one)
    made: Made = {
        "nodeID": one.name,
        "hostName": one.attributes.get(_HOST, one.name),
        "attributes": dict(one.attributes),
        "capacity": dict(one.capacity),
        "allocated": used,
        "available": {kind: most - used[kind] for kind, most in one.capacity.items()}
        | {kind: -amount for kind, amount in used.items() if kind not in one.capacity},
        "utilized": percentages(used, one.capacity),
        "allocations": _allocations(seen, one),
        "schedulable": one.schedulable,
        "isReserved": False,
        "partition": seen.partition,
    }
    rack = one.attributes.get(_RACK)
    if rack:
        made["rackName"] = rack
    return made


def allocated(one: Node) -> dict[str, int]:
    """Return what is used of a node: every type that it has, and what it has no more."""
    return {**dict.fromkeys(one.capacity, 0), **one.used}


def _allocations(seen: Seen, one: Node) -> list[Made]:
    """Return what stands on a node, in the order in which it came there.

    The node itself has no order that survives a restart.
    """
    found: list[tuple[int, Made]] = []
    for key, name in one.held:
        app = seen.view.apps[key]
        waiting = app.waiting.get(name)
        held = app.bound.get(name) if waiting is None else waiting
        if held is not None:
            waits = waiting is not None
            ask = held[0]
            found.append((ask.number, allocation(seen, app, ask.ask, one.name, waits=waits)))
    return [made for _, made in sorted(found, key=itemgetter(0))]


# REST-14
def utilizations(seen: Seen) -> Steps[list[Made]]:
    """Return for each type how many nodes are used how much, in ten steps."""
    found: dict[str, list[list[str]]] = {}
    for piece in in_pieces(sorted(seen.view.nodes.nodes)):
        yield
        for name in piece:
            one = seen.view.nodes.nodes[name]
            for kind, percent in percentages(allocated(one), one.capacity).items():
                buckets = found.setdefault(kind, [[] for _ in BUCKETS])
                buckets[bucket_of(percent)].append(name)
    made: list[Made] = [
        {
            "type": kind,
            "utilization": [
                {"bucketName": bucket, "numOfNodes": len(names), "nodeNames": names}
                if names
                else {"bucketName": bucket}
                for bucket, names in zip(BUCKETS, buckets, strict=True)
            ],
        }
        for kind, buckets in sorted(found.items())
    ]
    return [{"clusterId": RM_ID, "partition": seen.partition, "utilizations": made}]


def bucket_of(percent: int) -> int:
    """Return the place of the bucket of a percentage."""
    return min(max(0, -(-percent // 10) - 1), len(BUCKETS) - 1)
