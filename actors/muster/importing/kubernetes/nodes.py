"""The nodes of a dump with their taints, and on which of them a pod may run.

What a feed cannot say of these constraints is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, cast, final

import attrs

from muster.feeds._kinds import write_amounts
from muster.feeds._raw import Raw
from muster.importing.kubernetes.schema import NODE, Amounts
from muster.importing.nodes import NodeFields, largest_of

Values = Mapping[str, object]
Toleration = tuple[str, str, str, str]
"""The key, the operator, the value and the effect."""

Taint = tuple[str, str, str]
"""The key, the value and the effect."""

_NODE_FIELD: Final = "metadata.name"
_IN: Final = "In"
_EXISTS: Final = "Exists"

AFFINITY: Final = "a node affinity that is no selector is not modelled"
_PRESENT: Final = {
    "preferred": "a preferred node affinity is not modelled",
    "pod_affinity": "affinity to other pods is not modelled",
    "pod_anti_affinity": "anti-affinity to other pods is not modelled",
    "spread": "topology spread constraints are not modelled",
    "runtime_class": "a runtime class is not modelled",
}
_CLAIMS: Final = "volume claims are not modelled"
_PORTS: Final = "host ports are not modelled"


@attrs.frozen(kw_only=True, slots=False)  # several bases of a pod cannot have slots
class NodeConstraints:
    """The nodes on which a pod may run.

    Attributes:
        selector: The labels that the node must have.
        node: The only node on which it may run, or None.
        tolerations: The taints that it tolerates.
    """

    selector: Mapping[str, str]
    node: str | None
    tolerations: tuple[Toleration, ...]


# KUBERNETES-15
def constraints_of(values: Values, notes: list[str], *, is_of_node: bool) -> NodeConstraints:
    """Return the nodes on which a pod may run.

    Args:
        values: The pod.
        notes: Gets what is not modelled.
        is_of_node: Whether it belongs to one node.
    """
    notes += _notes(values)
    selector = dict(cast("Mapping[str, str]", values.get("selector", {})))
    node: str | None = None
    terms = cast("tuple[Values, ...]", values.get("terms", ()))
    if terms:
        required = _required(terms)
        if required is None or any(selector.get(key, text) != text for key, text in required[0]):
            notes.append(AFFINITY)
        else:
            selector |= dict(required[0])
            node = required[1]
    if is_of_node:
        node = cast("str | None", values.get("node")) or node
    return NodeConstraints(selector=selector, node=node, tolerations=_tolerations(values))


def _notes(values: Values) -> Iterator[str]:
    for name, note in _PRESENT.items():
        if values.get(name):
            yield note
    if any(volume.get("claim") for volume in _maps(values, "volumes")):
        yield _CLAIMS
    containers = _maps(values, "containers")
    if any(one.get("host_port") for each in containers for one in _maps(each, "ports")):
        yield _PORTS


def _required(terms: tuple[Values, ...]) -> tuple[set[tuple[str, str]], str | None] | None:
    """Return the labels and the node that an affinity requires, or None if it says more."""
    if len(terms) != 1:
        return None
    labels: set[tuple[str, str]] = set()
    node: str | None = None
    for expression in _maps(terms[0], "expressions"):
        values = cast("tuple[str, ...]", expression.get("values", ()))
        if expression["operator"] != _IN or len(values) != 1:
            return None
        labels.add((str(expression["key"]), values[0]))
    for field in _maps(terms[0], "fields"):
        values = cast("tuple[str, ...]", field.get("values", ()))
        is_node = field["key"] == _NODE_FIELD and field["operator"] == _IN and len(values) == 1
        if not is_node or node is not None:
            return None
        node = values[0]
    return (labels, node) if len(dict(labels)) == len(labels) else None


def _tolerations(values: Values) -> tuple[Toleration, ...]:
    return tuple(
        (
            str(one.get("key", "")),
            str(one.get("operator", "")),
            str(one.get("value", "")),
            str(one.get("effect", "")),
        )
        for one in _maps(values, "tolerations")
    )


# KUBERNETES-16
def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether one of some tolerations tolerates a taint."""
    key, value, effect = taint
    for known, operator, wanted, only in tolerations:
        if only not in ("", effect):
            continue
        if operator == _EXISTS and known in ("", key):
            return True
        if operator != _EXISTS and known == key and wanted == value:
            return True
    return False


def _maps(values: Values, name: str) -> Iterable[Values]:
    return cast("Iterable[Values]", values.get(name, ()))


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
class DumpedNode:
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
        capacity = cast("Mapping[str, int | str]", write_amounts(self.capacity))
        return NodeFields(self.name, capacity, {**self.labels, **free}, self.is_open)


# KUBERNETES-14
def read_node(written: Raw, place: str) -> DumpedNode:
    """Return a node.

    Raises:
        FieldError: If a field that matters has another form than Kubernetes gives it.
    """
    values = NODE.parse(written)
    whole = cast("Amounts", values.get("capacity", {}))
    return DumpedNode(
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
class FeedNodes:
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
