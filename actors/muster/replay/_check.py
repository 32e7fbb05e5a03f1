"""The check: replay a feed, and compare the state with every ``expect``. EXPECT-1 to EXPECT-14.

A record has the decisions since the last ``expect`` that an ``expect`` can name. A value in a
difference is a JSON value, as it would be written in a feed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self, TypeAlias, final

import attrs

from muster._surface.simulation import Simulation, open_simulation
from muster.feeds import (
    UNSET,
    Expect,
    ExpectedApp,
    ExpectedGang,
    ExpectedQueue,
    ExpectedReservation,
    FeedItem,
    KeptFeed,
    Unset,
    run_again,
)
from muster.replay._driver import submit_item
from muster.replay._tally import Remark
from muster.replay._warnings import FeedWarning, FeedWarnings
from muster_core.config.queues import canonical_path
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Decision, Kind, Reason, seconds
from muster_core.reasons import Explanation
from muster_core.snapshots import AskSnapshot, GangSnapshot, QueueSnapshot, Snapshot
from muster_core.values.application_states import AppState
from muster_core.values.names import canonical_gang, did_you_mean
from muster_core.values.resources import format_quantity

if TYPE_CHECKING:
    from muster.store import KeptBatch


@final
@attrs.define
class DecisionRecord:
    """A journal of the decisions that an ``expect`` can name.

    Attributes:
        bound: The bound asks, as ``app/ask``, in order.
        refusals: The refused events, in order.
        warnings: The warnings, in order.
        preempted: The victims of preemption, as ``app/ask``, in order.
        reclaimed: The victims of reclaim, likewise.
    """

    bound: list[str] = attrs.field(factory=list[str])
    refusals: list[Remark] = attrs.field(factory=list[Remark])
    warnings: list[str] = attrs.field(factory=list[str])
    preempted: list[str] = attrs.field(factory=list[str])
    reclaimed: list[str] = attrs.field(factory=list[str])

    def write(self, batch: Sequence[Announced], /) -> None:
        """Record the decisions of a batch."""
        for announced in batch:
            self._note(announced.decision)

    def _note(self, decision: Decision) -> None:
        kind, reason = decision.kind, decision.reason
        # EXPECT-2
        if kind is Kind.BOUND:
            self.bound.append(f"{decision.app}/{decision.ask}")
        # EXPECT-8
        elif kind is Kind.RELEASED and reason is Reason.PREEMPTED:
            self.preempted.append(f"{decision.app}/{decision.ask}")
        elif kind is Kind.RELEASED and reason is Reason.RECLAIMED:
            self.reclaimed.append(f"{decision.app}/{decision.ask}")
        elif kind is Kind.REJECTED:
            self.refusals.append(Remark.of(decision))
        # EXPECT-10
        elif kind is Kind.WARNING:
            self.warnings.append(decision.message or "")

    # EXPECT-12
    def start_anew(self) -> DecisionRecord:
        """Clear this record; return its content as a new one."""
        before = attrs.evolve(self)
        self.bound, self.refusals, self.warnings = [], [], []
        self.preempted, self.reclaimed = [], []
        return before


_COMPLETED: Final = AppState.COMPLETED.value

Value: TypeAlias = (
    "bool | int | float | str | list[str] | dict[str, str] | dict[str, list[int]] | None"
)
"""An expected or found value."""


@final
class MissingValue(str):
    """The value for something that does not exist, unlike any text of a feed.

    Attributes:
        guess: The likely name, for the end of a sentence; perhaps empty.
    """

    __slots__ = ("guess",)

    guess: str

    def __new__(cls, text: str, guess: str = "") -> Self:
        """Make the value.

        Args:
            text: Its text in output for programs, without the guess.
            guess: The likely name.
        """
        made = super().__new__(cls, text + guess)
        made.guess = guess
        return made


# EXPECT-14
UNKNOWN: Final = MissingValue("unknown")
"""The found value for something that does not exist."""

NOTHING: Final = MissingValue("nothing")
"""The expected or found value beyond the end of the shorter list."""


@final
@attrs.frozen
class Mismatch:
    """A field whose value is not the expected one.

    Attributes:
        field: The field of the ``expect``, such as ``queues.root.a.share``.
        expected: The expected value.
        found: The found value.
    """

    field: str
    expected: Value
    found: Value


@final
@attrs.frozen
class Difference:
    """A difference, with its place in the feed.

    Attributes:
        index: The index of the event, from 0: the ``expect``, or a refused event that no
            ``expect`` names.
        line: Its line, from 1, or None if the encoding has no lines.
        field: The field, as in :class:`Mismatch`.
        expected: The expected value.
        found: The found value.
    """

    index: int
    line: int | None
    field: str
    expected: Value
    found: Value


def asks_of(snapshot: Snapshot) -> dict[str, AskSnapshot]:
    """Return all asks by ``app/ask``."""
    return {f"{app.name}/{ask.name}": ask for app in snapshot.apps.values() for ask in app.asks}


# EXPECT-1
def compare(expect: Expect, snapshot: Snapshot, record: DecisionRecord) -> Iterator[Mismatch]:
    """Compare all fields except ``reasons`` and ``rejected``.

    Args:
        expect: The expected values.
        snapshot: The state.
        record: The decisions since the last ``expect``.

    Yields:
        The differences, in the order of the fields in the specification.
    """
    asks = asks_of(snapshot)
    # EXPECT-2
    yield from _in_order("order", expect.order, record.bound)
    # EXPECT-3
    for place in ("bound", "waiting", "pending", "parked"):
        wanted: frozenset[str] | None = getattr(expect, place)
        if wanted is not None:
            found = sorted(name for name, ask in asks.items() if ask.place == place)
            yield from _same(place, sorted(wanted), found)
    # EXPECT-4
    for name, node in (expect.placed or {}).items():
        ask = asks.get(name)
        if ask is None or ask.node is None:
            found_place = place_of(ask) if ask is not None else unknown_ask(name, asks)
            yield Mismatch(f"placed.{name}", node, found_place)
        else:
            yield from _same(f"placed.{name}", node, ask.node)
    for path, queue in (expect.queues or {}).items():
        yield from _compare_queue(path, queue, snapshot)
    for name, app in (expect.apps or {}).items():
        yield from _compare_app(name, app, snapshot)
    for name, gang in (expect.gangs or {}).items():
        yield from _compare_gang(name, gang, snapshot)
    yield from _compare_parts(expect, snapshot)
    # EXPECT-8
    yield from _in_order("preempted", expect.preempted, record.preempted)
    yield from _in_order("reclaimed", expect.reclaimed, record.reclaimed)
    # EXPECT-10
    yield from _in_parts("warnings", expect.warnings, record.warnings)
    # DEVICE-13
    for name, devices in (expect.devices or {}).items():
        yield from _compare_devices(name, devices, asks)


def _compare_parts(expect: Expect, snapshot: Snapshot) -> Iterator[Mismatch]:
    """Compare the parts of snapshots beside queues, applications and gangs."""
    for name, reservation in (expect.reservations or {}).items():
        yield from _compare_reservation(name, reservation, snapshot)
    for name, amounts in (expect.usage or {}).items():
        yield from _compare_usage(name, amounts, snapshot)


# DEVICE-13
def _compare_devices(
    name: str, expected: Mapping[str, tuple[int, ...]], asks: Mapping[str, AskSnapshot]
) -> Iterator[Mismatch]:
    ask = asks.get(name)
    wanted = {kind: [*numbers] for kind, numbers in sorted(expected.items())}
    if ask is None or ask.node is None:
        found = place_of(ask) if ask is not None else unknown_ask(name, asks)
        yield Mismatch(f"devices.{name}", wanted, found)
    else:
        held = {kind: [*numbers] for kind, numbers in ask.devices.items()}
        yield from _same(f"devices.{name}", wanted, held)


# EXPECT-9, EXPECT-13
def compare_refusals(
    expect: Expect, refusals: Sequence[Remark]
) -> Iterator[tuple[Remark | None, Mismatch]]:
    """Compare the refusals since the last ``expect``.

    Yields:
        The differences, each with the refusal if no text of the ``expect`` covers it.
    """
    parts = expect.rejected or ()
    for number, refusal in enumerate(refusals[len(parts) :], len(parts)):
        field = "rejected" if expect.rejected is None else f"rejected[{number}]"
        yield refusal, Mismatch(field, NOTHING, refusal.message)
    messages = [refusal.message for refusal in refusals[: len(parts)]]
    yield from ((None, found) for found in _in_parts("rejected", parts, messages))


# EXPECT-11
def compare_reason(
    name: str, part: str, explanation: Explanation | None, place: str
) -> Iterator[Mismatch]:
    """Compare the reasons why an ask is not running.

    Args:
        name: The ask, as ``app/ask``.
        part: The text that one of the reasons must contain; a reason is a code, a colon and a
            sentence.
        explanation: All reasons, or None if the ask is bound or unknown.
        place: The place of the ask if it is bound or unknown.
    """
    if explanation is None:
        yield Mismatch(f"reasons.{name}", part, place)
        return
    reasons = [str(reason) for reason in explanation.reasons]
    if not any(part in reason for reason in reasons):
        yield Mismatch(f"reasons.{name}", part, reasons if len(reasons) > 1 else reasons[0])


def place_of(ask: AskSnapshot | None) -> str:
    """Return the place of an ask: ``bound``, ``pending``, …, or :data:`UNKNOWN`."""
    return UNKNOWN if ask is None else str(ask.place)


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the found value for a name that does not exist, with the names that are like it."""
    return MissingValue(UNKNOWN, did_you_mean(name, known))


