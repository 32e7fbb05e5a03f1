"""The comparison: advance all sides together, from instant to instant.

It compares the streams of decisions as they come, finds their first difference, and lists the
refused events with the side that refused each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import TypeAlias, final

import attrs

from muster.compare._account import ComparedJob, Matches, SideAccount, ranges
from muster.compare._result import (
    MOST_REFUSALS,
    Compared,
    FirstDifference,
    PriorityRow,
    QueueRow,
    Refusals,
    Version,
)
from muster.compare._sides import Side
from muster.replay import Remark
from muster_core.decisions import Announced, Decision, Kind

_Queues: TypeAlias = dict[object, deque[Remark]]
"""The refusals of an instant, by index or by message."""


@final
class _List:
    """The refusals of one side: their number, how many are of ends, and the first of them."""

    def __init__(self) -> None:
        self.number = 0
        self.ends = 0
        self.first: list[Remark] = []

    def add(self, remark: Remark, *, is_end: bool) -> None:
        """Count a refusal."""
        self.number += 1
        self.ends += is_end
        if len(self.first) < MOST_REFUSALS:
            self.first.append(remark)


@final
class RefusalBook:
    """Compares the refusals of both sides, instant by instant.

    Attributes:
        totals: How many refusals each side has.

    Args:
        in_step: Whether both sides have the same events: then the index identifies a refused
            event, otherwise the message does.
    """

    def __init__(self, *, in_step: bool) -> None:
        self.totals = [0, 0]
        self._in_step = in_step
        self._open: tuple[_Queues, _Queues] = ({}, {})
        #: The indexes of refused events of this instant that end the work of an ask.
        self._ends: tuple[set[int], set[int]] = (set(), set())
        self._alone = (_List(), _List())
        self._both = 0
        self._first_both: list[tuple[Remark, Remark]] = []

    def add(self, side: int, remark: Remark, *, is_end: bool) -> None:
        """Record that side 0 or 1 has refused an event at the current instant.

        Args:
            side: The side.
            remark: The refusal.
            is_end: Whether the event would have ended the work of an ask.
        """
        self.totals[side] += 1
        if is_end:
            self._ends[side].add(remark.index)
        key = remark.index if self._in_step else remark.message
        self._open[side].setdefault(key, deque()).append(remark)

    def compare(self) -> None:
        """Compare the refusals of both sides at the instant that ends."""
        a, b = self._open
        for key, remarks in a.items():
            others = b.get(key, deque())
            while remarks and others:
                self._match(remarks.popleft(), others.popleft())
        for queues, ends, alone in zip(self._open, self._ends, self._alone, strict=True):
            left = [remark for remarks in queues.values() for remark in remarks]
            for remark in sorted(left, key=lambda one: one.index):
                alone.add(remark, is_end=remark.index in ends)
            queues.clear()
            ends.clear()

    def _match(self, a: Remark, b: Remark) -> None:
        self._both += 1
        if len(self._first_both) < MOST_REFUSALS:
            self._first_both.append((a, b))

    def refusals(self) -> Refusals:
        """Return the refusals so far."""
        a, b = self._alone
        return Refusals(
            both=self._both,
            only_a=a.number,
            only_b=b.number,
            first_both=tuple(self._first_both),
            first_a=tuple(a.first),
            first_b=tuple(b.first),
            ends_a=a.ends,
            ends_b=b.ends,
        )


@final
@attrs.frozen
class Divergence:
    """The first difference of two streams.

    Attributes:
        same: How many earlier decisions are the same.
        a: The next decision of one stream, or None if it has none at this instant.
        b: The next decision of the other stream, likewise.
    """

    same: int
    a: Announced | None
    b: Announced | None


@final
class _Stream:
    """Selects the decisions of one side that count.

    Those about a configuration do not, nor do reservations: they are plans, and what comes of them
    shows in what runs.
    """

    def __init__(self) -> None:
        self._config_index: int | None = None
        #: Whether the last decision was about a configuration, or there was none yet.
        self._after_config = True

    def counts(self, decision: Decision) -> bool:
        """Return whether a decision counts; call it for each decision in order.

        When a configuration comes into force, a decision reports it, and its warnings follow
        with the index of the same event. One that is in force from the start has its warnings
        before all other decisions.
        """
        if decision.kind is Kind.CONFIG:
            self._after_config, self._config_index = True, decision.index
            return False
        if (
            self._after_config
            and decision.kind is Kind.WARNING
            and decision.index == self._config_index
        ):
            return False
        self._after_config = False
        # COMMAND-26
        return decision.kind is not Kind.RESERVED


@final
class _DecisionStreams:
    """Two streams of decisions that are the same up to their first difference.

    Attributes:
        same: How many decisions are the same so far.
        parting: Their first difference, or None.
    """

    def __init__(self) -> None:
        self.same = 0
        self.parting: Divergence | None = None
        self._open: tuple[deque[Announced], deque[Announced]] = (deque(), deque())

    def add(self, side: int, announced: Announced) -> None:
        """Add a decision of side 0 or 1; after the first difference, do nothing."""
        if self.parting is None:
            self._open[side].append(announced)

    def compare(self, *, is_all: bool) -> None:
        """Compare the decisions added so far; see :meth:`Streams.compare`."""
        a, b = self._open
        while a and b and is_same(a[0], b[0]):
            a.popleft()
            b.popleft()
            self.same += 1
        if (a and b) or (is_all and (a or b)):
            self.parting = Divergence(self.same, a[0] if a else None, b[0] if b else None)
            a.clear()
            b.clear()


@final
class Streams:
    """Compares the decisions of two sides; changes of ``currentPriority`` separately.

    It keeps only the decisions that one side has made ahead of the other.
    """

    def __init__(self) -> None:
        self._sides = (_Stream(), _Stream())
        self._decisions = _DecisionStreams()
        self._priorities = _DecisionStreams()

    @property
    def first(self) -> Divergence | None:
        """The first difference of the other decisions, or None."""
        return self._decisions.parting

    @property
    def first_priority(self) -> Divergence | None:
        """The first difference of the changes of ``currentPriority``, or None."""
        return self._priorities.parting

    @property
    def same(self) -> int:
        """How many decisions of both kinds are the same before their first difference."""
        return self._decisions.same + self._priorities.same

    def feed(self, side: int, decisions: Sequence[Announced]) -> None:
        """Add decisions of side 0 or 1."""
        stream = self._sides[side]
        for announced in decisions:
            if stream.counts(announced.decision):
                is_priority = announced.decision.kind is Kind.QUEUE_PRIORITY
                (self._priorities if is_priority else self._decisions).add(side, announced)

    def compare(self, *, is_all: bool) -> None:
        """Compare the decisions added so far.

        Args:
            is_all: Whether the instant is complete, so that a decision that only one side has
                is a difference.
        """
        self._decisions.compare(is_all=is_all)
        self._priorities.compare(is_all=is_all)


def is_same(one: Announced, other: Announced) -> bool:
    """Return whether two decisions of one instant are the same, apart from index and line."""
    mine, theirs = one.decision, other.decision
    return mine == theirs or mine._replace(index=theirs.index, line=theirs.line) == theirs


@final
class _Pair:
    """The first side beside another one: where they differ.

    Args:
        sides: The two sides.
        in_step: Whether both have the same events.
    """

    def __init__(self, sides: tuple[Side, Side], *, in_step: bool) -> None:
        self._sides = sides
        self.matches = Matches()
        self.streams = Streams()
        self.refusals = RefusalBook(in_step=in_step)
        self.first: FirstDifference | None = None
        self.first_priority: FirstDifference | None = None

    def look(self, *, is_all: bool) -> None:
        """Look for the first difference in what was fed since the last look."""
        self.streams.compare(is_all=is_all)
        if self.first is None and self.streams.first is not None:
            self.first = self._difference(self.streams.first)
        if self.first_priority is None and self.streams.first_priority is not None:
            self.first_priority = self._difference(self.streams.first_priority)

    def _difference(self, parting: Divergence) -> FirstDifference:
        """Return the first difference, at the earlier of the two decisions."""
        instants = [one.at_us for one in (parting.a, parting.b) if one is not None]
        at_us = min(instants)
        return FirstDifference(
            at_us=at_us,
            same=parting.same,
            a=self._version(parting.a, 0, parting.b),
            b=self._version(parting.b, 1, parting.a),
        )

    def _version(
        self, announced: Announced | None, number: int, instead: Announced | None
    ) -> Version | None:
        if announced is None:
            return None
        index, line = self._sides[number].place_of(announced)
        app, ask = announced.decision.app, announced.decision.ask
        elsewhere = None
        if app is not None and ask is not None:
            elsewhere = self._sides[1 - number].find(app, ask, instead)
        return Version(announced, index, line, elsewhere)

    def compared(self, a: SideAccount, b: SideAccount) -> Compared:
        """Return the result."""
        refused_a, refused_b = self.refusals.totals
        asks = a.asks_by_priority()
        for priority, number in b.asks_by_priority().items():
            asks[priority] = asks.get(priority, 0) + number
        all_a = a.all()
        measured = all_a.measures
        all_b = b.all(None if measured is None else measured.size_resource)
        return Compared(
            decisions=self.streams.same,
            first=self.first,
            first_priority=self.first_priority,
            a=attrs.evolve(all_a, events_refused=refused_a),
            b=attrs.evolve(all_b, events_refused=refused_b),
            queues=tuple(
                QueueRow(queue, a.queue(queue), b.queue(queue))
                for queue in sorted(a.queues() | b.queues())
            ),
            priorities=tuple(
                PriorityRow(*ends, a.priorities(*ends), b.priorities(*ends))
                for ends in ranges(asks)
            ),
            jobs=self.matches.changes(),
            refusals=self.refusals.refusals(),
        )


@final
class Comparison:
    """Compares the first side with each of the others.

    All sides advance through the same instants, each once. So at the first difference, each side
    can still explain the other side's decision. Other threads may read the counters while it runs.

    Attributes:
        at_us: The current instant, in microseconds since the start.
        decisions: How many decisions all sides have made so far.

    Args:
        a: The first side.
        others: The other sides, one at least.
        in_step: Whether all have the same events, so that batches end at the same places.
    """

    def __init__(self, a: Side, *others: Side, in_step: bool = False) -> None:
        self.at_us = 0
        self.decisions = 0
        self._in_step = in_step
        self._sides = (a, *others)
        self._pairs = [_Pair((a, other), in_step=in_step) for other in others]
        self._accounts = [
            SideAccount(side.machine, partial(self._close, number), side.costs)
            for number, side in enumerate(self._sides)
        ]
        #: The last instant with an event or decision of each side: a timer that fires without
        #: a decision does not count.
        self._ends_us = [0] * len(self._sides)
        for number, side in enumerate(self._sides):
            if side.beginning is not None:
                self.at_us = self._ends_us[number] = side.beginning.at_us
                self._accounts[number].begin(side.beginning)

    @property
    def events(self) -> int:
        """How many events were read, on the side that has read most."""
        return max(side.events for side in self._sides)

    def _of(self, number: int) -> Iterator[tuple[_Pair, int]]:
        """Yield the pairs that a side is in, and whether it is their first or second one."""
        if number:
            yield self._pairs[number - 1], 1
        else:
            yield from ((pair, 0) for pair in self._pairs)

    def _close(self, number: int, job: ComparedJob) -> None:
        for pair, place in self._of(number):
            pair.matches.closed(place, job)

    def run(
        self, *, look: Callable[[], None] | None = None, until_us: int | None = None
    ) -> Compared:
        """Advance two sides to their end; see :meth:`run_all`."""
        (compared,) = self.run_all(look=look, until_us=until_us)
        return compared

    def run_all(
        self, *, look: Callable[[], None] | None = None, until_us: int | None = None
    ) -> tuple[Compared, ...]:
        """Advance all sides to their end, until no timer is left.

        Args:
            look: Called at each instant; what it raises ends the comparison. None for nothing.
            until_us: The last instant that counts, in microseconds since the start: timers after
                it do not fire, and what is held then is held until it. None for no such instant.

        Returns:
            The first side compared with each of the others, in their order.

        Raises:
            FeedError: If a feed or a log cannot be read.
        """
        while True:
            next_us = [side.next_us() for side in self._sides]
            coming = [us for us in next_us if us is not None]
            if not coming:
                break
            if until_us is not None and min(coming) > until_us:
                break
            self.at_us = min(coming)
            if look is not None:
                look()
            read = [side.events for side in self._sides]
            self._act([us == self.at_us for us in next_us])
            for number, side in enumerate(self._sides):
                if side.events != read[number]:
                    self._ends_us[number] = self.at_us
        for side, account, last_us in zip(self._sides, self._accounts, self._ends_us, strict=True):
            end_us = last_us if until_us is None else max(last_us, until_us)
            side.end(end_us)
            account.end()
        first, *others = self._accounts
        return tuple(
            pair.compared(first, other) for pair, other in zip(self._pairs, others, strict=True)
        )

    def _act(self, acts: list[bool]) -> None:
        """Process the current instant, batch by batch."""
        batches = (
            side.act(self.at_us) if acting else ()
            for side, acting in zip(self._sides, acts, strict=True)
        )
        for together in zip_longest(*batches):
            for number, batch in enumerate(together):
                if batch is not None:
                    self._note(number, batch)
            self._look(is_all=self._in_step)
        self._look(is_all=True)
        for pair in self._pairs:
            pair.refusals.compare()

    def _note(self, number: int, batch: Sequence[Announced]) -> None:
        self.decisions += len(batch)
        if batch:
            self._ends_us[number] = self.at_us
        self._accounts[number].note(self.at_us, batch)
        for pair, place in self._of(number):
            pair.streams.feed(place, batch)
        self._note_refusals(number, batch)

    def _note_refusals(self, number: int, batch: Sequence[Announced]) -> None:
        side = self._sides[number]
        for announced in batch:
            if announced.decision.kind is Kind.REJECTED:
                index, line = side.place_of(announced)
                message = announced.decision.message or ""
                remark = Remark(index or 0, line, message)
                for pair, place in self._of(number):
                    pair.refusals.add(place, remark, is_end=side.is_end(announced))
                    for app in side.apps_of(announced):
                        pair.matches.refused(place, app)

    def _look(self, *, is_all: bool) -> None:
        needed = any(pair.first is None for pair in self._pairs)
        for pair in self._pairs:
            pair.look(is_all=is_all)
        if needed and not any(pair.first is None for pair in self._pairs):
            for side in self._sides:
                side.forget_places()
