"""The records of a fuzzed program: the accepted events, the decisions, and the calls of clients.

A story is the journal and the record of a scheduler. It keeps track of bound asks and satisfied
gangs, and finds the faults that the decisions alone show. The history of an ask says where it was
bound, and how each allocation ended. Several asks may have the same name, one after the other; the
events that added them tell them apart. Nothing here runs a scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from math import inf
from typing import Final, TypeVar, final

import attrs
import trio
from typing_extensions import override

import muster
from muster.testing.fuzz._program import Key
from muster_core.decisions import EVICTIONS, Announced, Decision, Kind, Reason
from muster_core.errors import ConfigError, EventError, MusterError, RefusedError
from muster_core.events import (
    AddAsk,
    AddGang,
    AddPriorityClass,
    Apply,
    Configure,
    Delete,
    Event,
    NodeObject,
    PodObject,
    QueueObject,
    RemoveGang,
)

Ask = tuple[str, str]
"""The names of an application and an ask."""


@final
@attrs.define(eq=False)
class AllocationRecord:
    """One allocation.

    Attributes:
        seq: The decision that bound it.
        node: The node.
        batch: The number of the batch that bound it.
        end: The decision that released it, or None while it lasts.
        for_good: Whether it ended as failed when the ask had no retry left.
        lost_for_good: Whether the ask had ``once`` and went with its node.
    """

    seq: int
    node: str | None
    batch: int
    end: Announced | None = None
    for_good: bool = False
    lost_for_good: bool = False

    @property
    def reason(self) -> Reason | None:
        """The reason why it has ended, or None while it lasts."""
        return None if self.end is None else self.end.decision.reason


@final
@attrs.define(eq=False)
class AskLife:
    """The history of one ask.

    Attributes:
        index: The index of the event that added it.
        sure: Whether that event was an ``add_ask``, and no manifest may have changed the ask.
        retries: How many retries it has left.
        once: Whether it does not come back.
        allocations: Its allocations, except those that ended in the batch in which they began.
    """

    index: int
    sure: bool
    retries: int = 0
    once: bool = False
    allocations: list[AllocationRecord] = attrs.field(factory=list[AllocationRecord])


HAVE_RUN: Final = frozenset({Reason.COMPLETED, Reason.RUN_LIMIT})
"""The ends of allocations that ``bound`` returns all the same."""


@final
class AskHistories:
    """The histories of all asks.

    Attributes:
        lives: The asks of each name, in order.
        lasting: The allocation of each bound ask.
        by_seq: The allocations by the decision that bound them.
        entered: How many events were accepted.
    """

    def __init__(self) -> None:
        self.lives: dict[Ask, list[AskLife]] = {}
        self.lasting: dict[Ask, AllocationRecord] = {}
        self.by_seq: dict[int, AllocationRecord] = {}
        self.entered = 0
        self._batch = 0
        #: The events of this batch that add asks; the end of the batch shows which are refused.
        self._open: list[tuple[int, Event]] = []

    def enter(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, AddAsk | Apply):
            self._open.append((self.entered, event))
        self.entered += 1

    def end_batch(self, announced: Sequence[Announced] = ()) -> None:
        """Process the decisions of a batch."""
        refused = {one.decision.index for one in announced if one.decision.kind is Kind.REJECTED}
        for index, event in self._open:
            if index not in refused:
                self._admit(index, event)
        self._open.clear()
        for one in announced:
            self._follow(one)
        self._batch += 1

    def _admit(self, index: int, event: Event) -> None:
        match event:
            case AddAsk():
                for name in event.names():
                    life = AskLife(index, sure=True, retries=event.retries, once=event.once)
                    self.lives.setdefault((event.app, name), []).append(life)
            case Apply(objects):
                for content in (one.content for one in objects):
                    if isinstance(content, PodObject):
                        # The object is a new ask, or changes the existing one.
                        self._latest((content.app, content.name), index).sure = False
            case _:
                pass

    def _latest(self, ask: Ask, index: int) -> AskLife:
        lives = self.lives.setdefault(ask, [])
        if not lives:
            lives.append(AskLife(index, sure=False))
        return lives[-1]

    def _follow(self, one: Announced) -> None:
        decision = one.decision
        if decision.app is None or decision.ask is None:
            return
        ask = (decision.app, decision.ask)
        if decision.kind is Kind.BOUND:
            allocated = AllocationRecord(one.seq, decision.node, self._batch)
            self._latest(ask, self.entered).allocations.append(allocated)
            self.lasting[ask] = self.by_seq[one.seq] = allocated
        elif decision.kind is Kind.RELEASED and ask in self.lasting:
            allocated = self.lasting.pop(ask)
            allocated.end = one
            # Its name may have another ask since: one that came in this batch.
            life = next(one for one in self.lives[ask] if allocated in one.allocations)
            # ONCE-2
            allocated.lost_for_good = life.once and decision.reason in _LOST
            if decision.reason is Reason.FAILED:
                allocated.for_good = life.retries == 0
                life.retries -= 1
            if allocated.batch == self._batch:  # No caller can have seen it.
                life.allocations.remove(allocated)

    def come_since(self, ask: Ask, entered: int) -> AskLife | None:
        """Return the ask of a name that was added since an event, if there is exactly one."""
        lives = [life for life in self.lives.get(ask, ()) if life.index >= entered]
        return lives[0] if len(lives) == 1 and lives[0].sure else None

    def have_run_since(self, ask: Ask, seq: int) -> Iterator[AllocationRecord]:
        """Yield the allocations of a name that have run to an end after a decision."""
        for life in self.lives.get(ask, ()):
            for one in life.allocations:
                if one.end is not None and one.end.seq > seq and one.reason in HAVE_RUN:
                    yield one


def failed_in_a_row(allocations: Iterable[AllocationRecord], counts: set[int]) -> int:
    """Return how many of the last allocations failed in a row, if their runs count."""
    times = 0
    for one in allocations:
        if one.reason is not Reason.BIND_FAILED:
            times = 0
        elif one.seq in counts:
            times += 1
    return times


_LOST: Final = EVICTIONS | {Reason.NODE_LOST}
"""If all members of a gang are released for these reasons, the gang is unsatisfied again."""


@final
@attrs.frozen
class Entry:
    """An accepted event, or the end of a batch.

    Attributes:
        at_us: The instant of its batch, in microseconds since the opening.
        event: The event, or None for the end of a batch.
        announced: How many decisions there were before it.
    """

    at_us: int
    event: Event | None
    announced: int


@final
@attrs.define
class _Gang:
    """The state of a gang, as the decisions show it."""

    satisfied: bool = False
    bound: set[Ask] = attrs.field(factory=set[Ask])
    all_lost: bool = True


@final
class Story:
    """The journal and the record of one run.

    Attributes:
        decisions: All announced decisions.
        offered: How many decisions observers have been offered for sure: all before the last batch.
        entries: All accepted events and the ends of batches, in order.
        keys: How many events were accepted, by key.
        closed: The value of ``keys`` at the end of the last batch.
        bound: For each bound ask the decision that bound it.
        times_bound: How often each ask was bound.
        satisfied: The satisfied gangs, except those that a later event tried to remove.
        awake_us: The instant of the last jump of the clock, in microseconds since the opening;
            later decisions must not have earlier instants.
        faults: The faults of the decisions by themselves.
        history: The history of each ask.
    """

    def __init__(self) -> None:
        self.decisions: list[Announced] = []
        self.offered = 0
        self.entries: list[Entry] = []
        self.keys: Counter[Key] = Counter()
        self.closed: Counter[Key] = Counter()
        self.bound: dict[Ask, Announced] = {}
        self.times_bound: Counter[Ask] = Counter()
        self.satisfied: set[str] = set()
        self.awake_us = 0
        self.faults: list[str] = []
        self.history = AskHistories()
        #: The decisions of the batch that is about to end.
        self._written: Sequence[Announced] = ()
        self._gangs: dict[str, _Gang] = {}

    # The record

    def enter(self, at_us: int, event: Event, /) -> None:
        """Record an accepted event."""
        self.entries.append(Entry(at_us, event, len(self.decisions)))
        self.history.enter(event)
        key = key_of(event)
        self.keys[key] += 1
        if isinstance(event, RemoveGang | Delete):
            self.satisfied.discard(key[-1])

    def close(self, at_us: int, /) -> None:
        """Record the end of a batch."""
        batch, self._written = self._written, ()
        self.offered = len(self.decisions)
        satisfied = {one.decision.gang for one in batch if one.decision.kind is Kind.GANG_SATISFIED}
        self.history.end_batch(batch)
        for one in batch:
            self._check_place(one)
            self.decisions.append(one)
            self._follow(one, satisfied)
        self.closed = self.keys.copy()
        self.entries.append(Entry(at_us, None, len(self.decisions)))

    # The journal

    def write(self, batch: Sequence[Announced], /) -> None:
        """Receive the decisions of a batch, of which :meth:`close` tells next.

        With a store its events come in between, otherwise they have come before.
        """
        if not batch:
            self.faults.append("the journal was given an empty batch")
        self._written = batch

    def _check_place(self, one: Announced) -> None:
        if one.seq != len(self.decisions) + 1:
            self.faults.append(f"decision {one.seq} follows decision {len(self.decisions)}")
        if self.decisions and one.at_us < self.decisions[-1].at_us:
            self.faults.append(f"decision {one.seq} is earlier than the one before it")
        if one.at_us < self.awake_us:
            late_us = self.awake_us - one.at_us
            self.faults.append(f"decision {one.seq}, of {one.at_us} us, comes {late_us} us late")

    def _follow(self, one: Announced, satisfied: set[str | None]) -> None:
        decision = one.decision
        if decision.kind is Kind.GANG_SATISFIED and decision.gang is not None:
            gang = self._gangs.setdefault(decision.gang, _Gang())
            gang.satisfied, gang.all_lost = True, True
            self.satisfied.add(decision.gang)
        if decision.app is None or decision.ask is None:
            return
        ask = (decision.app, decision.ask)
        if decision.kind is Kind.BOUND:
            if ask in self.bound:
                self.faults.append(f"{ask} is bound by decision {one.seq}, and was bound already")
            self.bound[ask] = one
            self.times_bound[ask] += 1
            self._member_bound(one, ask, satisfied)
        elif decision.kind is Kind.RELEASED:
            self.bound.pop(ask, None)
            self._member_released(decision, ask)

    def _member_bound(self, one: Announced, ask: Ask, satisfied: set[str | None]) -> None:
        name = one.decision.gang
        if name is None:
            return
        gang = self._gangs.setdefault(name, _Gang())
        gang.bound.add(ask)
        if not gang.satisfied and name not in satisfied:
            self.faults.append(
                f"decision {one.seq} binds {ask} of the gang {name}, which is not satisfied"
            )

    def _member_released(self, decision: Decision, ask: Ask) -> None:
        gang = self._gangs.get(decision.gang or "")
        if gang is None or ask not in gang.bound:
            return
        gang.bound.discard(ask)
        # ONCE-4: members that do not come back may leave too few for another wait.
        stays = not any(life.once for life in self.history.lives.get(ask, ()))
        gang.all_lost = gang.all_lost and stays and decision.reason in _LOST
        if not gang.bound and gang.all_lost:
            gang.satisfied = False
        if not gang.bound and decision.gang is not None:
            self.satisfied.discard(decision.gang)


def key_of(event: Event) -> Key:
    """Return the kind and the subject of an event."""
    kind = type(event).__name__
    match event:
        case Apply(objects):
            content = objects[0].content
            return kind, type(content).__name__, _name_of(content)
        case Delete(names):
            return kind, names[0].content.kind.value, names[0].content.name
        case Configure():
            return (kind,)
        case _:  # An application, perhaps with an ask, or what its first field names
            fields = [name for name in ("app", "ask") if hasattr(event, name)]
            fields = fields or [attrs.fields(type(event))[0].name]
            return kind, *(getattr(event, name) for name in fields)


def _name_of(content: AddPriorityClass | AddGang | NodeObject | PodObject | QueueObject) -> str:
    match content:
        case AddGang():
            return content.gang
        case NodeObject():
            return content.node
        case AddPriorityClass() | PodObject() | QueueObject():
            return content.name


T = TypeVar("T")

Judge = Callable[[object], Iterable[str]]
"""Checks the answer of a call, a value or an error, and returns a text for each fault."""

_WAITS: Final = (
    muster.AskRemovedError,
    muster.AskParkedError,
    muster.AllocationEndedError,
    muster.GangTimedOutError,
    muster.GangRemovedError,
    muster.LaggedError,
)


@final
class CallEnd(StrEnum):
    """How a call was answered."""

    RETURNED = "returned"
    REFUSED = "was refused"
    BAD = "was turned down before it was let in"
    IN_VAIN = "was told that it waits in vain"
    CLOSED = "was told that the scheduler is closed"
    CANCELLED = "was cancelled"


@final
@attrs.define(eq=False)
class Call:
    """One call.

    Attributes:
        number: Its number.
        who: The name of the caller.
        what: The operation.
        text: The call in words.
        keys: The events that it submits.
        waits: Whether it may wait; otherwise it is answered before time passes.
        about: What it waits for, for the checks at rest.
        end: How it was answered, or None.
        answer: The answer in words.
    """

    number: int
    who: str
    what: str
    text: str
    keys: tuple[Key, ...]
    waits: bool
    about: object = None
    end: CallEnd | None = None
    answer: str = ""

    @override
    def __str__(self) -> str:
        """Return the call and its answer as one line."""
        end = "is not answered" if self.end is None else self.end.value
        return f"[{self.number}] {self.who}: {self.text} {end} {self.answer}".rstrip()


@final
class CallLog:
    """All calls of one run.

    Args:
        is_closing: Returns whether the block is ending or has ended.
        story: The accepted events and the decisions.

    Attributes:
        calls: The calls in order.
        open: The calls that are not answered, by number.
        faults: The faults of single answers.
    """

    def __init__(self, is_closing: Callable[[], bool], story: Story) -> None:
        self._is_closing = is_closing
        self._story = story
        self._done: Counter[Key] = Counter()
        self.calls: list[Call] = []
        self.open: dict[int, Call] = {}
        self.faults: list[str] = []

    async def note(
        self,
        who: str,
        what: str,
        text: str,
        ask: Callable[[], Awaitable[T]],
        *,
        keys: tuple[Key, ...] = (),
        waits: bool = False,
        about: object = None,
        bad: bool = False,
        judge: Judge | None = None,
    ) -> T | None:
        """Make a call and record its answer.

        Args:
            who: The name of the caller.
            what: The operation.
            text: The call in words.
            ask: Makes the call.
            keys: The events that it submits.
            waits: Whether it may wait.
            about: What it waits for.
            bad: Whether it has an invalid value, so that it must raise an error.
            judge: Checks the answer as soon as it comes.

        Returns:
            The value, or None after an error.
        """
        call = Call(len(self.calls), who, what, text, keys, waits, about)
        self.calls.append(call)
        self.open[call.number] = call
        try:
            value = await ask()
        except trio.Cancelled:
            call.end = CallEnd.CANCELLED
            if trio.current_effective_deadline() > -inf:
                self.faults.append(f"{call}, but nobody had cancelled it")
            raise
        except MusterError as error:
            self._failed(call, error, bad=bad)
            self._judge(call, error, judge)
            return None
        except Exception as error:  # noqa: BLE001 - any other exception is a fault
            call.answer = repr(error)
            self.faults.append(f"{call.text} of {who} raised {error!r}")
            return None
        else:
            call.end, call.answer = CallEnd.RETURNED, brief(value)
            self._check_done(call)
            self._judge(call, value, judge)
            if bad:
                self.faults.append(f"{call}, but has a bad value")
            return value
        finally:
            del self.open[call.number]

    def _judge(self, call: Call, answer: object, judge: Judge | None) -> None:
        if judge is not None:
            self.faults += [f"{call}, but {fault}" for fault in judge(answer)]

    def _failed(self, call: Call, error: MusterError, *, bad: bool) -> None:
        call.answer = f"{type(error).__name__}: {error}"
        match error:
            case RefusedError():
                call.end = CallEnd.REFUSED
                self._check_done(call)
            case EventError() | ConfigError():
                call.end = CallEnd.BAD
                if not bad:
                    self.faults.append(f"{call}, but nothing is wrong with its form")
            case muster.ClosedSchedulerError():
                call.end = CallEnd.CLOSED
                if not self._is_closing():
                    self.faults.append(f"{call}, but nobody leaves the block")
            case _ if isinstance(error, _WAITS):
                call.end = CallEnd.IN_VAIN
                if not call.waits:
                    self.faults.append(f"{call}, but waits for nothing")
            case _:
                self.faults.append(f"{call}: no such error belongs here")

    def _check_done(self, call: Call) -> None:
        """Add a fault if a call is answered before the batch of its events is closed."""
        self._done.update(call.keys)
        for key in call.keys:
            if self._story.closed[key] < self._done[key]:
                self.faults.append(f"{call}, before the batch of {key} was closed")

    def counted(self) -> Counter[str]:
        """Return how many calls of each kind were made."""
        return Counter(call.what for call in self.calls)


def brief(value: object) -> str:
    """Return a short text for a value."""
    return "" if value is None else f"{type(value).__name__}"
