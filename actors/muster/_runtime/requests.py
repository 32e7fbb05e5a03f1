"""Answers to calls and requests, values that are read between two batches, and keys of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, TypeVar, final

import attrs
import outcome
import trio

from muster._errors import ClosedSchedulerError
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.errors import MusterError
from muster_core.facts import Facts
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine
from muster_core.owners.queue import QueueMachine
from muster_core.reasons import Explanation
from muster_core.snapshots import Snapshot

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT

A = TypeVar("A")


@final
class Answer(Generic[A]):
    """An answer that is given exactly once: a value or an error.

    A caller that is cancelled while it waits withdraws its call, unless the coordinator has begun
    it. Then the caller continues to wait, which is short, and gets its answer. So a cancelled call
    was not carried out, and the result of a call that was carried out is not lost. A coordinator
    that does not call :meth:`take` carries out withdrawn calls, too; their answers are lost.
    """

    __slots__ = ("_error", "_raise_cancel", "_result", "_taken", "_values", "_waiter", "_withdrawn")

    def __init__(self) -> None:
        self._values: list[A] = []
        self._error: MusterError | None = None
        self._waiter: trio.lowlevel.Task | None = None
        #: Raises the cancellation of a caller that continues to wait; None without one.
        self._raise_cancel: RaiseCancelT | None = None
        self._result = self._taken = self._withdrawn = False

    def take(self) -> bool:
        """Begin to carry out the call; return False if it was withdrawn."""
        self._taken = True
        return not self._withdrawn

    def give(self, value: A) -> None:
        """Answer with a value."""
        self._values.append(value)
        self._wake()

    def fail(self, error: MusterError) -> None:
        """Answer with an error, unless there is an answer already."""
        if not self._result:
            self._error = error
            self._wake()

    def _wake(self) -> None:
        self._result = True
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            return
        if self._raise_cancel is not None and isinstance(self._error, ClosedSchedulerError):
            # For a cancelled caller the cancellation matters more than the closed scheduler.
            trio.lowlevel.reschedule(waiter, outcome.capture(self._raise_cancel))
        else:
            trio.lowlevel.reschedule(waiter)

    async def wait(self) -> A:
        """Wait for the answer.

        Raises:
            MusterError: The error that was given.
        """
        if self._result:
            if isinstance(self._error, ClosedSchedulerError):
                # For a cancelled caller the cancellation matters more than the closed scheduler.
                await trio.lowlevel.checkpoint_if_cancelled()
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        return self._open()

    def _abort(self, raise_cancel: RaiseCancelT, /) -> trio.lowlevel.Abort:
        if self._taken:
            self._raise_cancel = raise_cancel
            return trio.lowlevel.Abort.FAILED
        self._withdrawn = True
        self._waiter = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _open(self) -> A:
        error, self._error = self._error, None
        if error is None:
            return self._values[0]
        try:
            raise error
        finally:
            del error  # avoids a reference cycle through the traceback


@final
@attrs.frozen
class Explained:
    """Why an ask is not running.

    Attributes:
        explanation: Why; None if it is bound or unknown.
        facts: The state, to make a copy of; None if it was not wanted, or the ask is not pending.
    """

    explanation: Explanation | None
    facts: Facts | None


@final
@attrs.frozen
class Examined:
    """The whole state between two batches, for reading only.

    Attributes:
        machine: The coordinator's machine, with the view.
        apps: The machine of every application, by key.
        queues: The machine of every queue, by key.
        gangs: The machine of every gang, by key.
        snapshot: The snapshot from the owners.
    """

    machine: CoordinatorMachine
    apps: Mapping[int, ApplicationMachine]
    queues: Mapping[int, QueueMachine]
    gangs: Mapping[int, GangMachine]
    snapshot: Snapshot


@final
@attrs.frozen
class RequestKey:
    """The key of a request of a client, so that a repeat of it changes nothing.

    Attributes:
        user: Its user.
        key: Its key, unique for this user.
        digest: The digest of its content.
    """

    user: str
    key: str
    digest: bytes
