"""The scheduler, handles and observers of an asyncio program: mirrors of the objects of trio.

A mirror is an object whose methods call those of a trio object across the bridge. They take their
signatures, types and docstrings from trio. They differ in where they run, and return handles of
asyncio. Observers fetch decisions from the trio side in chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial, update_wrapper
from types import CoroutineType, TracebackType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar, final, overload

from typing_extensions import override

import muster
from muster._errors import ClosedSchedulerError
from muster.asyncio._bridge import Bridge, T, hold, run_in_host
from muster_core.decisions import Announced, Reason
from muster_core.errors import RefusedError
from muster_core.events import Event, Exit, Outcome
from muster_core.snapshots import Snapshot, Statistics

I = TypeVar("I")  # noqa: E741 - the inner object, of trio
I_co = TypeVar("I_co", covariant=True)
H = TypeVar("H")
P = ParamSpec("P")


class Mirror(Generic[I_co]):
    """An asyncio object that represents an object of trio.

    Args:
        bridge: The bridge to the trio side.
        inner: The object of trio.
    """

    def __init__(self, bridge: Bridge, inner: I_co) -> None:
        self._bridge = bridge
        self._inner = inner

    @override
    def __repr__(self) -> str:
        return repr(self._inner)


@overload
def bridged(
    method: Callable[Concatenate[I, P], Awaitable[T]],
) -> Callable[Concatenate[Mirror[I], P], CoroutineType[Any, Any, T]]: ...
@overload
def bridged(
    method: Callable[Concatenate[I, P], Awaitable[T]], handle: Callable[[Bridge, T], H]
) -> Callable[Concatenate[Mirror[I], P], CoroutineType[Any, Any, H]]: ...
def bridged(
    method: Callable[Concatenate[I, P], Awaitable[T]],
    handle: Callable[[Bridge, T], H] | None = None,
) -> Callable[..., Any]:
    """Create a method that calls a method of trio across the bridge.

    Args:
        method: The method of trio.
        handle: Creates the asyncio handle of the result; None returns the result as it is.
    """

    async def call(self: Mirror[I], /, *args: P.args, **kwargs: P.kwargs) -> T | H:
        bridge, inner = _parts(self)
        given = await bridge.call(partial(method, inner, *args, **kwargs))
        return given if handle is None else handle(bridge, given)

    return update_wrapper(call, method)


def direct(
    method: Callable[Concatenate[I, P], T], handle: Callable[[Bridge, T], H]
) -> Callable[Concatenate[Mirror[I], P], H]:
    """Create a method that calls a method of trio directly, as it neither waits nor changes state.

    Args:
        method: The method of trio.
        handle: Creates the asyncio handle of the result.
    """

    def give(self: Mirror[I], /, *args: P.args, **kwargs: P.kwargs) -> H:
        bridge, inner = _parts(self)
        return handle(bridge, method(inner, *args, **kwargs))

    return update_wrapper(give, method)


def documented_as(
    method: Callable[Concatenate[I, P], object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Mirror[I], P], T]]:
    """Decorate a method with the parameters and the docstring of a method of trio."""

    def named(function: Callable[..., T]) -> Callable[Concatenate[Mirror[I], P], T]:
        return update_wrapper(function, method)

    return named


def handles_of(handle: Callable[[Bridge, I], H]) -> Callable[[Bridge, Iterable[I]], tuple[H, ...]]:
    """Return a function that creates the handles of several results."""
    return lambda bridge, several: tuple(handle(bridge, one) for one in several)


def _parts(self: Mirror[I]) -> tuple[Bridge, I]:
    # The functions above become methods of Mirror's subclasses, so they may use its attributes.
    return self._bridge, self._inner  # pyright: ignore[reportPrivateUsage] - see above


@final
class AsyncioAllocation(Mirror[muster.TrioAllocation], muster.Allocation):
    """An allocation in asyncio: the same as any, but :meth:`running` yields nothing."""

    def __init__(self, bridge: Bridge, inner: muster.TrioAllocation) -> None:
        super().__init__(bridge, inner)
        muster.Allocation.__init__(
            self,
            app=inner.app,
            ask=inner.ask,
            node=inner.node,
            queue=inner.queue,
            resources=inner.resources,
            gang=inner.gang,
            number=inner.number,
            peers=inner.peers,
            step=inner.step,
            work=inner.work,
            kept=inner.kept,
            devices=inner.devices,
        )

    @property
    @override
    def ending(self) -> Reason | Literal["closing"] | None:
        return self._inner.ending

    @property
    @override
    def message(self) -> str | None:
        return self._inner.message

    @override
    async def release(
        self,
        outcome: Outcome | str = Outcome.COMPLETED,
        message: str | None = None,
        exited: Exit | None = None,
    ) -> bool:
        """Release the allocation: its work has ended; see :meth:`muster.Allocation.release`."""
        return await self._bridge.call(partial(self._inner.release, outcome, message, exited))

    @override
    async def ended(self) -> Reason:
        """Wait until the allocation has ended; see :meth:`muster.Allocation.ended`."""
        return await self._bridge.call(self._inner.ended)

    @override
    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Run the body of an ``async with`` block while the allocation lasts.

        If the allocation ends from outside, the body is cancelled, as by :func:`asyncio.timeout`.

        Raises:
            AllocationLostError: See :meth:`muster.Allocation.running`.
            AllocationEndedError: See :meth:`muster.Allocation.running`.
            ClosedSchedulerError: See :meth:`muster.Allocation.running`.
        """
        async with hold(self._bridge, self._inner.running):
            yield


