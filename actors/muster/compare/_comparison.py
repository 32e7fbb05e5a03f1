"""The comparison: advance two sides together, from instant to instant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final, final

import attrs

from muster.compare._accounts.account import Account
from muster.compare._accounts.jobs import Matches
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
class Comparison:
    """Compares two sides.

    Both sides advance through the same instants. So at the first difference, each side can
    still explain the other side's decision. Other threads may read the counters while it runs.

    Attributes:
        at_us: The current instant, in microseconds since the start.
        decisions: How many decisions both sides have made so far.

    Args:
        a: One side.
        b: The other side.
        in_step: Whether both have the same events, so that batches end at the same places.
    """

    def __init__(self, a: Side, b: Side, *, in_step: bool = False) -> None:
        self.at_us = 0
        self.decisions = 0
        self._in_step = in_step
        self._sides = (a, b)
        self._matches = Matches()
        self._accounts = (
            Account(a.machine, partial(self._matches.closed, 0), a.costs),
            Account(b.machine, partial(self._matches.closed, 1), b.costs),
        )
        self._streams = Streams()
        self._refusals = RefusalBook(in_step=in_step)
        #: The last instant with an event or decision of each side: a timer that fires without
        #: a decision does not count.
        self._ends_us = [0, 0]
        for number, side in enumerate(self._sides):
            if side.beginning is not None:
                self.at_us = self._ends_us[number] = side.beginning.at_us
                self._accounts[number].begin(side.beginning)
        self._first: FirstDifference | None = None
        self._first_priority: FirstDifference | None = None

    @property
    def events(self) -> int:
        """How many events were read, on the side that has read more."""
        return max(side.events for side in self._sides)

    def run(
        self, *, look: Callable[[], None] | None = None, until_us: int | None = None
    ) -> Compared:
        """Advance both sides to their end, until no timer is left.

        Args:
            look: Called at each instant; what it raises ends the comparison. None for nothing.
            until_us: The last instant that counts, in microseconds since the start: timers after
                it do not fire, and what is held then is held until it. None for no such instant.

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
        return self._compared()

    def _act(self, acts: list[bool]) -> None:
        """Process the current instant, batch by batch."""
        batches = (
            side.act(self.at_us) if acting else ()
            for side, acting in zip(self._sides, acts, strict=True)
        )
        for pair in zip_longest(*batches):
            for number, batch in enumerate(pair):
                if batch is not None:
                    self.decisions += len(batch)
                    if batch:
                        self._ends_us[number] = self.at_us
                    self._accounts[number].note(self.at_us, batch)
                    self._streams.feed(number, batch)
                    self._note_refusals(number, batch)
            self._look(is_all=self._in_step)
        self._look(is_all=True)
        self._refusals.compare()

    def _note_refusals(self, number: int, batch: Sequence[Announced]) -> None:
        side = self._sides[number]
        for announced in batch:
            if announced.decision.kind is _REJECTED:
                index, line = side.place_of(announced)
                message = announced.decision.message or ""
                remark = Remark(index or 0, line, message)
                self._refusals.add(number, remark, is_end=side.is_end(announced))
                for app in side.apps_of(announced):
                    self._matches.refused(number, app)

    def _look(self, *, is_all: bool) -> None:
        self._streams.compare(is_all=is_all)
        if self._first is None and self._streams.first is not None:
            self._first = self._difference(self._streams.first)
            for side in self._sides:
                side.forget_places()
        if self._first_priority is None and self._streams.first_priority is not None:
            self._first_priority = self._difference(self._streams.first_priority)

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

    def _compared(self) -> Compared:
        a, b = self._accounts
        refused_a, refused_b = self._refusals.totals
        asks = a.asks_by_priority()
        for priority, number in b.asks_by_priority().items():
            asks[priority] = asks.get(priority, 0) + number
        return Compared(
            decisions=self._streams.same,
            first=self._first,
            first_priority=self._first_priority,
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
            jobs=self._matches.changes(),
            refusals=self._refusals.refusals(),
        )
