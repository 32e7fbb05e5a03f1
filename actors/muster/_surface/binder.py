"""Binders, which start and end the work of bound asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from muster._surface.allocation import Allocation

BIND_TIMEOUT_S: Final = 30.0
"""The default for how long a binder may take to start the work of an ask, in seconds."""

BIND_ATTEMPTS: Final = 3
"""The default for how often in a row an ask may end as ``bind_failed``."""


class Binder(Protocol):
    """An object of a program that does the work of bound asks, in trio or in asyncio.

    A binder that raises or takes long affects only its own asks: the scheduler continues.
    """

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Do the work of one allocation, in a task of its own.

        When this returns, the work has ended: the allocation is released, as completed. When it
        raises :class:`muster.WorkFailedError`, alone or in a group, the work has failed: the
        allocation is released as failed, with the message of the error, and the ask is pending
        again if it has a retry left. When it raises another exception, the work could not be
        started: the allocation is released as ``bind_failed``, and the ask is pending again, or
        removed if that was the last of ``bind_attempts``. :class:`muster.NotStartedError` does not
        count as an attempt.

        The task is cancelled if the allocation ends in another way (preempted, reclaimed,
        removed, its node lost, its ``run_for`` over, or the scheduler closed), or if ``started``
        was not called in time. :attr:`Allocation.ending` then says why. The task should end the
        work, and may take some time for that: the same ask does not run again before this has
        returned, but other asks may use the node.

        :func:`muster.open_scheduler` runs it as a task of trio. With
        :func:`muster.asyncio.open_scheduler` it is a task of the program's loop, with the context
        variables of the task that opened the scheduler.

        Args:
            allocation: The allocation.
            started: To call when the work has started, from this task or another one of the same
                thread; ``bound`` does not return before. Further calls do nothing.
        """
        ...


class ResumingBinder(Binder, Protocol):
    """A binder that can find work again that it started before the program was restarted.

    Pass it wherever a :class:`Binder` is expected: the method ``resume`` is optional, and is used
    if it is there.
    """

    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Go on with the work of an allocation that was bound when an earlier program ended.

        It is called instead of :meth:`run`, with the same meaning of returning, raising and being
        cancelled, and with the same time to call ``started``. If the work cannot be found, raise:
        then the allocation is released as ``bind_failed``, and the work begins again.

        Args:
            allocation: The allocation, as it was.
            started: To call when the work was found.
        """
        ...
