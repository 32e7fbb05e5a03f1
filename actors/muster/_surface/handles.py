"""Handles: an application, an ask, an allocation, a gang, as a program holds them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, NoReturn, final

import trio
from typing_extensions import override

from muster._errors import (
    AllocationEndedError,
    AllocationLostError,
    AskParkedError,
    AskRemovedError,
    BindFailedError,
    ClosedSchedulerError,
    GangRemovedError,
    GangTimedOutError,
    PreemptedError,
)
from muster._runtime.clients.calls import EndAllocation, TrackAsk, TrackGang, Why, WithdrawAsk
from muster._runtime.clients.client import Desk
from muster._runtime.clients.tracking import AskStatus, Closed, Held, TrackedAsk
from muster._runtime.entry import closed
from muster._surface.conversion import Amounts, event_of, gang_name
from muster_core.decisions import Reason
from muster_core.reasons import Explanation
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace

_FOR_OTHERS: Final = frozenset({Reason.PREEMPTED, Reason.RECLAIMED})
_FOR_GOOD: Final = frozenset({Reason.COMPLETED, Reason.REMOVED})


async def _closed() -> NoReturn:
    """Tell a caller that the scheduler is closed, unless it is cancelled as well.

    Raises:
        ClosedSchedulerError: Always.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    raise closed()


async def ask_for(desk: Desk, **fields: object) -> tuple[Ask, ...]:
    """Ask for resources, as ``add_ask`` in a feed does.

    Raises:
        EventError: If a value is one that it can never be.
        RefusedError: If it makes no sense now.
        ClosedSchedulerError: If the scheduler is closed.
    """
    entered = await desk.enter(event_of("add_ask", **fields), track=True)
    return tuple(Ask(desk, one.app, one.name, one) for one in entered.asks)


