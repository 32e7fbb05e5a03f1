"""The handle of an allocation in trio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal, final

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
from muster._surface.allocation import Allocation, outcome_of
from muster_core.decisions import Reason
from muster_core.events import Exit, Outcome

_FOR_OTHERS: Final = frozenset({Reason.PREEMPTED, Reason.RECLAIMED})
_FOR_GOOD: Final = frozenset({Reason.COMPLETED, Reason.REMOVED, Reason.CANCELLED})

# Looking up a member of an enum takes ten times as long.
_COMPLETED: Final = Outcome.COMPLETED
_FAILED: Final = Reason.FAILED


@final
class TrioAllocation(Allocation):
    """An allocation in trio: the same as any, but :meth:`running` yields a cancel scope."""

    def __init__(self, client: Client, tracked: TrackedAsk, held: Held) -> None:
        super().__init__(
            app=tracked.app,
            ask=tracked.name,
            node=held.node,
            queue=tracked.queue,
            resources=tracked.resources,
            gang=tracked.gang,
            number=held.number,
            peers=held.peers,
            step=held.step,
            work=tracked.work,
            kept=client.keeps,
            devices=dict(held.devices),
        )
        self._client = client
        self._tracked = tracked
        self._held = held
        #: How many calls of :meth:`release` have succeeded or are running: these do not end bodies.
        self._releases = 0
        #: The function that ends each body of :meth:`running`.
        self._bodies: list[Callable[[Reason | Closed | None], None]] = []

    @property
    @override
    def ending(self) -> Reason | Literal["closing"] | None:
        ending = self._held.why_ending()
        return "closing" if isinstance(ending, Closed) else ending

    @override
    async def release(
        self,
        outcome: Outcome | str = _COMPLETED,
        message: str | None = None,
        exited: Exit | None = None,
    ) -> bool:
        """Release the allocation: its work has ended; see :meth:`muster.Allocation.release`."""
        checked = outcome_of(outcome)
        self._releases += 1
        try:
            return await self._end(checked, message, exited)
        except BaseException:
            # The release failed. The bodies now get an end that they have ignored meanwhile.
            self._releases -= 1
            for cut_short in self._bodies:
                cut_short(self._held.ended.value)
            raise

    async def _end(
        self,
        outcome: Outcome = _COMPLETED,
        message: str | None = None,
        exited: Exit | None = None,
    ) -> bool:
        call = EndAllocation(self._tracked, self._held, outcome, message, exited)
        return await self._client.call(call, call.answer)

    @override
    async def ended(self) -> Reason:
        """Wait until the allocation has ended; see :meth:`muster.Allocation.ended`."""
        await trio.lowlevel.checkpoint()
        while True:
            match self._held.ended.value:
                case None:
                    await self._held.ended.changed()
                case Closed():
                    await raise_closed()
                case reason:
                    return reason

    @override
    @asynccontextmanager
    async def running(self) -> AsyncGenerator[trio.CancelScope, None]:
        """Run the body of an ``async with`` block while the allocation lasts.

        Yields:
            The cancel scope of the body.

        Raises:
            AllocationLostError: See :meth:`Allocation.running`.
            AllocationEndedError: See :meth:`Allocation.running`.
            ClosedSchedulerError: See :meth:`Allocation.running`.
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

    def _is_lost(self, end: Reason | Closed) -> bool:
        """Return whether the allocation was lost, so that its work must be done again."""
        if end is _FAILED:
            return not self._held.for_good
        return isinstance(end, Reason) and end not in _FOR_GOOD

    def _cut_short(self, end: Reason | Closed) -> Exception:
        if isinstance(end, Closed):
            return closed()
        msg = f"the allocation of {self.app}/{self.ask} on {self.node} ended: {end.value}"
        if self._held.message is not None:
            msg += f": {self._held.message}"
        if end in _FOR_OTHERS:
            return PreemptedError(msg, end)
        return (AllocationLostError if self._is_lost(end) else AllocationEndedError)(msg, end)
