"""The errors of work that Slurm runs."""

from __future__ import annotations

from typing import final

from muster._errors import NotStartedError
from muster_core.errors import MusterError


class SlurmError(MusterError):
    """Slurm cannot be used, or has refused or ended a job; the message says what Slurm said."""


@final
class SilentError(SlurmError):
    """Slurm's controller does not answer.

    Only :func:`muster.slurm.connect` raises it. Later on a silence changes nothing: what runs goes
    on, and what is asked for waits.
    """


@final
class JobLostError(NotStartedError):
    """A job was lost through no fault of its ask: with its node, or preempted in Slurm.

    A member of a gang raises it as well when another member could not start. It does not count
    for ``bind_attempts``.
    """