@final
class Ask(Mirror[muster.Ask]):
    """The handle of an ask, like :class:`muster.Ask`.

    Attributes:
        app: The name of the application.
        name: The name of the ask.
    """

    def __init__(self, bridge: Bridge, inner: muster.Ask) -> None:
        super().__init__(bridge, inner)
        self.app: str = inner.app
        self.name: str = inner.name

    bound = bridged(muster.Ask.bound, AsyncioAllocation)
    remove = bridged(muster.Ask.remove)
    why = bridged(muster.Ask.why)


@final
class Application(Mirror[muster.Application]):
    """The handle of an application, like :class:`muster.Application`.

    Attributes:
        name: The name of the application.
    """

    def __init__(self, bridge: Bridge, inner: muster.Application) -> None:
        super().__init__(bridge, inner)
        self.name: str = inner.name

    add_ask = bridged(muster.Application.add_ask, Ask)
    add_asks = bridged(muster.Application.add_asks, handles_of(Ask))
    ask = direct(muster.Application.ask, Ask)
    remove = bridged(muster.Application.remove)


@final
class Gang(Mirror[muster.Gang]):
    """The handle of a gang, like :class:`muster.Gang`.

    Attributes:
        name: The name that the handle was created with.
    """

    def __init__(self, bridge: Bridge, inner: muster.Gang) -> None:
        super().__init__(bridge, inner)
        self.name: str = inner.name

    satisfied = bridged(muster.Gang.satisfied)
    remove = bridged(muster.Gang.remove)


