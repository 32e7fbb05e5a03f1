"""Waiting in asyncio for what is done elsewhere, and what becomes of cancellations meanwhile.

asyncio delivers a cancellation once. Whoever catches it and goes on has to see to it that it is
delivered again, or a timeout is lost. How often a task was asked to cancel is counted
(:meth:`asyncio.Task.cancelling`), and blocks like :func:`asyncio.timeout` take back what they
asked for; so whoever delivers a cancellation again must leave the count as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, final


@final
class Interruption:
    """A cancellation that came while a task could not leave.

    Args:
        error: The cancellation, as it came.
        task: The task that it was for, or None if that is not known.
        before: How many requests to cancel the task had before the first of these.
    """

    __slots__ = ("_before", "_task", "error")

    def __init__(
        self, error: asyncio.CancelledError, task: asyncio.Task[Any] | None, before: int
    ) -> None:
        self.error = error
        self._task = task
        self._before = before

    def defer(self) -> None:
        """Cancel the task where it waits next; unless it leaves the cancelled block before that."""
        # Not at once: the mark that `Task.cancel` leaves in a running task outlives the block
        # that asked for it, before Python 3.13. When this callback runs, the task waits or has
        # ended, and if its block has been left, then the count says so.
        asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        task = self._task
        if task is not None and not task.done() and task.cancelling() > self._before:
            task.uncancel()
            task.cancel(*self.error.args)


@final
class Landing:
    """Something that will happen once, and is waited for until it has, whatever else happens.

    Args:
        loop: The loop of whoever waits.
    """

    __slots__ = ("_has_landed", "_loop", "_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._has_landed = False

    def has_landed(self) -> bool:
        """Say whether it has happened."""
        return self._has_landed

    def land(self) -> None:
        """It has happened. To be called in the loop's thread."""
        self._has_landed = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, on_cancel: Callable[[], object]) -> Interruption | None:
        """Wait until it has happened; only one task may.

        Args:
            on_cancel: Called if the waiting task is cancelled, once; it is to hurry things up.

        Returns:
            The cancellation that came meanwhile, or None. It is for the caller to raise its
            error, or to defer it.
        """
        if self.has_landed():
            return None
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        interruption: Interruption | None = None
        while not self.has_landed():
            # A new one each time: a cancelled task cancels the future that it waits for.
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                if interruption is None:
                    # If it was asked for before we came, it is among those counted then.
                    now = 0 if task is None else task.cancelling()
                    interruption = Interruption(error, task, min(before, now - 1))
                    if not self.has_landed():
                        on_cancel()
            except BaseException:  # The coroutine is closed: nobody will wait any more.
                on_cancel()
                raise
        return interruption


@final
class BodyGuard:
    """Can cancel the task that is in a block, in the way of :func:`asyncio.timeout`.

    To be made when the block is entered, by the task that does.
    """

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()
        self._inside = True
        self._fired = False

    def fire(self) -> None:
        """Cancel the body, if it has not been left. To be called in the loop's thread."""
        if self._inside and not self._fired and self._task is not None:
            self._fired = True
            self._task.cancel()

    def leave(self, leaving: BaseException | None) -> Interruption | None:
        """The body has been left: take back what was asked for.

        Args:
            leaving: What it was left by, or None.

        Returns:
            The cancellation that it was left by, if somebody else asked for that.
        """
        self._inside = False
        if self._task is None:
            return None
        requests = self._task.uncancel() if self._fired else self._task.cancelling()
        if not isinstance(leaving, asyncio.CancelledError):
            return None
        if self._fired and requests <= self._before:
            return None
        return Interruption(leaving, self._task, min(self._before, requests - 1))
