"""What a node has left when an ask is placed there: the order ``bestfit``."""

from __future__ import annotations

from math import fsum, inf
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster_core.nodes.node import Node, Weights
    from muster_core.values.resources import Resources


@final
class Leftover:
    """Computes what nodes have left, as a weighted sum of shares.

    Args:
        weights: The weight of each type that counts.
    """

    __slots__ = ("_parts", "_weights")

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        #: The types with a weight that some node has, with the largest capacity of any node.
        self._parts: list[tuple[str, float, int]] = []

    # DEVICE-16
    def measure(self, nodes: Iterable[Node]) -> bool:
        """Find the largest capacities; return whether one of them has changed."""
        largest = dict.fromkeys((name for name, _ in self._weights), 0)
        for node in nodes:
            for name, most in largest.items():
                amount = node.capacity.get(name, 0)
                if amount > most:
                    largest[name] = amount
        parts = [(name, weight, largest[name]) for name, weight in self._weights if largest[name]]
        changed, self._parts = parts != self._parts, parts
        return changed

    # DEVICE-16
    def of(self, node: Node, resources: Resources) -> float:
        """Return what is left on a node if resources are taken from what is free there."""
        capacity, used, wanted = node.capacity, node.used, resources.amounts
        parts = self._parts
        if len(parts) == 2:  # A single addition is rounded once, like ``fsum``.
            (first, weight, most), (second, other_weight, other) = parts
            return weight * (_left(capacity, used, wanted, first) / most) + other_weight * (
                _left(capacity, used, wanted, second) / other
            )
        try:
            return fsum(
                weight * (_left(capacity, used, wanted, name) / most)
                for name, weight, most in parts
            )
        except OverflowError:  # More is used than there is, with weights near the largest double.
            return -inf


def _left(
    capacity: Mapping[str, int], used: Mapping[str, int], wanted: Mapping[str, int], name: str
) -> int:
    return capacity.get(name, 0) - used.get(name, 0) - wanted.get(name, 0)
