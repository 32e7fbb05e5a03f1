"""Links, which carry callbacks between an asyncio loop and a trio run."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol, final

Callback = Callable[[], object]


class Mode(StrEnum):
    """Where trio runs.

    Attributes:
        THREAD: In a thread of its own. The program's loop continues while Muster decides.
        GUEST: In the program's loop. Nothing runs in another thread, but rounds delay the loop.
    """

    THREAD = "thread"
    GUEST = "guest"


class Link(Protocol):
    """Carries callbacks between the host and the trio side, in order in each direction."""

    async def start(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        """Run ``main`` in trio.

        Args:
            main: The function to run, in a copy of the caller's context.
            ended: Called in the host's loop when ``main`` has ended, with the error that ended
                the trio run itself, or None.
        """
        ...

    def to_trio(self, callback: Callback, /) -> None:
        """Schedule a callback on the trio side. Call this in the host's thread.

        Raises:
            trio.RunFinishedError: If the trio side has ended.
        """
        ...

    def to_host(self, callback: Callback, /) -> bool:
        """Schedule a callback in the host's loop. Call this on the trio side.

        Returns:
            False if the loop is closed.
        """
        ...

    async def end(self) -> BaseException | None:
        """Wait, after ``ended`` was called, until the trio run is completely finished.

        Returns:
            The error that has ended the run since then, or None.
        """
        ...


@final
class Lane:
    """Callbacks for another thread, which all share one wake-up until that thread serves them.

    Only one thread may put callbacks. Before the first call of :meth:`serve`, they do not wake
    the other thread.

    Args:
        wake: Schedules a callback in the other thread.
    """

    __slots__ = ("_callbacks", "_wake", "_woken")

    def __init__(self, wake: Callable[[Callback], object]) -> None:
        self._wake = wake
        self._callbacks: deque[Callback] = deque()
        self._woken = True

    def put(self, callback: Callback) -> None:
        """Schedule a callback.

        Raises:
            RuntimeError: If ``wake`` does, because the other thread has ended.
        """
        self._callbacks.append(callback)
        if not self._woken:
            self._woken = True
            try:
                self._wake(self.serve)
            except RuntimeError:
                self._woken = False
                raise

    def serve(self) -> None:
        """Call all callbacks that wait. Call this in the other thread."""
        # Reset the flag before the length is read: a callback that is appended afterwards must
        # cause a new wake-up.
        self._woken = False
        for _ in range(len(self._callbacks)):
            self._callbacks.popleft()()
