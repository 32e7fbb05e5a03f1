"""The errors of the running scheduler; those of the core are in ``muster_core.errors``.

Each is named by what the caller can do.

::

    MusterError
    ├── ClosedSchedulerError    the scheduler is closed: open another one
    ├── BrokenSchedulerError    the scheduler stopped because of a bug in it: report that
    ├── AskRemovedError         the ask is no more: ask again, if it is wanted still
    │   └── BindFailedError     because its work could not be started: see the cause
    ├── AskParkedError          its gang has timed out: remove the gang, or its members
    ├── AllocationEndedError    the node is no longer held: stop the work
    │   └── AllocationLostError     the ask is pending again: wait until it is bound, begin anew
    │       └── PreemptedError      others needed the node
    ├── GangTimedOutError       not enough members had room in time: remove the gang, or wait
    ├── GangRemovedError        the gang is no longer defined: define it again
    └── LaggedError             decisions came faster than they were read: read anew
"""

from __future__ import annotations

from typing import final

from muster_core.decisions import Reason
from muster_core.errors import MusterError


@final
class ClosedSchedulerError(MusterError):
    """The scheduler was closed before it could answer; what was asked may not have been done."""


@final
class BrokenSchedulerError(MusterError):
    """An owner of state failed, which is a bug; the scheduler has stopped as a whole.

    The message names the owner and what it was told; the cause is the exception.
    """


class AskRemovedError(MusterError):
    """An ask was removed, or its application was, and it will not be bound any more."""


@final
class BindFailedError(AskRemovedError):
    """An ask was removed because its work could not be started; the cause says why.

    Attributes:
        attempts: How often in a row it was tried.
    """

    def __init__(self, message: str, attempts: int) -> None:
        super().__init__(message)
        self.attempts = attempts


@final
class AskParkedError(MusterError):
    """An ask is not tried, as its gang has timed out."""


class AllocationEndedError(MusterError):
    """An allocation ended while work was being done under it.

    Attributes:
        reason: Why it ended.
    """

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason


class AllocationLostError(AllocationEndedError):
    """An allocation was lost: its ask is pending again, or parked, and not done."""


@final
class PreemptedError(AllocationLostError):
    """An allocation was preempted or reclaimed; its ask is pending again."""


@final
class GangTimedOutError(MusterError):
    """A gang has waited too long for room for its members, which are parked."""


@final
class GangRemovedError(MusterError):
    """A gang is not defined, or no longer."""


@final
class LaggedError(MusterError):
    """An observer did not read fast enough, and its buffer was full.

    Attributes:
        missed: How many decisions it has missed, at least.
    """

    def __init__(self, message: str, missed: int) -> None:
        super().__init__(message)
        self.missed = missed
