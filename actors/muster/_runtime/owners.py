"""The tasks that own applications, queues and gangs, and their mailboxes.

Each task passes its messages to its machine. Any task may put messages into a mailbox; one task
takes them, always all at once, which makes many messages cheap. A message can be put without waking
the owner, which then reads it, in its place, when another message wakes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final

import attrs
import trio

from muster._errors import BrokenSchedulerError
from muster._runtime.clock import Pace
from muster_core.facts import AppFacts, GangFacts, QueueFacts
from muster_core.owners.app_messages import AppReport, ToApplication
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine, GangReport, ToGang
from muster_core.owners.queue import QueueMachine, QueueReport, ToQueue
from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot
from muster_core.structures.steps import Steps
from muster_core.values.records import record

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT


T = TypeVar("T")

Interleave = Callable[[], Awaitable[None]]
"""Awaited by an owner before it reads its mailbox; tests use it to change the order of tasks."""


@final
class Mailbox(Generic[T]):
    """The queue of messages of one task.

    It has no bound of its own. Its size depends on the requests of one batch, which the bounded
    entry of the scheduler and the batches of callers limit, and on the commits for the owner, at
    most one for each batch; a queue is woken when some wait, an application by its next request.

    Args:
        interleave: Awaited before each reading, or None.
    """

    __slots__ = ("_interleave", "_messages", "_waiter")

    def __init__(self, interleave: Interleave | None = None) -> None:
        self._messages: list[T] = []
        self._waiter: trio.lowlevel.Task | None = None
        self._interleave = interleave

    def __len__(self) -> int:
        """Return how many messages have not been read."""
        return len(self._messages)

    def put(self, message: T, *, wake: bool = True) -> None:
        """Put a message in.

        Args:
            message: The message.
            wake: Whether to wake the owner now; otherwise it reads the message with a later one.
        """
        self._messages.append(message)
        if wake and self._waiter is not None:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None

    def wake(self) -> None:
        """Wake the owner if there are messages."""
        if self._waiter is not None and self._messages:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None

    def drain(self) -> list[T]:
        """Remove and return the unread messages, when the scheduler ends."""
        messages, self._messages = self._messages, []
        return messages

    async def take_all(self) -> list[T]:
        """Wait until the owner is woken, and take all messages in order.

        If there are messages already, also such as did not wake the owner, this takes them at
        once: no message can get lost between two calls.
        """
        if self._interleave is not None:
            await self._interleave()
        if self._messages:
            await trio.lowlevel.checkpoint()
        else:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        messages, self._messages = self._messages, []
        return messages

    def _abort(self, _: RaiseCancelT) -> trio.lowlevel.Abort:
        self._waiter = None
        return trio.lowlevel.Abort.SUCCEEDED


F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)
K_co = TypeVar("K_co", covariant=True)
M = TypeVar("M", bound=ToApplication | ToQueue | ToGang)
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R", bound="Report")
R_co = TypeVar("R_co", bound="Report", covariant=True)
R_contra = TypeVar("R_contra", bound="Report", contravariant=True)
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Report(Protocol):
    """The report of an owner at the end of an epoch."""

    @property
    def gone(self) -> bool:
        """Whether the owned object does not exist any more."""
        ...


class Machine(Protocol[M_contra, R_co, S_co, F_co]):
    """The state machine of an owner."""

    def handle(self, message: M_contra, /) -> R_co | None:
        """Process a message; return the report of the epoch if it is complete, or None."""

    def snapshot(self) -> S_co:
        """Return a snapshot of the state."""
        ...

    def facts(self) -> F_co:
        """Return the facts of the owner for a checkpoint."""
        ...

    def free(self) -> Steps[None]:
        """Free the memory in steps; nothing may follow."""
        ...


class ReportSink(Protocol[R_contra]):
    """A mailbox that takes reports, and perhaps other messages."""

    def put(self, message: R_contra, /) -> None:
        """Put a report in, and wake its reader."""


@final
@attrs.frozen
class SendSnapshot(Generic[S]):
    """Asks an owner to send a snapshot of itself to ``reply``."""

    reply: Mailbox[S]


@final
@attrs.frozen
class SendFacts(Generic[F]):
    """Asks an owner to send its facts for a checkpoint to ``reply``."""

    reply: Mailbox[F]


@final
@attrs.frozen
class EndTask:
    """Ends the task of an owner: the scheduler ends, or the application has completed."""


@final
@record(eq=False)
class Owner(Generic[K_co, M, R, S, F]):
    """A task that owns a state machine and processes the messages of its mailbox.

    Args:
        kind: The kind of the owned object, for error messages.
        name: The name of the owned object, for error messages.
        machine: The state machine, which only this task uses.
        above: The mailbox for its reports.
        mailbox: The mailbox that it reads.
        pace: The pace of all tasks of the scheduler.
        in_steps: Returns the steps of a message that takes long, and to which there is no report.
            For all others it returns None. None if the machine handles each message at once.
    """

    kind: str
    name: str
    machine: K_co
    above: ReportSink[R]
    mailbox: Mailbox[M | SendSnapshot[S] | SendFacts[F] | EndTask]
    pace: Pace
    in_steps: Callable[[M], Steps[None] | None] | None = None

    async def run(self: Owner[Machine[M, R, S, F], M, R, S, F]) -> None:
        """Process messages until the owned object does not exist any more."""
        while not await self._process():
            pass

    async def _process(self: Owner[Machine[M, R, S, F], M, R, S, F]) -> bool:
        """Process the next messages; return whether the owned object has ceased to exist.

        This is a function of its own so that a waiting owner keeps no message and no report alive.
        """
        machine, pace, gone = self.machine, self.pace, False
        for message in await self.mailbox.take_all():
            if pace.is_up():
                await pace.rest()
            if isinstance(message, EndTask):
                await pace.take(machine.free(), shield=True)
                gone = True
            elif isinstance(message, SendSnapshot):
                message.reply.put(machine.snapshot())
            elif isinstance(message, SendFacts):
                message.reply.put(machine.facts())
            else:
                try:
                    steps = None if self.in_steps is None else self.in_steps(message)
                    if steps is not None:
                        await pace.take(steps)
                        continue
                    report = machine.handle(message)
                except Exception as error:
                    raise broken_error(self.kind, self.name, message) from error
                if report is not None:
                    self.above.put(report)
                    gone = gone or report.gone
        return gone


@final
@record
class AppReportSink:
    """Takes the reports of an application: for its leaf, or for the coordinator."""

    leaf: ReportSink[AppReport]
    coordinator: ReportSink[AppReport]

    def put(self, report: AppReport, /) -> None:
        """Put a report in, and wake its reader."""
        (self.coordinator if report.direct else self.leaf).put(report)


ApplicationOwner = Owner[ApplicationMachine, ToApplication, AppReport, AppSnapshot, AppFacts]
QueueOwner = Owner[QueueMachine, ToQueue, QueueReport, QueueSnapshot, QueueFacts]
GangOwner = Owner[GangMachine, ToGang, GangReport, GangSnapshot, GangFacts]


def broken_error(kind: str, name: str, message: object) -> BrokenSchedulerError:
    """Create the error for the failure of an owner, which is always a bug."""
    owner = f"{kind} {name!r}" if name else kind
    return BrokenSchedulerError(f"the {owner} failed on {message!r:.500}")
