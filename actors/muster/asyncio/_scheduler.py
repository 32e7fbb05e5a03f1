"""The scheduler as an asyncio program that embeds it sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, final

import muster
from muster._runtime.clients.observers import Lag, filter_of
from muster.asyncio._decisions import Decisions, Readers, in_context, open_reader
from muster.asyncio._handles import Application, Ask, Gang

if TYPE_CHECKING:
    from muster._runtime.requests import Examined
    from muster._surface.conversion import Amounts, Config, Manifest
    from muster.asyncio._bridge import Bridge
    from muster_core.decisions import Announced, Kind
    from muster_core.errors import RefusedError
    from muster_core.events import Event
    from muster_core.snapshots import Snapshot, Statistics


@final
class Scheduler:
    """A running scheduler; made by :func:`open_scheduler`. As :class:`muster.Scheduler`.

    Any task of the event loop in which it was opened may call it, and nobody else. If a task
    is cancelled while it calls, the call is cancelled too, and its end is waited for. A call
    that was cancelled has done nothing. One that could not be cancelled any more gives its
    result, and the task is cancelled where it waits next.

    What is given to be called while it works (filters of decisions, journals, examiners) is
    called on the scheduler's side: in another thread with :attr:`Mode.THREAD`.
    """

    def __init__(self, bridge: Bridge, inner: muster.Scheduler, readers: Readers) -> None:
        self._bridge = bridge
        self._inner = inner
        self._readers = readers

    async def configure(self, config: Config, *, partition: str | None = None) -> None:
        """Replace the configuration; see :meth:`muster.Scheduler.configure`."""
        await self._bridge.call(partial(self._inner.configure, config, partition=partition))

    async def add_priority_class(
        self, name: str, value: int, *, preemption_policy: str | None = None
    ) -> None:
        """Add a priority class; see :meth:`muster.Scheduler.add_priority_class`."""
        await self._bridge.call(
            partial(
                self._inner.add_priority_class, name, value, preemption_policy=preemption_policy
            )
        )

    async def add_node(
        self,
        node: str,
        capacity: Amounts,
        *,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool = True,
    ) -> None:
        """Let a node come; see :meth:`muster.Scheduler.add_node`."""
        await self._bridge.call(
            partial(
                self._inner.add_node, node, capacity, attributes=attributes, schedulable=schedulable
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
        """Change what is given of a node; nobody is evicted; see :meth:`muster.Scheduler.update_node`."""
        await self._bridge.call(
            partial(
                self._inner.update_node,
                node,
                capacity=capacity,
                attributes=attributes,
                schedulable=schedulable,
            )
        )

    async def remove_node(self, node: str) -> None:
        """Let a node be lost; what ran there is pending again; see :meth:`muster.Scheduler.remove_node`."""
        await self._bridge.call(partial(self._inner.remove_node, node))

    async def add_app(
        self,
        app: str,
        queue: str,
        *,
        user: str | None = None,
        groups: Collection[str] = (),
        tags: Mapping[str, str] | None = None,
    ) -> Application:
        """Submit an application to a queue; see :meth:`muster.Scheduler.add_app`."""
        made = await self._bridge.call(
            partial(self._inner.add_app, app, queue, user=user, groups=groups, tags=tags)
        )
        return Application(self._bridge, made)

    async def remove_app(self, app: str) -> None:
        """Remove an application, with everything that it asked for and holds; see :meth:`muster.Scheduler.remove_app`."""
        await self._bridge.call(partial(self._inner.remove_app, app))

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
        """Ask for resources; see :meth:`muster.Scheduler.add_ask`."""
        made = await self._bridge.call(
            partial(
                self._inner.add_ask,
                app,
                ask,
                resources,
                priority=priority,
                priority_class=priority_class,
                gang=gang,
                annotations=annotations,
                node=node,
                selector=selector,
                run_for=run_for,
            )
        )
        return Ask(self._bridge, made)

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
        """Ask for the same several times, at once; see :meth:`muster.Scheduler.add_asks`."""
        made = await self._bridge.call(
            partial(
                self._inner.add_asks,
                app,
                ask,
                resources,
                count,
                priority=priority,
                priority_class=priority_class,
                gang=gang,
                annotations=annotations,
                node=node,
                selector=selector,
                run_for=run_for,
            )
        )
        return tuple(Ask(self._bridge, one) for one in made)

    async def remove_ask(self, app: str, ask: str) -> None:
        """Withdraw an ask that is not bound; see :meth:`muster.Scheduler.remove_ask`."""
        await self._bridge.call(partial(self._inner.remove_ask, app, ask))

    async def release(self, app: str, ask: str) -> None:
        """Let a bound ask have finished; see :meth:`muster.Scheduler.release`."""
        await self._bridge.call(partial(self._inner.release, app, ask))

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
        """Define a gang; see :meth:`muster.Scheduler.add_gang`."""
        made = await self._bridge.call(
            partial(
                self._inner.add_gang,
                gang,
                min_member,
                total=total,
                mode=mode,
                wait_time=wait_time,
                groups=groups,
            )
        )
        return Gang(self._bridge, made)

    async def remove_gang(self, gang: str) -> None:
        """Let a gang be defined no longer; its members stay; see :meth:`muster.Scheduler.remove_gang`."""
        await self._bridge.call(partial(self._inner.remove_gang, gang))

    async def apply(self, manifest: Manifest) -> None:
        """Let Kubernetes objects come, or change if they are there; all of them or none; see :meth:`muster.Scheduler.apply`."""
        await self._bridge.call(partial(self._inner.apply, manifest))

    async def delete(self, manifest: Manifest) -> None:
        """Let Kubernetes objects go; all of them or none; see :meth:`muster.Scheduler.delete`."""
        await self._bridge.call(partial(self._inner.delete, manifest))

    async def submit(self, event: Event | Mapping[str, object]) -> None:
        """Let an event in; see :meth:`muster.Scheduler.submit`."""
        await self._bridge.call(partial(self._inner.submit, event))

    async def submit_many(
        self, events: Iterable[Event | Mapping[str, object]]
    ) -> tuple[RefusedError | None, ...]:
        """Let many events in at once, into one batch; the way for bursts; see :meth:`muster.Scheduler.submit_many`."""
        return await self._bridge.call(partial(self._inner.submit_many, tuple(events)))

    def app(self, name: str) -> Application:
        """Give the handle of an application; whether there is one is seen when it is used; see :meth:`muster.Scheduler.app`."""
        return Application(self._bridge, self._inner.app(name))

    def ask(self, app: str, ask: str) -> Ask:
        """Give the handle of an ask; whether there is one is seen when it is used; see :meth:`muster.Scheduler.ask`."""
        return Ask(self._bridge, self._inner.ask(app, ask))

    def gang(self, name: str) -> Gang:
        """Give the handle of a gang; whether there is one is seen when it is used; see :meth:`muster.Scheduler.gang`."""
        return Gang(self._bridge, self._inner.gang(name))

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
        """Observe the decisions that are announced from now on; see :meth:`muster.Scheduler.decisions`."""
        # What is wrong is to be said here, where the caller is.
        muster.Decisions(filter_of(kinds, app, queue, gang, None), buffer, Lag(lag))
        observe = partial(
            self._inner.decisions,
            kinds=kinds,
            app=app,
            queue=queue,
            gang=gang,
            where=in_context(copy_context(), where),
            buffer=buffer,
            lag=lag,
        )
        return open_reader(self._bridge, self._readers, observe)

    async def settle(self) -> None:
        """Wait until everything that was let in before is decided and announced; see :meth:`muster.Scheduler.settle`."""
        await self._bridge.call(self._inner.settle)

    async def snapshot(self) -> Snapshot:
        """Have every owner publish what it owns; it takes as long as the state is large; see :meth:`muster.Scheduler.snapshot`."""
        return await self._bridge.call(self._inner.snapshot)

    def statistics(self) -> Statistics:
        """Give how much was done so far; see :meth:`muster.Scheduler.statistics`."""
        return self._inner.statistics()

    async def examine(self, examiner: Callable[[Examined], None]) -> None:
        """Have the whole state looked at, at rest; for :func:`muster.testing.check`; see :meth:`muster.Scheduler.examine`."""
        await self._bridge.call(partial(self._inner.examine, examiner))
