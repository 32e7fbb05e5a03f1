"""The errors of work that Ray runs."""

from __future__ import annotations

from typing import Final, final

from typing_extensions import override

from muster._errors import NotStartedError, WorkFailedError
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


_MOST: Final = 300
"""How long what the decision log says of an error may be, in characters."""


class RunFailedError(MusterError):
    """A run could not be started, or the worker or the node where it ran has gone."""


@final
class NodeGoneError(RunFailedError):
    """The node where a run was to be, or was, has gone."""


@final
class WorkError(WorkFailedError):
    """A callable was started and has raised, or its value could not be transferred.

    The text of the error has the remote traceback. The decision log has one line of it.

    Args:
        line: The error of the callable, in one line.
        text: The error with the remote traceback; None if there is none.
    """

    def __init__(self, line: str, text: str | None = None) -> None:
        super().__init__(line if text is None else text)
        self._line = line

    @property
    @override
    def message(self) -> str:
        """What the decision log says about the failure."""
        return self._line if len(self._line) <= _MOST else f"{self._line[: _MOST - 1]}…"
