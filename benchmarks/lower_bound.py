"""The yardstick: the work that no scheduler can avoid for an allocation.

It consists of one pop from a heap (the next ask), one store into a dict (its node), and one update
of the node's place in the order of nodes (its new usage). Times are compared as multiples of it, so
that they mean the same on every computer.
"""

from __future__ import annotations

import heapq
import time
from bisect import insort

NODES = 1_000


def seconds_per_allocation(asks: int = 50_000) -> float:
    """Measure the yardstick.

    Args:
        asks: How many allocations to time.

    Returns:
        The time of one allocation, in seconds.
    """
    heap = [(-(number % 10), number) for number in range(asks)]
    heapq.heapify(heap)
    nodes = [(0.0, number) for number in range(NODES)]
    placed: dict[int, int] = {}
    start = time.process_time()
    while heap:
        _, ask = heapq.heappop(heap)
        score, node = nodes.pop(0)
        placed[ask] = node
        insort(nodes, (score + 0.001, node))
    return (time.process_time() - start) / asks


def best_of(times: int = 3) -> float:
    """Measure the yardstick several times; return the shortest time, in seconds."""
    return min(seconds_per_allocation() for _ in range(times))


def main() -> None:
    """Print the yardstick."""
    print(f"unavoidable work: {best_of() * 1e6:.2f} µs an allocation")


if __name__ == "__main__":
    main()
