"""The calls to a running scheduler, the notes of its own tasks, and the client that sends them.

The client knows the coordinator only as the reader of the entry. Notes say that work has started or
ended; what the error of a binder means (that work has failed, or why it could not be started) is
found here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NoReturn,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    final,
)

import attrs
import outcome
import trio
from typing_extensions import override

from muster._errors import ClosedSchedulerError, NotStartedError, WorkFailedError
from muster._runtime.clock import Pace
from muster._runtime.entry import EntryQueue, closed_error
from muster._runtime.observers import Watched
from muster._runtime.requests import Examined, Explained, Reply, RequestKey
from muster._runtime.tracking import AllocationStatus, GangStatus, TrackedAsk
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.errors import MusterError, RefusedError
from muster_core.events import BindFailed, Event, Exit, Outcome, Release
from muster_core.facts import Facts
from muster_core.snapshots import AskPlace, Snapshot
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT


MOST: Final = 300
"""How long what a decision says of an error may be, in characters."""


def failure_in(error: Exception) -> WorkFailedError | None:
    """Return the first error in a group that says that the work has failed, or None."""
    if isinstance(error, WorkFailedError):
        return error
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return next((found for one in group.exceptions if (found := failure_in(one))), None)
    return None


def counts(error: Exception) -> bool:
    """Return whether an error counts as a failed attempt to start the work of an ask."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return any(counts(one) for one in group.exceptions)
    return not isinstance(error, NotStartedError)


# FEED-36
def in_words(error: Exception) -> str:
    """Return in one line why work could not be started; never a whole traceback.

    Of a group it is the first error that counts, or the first one of all.
    """
    while isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        error = next((one for one in group.exceptions if counts(one)), group.exceptions[0])
    name = type(error).__name__
    line = ""
    with suppress(Exception):  # the error may be of the program, and its text may fail
        line = _first_line(str(error))
    is_enough = line and isinstance(error, MusterError | OSError)
    text = line if is_enough else f"{name}: {line}" if line else name
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"


