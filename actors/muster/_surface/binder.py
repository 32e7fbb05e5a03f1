"""Binders: what really starts the work of an ask that is bound, and ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from muster._surface.allocation import Allocation

BIND_TIMEOUT_S: Final = 30.0
"""How long a binder may take to start the work of an ask, in seconds, unless it is said."""

BIND_ATTEMPTS: Final = 3
"""How often in a row the work of an ask may fail, unless it is said."""


class Binder(Protocol):
    """What does the work of asks that are bound.

    It affects its own asks only: whatever it raises, and however long it takes, the
    scheduler goes on.
    """

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Do the work of one allocation. It runs in a task of its own.

        Returning says that the work has ended: the allocation is released, as completed.
        Raising says that it could not be done: the ask is released as ``bind_failed`` and
        is pending again, or removed if that was the last of its attempts.

        It is cancelled when the allocation ends otherwise (preempted, reclaimed, removed,
        its node lost, its time over, or the scheduler closed), and when ``started`` was not
        called in time. It should then end the work, and may take a moment for that: the
        same ask is not run again before it has ended, but others may use the node.

        Args:
            allocation: What is bound, and where.
            started: To be called, from this task or its children, when the work has
                started; before that :meth:`muster.Ask.bound` does not return. Calling it
                again does nothing.
        """
        ...
