"""The running service, as its handlers see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, final

import attrs

from muster._runtime.clients.calls import Inspect, TakeFacts
from muster._runtime.clock import WallClock
from muster.service.streaming.findings import Findings

if TYPE_CHECKING:
    from muster._runtime.clients.calls import Answer, Call
    from muster._runtime.clients.client import Client
    from muster._surface.scheduler import Scheduler
    from muster.service.access.sessions import Sessions
    from muster.service.access.who import Access
    from muster.service.config_file import ConfigFile
    from muster.service.health import Health
    from muster.service.input.intake import Intake
    from muster.service.ledger.ledger import Ledger
    from muster.service.limits.counting import Usage
    from muster.service.local.binder import LocalBinder
    from muster.service.metrics.metrics import Metrics
    from muster.service.options import ServeOptions
    from muster.service.past.moments import Moments
    from muster.service.ray.binder import RayWork
    from muster.service.roll import Roll
    from muster.service.streaming.broadcast import Broadcast
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.facts import Facts
    from muster_core.structures.steps import Steps

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class Service:
    """The running service.

    Attributes:
        scheduler: The scheduler.
        client: Sends calls to the scheduler.
        ledger: What was let in and decided, as far as lists need it.
        roll: All asks in the order in which they were added.
        access: Who may do what.
        options: What the service was started with.
        usage: All limits, with what is in use and what was refused.
        health: Whether it works.
        broadcast: The latest decisions, and those who follow them.
        metrics: What is measured of it.
        local: Runs the commands of asks on this machine, or None.
        ray: Runs the commands of asks on Ray, or None.
        origin_us: The origin of the scheduler's time, in microseconds since 1970 in UTC.
        intake: What it remembers of what came in.
        started_us: When the service started, in microseconds since 1970 in UTC.
        sessions: Who has logged in to the page.
        findings: What the page has found in the latest decisions.
        config_file: The file of ``--config``, and what it said last.
        past: The past states that were looked at last.
    """

    scheduler: Scheduler
    client: Client
    ledger: Ledger
    roll: Roll
    access: Access
    options: ServeOptions
    usage: Usage
    health: Health
    broadcast: Broadcast
    metrics: Metrics
    local: LocalBinder | None
    ray: RayWork | None
    origin_us: int
    intake: Intake
    started_us: int
    sessions: Sessions
    config_file: ConfigFile
    past: Moments
    findings: Findings = attrs.field(factory=Findings)

    async def look(self, read: Callable[[CoordinatorMachine], Steps[T]]) -> T:
        """Read the state between two batches; everything before is announced.

        Args:
            read: Reads the machine in steps, and changes nothing.

        Raises:
            Problem: 503 if too many calls wait already.
            MusterError: What ``read`` raises.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = Inspect(read)
        return await self.call(call, call.answer)

    # ACCESS-11
    async def call(self, call: Call, answer: Answer[T]) -> T:
        """Send a call of a client to the scheduler, and return its answer.

        Args:
            call: The call.
            answer: The answer of this call, for its type.

        Raises:
            Problem: 503 if too many calls wait already.
            MusterError: If the scheduler answers with this error.
            ClosedSchedulerError: If the scheduler is closed.
        """
        with self.usage.calls.taken():
            return await self.client.call(call, answer)

    def configured_us(self) -> int | None:
        """Return when a configuration came in last, in microseconds since 1970, or None."""
        at_us = self.ledger.book.configured_us
        return None if at_us is None else self.unix_us(at_us)

    def now_us(self) -> int:
        """Return the present instant of the machine's clock, in microseconds since the origin."""
        return WallClock.now_us() - self.origin_us

    async def facts(self) -> Facts:
        """Return the whole state between two batches, as values that never change.

        Raises:
            Problem: 503 if too many calls wait already.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = TakeFacts()
        return await self.call(call, call.answer)

    def unix_us(self, at_us: int) -> int:
        """Return an instant of the scheduler in microseconds since 1970 in UTC."""
        return self.origin_us + at_us
