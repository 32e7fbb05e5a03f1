"""The nodes of a dump, and on which of them a pod may run.

Constraints that a feed cannot have are noted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, cast, final

import attrs

from muster.feeds._affinity import AFFINITY, TOLERATIONS
from muster.feeds._fields import Values
from muster.feeds._kinds import write_amounts
from muster.feeds._kubernetes import capacity_of, maps_in
from muster.feeds._raw import Raw
from muster.importing.kubernetes.schema import NODE
from muster.importing.nodes import NodeFields, largest_of
from muster_core.resources import NOTHING
from muster_core.structures.shapes import Shape
from muster_core.values.affinity import (
    NODE_NAME,
    Affinity,
    Operator,
    Taint,
    Toleration,
)

_PRESENT: Final = {
    "preferred": "a preferred node affinity is not modelled",
    "pod_affinity": "affinity to other pods is not modelled",
    "preferred_pods": "affinity to other pods is not modelled",
    "pod_anti_affinity": "anti-affinity to other pods is not modelled",
    "averse_pods": "anti-affinity to other pods is not modelled",
    "spread": "topology spread constraints are not modelled",
    "runtime_class": "a runtime class is not modelled",
}
_CLAIMS: Final = "volume claims are not modelled"
_PORTS: Final = "host ports are not modelled"

# KUBERNETES-16
_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""The prefix of the keys of taints that Kubernetes sets by itself.

It takes them away as well, as the state of a node changes; a dump says only which there were when
it was made, and not when the pods were bound.
"""


@attrs.frozen(kw_only=True, slots=False)  # several bases of a pod cannot have slots
class NodeConstraints:
    """The nodes on which a pod may run, as fields of its ask.

    Attributes:
        selector: The attributes that the node must have.
        node: The only node on which it may run, or None.
        tolerations: The taints that it tolerates.
        affinity: The terms of which the node must match one, or None.
    """

    selector: Mapping[str, str]
    node: str | None
    tolerations: Raw
    affinity: Raw


# KUBERNETES-15, KUBERNETES-16
def constraints_of(values: Values, notes: list[str], *, is_of_node: bool) -> NodeConstraints:
    """Return the nodes on which a pod may run.

    Args:
        values: The pod.
        notes: Gets the constraints that are not modelled.
        is_of_node: Whether it belongs to one node.
    """
    notes += _notes(values)
    affinity = cast("Affinity | None", values.get("affinity"))
    if is_of_node:  # it is there, whatever the node is like now
        node = cast("str | None", values.get("node")) or _only_node(affinity or ())
        return NodeConstraints(selector={}, node=node, tolerations=_ALL, affinity=None)
    tolerations = cast("tuple[Toleration, ...]", values.get("tolerations", ()))
    lasting = tuple(one for one in tolerations if not one.key.startswith(_PASSING))
    return NodeConstraints(
        selector=cast("Mapping[str, str]", values.get("selector", {})),
        node=None,
        tolerations=TOLERATIONS.write(lasting),
        affinity=None if affinity is None else AFFINITY.write(affinity),
    )


_ALL: Final[Raw] = [{"operator": "Exists"}]


def _only_node(affinity: Affinity) -> str | None:
    """Return the node to which an affinity binds a pod of a DaemonSet."""
    every = [one for term in affinity for one in term if one.key == NODE_NAME]
    named = {value for one in every if one.operator is Operator.IN for value in one.values}
    return named.pop() if len(named) == 1 else None


def _notes(values: Values) -> Iterator[str]:
    yield from dict.fromkeys(note for name, note in _PRESENT.items() if values.get(name))
    if any(volume.get("claim") for volume in maps_in(values, "volumes")):
        yield _CLAIMS
    containers = maps_in(values, "containers")
    if any(one.get("host_port") for each in containers for one in maps_in(each, "ports")):
        yield _PORTS


PODS: Final = "pods"
"""The resource type of which each pod needs one."""


@final
@attrs.frozen
class DumpedNode:
    """A node of a dump.

    Attributes:
        place: Its place in the dump.
        created_us: When it was created, in microseconds since 1970, or None.
        fields: The node as a feed has it.
    """

    place: str
    created_us: int | None
    fields: NodeFields


# KUBERNETES-14
def read_node(written: Raw, place: str) -> DumpedNode:
    """Return a node.

    Raises:
        FieldError: If a field that matters has another form than Kubernetes gives it.
    """
    values = NODE.parse(written)
    capacity = write_amounts(capacity_of(values))
    taints = cast("tuple[Taint, ...]", values.get("taints", ()))
    fields = NodeFields(
        name=str(values["node"]),
        capacity=cast("Mapping[str, int | str]", capacity),
        attributes=cast("Mapping[str, str]", values.get("attributes", {})),
        schedulable=bool(values.get("schedulable", True)),
        # KUBERNETES-16
        taints=tuple(taint for taint in taints if not taint.key.startswith(_PASSING)),
    )
    return DumpedNode(place, cast("int | None", values.get("created")), fields)


@final
class FeedNodes:
    """The nodes on which the pods of a feed run.

    Args:
        nodes: The nodes as the feed has them.
    """

    def __init__(self, nodes: Sequence[NodeFields]) -> None:
        self._nodes = nodes
        self._matching: dict[str, bool] = {}

    @cached_property
    def count_pods(self) -> bool:
        """Whether each node has a number of pods that it takes."""
        return all(PODS in node.capacity for node in self._nodes)

    @cached_property
    def largest(self) -> Mapping[str, int]:
        """The most that a node has of each resource, in base units."""
        return largest_of(self._nodes)

    def match(self, pod: NodeConstraints) -> bool:
        """Return whether a pod may run on some node that accepts pods."""
        key = json.dumps([pod.selector, pod.node, pod.tolerations, pod.affinity])
        if key not in self._matching:
            shape = _shape(*json.loads(key))
            self._matching[key] = any(
                node.schedulable and shape.matches(node.name, node.attributes, taints=node.taints)
                for node in self._nodes
            )
        return self._matching[key]


def _shape(selector: dict[str, str], node: str | None, tolerations: Raw, affinity: Raw) -> Shape:
    return Shape(
        NOTHING,
        tuple(selector.items()),
        node,
        tolerations=TOLERATIONS.parse(tolerations),
        affinity=None if affinity is None else AFFINITY.parse(affinity),
    )
