"""The error for a feed that cannot be opened or read.

::

    MusterError
    └── FeedError       the rest of the feed cannot be read: correct or replace the feed

A single invalid event is no error: it is refused, and the feed goes on.
"""

from __future__ import annotations

from typing import final

from muster_core.errors import MusterError


@final
class FeedError(MusterError):
    """A feed cannot be opened, or cannot be read beyond a certain place.

    All events before that place have been yielded.

    Attributes:
        file: The name of the feed, as the caller wrote it.
        line: The line of the error, from 1, or None if it is not known.
        problem: The error.
    """

    def __init__(self, file: str, problem: str, line: int | None = None) -> None:
        self.file = file
        self.line = line
        self.problem = problem
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {problem}")
