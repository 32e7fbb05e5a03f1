"""The recorder of a report: watch a replay, and keep what the page shows. It draws nothing.

Its memory is bounded by the asks and nodes that exist and by what one page can show. Time is kept
in buckets that merge; queues and nodes beyond a certain number are counted together; of waits,
only a histogram and the longest ones are kept.

To explain every pending ask at every instant would take far longer than the replay. So only a few
of the oldest pending asks are explained, once in each period of virtual time; the periods double
as the replay proceeds. At the end, more of the pending asks are explained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, final

import attrs

from muster.feeds import FeedItem
from muster.figures.text import instant_of
from muster.replay import Beginning, Census, Key, LiveAsk
from muster.report._node_records import NodeRecord, ReservationRecord
from muster.report._queue_records import QueueRecord, QueueRecords, UserRecords
from muster.report._timeline import Histogram, LongestWaits, Series, Timeline, Wait
from muster_core.config.model import Configuration, QueueConfig
from muster_core.decisions import Announced, Reason
from muster_core.events import AddApp, Apply, Configure, Delete, PodObject, QueueObject
from muster_core.reasons import Explanation
from muster_core.resources import Resources
from muster_core.snapshots import ReservationSnapshot

FIRST_PERIOD_US: Final = 1_000_000
"""The first period between two looks, in microseconds."""

LOOKS_PER_PERIOD: Final = 64
"""After how many looks the period doubles."""

ASKED_ABOUT: Final = 4
"""How many asks are explained in one look."""

CANDIDATES: Final = 512
"""A look chooses the least often explained asks from this many of the oldest ones."""

ASKED_AT_END: Final = 100
"""The most pending asks that are explained at the end."""


class ReasonSource(Protocol):
    """Explains why an ask is pending, such as a :class:`muster.Simulation`."""

    async def why_pending(self, app: str, ask: str) -> Explanation | None:
        """Return why an ask is not running, or None."""
        ...


@final
@attrs.frozen
class AskReasons:
    """The reasons found for an ask.

    Attributes:
        codes: How often each code was the dominant one.
        last: The last reason, as text.
        names_us: The instant that it names, in microseconds; None if it names none.
        at_us: When that reason was found, in microseconds.
        past: The last explanation that another ask was tried before it because of past usage, as
            text; or None.
    """

    codes: Mapping[str, int]
    last: str
    names_us: int | None
    at_us: int
    past: str | None = None


@final
class ReasonRecord:
    """Explains pending asks from time to time, and records the reasons.

    Attributes:
        due_us: When the next look is due, in microseconds; None before the first ask.
        codes: How often each code was the dominant one, in all looks but the last.
        at_end: How often each code was the dominant one, in the look at the end.
    """

    def __init__(self) -> None:
        self.due_us: int | None = None
        self.codes: Counter[str] = Counter()
        self.at_end: Counter[str] = Counter()
        self._explained: dict[Key, AskReasons] = {}
        self._period_us = FIRST_PERIOD_US
        self._looks = 0
        #: The codes found in each queue, with their instants.
        self._code_times: dict[str, list[tuple[int, str]]] = {}

    def begin(self, at_us: int) -> None:
        """Set the first look to one period after an instant, unless it is already set."""
        if self.due_us is None:
            self.due_us = at_us + self._period_us

    async def look(self, scheduler: ReasonSource, oldest: Iterable[LiveAsk], at_us: int) -> None:
        """Explain some of the oldest pending asks."""
        self._looks += 1
        if self._looks == LOOKS_PER_PERIOD:
            self._looks = 0
            self._period_us *= 2
        self.due_us = (at_us // self._period_us + 1) * self._period_us
        for ask in sorted(islice(oldest, CANDIDATES), key=self._times)[:ASKED_ABOUT]:
            code = await self._ask(scheduler, ask, at_us)
            if code is not None:
                self.codes[code] += 1
                self._code_times.setdefault(ask.queue, []).append((at_us, code))

    async def look_at_end(
        self, scheduler: ReasonSource, asks: Iterable[LiveAsk], at_us: int
    ) -> None:
        """Explain the asks that are pending at the end."""
        for ask in list(islice(asks, ASKED_AT_END)):
            code = await self._ask(scheduler, ask, at_us)
            if code is not None:
                self.at_end[code] += 1

    def _times(self, ask: LiveAsk) -> int:
        reasons = self._explained.get(ask.key)
        return 0 if reasons is None else sum(reasons.codes.values())

    async def _ask(self, scheduler: ReasonSource, ask: LiveAsk, at_us: int) -> str | None:
        explanation = await scheduler.why_pending(*ask.key)
        if explanation is None:
            return None
        reason = explanation.dominant
        code = reason.code.value
        before = self._explained.get(ask.key)
        codes = Counter({} if before is None else before.codes)
        codes[code] += 1
        past_share, past = explanation.past_share, None if before is None else before.past
        if past_share is not None:
            past = None if past_share is reason else past_share.message
        names_us = instant_of(reason.facts)
        self._explained[ask.key] = AskReasons(codes, reason.message, names_us, at_us, past)
        return code

    def reasons_of(self, key: Key) -> AskReasons | None:
        """Return the reasons found for an ask; None if it was never explained."""
        return self._explained.get(key)

    def code_counts(self, queue: str, begin_us: int, end_us: int) -> Mapping[str, int]:
        """Return how often each code was found in a queue between two instants."""
        codes = self._code_times.get(queue, [])
        return Counter(code for at_us, code in codes if begin_us <= at_us <= end_us)

    def forget(self, key: Key) -> None:
        """Forget the reasons of a bound ask that is no longer among the longest waits."""
        self._explained.pop(key, None)


FEW_BARS: Final = 1_000
"""A number of allocations that never makes a page too large."""

FEW_BUCKETS: Final = 32
"""A number of buckets that never makes a page too large."""


class RecordedScheduler(ReasonSource, Protocol):
    """A scheduler to look at between two batches, such as a :class:`muster.Simulation`."""

    def queues(self) -> Mapping[str, QueueConfig]:
        """Return the settings of every queue by path."""
        ...

    def reservations(self) -> Mapping[str, ReservationSnapshot]:
        """Return the reservations, by ``app/ask``."""
        ...


@final
class Recorder:
    """A watcher for :func:`muster.replay.replay` that keeps what a report shows."""

    def __init__(self) -> None:
        self.timeline = Timeline()  # the buckets of all series
        self.queues = QueueRecords(self.timeline)
        self.nodes = NodeRecord(self.timeline)
        # By resource type: the capacity of all nodes, and what asks held, waiting or bound.
        self.there: dict[str, Series] = {}
        self.used: dict[str, Series] = {}
        self.reserved = ReservationRecord()  # which nodes were reserved for which asks
        # How long asks waited until their first bind, or until they ended without one.
        self.waits = Histogram()
        self.reasons = ReasonRecord()
        self.users = UserRecords()
        self.released: dict[Reason, int] = {}  # how often an ask lost its node
        self.end_us = 0
        self._census = Census(self)
        self._longest = LongestWaits()
        self._capacities: dict[str, Resources] = {}
        self._instant_us = 0
        #: The queues that had no pending ask at some moment of this batch.
        self._emptied: dict[QueueRecord, None] = {}
        #: Whether the settings of queues may have changed since the last look.
        self._is_stale = True
        #: Whether placement rules may choose the queues of applications.
        self._has_rules = False

    # A watcher

    def begin(self, beginning: Beginning) -> None:
        """Begin with a state instead of with nothing."""
        self._instant_us = beginning.at_us
        self._has_rules = beginning.has_rules
        self._census.begin(beginning)

    def saw(self, item: FeedItem) -> None:
        """Record an item that is about to be submitted."""
        self._instant_us = item.at_us
        self._census.saw(item)
        match item.content:
            case Configure(config):
                self._is_stale = True
                # If it is refused, or replaced by one without rules, a few more looks are made.
                self._has_rules |= bool(config.placement_rules)
            case Delete():
                self._is_stale = True
            case Apply(objects):
                # A Pod may add its application, and that a queue of any name if there are rules.
                changing = (QueueObject, PodObject) if self._has_rules else QueueObject
                self._is_stale |= any(isinstance(found.content, changing) for found in objects)
            case AddApp(queue=queue):
                self._is_stale |= self._has_rules or (queue is not None and self._is_new(queue))
            case _:
                pass

    def _is_new(self, queue: str) -> bool:
        path = queue.lower()
        full = path if path.split(".")[0] == "root" else f"root.{path}"
        return not self.queues.knows(full)

    def write(self, batch: Sequence[Announced], /) -> None:
        """Record the decisions of a batch."""
        self._instant_us = max(self._instant_us, batch[0].at_us)
        self.timeline.reach(self._instant_us)
        self._census.write(batch)
        self.reserved.observe(batch, self._census.unbound)
        for record in self._emptied:
            # The queue may have disappeared with its last ask, which no decision reports.
            if record.priority.value is not None and not record.is_fenced:
                self._is_stale |= not record.pending.value
        self._emptied.clear()

    def due_us(self) -> int | None:
        """Return the instant after which the next look is due.

        That is now if queues may be new, or reservations may have been given up.
        """
        is_due = self._is_stale or self.reserved.wants_look
        return self._instant_us if is_due else self.reasons.due_us

    async def look(self, scheduler: RecordedScheduler, at_us: int) -> None:
        """Look at the scheduler while no batch is open."""
        if self._is_stale:
            self._is_stale = False
            self.queues.configure(scheduler.queues(), at_us)
        if self.reserved.wants_look:
            self.reserved.look(scheduler.reservations(), at_us)
        due_us = self.reasons.due_us
        if due_us is not None and at_us >= due_us:
            await self.reasons.look(scheduler, self._census.unbound.values(), at_us)

    async def look_at_end(self, scheduler: RecordedScheduler, at_us: int) -> None:
        """Look at the scheduler for the last time, after the last timer."""
        self._census.catch_up(at_us)
        self.queues.configure(scheduler.queues(), at_us)
        self.reserved.look(scheduler.reservations(), at_us)
        await self.reasons.look_at_end(scheduler, self._census.unbound.values(), at_us)

    def close(self, at_us: int) -> None:
        """Record that the replay has ended at an instant."""
        self.end_us = at_us
        self.timeline.begin(at_us)  # if there never was an ask
        self.timeline.reach(at_us)
        for series in (*self.there.values(), *self.used.values()):
            series.close(at_us)
        self.queues.close(at_us)
        self.nodes.close(at_us)

    def shrink(self) -> bool:
        """Drop the single allocations, or merge buckets, so that the page becomes smaller.

        Returns:
            False if nothing more can be dropped.
        """
        if self.nodes.bars is not None and len(self.nodes.bars) > FEW_BARS:
            self.nodes.bars = None
            return True
        if self.timeline.width_us * FEW_BUCKETS > self.end_us - (self.timeline.origin_us or 0):
            return False
        self.timeline.halve()
        return True

    # A listener of the census

    def configured(self, at_us: int, configuration: Configuration) -> None:
        """Do nothing: the settings come from the scheduler, also those of queues made later."""

    def node(self, at_us: int, name: str, capacity: Resources | None) -> None:
        """A node has a new capacity; None if it was removed."""
        self.timeline.reach(at_us)
        before = self._capacities.pop(name, Resources())
        if capacity is not None:
            self._capacities[name] = capacity
        for kind, amount in before.items():
            self._series(self.there, kind).change(-amount, at_us)
        for kind, amount in (capacity or Resources()).items():
            self._series(self.there, kind).change(amount, at_us)
        self.nodes.set(at_us, name, capacity)

    def job(self, _: int, app: str, queue: str | None, user: str | None) -> None:
        """An application is now in a queue."""
        for record in () if queue is None else self.queues.chain(queue):
            record.jobs += 1

    def pending(self, at_us: int, ask: LiveAsk) -> None:
        """An ask is now pending or parked."""
        self.timeline.begin(at_us)
        self.timeline.reach(at_us)
        self.reasons.begin(at_us)
        for record in self.queues.chain(ask.queue):
            record.pending.change(1, at_us)

    def taken(self, at_us: int, ask: LiveAsk) -> None:
        """An ask is no longer pending."""
        self.reserved.end(ask.key, at_us)
        for record in self.queues.chain(ask.queue):
            record.pending.change(-1, at_us)
            if not record.pending.value:
                self._emptied[record] = None

    def held(self, at_us: int, ask: LiveAsk) -> None:
        """An ask now holds a node, and waits until it is bound."""
        for record in self.queues.chain(ask.queue):
            record.use(ask.resources, 1, at_us)
            record.waiting.change(1, at_us)
        self.users.of(ask.user).account.take(ask.resources.amounts, at_us)
        for kind, amount in ask.resources.items():
            self._series(self.used, kind).change(amount, at_us)
        self.nodes.take(at_us, ask)

    def bound(self, at_us: int, ask: LiveAsk, wait_us: int | None) -> None:
        """An ask that holds a node is now bound."""
        for record in self.queues.chain(ask.queue):
            record.waiting.change(-1, at_us)
            record.running.change(1, at_us)
            if wait_us is not None:
                record.waits.add(wait_us)
        if wait_us is None:
            return
        self.users.of(ask.user).bound(wait_us)
        self.waits.add(wait_us)
        dropped = self._longest.add(ask, at_us - wait_us, wait_us)
        if dropped is not None:
            self.reasons.forget(dropped.key)

    def unbound(self, _: int, ask: LiveAsk, wait_us: int) -> None:
        """An ask has ended that was never bound."""
        self.waits.add(wait_us)
        for record in self.queues.chain(ask.queue):
            record.waits.add(wait_us)
            record.unbound += 1

    def lost_node(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        """An ask has lost its node."""
        for record in self.queues.chain(ask.queue):
            record.use(ask.resources, -1, at_us)
            (record.waiting if ask.bound_us is None else record.running).change(-1, at_us)
        self.users.of(ask.user).account.give_back(ask.resources.amounts, at_us)
        for kind, amount in ask.resources.items():
            self._series(self.used, kind).change(-amount, at_us)
        if reason is not None:
            self.released[reason] = self.released.get(reason, 0) + 1
        self.nodes.give_back(at_us, ask, reason)

    def priority(self, at_us: int, queue: str, value: int | None) -> None:
        """A queue has a new ``currentPriority``."""
        self.queues.chain(queue)
        record = self.queues.get(queue)
        if record is not None:
            record.priority.set(value, at_us)

    # Results

    def longest_waits(self) -> Sequence[Wait]:
        """Return the longest waits, with those of asks that are still pending."""
        return self._longest.with_pending(self._census.unbound.values(), self.end_us)

    def pending_by_user(self) -> Mapping[str, int]:
        """Return how many asks hold no node at the end, by their user."""
        return self.users.counted(ask.user for ask in self._census.unbound.values())

    def holding(self) -> Sequence[LiveAsk]:
        """Return the asks that hold a node."""
        return list(self._census.holding.values())

    def _series(self, kept: dict[str, Series], kind: str) -> Series:
        series = kept.get(kind)
        if series is None:
            series = kept[kind] = Series(self.timeline)
        return series
