"""Dry runs: what events would lead to, tried on a copy of the state in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, final

import trio

from muster._runtime import trial
from muster.service.problems import Problem

if TYPE_CHECKING:
    from muster._runtime.clients.calls import Guard
    from muster._runtime.trial import Tried
    from muster.service.input.running import Running
    from muster_core.events import Event

T = TypeVar("T")

_MOST_WAITING: Final = 8
"""How many may wait until a thread is free."""


@final
class OneAtATime:
    """Work in a thread of which only one is done at a time.

    Args:
        what: What it is, for messages.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._limiter = trio.CapacityLimiter(1)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do work when nothing else is being done.

        Raises:
            Problem: 503 if too many wait already.
        """
        if self._limiter.statistics().tasks_waiting >= _MOST_WAITING:
            told = f"too many wait for {self._what} already"
            raise Problem(503, told, headers={"Retry-After": "5"})
        async with self._limiter:
            return await work()


# INPUT-8
async def try_events(
    service: Running, runs: OneAtATime, events: Sequence[Event], guard: Guard | None
) -> Tried:
    """Return what events would lead to if they were let in now.

    Args:
        service: The service, which does not change.
        runs: Lets one dry run after the other go on.
        events: The events.
        guard: Judges which of them are let in, or None.

    Raises:
        Problem: 503 if too many dry runs wait already.
        ClosedSchedulerError: If the scheduler is closed.
    """

    async def work() -> Tried:
        facts = await service.facts()
        now_us = max(service.now_us(), facts.coordinator.now_us)
        return await trio.to_thread.run_sync(trial.try_events, facts, now_us, events, guard)

    return await runs.run(work)