def unknown_ask(name: str, known: Iterable[str]) -> str:
    """Return the found value for an ask that does not exist.

    The names of the asks of its application are compared: with the name of the application before
    them, all of them would look alike.
    """
    app, _, ask = name.partition("/")
    before = f"{app}/"
    own = [one.removeprefix(before) for one in known if one.startswith(before)]
    return unknown(ask, own) if own else unknown(name, known)


def _same(field: str, expected: Value, found: Value) -> Iterator[Mismatch]:
    if expected != found:
        yield Mismatch(field, expected, found)


def _in_order(field: str, wanted: Sequence[str] | None, found: Sequence[str]) -> Iterator[Mismatch]:
    if wanted is not None:
        yield from _same(field, list(wanted), list(found))


def _in_parts(field: str, parts: Sequence[str] | None, found: Sequence[str]) -> Iterator[Mismatch]:
    """Compare texts with their expected parts, in order and number."""
    if parts is None:
        return
    for number in range(max(len(parts), len(found))):
        place = f"{field}[{number}]"
        if number >= len(found):
            yield Mismatch(place, parts[number], NOTHING)
        elif number >= len(parts):
            yield Mismatch(place, NOTHING, found[number])
        elif parts[number] not in found[number]:
            yield Mismatch(place, parts[number], found[number])


