"""The tasks in which a binder does the work of allocations, one task for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, final

import attrs
import trio

from muster._runtime.clients.calls import Note, WorkEnded, WorkFailed, WorkStarted

if TYPE_CHECKING:
    from muster._runtime.clients.tracking import Closed, Held, TrackedAsk
    from muster_core.decisions import Reason

Work = Callable[["TrackedAsk", "Held", Callable[[], None]], Awaitable[None]]
"""Does the work of one allocation; the last argument is to be called when it has started."""


@final
@attrs.define(eq=False)
class _Job:
    """One run of a binder.

    Attributes:
        ask: The ask.
        held: Its allocation.
        before: An earlier run of the ask, which may be about to end.
        scope: Cancelled when the run is to end.
        settled: Set when the work has started, or will not any more.
        finished: Set when the binder has come back.
    """

    ask: TrackedAsk
    held: Held
    before: _Job | None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    settled: trio.Event = attrs.field(factory=trio.Event)
    finished: trio.Event = attrs.field(factory=trio.Event)
    has_begun: bool = False
    has_started: bool = False
    has_told: bool = False
    is_late: bool = False

    async def wait_for_earlier(self) -> None:
        """Wait until no earlier run of the ask is about to end any more."""
        while (earlier := self.unfinished()) is not None:
            await earlier.finished.wait()

    def unfinished(self) -> _Job | None:
        """Give the run that an own one has to wait for, or None."""
        while self.before is not None and self.before.finished.is_set():
            self.before = self.before.before  # Else the runs of an ask would all be kept.
        return self.before

    def start(self) -> None:
        """Take note that the work has started."""
        if not self.settled.is_set():
            self.has_started = True
            self.settled.set()

    def end(self, _: Reason | Closed | None) -> None:
        """Have the work ended."""
        self.scope.cancel()


@final
class Bindings:
    """Runs a binder for every allocation.

    Args:
        work: Does the work of an allocation.
        timeout_s: How long it may take to start work, in seconds of trio's clock.
        tell: Sends the coordinator word; may wait, as nobody waits for a binder.
    """

    def __init__(
        self,
        work: Work,
        timeout_s: float,
        tell: Callable[[Note], Awaitable[None]],
    ) -> None:
        self._do = work
        self._timeout_s = timeout_s
        self._tell = tell
        #: The last run of each ask that has not come back, by the names of both.
        self._jobs: dict[tuple[str, str], _Job] = {}

    def start(self, nursery: trio.Nursery, ask: TrackedAsk, held: Held) -> None:
        """Start the work of an allocation.

        Args:
            nursery: Where it runs.
            ask: The ask.
            held: Its allocation.
        """
        name = (ask.app, ask.name)
        job = self._jobs[name] = _Job(ask, held, self._jobs.get(name))
        nursery.start_soon(self._run, job)

    async def _run(self, job: _Job) -> None:
        try:
            await self._supervise(job)
            if not job.has_told and not job.is_late and job.held.ended.value is None:
                # It has cancelled what it runs in, and with it the word that it has ended.
                error = RuntimeError("the binder has cancelled itself")
                await self._tell(WorkFailed(job.ask, job.held, error))
        except BaseExceptionGroup as group:
            first, *others = group.exceptions
            if others:
                raise
            # What a binder leaves a program by, such as SystemExit, comes out as it is.
            raise first from None

    async def _supervise(self, job: _Job) -> None:
        with job.held.ended.heard_by(job.end):
            if job.held.ended.value is not None:  # It was over before this task had begun.
                job.scope.cancel()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._work, job)
                with trio.move_on_after(self._timeout_s):
                    await job.settled.wait()
                if job.has_started:
                    await self._tell(WorkStarted(job.ask, job.held))
                elif not job.settled.is_set():
                    await self._give_up(job)

    async def _give_up(self, job: _Job) -> None:
        """Say that the work did not start in time, without waiting for the binder to see it."""
        job.is_late = True
        job.settled.set()
        job.scope.cancel()
        why = "" if job.has_begun else ", as an earlier run of the ask had not ended"
        error = TimeoutError(f"the work had not started after {self._timeout_s:g} s{why}")
        await self._tell(WorkFailed(job.ask, job.held, error, counts=job.has_begun))

    async def _work(self, job: _Job) -> None:
        error: Exception | None = None
        try:
            with job.scope:
                await job.wait_for_earlier()
                if not job.scope.cancel_called:  # Else it is over, or was given up as never begun.
                    job.has_begun = True
                    await self._do(job.ask, job.held, job.start)
        except Exception as raised:  # noqa: BLE001 - whatever it is, the work failed
            error = raised
        except BaseExceptionGroup as group:
            # Of a binder with a nursery: the block is being left, and it failed at that.
            _, others = group.split(Exception)
            if others is not None:
                raise others from None
        finally:
            self._has_come_back(job)
        if job.is_late or job.scope.cancelled_caught or job.held.ended.value is not None:
            return
        job.has_told = True
        if error is None:
            await self._tell(WorkEnded(job.ask, job.held))
        else:
            await self._tell(WorkFailed(job.ask, job.held, error))

    def _has_come_back(self, job: _Job) -> None:
        job.finished.set()
        job.settled.set()
        name = (job.ask.app, job.ask.name)
        if self._jobs.get(name) is job:
            del self._jobs[name]
            # One that was cancelled while it waited leaves behind what it waited for.
            earlier = job.unfinished()
            if earlier is not None:
                self._jobs[name] = earlier
