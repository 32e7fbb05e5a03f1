"""The running scheduler that an asyncio program embeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, final

import muster
from muster.asyncio._decisions import Decisions
from muster.asyncio._handles import Application, Ask, Gang
from muster.asyncio._mirror import Mirror, called, each, given, like

if TYPE_CHECKING:
    from muster_core.decisions import Announced
    from muster_core.errors import RefusedError
    from muster_core.events import Event
    from muster_core.snapshots import Statistics


@final
class Scheduler(Mirror[muster.Scheduler]):
    """A running scheduler, like :class:`muster.Scheduler`; :func:`open_scheduler` creates it.

    Only tasks of the event loop in which it was opened may call the methods. If a task is
    cancelled during a call, the call is cancelled, too, and the task waits for its end. A call
    that was cancelled has done nothing. If it is too late to cancel a call, it returns its
    result, and the task is cancelled where it waits next.

    Functions that a program passes in (filters of decisions, examiners, journals that are not
    asynchronous) are called on the scheduler's side, with :attr:`Mode.THREAD` in another thread.
    """

    __repr__ = object.__repr__  # that of the inner one would name a class of trio

    configure = called(muster.Scheduler.configure)
    add_priority_class = called(muster.Scheduler.add_priority_class)

    add_node = called(muster.Scheduler.add_node)
    update_node = called(muster.Scheduler.update_node)
    remove_node = called(muster.Scheduler.remove_node)

    add_app = called(muster.Scheduler.add_app, Application)
    remove_app = called(muster.Scheduler.remove_app)
    add_ask = called(muster.Scheduler.add_ask, Ask)
    add_asks = called(muster.Scheduler.add_asks, each(Ask))
    remove_ask = called(muster.Scheduler.remove_ask)
    release = called(muster.Scheduler.release)

    add_gang = called(muster.Scheduler.add_gang, Gang)
    remove_gang = called(muster.Scheduler.remove_gang)

    apply = called(muster.Scheduler.apply)
    delete = called(muster.Scheduler.delete)
    submit = called(muster.Scheduler.submit)

    @like(muster.Scheduler.submit_many)
    async def submit_many(
        self, events: Iterable[Event | Mapping[str, object]]
    ) -> tuple[RefusedError | None, ...]:
        """Read the iterable of events in the caller's task, not on the trio side."""
        return await self._bridge.call(partial(self._inner.submit_many, tuple(events)))

    app = given(muster.Scheduler.app, Application)
    ask = given(muster.Scheduler.ask, Ask)
    gang = given(muster.Scheduler.gang, Gang)
    asks = called(muster.Scheduler.asks, each(Ask))

    @like(muster.Scheduler.decisions)
    def decisions(
        self,
        *,
        where: Callable[[Announced], bool] | None = None,
        **others: Any,  # noqa: ANN401 - the signature of the mirrored method gives their types
    ) -> Decisions:
        """Run the filter with the context variables of the caller."""
        context = copy_context()
        inner = self._inner.decisions(
            where=None if where is None else lambda announced: context.run(where, announced),
            **others,
        )
        return Decisions(self._bridge, inner)

    settle = called(muster.Scheduler.settle)
    checkpoint = called(muster.Scheduler.checkpoint)
    snapshot = called(muster.Scheduler.snapshot)
    examine = called(muster.Scheduler.examine)

    @like(muster.Scheduler.statistics)
    def statistics(self) -> Statistics:
        """Read the statistics directly, without a call."""
        return self._inner.statistics()
