"""Costs: waits of asks, usage, losses by evictions, and the evenness of shares (Jain's index).

All figures follow from what a census reports, at the instants at which it happens. Sums are whole
numbers, so they do not depend on the order within an instant, nor on what else happens in between.
Of waits, one number for each ask is kept, and summarised on request.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, final

import attrs

from muster.figures.usage import UsageAccount, total
from muster.replay._census import LiveAsk
from muster.replay._jobs import JobTable
from muster.replay._measures import JobBook, JobMeasures, Waits, size_resource_of
from muster.replay._parts import PartsOfQueues, QueuePart, due_of, dues_of
from muster_core.config.model import Configuration
from muster_core.decisions import EVICTIONS, MICROSECONDS, Reason, ends_ask
from muster_core.resources import Resources
from muster_core.structures.amounts import add_to
from muster_core.values.resources import has_parts

_MILLI: Final = 1000
"""The base units of one ``vcore``."""

_ONE: Final = 2**40
"""The number for a share, or an index, of 1."""


_WHOLE: Final = Fraction(1)


@final
@attrs.frozen
class LostRuns:
    """Runs that were cut short and have to be run again.

    Attributes:
        runs: How many there were.
        run_s: How long they had run together, in seconds.
        resource_s: For each resource type, the amount times the seconds for which it was held:
            cores of ``vcore``, bytes of ``memory``.
    """

    runs: int = 0
    run_s: float = 0.0
    resource_s: Mapping[str, float] = attrs.field(factory=dict[str, float])


@final
@attrs.frozen
class Fairness:
    """How even the dominant shares are, over time: Jain's index, from 0 to 1.

    Attributes:
        queues: The mean of the index of leaf queues, weighted by time, over the time at which two
            or more have or want something and one of them has something; None if there was none.
        queues_s: This time, in seconds.
        users: The same, of users.
        users_s: The same, of users.
    """

    queues: float | None = None
    queues_s: float = 0.0
    users: float | None = None
    users_s: float = 0.0


@final
@attrs.define
class _Lost:
    """The sums of :class:`LostRuns`, in microseconds and base units times microseconds."""

    runs: int = 0
    run_us: int = 0
    areas: dict[str, int] = attrs.field(factory=dict[str, int])

    def add(self, other: _Lost) -> None:
        self.runs += other.runs
        self.run_us += other.run_us
        add_to(self.areas, other.areas)

    def figures(self) -> LostRuns:
        return LostRuns(
            self.runs,
            self.run_us / MICROSECONDS,
            {
                kind: area / (MICROSECONDS * (_MILLI if has_parts(kind) else 1))
                for kind, area in sorted(self.areas.items())
            },
        )


@final
@attrs.define(eq=False)
class _Party:
    """A queue or a user.

    Attributes:
        asks: How many asks it has, with and without a node.
        usage: Their holdings and usage.
        share: Its dominant share that counts now, where :data:`_ONE` is 1, divided by its due.
        due: The part that weights give it.
    """

    asks: int = 0
    usage: UsageAccount = attrs.field(factory=UsageAccount)
    share: int = 0
    due: Fraction = _WHOLE


# COMMAND-23
@final
class _Parties:
    """The queues, or the users, with their shares over time."""

    def __init__(self) -> None:
        self._parties: dict[str | None, _Party] = {}
        self._dues: Mapping[str, Fraction] = {}
        #: Those whose share may have changed at this instant.
        self._stale: dict[_Party, None] = {}
        self._all_are_stale = False
        #: How many have an ask, the sum of their shares, and that of the squares of these.
        self._count = self._sum = self._squares = 0
        #: The integral of the index over time, and the time.
        self._area = self._time_us = 0

    def wants(self, name: str | None, by: int) -> None:
        """Change the number of asks of a party by 1 or -1."""
        party = self._parties.get(name)
        if party is None:
            party = self._parties[name] = _Party(due=due_of(name, self._dues))
        if by > 0:
            self._count += not party.asks
            party.asks += 1
        else:
            party.asks -= 1
            self._count -= not party.asks

    def take(self, name: str | None, amounts: Resources, at_us: int) -> None:
        """Add the resources of an ask of a party."""
        party = self._parties[name]
        party.usage.take(amounts.amounts, at_us)
        self._stale[party] = None

    def give_back(self, name: str | None, amounts: Resources, at_us: int) -> None:
        """Subtract the resources of an ask of a party."""
        party = self._parties[name]
        party.usage.give_back(amounts.amounts, at_us)
        self._stale[party] = None

    def spoil(self) -> None:
        """Record that the capacity has changed."""
        self._all_are_stale = True

    def owe(self, dues: Mapping[str, Fraction]) -> None:
        """Let each party have the part that weights give it, by :func:`dues_of`."""
        self._dues = dues
        for name, party in self._parties.items():
            party.due = due_of(name, dues)
        self._all_are_stale = True

    def stay(self, for_us: int, capacity: Mapping[str, int]) -> None:
        """Let time pass in which nothing changes."""
        if self._stale or self._all_are_stale:
            for party in self._parties.values() if self._all_are_stale else self._stale:
                self._weigh(party, capacity)
            self._stale.clear()
            self._all_are_stale = False
        if self._count > 1 and self._sum:
            index = self._sum * self._sum * _ONE // (self._count * self._squares)
            self._area += index * for_us
            self._time_us += for_us

    def _weigh(self, party: _Party, capacity: Mapping[str, int]) -> None:
        share = 0
        for kind, amount in party.usage.held.items():
            there = capacity.get(kind)
            if there:
                share = max(share, amount * _ONE // there)
        if party.due is not _WHOLE:
            share = share * party.due.denominator // party.due.numerator
        before = party.share
        if share != before:
            self._sum += share - before
            self._squares += share * share - before * before
            party.share = share

    @property
    def mean(self) -> tuple[float | None, float]:
        """The mean of the index, and the time over which it is one, in seconds."""
        time_us = self._time_us
        index = self._area / (_ONE * time_us) if time_us else None
        return index, time_us / MICROSECONDS

    def each_used(self, now_us: int) -> Mapping[str, Mapping[str, int]]:
        """Return the usage of each party until now: amounts times time."""
        return {
            name: party.usage.areas(now_us)
            for name, party in self._parties.items()
            if name is not None
        }

    def each_held(self) -> Mapping[str, Mapping[str, int]]:
        """Return the holdings of each party."""
        known = self._parties.items()
        return {name: party.usage.held for name, party in known if name is not None}

    def used(self, names: Iterable[str] | None, now_us: int) -> Mapping[str, int]:
        """Return the usage of some parties, or of all, until now: amounts times time."""
        known = self._parties
        found = (
            known.values() if names is None else (known[name] for name in names if name in known)
        )
        return total(party.usage.used(now_us) for party in found).areas

    def check(self, held: Mapping[str, int]) -> None:
        """Assert the invariants, given all that asks hold; for tests."""
        parties = self._parties.values()
        assert self._count == sum(party.asks > 0 for party in parties)
        assert self._sum == sum(party.share for party in parties)
        assert self._squares == sum(party.share**2 for party in parties)
        # A party that holds resources has an ask.
        assert all(party.asks or not party.usage.held for party in parties)
        together: Counter[str] = Counter()
        for party in parties:
            together.update(party.usage.held)
        assert together == held


@final
@attrs.define(eq=False)
class QueueCosts:
    """The figures of a queue from a census.

    Attributes:
        jobs: How many applications were submitted to it.
        waits: How long its asks waited until their first bind.
        unbound: How long its asks waited that ended without having been bound.
        evicted: How often an ask of it was evicted, by reason.
        lost: The runs that it lost, by reason.
    """

    jobs: int = 0
    waits: Waits = attrs.field(factory=Waits)
    unbound: Waits = attrs.field(factory=Waits)
    evicted: Counter[Reason] = attrs.field(factory=Counter[Reason])
    lost: dict[Reason, _Lost] = attrs.field(factory=lambda: defaultdict[Reason, _Lost](_Lost))


def _shares(used: Mapping[str, int], offered: Mapping[str, int]) -> dict[str, float | None]:
    return {
        kind: used.get(kind, 0) / area if area else None for kind, area in sorted(offered.items())
    }


@final
class Costs:
    """A listener of a census that adds up usage, waits, evictions and lost runs, and weighs shares.

    Args:
        keeps_jobs: Whether to keep all jobs for a table.

    Attributes:
        queues: The figures of each queue, by path.
        asks_bound: How many asks were bound at least once.
        jobs: The figures of jobs.
    """

    def __init__(self, *, keeps_jobs: bool = False) -> None:
        self.queues: dict[str, QueueCosts] = defaultdict(QueueCosts)
        self.asks_bound = 0
        self.jobs = JobBook(keeps=keeps_jobs)
        self._now_us = 0
        #: When the first job was submitted, and when an ask was last bound or released.
        self._first_us: int | None = None
        self._last_us: int | None = None
        #: The holdings and usage of all asks; and these and the capacity until the last ask came.
        self._used = UsageAccount()
        self._arrived_us = -1
        self._until_arrival: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
        #: The highest capacity of all nodes.
        self._most_there: dict[str, int] = {}
        self._nodes: dict[str, Resources] = {}
        #: The capacity of all nodes, over time.
        self._capacity = UsageAccount()
        self._by_queue = _Parties()
        self._by_user = _Parties()
        self._parts = PartsOfQueues(
            self._by_queue.each_used,
            self._capacity.areas,
            self._by_queue.each_held,
            self._capacity.held,
        )

    def pass_to(self, at_us: int) -> None:
        """Advance to an instant, in microseconds."""
        passed_us = at_us - self._now_us
        if passed_us > 0:
            self._now_us = at_us
            self._by_queue.stay(passed_us, self._capacity.held)
            self._by_user.stay(passed_us, self._capacity.held)
            self._parts.pass_to(at_us)

    # A listener

    def configured(self, at_us: int, configuration: Configuration) -> None:
        """Let a configuration be in force."""
        self.pass_to(at_us)
        self._parts.configure(configuration.root, at_us)
        self._by_queue.owe(dues_of(configuration.root))

    def node(self, at_us: int, name: str, capacity: Resources | None) -> None:
        """Record the capacity of a node."""
        self.pass_to(at_us)
        before = self._nodes.pop(name, None)
        if before is not None:
            self._capacity.give_back(before.amounts, at_us)
        if capacity is not None:
            self._nodes[name] = capacity
            self._capacity.take(capacity.amounts, at_us)
            self.jobs.nodes.setdefault(name, len(self.jobs.nodes))
            for kind, amount in self._capacity.held.items():
                self._most_there[kind] = max(self._most_there.get(kind, 0), amount)
        self._by_queue.spoil()
        self._by_user.spoil()
        self._parts.resize(at_us)

    def job(self, at_us: int, app: str, queue: str | None, user: str | None) -> None:
        """Count an application."""
        if queue is None:
            self.jobs.completed(app)
            return
        self.queues[queue].jobs += 1
        self.jobs.submitted(at_us, app, queue, user)
        if self._first_us is None:
            self._first_us = max(at_us, self._now_us)

    def pending(self, at_us: int, ask: LiveAsk) -> None:
        """Count an ask that wants a node."""
        self._count(at_us, ask, 1)
        if ask.came_us == at_us > self._arrived_us:
            self._arrived_us = at_us
            self._until_arrival = self._used.areas(at_us), self._capacity.areas(at_us)
        self._parts.want(ask.queue, 1, at_us)

    def _count(self, at_us: int, ask: LiveAsk, by: int) -> None:
        """Count an ask, with or without a node; or no more, with -1."""
        if at_us > self._now_us:
            self.pass_to(at_us)
        self._by_queue.wants(ask.queue, by)
        self._by_user.wants(ask.user, by)

    def taken(self, at_us: int, ask: LiveAsk) -> None:
        """Count an ask no more, or until it holds its node."""
        self._count(at_us, ask, -1)
        self._parts.want(ask.queue, -1, at_us)
        self.jobs.taken(at_us, ask)

    def held(self, at_us: int, ask: LiveAsk) -> None:
        """Count an ask that has a node."""
        self._count(at_us, ask, 1)
        self._parts.hold(ask.queue, ask.resources.amounts, 1, at_us)
        self._by_queue.take(ask.queue, ask.resources, at_us)
        self._by_user.take(ask.user, ask.resources, at_us)
        self._used.take(ask.resources.amounts, at_us)
        self.jobs.held(ask)

    def bound(self, at_us: int, ask: LiveAsk, wait_us: int | None) -> None:
        """Count an ask that is bound for the first time."""
        self._last_us = at_us
        self.jobs.bound(at_us, ask, is_known=wait_us is not None)
        if wait_us is not None:
            self.asks_bound += 1
            self.queues[ask.queue].waits.add(wait_us)

    def unbound(self, at_us: int, ask: LiveAsk, wait_us: int) -> None:
        """Record how long an ask waited that was never bound."""
        self.queues[ask.queue].unbound.add(wait_us)

    def lost_node(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        """Count the loss of an ask with its node."""
        self._count(at_us, ask, -1)
        self._parts.hold(ask.queue, ask.resources.amounts, -1, at_us)
        self._by_queue.give_back(ask.queue, ask.resources, at_us)
        self._by_user.give_back(ask.user, ask.resources, at_us)
        self._used.give_back(ask.resources.amounts, at_us)
        self.jobs.lost_node(at_us, ask, reason)
        if ask.bound_us is not None:
            self._last_us = at_us
        if reason is not Reason.COMPLETED and reason is not None:
            self._ended(at_us, ask, reason)

    def priority(self, at_us: int, queue: str, value: int | None) -> None:
        """Do nothing: the costs show in the decisions."""

    # COMMAND-22
    def _ended(self, at_us: int, ask: LiveAsk, reason: Reason) -> None:
        queue = self.queues[ask.queue]
        if reason in EVICTIONS:
            queue.evicted[reason] += 1
        # ONCE-2: what an ask did that lost its node is lost, also if it does not come back.
        if ends_ask(reason, ask.retries) or ask.bound_us is None:
            return
        run_us = at_us - ask.bound_us
        areas = {kind: amount * run_us for kind, amount in ask.resources.items()}
        queue.lost[reason].add(_Lost(1, run_us, areas))

    def check(self, held: Iterable[Resources]) -> None:
        """Assert the invariants, given what asks hold; for tests."""
        amounts: dict[str, int] = {}
        for one in held:
            add_to(amounts, one)
        self._by_queue.check(amounts)
        self._by_user.check(amounts)
        capacity: dict[str, int] = {}
        for one in self._nodes.values():
            add_to(capacity, one)
        assert capacity == self._capacity.held

    # Results

    def _each(self, queues: Iterable[str] | None) -> Iterable[QueueCosts]:
        known = self.queues
        return known.values() if queues is None else [known[one] for one in queues if one in known]

    def lost(self, queues: Iterable[str] | None = None) -> dict[str, LostRuns]:
        """Return the runs that some queues, or all, have lost, by the reason of the release."""
        found: dict[Reason, _Lost] = defaultdict(_Lost)
        for queue in self._each(queues):
            for reason, lost in queue.lost.items():
                found[reason].add(lost)
        return {str(reason): found[reason].figures() for reason in Reason if reason in found}

    # COMMAND-32
    def waits(self, queues: Iterable[str] | None = None) -> Waits:
        """Return how long asks of some queues, or of all, waited that ended without a node."""
        found = Waits()
        for queue in self._each(queues):
            found.extend(queue.unbound)
        return found

    def shares(self, queues: Iterable[str] | None = None) -> dict[str, float | None]:
        """Return the share of each type that some queues, or all, have used, from 0 to 1."""
        now_us = self._now_us
        used = self._used.areas(now_us) if queues is None else self._by_queue.used(queues, now_us)
        return _shares(used, self._capacity.areas(now_us))

    # COMMAND-36
    def shares_until_arrival(self) -> dict[str, float | None]:
        """Return the share of each type that was used until the last ask came; empty if none came."""
        return _shares(*self._until_arrival)

    @property
    def makespan_s(self) -> float | None:
        """The time from the first job to the last bind or release, in seconds."""
        if self._first_us is None or self._last_us is None:
            return None
        return (self._last_us - self._first_us) / MICROSECONDS

    def measures(self, size_resource: str | None = None) -> JobMeasures:
        """Return the measures of jobs, after their end; by default with the size that suits best."""
        return self.jobs.measures(size_resource or size_resource_of(self.shares()))

    def table(self, workload: str, origin_us: int | None) -> JobTable:
        """Return the table of jobs, after their end."""
        kind = size_resource_of(self.shares())
        most = self._most_there.get(kind or "", 0)
        jobs = self.jobs.jobs()
        return JobTable(jobs, workload, kind, len(self.jobs.nodes), most, origin_us)

    def parts(self) -> tuple[QueuePart, ...]:
        """Return the parts had and due of queues below parents with a half-life."""
        return self._parts.parts(self._now_us)

    def fairness(self) -> Fairness:
        """Return how even the shares were until now."""
        return Fairness(*self._by_queue.mean, *self._by_user.mean)
