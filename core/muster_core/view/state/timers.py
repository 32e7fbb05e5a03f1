"""Timers: what happens without an event, and when.

Deadlines are kept in order; those that no longer apply are removed from time to time.

- Back-offs (BACKOFF-3, BACKOFF-6, BACKOFF-10): when an ask whose bind has failed is tried again.
  While it backs off, its application has it aside: it counts as pending, but nothing that picks
  asks sees it.
- The ends of allocations, of application states and of the waits of gangs.
- The ends of run limits, and the instants by which asks must be bound (TIME-3, TIME-8).
- ``preemption.min.runtime`` (RUNTIME-2 to RUNTIME-4): when others may take the places of bound asks.
- ``quota.preemption.delay`` (QUOTA-4): when queues have been over their ``max`` for long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar, final

from muster_core.owners.asks import Allocation, Ask, back_off_us
from muster_core.structures.steps import PART, Steps, in_pieces
from muster_core.values.application_states import TIMERS_US, AppState
from muster_core.values.configuration import PreemptionPolicy, Settings
from muster_core.values.decisions import Reason
from muster_core.values.records import record
from muster_core.view.facts import StateEndFacts, TimerFacts
from muster_core.view.gang_index import GangIndex
from muster_core.view.gangs import ViewGang
from muster_core.view.state.delays import Delays
from muster_core.view.state.history import OverMax
from muster_core.view.state.usage_book import UsageBook
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue

E = TypeVar("E", bound=tuple[int, *tuple[object, ...]])

_DEADLINES_KEPT: Final = 64
"""How many deadlines are kept before those that no longer apply are removed."""


class Deadlines(Generic[E]):
    """Deadlines in order, each a tuple that begins with its instant.

    A deadline that no longer applies is removed when it is the first, or when there are twice as
    many deadlines as the last such removal left. So there are never many more than twice as
    many as apply, however distant they are.

    Args:
        stands: Returns whether a deadline still applies; called between two batches.

    Attributes:
        heap: All deadlines, also those that no longer apply.
        limit: How many there may be before :meth:`tidy` is called after a batch.
    """

    __slots__ = ("_stands", "heap", "limit")

    def __init__(self, stands: Callable[[E], bool]) -> None:
        self._stands = stands
        self.heap: list[E] = []
        self.limit = _DEADLINES_KEPT

    def add(self, deadline: E) -> None:
        """Add a deadline."""
        heappush(self.heap, deadline)

    def first_us(self) -> int | None:
        """Return the first instant that applies, or None; call it between two batches."""
        heap = self.heap
        while heap and not self._stands(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now_us: int) -> E | None:
        """Remove and return the first deadline if it is due; call it between two batches."""
        heap = self.heap
        while heap and heap[0][0] <= now_us:
            first = heappop(heap)
            if self._stands(first):
                return first
        return None

    def tidy(self) -> Steps[None]:
        """Remove all deadlines that no longer apply."""
        found: dict[E, None] = {}
        for piece in in_pieces(self.heap):
            yield
            found.update(dict.fromkeys(filter(self._stands, piece)))
        kept = list(found)
        if len(kept) < len(self.heap):
            heapify(kept)
        self._set(kept)

    def all(self) -> Steps[tuple[E, ...]]:
        """Return all deadlines that apply, for :meth:`load`; call it between two batches."""
        yield from self.tidy()
        return tuple(self.heap)

    def load(self, deadlines: Iterable[E]) -> Steps[None]:
        """Replace all deadlines."""
        heap: list[E] = []
        for piece in in_pieces(deadlines):
            yield
            for deadline in piece:  # They come in the order of a heap, so that this is quick.
                heappush(heap, deadline)
        self._set(heap)

    def _set(self, heap: list[E]) -> None:
        self.heap = heap
        self.limit = 2 * len(heap) + _DEADLINES_KEPT


BackOffEnd = tuple[int, int, str]
"""The end of a back-off in microseconds, the key of the application, and the name of the ask."""


@final
class BackOffs:
    """The ends of all back-offs."""

    def __init__(self, apps: Mapping[int, ViewApp], queues: Mapping[int, ViewQueue]) -> None:
        self._apps = apps
        self._queues = queues
        #: Whether settings have changed, so that other asks may back off now.
        self.stale = False
        #: The ends, in order.
        self.ends: Deadlines[BackOffEnd] = Deadlines(self._stands)

    def __bool__(self) -> bool:
        """Return whether an ask may back off."""
        return self.stale or bool(self.ends.heap)

    def until_us(self, app: ViewApp, ask: str) -> int:
        """Return the instant before which an ask is not tried, in microseconds; 0 is any time."""
        failed = app.in_a_row.get(ask)
        delay_us = self._queues[app.identity.leaf].config.settings.bind_retry_us
        return 0 if failed is None or not delay_us else failed.until_us(delay_us)

    def add(self, app: ViewApp, ask: Ask) -> None:
        """Add the end of the back-off of an ask, which begins to back off."""
        self.ends.add((self.until_us(app, ask.name), app.identity.key, ask.name))

    def over(self, now_us: int) -> Iterator[tuple[ViewApp, Ask]]:
        """Iterate over the asks whose back-off is over; each must have ended when the next comes."""
        while (end := self.ends.take_due(now_us)) is not None:
            _, key, name = end
            app = self._apps[key]
            yield app, app.backing_off[name]

    # BACKOFF-3, BACKOFF-16
    def _stands(self, entry: BackOffEnd) -> bool:
        until_us, key, name = entry
        app = self._apps.get(key)
        return app is not None and name in app.backing_off and self.until_us(app, name) == until_us


ProtectionEnd = tuple[int, int, int, str]
"""The instant in microseconds, the number of the bind, the application's key, the ask's name."""


@final
class Protections:
    """The ends of the protection of bound asks against eviction."""

    def __init__(
        self, apps: Mapping[int, ViewApp], queues: Mapping[int, ViewQueue], delays: Delays
    ) -> None:
        self._apps = apps
        self._queues = queues
        self._delays = delays
        #: How many were over so far when a batch began.
        self.over = 0
        self.ends: Deadlines[ProtectionEnd] = Deadlines(self._stands)

    # RUNTIME-4
    def add(self, leaf: LeafView, app: ViewApp, allocation: Allocation) -> None:
        """Add the end of the protection of an ask that is bound, if it may be evicted later."""
        if self._counts_in(leaf):
            self.ends.add(_end_of(leaf, app, allocation))

    def _counts_in(self, leaf: LeafView) -> bool:
        settings = leaf.config.settings
        gives = settings.preemption_policy is not PreemptionPolicy.DISABLED
        return self._delays.enabled and settings.min_runtime_us > 0 and gives

    def refresh(self) -> Steps[None]:
        """Find the ends of all protections again, since settings have changed."""
        found: list[ProtectionEnd] = []
        for queue in self._queues.values():
            if not isinstance(queue, LeafView) or not self._counts_in(queue):
                continue
            for app in queue.apps.values():
                for piece in in_pieces(app.bound.values(), PART):
                    yield
                    ends = (_end_of(queue, app, allocation) for allocation, _ in piece)
                    found.extend(end for end in ends if end[0] > self._delays.passed_us)
        if found or self.ends.heap:
            yield from self.ends.load(found)

    def pass_to(self, now_us: int) -> None:
        """Count the protections that are over; between two batches."""
        while self.ends.take_due(now_us) is not None:
            self.over += 1

    # RUNTIME-2
    def is_over(self, allocation: Allocation, min_runtime_us: int) -> bool:
        """Return whether an ask of a leaf with a minimum run time has been bound for so long."""
        return allocation.bound_us + min_runtime_us <= self._delays.passed_us

    def _stands(self, entry: ProtectionEnd) -> bool:
        _, number, key, ask = entry
        app = self._apps.get(key)
        held = None if app is None else app.bound.get(ask)
        return held is not None and held[0].number == number


def _end_of(leaf: LeafView, app: ViewApp, allocation: Allocation) -> ProtectionEnd:
    end_us = allocation.bound_us + leaf.config.settings.min_runtime_us
    return (end_us, allocation.number, app.identity.key, allocation.ask.name)


@final
@record
class Completion:
    """The end of an allocation with a ``run_for``."""

    app: int
    ask: str


@final
@record
class StateEnd:
    """The end of the time that an application may be in a state."""

    app: int


@final
@record
class WaitEnd:
    """The end of the time that members of a gang may wait."""

    gang: str


@final
@record
class TimeUp:
    """An ask has no more time: it has reached its run limit, or is not bound when it had to be."""

    app: int
    ask: str
    reason: Reason


@final
@record
class GangRetry:
    """The end of the back-off of a gang that has timed out."""

    gang: str


Due = Completion | WaitEnd | StateEnd | TimeUp | GangRetry
"""A due timer."""


@final
class Timers:
    """All deadlines.

    Args:
        gangs: The gangs of the view.

    Attributes:
        usages: What queues have used, which goes by the time of batches.
        settings: The settings of the root, which has those of gangs.
    """

    def __init__(
        self,
        apps: Mapping[int, ViewApp],
        queues: Mapping[int, ViewQueue],
        gangs: GangIndex,
        delays: Delays,
        back_offs: BackOffs,
    ) -> None:
        self._apps = apps
        self._gangs: Mapping[str, ViewGang] = gangs.gangs
        #: The gangs that have waiting members, and those that a timeout has marked.
        self._waiting: Mapping[str, ViewGang] = gangs.waiting
        self._timed_out: Mapping[str, ViewGang] = gangs.timed_out
        self._delays = delays
        self._back_offs = back_offs
        self.usages = UsageBook()
        #: When others may take the places of bound asks.
        self.protections = Protections(apps, queues, delays)
        #: The queues that have more than their ``max``.
        self.over_max = OverMax(queues)
        #: How many stays in a state there were so far; distinguishes each from all others.
        self._stays = 0
        self.settings = Settings()
        #: The instant, the number of the bind, the application's key, the ask's name.
        self._completions = Deadlines(self._holds)
        #: The instant, the application's key, the number of the stay, the state.
        self._state_ends = Deadlines(self._lasts)
        #: As the completions.
        self._run_limits = Deadlines(self._holds)
        #: The instant, the application's key, the ask's name and place in the input.
        self._starts = Deadlines(self._is_not_bound)
        self._all = (
            self._completions,
            self._state_ends,
            back_offs.ends,
            self._run_limits,
            self._starts,
            self.protections.ends,
        )

    # FEED-29, BACKFILL-11
    def bound(self, app: ViewApp, allocation: Allocation, now_us: int) -> None:
        """Add the deadline of a new allocation, if it has a ``run_for``."""
        run_for_us, limit_us = allocation.ask.run_for_us, allocation.limit_us
        # TIME-4
        if run_for_us is not None and (limit_us is None or run_for_us <= limit_us):
            due_us = now_us + run_for_us
            entry = (due_us, allocation.number, app.identity.key, allocation.ask.name)
            self._completions.add(entry)

    # TIME-3, TIME-4
    def limit(self, app: ViewApp, allocation: Allocation) -> None:
        """Add the end of the time for which an ask may be bound, unless it completes by then."""
        run_for_us, limit_us = allocation.ask.run_for_us, allocation.limit_us
        if limit_us is not None and (run_for_us is None or limit_us < run_for_us):
            due_us = allocation.bound_us + limit_us
            entry = (due_us, allocation.number, app.identity.key, allocation.ask.name)
            self._run_limits.add(entry)

    # TIME-8, TIME-10
    def await_start(self, app: ViewApp, ask: Ask) -> None:
        """Add the instant by which an ask that is not bound must be, if that is not over."""
        if ask.start_by_us is not None and ask.start_by_us >= self._delays.passed_us:
            self._starts.add((ask.start_by_us, app.identity.key, ask.name, ask.seq))

    # APP-5, APP-10
    def entered(self, app: ViewApp, now_us: int) -> None:
        """Add the deadline of the state that an application has entered, if the state has one."""
        self._stays += 1
        app.stay = self._stays
        limit_us = TIMERS_US.get(app.state)
        if limit_us is not None:
            entry = (now_us + limit_us, app.identity.key, app.stay, app.state)
            self._state_ends.add(entry)

    def next_us(self) -> int | None:
        """Return the instant of the next deadline, in microseconds, or None."""
        heads = [ends.first_us() for ends in self._all if ends.heap]
        heads.append(self._delays.next_us())
        if self._waiting:
            heads.extend(end_us for gang in self._waiting.values() for end_us in self.ends(gang))
        if self._timed_out:
            heads.extend(map(self.retries_us, self._timed_out.values()))
        # QUOTA-4
        if self.over_max.since:
            heads.append(self.over_max.next_us(self._delays.passed_us))
        return min([at_us for at_us in heads if at_us is not None], default=None)

    def tidy(self) -> Steps[None]:
        """Remove deadlines that no longer apply, if there are many; call it after a batch."""
        for ends in self._all:
            if len(ends.heap) > ends.limit:
                yield from ends.tidy()

    # GANG-5, GANG-14, GANG-42
    def ends(self, gang: ViewGang) -> Iterator[int]:
        """Return the instant at which the current wait of a gang ends, if there is one.

        A wait begins at the end of a batch: a node that is released in the batch in which it was
        taken starts no wait. The instant is computed when needed, since few gangs wait at a time
        and the length of a wait can change.
        """
        if gang.since_us is not None and gang.definition is not None:
            wait_us = gang.definition.wait_us
            yield gang.since_us + (self.settings.gang_wait_us if wait_us is None else wait_us)

    # GANG-59, GANG-61
    def retries_us(self, gang: ViewGang) -> int | None:
        """Return when a gang that a timeout has marked loses its mark, or None."""
        delay_us, timeout = self.settings.gang_retry_us, gang.timeout
        if timeout is None or not delay_us or timeout.number > self.settings.gang_retry_limit:
            return None
        return timeout.at_us + back_off_us(delay_us, timeout.number)

    # ROUND-3, GANG-62
    def due(self, now_us: int) -> list[Due]:
        """Remove and return the deadlines that are due.

        Returns:
            Completions in bind order, then waits of gangs in the order of their creation,
            then the applications' timers; then run limits in bind order, then retries of gangs in
            the order of their creation, then asks that are not bound when they had to be.
        """
        due: list[Due] = []
        completing: dict[int, int] = {}
        self.usages.clock.now_us = now_us
        # The ends of these only start a batch.
        self._delays.pass_to(now_us)
        if self.protections.ends.heap:
            self.protections.pass_to(now_us)
        while (over := self._completions.take_due(now_us)) is not None:
            due.append(Completion(app=over[2], ask=over[3]))
            completing[over[2]] = completing.get(over[2], 0) + 1
        if self._waiting:
            gangs = [
                gang for gang in self._waiting.values() for end in self.ends(gang) if end <= now_us
            ]
            due.extend(WaitEnd(gang.name) for gang in sorted(gangs, key=lambda gang: gang.rank()))
        while (end := self._state_ends.take_due(now_us)) is not None:
            ended = completing.get(end[1])
            # APP-9: the completions come first, and end the state if they leave no ask.
            if ended is None or ended < self._apps[end[1]].count():
                due.append(StateEnd(app=end[1]))
        while (over := self._run_limits.take_due(now_us)) is not None:
            due.append(TimeUp(over[2], over[3], Reason.RUN_LIMIT))
        if self._timed_out:
            retried = [gang for gang in self._timed_out.values() if self._is_retried(gang, now_us)]
            due.extend(
                GangRetry(gang.name) for gang in sorted(retried, key=lambda gang: gang.rank())
            )
        if self._starts.heap:
            due.extend(self._expired(now_us))
        return due

    def _is_retried(self, gang: ViewGang, now_us: int) -> bool:
        at_us = self.retries_us(gang)
        return at_us is not None and at_us <= now_us

    # TIME-8, TIME-9, TIME-11
    def _expired(self, now_us: int) -> Iterator[TimeUp]:
        """Yield the asks that are not bound when they had to be, and those that go with them."""
        found: dict[tuple[int, str], tuple[int, str, int, int]] = {}
        while (over := self._starts.take_due(now_us)) is not None:
            _, key, name, _ = over
            ask = self._apps[key].find(name)
            assert ask is not None, "an ask that is gone has a deadline"
            gang = None if ask.gang is None else self._gangs[ask.gang]
            if gang is None or gang.satisfied:
                gone: Iterable[tuple[int, str]] = [(key, name)]
            else:
                gone = () if (key, name) in found else gang.members()
            for member in gone:
                if gang is None or member not in gang.bound:
                    found[member] = self._order(member, gang)
        for key, name in sorted(found, key=found.__getitem__):
            yield TimeUp(key, name, Reason.EXPIRED)

    def _order(self, member: tuple[int, str], gang: ViewGang | None) -> tuple[int, str, int, int]:
        """Return the place of an ask among all asks, whatever their priorities."""
        ask = self._apps[member[0]].find(member[1])
        assert ask is not None, "a member of a gang is gone"
        return ask.order_in(None if gang is None else gang.creation)[1:]

    # CHECKPOINT-4
    def facts(self) -> Steps[TimerFacts]:
        """Return the deadlines that do not follow from what owners own. Between two batches."""
        completions = yield from self._completions.all()
        ends: list[StateEndFacts] = []
        for those in in_pieces((yield from self._state_ends.all())):
            yield
            ends.extend(StateEndFacts(at_us, key, state) for at_us, key, _, state in those)
        since: list[tuple[int, str, int]] = []
        for piece in in_pieces(self._apps.items()):
            yield
            for key, app in piece:
                since.extend((key, name, since_us) for name, since_us in app.since_us.items())
        return TimerFacts(
            completions=completions,
            state_ends=tuple(ends),
            passed_us=self._delays.passed_us,
            pending_since=tuple(since),
            over_since=self.over_max.facts(),
        )

    # CHECKPOINT-5
    def load(self, facts: TimerFacts) -> Steps[None]:
        """Take over deadlines; all applications are in the view already."""
        yield from self._completions.load(facts.completions)
        ends: list[tuple[int, int, int, AppState]] = []
        for piece in in_pieces(facts.state_ends):
            yield
            for end in piece:
                self._stays += 1
                self._apps[end.app].stay = self._stays
                ends.append((end.at_us, end.app, self._stays, end.state))
        yield from self._state_ends.load(ends)
        for since in in_pieces(facts.pending_since):
            yield
            for key, name, since_us in since:
                self._apps[key].since_us[name] = since_us
        yield from self._delays.load(facts.passed_us)
        yield from self.protections.refresh()
        self.over_max.load(facts.over_since)
        yield from self._starts.load(end for end in self._starts.heap if end[0] >= facts.passed_us)

    # FEED-29
    def _holds(self, entry: tuple[int, int, int, str]) -> bool:
        _, number, key, ask = entry
        app = self._apps.get(key)
        held = None if app is None else app.bound.get(ask)
        return held is not None and held[0].number == number

    def _is_not_bound(self, entry: tuple[int, int, str, int]) -> bool:
        _, key, name, seq = entry
        app = self._apps.get(key)
        if app is None or name in app.bound:
            return False
        ask = app.find(name)
        return ask is not None and ask.seq == seq

    def _lasts(self, entry: tuple[int, int, int, AppState]) -> bool:
        _, key, stay, _ = entry
        app = self._apps.get(key)
        return app is not None and app.stay == stay
