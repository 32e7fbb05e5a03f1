"""The log of calls: all calls of clients, and their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from math import inf
from typing import Final, TypeVar, final

import attrs
import trio
from typing_extensions import override

import muster
from muster.testing.fuzz._program import Key
from muster.testing.fuzz._records.story import Story
from muster_core.errors import ConfigError, EventError, MusterError, RefusedError

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
class End(StrEnum):
    """How a call was answered."""

    RETURNED = "returned"
    REFUSED = "was refused"
    BAD = "was turned down before it was let in"
    TOLD = "was told that it waits in vain"
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
        said: The call in words.
        keys: The events that it submits.
        waits: Whether it may wait; otherwise it is answered before time passes.
        about: What it waits for, for the checks at rest.
        end: How it was answered, or None.
        answer: The answer in words.
    """

    number: int
    who: str
    what: str
    said: str
    keys: tuple[Key, ...]
    waits: bool
    about: object = None
    end: End | None = None
    answer: str = ""

    @override
    def __str__(self) -> str:
        """Return the call and its answer as one line."""
        end = "is not answered" if self.end is None else self.end.value
        return f"[{self.number}] {self.who}: {self.said} {end} {self.answer}".rstrip()


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
        said: str,
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
            said: The call in words.
            ask: Makes the call.
            keys: The events that it submits.
            waits: Whether it may wait.
            about: What it waits for.
            bad: Whether it has an invalid value, so that it must raise an error.
            judge: Checks the answer as soon as it comes.

        Returns:
            The value, or None after an error.
        """
        call = Call(len(self.calls), who, what, said, keys, waits, about)
        self.calls.append(call)
        self.open[call.number] = call
        try:
            value = await ask()
        except trio.Cancelled:
            call.end = End.CANCELLED
            if trio.current_effective_deadline() > -inf:
                self.faults.append(f"{call}, but nobody had cancelled it")
            raise
        except MusterError as error:
            self._failed(call, error, bad=bad)
            self._judge(call, error, judge)
            return None
        except Exception as error:  # noqa: BLE001 - any other exception is a fault
            call.answer = repr(error)
            self.faults.append(f"{call.said} of {who} raised {error!r}")
            return None
        else:
            call.end, call.answer = End.RETURNED, brief(value)
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
                call.end = End.REFUSED
                self._check_done(call)
            case EventError() | ConfigError():
                call.end = End.BAD
                if not bad:
                    self.faults.append(f"{call}, but nothing is wrong with its form")
            case muster.ClosedSchedulerError():
                call.end = End.CLOSED
                if not self._is_closing():
                    self.faults.append(f"{call}, but nobody leaves the block")
            case _ if isinstance(error, _WAITS):
                call.end = End.TOLD
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
