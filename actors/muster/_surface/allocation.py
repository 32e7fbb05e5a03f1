"""Allocations, and the binders that start and end their work.

An allocation is the same for a program in trio and in asyncio; its handle in trio is here, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, Literal, Protocol, final

import trio
from typing_extensions import override

from muster._errors import (
    AllocationEndedError,
    AllocationLostError,
    ClosedSchedulerError,
    PreemptedError,
)
from muster._runtime.calls import Client, EndAllocation, raise_closed
from muster._runtime.entry import closed_error
from muster._runtime.tracking import AllocationStatus, Closed, TrackedAsk
from muster_core.decisions import EVICTIONS, GONE, Reason
from muster_core.errors import EventError
from muster_core.events import Exit, Outcome, Work
from muster_core.resources import Resources


class Allocation(ABC):
    """The handle of an allocation: the resources that a bound ask holds on a node.

    Code that is annotated with this class works in trio and in asyncio. The two differ in what
    :meth:`running` yields: see :class:`muster.TrioAllocation` and
    :class:`muster.asyncio.AsyncioAllocation`.

    Attributes:
        app: The name of the application.
        ask: The name of the ask.
        node: The name of the node.
        queue: The path of the application's queue.
        resources: The resources that the ask holds, in base units.
        devices: The numbers of the devices that the ask holds on the node, by type, such as
            ``{"gpu": (0, 1)}``; the type counts among the resources as ``device/gpu``.
        gang: The full name of the gang of the ask, or None.
        number: The place of the bind in the order of all binds. No two allocations of a scheduler
            have the same one, even after a restart with a store.
        peers: How many members of its gang were bound in the same step, this one included: those
            that are to start together. 1 for an ask without a gang, and for a member that came
            after its gang was satisfied. Where the bind is older than this program, or than its
            first use of the ask, it is the number of members that are bound now.
        step: The lowest ``number`` among these members, by which they know each other; 0 if the
            bind is older, as above, and the ask has a gang.
        work: The work of the ask (``command``, ``env``, ``workdir``), or None.
        kept: Whether the scheduler has a store, so that a binder with ``resume`` may leave the
            work alone when the scheduler is closed, and go on with it after a restart.
    """

    def __init__(
        self,
        *,
        app: str,
        ask: str,
        node: str,
        queue: str,
        resources: Resources,
        gang: str | None,
        number: int,
        peers: int,
        step: int,
        work: Work | None,
        kept: bool,
        devices: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.app: Final = app
        self.ask: Final = ask
        self.node: Final = node
        self.queue: Final = queue
        self.resources: Final = resources
        self.gang: Final = gang
        self.number: Final = number
        self.peers: Final = peers
        self.step: Final = step
        self.work: Final = work
        self.kept: Final = kept
        self.devices: Final = devices

    @property
    @abstractmethod
    def ending(self) -> Reason | Literal["closing"] | None:
        """Why the allocation ends: the reason, or ``"closing"`` when the scheduler is closed.

        None while it lasts. It is set before the task of a binder is cancelled. If the work did
        not start in time, it is ``bind_failed``, shortly before the allocation ends with this
        reason.
        """

    @property
    @abstractmethod
    def message(self) -> str | None:
        """The message of the decision that ended it, such as for which ask it was preempted.

        None while it lasts, or if the decision says nothing.
        """

    @abstractmethod
    async def release(
        self,
        outcome: Outcome | str = Outcome.COMPLETED,
        message: str | None = None,
        exited: Exit | None = None,
    ) -> bool:
        """Release the allocation: the work has completed or failed, or is not wanted any more.

        An ask that failed is pending again if it has a retry left, else it is gone.

        A body of :meth:`running` of this handle continues. To stop it, cancel it, or release the
        ask by name.

        Args:
            outcome: ``completed``, ``failed`` or ``cancelled``.
            message: The message about the end in the decision log, or None.
            exited: How its process has ended, and what it has used, or None.

        Returns:
            Whether the allocation lasted until this call. If not, nothing is done, not even to
            a later allocation of the ask.

        Raises:
            EventError: If there is no such outcome.
            ClosedSchedulerError: If the scheduler is closed.
        """

    @abstractmethod
    async def ended(self) -> Reason:
        """Wait until the allocation has ended.

        Returns:
            The reason. After ``completed``, ``cancelled``, ``removed`` and ``run_limit`` the ask is
            gone; after ``failed`` it is gone if it had no retry left. After all other reasons it is
            pending again, or parked if its gang has timed out; but one with ``once`` is gone,
            except after ``bind_failed``.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """

    @abstractmethod
    def running(self) -> AbstractAsyncContextManager[object]:
        """Run the body of an ``async with`` block while the allocation lasts.

        If the allocation ends from outside, the body is cancelled. When the body ends, raises or
        is cancelled otherwise, the allocation is released, as completed. If the allocation was
        lost before that, the block raises even if the body has ended normally: the ask is pending
        again.

        Raises:
            AllocationLostError: If the allocation was lost. The ask is pending again, and
                ``bound`` returns its next allocation. The subclass :class:`PreemptedError` says
                that other asks needed the node.
            AllocationEndedError: If the body was cancelled because the ask is gone: it has
                completed or failed for the last time, was removed or cancelled, has reached its
                run limit, or does not come back (``once``).
            ClosedSchedulerError: If the body was cancelled because the scheduler was closed.
        """

    @override
    def __repr__(self) -> str:
        return f"<Allocation {self.app}/{self.ask} on {self.node}>"


def outcome_of(outcome: Outcome | str) -> Outcome:
    """Return the outcome that an argument names.

    Raises:
        EventError: If there is no such outcome.
    """
    try:
        return Outcome(outcome)
    except ValueError:
        msg = f"outcome: {outcome!r}: there are {', '.join(Outcome)}"
        raise EventError(msg) from None


BIND_TIMEOUT_S: Final = 30.0
"""The default for how long a binder may take to start the work of an ask, in seconds."""

BIND_ATTEMPTS: Final = 3
"""The default for how often in a row an ask may end as ``bind_failed``."""


class Binder(Protocol):
    """An object of a program that does the work of bound asks, in trio or in asyncio.

    A binder that raises or takes long affects only its own asks: the scheduler continues.
    """

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Do the work of one allocation, in a task of its own.

        When this returns, the work has ended: the allocation is released, as completed. When it
        raises :class:`muster.WorkFailedError`, alone or in a group, the work has failed: the
        allocation is released as failed, with the message of the error, and the ask is pending
        again if it has a retry left. When it raises another exception, the work could not be
        started: the allocation is released as ``bind_failed``, and the ask is pending again, or
        removed if that was the last of ``bind_attempts``. :class:`muster.NotStartedError` does not
        count as an attempt.

        The task is cancelled if the allocation ends in another way (preempted, reclaimed,
        removed, cancelled, its node lost, its ``run_for`` over, its run limit reached, or the
        scheduler closed), or if ``started`` was not called in time. :attr:`Allocation.ending`
        then says why. The task should end the work, and may take some time for that: the same ask
        does not run again before this has returned, but other asks may use the node.

        :func:`muster.open_scheduler` runs it as a task of trio. With
        :func:`muster.asyncio.open_scheduler` it is a task of the program's loop, with the context
        variables of the task that opened the scheduler.

        Args:
            allocation: The allocation.
            started: To call when the work has started, from this task or another one of the same
                thread; ``bound`` does not return before. Further calls do nothing.
        """
        ...