# EXPECT-6
def _compare_app(name: str, expected: ExpectedApp, snapshot: Snapshot) -> Iterator[Mismatch]:
    app = snapshot.apps.get(name)
    state: str
    if app is not None:
        state, priority = str(app.state), app.priority
    elif name in snapshot.completed:
        state, priority = _COMPLETED, None
    else:
        yield Mismatch(f"apps.{name}", "an application", unknown(name, snapshot.apps))
        return
    if expected.state is not None:
        yield from _same(f"apps.{name}.state", expected.state, state)
    if not isinstance(expected.priority, Unset):
        yield from _same(f"apps.{name}.priority", expected.priority, priority)


# EXPECT-7
def _compare_gang(name: str, expected: ExpectedGang, snapshot: Snapshot) -> Iterator[Mismatch]:
    field = f"gangs.{name}"
    gang = _gang(name, snapshot)
    if gang is None:
        yield Mismatch(field, "a gang", unknown(name, snapshot.gangs))
        return
    found: dict[str, Value] = {
        "waiting": len(gang.waiting),
        "bound": len(gang.bound),
        "satisfied": gang.satisfied,
        "timed_out": gang.timed_out,
        "cycle_valid": gang.cycle_valid,
    }
    for part, value in found.items():
        wanted: Value = getattr(expected, part)
        if wanted is not None:
            yield from _same(f"{field}.{part}", wanted, value)