@final
class Decisions:
    """An observer of the decisions of a scheduler, like :class:`muster.Decisions`.

    It receives the decisions that are announced from its creation on, and ends when the
    scheduler is closed; its remaining decisions can still be read then. Each fetch takes all
    decisions from the buffer, so up to one more buffer of them can wait here. Only one task may
    read it.

    Args:
        bridge: The bridge.
        inner: The observer of trio. Only the trio side uses it, until that side has ended.
    """

    def __init__(self, bridge: Bridge, inner: muster.Decisions) -> None:
        self._bridge = bridge
        self._inner = inner
        self._taken: deque[Announced] = deque()
        self._is_closed = False

    @property
    def missed(self) -> int:
        """How many decisions were lost because the buffer was full."""
        return self._inner.missed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Announced:
        if not self._taken:
            self._taken.extend(await self._fetch())
        if not self._taken:
            raise StopAsyncIteration
        return self._taken.popleft()

    async def take(self) -> Sequence[Announced]:
        """Wait for decisions, and return all that are there; an empty sequence at the end.

        Raises:
            LaggedError: If the buffer was full and ``lag`` is :attr:`muster.Lag.DROP`.
            Exception: What the filter ``where`` has raised.
        """
        if not self._taken:
            return await self._fetch()
        taken = tuple(self._taken)
        self._taken.clear()
        return taken

    async def _fetch(self) -> Sequence[Announced]:
        if self._is_closed:
            return ()
        taken: Sequence[Announced] | Exception | None = None
        with suppress(ClosedSchedulerError):
            taken = await self._bridge.call(self._take)
        if taken is None:
            # The inner observer keeps unread decisions after the trio side has ended. They are
            # taken here, and not in an `except`, so that no error gets a false context.
            await self._bridge.over.wait()
            taken = self._inner.take_now()
        if not isinstance(taken, Exception):
            return () if self._has_closed() else taken
        try:
            raise taken
        finally:
            del taken  # avoids a reference cycle through the traceback

    async def _take(self) -> Sequence[Announced] | Exception:
        """Take decisions on the trio side; return an error that ends the observer."""
        try:
            return await self._inner.take()
        except Exception as error:  # noqa: BLE001 - it is raised where the decisions are read
            return error

    def _has_closed(self) -> bool:
        """Return whether the observer was closed meanwhile."""
        return self._is_closed

    def close(self) -> None:
        """Stop observing; unread decisions are lost."""
        self._is_closed = True
        self._taken.clear()
        if self._bridge.over.is_set():
            self._inner.close()
        else:
            with suppress(ClosedSchedulerError):
                self._bridge.post(self._inner.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@final
class Scheduler(Mirror[muster.Scheduler]):
    """A running scheduler, like :class:`muster.Scheduler`; :func:`open_scheduler` creates it.

    Only tasks of the event loop in which it was opened may call the methods. If a task is
    cancelled during a call, the call is cancelled, too, and the task waits for its end. A call
    that was cancelled has done nothing. If it is too late to cancel a call, it returns its
    result, and the task is cancelled where it waits next.

    Functions that a program passes in (filters of decisions, examiners, journals that are not
    asynchronous) are called on the scheduler's side, with :attr:`Mode.THREAD` in another thread.
    """

    __repr__ = object.__repr__  # that of the inner one would name a class of trio

    configure = bridged(muster.Scheduler.configure)
    add_priority_class = bridged(muster.Scheduler.add_priority_class)
    set_usage = bridged(muster.Scheduler.set_usage)

    add_node = bridged(muster.Scheduler.add_node)
    update_node = bridged(muster.Scheduler.update_node)
    remove_node = bridged(muster.Scheduler.remove_node)

    add_app = bridged(muster.Scheduler.add_app, Application)
    remove_app = bridged(muster.Scheduler.remove_app)
    add_ask = bridged(muster.Scheduler.add_ask, Ask)
    add_asks = bridged(muster.Scheduler.add_asks, handles_of(Ask))
    remove_ask = bridged(muster.Scheduler.remove_ask)
    release = bridged(muster.Scheduler.release)

    add_gang = bridged(muster.Scheduler.add_gang, Gang)
    remove_gang = bridged(muster.Scheduler.remove_gang)

    apply = bridged(muster.Scheduler.apply)
    delete = bridged(muster.Scheduler.delete)
    submit = bridged(muster.Scheduler.submit)

    @documented_as(muster.Scheduler.submit_many)
    async def submit_many(
        self, events: Iterable[Event | Mapping[str, object]]
    ) -> tuple[RefusedError | None, ...]:
        """Read the iterable of events in the caller's task, not on the trio side."""
        return await self._bridge.call(partial(self._inner.submit_many, tuple(events)))

    app = direct(muster.Scheduler.app, Application)
    ask = direct(muster.Scheduler.ask, Ask)
    gang = direct(muster.Scheduler.gang, Gang)
    asks = bridged(muster.Scheduler.asks, handles_of(Ask))

    @documented_as(muster.Scheduler.decisions)
    def decisions(
        self,
        *,
        where: Callable[[Announced], bool] | None = None,
        **others: Any,  # noqa: ANN401 - the signature of the mirrored method gives their types
    ) -> Decisions:
        """Run the filter with the context variables of the caller."""
        context = copy_context()
        inner = self._inner.decisions(
            where=None if where is None else lambda announced: context.run(where, announced),
            **others,
        )
        return Decisions(self._bridge, inner)

    settle = bridged(muster.Scheduler.settle)
    checkpoint = bridged(muster.Scheduler.checkpoint)
    snapshot = bridged(muster.Scheduler.snapshot)
    examine = bridged(muster.Scheduler.examine)

    @documented_as(muster.Scheduler.statistics)
    def statistics(self) -> Statistics:
        """Read the statistics directly, without a call."""
        return self._inner.statistics()


@final
class HostScheduler:
    """The scheduler, which is called in the program's loop.

    Args:
        bridge: The bridge to what runs the work.
        scheduler: The scheduler, which has a bridge of its own.
    """

    def __init__(self, bridge: Bridge, scheduler: Scheduler) -> None:
        self._bridge = bridge
        self._scheduler = scheduler
        self._context = copy_context()

    async def submit_many(self, events: Iterable[Event], /) -> tuple[RefusedError | None, ...]:
        """Submit events."""
        return await self._call(partial(self._scheduler.submit_many, events))

    async def snapshot(self) -> Snapshot:
        """Return the state."""
        return await self._call(self._scheduler.snapshot)

    async def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        given: list[T] = []

        async def call() -> None:
            given.append(await function())

        await run_in_host(self._bridge, call, self._context, "muster nodes")
        return given[0]
