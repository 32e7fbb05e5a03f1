"""The ledger: records of every batch what the state itself does not keep.

Applications, asks and nodes come by events, and go by events and decisions. What exists without an
entry is found by comparison with the state (:mod:`muster.service.ledger.reconciliation`).

In a checkpoint it is bytes in parts of bounded size, each a list of items. The first item says the
version. What can be computed from other items is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeGuard, final

import attrs
import trio

from muster._pod_identity import PodIdentity
from muster.figures.usage import UsageTotals
from muster.service.ledger.changes import DecisionChanges, EventChanges
from muster.service.ledger.records import (
    AppEntry,
    AskEntry,
    EndedAsk,
    NodeEntry,
    PreviousAllocation,
    RefusedEvent,
    StartFailure,
)
from muster.service.ledger.state import KEPT_REFUSED, EventRing, LedgerState
from muster.service.ledger.usage import Counts, QueueCounts, Sample, UsagePoint, UserAccounts
from muster.store._codec import from_plain, plain
from muster.store._msgpack import pack, unpack
from muster_core.decisions import Announced, Kind
from muster_core.events import AddApp, AddAsk, AddNode, Event, Exit
from muster_core.structures.steps import Steps, in_pieces


# REST-26
@final
class Ledger:
    """Observes every batch before callers are answered, as a ``BatchObserver`` of the runtime.

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

    # Queries

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

    # Batches

    def observe(
        self,
        number: int,
        at_us: int,
        first: int,
        events: Sequence[Event],
        announced: Sequence[Announced],
        /,
    ) -> Steps[None]:
        """Take note of a batch; see ``BatchObserver``."""
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
                    inputs.count_refused(event)
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

    async def wait_until_stale(self) -> None:
        """Wait until the ledger has to be compared with the state."""
        if not (self.book.is_stale or self.book.queues_changed):
            self._wanted = trio.Event()
            await self._wanted.wait()

    # Checkpoints

    def save(self) -> Steps[Sequence[bytes]]:
        """Return the whole state, in parts."""
        parts: list[bytes] = []
        items: list[bytes] = []
        size = 0
        for item in _items(self.book, (self.batch, self.at_us, self.seq)):
            yield
            packed = pack(item)
            items.append(packed)
            size += len(packed)
            if size > _PART_BYTES:
                parts.append(pack(items))
                items, size = [], 0
        parts.append(pack(items))
        return parts

    def load(self, parts: Sequence[bytes], /) -> Steps[None]:
        """Restore what was saved; the ring stays as it is.

        Raises:
            ValueError: If another version wrote it, or it cannot be read.
        """
        book = LedgerState()
        book.ring = self.book.ring
        book.ring.is_open = False  # Batches that are replayed are from before this start.
        self.batch, self.at_us, self.seq = yield from _load(book, parts)
        self.book = book


_VERSION: Final = 4
_PART_BYTES: Final = 200_000
_ROWS: Final = 500
"""How many asks of the same event are in one item."""

_SAMPLES: Final = 50
"""How many samples are in one item."""

_UNREADABLE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError)


# Saving


def _items(book: LedgerState, position: tuple[int, int, int]) -> Iterator[list[object]]:
    counts = book.counts
    yield [
        _VERSION,
        *position,
        book.history.minute,
        book.lives.after_seq,
        [*attrs.astuple(counts, recurse=False)[:-1]],
    ]
    yield ["configured", book.configured_us]
    for path, queue in counts.queues.items():
        yield ["queue", path, queue.allocated, queue.released, queue.completed]
    for piece in in_pieces(book.history.points, _ROWS):
        yield ["points", [list(point) for point in piece]]
    series = book.history.series
    yield ["waits", series.waits]
    for name, samples in (("minutes", series.minutes), ("hours", series.hours)):
        for some in in_pieces(samples, _SAMPLES):
            yield [name, [list(sample) for sample in some]]
    yield ["refused", [list(attrs.astuple(one)) for one in book.refused]]
    for failures in in_pieces(book.failures.items(), _ROWS):
        yield ["failures", [[*name, one.node, one.message] for name, one in failures]]
    for lives in in_pieces(book.lives.kept, _ROWS):
        yield ["lives", [_life(life) for life in lives]]
    yield ["users", [*book.accounts.users]]
    for node in book.nodes.values():
        yield ["node", plain(node.event), node.came_us]
    for app in book.completed.values():
        yield ["completed", *_app(app)]
    for app in book.apps.values():
        yield ["app", *_app(app)]
        yield from _asks(app)
    yield from _accounts(book.accounts)


def _accounts(accounts: UserAccounts) -> Iterator[list[object]]:
    """Yield the accounts; they come last, as the asks that hold something change them."""
    yield ["accounts", accounts.known_us, [*accounts.gone]]
    for name, account in accounts.users.items():
        yield ["account", name, account.base, account.ended]
        for marks in in_pieces(account.marks, _ROWS):
            yield ["marks", name, [[at_us, *used] for at_us, used in marks]]


def _earlier(before: PreviousAllocation | None) -> list[object] | None:
    if before is None:
        return None
    exited = None if before.exited is None else plain(before.exited)
    return [before.started_us, before.ran_us, before.held_us, exited]


def _life(life: EndedAsk) -> list[object]:
    *known, _ = life._replace(exited=None, amounts=dict(life.amounts))
    exited = None if life.exited is None else plain(life.exited)
    pod = [] if life.pod is None else [[*attrs.astuple(life.pod)]]
    return [*known, exited, *pod]


def _app(app: AppEntry) -> list[object]:
    states = [list(one) for one in app.states]
    return [plain(app.event), app.came_us, app.queue, app.state, states, app.ran_us, app.most]


