"""What a running scheduler is asked, by callers and by its own tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar, final

import attrs
import outcome
import trio
from typing_extensions import override

from muster._errors import ClosedSchedulerError
from muster._runtime.clients.tracking import GangStatus, Held, TrackedAsk
from muster._runtime.clients.watched import Watched
from muster._runtime.requests import Examined, Reply
from muster_core.errors import RefusedError
from muster_core.events import Event
from muster_core.reasons import Explanation
from muster_core.snapshots import Snapshot

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT

A = TypeVar("A")


@final
class Answer(Reply[A]):
    """An answer to what can be withdrawn.

    A caller that is cancelled while it waits withdraws what it has asked, as long as that
    was not begun. Afterwards it waits on, as it will not be long, and gets its answer: so
    what was cancelled was not done, and what was done is not lost.
    """

    __slots__ = ("_raise_cancel", "_taken", "_withdrawn")

    def __init__(self) -> None:
        super().__init__()
        #: What raises the cancellation of a caller that waits on.
        self._raise_cancel: RaiseCancelT | None = None
        self._taken = self._withdrawn = False

    def take(self) -> bool:
        """Begin to carry out what was asked; False if it was withdrawn."""
        self._taken = True
        return not self._withdrawn

    @override
    def _resume(self, waiter: trio.lowlevel.Task) -> None:
        if self._raise_cancel is not None and isinstance(self._error, ClosedSchedulerError):
            # Who was cancelled, perhaps with the scheduler, learns nothing from that.
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
    """What became of events.

    Attributes:
        refusals: Of each event why it was refused, or None.
        asks: The asks that came with an event that was to be tracked.
    """

    refusals: tuple[RefusedError | None, ...]
    asks: tuple[TrackedAsk, ...] = ()


@final
@attrs.frozen(eq=False)
class Enter:
    """Let events in, in one batch.

    Attributes:
        events: The events.
        track: Whether the asks that come with them are to be tracked from the beginning.
        answer: What became of them.
    """

    events: Sequence[Event]
    track: bool = False
    answer: Answer[Entered] = attrs.field(factory=Answer[Entered])


@final
@attrs.frozen(eq=False)
class EndAllocation:
    """Let an allocation end, unless it has; the answer says whether it did."""

    ask: TrackedAsk
    held: Held
    answer: Answer[bool] = attrs.field(factory=Answer[bool])


@final
@attrs.frozen(eq=False)
class WithdrawAsk:
    """Withdraw an ask, and no other one that has its name by now."""

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
    """Wait until what was let in before is decided."""

    answer: Answer[None] = attrs.field(factory=Answer[None])


@final
@attrs.frozen(eq=False)
class Survey:
    """Have every owner publish what it owns."""

    answer: Answer[Snapshot] = attrs.field(factory=Answer[Snapshot])


@final
@attrs.frozen(eq=False)
class Why:
    """Say why an ask is not running."""

    app: str
    ask: str
    answer: Answer[Explanation | None] = attrs.field(factory=Answer["Explanation | None"])


@final
@attrs.frozen(eq=False)
class LookInto:
    """Have the state looked at; the answer is what that has raised."""

    examiner: Callable[[Examined], None]
    answer: Answer[Exception | None] = attrs.field(factory=Answer["Exception | None"])


Call = (
    Enter | EndAllocation | WithdrawAsk | TrackAsk | TrackGang | SettleNow | Survey | Why | LookInto
)
"""What callers ask; each gets an answer."""


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
    """The work of an allocation has ended."""

    ask: TrackedAsk
    held: Held


@final
@attrs.frozen(eq=False)
class WorkFailed:
    """The work of an allocation could not be started, or was broken off.

    Attributes:
        ask: The ask.
        held: Its allocation.
        error: What it failed with.
        counts: Whether the binder had its chance, so that this is one of its attempts.
    """

    ask: TrackedAsk
    held: Held
    error: Exception
    counts: bool = True


Note = TimeIsUp | WorkStarted | WorkEnded | WorkFailed
"""What the scheduler's own tasks say; nobody waits for an answer."""


def refuse(call: Call | Note) -> None:
    """Tell whoever waits for the answer to a call that none will come."""
    match call:
        case TimeIsUp() | WorkStarted() | WorkEnded() | WorkFailed():
            pass
        case _:
            call.answer.fail(ClosedSchedulerError("the scheduler was closed before it answered"))
