"""Dry runs: what events would lead to, tried on a copy of the state in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs
import trio

from muster.service.problems import Problem
from muster_core.coordinator.plain import PlainScheduler

if TYPE_CHECKING:
    from muster._runtime.clients.calls import Guard
    from muster.service.input.running import Running
    from muster_core.events import Event
    from muster_core.facts import Facts

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


@final
@attrs.frozen
class Tried:
    """What events would lead to.

    Attributes:
        errors: Why events would be refused, by their number.
        decisions: The decisions of their batch, as lines of the decision log.
    """

    errors: dict[int, str]
    decisions: Sequence[dict[str, object]]


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
        return await trio.to_thread.run_sync(_tried, facts, now_us, events, guard)

    return await runs.run(work)


def _tried(facts: Facts, now_us: int, events: Sequence[Event], guard: Guard | None) -> Tried:
    scheduler = PlainScheduler(facts=facts)
    machine = scheduler.machine
    scheduler.pass_until(now_us)  # Timers that are due go off before, in batches of their own.
    scheduler.announced = []
    index = facts.coordinator.requests
    denied: dict[int, str] = {}
    positions: dict[int, int] = {}
    for number, event in enumerate(events):
        if guard is not None:
            if guard.must_hear_first(event, machine):
                scheduler.hear()
            if (refusal := guard.refusal(event, machine)) is not None:
                denied[number] = refusal
                continue
        scheduler.submit(event, index=index)
        index += 1
        positions[number] = machine.entered
    if positions:
        scheduler.settle()
    refusals = {number: machine.refusal_of(position) for number, position in positions.items()}
    refused = {number: one for number, one in refusals.items() if one is not None}
    tried = Tried(denied | refused, [one.as_map() for one in scheduler.announced])
    # Freeing all of it at once would hold up the other threads.
    for _ in scheduler.free():
        pass
    return tried
