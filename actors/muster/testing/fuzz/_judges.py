"""Judges, which compare answers of calls with the decisions.

A judge checks an answer in the step in which the caller gets it. By then the decisions behind the
answer are in the journal, and no later decisions about the same object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast, final

import muster
from muster._surface.conversion import any_event
from muster.testing.fuzz._records import (
    HAVE_RUN,
    AllocationRecord,
    Ask,
    AskLife,
    Story,
    failed_in_a_row,
)
from muster_core.decisions import Kind, Reason
from muster_core.errors import RefusedError

if TYPE_CHECKING:
    from muster.testing.fuzz._binders import ObservedBinder

_CLASSES: Final[Mapping[Reason, type[muster.AllocationEndedError]]] = {
    Reason.COMPLETED: muster.AllocationEndedError,
    Reason.REMOVED: muster.AllocationEndedError,
    Reason.CANCELLED: muster.AllocationEndedError,
    Reason.RUN_LIMIT: muster.AllocationEndedError,
    Reason.PREEMPTED: muster.PreemptedError,
    Reason.RECLAIMED: muster.PreemptedError,
}
"""The error for each reason; all other reasons have ``AllocationLostError``."""


@final
class BoundJudge:
    """Checks an answer of ``bound``. Create it before the call.

    Args:
        story: The decisions so far.
        binder: The binder, or None.
        attempts: How often in a row work may fail, or None.
        ask: The names of the ask.
        life: The ask itself, if it is known which ask of that name it is; or None.

    Attributes:
        seq: The decision that bound the allocation of the answer, or 0 if it is unknown.
    """

    def __init__(
        self,
        story: Story,
        binder: ObservedBinder | None,
        attempts: int | None,
        ask: Ask,
        life: AskLife | None,
    ) -> None:
        self._story = story
        self._binder = binder
        self._attempts = attempts
        self._ask = ask
        self._known = life
        self._since = len(story.decisions)
        self.seq = 0

    @property
    def _life(self) -> AskLife | None:
        """The ask, or None if it is unknown, or a manifest may have changed it."""
        return self._known if self._known is not None and self._known.sure else None

    def __call__(self, answer: object) -> Iterator[str]:
        """Yield a text for each fault of the answer."""
        match answer:
            case muster.Allocation():
                yield from self._of_allocation(answer)
            case muster.BindFailedError():
                yield from self._of_failure(answer.attempts)
            case muster.AskFailedError():
                last = self._last()
                if last is not None and last.reason is not Reason.FAILED:
                    yield f"decision {last.seq} has bound it, and it did not end as failed"
            case muster.AskRemovedError() | muster.AskParkedError():
                last = self._last()
                if last is not None and last.end is None:
                    yield f"decision {last.seq} has bound it, and it is bound still"
                if last is not None and last.for_good:
                    yield f"decision {last.seq} has bound it, and it has failed"
            case _:
                pass

    def _last(self) -> AllocationRecord | None:
        allocations = [] if self._life is None else self._life.allocations
        return allocations[-1] if allocations else None

    def _may_be(self) -> Iterator[AllocationRecord]:
        """Yield the allocations that may be the answer: those that last, or have run to an end."""
        if self._life is not None:
            last = self._last()
            if last is not None and last.reason in {None, *HAVE_RUN}:
                yield last
            return
        lasting = self._story.history.lasting.get(self._ask)
        if lasting is not None:
            yield lasting
        yield from self._story.history.have_run_since(self._ask, self._since)

    def _of_allocation(self, answer: muster.Allocation) -> Iterator[str]:
        if (answer.app, answer.ask) != self._ask:
            yield f"that is an allocation of {answer.app}/{answer.ask}"
            return
        fitting = [one for one in self._may_be() if one.node == answer.node]
        if not fitting:
            yield f"no decision has bound this ask to {answer.node} as it is bound now"
        if len(fitting) != 1:
            return
        (bound,) = fitting
        self.seq = bound.seq
        if self._binder is None or bound.end is not None:
            return
        if not self._binder.has_started(self._ask, bound.seq):
            yield f"the work of decision {bound.seq} has not started"

    def _of_failure(self, attempts: int) -> Iterator[str]:
        if attempts != self._attempts or self._binder is None:
            yield f"it says {attempts} attempts, of {self._attempts}"
            return
        lives = self._story.history.lives.get(self._ask, [])
        if self._life is not None:
            lives = [self._life]
        surely, perhaps = (self._binder.begun(self._ask, surely=one) for one in (True, False))
        rows = [
            (failed_in_a_row(life.allocations, surely), failed_in_a_row(life.allocations, perhaps))
            for life in lives
            if life.allocations and life.allocations[-1].reason is Reason.BIND_FAILED
        ]
        if not any(least <= attempts <= most for least, most in rows):
            yield f"its runs that failed in a row are {rows}"


@final
class EndJudge:
    """Checks an answer of ``ended`` or ``running``.

    Args:
        story: The decisions so far.
        seq: The decision that bound the allocation, or 0 if it is unknown.
    """

    def __init__(self, story: Story, seq: int) -> None:
        self._bound = story.history.by_seq.get(seq)

    def __call__(self, answer: object) -> Iterator[str]:
        """Yield a text for each fault of the answer."""
        match answer:
            case Reason():
                yield from self._of_reason(answer)
            case muster.AllocationEndedError():
                yield from self._of_reason(answer.reason)
                if type(answer) not in self._classes(answer.reason):
                    yield f"that is not how {answer.reason.value} is said"
            case _:
                pass

    def _classes(self, reason: Reason) -> set[type[muster.AllocationEndedError]]:
        # ONCE-2
        if self._bound is not None and self._bound.lost_for_good:
            return {muster.AllocationEndedError}
        if reason is not Reason.FAILED:
            return {_CLASSES.get(reason, muster.AllocationLostError)}
        if self._bound is not None and self._bound.for_good:
            return {muster.AllocationEndedError}
        # An ask with a retry left may be removed in the batch in which it has failed.
        return {muster.AllocationEndedError, muster.AllocationLostError}

    def _of_reason(self, reason: Reason) -> Iterator[str]:
        if self._bound is None:
            return
        if self._bound.end is None:
            yield f"the allocation of decision {self._bound.seq} lasts"
        elif self._bound.reason is not reason:
            yield f"decision {self._bound.end.seq} says {self._bound.reason}"


@final
class AskedJudge:
    """Checks the handles that ``add_ask`` and ``add_asks`` return. Create it before the call.

    Args:
        story: The decisions so far.
        args: The arguments of the call.

    Attributes:
        handles: The handles, each with its ask, or None if it is unknown which ask it is.
    """

    def __init__(self, story: Story, args: Mapping[str, object]) -> None:
        self._history = story.history
        self._entered = story.history.entered
        app, ask, count = str(args["app"]), str(args["ask"]), cast("int | None", args.get("count"))
        names = [ask] if count is None else [f"{ask}-{number}" for number in range(count)]
        self._asks = [(app, name) for name in names]
        self.handles: list[tuple[muster.Ask, AskLife | None]] = []

    def __call__(self, answer: object) -> Iterator[str]:
        """Yield a text for each fault of the answer."""
        if isinstance(answer, Exception):
            return
        handles = cast("Sequence[muster.Ask]", answer if isinstance(answer, tuple) else (answer,))
        got = [(one.app, one.name) for one in handles]
        if got != self._asks:
            yield f"the handles are those of {got}, not of {self._asks}"
        self.handles = [
            (one, self._history.come_since(ask, self._entered))
            for one, ask in zip(handles, got, strict=True)
        ]


@final
class ManyJudge:
    """Checks the refusals that ``submit_many`` returns. Create it before the call.

    Args:
        story: The decisions so far.
        events: The submitted events.
    """

    def __init__(self, story: Story, events: Sequence[Mapping[str, object]]) -> None:
        self._story = story
        self._events = events
        self._since = len(story.entries)

    def __call__(self, answer: object) -> Iterator[str]:
        """Yield a text for each fault of the answer."""
        if isinstance(answer, Exception):
            return
        refusals = cast("Sequence[RefusedError | None]", answer)
        got = [None if one is None else str(one) for one in refusals]
        expected = list(self._expected())
        if got not in expected:
            yield f"the refusals are {got}, not {expected}"

    def _expected(self) -> Iterator[list[str | None]]:
        """Yield the announced refusals of equal events, for each place where these came."""
        rejected = {
            one.decision.index: one.decision.message
            for one in self._story.decisions
            if one.decision.kind is Kind.REJECTED
        }
        wanted = [any_event(one) for one in self._events]
        entries = self._story.entries
        first = sum(one.event is not None for one in entries[: self._since])
        events = [one.event for one in entries[self._since :] if one.event is not None]
        for place in range(len(events) - len(wanted) + 1):
            if events[place : place + len(wanted)] == wanted:
                yield [rejected.get(first + place + number) for number in range(len(wanted))]


def faults_of_attempts(story: Story, binder: ObservedBinder, attempts: int | None) -> Iterator[str]:
    """Yield a fault for each ask that was bound again after its work had failed too often."""
    for ask, lives in story.history.lives.items():
        counts = binder.begun(ask, surely=True)
        for life in lives if attempts is not None else ():
            for number, one in enumerate(life.allocations[:-1]):
                if failed_in_a_row(life.allocations[: number + 1], counts) >= (attempts or 0):
                    yield f"{ask} was bound again after decision {one.seq}, its last attempt"
                    break
