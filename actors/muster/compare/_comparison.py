"""The comparison: advance all sides together, from instant to instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final, final

import attrs

from muster.compare._accounts.account import Account
from muster.compare._accounts.jobs import Job, Matches
from muster.compare._accounts.priorities import ranges
from muster.compare._accounts.refusals import RefusalBook
from muster.compare._result import (
    Compared,
    FirstDifference,
    PriorityRow,
    QueueRow,
    Version,
)
from muster.compare._sides import Side
from muster.compare._streams import Parting, Streams
from muster.replay import Remark
from muster_core.decisions import Announced, Kind

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_REJECTED: Final = Kind.REJECTED


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

    def _difference(self, parting: Parting) -> FirstDifference:
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

    def compared(self, a: Account, b: Account) -> Compared:
        """Return the result."""
        refused_a, refused_b = self.refusals.totals
        asks = a.asks_by_priority()
        for priority, number in b.asks_by_priority().items():
            asks[priority] = asks.get(priority, 0) + number
        return Compared(
            decisions=self.streams.same,
            first=self.first,
            first_priority=self.first_priority,
            a=attrs.evolve(a.all(), events_refused=refused_a),
            b=attrs.evolve(b.all(), events_refused=refused_b),
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
            Account(side.machine, partial(self._close, number), side.costs)
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

    def _close(self, number: int, job: Job) -> None:
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
            account.end(end_us)
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
            if announced.decision.kind is _REJECTED:
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
