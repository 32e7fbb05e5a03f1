"""Reading of ``nodesortpolicy``: the order of nodes and its weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from muster_core.config.nodes.typical import read_typical
from muster_core.values.configuration.partition import NodeSortPolicy, TypicalAsk
from muster_core.values.quantities import shown

if TYPE_CHECKING:
    from muster_core.config.fields import Field

NODE_SORT_FIELDS: Final = ("type", "resourceweights", "typical")

_WEIGHT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_INFINITY: Final = float("inf")


# CONFIG-12
def read_node_sort(
    field: Field | None,
) -> tuple[NodeSortPolicy, dict[str, float], tuple[TypicalAsk, ...]]:
    """Read the ``nodesortpolicy`` of a partition, which is fair if there is none.

    Returns:
        The order, the weights, and the typical asks; each empty if none are named.
    """
    fields = {} if field is None else field.fields(NODE_SORT_FIELDS)
    policy = NodeSortPolicy.FAIR
    kind = fields.get("type")
    text = None if kind is None or kind.is_null else kind.text()
    if kind is not None and text is not None:
        try:
            policy = NodeSortPolicy(text.lower())
        except ValueError:
            kind.refuse(f"{shown(text)} is not one of {', '.join(NodeSortPolicy)}")
    weights = _read_weights(fields["resourceweights"]) if "resourceweights" in fields else {}
    typical = read_typical(fields["typical"]) if "typical" in fields else ()
    if typical and policy is not NodeSortPolicy.FGD:
        fields["typical"].warn(f"typical asks do nothing with the type {policy}: fgd uses them")
    return policy, weights, typical


# CONFIG-13
def _read_weights(field: Field) -> dict[str, float]:
    """Read the ``resourceweights``; refuse them if their sum overflows a float."""
    fields = field.fields()
    for name, weight in fields.items():
        field.report.names_type(name, weight)
    weights = {name: _read_weight(weight) for name, weight in fields.items()}
    if sum(weights.values()) == _INFINITY:
        field.refuse("the weights are too large: no average of them can be computed")
    return weights


# CONFIG-13
def _read_weight(field: Field) -> float:
    """Read one weight; return 0, with a problem, if it is invalid."""
    text = field.text()
    if text is None:
        return 0.0
    weight = float(text) if _WEIGHT.fullmatch(text) else _INFINITY
    if 0 <= weight < _INFINITY:
        return abs(weight)  # "-0" is accepted as 0
    if weight < 0:
        field.refuse(f"the weight {shown(text)} is negative")
    else:
        field.refuse(f"{shown(text)} is not a weight: write a number from 0 up")
    return 0.0
