"""The tasks that own applications, queues and gangs: each passes its messages to its machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final

import attrs

from muster._errors import BrokenSchedulerError
from muster._runtime.mailbox import Mailbox
from muster._runtime.pace import Pace
from muster_core.facts import AppFacts, GangFacts, QueueFacts
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine
from muster_core.owners.messages.from_applications import AppReport
from muster_core.owners.messages.gangs import GangReport, ToGang
from muster_core.owners.messages.queues import QueueReport, ToQueue
from muster_core.owners.messages.to_applications import ToApplication
from muster_core.owners.queue import QueueMachine
from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot

if TYPE_CHECKING:
    from muster_core.structures.steps import Steps

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
        """Return what the owner has in a checkpoint."""
        ...

    def free(self) -> Steps[None]:
        """Free the memory in steps; nothing may follow."""
        ...


class Above(Protocol[R_contra]):
    """A mailbox that takes reports, and perhaps other messages."""

    def put(self, message: R_contra, /) -> None:
        """Put a report in, and wake its reader."""


@final
@attrs.frozen
class Survey(Generic[S]):
    """Tells an owner to send a snapshot of itself to ``reply``."""

    reply: Mailbox[S]


@final
@attrs.frozen
class Save(Generic[F]):
    """Tells an owner to send its facts for a checkpoint to ``reply``."""

    reply: Mailbox[F]


@final
@attrs.frozen
class Leave:
    """Tells an owner to end its task, because the scheduler ends."""


@final
@attrs.frozen(eq=False)
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
    above: Above[R]
    mailbox: Mailbox[M | Survey[S] | Save[F] | Leave]
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
            if isinstance(message, Leave):
                await pace.take(machine.free(), shield=True)
                gone = True
            elif isinstance(message, Survey):
                message.reply.put(machine.snapshot())
            elif isinstance(message, Save):
                message.reply.put(machine.facts())
            else:
                try:
                    steps = None if self.in_steps is None else self.in_steps(message)
                    if steps is not None:
                        await pace.take(steps)
                        continue
                    report = machine.handle(message)
                except Exception as error:
                    raise broken(self.kind, self.name, message) from error
                if report is not None:
                    self.above.put(report)
                    gone = gone or report.gone
        return gone


ApplicationOwner = Owner[ApplicationMachine, ToApplication, AppReport, AppSnapshot, AppFacts]
QueueOwner = Owner[QueueMachine, ToQueue, QueueReport, QueueSnapshot, QueueFacts]
GangOwner = Owner[GangMachine, ToGang, GangReport, GangSnapshot, GangFacts]


def broken(kind: str, name: str, message: object) -> BrokenSchedulerError:
    """Create the error for the failure of an owner, which is always a bug."""
    who = f"{kind} {name!r}" if name else kind
    return BrokenSchedulerError(f"the {who} failed on {message!r:.500}")
