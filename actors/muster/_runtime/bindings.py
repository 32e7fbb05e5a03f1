"""The tasks in which a binder does the work of allocations, one task for each allocation."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

import attrs
import trio

from muster._runtime.calls import (
    Note,
    StartFailed,
    WorkEnded,
    WorkStarted,
    counts,
    failure_in,
    in_words,
)
from muster._runtime.tracking import CLOSED, AllocationStatus, Closed, TrackedAsk
from muster_core.decisions import Reason

_LOG: Final = logging.getLogger("muster.binder")

Work = Callable[["TrackedAsk", "AllocationStatus", Callable[[], None]], Awaitable[None]]
"""Does the work of one allocation, and calls the last argument when the work has started."""


def _own_scope() -> trio.CancelScope:
    # Only this scope cancels the work, so that the reason can be set before.
    return trio.CancelScope(shield=True)


@final
@attrs.define(eq=False)
class _Job:
    """One run of a binder.

    Attributes:
        do: Does the work.
        ask: The ask.
        held: Its allocation.
        before: The previous run of the ask, which may still be ending, or None.
        scope: Cancelled to end the run. Cancellations from outside do not reach the run otherwise.
        settled: Set when the work has started, or will not start any more.
        finished: Set when the binder has returned or raised.
        has_begun: Whether the binder was called.
        has_started: Whether the binder has reported that the work has started.
        is_reported: Whether the end or failure of the work was reported to the coordinator.
        is_late: Whether the work did not start in time.
    """

    do: Work
    ask: TrackedAsk
    held: AllocationStatus
    before: _Job | None
    scope: trio.CancelScope = attrs.field(factory=_own_scope)
    settled: trio.Event = attrs.field(factory=trio.Event)
    finished: trio.Event = attrs.field(factory=trio.Event)
    has_begun: bool = False
    has_started: bool = False
    is_reported: bool = False
    is_late: bool = False

    async def wait_for_earlier(self) -> None:
        """Wait until all earlier runs of the ask have finished."""
        while (earlier := self.unfinished()) is not None:
            await earlier.finished.wait()

    def unfinished(self) -> _Job | None:
        """Return the last earlier run of the ask that has not finished, or None."""
        while self.before is not None and self.before.finished.is_set():
            self.before = self.before.before  # Drop finished runs, or they would all be kept.
        return self.before

    def start(self) -> None:
        """Record that the work has started."""
        if not self.settled.is_set():
            self.has_started = True
            self.settled.set()

    def end(self, _: Reason | Closed | None) -> None:
        """Cancel the work, because the allocation has ended."""
        self.scope.cancel()


@final
class Bindings:
    """Runs a binder for every allocation.

    Args:
        work: Does the work of an allocation.
        timeout_s: How long the binder may take to start work, in seconds of trio's clock.
        notify: Sends a note to the coordinator; it may wait for a place at the entry.
        resume: Goes on with the work of an allocation from an earlier run of the program; None if
            the binder cannot.
    """

    def __init__(
        self,
        work: Work,
        timeout_s: float,
        notify: Callable[[Note], Awaitable[None]],
        resume: Work | None = None,
    ) -> None:
        self._do = work
        self._resume = resume
        self._timeout_s = timeout_s
        self._notify = notify
        #: The last unfinished run of each ask, by the names of application and ask.
        self._jobs: dict[tuple[str, str], _Job] = {}

    @property
    def can_resume(self) -> bool:
        """Whether the binder can go on with the work of an earlier run of the program."""
        return self._resume is not None

    def start(
        self,
        nursery: trio.Nursery,
        ask: TrackedAsk,
        held: AllocationStatus,
        *,
        resume: bool = False,
    ) -> None:
        """Start the work of an allocation.

        Args:
            nursery: The nursery in which it runs.
            ask: The ask.
            held: Its allocation.
            resume: Whether to go on with the work instead, as the binder can.
        """
        name = (ask.app, ask.name)
        do = self._resume if resume else self._do
        assert do is not None, "the binder cannot resume"
        job = self._jobs[name] = _Job(do, ask, held, self._jobs.get(name))
        nursery.start_soon(self._run, job)

    async def _run(self, job: _Job) -> None:
        try:
            await self._supervise(job)
            if not job.is_reported and not job.is_late and job.held.ended.value is None:
                # The binder has cancelled the nursery around it, so no note was sent.
                error = RuntimeError("the binder has cancelled itself")
                await self._notify(StartFailed(job.ask, job.held, error, counts=counts(error)))
        except BaseExceptionGroup as group:
            first, *others = group.exceptions
            if others:
                raise
            # An exception that ends the program, such as SystemExit, is raised unchanged.
            raise first from None

    async def _supervise(self, job: _Job) -> None:
        with job.held.ended.notifying(job.end):
            if job.held.ended.value is not None:  # It ended before this task began.
                job.scope.cancel()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._work, job)
                try:
                    await self._watch(job)
                except BaseException:
                    # The work is shielded, so nothing else would cancel it.
                    if not nursery.cancel_scope.cancel_called:  # else it has cancelled itself
                        job.held.is_to_end(CLOSED)
                    job.scope.cancel()
                    raise

    async def _watch(self, job: _Job) -> None:
        """Wait until the work has started, or has not in time, and until the run has finished."""
        with trio.move_on_after(self._timeout_s):
            await job.settled.wait()
        if job.has_started:
            await self._notify(WorkStarted(job.ask, job.held))
        elif not job.settled.is_set():
            await self._give_up(job)
        await job.finished.wait()

    async def _give_up(self, job: _Job) -> None:
        """Report that the work did not start in time, without waiting for the binder to end."""
        job.is_late = True
        job.settled.set()
        job.held.is_to_end(Reason.BIND_FAILED)
        job.scope.cancel()
        why = "" if job.has_begun else ", as an earlier run of the ask had not ended"
        error = TimeoutError(f"the work had not started after {self._timeout_s:g} s{why}")
        await self._notify(StartFailed(job.ask, job.held, error, counts=job.has_begun))

    async def _work(self, job: _Job) -> None:
        error: Exception | None = None
        try:
            with job.scope:
                await job.wait_for_earlier()
                if not job.scope.cancel_called:  # Otherwise the allocation or the time is over.
                    job.has_begun = True
                    await job.do(job.ask, job.held, job.start)
        except Exception as raised:  # noqa: BLE001 - any exception means that the bind failed
            error = raised
        except BaseExceptionGroup as group:
            # A binder with a nursery raised while it was cancelled from outside: only the
            # cancellation counts.
            _, others = group.split(Exception)
            if others is not None:
                raise others from None
        finally:
            self._finish(job)
        if job.is_late or job.scope.cancelled_caught or job.held.ended.value is not None:
            return
        failure = None if error is None else failure_in(error)
        if error is None or failure is not None:
            await self._notify(WorkEnded(job.ask, job.held, failure))
        else:
            name = f"{job.ask.app}/{job.ask.name}"
            _LOG.warning("the work of %s could not be started: %s", name, in_words(error))
            _LOG.debug("the work of %s could not be started", name, exc_info=error)
            await self._notify(StartFailed(job.ask, job.held, error, counts=counts(error)))
        job.is_reported = True

    def _finish(self, job: _Job) -> None:
        job.finished.set()
        job.settled.set()
        name = (job.ask.app, job.ask.name)
        if self._jobs.get(name) is job:
            del self._jobs[name]
            # A run that was cancelled while it waited leaves the run for which it waited.
            earlier = job.unfinished()
            if earlier is not None:
                self._jobs[name] = earlier
