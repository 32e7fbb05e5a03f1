"""The thread of a store, which waits for calls while the store is open.

``trio.to_thread`` would take a place at a limiter and start or find a thread for each call. One call
of a caller waits for that twice, so this thread is kept at hand instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple, final

import outcome
import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from trio.lowlevel import RaiseCancelT

R = TypeVar("R")
A = TypeVarTuple("A")


class Threaded(Protocol):
    """Runs a call in the thread of the store."""

    def __call__(self, call: Callable[[*A], R], /, *args: *A) -> Awaitable[R]:
        """Return the result of the call."""
        ...


@final
class StoreThread:
    """A thread that carries out calls one by one, in the order in which they came."""

    def __init__(self) -> None:
        self._soon = trio.lowlevel.current_trio_token().run_sync_soon
        # It has no bound of its own: each waiting task has at most one call in it.
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Nothing waits for it at the end of the process, should trio itself have failed before.
        self._thread = threading.Thread(target=self._work, name="muster store", daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[*A], R], /, *args: *A) -> R:
        """Run a call in the thread.

        A task that is cancelled before has not made the call; afterwards it waits for the result.

        Raises:
            Exception: What the call raises.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        task = trio.lowlevel.current_task()
        results: list[outcome.Outcome[R]] = []

        def work() -> None:
            results.append(outcome.capture(call, *args))
            with suppress(trio.RunFinishedError):  # Trio itself has failed; nobody waits any more.
                self._soon(trio.lowlevel.reschedule, task)

        self._calls.put(work)
        await trio.lowlevel.wait_task_rescheduled(_go_on)
        return results[0].unwrap()

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            work()
            del work  # Otherwise what it holds would stay until the next call.

    def end(self) -> None:
        """End the thread after the calls that wait."""
        self._calls.put(None)


def _go_on(_: RaiseCancelT) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


@asynccontextmanager
async def store_thread() -> AsyncGenerator[Threaded]:
    """Keep a thread for the time of a block; yield the function that runs calls in it."""
    thread = StoreThread()
    try:
        yield thread.run
    finally:
        thread.end()
