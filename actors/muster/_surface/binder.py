"""Binders, which start and end the work of bound asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from muster._surface.allocation import Allocation

BIND_TIMEOUT_S: Final = 30.0
"""The default for how long a binder may take to start the work of an ask, in seconds."""

BIND_ATTEMPTS: Final = 3
"""The default for how often in a row the work of an ask may fail."""


class Binder(Protocol):
    """An object of a program that does the work of bound asks.

    A binder that raises or takes long affects only its own asks: the scheduler continues.
    """

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Do the work of one allocation, in a task of its own.

        When this returns, the work has ended: the allocation is released, as completed. When
        it raises, the work has failed: the allocation is released as ``bind_failed``, and the
        ask is pending again, or removed if that was its last attempt.

        The task is cancelled if the allocation ends in another way (preempted, reclaimed,
        removed, its node lost, its ``run_for`` over, or the scheduler closed), or if ``started``
        was not called in time. It should then end the work, and may take some time for that: the
        same ask does not run again before this has returned, but other asks may use the node.

        Args:
            allocation: The allocation.
            started: To call when the work has started, from this task or its child tasks;
                :meth:`muster.Ask.bound` does not return before. Further calls do nothing.
        """
        ...
