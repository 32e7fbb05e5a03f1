"""The scheduler as a program that embeds it sees it: by a clock, with handles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, final

from muster._runtime.clients.calls import Enter, LookInto, SettleNow, Survey
from muster._runtime.clients.observers import Decisions, Lag, filter_of
from muster._runtime.pace import A_FEW
from muster._surface.conversion import any_event, manifest_event
from muster._surface.handles import Application, Ask, Gang
from muster._surface.operations import Operations

if TYPE_CHECKING:
    from muster._runtime.clients.client import Client
    from muster._runtime.requests import Examined
    from muster._surface.conversion import Manifest
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.decisions import Announced, Kind
    from muster_core.errors import RefusedError
    from muster_core.events import Event
    from muster_core.snapshots import Snapshot, Statistics


@final
class Scheduler(Operations):
    """A running scheduler; made by :func:`open_scheduler`.

    Whatever is called at the same time goes into one batch, and is answered when the
    decisions of that have been announced. A call that is cancelled has done nothing; one
    that has returned has been carried out. Any task of the program may call it.
    """

    def __init__(
        self, machine: CoordinatorMachine, client: Client, admit: Callable[[Decisions], None]
    ) -> None:
        super().__init__(client)
        self._machine = machine
        self._admit = admit

    # Kubernetes objects, and whatever else

    async def apply(self, manifest: Manifest) -> None:
        """Let Kubernetes objects come, or change if they are there; all of them or none.

        Args:
            manifest: An object as a map; a text (``str``) with some; or a path
                (:class:`os.PathLike`), which is a file with some.

        Raises:
            OSError: If it is a file that cannot be read.
            EventError: If a value is one that it can never be.
            RefusedError: If one of them makes no sense now.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(manifest_event("apply", manifest))

    async def delete(self, manifest: Manifest) -> None:
        """Let Kubernetes objects go; all of them or none.

        Args:
            manifest: As for :meth:`apply`.

        Raises:
            OSError: If it is a file that cannot be read.
            EventError: If a value is one that it can never be.
            RefusedError: If one of them makes no sense now.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(manifest_event("delete", manifest))

    async def submit(self, event: Event | Mapping[str, object]) -> None:
        """Let an event in.

        Args:
            event: An event, or a map as it stands in a feed, without ``at``.

        Raises:
            EventError: If it is no event.
            RefusedError: If it makes no sense now; then nothing was changed.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(any_event(event))

    async def submit_many(
        self, events: Iterable[Event | Mapping[str, object]]
    ) -> tuple[RefusedError | None, ...]:
        """Let many events in at once, into one batch; the way for bursts.

        Args:
            events: Events, or maps as they stand in a feed, in order; not to be altered
                before this returns.

        Returns:
            For each why it was refused, or None; the others are carried out.

        Raises:
            EventError: If one of them is no event; then none is let in.
            ClosedSchedulerError: If the scheduler is closed.
        """
        made: list[Event] = []
        pace = self._client.pace
        for event in events:
            made.append(any_event(event))
            if not len(made) % A_FEW and pace.is_up():
                await pace.rest()
        call = Enter(made)
        refusals = (await self._client.call(call, call.answer)).refusals
        await pace.let_go(made, shield=True)
        return refusals

    # Handles

    def app(self, name: str) -> Application:
        """Give the handle of an application; whether there is one is seen when it is used."""
        return Application(self._client, name)

    def ask(self, app: str, ask: str) -> Ask:
        """Give the handle of an ask; whether there is one is seen when it is used."""
        return Ask(self._client, app, ask)

    def gang(self, name: str) -> Gang:
        """Give the handle of a gang; whether there is one is seen when it is used."""
        return Gang(self._client, name)

    # Looking on

    def decisions(
        self,
        *,
        kinds: Collection[Kind | str] | None = None,
        app: str | None = None,
        queue: str | None = None,
        gang: str | None = None,
        where: Callable[[Announced], bool] | None = None,
        buffer: int = 1024,
        lag: Lag | str = Lag.DROP,
    ) -> Decisions:
        """Observe the decisions that are announced from now on.

        Args:
            kinds: Only of these kinds.
            app: Only about this application.
            queue: Only about this queue and those below it.
            gang: Only about this gang and its members.
            where: Only those for which this is true. It is called in the scheduler's task:
                it must be quick. What it raises comes out where the decisions are read.
            buffer: How many decisions wait for the reader at the most.
            lag: What happens to a reader who is too slow; a round is never slowed.

        Raises:
            EventError: If a value is one that it can never be.
        """
        observer = Decisions(filter_of(kinds, app, queue, gang, where), buffer, lag)
        self._admit(observer)
        return observer

    async def settle(self) -> None:
        """Wait until everything that was let in before is decided and announced.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = SettleNow()
        await self._client.call(call, call.answer)

    async def snapshot(self) -> Snapshot:
        """Have every owner publish what it owns; it takes as long as the state is large.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = Survey()
        return await self._client.call(call, call.answer)

    def statistics(self) -> Statistics:
        """Give how much was done so far."""
        return self._machine.statistics()

    async def examine(self, examiner: Callable[[Examined], None]) -> None:
        """Have the whole state looked at, at rest; for :func:`muster.testing.check`.

        Args:
            examiner: Called in the coordinator's task; it may assert, but not alter anything.

        Raises:
            Exception: What the examiner raises, such as AssertionError.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = LookInto(examiner)
        error = await self._client.call(call, call.answer)
        if error is not None:
            raise error
