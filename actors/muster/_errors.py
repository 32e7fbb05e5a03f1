"""The errors of the running scheduler; those of the core are in ``muster_core.errors``.

::

    MusterError
    ├── ClosedSchedulerError    the scheduler was closed before it answered
    └── BrokenSchedulerError    the scheduler stopped because of a bug in it
"""

from __future__ import annotations

from typing import final

from muster_core.errors import MusterError


@final
class ClosedSchedulerError(MusterError):
    """The scheduler was closed before it could answer; what was asked may not have been done."""


@final
class BrokenSchedulerError(MusterError):
    """An owner of state failed, which is a bug; the scheduler has stopped as a whole.

    The message names the owner and what it was told; the cause is the exception.
    """
