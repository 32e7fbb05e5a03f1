"""The tasks that own applications, queues and gangs: receive, let the machine handle it, pass it on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar, final

import attrs
from typing_extensions import override

from muster._errors import BrokenSchedulerError
from muster._runtime.mailbox import Interleave, Mailbox
from muster._runtime.pace import Pace
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine
from muster_core.owners.messages.gangs import GangReport, ToGang
from muster_core.owners.messages.queues import QueueReport, ToQueue
from muster_core.owners.messages.to_applications import ToApplication
from muster_core.owners.queue import QueueMachine
from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot

M = TypeVar("M")
S = TypeVar("S")


@final
@attrs.frozen
class Survey(Generic[S]):
    """An owner is to publish a snapshot of itself."""

    reply: Mailbox[S]


@final
@attrs.frozen
class Leave:
    """The scheduler has ended, and with it the task of every owner."""


AppMailbox = Mailbox[ToApplication | Survey[AppSnapshot] | Leave]
QueueMailbox = Mailbox[ToQueue | Survey[QueueSnapshot] | Leave]
GangMailbox = Mailbox[ToGang | Survey[GangSnapshot] | Leave]


class _Owner(ABC, Generic[M]):
    """A task that owns a machine: it takes messages from its mailbox until it is gone."""

    mailbox: Mailbox[M | Leave]
    pace: Pace

    async def run(self) -> None:
        """Own the machine until what it stands for is gone."""
        gone, pace = False, self.pace
        while not gone:
            for message in await self.mailbox.take_all():
                if pace.is_up():
                    await pace.rest()
                gone = isinstance(message, Leave) or self._handle(message) or gone

    @abstractmethod
    def _handle(self, message: M) -> bool:
        """Let the machine handle a message, and pass on what it reports; say if it is gone."""


@final
@attrs.define(eq=False)
class ApplicationOwner(_Owner[ToApplication | Survey[AppSnapshot]]):
    """The task of one application.

    Args:
        machine: Its state, which only this task touches.
        leaf: The mailbox of its queue.
        interleave: See :data:`muster._runtime.mailbox.Interleave`.
        pace: That of all tasks of the scheduler.
    """

    machine: ApplicationMachine
    leaf: QueueMailbox
    interleave: Interleave | None = None
    pace: Pace = attrs.field(factory=Pace)
    mailbox: AppMailbox = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the mailbox."""
        self.mailbox = Mailbox(self.interleave)

    @override
    def _handle(self, message: ToApplication | Survey[AppSnapshot]) -> bool:
        if isinstance(message, Survey):
            message.reply.put(self.machine.snapshot())
            return False
        try:
            report = self.machine.handle(message)
        except Exception as error:
            raise broken("application", self.machine.identity.name, message) from error
        if report is None:
            return False
        self.leaf.put(report)
        return report.gone


@final
@attrs.define(eq=False)
class QueueOwner(_Owner[ToQueue | Survey[QueueSnapshot]]):
    """The task of one queue.

    Args:
        machine: Its state, which only this task touches.
        parent: The mailbox of its parent; for the root, that of the coordinator.
        interleave: See :data:`muster._runtime.mailbox.Interleave`.
        pace: That of all tasks of the scheduler.
    """

    machine: QueueMachine
    parent: Mailbox[QueueReport] | QueueMailbox
    interleave: Interleave | None = None
    pace: Pace = attrs.field(factory=Pace)
    mailbox: QueueMailbox = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the mailbox."""
        self.mailbox = Mailbox(self.interleave)

    @override
    def _handle(self, message: ToQueue | Survey[QueueSnapshot]) -> bool:
        if isinstance(message, Survey):
            message.reply.put(self.machine.snapshot())
            return False
        try:
            report = self.machine.handle(message)
        except Exception as error:
            raise broken("queue", self.machine.path, message) from error
        if report is None:
            return False
        self.parent.put(report)
        return report.queues[0].gone


@final
@attrs.define(eq=False)
class GangOwner(_Owner[ToGang | Survey[GangSnapshot]]):
    """The task of one gang.

    Args:
        machine: Its state, which only this task touches.
        coordinator: The mailbox of the coordinator for what gangs report.
        interleave: See :data:`muster._runtime.mailbox.Interleave`.
        pace: That of all tasks of the scheduler.
    """

    machine: GangMachine
    coordinator: Mailbox[GangReport]
    interleave: Interleave | None = None
    pace: Pace = attrs.field(factory=Pace)
    mailbox: GangMailbox = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the mailbox."""
        self.mailbox = Mailbox(self.interleave)

    @override
    def _handle(self, message: ToGang | Survey[GangSnapshot]) -> bool:
        if isinstance(message, Survey):
            message.reply.put(self.machine.snapshot())
            return False
        try:
            report = self.machine.handle(message)
        except Exception as error:
            raise broken("gang", self.machine.name, message) from error
        if report is None:
            return False
        self.coordinator.put(report)
        return report.gone


def broken(kind: str, name: str, message: object) -> BrokenSchedulerError:
    """Make the error for an owner's failure, which is always a bug."""
    who = f"{kind} {name!r}" if name else kind
    return BrokenSchedulerError(f"the {who} failed on {message!r:.500}")
