"""The calls to a running scheduler, and the notes of its own tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

import attrs
import outcome
import trio
from typing_extensions import override

from muster._errors import ClosedSchedulerError, WorkFailedError
from muster._runtime.clients.failures import in_words
from muster._runtime.clients.tracking import GangStatus, Held, TrackedAsk
from muster._runtime.clients.watched import Watched
from muster._runtime.requests import Examined, Explained, Reply, RequestKey
from muster_core.errors import RefusedError
from muster_core.events import BindFailed, Event, Exit, Outcome, Release
from muster_core.snapshots import AskPlace, Snapshot

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT

    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.facts import Facts
    from muster_core.structures.steps import Steps

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
class Entered:
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
    answer: Answer[Entered] = attrs.field(factory=Answer[Entered])


@final
@attrs.frozen(eq=False)
class EndAllocation:
    """End an allocation, unless it has ended; the answer says whether this call ended it."""

    ask: TrackedAsk
    held: Held
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
class TimeIsUp:
    """A timer is due."""


@final
@attrs.frozen(eq=False)
class WorkStarted:
    """A binder has started the work of an allocation."""

    ask: TrackedAsk
    held: Held


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
    held: Held
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
    held: Held
    error: Exception
    counts: bool = True

    def undo(self) -> BindFailed:
        """Return the event that says why the work could not be started."""
        return BindFailed(self.ask.app, self.ask.name, in_words(self.error))


Note = TimeIsUp | WorkStarted | WorkEnded | StartFailed
"""The notes of the scheduler's own tasks, which get no answer."""


def refuse(call: Call | Note, cause: Exception | None) -> None:
    """Answer a call with the error that the scheduler is closed.

    Args:
        call: The call; a note needs no answer.
        cause: The error from outside that ended the scheduler, or None.
    """
    match call:
        case TimeIsUp() | WorkStarted() | WorkEnded() | StartFailed():
            pass
        case _:
            error = ClosedSchedulerError("the scheduler was closed before it answered")
            error.__cause__ = cause
            call.answer.fail(error)
