"""The running scheduler that a program embeds, with a method for each operation that changes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import final

from typing_extensions import Unpack

from muster._runtime.calls import Client, Enter, TakeCheckpoint
from muster._runtime.clock import SMALL_PIECE
from muster._runtime.observers import Decisions, Lag, filter_of, path_of
from muster._runtime.requests import Examined
from muster._surface.conversion import (
    Amounts,
    Config,
    Manifest,
    any_event,
    configuration_of,
    event_of,
    manifest_event,
)
from muster._surface.handles import Application, Ask, AskOptions, Gang
from muster_core.decisions import Announced, Kind
from muster_core.errors import EventError, RefusedError
from muster_core.events import Configure, Event
from muster_core.snapshots import AskPlace, Snapshot, Statistics


class Operations:
    """The part of :class:`muster.Scheduler` that has a method for each operation.

    Args:
        client: Sends events to the coordinator.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    # Configuration and classes

    async def configure(self, config: Config, *, partition: str | None = None) -> None:
        """Replace the configuration.

        Args:
            config: A loaded configuration, a text (``str``), the path of a file
                (:class:`os.PathLike`), or maps and lists.
            partition: The partition to run; default: ``default``, or else the only one.

        Raises:
            OSError: If the configuration is a file that cannot be read.
            ConfigError: If the configuration is refused; it lists everything that is wrong.
            RefusedError: If the configuration cannot replace the present one, which stays in
                force.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(Configure(configuration_of(config, partition)))

    async def add_priority_class(
        self, name: str, value: int, *, preemption_policy: str | None = None
    ) -> None:
        """Add a priority class.

        Args:
            name: The name of the class; it must not start with ``system-``.
            value: The priority of its asks, at most 1,000,000,000.
            preemption_policy: ``Never`` (the default) or ``PreemptLowerPriority``.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If the name is taken.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(
            event_of(
                "add_priority_class", name=name, value=value, preemption_policy=preemption_policy
            )
        )

    # USAGE-14
    async def set_usage(self, queue: str, usage: Amounts, *, user: str | None = None) -> None:
        """Replace what a queue, or a user of a leaf, has used lately, for the named types.

        Args:
            queue: The path of the queue.
            usage: By type, in units times seconds: ``{"vcore": 7200}`` is one core for two hours.
            user: The user of this leaf, ``""`` for the nameless one; default: the queue itself.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If the queue is unknown, or its usage or that of its users does not count.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(event_of("set_usage", queue=queue, usage=usage, user=user))

    # Nodes

    async def add_node(
        self,
        node: str,
        capacity: Amounts,
        *,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool = True,
        lease: float | str | None = None,
        devices: Mapping[str, object] | None = None,
        taints: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """Add a node.

        Args:
            node: The name of the node.
            capacity: Its resources, as in a feed: ``{"vcore": 8, "memory": "32Gi"}``.
            attributes: Its attributes, which selectors of asks name.
            schedulable: Whether Muster may place asks on it.
            lease: How long ``muster serve`` keeps the node without a renewal, in seconds or as a
                duration such as ``30s``. A scheduler in a program only keeps it in its store.
            devices: Its devices, as in a feed: ``{"gpu": 4}``, or with a model
                ``{"gpu": {"count": 4, "model": "A100"}}``.
            taints: Its taints, as in a feed: ``[{"key": "gpu", "effect": "NoSchedule"}]``.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If the name is taken.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(
            event_of(
                "add_node",
                node=node,
                capacity=capacity,
                attributes=attributes,
                schedulable=schedulable,
                lease=lease,
                devices=devices,
                taints=taints,
            )
        )

    async def update_node(
        self,
        node: str,
        *,
        capacity: Amounts | None = None,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool | None = None,
        devices: Mapping[str, object] | None = None,
        reserved: Amounts | None = None,
        taints: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """Change a node. Arguments that are None stay unchanged, and no ask is evicted.

        Args:
            node: The name of the node.
            capacity: Its resources.
            attributes: Its attributes, which selectors of asks name.
            schedulable: Whether Muster may place asks on it.
            devices: Its devices; none may be held by an ask.
            reserved: How much of it is used by something that is not an ask.
            taints: Its taints, which replace those that it has.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If there is no such node, or an ask holds one of its devices.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(
            event_of(
                "update_node",
                node=node,
                capacity=capacity,
                attributes=attributes,
                schedulable=schedulable,
                devices=devices,
                reserved=reserved,
                taints=taints,
            )
        )

    async def remove_node(self, node: str) -> None:
        """Remove a node; the asks that held it are pending again.

        Args:
            node: The name of the node.

        Raises:
            RefusedError: If there is no such node.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(event_of("remove_node", node=node))

    # Applications and asks

    async def add_app(
        self,
        app: str,
        queue: str | None = None,
        *,
        user: str | None = None,
        groups: Collection[str] = (),
        tags: Mapping[str, str] | None = None,
    ) -> Application:
        """Submit an application to a queue.

        Args:
            app: The name of the application.
            queue: The path of the queue. It may be left out if the configuration has placement
                rules, which choose the queue.
            user: The user who submits the application.
            groups: The groups of the user.
            tags: Tags such as ``application.stateaware.disable``.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If the name is taken, or the queue does not admit the application.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(
            event_of("add_app", app=app, queue=queue, user=user, groups=groups or None, tags=tags)
        )
        return Application(self._client, app)

    async def remove_app(self, app: str) -> None:
        """Remove an application with all its asks and allocations.

        Args:
            app: The name of the application.

        Raises:
            RefusedError: If there is no such application.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await Application(self._client, app).remove()

    async def add_ask(
        self,
        app: str,
        ask: str,
        resources: Amounts,
        **options: Unpack[AskOptions],
    ) -> Ask:
        """Add an ask.

        Args:
            app: The name of the application.
            ask: The name of the ask.
            resources: The resources that it needs, as in a feed: ``{"vcore": 2, "memory": "4Gi"}``.
            **options: See :class:`muster.AskOptions`.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If the ask is not possible now, for example because its name is taken.
            ClosedSchedulerError: If the scheduler is closed.
        """
        return await Application(self._client, app).add_ask(ask, resources, **options)

    async def add_asks(
        self,
        app: str,
        ask: str,
        resources: Amounts,
        count: int,
        **options: Unpack[AskOptions],
    ) -> tuple[Ask, ...]:
        """Add several equal asks at once.

        Args:
            app: The name of the application.
            ask: The beginning of the names: ``ask`` gives ``ask-0``, ``ask-1``, ….
            resources: The resources that each ask needs.
            count: The number of asks.
            **options: As for :meth:`add_ask`.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If an ask is not possible now, for example because its name is taken.
            ClosedSchedulerError: If the scheduler is closed.
        """
        return await Application(self._client, app).add_asks(ask, resources, count, **options)

    async def remove_ask(self, app: str, ask: str) -> None:
        """Remove an ask that is not bound.

        Args:
            app: The name of the application.
            ask: The name of the ask.

        Raises:
            RefusedError: If the ask is bound, or there is no such ask.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await Ask(self._client, app, ask).remove()

    async def release(
        self,
        app: str,
        ask: str,
        *,
        outcome: str = "completed",
        message: str | None = None,
    ) -> None:
        """Release the node of a bound ask, whose work has ended.

        An ask that has completed or is cancelled is gone. One that has failed is pending again if it has a retry
        left, and otherwise gone.

        :meth:`Allocation.release` is safer: it cannot release a later allocation of the ask.

        Args:
            app: The name of the application.
            ask: The name of the ask.
            outcome: ``completed``, ``failed`` or ``cancelled``.
            message: What the decision log says about the end.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If the ask is not bound.
            ClosedSchedulerError: If the scheduler is closed.
        """
        event = event_of("release", app=app, ask=ask, outcome=outcome, message=message)
        await self._client.enter(event)

    # Gangs

    async def add_gang(
        self,
        gang: str,
        min_member: int,
        *,
        total: int | None = None,
        mode: str | None = None,
        wait_time: float | str | None = None,
        groups: Collection[str] = (),
        topology: Mapping[str, str | int] | None = None,
        user: str | None = None,
    ) -> Gang:
        """Define a gang.

        Args:
            gang: The name of the gang; a name without a namespace is in ``default/``.
            min_member: How many members must hold a node before any member is bound.
            total: How many members the gang will have.
            mode: ``Strict`` (the default) or ``NonStrict``.
            wait_time: How long members may wait for the others, in seconds or as a duration.
            groups: The gangs that must be complete at the same time.
            topology: Which nodes the members take together: ``{"same": attribute}``,
                ``{"prefer": attribute}``, or ``{"spread": attribute}``, which may have a ``max``.
            user: The user whose gang it is. No decision depends on it.

        Raises:
            EventError: If a value is invalid.
            RefusedError: If the gang is defined already.
            ClosedSchedulerError: If the scheduler is closed.
        """
        event = event_of(
            "add_gang",
            gang=gang,
            min_member=min_member,
            total=total,
            mode=mode,
            wait_time=wait_time,
            groups=groups or None,
            topology=topology,
            user=user,
        )
        await self._client.enter(event)
        return Gang(self._client, gang)

    async def remove_gang(self, gang: str) -> None:
        """Remove the definition of a gang; its members stay.

        Args:
            gang: The name of the gang.

        Raises:
            RefusedError: If the gang is not defined.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await Gang(self._client, gang).remove()


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
            if not len(made) % SMALL_PIECE and pace.is_up():
                await pace.rest()
        refusals = (await self._client.call(Enter(made))).refusals
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
        path = None if queue is None else path_of(queue)
        found = await self._client.inspect(
            lambda batches, tracker: batches.read(lambda _: tracker.select(place, path, app))
        )
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
        await self._client.call(Enter(()))

    async def checkpoint(self) -> None:
        """Write a checkpoint to the store now; it returns when that is on disk.

        The next start goes on from there. Calls are carried out meanwhile.

        Raises:
            RefusedError: If the scheduler has no store.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.call(TakeCheckpoint())

    async def snapshot(self) -> Snapshot:
        """Return a snapshot of the whole state; the time grows with the size of the state.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        return await self._client.inspect(lambda batches, _: batches.snapshot())

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
        error = await self._client.inspect(lambda batches, _: batches.examine(examiner))
        if error is not None:
            raise error