@final
class Application:
    """An application.

    Attributes:
        name: Its name.
    """

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk = desk
        self.name = name

    async def add_ask(
        self,
        ask: str,
        resources: Amounts,
        *,
        priority: int | None = None,
        priority_class: str | None = None,
        gang: str | None = None,
        annotations: Mapping[str, str] | None = None,
        node: str | None = None,
        selector: Mapping[str, str] | None = None,
        run_for: float | str | None = None,
    ) -> Ask:
        """Ask for resources; see :meth:`muster.Scheduler.add_ask`."""
        (made,) = await ask_for(
            self._desk,
            app=self.name,
            ask=ask,
            resources=resources,
            priority=priority,
            priority_class=priority_class,
            gang=gang,
            annotations=annotations,
            node=node,
            selector=selector,
            run_for=run_for,
        )
        return made

    async def add_asks(
        self,
        ask: str,
        resources: Amounts,
        count: int,
        *,
        priority: int | None = None,
        priority_class: str | None = None,
        gang: str | None = None,
        annotations: Mapping[str, str] | None = None,
        node: str | None = None,
        selector: Mapping[str, str] | None = None,
        run_for: float | str | None = None,
    ) -> tuple[Ask, ...]:
        """Ask for the same several times; see :meth:`muster.Scheduler.add_asks`."""
        return await ask_for(
            self._desk,
            app=self.name,
            ask=ask,
            resources=resources,
            count=count,
            priority=priority,
            priority_class=priority_class,
            gang=gang,
            annotations=annotations,
            node=node,
            selector=selector,
            run_for=run_for,
        )

    def ask(self, name: str) -> Ask:
        """Give the handle of one of its asks."""
        return Ask(self._desk, self.name, name)

    async def remove(self) -> None:
        """Remove it, with everything that it asked for and holds.

        Raises:
            RefusedError: If it is gone already.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(event_of("remove_app", app=self.name))

    @override
    def __repr__(self) -> str:
        return f"<Application {self.name}>"


@final
class Ask:
    """An ask.

    Attributes:
        app: The name of its application.
        name: Its name.
    """

    def __init__(self, desk: Desk, app: str, name: str, tracked: TrackedAsk | None = None) -> None:
        self._desk = desk
        self._tracked = tracked
        self.app = app
        self.name = name

    async def bound(self) -> Allocation:
        """Wait until it is bound; with a binder, until its work has started as well.

        After a preemption this waits for the next allocation. Of an ask that has completed
        meanwhile it gives the last one.

        Raises:
            RefusedError: If there is no such ask.
            AskRemovedError: If it was removed, or its application was.
            BindFailedError: If it was removed because its work could not be started.
            AskParkedError: If it is not tried, as its gang has timed out.
            ClosedSchedulerError: If the scheduler is closed.
        """
        tracked = await self._track()
        while True:
            status = tracked.status.value
            if isinstance(status.place, Closed):
                await _closed()
            held = self._held(tracked, status)
            if held is not None:
                return Allocation(self._desk, tracked, held)
            await tracked.status.changed()

    async def _track(self) -> TrackedAsk:
        if self._tracked is None:
            call = TrackAsk(self.app, self.name)
            self._tracked = await self._desk.call(call, call.answer)
        else:
            await trio.lowlevel.checkpoint()
        return self._tracked

    def _held(self, tracked: TrackedAsk, status: AskStatus) -> Held | None:
        """Give its allocation, or None if it is to be waited for."""
        name = f"ask {self.app}/{self.name}"
        match status.place:
            case AskPlace.PARKED:
                msg = f"{name} is parked: its gang {tracked.gang} has timed out"
                raise AskParkedError(msg)
            case AskPlace.BOUND:
                return status.held if status.started else None
            case None:
                if status.held is not None and status.held.ended.value is Reason.COMPLETED:
                    return status.held
                if status.is_given_up:
                    msg = f"{name} was removed: its work failed {status.failures} times in a row"
                    raise BindFailedError(msg, status.failures) from status.error
                msg = f"{name} was removed"
                raise AskRemovedError(msg)
            case _:
                return None

    async def remove(self) -> None:
        """Withdraw it; it must not be bound.

        Raises:
            RefusedError: If it is bound, or there is no such ask.
            ClosedSchedulerError: If the scheduler is closed.
        """
        if self._tracked is None:
            await self._desk.enter(event_of("remove_ask", app=self.app, ask=self.name))
        else:
            call = WithdrawAsk(self._tracked)
            await self._desk.call(call, call.answer)

    async def why(self) -> Explanation | None:
        """Say why it is not running.

        Returns:
            All reasons that hold at the end of the last batch, the one that matters most first;
            None if it is bound, or there is no such ask. As text it is the first reason: a
            code, a colon and a sentence.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        if self._tracked is not None and self._tracked.status.value.place is None:
            await trio.lowlevel.checkpoint()
            return None  # It is gone: of that name there may be another one.
        call = Why(self.app, self.name)
        return await self._desk.call(call, call.answer)

    @override
    def __repr__(self) -> str:
        return f"<Ask {self.app}/{self.name}>"


