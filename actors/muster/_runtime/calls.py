"""The calls to a running scheduler, the notes of its own tasks, and the client that sends them.

The client knows the coordinator only as the reader of the entry. Notes say that work has started or
ended; what the error of a binder means (that work has failed, or why it could not be started) is
found here, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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
import trio

from muster._errors import ClosedSchedulerError, NotStartedError, WorkFailedError
from muster._runtime.clock import Pace
from muster._runtime.entry import EntryQueue, closed_error
from muster._runtime.requests import Answer, RequestKey
from muster._runtime.tracking import AllocationStatus, TrackedAsk, Tracker
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.errors import MusterError, RefusedError
from muster_core.events import BindFailed, Event, Exit, Outcome, Release
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster._runtime.batches import Batches
    from muster.store._rows import KeptBatch
    from muster.store._sql import RequestRow


MOST: Final = 300
"""The longest text about an error in a decision, in characters."""


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


@attrs.frozen(eq=False)
class Call(Generic[A]):
    """A call whose caller waits for the answer."""

    answer: Answer[A] = attrs.field(factory=Answer[Any], init=False)


@final
@attrs.frozen(eq=False)
class Enter(Call[EventResults]):
    """Submit events in one batch; without any, wait until all earlier events are decided.

    Attributes:
        events: The events.
        track: Whether to track the asks that the events add.
        request: The key of the request that the events come from; it is kept with their batch.
        guard: Judges which of the events are let in, or None to let in all.
        is_atomic: Whether none is let in if one of them would be refused.
    """

    events: Sequence[Event]
    track: bool = False
    request: RequestKey | None = None
    guard: Guard | None = None
    is_atomic: bool = False


@final
@attrs.frozen(eq=False)
class EndAllocation(Call[bool]):
    """End an allocation, unless it has ended; the answer says whether this call ended it."""

    ask: TrackedAsk
    held: AllocationStatus
    outcome: Outcome = Outcome.COMPLETED
    message: str | None = None
    exited: Exit | None = None


@final
@attrs.frozen(eq=False)
class WithdrawAsk(Call[None]):
    """Remove an ask, but not another ask that has its name by now."""

    ask: TrackedAsk


@final
@attrs.frozen(eq=False)
class Inspect(Call[A]):
    """Read the state between two batches, when everything before is announced.

    Attributes:
        look: Reads the state, and changes nothing. What it raises as
            :class:`~muster_core.errors.MusterError` is the answer.
    """

    look: Callable[[Batches, Tracker], Awaitable[A]]


@final
@attrs.frozen(eq=False)
class TakeCheckpoint(Call[None]):
    """Write a checkpoint to the store."""


# REPLICA-5
@final
@attrs.frozen(eq=False)
class Follow(Call[None]):
    """Decide batches again that the leader has decided; the answer comes when they are on disk.

    Attributes:
        batches: The batches, which follow the last one.
        requests: The requests of clients whose events are in them.
        term: The term of the leader, which is written first if it is higher than that of the store.
        version: The version of Muster of the leader.
    """

    batches: Sequence[KeptBatch]
    requests: Sequence[RequestRow]
    term: int
    version: str


# REPLICA-12
@final
@attrs.frozen(eq=False)
class Lead(Call[None]):
    """Stop following, and lead with a term; the answer comes when the term is on disk.

    Attributes:
        term: The term, which is written before anything is decided.
        begins: Called between the last batch of the old leader and the first one of this one.
    """

    term: int
    begins: Callable[[], None]


Changing = Enter | EndAllocation | WithdrawAsk
"""The calls that may have events; their answers come with those of their batch."""

AnyCall: TypeAlias = "Changing | Inspect[Any] | TakeCheckpoint | Follow | Lead"


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
        return Release(self.ask.app, self.ask.name, Outcome.FAILED, message, self.failure.exited)


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


def refuse(call: AnyCall | Note, cause: Exception | None) -> None:
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

    def __init__(
        self, entry: EntryQueue[AnyCall | Note], pace: Pace, *, keeps: bool = False
    ) -> None:
        self._entry = entry
        self.pace = pace
        self.keeps = keeps

    async def call(self, call: Call[A]) -> A:
        """Send a call to the coordinator, and return its answer.

        Raises:
            MusterError: If the coordinator answers with this error.
            ClosedSchedulerError: If the scheduler is closed.
        """
        try:
            await self._entry.put(cast("AnyCall", call))  # They are all there are.
        except ClosedSchedulerError:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise
        return await call.answer.wait()

    async def inspect(self, look: Callable[[Batches, Tracker], Awaitable[A]]) -> A:
        """Read the state; see :class:`Inspect`, and :meth:`call` for errors."""
        return await self.call(Inspect(look))

    async def read(self, read: Callable[[CoordinatorMachine], Steps[A]]) -> A:
        """Read the machine in steps; see :class:`Inspect`, and :meth:`call` for errors."""
        return await self.inspect(lambda batches, _: batches.read(read))

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
        entered = await self.call(call)
        (refusal,) = entered.refusals
        if refusal is None:
            return entered
        try:
            raise refusal
        finally:
            del refusal, entered, call  # avoids a reference cycle through the traceback
