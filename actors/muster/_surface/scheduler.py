"""The scheduler as a program that embeds it sees it: by a clock, with handles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, final

from muster._runtime.clients.calls import Enter, LookInto, SettleNow, Survey
from muster._runtime.clients.client import Desk
from muster._runtime.clients.observers import Audience, Decisions, Lag, filter_of
from muster._runtime.pace import A_FEW
from muster._surface.conversion import (
    Amounts,
    Config,
    Manifest,
    any_event,
    configuration_of,
    event_of,
    manifest_event,
)
from muster._surface.handles import Application, Ask, Gang, ask_for
from muster_core.coordinator.coordinator import Conductor
from muster_core.errors import RefusedError
from muster_core.events import Configure, Event

if TYPE_CHECKING:
    from muster._runtime.requests import Examined
    from muster_core.decisions import Announced, Kind
    from muster_core.snapshots import Snapshot, Statistics


@final
class Scheduler:
    """A running scheduler; made by :func:`open_scheduler`.

    Whatever is called at the same time goes into one batch, and is answered when the
    decisions of that have been announced. A call that is cancelled has done nothing; one
    that has returned has been carried out. Any task of the program may call it.
    """

    def __init__(
        self,
        conductor: Conductor,
        desk: Desk,
        audience: Audience,
    ) -> None:
        self._conductor = conductor
        self._desk = desk
        self._audience = audience

    # Configuration and classes

    async def configure(self, config: Config, *, partition: str | None = None) -> None:
        """Replace the configuration.

        Args:
            config: A loaded one; a file, or the text of one (a ``str`` with a line break, a
                brace or a colon and a blank is a text); or its maps and lists.
            partition: The partition that is to run; default: ``default``, or the only one.

        Raises:
            OSError: If it is a file that cannot be read.
            ConfigError: If it is refused, with everything that is wrong with it.
            RefusedError: If it cannot follow the present one; that stays in force.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(Configure(configuration_of(config, partition)))

    async def add_priority_class(
        self, name: str, value: int, *, preemption_policy: str | None = None
    ) -> None:
        """Add a priority class.

        Args:
            name: Its name; it must not start with ``system-``.
            value: The priority of its asks, at most 1,000,000,000.
            preemption_policy: ``Never`` (the default) or ``PreemptLowerPriority``.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If there is such a class.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(
            event_of(
                "add_priority_class", name=name, value=value, preemption_policy=preemption_policy
            )
        )

    # Nodes

    async def add_node(
        self,
        node: str,
        capacity: Amounts,
        *,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool = True,
    ) -> None:
        """Let a node come.

        Args:
            node: Its name.
            capacity: What it has, as in a feed: ``{"vcore": 8, "memory": "32Gi"}``.
            attributes: What selectors look at.
            schedulable: Whether anything may be placed on it.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If there is such a node.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(
            event_of(
                "add_node",
                node=node,
                capacity=capacity,
                attributes=attributes,
                schedulable=schedulable,
            )
        )

    async def update_node(
        self,
        node: str,
        *,
        capacity: Amounts | None = None,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool | None = None,
    ) -> None:
        """Change what is given of a node; nobody is evicted.

        Args:
            node: Its name.
            capacity: What it has.
            attributes: What selectors look at.
            schedulable: Whether anything may be placed on it.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If there is no such node.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(
            event_of(
                "update_node",
                node=node,
                capacity=capacity,
                attributes=attributes,
                schedulable=schedulable,
            )
        )

    async def remove_node(self, node: str) -> None:
        """Let a node be lost; what ran there is pending again.

        Args:
            node: Its name.

        Raises:
            RefusedError: If there is no such node.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(event_of("remove_node", node=node))

    # Applications and asks

    async def add_app(
        self,
        app: str,
        queue: str,
        *,
        user: str | None = None,
        groups: Collection[str] = (),
        tags: Mapping[str, str] | None = None,
    ) -> Application:
        """Submit an application to a queue.

        Args:
            app: Its name.
            queue: The path of the queue.
            user: Who submits it.
            groups: The groups of the user.
            tags: Such as ``application.stateaware.disable``.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If there is such an application, or the queue does not admit it.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(
            event_of("add_app", app=app, queue=queue, user=user, groups=groups or None, tags=tags)
        )
        return Application(self._desk, app)

    async def remove_app(self, app: str) -> None:
        """Remove an application, with everything that it asked for and holds.

        Args:
            app: Its name.

        Raises:
            RefusedError: If there is no such application.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(event_of("remove_app", app=app))

    async def add_ask(
        self,
        app: str,
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
        """Ask for resources.

        Args:
            app: The name of the application.
            ask: The name of the ask.
            resources: What it needs, as in a feed: ``{"vcore": 2, "memory": "4Gi"}``.
            priority: Its priority; default 0.
            priority_class: The class that its priority comes from.
            gang: The gang whose member it is.
            annotations: Those that speak of its gang.
            node: The only node on which it may run.
            selector: Attributes that its node must have.
            run_for: It completes by itself this long after it was bound, in seconds or as
                a duration such as ``1m30s``.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If it makes no sense now, such as a name that is taken.
            ClosedSchedulerError: If the scheduler is closed.
        """
        (made,) = await ask_for(
            self._desk,
            app=app,
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
        app: str,
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
        """Ask for the same several times, at once.

        Args:
            app: The name of the application.
            ask: The beginning of the names of the asks: ``ask-0``, ``ask-1``, ….
            resources: What each needs.
            count: How many there are.
            priority: As for :meth:`add_ask`.
            priority_class: As for :meth:`add_ask`.
            gang: As for :meth:`add_ask`.
            annotations: As for :meth:`add_ask`.
            node: As for :meth:`add_ask`.
            selector: As for :meth:`add_ask`.
            run_for: As for :meth:`add_ask`.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If it makes no sense now, such as a name that is taken.
            ClosedSchedulerError: If the scheduler is closed.
        """
        return await ask_for(
            self._desk,
            app=app,
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

    async def remove_ask(self, app: str, ask: str) -> None:
        """Withdraw an ask that is not bound.

        Args:
            app: The name of the application.
            ask: The name of the ask.

        Raises:
            RefusedError: If it is bound, or there is no such ask.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(event_of("remove_ask", app=app, ask=ask))

    async def release(self, app: str, ask: str) -> None:
        """Let a bound ask have finished.

        :meth:`Allocation.release` is safer: it cannot hit another allocation of the ask.

        Args:
            app: The name of the application.
            ask: The name of the ask.

        Raises:
            RefusedError: If it is not bound.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(event_of("release", app=app, ask=ask))

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
    ) -> Gang:
        """Define a gang.

        Args:
            gang: Its name; without ``namespace/`` it is ``default/``.
            min_member: How many members have to have room before any is bound.
            total: How many there will be.
            mode: ``Strict`` (the default) or ``NonStrict``.
            wait_time: How long members may wait for the others, in seconds or as a duration.
            groups: The gangs of its group.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If it is defined already.
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
        )
        await self._desk.enter(event)
        return Gang(self._desk, gang)

    async def remove_gang(self, gang: str) -> None:
        """Let a gang be defined no longer; its members stay.

        Args:
            gang: Its name.

        Raises:
            RefusedError: If it is not defined.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(event_of("remove_gang", gang=gang))

    # Kubernetes objects, and whatever else

    async def apply(self, manifest: Manifest) -> None:
        """Let Kubernetes objects come, or change if they are there; all of them or none.

        Args:
            manifest: An object as a map; a file with some, or the text of one (a ``str``
                with a line break, a brace or a colon and a blank is a text).

        Raises:
            OSError: If it is a file that cannot be read.
            EventError: If a value is one that it can never be.
            RefusedError: If one of them makes no sense now.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(manifest_event("apply", manifest))

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
        await self._desk.enter(manifest_event("delete", manifest))

    async def submit(self, event: Event | Mapping[str, object]) -> None:
        """Let an event in.

        Args:
            event: An event, or a map as it stands in a feed, without ``at``.

        Raises:
            EventError: If it is no event.
            RefusedError: If it makes no sense now; then nothing was changed.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._desk.enter(any_event(event))

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
        pace = self._desk.pace
        for event in events:
            made.append(any_event(event))
            if not len(made) % A_FEW and pace.is_up():
                await pace.rest()
        call = Enter(made)
        refusals = (await self._desk.call(call, call.answer)).refusals
        await pace.let_go(made, shield=True)
        return refusals

    # Handles

    def app(self, name: str) -> Application:
        """Give the handle of an application; whether there is one is seen when it is used."""
        return Application(self._desk, name)

    def ask(self, app: str, ask: str) -> Ask:
        """Give the handle of an ask; whether there is one is seen when it is used."""
        return Ask(self._desk, app, ask)

    def gang(self, name: str) -> Gang:
        """Give the handle of a gang; whether there is one is seen when it is used."""
        return Gang(self._desk, name)

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
        self._audience.admit(observer)
        return observer

    async def settle(self) -> None:
        """Wait until everything that was let in before is decided and announced.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = SettleNow()
        await self._desk.call(call, call.answer)

    async def snapshot(self) -> Snapshot:
        """Have every owner publish what it owns; it takes as long as the state is large.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = Survey()
        return await self._desk.call(call, call.answer)

    def statistics(self) -> Statistics:
        """Give how much was done so far."""
        return self._conductor.statistics()

    async def examine(self, examiner: Callable[[Examined], None]) -> None:
        """Have the whole state looked at, at rest; for :func:`muster.testing.check`.

        Args:
            examiner: Called in the coordinator's task; it may assert, but not alter anything.

        Raises:
            Exception: What the examiner raises, such as AssertionError.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = LookInto(examiner)
        error = await self._desk.call(call, call.answer)
        if error is not None:
            raise error
