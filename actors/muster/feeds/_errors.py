"""The error of a feed that cannot be read on.

::

    MusterError
    └── FeedError       the bytes that follow make no sense any more: mend or replace the feed

A single event that makes no sense is no error: it is refused, and the feed goes on.
"""

from __future__ import annotations

from typing import final

from muster_core.errors import MusterError


@final
class FeedError(MusterError):
    """A feed cannot be opened, or cannot be read beyond some place.

    Every event before that place was good, and has been given out.

    Attributes:
        file: The name of the feed, as it was given.
        line: The line of the bad place, from 1, or None where lines are not known.
        problem: What is wrong.
    """

    def __init__(self, file: str, problem: str, line: int | None = None) -> None:
        self.file = file
        self.line = line
        self.problem = problem
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {problem}")
