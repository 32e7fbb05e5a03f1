"""Waiting in asyncio for what is done elsewhere, and what becomes of cancellations meanwhile.

asyncio delivers a cancellation once. Whoever catches it and goes on has to see to it that it is
delivered again, or a timeout is lost. How often a task was asked to cancel is counted
(:meth:`asyncio.Task.cancelling`), and blocks like :func:`asyncio.timeout` take back what they
asked for; so whoever delivers a cancellation again must leave the count as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, final

from typing_extensions import override


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
class Landing(asyncio.Event):
    """Something that will happen once. It is set in the loop of those who wait for it.

    Args:
        then: Called there when it has happened.
    """

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.then = then

    @override
    def set(self) -> None:
        super().set()
        if self.then is not None:
            self.then()

    async def wait_out(self, on_cancel: Callable[[], object]) -> Interruption | None:
        """Wait until it has happened, whatever else happens.

        Args:
            on_cancel: Called if the waiting task is cancelled, once; it is to hurry things up.

        Returns:
            The cancellation that came meanwhile, or None. It is for the caller to raise its
            error, or to defer it.
        """
        if self.is_set():
            return None
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        interruption: Interruption | None = None
        while not self.is_set():
            try:
                await self.wait()
            except asyncio.CancelledError as error:
                if interruption is None:
                    # If it was asked for before we came, it is among those counted then.
                    now = 0 if task is None else task.cancelling()
                    interruption = Interruption(error, task, min(before, now - 1))
                    if not self.is_set():
                        on_cancel()
            except BaseException:  # The coroutine is closed: nobody will wait any more.
                on_cancel()
                raise
        return interruption


@final
class BodyGuard:
    """Can cancel the task that is in its ``with`` block, in the way of :func:`asyncio.timeout`.

    To be made by that task. Nothing comes out of the block by itself.

    Attributes:
        leaving: What the block was left by, or None.
        outside: The cancellation that it was left by, if somebody else asked for that.
    """

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()
        self._inside = True
        self._fired = False
        self.leaving: BaseException | None = None
        self.outside: Interruption | None = None

    def fire(self) -> None:
        """Cancel the body, if it has not been left. To be called in the loop's thread."""
        if self._inside and not self._fired and self._task is not None:
            self._fired = True
            self._task.cancel()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._inside = False
        self.leaving = error
        if self._task is None:
            return True
        # What was asked for is taken back.
        requests = self._task.uncancel() if self._fired else self._task.cancelling()
        if isinstance(error, asyncio.CancelledError) and not (
            self._fired and requests <= self._before
        ):
            self.outside = Interruption(error, self._task, min(self._before, requests - 1))
        return True