# EXPECT-15
def _compare_reservation(
    name: str, expected: ExpectedReservation | None, snapshot: Snapshot
) -> Iterator[Mismatch]:
    field, found = f"reservations.{name}", snapshot.reservations.get(name)
    if found is None:
        asks = asks_of(snapshot)
        if name not in asks:
            yield Mismatch(field, "an ask", unknown_ask(name, asks))
        elif expected is not None:
            yield Mismatch(field, "a reservation", None)
        return
    start = "unknown" if found.start_us is None else seconds(found.start_us)
    if expected is None:
        yield Mismatch(field, None, {"start": str(start), "node": found.node})
        return
    if expected.start_us is not None:
        known = expected.start_us
        wanted = known if isinstance(known, str) else seconds(known)
        yield from _same(f"{field}.start", wanted, start)
    if expected.node is not None:
        yield from _same(f"{field}.node", expected.node, found.node)


# EXPECT-16
def _compare_usage(
    name: str, expected: Mapping[str, int], snapshot: Snapshot
) -> Iterator[Mismatch]:
    field, known = f"usage.{name}", {one.name: one for one in reversed(snapshot.usage)}
    path, slash, user = name.partition("/")
    found = known.get(name) or known.get(_canonical(name) or "")
    found = found or known.get(f"{_canonical(path)}{slash}{user}")
    if found is None:
        yield Mismatch(field, "a queue or a user with usage", unknown(name, known))
    else:
        yield from _same_amounts(field, expected, found.unit_seconds)


def _canonical(path: str) -> str | None:
    try:
        return canonical_path(path)
    except ValueError:  # a path that no queue can have
        return None


def _gang(name: str, snapshot: Snapshot) -> GangSnapshot | None:
    try:
        return snapshot.gangs.get(canonical_gang(name))
    except ValueError:  # a name that no gang can have
        return None


# EXPECT-14
def _compare_queue(path: str, expected: ExpectedQueue, snapshot: Snapshot) -> Iterator[Mismatch]:
    queue = _queue(path, snapshot)
    field = f"queues.{path}"
    if expected.exists is not None:
        yield from _same(f"{field}.exists", expected.exists, queue is not None)
    names_more = expected != ExpectedQueue(exists=expected.exists)
    if queue is not None:
        yield from _compare_known_queue(field, expected, queue, snapshot.shares[queue.path])
    elif expected.exists is None or (names_more and not expected.exists):
        yield Mismatch(field, "a queue", unknown(path, snapshot.queues))


def _queue(path: str, snapshot: Snapshot) -> QueueSnapshot | None:
    return snapshot.queues.get(_canonical(path) or "")


# EXPECT-5
def _compare_known_queue(
    field: str, expected: ExpectedQueue, queue: QueueSnapshot, share: float
) -> Iterator[Mismatch]:
    if expected.priority is not UNSET:
        yield from _same(f"{field}.priority", expected.priority, queue.priority)
    if expected.allocated is not None:
        yield from _same_amounts(f"{field}.allocated", expected.allocated, queue.allocated)
    if expected.pending is not None:
        yield from _same_amounts(f"{field}.pending", expected.pending, queue.pending)
    if expected.share is not None:
        yield from _same(f"{field}.share", _number(expected.share), _number(share))
    if expected.state is not None:
        state = "draining" if queue.draining else "active"
        yield from _same(f"{field}.state", expected.state, state)


def _number(share: float) -> Value:
    return "inf" if math.isinf(share) else share


