"""Priorities: int32 numbers and classes, and what queues make of them.

PRIORITY-1 to PRIORITY-19, after YuniKorn's design of priority scheduling (YUNIKORN-1457): an
application has the highest priority of its pending asks. A queue's ``currentPriority`` is the
highest priority of its children plus the queue's offset, or the offset alone with a fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

import attrs

from muster_core.values.configuration import Settings
from muster_core.values.errors import RefusedError
from muster_core.values.names import Guesses
from muster_core.values.resources import MAX_INT32, MIN_INT32

# PRIORITY-1
MIN_PRIORITY: Final = MIN_INT32
MAX_PRIORITY: Final = MAX_INT32
# PRIORITY-7
HIGHEST_USER_PRIORITY: Final = 1_000_000_000
"""The highest value of a priority class that a user may define."""


# PRIORITY-8
@final
@attrs.frozen
class PriorityClass:
    """A named priority.

    Attributes:
        value: The priority of an ask that names it, an int32.
        preempts: Whether its policy is ``PreemptLowerPriority``, not ``Never``.
    """

    name: str
    value: int
    preempts: bool = False


# PRIORITY-6
BUILT_IN_CLASSES: Final = (
    PriorityClass("system-cluster-critical", 2_000_000_000, preempts=True),
    PriorityClass("system-node-critical", 2_000_001_000, preempts=True),
)
"""The built-in priority classes, with their values in Kubernetes."""


def priority_of(
    number: int | None,
    name: str | None,
    classes: Mapping[str, PriorityClass],
    guesses: Guesses | None = None,
) -> tuple[int, bool]:
    """Return the priority of an ask from its number or its class (PRIORITY-3, PRIORITY-4).

    An ask without a number and a class has priority 0; there is no default class.

    Args:
        number: The number, or None.
        name: The name of the class, or None.
        classes: All classes, by name.
        guesses: Guesses which class was meant, or None.

    Returns:
        The priority, and whether the class says ``PreemptLowerPriority``.

    Raises:
        RefusedError: If the class is unknown, or the two differ.
    """
    # PRIORITY-2
    if name is None:
        return (0 if number is None else number), False
    known = classes.get(name)
    # PRIORITY-3
    if known is None:
        guess = "" if guesses is None else guesses.about(name, classes)
        msg = f"priority_class: {name!r} is unknown{guess}"
        raise RefusedError(msg)
    # PRIORITY-4
    if number is not None and number != known.value:
        msg = (
            f"priority: {number} is not the value of the priority class "
            f"{known.name!r}, which is {known.value}; leave one of them out"
        )
        raise RefusedError(msg)
    return known.value, known.preempts


# PRIORITY-13
def clamp(priority: int) -> int:
    """Limit a priority to the range of an int32."""
    return max(MIN_PRIORITY, min(MAX_PRIORITY, priority))


# AGING-4
def most_growth(limit: int, priority: int) -> int:
    """Return by how much the priority of an ask that is not bound may grow.

    Args:
        limit: The ``priority.aging.limit`` of its leaf.
        priority: Its own priority.
    """
    return max(0, min(limit, HIGHEST_USER_PRIORITY - priority))


# PRIORITY-11, PRIORITY-12
def current_priority(settings: Settings, highest: int | None, *, is_root: bool) -> int | None:
    """Compute the ``currentPriority`` of a queue.

    Args:
        settings: The queue's properties.
        highest: The highest priority of its children with pending asks, or None.
        is_root: Whether it is the root, whose fence and offset have no effect.

    Returns:
        For a queue with a fence, its offset. Otherwise the sum of ``highest`` and the
        offset, limited to int32, or None if nothing is pending.
    """
    if is_root:
        return highest
    # PRIORITY-15
    if settings.fence:
        return settings.offset
    # PRIORITY-16
    return None if highest is None else clamp(highest + settings.offset)


def highest(priorities: Iterable[int | None]) -> int | None:
    """Return the highest priority, or None; for tests."""
    return max((priority for priority in priorities if priority is not None), default=None)
