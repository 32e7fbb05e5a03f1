"""Write events that a user may add, from objects of the core."""

from __future__ import annotations

import json

from muster.feeds._objects.gang_marks import KOORDINATOR
from muster.feeds._written.amounts import Written, amounts, duration, quantity
from muster.feeds._written.events import add_ask, node
from muster_core.gangs.definition import GangDefinition
from muster_core.values.gang_names import DEFAULT_NAMESPACE

__all__ = [
    "Written",
    "add_ask",
    "add_gang",
    "amounts",
    "duration",
    "node",
    "quantity",
    "redefined",
    "settle",
    "span",
]


def span(length_us: int) -> str:
    """Return a duration for a property, with the largest unit that is exact."""
    for unit, name in ((1_000_000, "s"), (1_000, "ms")):
        if length_us % unit == 0:
            return f"{length_us // unit}{name}"
    return f"{length_us}us"


def settle(at_us: int) -> Written:
    """Return the event that closes the batch of an instant; later events form the next one."""
    return {"op": "settle", "at": duration(at_us)}


def add_gang(gang: str, definition: GangDefinition) -> Written:
    """Return the event that defines a gang."""
    written: Written = {"op": "add_gang", "gang": gang, "min_member": definition.min_member}
    if definition.total != definition.min_member:
        written["total"] = definition.total
    written["mode"] = definition.mode.value
    if definition.wait_us is not None:
        written["wait_time"] = duration(definition.wait_us)
    if definition.groups:
        written["groups"] = [*definition.groups]
    if definition.topology is not None:
        written["topology"] = {**definition.topology.written()}
    return written


def redefined(gang: str, definition: GangDefinition) -> list[Written]:
    """Return the events that change the definition of a gang, if possible without its state."""
    # TOPOLOGY-1
    if definition.topology is not None:  # No PodGroup can say it.
        return [{"op": "remove_gang", "gang": gang}, add_gang(gang, definition)]
    return [_pod_group(gang, definition)]


def _pod_group(gang: str, definition: GangDefinition) -> Written:
    """Return the event that changes the definition of a gang, and not its state."""
    namespace, _, name = gang.rpartition("/")
    marks: Written = {
        f"{KOORDINATOR}/total-number": str(definition.total),
        f"{KOORDINATOR}/mode": definition.mode.value,
    }
    if definition.groups:
        marks[f"{KOORDINATOR}/groups"] = json.dumps(definition.groups)
    spec: Written = {"minMember": definition.min_member}
    if definition.wait_us is not None:
        spec["scheduleTimeoutSeconds"] = -(-definition.wait_us // 1_000_000)
    manifest: Written = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace or DEFAULT_NAMESPACE,
            "annotations": marks,
        },
        "spec": spec,
    }
    return {"op": "apply", "manifest": manifest}
