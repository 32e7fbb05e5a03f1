"""The handles of applications, asks and gangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import trio
from typing_extensions import override

from muster._errors import (
    AskFailedError,
    AskParkedError,
    AskRemovedError,
    BindFailedError,
    GangRemovedError,
    GangTimedOutError,
)
from muster._runtime.clients.calls import TrackAsk, TrackGang, Why, WithdrawAsk
from muster._runtime.clients.client import Client, raise_closed
from muster._runtime.clients.tracking import AskStatus, Closed, Held, TrackedAsk
from muster._runtime.pace import PIECE, slices
from muster._surface.ask_options import check_options
from muster._surface.conversion import Amounts, event_of, gang_name
from muster._surface.foretelling import foretold_beside
from muster._surface.trio_allocation import TrioAllocation
from muster_core.decisions import Reason
from muster_core.reasons import Explanation
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from muster._surface.ask_options import AskOptions

# Looking up a member of an enum takes ten times as long.
_BOUND: Final = AskPlace.BOUND
_COMPLETED: Final = Reason.COMPLETED
_FAILED: Final = Reason.FAILED
_PARKED: Final = AskPlace.PARKED


@final
class Application:
    """The handle of an application.

    Attributes:
        name: The name of the application.
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
        """Add an ask; see :meth:`muster.Scheduler.add_ask`."""
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
        """Add several equal asks; see :meth:`muster.Scheduler.add_asks`."""
        check_options("add_asks", options)
        return await self._ask(ask=ask, resources=resources, count=count, **options)

    async def _ask(self, **fields: object) -> tuple[Ask, ...]:
        event = event_of("add_ask", app=self.name, **fields)
        entered = await self._client.enter(event, track=True)
        made: list[Ask] = []
        pace = self._client.pace
        for piece in slices(entered.asks):
            made += [Ask(self._client, one.app, one.name, one) for one in piece]
            if len(made) > PIECE and pace.is_up():  # The asks exist: the caller must get them.
                await pace.rest(shield=True)
        return tuple(made)

    def ask(self, name: str) -> Ask:
        """Return the handle of one of its asks."""
        return Ask(self._client, self.name, name)

    async def remove(self) -> None:
        """Remove the application with all its asks and allocations.

        Raises:
            RefusedError: If there is no such application.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(event_of("remove_app", app=self.name))

    @override
    def __repr__(self) -> str:
        return f"<Application {self.name}>"


@final
class Ask:
    """The handle of an ask.

    Attributes:
        app: The name of the application.
        name: The name of the ask.
    """

    def __init__(
        self, client: Client, app: str, name: str, tracked: TrackedAsk | None = None
    ) -> None:
        self._client = client
        self._tracked = tracked
        self.app = app
        self.name = name

    async def bound(self) -> TrioAllocation:
        """Wait until the ask is bound; with a binder, also until its work has started.

        After a preemption this waits for the next allocation. For an ask that has completed
        meanwhile, it returns the last allocation.

        Raises:
            RefusedError: If there is no such ask.
            AskRemovedError: If the ask was removed, or its application was.
            BindFailedError: If the ask was removed because its work could not be started.
            AskFailedError: If its work has failed, and it had no retry left.
            AskParkedError: If the gang of the ask has timed out.
            ClosedSchedulerError: If the scheduler is closed.
        """
        tracked = await self._track()
        while True:
            status = tracked.status.value
            if isinstance(status.place, Closed):
                await raise_closed()
            held = self._held(tracked, status)
            if held is not None:
                return TrioAllocation(self._client, tracked, held)
            await tracked.status.changed()

    async def _track(self) -> TrackedAsk:
        if self._tracked is None:
            call = TrackAsk(self.app, self.name)
            self._tracked = await self._client.call(call, call.answer)
        else:
            await trio.lowlevel.checkpoint()
        return self._tracked

    def _held(self, tracked: TrackedAsk, status: AskStatus) -> Held | None:
        """Return the allocation that :meth:`bound` returns, or None if it must wait.

        Raises:
            AskRemovedError: If the ask was removed.
            BindFailedError: If the ask was removed because its work could not be started.
            AskFailedError: If its work has failed, and it had no retry left.
            AskParkedError: If the gang of the ask has timed out.
        """
        name = f"ask {self.app}/{self.name}"
        place = status.place
        if place is _BOUND:
            return status.held if status.started else None
        if place is _PARKED:
            msg = f"{name} is parked: its gang {tracked.gang} has timed out"
            raise AskParkedError(msg)
        if place is not None:
            return None
        if status.held is not None and status.held.ended.value is _COMPLETED:
            return status.held
        _check_not_failed(name, status.held)
        if status.is_given_up:
            msg = f"{name} was removed: its work could not be started, {status.failures} times in a row"
            raise BindFailedError(msg, status.failures) from status.error
        msg = f"{name} was removed"
        raise AskRemovedError(msg)

    async def remove(self) -> None:
        """Remove the ask, which must not be bound.

        Raises:
            RefusedError: If the ask is bound, or there is no such ask.
            ClosedSchedulerError: If the scheduler is closed.
        """
        if self._tracked is None:
            await self._client.enter(event_of("remove_ask", app=self.app, ask=self.name))
        else:
            call = WithdrawAsk(self._tracked)
            await self._client.call(call, call.answer)

    async def why(self, *, forecast: bool = False) -> Explanation | None:
        """Return why the ask is not running.

        Args:
            forecast: Whether to find out on a copy of the state when it starts, in a thread, which
                may take seconds; see :class:`muster.Forecast`.

        Returns:
            All reasons that hold at the end of the last batch, with the dominant reason first;
            None if the ask is bound, or there is no such ask. As text it is the dominant reason:
            a code, a colon and a sentence.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        if self._tracked is not None and self._tracked.status.value.place is None:
            await trio.lowlevel.checkpoint()
            return None  # The ask is removed; another ask may have its name by now.
        call = Why(self.app, self.name, forecast)
        return await foretold_beside(await self._client.call(call, call.answer))

    @override
    def __repr__(self) -> str:
        return f"<Ask {self.app}/{self.name}>"


def _check_not_failed(name: str, held: Held | None) -> None:
    """Check the last allocation of an ask that is gone.

    Raises:
        AskFailedError: If the ask has gone because its work had failed.
    """
    if held is None or not held.for_good or held.ended.value is not _FAILED:
        return
    msg = f"{name} has failed" if held.message is None else f"{name} has failed: {held.message}"
    raise AskFailedError(msg, held.message) from held.error


@final
class Gang:
    """The handle of a gang.

    Attributes:
        name: The name that the handle was created with.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    async def satisfied(self) -> None:
        """Wait until the gang is satisfied: ``min_member`` of its members are bound.

        Raises:
            GangTimedOutError: If the gang has timed out.
            GangRemovedError: If the gang is not defined, or no longer defined.
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
                msg = f"gang {self.name!r} has timed out: not enough members got a node in time"
                raise GangTimedOutError(msg)
            await watched.changed()

    async def remove(self) -> None:
        """Remove the definition of the gang; its members stay.

        Raises:
            RefusedError: If the gang is not defined.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(event_of("remove_gang", gang=self.name))

    @override
    def __repr__(self) -> str:
        return f"<Gang {self.name}>"
