"""Waiting in asyncio that does not lose cancellations.

asyncio delivers a cancellation once. Code that catches it and continues must deliver it again,
or a timeout gets lost. A task counts its requests to cancel (:meth:`asyncio.Task.cancelling`),
and blocks like :func:`asyncio.timeout` take back their own requests. So code that delivers a
cancellation again must not change this count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, final

from typing_extensions import override


@final
class Interruption:
    """A cancellation that came while a task had to continue.

    Args:
        error: The cancellation.
        task: The cancelled task, or None if it is unknown.
        before: How many requests to cancel the task had before this cancellation.
    """

    __slots__ = ("_before", "_task", "error")

    def __init__(
        self, error: asyncio.CancelledError, task: asyncio.Task[Any] | None, before: int
    ) -> None:
        self.error = error
        self._task = task
        self._before = before

    def defer(self) -> None:
        """Cancel the task where it waits next, unless it has left the cancelled block by then."""
        # Not at once: before Python 3.13, the flag that `Task.cancel` sets in a running task
        # outlives the block that requested it. When this callback runs, the task waits or has
        # ended, and the count shows whether it has left its block.
        asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        task = self._task
        if task is not None and not task.done() and task.cancelling() > self._before:
            task.uncancel()
            task.cancel(*self.error.args)


@final
class Landing(asyncio.Event):
    """An event that is set once, in the loop of the tasks that wait for it.

    Args:
        then: Called in this loop when the event is set.
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
        """Wait until the event is set, even if the waiting task is cancelled.

        Args:
            on_cancel: Called once if the waiting task is cancelled; it should make the event
                come sooner.

        Returns:
            The cancellation that came meanwhile, or None. The caller must raise its error or
            defer it.
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
                    # A request from before this wait is in `before` already.
                    now = 0 if task is None else task.cancelling()
                    interruption = Interruption(error, task, min(before, now - 1))
                    if not self.is_set():
                        on_cancel()
            except BaseException:  # The coroutine is closed, so no task waits any more.
                on_cancel()
                raise
        return interruption


@final
class BodyGuard:
    """Can cancel the task in its ``with`` block, as :func:`asyncio.timeout` does.

    This task must create it. The block suppresses all exceptions.

    Attributes:
        leaving: The exception that ended the block, or None.
        outside: The cancellation that ended the block, if :meth:`fire` did not cause it.
    """

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()
        self._inside = True
        self._fired = False
        self.leaving: BaseException | None = None
        self.outside: Interruption | None = None

    def fire(self) -> None:
        """Cancel the body, unless it has ended. Call this in the loop's thread."""
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
        # Take back the request of `fire`.
        requests = self._task.uncancel() if self._fired else self._task.cancelling()
        if isinstance(error, asyncio.CancelledError) and not (
            self._fired and requests <= self._before
        ):
            self.outside = Interruption(error, self._task, min(self._before, requests - 1))
        return True
