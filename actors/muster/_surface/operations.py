"""What a program changes in a running scheduler: a method for each operation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from muster._surface.conversion import configuration_of, event_of
from muster._surface.handles import Application, Ask, Gang
from muster_core.events import Configure

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from muster._runtime.clients.client import Client
    from muster._surface.ask_options import AskOptions
    from muster._surface.conversion import Amounts, Config


class Operations:
    """The part of :class:`muster.Scheduler` that has a method for each operation.

    Args:
        client: Where events go in.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    # Configuration and classes

    async def configure(self, config: Config, *, partition: str | None = None) -> None:
        """Replace the configuration.

        Args:
            config: A loaded one; the text of one (``str``); a path (:class:`os.PathLike`),
                which is a file; or its maps and lists.
            partition: The partition that is to run; default: ``default``, or the only one.

        Raises:
            OSError: If it is a file that cannot be read.
            ConfigError: If it is refused, with everything that is wrong with it.
            RefusedError: If it cannot follow the present one; that stays in force.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._client.enter(Configure(configuration_of(config, partition)))

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
        await self._client.enter(
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
        await self._client.enter(
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
        await self._client.enter(
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
        await self._client.enter(event_of("remove_node", node=node))

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
        await self._client.enter(
            event_of("add_app", app=app, queue=queue, user=user, groups=groups or None, tags=tags)
        )
        return Application(self._client, app)

    async def remove_app(self, app: str) -> None:
        """Remove an application, with everything that it asked for and holds.

        Args:
            app: Its name.

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
        """Ask for resources.

        Args:
            app: The name of the application.
            ask: The name of the ask.
            resources: What it needs, as in a feed: ``{"vcore": 2, "memory": "4Gi"}``.
            **options: What else there is to say of it.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If it makes no sense now, such as a name that is taken.
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
        """Ask for the same several times, at once.

        Args:
            app: The name of the application.
            ask: The beginning of the names of the asks: ``ask-0``, ``ask-1``, ….
            resources: What each needs.
            count: How many there are.
            **options: As for :meth:`add_ask`.

        Raises:
            EventError: If a value is one that it can never be.
            RefusedError: If it makes no sense now, such as a name that is taken.
            ClosedSchedulerError: If the scheduler is closed.
        """
        return await Application(self._client, app).add_asks(ask, resources, count, **options)

    async def remove_ask(self, app: str, ask: str) -> None:
        """Withdraw an ask that is not bound.

        Args:
            app: The name of the application.
            ask: The name of the ask.

        Raises:
            RefusedError: If it is bound, or there is no such ask.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await Ask(self._client, app, ask).remove()

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
        await self._client.enter(event_of("release", app=app, ask=ask))

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
        await self._client.enter(event)
        return Gang(self._client, gang)

    async def remove_gang(self, gang: str) -> None:
        """Let a gang be defined no longer; its members stay.

        Args:
            gang: Its name.

        Raises:
            RefusedError: If it is not defined.
            ClosedSchedulerError: If the scheduler is closed.
        """
        await Gang(self._client, gang).remove()
