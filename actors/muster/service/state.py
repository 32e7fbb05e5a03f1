"""The running service, as its handlers see it, with idempotency keys, dry runs and leases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, final

import attrs

from muster._runtime.calls import Call, Client
from muster._runtime.clock import WallClock
from muster.service.decision_log import SubjectDecisions
from muster.service.input.dry_runs import OneAtATime
from muster.service.input.leases import Leases
from muster.service.input.submission import IdempotencyKeys
from muster_core.config.model import Configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.facts import Facts
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster._surface.scheduler import Scheduler
    from muster.service.access import Access
    from muster.service.ask_index import AskIndex
    from muster.service.authentication import Sessions
    from muster.service.health import Health
    from muster.service.input.configuration import ConfigFile, ConfigOrigin
    from muster.service.ledger.ledger import Ledger
    from muster.service.limits import Usage
    from muster.service.metrics.scrape import Metrics
    from muster.service.options import Backend, ServeOptions
    from muster.service.past.states import PastStateCache
    from muster.service.replication.election import Election
    from muster.service.replication.followers import Followers
    from muster.service.replication.following import Following
    from muster.service.replication.leadership import Leadership
    from muster.service.streams import Broadcast


@final
@attrs.frozen(eq=False)
class Intake:
    """The idempotency keys, dry-run slots and leases of the service.

    Attributes:
        repeats: The requests that may be repeated.
        dry_runs: Lets one dry run after the other go on.
        comparisons: Likewise, for comparisons with the kept history.
        leases: The leases of nodes.
    """

    repeats: IdempotencyKeys
    dry_runs: OneAtATime
    comparisons: OneAtATime
    leases: Leases


def open_intake(state: Path | None, leases: Leases) -> Intake:
    """Return what a service remembers at its start.

    Args:
        state: The state directory, or None without one.
        leases: The leases of nodes.
    """
    tries, comparisons = (
        OneAtATime(f"too many wait for {what} already") for what in ("a dry run", "a comparison")
    )
    return Intake(IdempotencyKeys(state), tries, comparisons, leases)


T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class Service:
    """The running service.

    Attributes:
        scheduler: The scheduler.
        client: Sends calls to the scheduler.
        ledger: What was let in and decided, as far as lists need it.
        ask_index: All asks in the order in which they were added.
        access: Who may do what.
        options: What the service was started with.
        usage: All limits, with what is in use and what was refused.
        health: Whether it works.
        broadcast: The latest decisions, and those who follow them.
        metrics: What is measured of it.
        backend: Runs the commands of asks, or None.
        origin_us: The origin of the scheduler's time, in microseconds since 1970 in UTC.
        intake: What it remembers of what came in.
        started_us: When the service started, in microseconds since 1970 in UTC.
        sessions: Who has logged in to the page.
        findings: The cache of decisions about the subjects of open pages.
        config_file: The file of ``--config``, and what it said last.
        past: The past states that were looked at last.
        leadership: Whether it leads or follows.
        following: How it follows, or has followed, the leader; None if it never did.
        election: The lease by which it leads, or None.
    """

    scheduler: Scheduler
    client: Client
    ledger: Ledger
    ask_index: AskIndex
    access: Access
    options: ServeOptions
    usage: Usage
    health: Health
    broadcast: Broadcast
    metrics: Metrics
    backend: Backend | None
    origin_us: int
    intake: Intake
    started_us: int
    sessions: Sessions
    config_file: ConfigFile
    past: PastStateCache
    leadership: Leadership
    following: Following | None
    election: Election | None
    findings: SubjectDecisions = attrs.field(factory=SubjectDecisions)

    async def inspect(self, read: Callable[[CoordinatorMachine], Steps[T]]) -> T:
        """Read the state between two batches; everything before is announced.

        Args:
            read: Reads the machine in steps, and changes nothing.

        Raises:
            Problem: 503 if too many calls wait already.
            MusterError: What ``read`` raises.
            ClosedSchedulerError: If the scheduler is closed.
        """
        with self.usage.calls.taken():
            return await self._followers.unless_held(partial(self.client.read, read))

    # ACCESS-11
    async def call(self, call: Call[T]) -> T:
        """Send a call of a client to the scheduler, and return its answer.

        Raises:
            Problem: 503 if too many calls wait already.
            MusterError: If the scheduler answers with this error.
            ClosedSchedulerError: If the scheduler is closed.
        """
        with self.usage.calls.taken():
            return await self._followers.unless_held(partial(self.client.call, call))

    @property
    def _followers(self) -> Followers:
        return self.leadership.followers

    # ACCESS-41
    def config_origin(self, configuration: Configuration) -> ConfigOrigin:
        """Return where the configuration in force is from."""
        followed = None if self.backend is None else self.backend.followed_configuration()
        return self.config_file.origin_of(configuration, self.configured_us(), followed)

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
        with self.usage.calls.taken():
            inspect = self.client.inspect
            return await self._followers.unless_held(
                lambda: inspect(lambda batches, _: batches.facts())
            )

    def unix_us(self, at_us: int) -> int:
        """Return an instant of the scheduler in microseconds since 1970 in UTC."""
        return self.origin_us + at_us
