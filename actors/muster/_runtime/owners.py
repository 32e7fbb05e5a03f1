"""The tasks that own applications, queues and gangs: receive, let the machine handle it, pass it on."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar, final

import attrs

from muster._errors import BrokenSchedulerError
from muster._runtime.mailbox import Mailbox
from muster._runtime.pace import Pace
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine
from muster_core.owners.messages.from_applications import AppReport
from muster_core.owners.messages.gangs import GangReport, ToGang
from muster_core.owners.messages.queues import QueueReport, ToQueue
from muster_core.owners.messages.to_applications import ToApplication
from muster_core.owners.queue import QueueMachine
from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot

K_co = TypeVar("K_co", covariant=True)
M = TypeVar("M", bound=ToApplication | ToQueue | ToGang)
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R", bound="Report")
R_co = TypeVar("R_co", bound="Report", covariant=True)
R_contra = TypeVar("R_contra", bound="Report", contravariant=True)
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Report(Protocol):
    """What an owner says at the end of an epoch."""

    @property
    def gone(self) -> bool:
        """Whether what it stands for has ceased to exist."""
        ...


class Machine(Protocol[M_contra, R_co, S_co]):
    """The state of an owner."""

    def handle(self, message: M_contra, /) -> R_co | None:
        """Do what a message says; give the report of the epoch, if it is time for it."""

    def snapshot(self) -> S_co:
        """Give the state as it is now."""
        ...


class Above(Protocol[R_contra]):
    """A mailbox that takes reports, whatever else it takes."""

    def put(self, message: R_contra, /) -> None:
        """Put a report in, and wake who is to read it."""


@final
@attrs.frozen
class Survey(Generic[S]):
    """An owner is to publish a snapshot of itself."""

    reply: Mailbox[S]


@final
@attrs.frozen
class Leave:
    """The scheduler has ended, and with it the task of every owner."""


@final
@attrs.frozen(eq=False)
class Owner(Generic[K_co, M, R, S]):
    """A task that owns a machine: it takes messages from its mailbox until it is gone.

    Args:
        kind: What the machine stands for, as an error says it.
        name: The name of that.
        machine: Its state, which only this task touches.
        above: Where its reports go.
        mailbox: Where it is told something.
        pace: That of all tasks of the scheduler.
    """

    kind: str
    name: str
    machine: K_co
    above: Above[R]
    mailbox: Mailbox[M | Survey[S] | Leave]
    pace: Pace

    async def run(self: Owner[Machine[M, R, S], M, R, S]) -> None:
        """Own the machine until what it stands for is gone."""
        machine, mailbox, pace = self.machine, self.mailbox, self.pace
        gone = False
        while not gone:
            for message in await mailbox.take_all():
                if pace.is_up():
                    await pace.rest()
                if isinstance(message, Leave):
                    gone = True
                elif isinstance(message, Survey):
                    message.reply.put(machine.snapshot())
                else:
                    try:
                        report = machine.handle(message)
                    except Exception as error:
                        raise broken(self.kind, self.name, message) from error
                    if report is not None:
                        self.above.put(report)
                        gone = gone or report.gone


ApplicationOwner = Owner[ApplicationMachine, ToApplication, AppReport, AppSnapshot]
QueueOwner = Owner[QueueMachine, ToQueue, QueueReport, QueueSnapshot]
GangOwner = Owner[GangMachine, ToGang, GangReport, GangSnapshot]


def broken(kind: str, name: str, message: object) -> BrokenSchedulerError:
    """Make the error for an owner's failure, which is always a bug."""
    who = f"{kind} {name!r}" if name else kind
    return BrokenSchedulerError(f"the {who} failed on {message!r:.500}")
