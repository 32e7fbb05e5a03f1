"""The errors of work that Ray runs."""

from __future__ import annotations

from typing import final

from muster._errors import NotStartedError
from muster_core.errors import MusterError


@final
class RayLostError(NotStartedError):
    """The connection to Ray has ended, and with it all that ran on it.

    A run that raises it does not count for ``bind_attempts``. The connection is made again by
    itself.
    """


@final
class RayUnreachableError(MusterError):
    """There is no Ray at an address, or the process that is to be connected to it cannot start."""


class RunFailedError(MusterError):
    """Ray has not started a run, or the worker or the node where it ran has gone."""


@final
class NodeGoneError(RunFailedError):
    """The node where a run was to be, or was, has gone."""


@final
class WorkError(MusterError):
    """A callable has raised, or what it was given or gave back could not be transferred.

    The message has the remote traceback, as text.
    """
