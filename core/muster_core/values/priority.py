"""Priorities: int32 numbers, classes, and the cached maximum of many of them.

PRIORITY-1 to PRIORITY-19, after YuniKorn's design of priority scheduling (YUNIKORN-1457):
an application's priority is the highest of its pending asks, a queue's
``currentPriority`` the highest below it, shifted by its offset or replaced by
its fence.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.values.errors import RefusedError
from muster_core.values.quantities import MAX_INT32, MIN_INT32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster_core.values.configuration import Settings

MIN_PRIORITY: Final = MIN_INT32
MAX_PRIORITY: Final = MAX_INT32
HIGHEST_USER_PRIORITY: Final = 1_000_000_000
"""The highest value of a priority class that a user may define."""

_STALE: Final = 16
"""How many entries out of date a tally keeps beside as many as it has priorities."""


@final
@attrs.frozen
class PriorityClass:
    """A named priority.

    Attributes:
        name: Its name.
        value: The priority of an ask that names it, an int32.
        preempts: Its policy is ``PreemptLowerPriority``, not ``Never``.
    """

    name: str
    value: int
    preempts: bool = False


BUILT_IN_CLASSES: Final = (
    PriorityClass("system-cluster-critical", 2_000_000_000, preempts=True),
    PriorityClass("system-node-critical", 2_000_000_100, preempts=True),
)
"""The classes that are there from the start, with the values that Kubernetes gives them."""


def priority_of(
    number: int | None, name: str | None, classes: Mapping[str, PriorityClass]
) -> tuple[int, bool]:
    """Give what the number or the class that an ask names amounts to (PRIORITY-3, PRIORITY-4).

    Args:
        number: The number, or None.
        name: The name of the class, or None.
        classes: All classes that there are.

    Returns:
        The priority, and whether the class says ``PreemptLowerPriority``.

    Raises:
        RefusedError: If the class is unknown, or the two differ.
    """
    if name is None:
        return (0 if number is None else number), False
    known = classes.get(name)
    if known is None:
        msg = f"priority_class: {name!r} is unknown"
        raise RefusedError(msg)
    if number is not None and number != known.value:
        msg = (
            f"priority: {number} is not the value of the priority class "
            f"{known.name!r}, which is {known.value}; leave one of them out"
        )
        raise RefusedError(msg)
    return known.value, known.preempts


def clamp(priority: int) -> int:
    """Give the nearest int32."""
    return max(MIN_PRIORITY, min(MAX_PRIORITY, priority))


def current_priority(settings: Settings, highest: int | None, *, is_root: bool) -> int | None:
    """Compute the ``currentPriority`` of a queue.

    Args:
        settings: The queue's properties.
        highest: The highest priority among what is pending right below it, or None.
        is_root: Whether it is the root, whose fence and offset do nothing.

    Returns:
        The offset of a fenced queue, whatever is inside; None for another queue
        in which nothing is pending; else the sum, clamped to int32.
    """
    if is_root:
        return highest
    if settings.fence:
        return settings.offset
    return None if highest is None else clamp(highest + settings.offset)


@final
class PriorityTally:
    """A multiset of priorities that knows its maximum.

    Adding costs O(1) while the priority is already present, O(log d) with d
    different priorities otherwise. Removing one looks for a new maximum only if
    it was the last of the top priority, so a removal stops at the first other
    ask of that priority.
    """

    __slots__ = ("_counts", "_heap", "recomputations")

    def __init__(self) -> None:
        #: How many there are of each priority; never zero.
        self._counts: dict[int, int] = {}
        #: The negated priorities, each at least once while it is counted.
        self._heap: list[int] = []
        #: How often the maximum had to be looked for again.
        self.recomputations = 0

    def add(self, priority: int, times: int = 1) -> None:
        """Count ``priority`` once more, or ``times`` more."""
        counts = self._counts
        if priority in counts:
            counts[priority] += times
        else:
            counts[priority] = times
            heappush(self._heap, -priority)
            if len(self._heap) > 2 * len(counts) + _STALE:
                self._heap = [-counted for counted in counts]
                heapify(self._heap)

    def remove(self, priority: int, times: int = 1) -> None:
        """Count ``priority`` once less, or ``times`` less; it must have been counted so often."""
        left = self._counts[priority] - times
        if left:
            self._counts[priority] = left
        else:
            del self._counts[priority]

    def replace(self, old: int | None, new: int | None) -> None:
        """Put ``new`` in the place of ``old``; None is none."""
        if old == new:
            return
        if new is not None:
            self.add(new)
        if old is not None:
            self.remove(old)

    def top(self) -> int | None:
        """Give the highest priority, or None if there is none."""
        heap, counts = self._heap, self._counts
        if heap and -heap[0] not in counts:
            self.recomputations += 1
            while heap and -heap[0] not in counts:
                heappop(heap)
        return -heap[0] if heap else None

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # Nothing is counted zero times.
        assert all(count > 0 for count in self._counts.values())
        # Every priority that is counted can be found through the heap.
        assert set(self._counts) <= {-entry for entry in self._heap}
        # The cached maximum is the recomputed one.
        assert self.top() == max(self._counts, default=None)


def highest(priorities: Iterable[int | None]) -> int | None:
    """Give the highest priority, or None; for tests."""
    return max((priority for priority in priorities if priority is not None), default=None)
