"""The two ways between an asyncio loop and a trio run."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol, final

Callback = Callable[[], object]


class Mode(StrEnum):
    """Where trio runs.

    Attributes:
        THREAD: In a thread of its own. The host's loop goes on while decisions are made.
        GUEST: In the host's loop. Nothing runs in another thread, but rounds delay the loop.
    """

    THREAD = "thread"
    GUEST = "guest"


class Link(Protocol):
    """Carries callbacks from one side to the other; in order, each way."""

    async def start(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        """Run ``main`` in trio.

        Args:
            main: What to run, in a copy of the caller's context.
            ended: Called in the host's loop when it is over, with what broke the run itself.
        """
        ...

    def to_trio(self, callback: Callback, /) -> None:
        """Have something called on the trio side, soon. To be used in the host's thread.

        Raises:
            trio.RunFinishedError: If that side is over.
        """
        ...

    def to_host(self, callback: Callback, /) -> bool:
        """Have something called in the host's loop, soon. To be used on the trio side.

        Returns:
            False if there is no such loop any more.
        """
        ...

    async def end(self) -> BaseException | None:
        """Wait, after ``ended`` was called, until nothing is left of it.

        Returns:
            What has broken the run since then.
        """
        ...


@final
class Lane:
    """Callbacks on their way into another thread: one waking for all that come before it.

    Only one thread may put into it. Before :meth:`serve` was called for the first time, nobody
    is woken.

    Args:
        wake: Has a callback called in the other thread.
    """

    __slots__ = ("_callbacks", "_wake", "_woken")

    def __init__(self, wake: Callable[[Callback], object]) -> None:
        self._wake = wake
        self._callbacks: deque[Callback] = deque()
        self._woken = True

    def put(self, callback: Callback) -> None:
        """Have something called.

        Raises:
            RuntimeError: As ``wake`` does, if nobody is there.
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
        """Call all that has come. To be called in the other thread."""
        # First this, then the look at what is there: what is appended after the look finds
        # that nobody is on the way, and wakes again.
        self._woken = False
        for _ in range(len(self._callbacks)):
            self._callbacks.popleft()()
