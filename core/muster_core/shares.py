"""Shares: how much of what it may have a queue, an application or a node uses.

SPEC section 4. Shares are IEEE doubles: each a correctly rounded quotient of two
integers, each sum rounded once (``math.fsum``), so that every machine and every
order of computation gives the same order.
"""

from __future__ import annotations

from math import fsum, inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from muster_core.config.model import Limits, QueueConfig


def share(used: int, whole: int) -> float:
    """Give ``used / whole``; of nothing, infinity if something is used, else 0."""
    if whole:
        return used / whole
    return inf if used else 0.0


def dominant_share(amounts: Mapping[str, int], total: Mapping[str, int]) -> float:
    """Give the largest share over the types of ``amounts`` in ``total``."""
    return max((share(used, total.get(name, 0)) for name, used in amounts.items()), default=0.0)


def fair_share(allocated: Mapping[str, int], denominators: Denominators) -> float:
    """Give the fair share of a queue: the largest over the types that it uses."""
    return max(
        (share(used, denominators.of(name)) for name, used in allocated.items()), default=0.0
    )


class Denominators:
    """What a queue's use of each type is compared with, looked up once a type.

    A type counts against the queue's ``guaranteed``; where that does not name it,
    against the smallest ``max`` of the queue and its ancestors; else against the
    partition's total.

    Args:
        path: The queue's configuration and those of its ancestors, nearest first.
        total: What all nodes of the partition have, unschedulable ones included.
    """

    __slots__ = ("_guaranteed", "_known", "_maxima", "_total")

    def __init__(self, path: Sequence[QueueConfig], total: Mapping[str, int]) -> None:
        self._guaranteed = path[0].guaranteed
        self._maxima: list[Limits] = [queue.max for queue in path]
        self._total = total
        self._known: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Give the denominator for the type ``name``."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._look_up(name)
        return known

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
    return tuple(
        sorted(
            (
                share(used, guaranteed.get(name, 0) or total.get(name, 0))
                for name, used in allocated.items()
                if used
            ),
            reverse=True,
        )
    )


def utilisation(
    used: Mapping[str, int], capacity: Mapping[str, int], weights: Iterable[tuple[str, float]]
) -> float:
    """Give the weighted average of a node's utilisation, over the types that it has."""
    weighted = [
        (weight, weight * share(used.get(name, 0), capacity[name]))
        for name, weight in weights
        if name in capacity
    ]
    whole = fsum(weight for weight, _ in weighted)
    try:
        return fsum(part for _, part in weighted) / whole if whole else 0.0
    except OverflowError:  # More is used than there is, and weighed near the largest double.
        return inf
