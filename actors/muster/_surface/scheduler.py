"""The running scheduler that a program embeds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, final

from muster._runtime.clients.calls import (
    Enter,
    ListAsks,
    LookInto,
    SettleNow,
    Survey,
    TakeCheckpoint,
)
from muster._runtime.clients.observers import Decisions, Lag, filter_of, path_of
from muster._runtime.pace import A_FEW
from muster._surface.conversion import any_event, manifest_event
from muster._surface.handles import Application, Ask, Gang
from muster._surface.operations import Operations
from muster_core.errors import EventError
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from muster._runtime.clients.client import Client
    from muster._runtime.requests import Examined
    from muster._surface.conversion import Manifest
    from muster_core.decisions import Announced, Kind
    from muster_core.errors import RefusedError
    from muster_core.events import Event
    from muster_core.snapshots import Snapshot, Statistics


@final
class Scheduler(Operations):
    """A running scheduler; :func:`open_scheduler` creates it.

    Calls at the same time go into one batch, and return when the decisions of this batch have
    been announced. A call that was cancelled has done nothing; a call that has returned has
    been carried out. Any task of the program may call the methods.
    """

    def __init__(
        self,
        statistics: Callable[[], Statistics],
        client: Client,
        admit: Callable[[Decisions], None],
    ) -> None:
        super().__init__(client)
        self._statistics = statistics
        self._admit = admit

    # Kubernetes objects and other events

    async def apply(self, manifest: Manifest) -> None:
        """Create Kubernetes objects, or change those that exist; all of them or none.

        Args:
            manifest: One object as a map, or any number in a text (``str``) or in a file, given
                as its path (:class:`os.PathLike`).

        Raises:
            OSError: If the manifest is a file that cannot be read.
            EventError: If a value is invalid.
            RefusedError: If an object is not possible now.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(manifest_event("apply", manifest))

    async def delete(self, manifest: Manifest) -> None:
        """Delete Kubernetes objects; all of them or none.

        Args:
            manifest: As for :meth:`apply`.

        Raises:
            OSError: If the manifest is a file that cannot be read.
            EventError: If a value is invalid.
            RefusedError: If an object cannot be deleted now.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(manifest_event("delete", manifest))

    async def submit(self, event: Event | Mapping[str, object]) -> None:
        """Submit an event.

        Args:
            event: An event, or a map in the form of a feed, without ``at``.

        Raises:
            EventError: If the event is invalid.
            RefusedError: If the event is not possible now; then nothing was changed.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(any_event(event))

    async def submit_many(
        self, events: Iterable[Event | Mapping[str, object]]
    ) -> tuple[RefusedError | None, ...]:
        """Submit many events at once, into one batch.

        Args:
            events: Events, or maps in the form of a feed, in order. Do not change them before
                this returns.

        Returns:
            For each event the error with which it was refused, or None; the others are carried
            out.

        Raises:
            EventError: If an event is invalid; then no event is submitted.
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
        """Return the handle of an application; its existence is checked when you use it."""
        return Application(self._client, name)

    def ask(self, app: str, ask: str) -> Ask:
        """Return the handle of an ask; its existence is checked when you use it."""
        return Ask(self._client, app, ask)

    def gang(self, name: str) -> Gang:
        """Return the handle of a gang; its existence is checked when you use it."""
        return Gang(self._client, name)

    async def asks(
        self,
        *,
        state: AskPlace | str | None = None,
        queue: str | None = None,
        app: str | None = None,
    ) -> tuple[Ask, ...]:
        """Return the handles of asks that exist now, in the order in which they were added.

        With a store these are also the asks of earlier runs of the program.

        Args:
            state: Only asks in this place: ``pending``, ``parked``, ``waiting`` or ``bound``.
            queue: Only asks of this queue and the queues below it; ``root.`` may be left out.
            app: Only asks of this application.

        Raises:
            EventError: If there is no such state.
            ClosedSchedulerError: If the scheduler is closed.
        """
        if state is not None and state not in set(AskPlace):
            msg = f"state: {state!r}: must be one of {', '.join(AskPlace)}"
            raise EventError(msg)
        place = None if state is None else AskPlace(state)
        call = ListAsks(place, None if queue is None else path_of(queue), app)
        found = await self._client.call(call, call.answer)
        return tuple(Ask(self._client, one.app, one.name, one) for one in found)

    # Decisions and state

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
            kinds: Only decisions of these kinds.
            app: Only decisions about this application.
            queue: Only decisions about this queue and the queues below it.
            gang: Only decisions about this gang and its members.
            where: Only decisions for which this returns true. It is called in the scheduler's
                task, so it must be fast. What it raises is raised where the decisions are read.
            buffer: How many decisions may wait for the reader.
            lag: What happens if the reader is too slow; it never delays the scheduler.

        Raises:
            EventError: If a value is invalid.
        """
        observer = Decisions(filter_of(kinds, app, queue, gang, where), buffer, lag)
        self._admit(observer)
        return observer

    async def settle(self) -> None:
        """Wait until all events that were submitted before are decided and announced.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = SettleNow()
        await self._client.call(call, call.answer)

    async def checkpoint(self) -> None:
        """Write a checkpoint to the store now; it returns when that is on disk.

        The next start goes on from there. Calls are carried out meanwhile.

        Raises:
            RefusedError: If the scheduler has no store.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = TakeCheckpoint()
        await self._client.call(call, call.answer)

    async def snapshot(self) -> Snapshot:
        """Return a snapshot of the whole state; the time grows with the size of the state.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = Survey()
        return await self._client.call(call, call.answer)

    def statistics(self) -> Statistics:
        """Return how much the scheduler has done so far."""
        return self._statistics()

    async def examine(self, examiner: Callable[[Examined], None]) -> None:
        """Call a function with the whole state between two batches.

        :func:`muster.testing.check` uses it.

        Args:
            examiner: Called in the coordinator's task; it must not change anything.

        Raises:
            Exception: What the examiner raises, such as AssertionError.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = LookInto(examiner)
        error = await self._client.call(call, call.answer)
        if error is not None:
            raise error
