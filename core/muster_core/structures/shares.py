"""Shares: usage divided by an entitlement, for queues, applications and nodes.

ORDER-8, ORDER-9, ORDER-27 to ORDER-29. Shares are IEEE doubles: each one is a correctly rounded
quotient of two integers, and each sum is rounded once (``math.fsum``). So every computer and every
order of computation gives the same result.
"""

from __future__ import annotations

from math import fsum, inf
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from muster_core.values.configuration import Limits, QueueConfig


# ORDER-27, ORDER-29
def share(used: int, whole: int) -> float:
    """Return ``used / whole``; if ``whole`` is 0, infinity if anything is used, otherwise 0."""
    if whole:
        return used / whole
    return inf if used else 0.0


# ORDER-10
def dominant_share(amounts: Mapping[str, int], total: Mapping[str, int]) -> float:
    """Return the largest share of ``amounts`` in ``total`` over their types."""
    return queue_shares({}, {}, amounts, total)[1]


# ORDER-8
def fair_share(allocated: Mapping[str, int], denominators: Mapping[str, int]) -> float:
    """Return the fair share of a queue: the largest share over the types that it uses.

    Args:
        allocated: The resources that it uses.
        denominators: Its :class:`Denominators`.
    """
    return queue_shares(allocated, denominators, {}, {})[0]


# ORDER-8, ORDER-10
def queue_shares(
    allocated: Mapping[str, int],
    denominators: Mapping[str, int],
    pending: Mapping[str, int],
    total: Mapping[str, int],
) -> tuple[float, float]:
    """Return :func:`fair_share` and :func:`dominant_share` of a queue, in one call.

    Every queue on a path needs both for each ask that is placed.
    """
    fair = dominant = 0.0
    for name, used in allocated.items():
        whole = denominators[name]
        part = used / whole if whole else share(used, 0)
        if part > fair:  # noqa: PLR1730 - a call of max() would double the time
            fair = part
    for name, used in pending.items():
        whole = total.get(name, 0)
        part = used / whole if whole else share(used, 0)
        if part > dominant:  # noqa: PLR1730 - as above
            dominant = part
    return fair, dominant


@final
class Denominators(dict[str, int]):
    """The denominators of a queue's shares, looked up once for each type.

    A type counts against the queue's ``guaranteed``; if that does not name it, against the
    smallest ``max`` of the queue and its ancestors; otherwise against the total of all nodes.

    Args:
        path: The queue's configuration and those of its ancestors, nearest first.
        total: The capacity of all nodes, including unschedulable ones.
    """

    __slots__ = ("_guaranteed", "_maxima", "_total")

    def __init__(self, path: Sequence[QueueConfig], total: Mapping[str, int]) -> None:
        self._guaranteed = path[0].guaranteed
        self._maxima: list[Limits] = [queue.max for queue in path]
        self._total = total
        super().__init__()

    def __missing__(self, name: str) -> int:
        """Look up the denominator of a type for the first time."""
        self[name] = found = self._look_up(name)
        return found

    # ORDER-9
    def _look_up(self, name: str) -> int:
        if name in self._guaranteed:
            return self._guaranteed[name]
        maxima = [
            value for limits in self._maxima for kind, value in limits.amounts if kind == name
        ]
        return min(maxima) if maxima else self._total.get(name, 0)


# ORDER-14
def usage_key(
    allocated: Mapping[str, int], guaranteed: Mapping[str, int], total: Mapping[str, int]
) -> tuple[float, ...]:
    """Return an application's usage for the policy ``fair``: its shares, largest first.

    Types that it does not use are left out: their share 0 at the end of the tuple would change
    no comparison.
    """
    shares = [
        share(used, guaranteed.get(name, 0) or total.get(name, 0))
        for name, used in allocated.items()
        if used
    ]
    shares.sort(reverse=True)
    return tuple(shares)


@final
class Weighing:
    """Computes the weighted utilisation of a node.

    Args:
        capacity: The capacity of the node.
        weights: The weight of each type that counts.
    """

    __slots__ = ("_parts", "_whole")

    # ORDER-25
    def __init__(self, capacity: Mapping[str, int], weights: Iterable[tuple[str, float]]) -> None:
        self._parts = [
            (name, weight, capacity[name]) for name, weight in weights if name in capacity
        ]
        self._whole = fsum(weight for _, weight, _ in self._parts)

    # ORDER-22, ORDER-28
    def utilisation(self, used: Mapping[str, int]) -> float:
        """Return the weighted average of the utilisation over the node's types with a weight."""
        if not self._whole:
            return 0.0
        if len(self._parts) == 2:  # A single addition is rounded once, like ``fsum``.
            (first, weight, there), (second, other_weight, other) = self._parts
            part = weight * (used.get(first, 0) / there)
            return (part + other_weight * (used.get(second, 0) / other)) / self._whole
        try:
            parts = (weight * (used.get(name, 0) / there) for name, weight, there in self._parts)
            return fsum(parts) / self._whole
        except OverflowError:  # More is used than there is, with weights near the largest double.
            return inf