def _first_line(text: str) -> str:
    """Return the first line that is not empty, of what can be printed and written as UTF-8."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line.strip())


A = TypeVar("A")

# Looking up a member of an enum takes ten times as long.
_WORK_FAILED: Final = Outcome.FAILED


@final
class Answer(Reply[A]):
    """The answer to a call that can be withdrawn.

    A caller that is cancelled while it waits withdraws its call, if the coordinator has not begun
    it. Otherwise the caller continues to wait, which is short, and gets its answer. So a cancelled
    call was not carried out, and the result of a call that was carried out is not lost.
    """

    __slots__ = ("_raise_cancel", "_taken", "_withdrawn")

    def __init__(self) -> None:
        super().__init__()
        #: Raises the cancellation of a caller that continues to wait; None without one.
        self._raise_cancel: RaiseCancelT | None = None
        self._taken = self._withdrawn = False

    def take(self) -> bool:
        """Begin to carry out the call; return False if it was withdrawn."""
        self._taken = True
        return not self._withdrawn

    @override
    def _resume(self, waiter: trio.lowlevel.Task) -> None:
        if self._raise_cancel is not None and isinstance(self._error, ClosedSchedulerError):
            # For a cancelled caller the cancellation matters more than the closed scheduler.
            trio.lowlevel.reschedule(waiter, outcome.capture(self._raise_cancel))
        else:
            super()._resume(waiter)

    @override
    def _abort(self, raise_cancel: RaiseCancelT, /) -> trio.lowlevel.Abort:
        if self._taken:
            self._raise_cancel = raise_cancel
            return trio.lowlevel.Abort.FAILED
        self._withdrawn = True
        return super()._abort(raise_cancel)


@final
@attrs.frozen
class EventResults:
    """The results of events.

    Attributes:
        refusals: For each event the error with which it was refused, or None; None also for one
            that was not let in only because another one of an atomic call is refused.
        asks: The asks that the events added, if they are to be tracked.
        first: The index of the first event, from 0, among all events that were let in.
        batch: The number of the batch that they went into; 0 if none was let in.
        seqs: The numbers of the first and the last decision of this batch; None without any.
    """

    refusals: tuple[RefusedError | None, ...]
    asks: tuple[TrackedAsk, ...] = ()
    first: int = 0
    batch: int = 0
    seqs: tuple[int, int] | None = None


class Guard(Protocol):
    """Judges events where they are let in, before the scheduler itself does."""

    def must_hear_first(self, event: Event, machine: CoordinatorMachine, /) -> bool:
        """Return whether the owners must report before an event can be judged."""
        ...

    def refusal(self, event: Event, machine: CoordinatorMachine, /) -> str | None:
        """Return why an event is not let in, or None; it is called for each event in order."""
        ...


@final
@attrs.frozen(eq=False)
class Enter:
    """Submit events in one batch.

    Attributes:
        events: The events.
        track: Whether to track the asks that the events add.
        request: The key of the request that the events come from; it is kept with their batch.
        guard: Judges which of the events are let in, or None to let in all.
        is_atomic: Whether none is let in if one of them would be refused.
        answer: The results of the events.
    """

    events: Sequence[Event]
    track: bool = False
    request: RequestKey | None = None
    guard: Guard | None = None
    is_atomic: bool = False
    answer: Answer[EventResults] = attrs.field(factory=Answer[EventResults])


@final
@attrs.frozen(eq=False)
class EndAllocation:
    """End an allocation, unless it has ended; the answer says whether this call ended it."""

    ask: TrackedAsk
    held: AllocationStatus
    outcome: Outcome = Outcome.COMPLETED
    message: str | None = None
    exited: Exit | None = None
    answer: Answer[bool] = attrs.field(factory=Answer[bool])


@final
@attrs.frozen(eq=False)
class WithdrawAsk:
    """Remove an ask, but not another ask that has its name by now."""

    ask: TrackedAsk
    answer: Answer[None] = attrs.field(factory=Answer[None])


@final
@attrs.frozen(eq=False)
class TrackAsk:
    """Track an ask by its name."""

    app: str
    ask: str
    answer: Answer[TrackedAsk] = attrs.field(factory=Answer[TrackedAsk])


@final
@attrs.frozen(eq=False)
class TrackGang:
    """Track a gang by its name."""

    gang: str
    answer: Answer[Watched[GangStatus]] = attrs.field(factory=Answer[Watched[GangStatus]])


@final
@attrs.frozen(eq=False)
class SettleNow:
    """Wait until all earlier events are decided."""

    answer: Answer[None] = attrs.field(factory=Answer[None])


@final
@attrs.frozen(eq=False)
class Survey:
    """Return a snapshot of the whole state."""

    answer: Answer[Snapshot] = attrs.field(factory=Answer[Snapshot])


@final
@attrs.frozen(eq=False)
class Why:
    """Return why an ask is not running.

    Attributes:
        app: Its application.
        ask: Its name.
        with_facts: Whether the facts of the state are wanted as well if it is pending.
        answer: Why it is not running.
    """

    app: str
    ask: str
    with_facts: bool = False
    answer: Answer[Explained] = attrs.field(factory=Answer[Explained])


@final
@attrs.frozen(eq=False)
class LookInto:
    """Call an examiner with the state; the answer is its exception, or None."""

    examiner: Callable[[Examined], None]
    answer: Answer[Exception | None] = attrs.field(factory=Answer["Exception | None"])


@final
@attrs.frozen(eq=False)
class Inspect(Generic[A]):
    """Read the state between two batches.

    Attributes:
        look: Reads the machine, and changes nothing. What it raises as
            :class:`~muster_core.errors.MusterError` is the answer.
        answer: What it returns.
    """

    look: Callable[[CoordinatorMachine], Steps[A]]
    answer: Answer[A] = attrs.field(factory=Answer[Any])


@final
@attrs.frozen(eq=False)
class TakeFacts:
    """Return the facts of a checkpoint, from which a copy of the state can be made."""

    answer: Answer[Facts] = attrs.field(factory=Answer["Facts"])


@final
@attrs.frozen(eq=False)
class ListAsks:
    """Return the asks that are in a place, and belong to a queue or an application.

    Attributes:
        state: The place, or None for all.
        queue: The path of a queue, in lower case; also asks below it count. None for all.
        app: The name of an application, or None for all.
        answer: The asks, in the order in which they were added.
    """

    state: AskPlace | None
    queue: str | None
    app: str | None
    answer: Answer[Sequence[TrackedAsk]] = attrs.field(factory=Answer[Sequence[TrackedAsk]])


@final
@attrs.frozen(eq=False)
class TakeCheckpoint:
    """Write a checkpoint to the store."""

    answer: Answer[None] = attrs.field(factory=Answer[None])


Changing = Enter | EndAllocation | WithdrawAsk | SettleNow
"""The calls that may have events; their answers come with those of their batch."""

READINGS: Final = (
    TrackAsk,
    TrackGang,
    ListAsks,
    Survey,
    Why,
    LookInto,
    Inspect,
    TakeFacts,
    TakeCheckpoint,
)

Inspecting: TypeAlias = "LookInto | Inspect[Any] | TakeFacts"
"""The calls that read all of the state."""

Reading: TypeAlias = "TrackAsk | TrackGang | ListAsks | Survey | Why | Inspecting | TakeCheckpoint"
"""The calls that read the state when everything before them is announced."""

Call: TypeAlias = "Changing | Reading"
"""The calls of callers; each gets an answer."""


@final
@attrs.frozen
class TimerDue:
    """A timer is due."""


@final
@attrs.frozen(eq=False)
class WorkStarted:
    """A binder has started the work of an allocation."""

    ask: TrackedAsk
    held: AllocationStatus


@final
@attrs.frozen(eq=False)
class WorkEnded:
    """The work of an allocation has ended.

    Attributes:
        ask: The ask.
        held: Its allocation.
        failure: With what it has failed; None if it has completed.
    """

    ask: TrackedAsk
    held: AllocationStatus
    failure: WorkFailedError | None = None

    def release(self) -> Release:
        """Return the event that says how the work has ended."""
        if self.failure is None:
            return Release(self.ask.app, self.ask.name)
        message = self.failure.message or None
        return Release(self.ask.app, self.ask.name, _WORK_FAILED, message, self.failure.exited)


@final
@attrs.frozen(eq=False)
class StartFailed:
    """The work of an allocation could not be started.

    Attributes:
        ask: The ask.
        held: Its allocation.
        error: The error of the work.
        counts: Whether this counts as an attempt: the binder was called, and raised something
            other than :class:`muster.NotStartedError`.
    """

    ask: TrackedAsk
    held: AllocationStatus
    error: Exception
    counts: bool = True

    def undo(self) -> BindFailed:
        """Return the event that says why the work could not be started."""
        return BindFailed(self.ask.app, self.ask.name, in_words(self.error))


Note = TimerDue | WorkStarted | WorkEnded | StartFailed
"""The notes of the scheduler's own tasks, which get no answer."""


