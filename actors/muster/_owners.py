"""The tasks that own applications and queues: receive, let the machine handle it, pass it on."""

from __future__ import annotations

from typing import Generic, TypeVar, final

import attrs

from muster._errors import BrokenSchedulerError
from muster._mailbox import Interleave, Mailbox
from muster_core.application import ApplicationMachine
from muster_core.messages import AppReport, QueueReport, ToApplication, ToQueue
from muster_core.queue import QueueMachine
from muster_core.snapshots import AppSnapshot, QueueSnapshot

S = TypeVar("S")


@final
@attrs.frozen
class Survey(Generic[S]):
    """An owner is to publish a snapshot of itself."""

    reply: Mailbox[S]


AppMailbox = Mailbox[ToApplication | Survey[AppSnapshot]]
QueueMailbox = Mailbox[ToQueue | Survey[QueueSnapshot]]


@final
@attrs.define(eq=False)
class ApplicationOwner:
    """The task of one application.

    Args:
        machine: Its state, which only this task touches.
        leaf: The mailbox of its queue.
        interleave: See :data:`muster._mailbox.Interleave`.
    """

    machine: ApplicationMachine
    leaf: QueueMailbox
    interleave: Interleave | None = None
    mailbox: AppMailbox = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the mailbox."""
        self.mailbox = Mailbox(self.interleave)

    async def run(self) -> None:
        """Own the application until it is gone."""
        gone = False
        while not gone:
            for message in await self.mailbox.take_all():
                if isinstance(message, Survey):
                    message.reply.put(self.machine.snapshot())
                    continue
                report = self._handle(message)
                if report is not None:
                    self.leaf.put(report)
                    gone = report.gone

    def _handle(self, message: ToApplication) -> AppReport | None:
        try:
            return self.machine.handle(message)
        except Exception as error:
            raise broken("application", self.machine.identity.name, message) from error


@final
@attrs.define(eq=False)
class QueueOwner:
    """The task of one queue.

    Args:
        machine: Its state, which only this task touches.
        parent: The mailbox of its parent; for the root, that of the coordinator.
        interleave: See :data:`muster._mailbox.Interleave`.
    """

    machine: QueueMachine
    parent: Mailbox[QueueReport] | QueueMailbox
    interleave: Interleave | None = None
    mailbox: QueueMailbox = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the mailbox."""
        self.mailbox = Mailbox(self.interleave)

    async def run(self) -> None:
        """Own the queue until it is gone."""
        gone = False
        while not gone:
            for message in await self.mailbox.take_all():
                if isinstance(message, Survey):
                    message.reply.put(self.machine.snapshot())
                    continue
                report = self._handle(message)
                if report is not None:
                    self.parent.put(report)
                    gone = report.queues[0].gone

    def _handle(self, message: ToQueue) -> QueueReport | None:
        try:
            return self.machine.handle(message)
        except Exception as error:
            raise broken("queue", self.machine.path, message) from error


def broken(kind: str, name: str, message: object) -> BrokenSchedulerError:
    """Make the error for an owner's failure, which is always a bug."""
    who = f"{kind} {name!r}" if name else kind
    return BrokenSchedulerError(f"the {who} failed on {message!r:.500}")
