"""The handle of an allocation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, final

import trio
from typing_extensions import override

from muster._errors import (
    AllocationEndedError,
    AllocationLostError,
    ClosedSchedulerError,
    PreemptedError,
)
from muster._runtime.clients.calls import EndAllocation
from muster._runtime.clients.client import Client, raise_closed
from muster._runtime.clients.tracking import Closed, Held, TrackedAsk
from muster._runtime.entry import closed
from muster_core.decisions import Reason
from muster_core.resources import Resources

_FOR_OTHERS: Final = frozenset({Reason.PREEMPTED, Reason.RECLAIMED})
_FOR_GOOD: Final = frozenset({Reason.COMPLETED, Reason.REMOVED})


@final
class Allocation:
    """The handle of an allocation: the resources that a bound ask holds on a node.

    Attributes:
        app: The name of the application.
        ask: The name of the ask.
        node: The name of the node.
        queue: The path of the application's queue.
        resources: The resources that the ask holds, in base units.
        gang: The full name of the gang of the ask, or None.
    """

    def __init__(self, client: Client, tracked: TrackedAsk, held: Held) -> None:
        self._client = client
        self._tracked = tracked
        self._held = held
        #: How many calls of :meth:`release` have succeeded or are running: these do not end bodies.
        self._releases = 0
        #: The function that ends each body of :meth:`running`.
        self._bodies: list[Callable[[Reason | Closed | None], None]] = []
        self.app: str = tracked.app
        self.ask: str = tracked.name
        self.node: str = held.node
        self.queue: str = tracked.queue
        self.resources: Resources = tracked.resources
        self.gang: str | None = tracked.gang

    async def release(self) -> bool:
        """Release the allocation: the work has finished, and the ask has completed.

        A body of :meth:`running` of this handle continues. To stop it, cancel its scope, or
        release the ask by name.

        Returns:
            Whether the allocation lasted until this call. If not, nothing is done, also not to
            a later allocation of the ask.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        self._releases += 1
        try:
            return await self._end()
        except BaseException:
            # The release failed. The bodies now get an end that they have ignored meanwhile.
            self._releases -= 1
            for cut_short in self._bodies:
                cut_short(self._held.ended.value)
            raise

    async def _end(self) -> bool:
        call = EndAllocation(self._tracked, self._held)
        return await self._client.call(call, call.answer)

    async def ended(self) -> Reason:
        """Wait until the allocation has ended.

        Returns:
            The reason. After all reasons except ``completed`` and ``removed`` the ask is pending
            again.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        await trio.lowlevel.checkpoint()
        while True:
            match self._held.ended.value:
                case None:
                    await self._held.ended.changed()
                case Closed():
                    await raise_closed()
                case reason:
                    return reason

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[trio.CancelScope, None]:
        """Run the body of an ``async with`` block while the allocation lasts.

        If the allocation ends from outside, the body is cancelled. When the body ends, raises or
        is cancelled otherwise, the allocation is released. If the allocation was lost before
        that, the block raises even if the body has ended normally: the ask is pending again.

        Yields:
            The cancel scope of the body.

        Raises:
            AllocationLostError: If the allocation was lost. The ask is pending again, and
                :meth:`Ask.bound` returns its next allocation. The subclass
                :class:`PreemptedError` says that other asks needed the node.
            AllocationEndedError: If the body was cancelled because the ask has completed or
                was removed.
            ClosedSchedulerError: If the body was cancelled because the scheduler was closed.
        """
        ended = self._held.ended
        #: Why the body is cut short; empty if it is not.
        ends: list[Reason | Closed] = []
        scope = trio.CancelScope()
        is_over = False

        def cut_short(end: Reason | Closed | None) -> None:
            if end is not None and not self._releases and not is_over:
                ends.append(end)
                scope.cancel()

        with scope, ended.heard_by(cut_short):
            if ended.value is not None:
                ends.append(ended.value)
                scope.cancel()
            self._bodies.append(cut_short)
            try:
                await trio.lowlevel.checkpoint()
                yield scope
            finally:
                is_over = True
                self._bodies.remove(cut_short)
                if ended.value is None:
                    with trio.CancelScope(shield=True), suppress(ClosedSchedulerError):
                        await self._end()
        if ends and (scope.cancelled_caught or self._is_lost(ends[0])):
            raise self._cut_short(ends[0])

    @staticmethod
    def _is_lost(end: Reason | Closed) -> bool:
        """Return whether the allocation was lost, so that its work must be done again."""
        return isinstance(end, Reason) and end not in _FOR_GOOD

    def _cut_short(self, end: Reason | Closed) -> Exception:
        if isinstance(end, Closed):
            return closed()
        msg = f"the allocation of {self.app}/{self.ask} on {self.node} ended: {end.value}"
        if end in _FOR_OTHERS:
            return PreemptedError(msg, end)
        return (AllocationEndedError if end in _FOR_GOOD else AllocationLostError)(msg, end)

    @override
    def __repr__(self) -> str:
        return f"<Allocation {self.app}/{self.ask} on {self.node}>"