class ResumingBinder(Binder, Protocol):
    """A binder that can find work again that it started before the program was restarted.

    Pass it wherever a :class:`Binder` is expected: the method ``resume`` is optional, and is used
    if it is there.
    """

    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Go on with the work of an allocation that was bound when an earlier program ended.

        It is called instead of :meth:`run`, with the same meaning of returning, raising and being
        cancelled, and with the same time to call ``started``. If the work cannot be found, raise:
        then the allocation is released as ``bind_failed``, and the work begins again.

        Args:
            allocation: The allocation, as it was.
            started: To call when the work was found.
        """
        ...


@final
class TrioAllocation(Allocation):
    """An allocation in trio: the same as any, but :meth:`running` yields a cancel scope."""

    def __init__(self, client: Client, tracked: TrackedAsk, held: AllocationStatus) -> None:
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

    @property
    @override
    def message(self) -> str | None:
        return self._held.message

    @override
    async def release(
        self,
        outcome: Outcome | str = Outcome.COMPLETED,
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
        outcome: Outcome = Outcome.COMPLETED,
        message: str | None = None,
        exited: Exit | None = None,
    ) -> bool:
        return await self._client.call(
            EndAllocation(self._tracked, self._held, outcome, message, exited)
        )

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

        with scope, ended.notifying(cut_short):
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
        if end is Reason.FAILED:
            return not self._held.for_good
        return isinstance(end, Reason) and end not in GONE and not self._is_gone()

    # ONCE-2
    def _is_gone(self) -> bool:
        """Return whether the ask does not come back and was lost with its allocation."""
        return self._tracked.once and self._held.for_good

    def _cut_short(self, end: Reason | Closed) -> Exception:
        if isinstance(end, Closed):
            return closed_error()
        msg = f"the allocation of {self.app}/{self.ask} on {self.node} ended: {end.value}"
        if end in {Reason.FAILED, Reason.CANCELLED} and self._held.message is not None:
            msg += f": {self._held.message}"
        if end in EVICTIONS and not self._is_gone():
            return PreemptedError(msg, end)
        return (AllocationLostError if self._is_lost(end) else AllocationEndedError)(msg, end)