@final
class Allocation:
    """What an ask holds of a node, for as long as it is bound there.

    Attributes:
        app: The name of the application.
        ask: The name of the ask.
        node: The name of the node.
        queue: The path of the queue of the application.
        resources: What is held, in base units.
        gang: The full name of the gang of the ask, or None.
    """

    def __init__(self, desk: Desk, tracked: TrackedAsk, held: Held) -> None:
        self._desk = desk
        self._tracked = tracked
        self._held = held
        #: How often its holder has given it back, or is about to; who need not be told then.
        self._releases = 0
        #: What ends each body of :meth:`running`.
        self._bodies: list[Callable[[Reason | Closed | None], None]] = []
        self.app: str = tracked.app
        self.ask: str = tracked.name
        self.node: str = held.node
        self.queue: str = tracked.queue
        self.resources: Resources = tracked.resources
        self.gang: str | None = tracked.gang

    async def release(self) -> bool:
        """Give back what is held: the work has finished, and the ask is gone.

        A body of :meth:`running` of this handle goes on; who wants to stop it cancels its
        scope, or releases by name.

        Returns:
            False if the allocation was over already; then nothing is done, not even to
            another allocation that the ask may have by now.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        self._releases += 1
        try:
            return await self._end()
        except BaseException:
            # It was not done. What its bodies were not told meanwhile, they are told now.
            self._releases -= 1
            for cut_short in self._bodies:
                cut_short(self._held.ended.value)
            raise

    async def _end(self) -> bool:
        call = EndAllocation(self._tracked, self._held)
        return await self._desk.call(call, call.answer)

    async def ended(self) -> Reason:
        """Wait until the allocation is over.

        Returns:
            Why. After all reasons but ``completed`` and ``removed`` the ask is pending again.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        await trio.lowlevel.checkpoint()
        while True:
            match self._held.ended.value:
                case None:
                    await self._held.ended.changed()
                case Closed():
                    await _closed()
                case reason:
                    return reason

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[trio.CancelScope, None]:
        """Do the work in the body, as long as the allocation lasts.

        The body is cancelled when the allocation ends from outside. When the body ends, or
        is cancelled otherwise, the allocation is released. If it was lost before that, this
        raises even if the body came to its end: the ask is pending again.

        Yields:
            The scope that is cancelled.

        Raises:
            AllocationLostError: If the allocation was lost; the ask is pending again, and
                :meth:`Ask.bound` gives its next allocation. :class:`PreemptedError` if others
                needed the node.
            AllocationEndedError: If the body was cut short for another reason: the ask has
                completed, or was removed.
            ClosedSchedulerError: If it was cut short because the scheduler was closed.
        """
        ended = self._held.ended
        #: Why the body is cut short, if it is.
        ends: list[Reason | Closed] = []
        scope = trio.CancelScope()
        is_over = False

        def cut_short(end: Reason | Closed | None) -> None:
            if end is not None and not self._releases and not is_over:
                ends.append(end)
                scope.cancel()

        with scope, ended.heard_by(cut_short):
            if ended.value is not None:
                ends.append(ended.value)
                scope.cancel()
            self._bodies.append(cut_short)
            try:
                await trio.lowlevel.checkpoint()
                yield scope
            finally:
                is_over = True
                self._bodies.remove(cut_short)
                if ended.value is None:
                    with trio.CancelScope(shield=True), suppress(ClosedSchedulerError):
                        await self._end()
        if ends and (scope.cancelled_caught or self._is_lost(ends[0])):
            raise self._cut_short(ends[0])

    @staticmethod
    def _is_lost(end: Reason | Closed) -> bool:
        """Say whether the ask is not done, however far its body came."""
        return isinstance(end, Reason) and end not in _FOR_GOOD

    def _cut_short(self, end: Reason | Closed) -> Exception:
        if isinstance(end, Closed):
            return closed()
        msg = f"the allocation of {self.app}/{self.ask} on {self.node} ended: {end.value}"
        if end in _FOR_OTHERS:
            return PreemptedError(msg, end)
        return (AllocationEndedError if end in _FOR_GOOD else AllocationLostError)(msg, end)

    @override
    def __repr__(self) -> str:
        return f"<Allocation {self.app}/{self.ask} on {self.node}>"


@final
class Gang:
    """A gang.

    Attributes:
        name: Its name as it was given.
    """

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk = desk
        self.name = name

    async def satisfied(self) -> None:
        """Wait until it is satisfied: all that it needs at the least is bound.

        Raises:
            GangTimedOutError: If it has waited too long.
            GangRemovedError: If it is not defined, or no longer.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = TrackGang(gang_name(self.name))
        watched = await self._desk.call(call, call.answer)
        before = watched.value.times
        while not (watched.value.satisfied or watched.value.times > before):
            status = watched.value
            if status.closed:
                await _closed()
            if not status.defined:
                msg = f"gang {self.name!r} is not defined"
                raise GangRemovedError(msg)
            if status.timed_out:
                msg = f"gang {self.name!r} has timed out: not all it needs had room in time"
                raise GangTimedOutError(msg)
            await watched.changed()

    async def remove(self) -> None:
        """Let it be defined no longer; its members stay.

        Raises:
            RefusedError: If it is not defined.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(event_of("remove_gang", gang=self.name))

    @override
    def __repr__(self) -> str:
        return f"<Gang {self.name}>"
