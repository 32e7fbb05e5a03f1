"""Links, which carry callbacks between asyncio and trio, and waits that keep cancellations.

Trio runs in a thread of its own, or as a guest of the asyncio loop. It allows one guest run for
each thread, so all schedulers of a loop share a run. It begins with the first scheduler and ends
with the last.

asyncio delivers a cancellation once. Code that catches it and continues must deliver it again,
or a timeout gets lost. A task counts its requests to cancel (:meth:`asyncio.Task.cancelling`),
and blocks like :func:`asyncio.timeout` take back their own requests. So code that delivers a
cancellation again must not change this count.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from enum import StrEnum
from functools import partial
from threading import Thread
from time import perf_counter, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, final
from weakref import WeakKeyDictionary

import trio
from typing_extensions import override

if TYPE_CHECKING:
    from outcome import Outcome


@final
class DeferredCancellation:
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
class CompletionEvent(asyncio.Event):
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

    async def wait_out(self, on_cancel: Callable[[], object]) -> DeferredCancellation | None:
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
        interruption: DeferredCancellation | None = None
        while not self.is_set():
            try:
                await self.wait()
            except asyncio.CancelledError as error:
                if interruption is None:
                    # A request from before this wait is in `before` already.
                    now = 0 if task is None else task.cancelling()
                    interruption = DeferredCancellation(error, task, min(before, now - 1))
                    if not self.is_set():
                        on_cancel()
            except BaseException:  # The coroutine is closed, so no task waits any more.
                on_cancel()
                raise
        return interruption


@final
class BlockCanceller:
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
        self.outside: DeferredCancellation | None = None

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
            self.outside = DeferredCancellation(error, self._task, min(self._before, requests - 1))
        return True


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
class CallbackQueue:
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


@final
class _GuestRun:
    """The guest run of a loop.

    Attributes:
        users: How many schedulers use it.
        error: The error that has ended it, or None.
        over: Set when it has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.users = 0
        self.error: BaseException | None = None
        self._loop = loop
        self.over = CompletionEvent()
        self._stop = trio.Event()
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )

    async def _main(self) -> None:
        try:
            await self._stop.wait()
        except BaseException as error:  # Ctrl-C, where the host leaves its handling to trio
            self.error = error
            raise

    def _done(self, outcome: Outcome[None]) -> None:
        try:
            outcome.unwrap()
        except BaseException as error:  # noqa: BLE001 - it is raised in the hosts' blocks
            self.error = error
        _GUEST_RUNS.pop(self._loop, None)
        self.over.set()

    def stop(self) -> None:
        """Begin to end the run."""
        if not self.over.is_set():
            self._stop.set()


_GUEST_RUNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _GuestRun]] = WeakKeyDictionary()


@final
class GuestLink(Link):
    """Trio in the host's loop: each side calls the other's callbacks at once.

    Args:
        loop: The host's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._run: _GuestRun | None = None
        self._over = False

    @override
    async def start(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        while (run := _GUEST_RUNS.get(self._loop)) is not None and run.users == 0:
            await run.over.wait()
        if run is None:
            run = _GUEST_RUNS[self._loop] = _GuestRun(self._loop)

        async def serve() -> None:
            try:
                await main()
            finally:
                self._over = True
                ended(run.error)

        trio.lowlevel.spawn_system_task(serve, name="muster", context=copy_context())
        run.users += 1
        self._run = run

    @override
    def to_trio(self, callback: Callback, /) -> None:
        if self._over:
            msg = "the trio side is over"
            raise trio.RunFinishedError(msg)
        callback()

    @override
    def to_host(self, callback: Callback, /) -> bool:
        callback()
        return True

    @override
    async def end(self) -> BaseException | None:
        run = self._run
        if run is None:
            return None
        run.users -= 1
        if run.users:
            return None
        run.stop()
        interruption = await run.over.wait_out(lambda: None)
        if interruption is not None:
            interruption.defer()
        return run.error


BUSY_S: Final = 0.001
"""How long trio works before it releases the interpreter for the host, in seconds."""

PAUSE_S: Final = 0.000_05
"""How long trio releases the interpreter, in seconds: enough for the other thread to wake up."""


@final
class InterpreterPauses(trio.abc.Instrument):
    """Releases the interpreter for the host's thread during long rounds.

    Trio releases it at each check for I/O, but takes it back before another thread has woken up.
    Then the host waits for :func:`sys.getswitchinterval` at each wake-up. Short pauses halve the
    lag of its loop. A single call ends before the first pause.

    Args:
        pause: Releases the interpreter for a number of seconds.
    """

    def __init__(self, pause: Callable[[float], object] = sleep) -> None:
        self._pause = pause
        #: Since when trio has had work without a break; None while it has none.
        self._since: float | None = None

    @override
    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._since = None
            return
        now = perf_counter()
        if self._since is None:
            self._since = now
        elif now - self._since >= BUSY_S:
            self._pause(PAUSE_S)
            self._since = perf_counter()


@final
class ThreadLink(Link):
    """Trio in a thread of its own; it does not touch signal handlers.

    Args:
        loop: The host's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._inbox = CallbackQueue(self._wake_trio)
        self._outbox = CallbackQueue(loop.call_soon_threadsafe)
        self._outbox.serve()  # the host can be woken from the beginning
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread: Thread | None = None

    @override
    async def start(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        # A daemon, so that the program can end even if the host's loop stops with the block
        # still open.
        context = copy_context()
        run = partial(self._run, main, ended)
        self._thread = Thread(target=context.run, args=(run,), name="muster", daemon=True)
        self._thread.start()

    def _run(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        error: BaseException | None = None
        try:
            trio.run(self._main, main, instruments=[InterpreterPauses()])
        except BaseException as caught:  # noqa: BLE001 - it is raised in the host's block
            error = caught
        self.to_host(partial(ended, error))

    async def _main(self, main: Callable[[], Awaitable[None]]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._inbox.serve()
        await main()

    def _wake_trio(self, callback: Callback) -> None:
        # The lane wakes no task before `_main` has served it for the first time.
        assert self._token is not None
        self._token.run_sync_soon(callback)

    @override
    def to_trio(self, callback: Callback, /) -> None:
        self._inbox.put(callback)

    @override
    def to_host(self, callback: Callback, /) -> bool:
        try:
            self._outbox.put(callback)
        except RuntimeError:  # the loop is closed
            return False
        return True

    @override
    async def end(self) -> BaseException | None:
        # The thread has called `ended` already, so it ends at once.
        if self._thread is not None:
            self._thread.join()
        return None