def _same_amounts(
    field: str, expected: Mapping[str, int], found: Mapping[str, int]
) -> Iterator[Mismatch]:
    if _amounts(expected) != _amounts(found):
        yield Mismatch(field, _written(expected), _written(found))


def _amounts(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {
        name: format_quantity(name, amount) for name, amount in sorted(_amounts(amounts).items())
    }


# EXPECT-13
def unexpected(refusals: Iterable[Remark]) -> Iterator[tuple[Remark, Mismatch]]:
    """Yield the refusals after the last ``expect`` as differences."""
    return ((refusal, Mismatch("rejected", NOTHING, refusal.message)) for refusal in refusals)


@final
class Check:
    """A check of one feed, with the differences found so far.

    Attributes:
        events: How many items were read.
        expects: How many ``expect`` events were compared.
        batches: How many batches of a state directory were compared.
        differences: The differences, in the order in which they were found.
        warnings: The warnings about the feed, in the order of the feed.
    """

    def __init__(self) -> None:
        self.events = 0
        self.expects = 0
        self.batches = 0
        self.differences: list[Difference] = []
        self.warnings: list[FeedWarning] = []
        self._record = DecisionRecord()

    async def run(self, items: Iterable[FeedItem]) -> None:
        """Replay the feed, and compare the state with every ``expect``.

        Args:
            items: The feed; its instants never go back.

        Raises:
            FeedError: If the feed cannot be read; earlier differences are kept.
            RefusedError: If the instant of a ``settle`` or ``expect`` is before that of an
                earlier event.
            BrokenSchedulerError: If the scheduler fails, which is a bug.
        """
        reading = FeedWarnings(self.warnings.append)
        async with open_simulation(journal=self._record) as scheduler:
            for item in items:
                self.events += 1
                reading.saw(item)
                await submit_item(scheduler, item)
                if isinstance(item.content, Expect):
                    await self._compare(scheduler, item, item.content)
            reading.end()
            # FEED-13
            await scheduler.finish()
        for refusal, found in unexpected(self._record.start_anew().refusals):
            self._differs(refusal, found)

    # COMMAND-12
    def run_again(
        self, feed: KeptFeed, on_batch: Callable[[KeptBatch], None] = lambda _: None
    ) -> None:
        """Let in the events of a state directory again, and compare the decisions with those in it.

        After the first difference there is nothing more to compare: the rest follows from it.

        Args:
            feed: The state directory.
            on_batch: Called with each batch before it is compared.

        Raises:
            FeedError: If the directory cannot be read.
        """
        scheduler = PlainScheduler(facts=feed.facts)
        first = index = scheduler.machine.requests
        for batch in feed.batches():
            on_batch(batch)
            index = run_again(scheduler, batch, index)
            self.batches += 1
            self.events = index - first
            difference = batch.first_difference(scheduler.announced)
            scheduler.announced = []
            if difference is not None:
                field = f"batch {difference.batch}, decision {difference.seq}"
                found = Mismatch(field, difference.was, difference.now)
                self._differs(Remark(max(index - 1, 0), None, ""), found)
                return

    async def _compare(self, scheduler: Simulation, item: FeedItem, expect: Expect) -> None:
        self.expects += 1
        snapshot = await scheduler.snapshot()
        # EXPECT-12
        record = self._record.start_anew()
        for refusal, found in compare_refusals(expect, record.refusals):
            self._differs(refusal or item, found)
        for found in compare(expect, snapshot, record):
            self._differs(item, found)
        asks = asks_of(snapshot) if expect.reasons else {}
        for name, part in (expect.reasons or {}).items():
            app, _, ask = name.partition("/")
            why = await scheduler.why_pending(app, ask)
            seen = asks.get(name)
            place = unknown_ask(name, asks) if seen is None else place_of(seen)
            for found in compare_reason(name, part, why, place):
                self._differs(item, found)

    def _differs(self, place: FeedItem | Remark, found: Mismatch) -> None:
        difference = Difference(place.index, place.line, found.field, found.expected, found.found)
        self.differences.append(difference)
