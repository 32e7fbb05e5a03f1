"""The nodes of a dump, with their taints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, cast, final

import attrs

from muster.feeds._encodings.raw import Raw
from muster.feeds._written.amounts import amounts
from muster.importing.kubernetes.constraints import Taint, Toleration, tolerates
from muster.importing.kubernetes.kinds import Amounts
from muster.importing.kubernetes.shapes import NODE
from muster.importing.workload.nodes import NodeFields, largest_of

Values = Mapping[str, object]

PODS: Final = "pods"
"""The resource type of which each pod needs one."""

MOST_TAINTS: Final = 50
"""The most different taints that nodes have attributes for."""

_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes sets and takes away by itself, as the state of a node changes."""

TAINTED: Final = "without-taint:"
"""What the names of attributes begin with that say that a node does not have a taint."""


@final
@attrs.frozen
class Node:
    """A node of a dump.

    Attributes:
        place: Where it stands.
        name: Its name.
        created_us: When it was created, in microseconds since 1970, or None.
        capacity: What pods can have of it, in base units.
        labels: Its labels.
        is_open: Whether it accepts pods.
        taints: Those of its taints that keep pods away.
    """

    place: str
    name: str
    created_us: int | None
    capacity: Amounts
    labels: Mapping[str, str]
    is_open: bool
    taints: frozenset[Taint]

    def fields(self, taints: Iterable[Taint]) -> NodeFields:
        """Return it as a feed has it.

        Args:
            taints: The taints of all nodes.
        """
        free = {attribute_of(taint): "true" for taint in taints if taint not in self.taints}
        capacity = cast("Mapping[str, int | str]", amounts(self.capacity))
        return NodeFields(self.name, capacity, {**self.labels, **free}, self.is_open)


# KUBERNETES-14
def read_node(written: Raw, place: str) -> Node:
    """Return a node.

    Raises:
        FieldError: If a field that matters has another form than Kubernetes gives it.
    """
    values = NODE.parse(written)
    whole = cast("Amounts", values.get("capacity", {}))
    return Node(
        place=place,
        name=str(values["name"]),
        created_us=cast("int | None", values.get("created")),
        capacity=cast("Amounts", values.get("allocatable", whole)),
        labels=cast("Mapping[str, str]", values.get("labels", {})),
        is_open=not values.get("closed"),
        taints=frozenset(_taints(cast("tuple[Values, ...]", values.get("taints", ())))),
    )


def _taints(written: Iterable[Values]) -> Iterator[Taint]:
    for taint in written:
        key, effect = str(taint["key"]), str(taint["effect"])
        if effect in _KEEPS_AWAY and not key.startswith(_PASSING):
            yield key, str(taint.get("value", "")), effect


def attribute_of(taint: Taint) -> str:
    """Return the name of the attribute of nodes that do not have a taint."""
    key, value, effect = taint
    return f"{TAINTED}{key}{f'={value}' if value else ''}:{effect}"


@final
class Nodes:
    """The nodes on which the pods of a feed run.

    Args:
        fields: The nodes as the feed has them.
        taints: The taints that the attributes of the nodes know.
    """

    def __init__(self, fields: Iterable[NodeFields], taints: Iterable[Taint] = ()) -> None:
        self._nodes = {node.name: node for node in fields}
        self._taints = tuple(sorted(taints))
        self._avoided: dict[tuple[Toleration, ...], dict[str, str]] = {}
        self._matching: dict[tuple[tuple[str, str], ...], bool] = {}

    @cached_property
    def count_pods(self) -> bool:
        """Whether each node says how many pods it takes."""
        return all(PODS in node.capacity for node in self._nodes.values())

    @cached_property
    def largest(self) -> Mapping[str, int]:
        """The most that a node has of each resource, in base units."""
        return largest_of(self._nodes.values())

    def has(self, name: str | None) -> bool:
        """Return whether there is a node that accepts pods."""
        node = None if name is None else self._nodes.get(name)
        return node is not None and node.schedulable

    # KUBERNETES-16
    def avoiding(self, tolerations: tuple[Toleration, ...]) -> dict[str, str]:
        """Return the selector that keeps a pod from nodes with taints that it does not tolerate."""
        known = self._avoided.get(tolerations)
        if known is None:
            known = {
                attribute_of(taint): "true"
                for taint in self._taints
                if not tolerates(tolerations, taint)
            }
            self._avoided[tolerations] = known
        return known

    def match(self, selector: Mapping[str, str]) -> bool:
        """Return whether some node has all labels of a selector."""
        key = tuple(sorted(selector.items()))
        if key not in self._matching:
            wanted = selector.items()
            self._matching[key] = not key or any(
                wanted <= node.attributes.items() for node in self._nodes.values()
            )
        return self._matching[key]