def refuse(call: Call | Note, cause: Exception | None) -> None:
    """Answer a call with the error that the scheduler is closed.

    Args:
        call: The call; a note needs no answer.
        cause: The error from outside that ended the scheduler, or None.
    """
    match call:
        case TimerDue() | WorkStarted() | WorkEnded() | StartFailed():
            pass
        case _:
            error = ClosedSchedulerError("the scheduler was closed before it answered")
            error.__cause__ = cause
            call.answer.fail(error)


async def raise_closed() -> NoReturn:
    """Raise the error of a closed scheduler, or the cancellation of a cancelled caller.

    Raises:
        ClosedSchedulerError: Unless the caller is cancelled.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    raise closed_error()


@final
class Client:
    """Sends calls to a running scheduler.

    Args:
        entry: The queue of calls; callers wait for a place when it is full.
        pace: The pace of all tasks of the scheduler, for callers with many events.
        keeps: Whether the scheduler has a store.
    """

    def __init__(self, entry: EntryQueue[Call | Note], pace: Pace, *, keeps: bool = False) -> None:
        self._entry = entry
        self.pace = pace
        self.keeps = keeps

    async def call(self, call: Call, answer: Answer[A]) -> A:
        """Send a call to the coordinator, and return its answer.

        Args:
            call: The call.
            answer: The answer of this call, for its type.

        Raises:
            MusterError: If the coordinator answers with this error.
            ClosedSchedulerError: If the scheduler is closed.
        """
        try:
            await self._entry.put(call)
        except ClosedSchedulerError:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise
        return await answer.wait()

    async def enter(self, event: Event, *, track: bool = False) -> EventResults:
        """Submit an event.

        Args:
            event: The event.
            track: Whether to track the asks that the event adds.

        Raises:
            RefusedError: If the event is not possible now.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = Enter((event,), track)
        entered = await self.call(call, call.answer)
        (refusal,) = entered.refusals
        if refusal is None:
            return entered
        try:
            raise refusal
        finally:
            del refusal, entered, call  # avoids a reference cycle through the traceback