def _asks(app: AppEntry) -> Iterator[list[object]]:
    """Yield the asks of an application, those of one event together."""
    together = groupby(app.asks.items(), key=lambda item: (id(item[1].event), item[1].namespace))
    for _, asks in together:
        for piece in in_pieces(asks, _ROWS):
            first = piece[0][1]
            rows = [
                [
                    name,
                    ask.came_us,
                    ask.since_us,
                    ask.retries,
                    ask.node,
                    ask.taken_us,
                    ask.bound_us,
                    ask.is_bound,
                    _earlier(ask.earlier),
                ]
                for name, ask in piece
            ]
            yield ["asks", plain(first.event), first.namespace, rows]


# Loading


def _load(book: LedgerState, parts: Sequence[bytes]) -> Steps[tuple[int, int, int]]:
    """Fill a new state with what was saved; return its batch, instant and decision."""
    position = (0, 0, 0)
    is_first = True
    for part in parts:
        for packed in _as_list(unpack(part)):
            yield
            item = _as_list(unpack(packed))
            if is_first:
                position = _load_head(book, item)
                is_first = False
                continue
            try:
                _load_item(book, item)
            except _UNREADABLE as error:
                msg = f"an entry of the ledger cannot be read: {error}"
                raise ValueError(msg) from error
    return position


def _as_list(value: object) -> list[Any]:
    if not _is_list(value):
        msg = "a part of the ledger is no list"
        raise ValueError(msg)
    return value


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _load_head(book: LedgerState, item: list[Any]) -> tuple[int, int, int]:
    version = item[0] if item else None
    if version != _VERSION:
        msg = f"they were written in version {version}, and this is version {_VERSION}"
        raise ValueError(msg)
    _, batch, at_us, seq, book.history.minute, book.lives.after_seq, counts = item
    book.accounts.changed_us = at_us
    book.counts = Counts(*counts)
    return batch, at_us, seq


def _load_item(book: LedgerState, item: list[Any]) -> None:
    """Load an item."""
    match item:
        case ["asks", event, namespace, rows]:
            _load_asks(book, event, namespace, rows)
        case ["app", *app]:
            entry = _load_app(*app)
            book.add_app(entry)
            book.history.apps += entry.state in ("Starting", "Running")
        case ["completed", *app]:
            entry = _load_app(*app)
            book.completed[entry.event.app] = entry
        case ["node", event, came_us]:
            book.put_node(NodeEntry(from_plain(event, AddNode), came_us))
        case _:
            _load_past(book, item)


def _load_past(book: LedgerState, item: list[Any]) -> None:
    """Load an item about the past."""
    match item:
        case ["lives", rows]:
            book.lives.kept.extend(map(_load_life, rows))
        case ["failures", rows]:
            for app, ask, node, message in rows:
                book.note_failure(app, ask, StartFailure(node, message))
        case ["refused", refused]:
            book.refused.extend(RefusedEvent(*one) for one in refused)
        case ["configured", at_us]:
            book.configured_us = at_us
        case _:
            _load_series(book, item)


def _load_series(book: LedgerState, item: list[Any]) -> None:
    """Load an item with counts or series."""
    series = book.history.series
    match item:
        case ["queue", path, *counts]:
            book.counts.queues[path] = QueueCounts(*counts)
        case ["points", points]:
            book.history.points.extend(UsagePoint(*point) for point in points)
        case ["waits", waits]:
            series.waits = waits
        case ["minutes", samples]:
            series.minutes.extend(Sample(*sample) for sample in samples)
        case ["hours", samples]:
            series.hours.extend(Sample(*sample) for sample in samples)
        case _:
            _load_accounts(book.accounts, item)


def _load_accounts(accounts: UserAccounts, item: list[Any]) -> None:
    """Load an item with accounts."""
    match item:
        case ["users", names]:
            for name in names:
                accounts.of(name)
        case ["accounts", known_us, gone]:
            accounts.known_us, accounts.gone = known_us, UsageTotals(*gone)
        case ["account", name, base, ended]:
            account = accounts.of(name)
            account.base, account.ended = base, ended
        case ["marks", name, marks]:
            accounts.of(name).marks += [(at_us, UsageTotals(*used)) for at_us, *used in marks]
        case _:
            raise ValueError(item[:1])


_KNOWN: Final = len(EndedAsk._fields) - 1
"""How many fields of a life are in its row before how it exited and, where there is one, its pod."""


def _load_life(row: list[Any]) -> EndedAsk:
    exited, *pod = row[_KNOWN:]
    life = EndedAsk(*row[:_KNOWN])
    return life._replace(exited=_load_exit(exited), pod=PodIdentity(*pod[0]) if pod else None)


def _load_exit(exited: object) -> Exit | None:
    return None if exited is None else from_plain(exited, Exit)


def _load_app(event: object, came_us: int | None, queue: str, state: str, *rest: Any) -> AppEntry:  # noqa: ANN401 - as unpacked
    states, ran_us, most = rest
    made = from_plain(event, AddApp)
    return AppEntry(
        made, came_us, queue, state, [(at, name) for at, name in states], ran_us, {}, most
    )


def _load_asks(
    book: LedgerState, event: object, namespace: str | None, rows: list[list[Any]]
) -> None:
    made = from_plain(event, AddAsk)
    app = book.apps[made.app]
    book.history.series.asks += len(rows)
    for name, came_us, since_us, retries, node, taken_us, bound_us, is_bound, before in rows:
        ask = AskEntry(made, came_us, since_us, retries, None, None, None, namespace)
        app.asks[name] = ask
        if node is not None:
            book.take(app, ask, node, taken_us)
            if is_bound:
                book.bind(ask, bound_us)
        if before is not None:
            started_us, ran_us, held_us, exited = before
            ask.earlier = PreviousAllocation(started_us, ran_us, held_us, _load_exit(exited))
