"""Handles: an application, an ask, a gang, as a program holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import trio
from typing_extensions import override

from muster._errors import (
    AskParkedError,
    AskRemovedError,
    BindFailedError,
    GangRemovedError,
    GangTimedOutError,
)
from muster._runtime.clients.calls import TrackAsk, TrackGang, Why, WithdrawAsk
from muster._runtime.clients.client import Client, raise_closed
from muster._runtime.clients.tracking import AskStatus, Closed, Held, TrackedAsk
from muster._surface.allocation import Allocation
from muster._surface.ask_options import check_options
from muster._surface.conversion import Amounts, event_of, gang_name
from muster_core.decisions import Reason
from muster_core.reasons import Explanation
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from muster._surface.ask_options import AskOptions


@final
class Application:
    """An application.

    Attributes:
        name: Its name.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    async def add_ask(
        self,
        ask: str,
        resources: Amounts,
        **options: Unpack[AskOptions],
    ) -> Ask:
        """Ask for resources; see :meth:`muster.Scheduler.add_ask`."""
        check_options("add_ask", options)
        (made,) = await self._ask(ask=ask, resources=resources, **options)
        return made

    async def add_asks(
        self,
        ask: str,
        resources: Amounts,
        count: int,
        **options: Unpack[AskOptions],
    ) -> tuple[Ask, ...]:
        """Ask for the same several times; see :meth:`muster.Scheduler.add_asks`."""
        check_options("add_asks", options)
        return await self._ask(ask=ask, resources=resources, count=count, **options)

    async def _ask(self, **fields: object) -> tuple[Ask, ...]:
        event = event_of("add_ask", app=self.name, **fields)
        entered = await self._client.enter(event, track=True)
        return tuple(Ask(self._client, one.app, one.name, one) for one in entered.asks)

    def ask(self, name: str) -> Ask:
        """Give the handle of one of its asks."""
        return Ask(self._client, self.name, name)

    async def remove(self) -> None:
        """Remove it, with everything that it asked for and holds.

        Raises:
            RefusedError: If it is gone already.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(event_of("remove_app", app=self.name))

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

    def __init__(
        self, client: Client, app: str, name: str, tracked: TrackedAsk | None = None
    ) -> None:
        self._client = client
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
                await raise_closed()
            held = self._held(tracked, status)
            if held is not None:
                return Allocation(self._client, tracked, held)
            await tracked.status.changed()

    async def _track(self) -> TrackedAsk:
        if self._tracked is None:
            call = TrackAsk(self.app, self.name)
            self._tracked = await self._client.call(call, call.answer)
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
            await self._client.enter(event_of("remove_ask", app=self.app, ask=self.name))
        else:
            call = WithdrawAsk(self._tracked)
            await self._client.call(call, call.answer)

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
        return await self._client.call(call, call.answer)

    @override
    def __repr__(self) -> str:
        return f"<Ask {self.app}/{self.name}>"


@final
class Gang:
    """A gang.

    Attributes:
        name: Its name as it was given.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    async def satisfied(self) -> None:
        """Wait until it is satisfied: all that it needs at the least is bound.

        Raises:
            GangTimedOutError: If it has waited too long.
            GangRemovedError: If it is not defined, or no longer.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = TrackGang(gang_name(self.name))
        watched = await self._client.call(call, call.answer)
        before = watched.value.times
        while not (watched.value.satisfied or watched.value.times > before):
            status = watched.value
            if status.closed:
                await raise_closed()
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
        await self._client.enter(event_of("remove_gang", gang=self.name))

    @override
    def __repr__(self) -> str:
        return f"<Gang {self.name}>"
