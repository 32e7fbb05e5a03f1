"""The errors of a running scheduler; the errors of the core are in ``muster_core.errors``.

The class of an error tells the caller what to do.

::

    MusterError
    ├── ClosedSchedulerError    the scheduler is closed: open another one
    ├── BrokenSchedulerError    the scheduler stopped because of a bug in it: report the bug
    ├── AskRemovedError         the ask was removed: add it again, if you still need it
    │   ├── BindFailedError     its work could not be started, too often: see the cause
    │   └── AskFailedError      its work failed and it has no retry left: see the message
    ├── AskParkedError          its gang has timed out: remove the gang, or its members
    ├── AllocationEndedError    the ask no longer holds the node: stop the work
    │   └── AllocationLostError     the ask is pending again: wait until it is bound, start again
    │       └── PreemptedError      other asks needed the node
    ├── GangTimedOutError       not enough members got a node in time: remove the gang or members
    ├── GangRemovedError        the gang is not defined: define it
    ├── LaggedError             decisions came faster than they were read: open a new observer
    ├── WorkFailedError         a binder of the program raises it: the work was started and failed
    ├── NotStartedError         a binder raises it: the work was not started, through no fault of it
    └── StoreError              the state directory cannot be used: mend what the message names
"""

from __future__ import annotations

from pathlib import Path
from typing import final

from muster_core.decisions import Reason
from muster_core.errors import MusterError
from muster_core.events import Exit


@final
class ClosedSchedulerError(MusterError):
    """The scheduler was closed before it could answer; the call may not have been carried out."""


@final
class BrokenSchedulerError(MusterError):
    """An owner of state failed because of a bug, and the whole scheduler has stopped.

    The message names the owner and the message that it was processing; the cause is the exception.
    """


class AskRemovedError(MusterError):
    """An ask was removed, or its application was, so it will not be bound any more."""


@final
class BindFailedError(AskRemovedError):
    """An ask was removed because its work could not be started, several times in a row.

    The cause is the last failure.

    Attributes:
        attempts: How often in a row the ask ended as ``bind_failed``.
    """

    def __init__(self, message: str, attempts: int) -> None:
        super().__init__(message)
        self.attempts = attempts


@final
class AskFailedError(AskRemovedError):
    """The work of an ask has failed, and the ask had no retry left, so it is gone.

    The cause is what the binder raised, if a binder reported the failure.

    Attributes:
        reported: The message with which the failure was reported, or None.
    """

    def __init__(self, message: str, reported: str | None) -> None:
        super().__init__(message)
        self.reported = reported


@final
class AskParkedError(MusterError):
    """An ask is not tried because its gang has timed out."""


class AllocationEndedError(MusterError):
    """An allocation ended while its work was running.

    Attributes:
        reason: Why the allocation ended.
    """

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason


class AllocationLostError(AllocationEndedError):
    """An allocation was lost: its ask is not over, and is pending again or parked."""


@final
class PreemptedError(AllocationLostError):
    """An allocation was preempted or reclaimed; its ask is pending again."""


@final
class GangTimedOutError(MusterError):
    """A gang has timed out: not enough members got a node in time, and all members are parked."""


@final
class GangRemovedError(MusterError):
    """A gang is not defined, or no longer defined."""


@final
class LaggedError(MusterError):
    """An observer did not read fast enough, and its buffer was full.

    Attributes:
        missed: How many decisions it has missed at least.
    """

    def __init__(self, message: str, missed: int) -> None:
        super().__init__(message)
        self.missed = missed


class StoreError(MusterError):
    """A state directory cannot be used, or what is in it is damaged.

    The message names the file, what was being done, what is wrong, and what would be right. What
    was kept before is still there; nothing that could not be kept has been announced.

    Attributes:
        path: The file or the folder.
    """

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


@final
class DecidedOtherwiseError(StoreError):
    """A batch of a state directory is decided otherwise by this version."""


class WorkFailedError(MusterError):
    """Raised by a binder: the work of an allocation was started, and has failed.

    The allocation is released as failed. If the ask has a retry left, it is pending again, else it
    is gone. This does not count for ``bind_attempts``.

    Args:
        message: What the decision log says about the failure.
        exited: How the process has ended, and what it has used, or None.
    """

    def __init__(self, message: str, exited: Exit | None = None) -> None:
        super().__init__(message)
        self.exited = exited

    @property
    def message(self) -> str:
        """What the decision log says about the failure."""
        return str(self)


class NotStartedError(MusterError):
    """Raised by a binder: the work was not started, and the ask has nothing to do with why.

    The allocation is released as ``bind_failed`` and the ask is pending again, as after any other
    exception, but this does not count for ``bind_attempts``. A binder raises it when the engine
    behind it is away, for example, or when another member of the gang could not be started.

    In a group it counts only if no other error is in the group.
    """
