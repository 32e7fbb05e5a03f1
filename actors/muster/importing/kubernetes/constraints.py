"""On which nodes a pod may run, and what of this a feed cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast, final

import attrs

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


@final
@attrs.frozen
class Places:
    """The nodes on which a pod may run.

    Attributes:
        selector: The labels that the node must have.
        node: The only node on which it may run, or None.
        tolerations: The taints that it tolerates.
        notes: What is not modelled.
    """

    selector: Mapping[str, str]
    node: str | None
    tolerations: tuple[Toleration, ...]
    notes: tuple[str, ...]


# KUBERNETES-15
def places_of(values: Values, *, is_of_node: bool) -> Places:
    """Return the nodes on which a pod may run.

    Args:
        values: The pod.
        is_of_node: Whether it belongs to one node.
    """
    notes = list(_notes(values))
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
    return Places(selector, node, _tolerations(values), tuple(notes))


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
