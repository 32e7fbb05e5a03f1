"""The ledger: hears of every batch, and knows what the state itself does not say.

Applications, asks and nodes come by events, and go by events and decisions. What exists without the
ledger having heard of it is found by looking at the state (:mod:`muster.service.ledger.reconciliation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

import trio

from muster.service.ledger.changes import DecisionChanges, EventChanges
from muster.service.ledger.checkpoint import load_ledger, save_ledger
from muster.service.ledger.records import AppEntry, AskEntry, NodeEntry, StartFailure
from muster.service.ledger.state import KEPT_REFUSED, EventRing, LedgerState
from muster.service.ledger.usage import Counts, Sample, UsagePoint, UserAccounts
from muster_core.decisions import Announced, Kind
from muster_core.events import Event
from muster_core.structures.steps import Steps, in_pieces


# REST-26
@final
class Ledger:
    """Hears of every batch before callers do; see :class:`Companion` in the runtime.

    Attributes:
        batch: The number of the last batch that was announced.
        at_us: Its instant, in microseconds since the origin.
        seq: The number of the last decision that was announced.
        book: All entries.
    """

    def __init__(self) -> None:
        self.batch = 0
        self.at_us = 0
        self.seq = 0
        self.book = LedgerState()
        self._wanted: trio.Event | None = None

    # What is asked

    def app(self, name: str) -> AppEntry | None:
        """Return what is known of an application that has not completed, or None."""
        return self.book.apps.get(name)

    def ask(self, app: str, ask: str) -> AskEntry | None:
        """Return what is known of an ask, or None."""
        owner = self.book.apps.get(app)
        return None if owner is None else owner.asks.get(ask)

    def failure(self, app: str, ask: str) -> StartFailure | None:
        """Return where and why the work of an ask could not be started, if that came last."""
        return self.book.failures.get((app, ask))

    def may_start(self, app: str, ask: str) -> bool:
        """Return whether an ask is there, and has a command."""
        known = self.ask(app, ask)
        work = None if known is None else known.event.work
        return work is not None and work.command is not None

    def node(self, name: str) -> NodeEntry | None:
        """Return what is known of a node, or None."""
        return self.book.nodes.get(name)

    @property
    def completed(self) -> Mapping[str, AppEntry]:
        """The latest completed applications, by name, as they were at the end."""
        return self.book.completed

    @property
    def counts(self) -> Counts:
        """What has been counted."""
        return self.book.counts

    def accounts(self) -> UserAccounts:
        """Return what users hold and have used."""
        self.book.accounts.note_held(self.book.apps.values())
        return self.book.accounts

    @property
    def ring(self) -> EventRing:
        """The latest events, as YuniKorn numbers them."""
        return self.book.ring

    def history(self, now_us: int) -> Iterable[UsagePoint]:
        """Return the points of history, oldest first.

        Args:
            now_us: The present instant, in microseconds since the origin.
        """
        self.book.history.pass_until(max(now_us, self.at_us))
        return tuple(self.book.history.points)

    def samples(self, now_us: int, after_us: int, *, hourly: bool) -> list[Sample]:
        """Return samples, oldest first, and at the end one of now.

        Args:
            now_us: The present instant, in microseconds since the origin.
            after_us: Only those after this instant, likewise.
            hourly: Whether to return those of hours.
        """
        history = self.book.history
        history.pass_until(max(now_us, self.at_us))
        series = history.series
        kept = series.hours if hourly else series.minutes
        found = [one for one in kept if after_us < one.at_us <= now_us]
        return [*found, series.now(now_us)]

    # What is heard

    def observe(
        self,
        number: int,
        at_us: int,
        first: int,
        events: Sequence[Event],
        announced: Sequence[Announced],
        /,
    ) -> Steps[None]:
        """Hear of a batch, as :class:`Companion` says."""
        book = self.book
        self._pass_until(number, at_us)
        inputs, outcomes = EventChanges(book), DecisionChanges(book)
        rejected = [one for one in announced if one.decision.kind is Kind.REJECTED]
        refused = {one.decision.index for one in rejected}
        for one in rejected[-KEPT_REFUSED:]:
            book.note_refused(one, events, first)
        place = first
        for events_piece in in_pieces(events):
            yield
            for event in events_piece:
                if refused and place in refused:
                    inputs.refused(event)
                elif not inputs.take_small(event, at_us):
                    yield from inputs.take(event, at_us)
                place += 1
        for piece in in_pieces(announced):
            yield
            for one in piece:
                outcomes.take(one)
        outcomes.end(at_us)
        self.batch, self.at_us = number, at_us
        if announced:
            self.seq = announced[-1].seq
        book.ring.wake_readers()
        if self._wanted is not None and (book.is_stale or book.queues_changed):
            self._wanted.set()
            self._wanted = None

    def _pass_until(self, number: int, at_us: int) -> None:
        """Let the time before a batch pass."""
        if not self.batch and number > 1:  # Those before are not kept.
            self.book.accounts.known_us = at_us
        self.book.history.pass_until(at_us)
        self.book.accounts.pass_until(at_us, self.book.apps.values())

    async def needs_look(self) -> None:
        """Wait until the ledger has to be compared with the state."""
        if not (self.book.is_stale or self.book.queues_changed):
            self._wanted = trio.Event()
            await self._wanted.wait()

    # What is kept

    def save(self) -> Steps[Sequence[bytes]]:
        """Return what is known, in parts."""
        return save_ledger(self.book, (self.batch, self.at_us, self.seq))

    def load(self, parts: Sequence[bytes], /) -> Steps[None]:
        """Take up what was saved; the ring stays as it is.

        Raises:
            ValueError: If another version wrote it.
        """
        book = LedgerState()
        book.ring = self.book.ring
        book.ring.is_open = False  # What is heard again has happened before this start.
        self.batch, self.at_us, self.seq = yield from load_ledger(book, parts)
        self.book = book
