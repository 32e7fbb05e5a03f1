"""Shares: how much of what it may have a queue, an application or a node uses.

ORDER-8, ORDER-9, ORDER-27 to ORDER-29. Shares are IEEE doubles: each a correctly rounded quotient of two
integers, each sum rounded once (``math.fsum``), so that every machine and every
order of computation gives the same order.
"""

from __future__ import annotations

from math import fsum, inf
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from muster_core.values.configuration import Limits, QueueConfig


def share(used: int, whole: int) -> float:
    """Give ``used / whole``; of nothing, infinity if something is used, else 0."""
    if whole:
        return used / whole
    return inf if used else 0.0


def dominant_share(amounts: Mapping[str, int], total: Mapping[str, int]) -> float:
    """Give the largest share over the types of ``amounts`` in ``total``."""
    largest = 0.0
    for name, used in amounts.items():
        whole = total.get(name, 0)
        part = used / whole if whole else share(used, 0)
        if part > largest:  # noqa: PLR1730 - a call of max() would double the time
            largest = part
    return largest


def fair_share(allocated: Mapping[str, int], denominators: Mapping[str, int]) -> float:
    """Give the fair share of a queue: the largest over the types that it uses.

    Args:
        allocated: What it uses.
        denominators: Its :class:`Denominators`.
    """
    largest = 0.0
    for name, used in allocated.items():
        whole = denominators[name]
        part = used / whole if whole else share(used, 0)
        if part > largest:  # noqa: PLR1730 - a call of max() would double the time
            largest = part
    return largest


@final
class Denominators(dict[str, int]):
    """What a queue's use of each type is compared with, looked up once a type.

    A type counts against the queue's ``guaranteed``; where that does not name it,
    against the smallest ``max`` of the queue and its ancestors; else against the
    partition's total.

    Args:
        path: The queue's configuration and those of its ancestors, nearest first.
        total: What all nodes of the partition have, unschedulable ones included.
    """

    __slots__ = ("_guaranteed", "_maxima", "_total")

    def __init__(self, path: Sequence[QueueConfig], total: Mapping[str, int]) -> None:
        self._guaranteed = path[0].guaranteed
        self._maxima: list[Limits] = [queue.max for queue in path]
        self._total = total
        super().__init__()

    def __missing__(self, name: str) -> int:
        """Look up the denominator for a type that was not asked for before."""
        self[name] = found = self._look_up(name)
        return found

    def _look_up(self, name: str) -> int:
        if name in self._guaranteed:
            return self._guaranteed[name]
        maxima = [
            value for limits in self._maxima for kind, value in limits.amounts if kind == name
        ]
        return min(maxima) if maxima else self._total.get(name, 0)


def usage_key(
    allocated: Mapping[str, int], guaranteed: Mapping[str, int], total: Mapping[str, int]
) -> tuple[float, ...]:
    """Give an application's usage for the policy ``fair``: its shares, largest first.

    A type that it does not use would have the share 0 at the end of the tuple, where
    it changes no comparison; it is left out.
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
    """How much of a node is used, by the weights of the types that it has.

    Args:
        capacity: What the node has.
        weights: The weight of each type that counts.
    """

    __slots__ = ("_parts", "_whole")

    def __init__(self, capacity: Mapping[str, int], weights: Iterable[tuple[str, float]]) -> None:
        self._parts = [
            (name, weight, capacity[name]) for name, weight in weights if name in capacity
        ]
        self._whole = fsum(weight for _, weight, _ in self._parts)

    def utilisation(self, used: Mapping[str, int]) -> float:
        """Give the weighted average of the utilisation over the types that the node has."""
        if not self._whole:
            return 0.0
        if len(self._parts) == 2:  # A single addition is rounded once, as a sum of many must be.
            (first, weight, there), (second, other_weight, other) = self._parts
            part = weight * (used.get(first, 0) / there)
            return (part + other_weight * (used.get(second, 0) / other)) / self._whole
        try:
            parts = (weight * (used.get(name, 0) / there) for name, weight, there in self._parts)
            return fsum(parts) / self._whole
        except OverflowError:  # More is used than there is, and weighed near the largest double.
            return inf
