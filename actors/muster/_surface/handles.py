"""The handles of applications, asks and gangs.

The optional arguments of an ask are declared once, for all methods that add asks. When an ask
starts is found out on a copy of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict, final

import attrs
import trio
from typing_extensions import Unpack, override

from muster._errors import (
    AskFailedError,
    AskParkedError,
    AskRemovedError,
    BindFailedError,
    GangRemovedError,
    GangTimedOutError,
)
from muster._runtime.batches import Batches
from muster._runtime.calls import Client, WithdrawAsk, raise_closed
from muster._runtime.clock import PIECE, slices
from muster._runtime.observers import Watched
from muster._runtime.requests import Explained
from muster._runtime.tracking import (
    AllocationStatus,
    AskStatus,
    Closed,
    GangStatus,
    TrackedAsk,
    Tracker,
)
from muster._surface.allocation import TrioAllocation
from muster._surface.conversion import Amounts, event_of, gang_name
from muster_core.coordinator.plain_scheduler import forecast
from muster_core.decisions import GONE, Reason
from muster_core.reasons import Explanation
from muster_core.snapshots import AskPlace


class AskOptions(TypedDict, total=False):
    """The options of an ask. Each is optional; None is the same as leaving it out.

    Attributes:
        priority: The priority; default 0.
        priority_class: The priority class, which gives the ask its priority.
        gang: The gang that the ask is a member of.
        annotations: Annotations about its gang.
        node: The only node on which the ask may run.
        selector: Attributes that the node must have.
        tolerations: The taints of nodes that the ask tolerates, as in a feed:
            ``[{"key": "gpu", "operator": "Exists"}]``.
        affinity: Terms of which the node must match one, as in a feed:
            ``[[{"key": "zone", "operator": "In", "values": ["a", "b"]}]]``.
        run_for: The ask completes by itself this long after it was bound, in seconds or as a
            duration such as ``1m30s``.
        estimate: How long the ask is expected to take, in seconds or as a duration; it plans and
            ends nothing. Default: ``run_for``, else its run limit, else the ``estimate.default`` of
            its queue.
        run_limit: The ask is released and gone this long after it was bound, in seconds or as a
            duration; if the ``run.limit`` of its queue is shorter, after that.
        start_by: The ask is gone if it is not bound at this instant, in seconds since the start of
            the scheduler, or as a duration; then :meth:`Ask.bound` raises ``AskRemovedError``.
        retries: How often the ask is tried again after its work has failed; default 0.
        once: Whether the ask is gone after it was bound, whatever takes its node from it; default
            False. Then :meth:`Ask.bound` raises ``AskRemovedError``.
        command: What is to run for it: a program with its arguments, or a text for the shell. It
            is kept and shown, as are the next two; a binder may run it.
        env: Environment variables for the command.
        workdir: The working folder of the command.
        devices: The devices that the ask needs, as in a feed: ``{"gpu": 2}`` is two whole ones,
            ``{"gpu": {"milli": 250}}`` a quarter of one. The resources may be empty beside them.
    """

    priority: int | None
    priority_class: str | None
    gang: str | None
    annotations: Mapping[str, str] | None
    node: str | None
    selector: Mapping[str, str] | None
    tolerations: Sequence[Mapping[str, str]] | None
    affinity: Sequence[Sequence[Mapping[str, object]]] | None
    run_for: float | str | None
    estimate: float | str | None
    run_limit: float | str | None
    start_by: float | str | None
    retries: int | None
    once: bool | None
    command: Sequence[str] | str | None
    env: Mapping[str, str] | None
    workdir: str | None
    devices: Mapping[str, object] | None


_NAMES: Final = tuple(AskOptions.__annotations__)

_HAVE_RUN: Final = frozenset({Reason.COMPLETED, Reason.RUN_LIMIT})
"""The ends of an allocation after which :meth:`Ask.bound` still returns it."""


def check_options(method: str, options: Mapping[str, object]) -> None:
    """Refuse unknown options, as Python does for keyword arguments in a signature.

    Args:
        method: The name of the called method.
        options: The options that it was called with.

    Raises:
        TypeError: If an option is unknown.
    """
    for name in options:
        if name not in _NAMES:
            msg = (
                f"{method}() got an unexpected keyword argument {name!r}; "
                f"options of an ask are {', '.join(_NAMES)}"
            )
            raise TypeError(msg)


def with_forecast(explained: Explained) -> Explanation | None:
    """Return why an ask is not running, with a forecast if the state was taken for one."""
    explanation, facts = explained.explanation, explained.facts
    if explanation is None or explanation.outlook is None or facts is None:
        return explanation
    made = forecast(facts, explanation.app, explanation.ask)
    return attrs.evolve(explanation, outlook=attrs.evolve(explanation.outlook, forecast=made))


async def with_forecast_in_thread(explained: Explained) -> Explanation | None:
    """Do the same in a thread, so that a running scheduler goes on.

    A caller that is cancelled does not wait for the thread.
    """
    if explained.facts is None:
        return explained.explanation
    return await trio.to_thread.run_sync(with_forecast, explained, abandon_on_cancel=True)


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
        meanwhile, or has run for as long as it may, it returns the last allocation.

        Raises:
            RefusedError: If there is no such ask.
            AskRemovedError: If the ask was removed or cancelled, its application was removed, its
                ``start_by`` is over, or it does not come back (``once``) and has lost its node.
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

            async def track(_: Batches, tracker: Tracker) -> TrackedAsk:
                return tracker.track(self.app, self.name)

            self._tracked = await self._client.inspect(track)
        else:
            await trio.lowlevel.checkpoint()
        return self._tracked

    def _held(self, tracked: TrackedAsk, status: AskStatus) -> AllocationStatus | None:
        """Return the allocation that :meth:`bound` returns, or None if it must wait.

        Raises:
            AskRemovedError: If the ask was removed.
            BindFailedError: If the ask was removed because its work could not be started.
            AskFailedError: If its work has failed, and it had no retry left.
            AskParkedError: If the gang of the ask has timed out.
        """
        name = f"ask {self.app}/{self.name}"
        place = status.place
        if place is AskPlace.BOUND:
            return status.held if status.started else None
        if place is AskPlace.PARKED:
            msg = f"{name} is parked: its gang {tracked.gang} has timed out"
            raise AskParkedError(msg)
        if place is not None:
            return None
        if status.held is not None and status.held.ended.value in _HAVE_RUN:
            return status.held
        _check_not_failed(name, status.held)
        if status.is_given_up:
            msg = f"{name} was removed: its work could not be started, {status.failures} times in a row"
            raise BindFailedError(msg, status.failures) from status.error
        _check_not_lost(name, tracked, status.held)
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
            await self._client.call(WithdrawAsk(self._tracked))

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
        return await with_forecast_in_thread(
            await self._client.inspect(
                lambda batches, _: batches.explain(self.app, self.name, with_facts=forecast)
            )
        )

    @override
    def __repr__(self) -> str:
        return f"<Ask {self.app}/{self.name}>"


def _check_not_failed(name: str, held: AllocationStatus | None) -> None:
    """Check the last allocation of an ask that is gone.

    Raises:
        AskFailedError: If the ask has gone because its work had failed.
    """
    if held is None or not held.for_good or held.ended.value is not Reason.FAILED:
        return
    msg = f"{name} has failed" if held.message is None else f"{name} has failed: {held.message}"
    raise AskFailedError(msg, held.message) from held.error


# ONCE-2
def _check_not_lost(name: str, tracked: TrackedAsk, held: AllocationStatus | None) -> None:
    """Check the last allocation of an ask that is gone, and not by its removal.

    Raises:
        AskRemovedError: If the ask has gone because it has lost its node.
    """
    end = None if held is None or not tracked.once else held.ended.value
    if held is not None and held.for_good and isinstance(end, Reason) and end not in GONE:
        msg = f"{name} does not come back: it lost its node {held.node} ({end.value})"
        raise AskRemovedError(msg)


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
        name = gang_name(self.name)

        async def track(_: Batches, tracker: Tracker) -> Watched[GangStatus]:
            return tracker.track_gang(name)

        watched = await self._client.inspect(track)
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
