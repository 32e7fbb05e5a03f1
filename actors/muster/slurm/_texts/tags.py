"""The comment of a job, which says whose it is: ``muster:APP/ASK/RUN``.

RUN is the number of the allocation. The job of a gang has ``muster:GANG/*/RUNS``, with the numbers
of all members, such as ``17-20,23``. Behind a blank it has how its members have ended: their exit
statuses in the order of the numbers, separated by commas, empty for those that have not ended.
Slurm carries that from the job's first node to this program: no shared folder is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final
from urllib.parse import quote, unquote

import attrs

from muster_core.errors import EventError

_OF_GANG: Final = "*"

_MOST: Final = 1000
"""How many characters a comment may have; Slurm refuses more than 1,023."""

_AN_END: Final = 4
"""How many characters the end of a member takes at most, with the comma: 255."""


@final
@attrs.frozen
class Tag:
    """Whose a job is.

    Attributes:
        namespace: The namespace of the program.
        app: The application; of a gang's job the full name of the gang.
        ask: The ask, or None for a gang's job.
        numbers: The numbers of the allocations, in ascending order.
    """

    namespace: str
    app: str
    ask: str | None
    numbers: tuple[int, ...]

    @property
    def text(self) -> str:
        """The comment of the job when it is submitted."""
        return f"{self.name}/{_ranges(self.numbers)}"

    @property
    def name(self) -> str:
        """The comment without the numbers."""
        ask = _OF_GANG if self.ask is None else _written(self.ask)
        return f"{self.namespace}:{_written(self.app)}/{ask}"

    @property
    def job_name(self) -> str:
        """The name of the job. Jobs of one name do not run at the same time."""
        return self.name if self.ask is not None else f"{self.name}/{self.numbers[0]}"

    def check(self) -> None:
        """Check that a comment can hold it.

        Raises:
            EventError: If it is too long.
        """
        ends = 0 if self.ask is not None else _AN_END * len(self.numbers)
        if len(self.text) + ends <= _MOST:
            return
        if self.ask is None:
            msg = (
                f"gang: {self.app!r}: {len(self.numbers)} members are too many to be started "
                "together: Slurm's comments, which say how they end, are too short"
            )
        else:
            msg = f"app, ask: {self.app!r}, {self.ask!r}: too long for a comment of Slurm"
        raise EventError(msg)


@final
@attrs.frozen
class Comment:
    """What the comment of a job says.

    Attributes:
        tag: Whose the job is.
        ends: How its members have ended: exit statuses as a shell says them, by number.
    """

    tag: Tag
    ends: dict[int, int]


def read_comment(text: str) -> Comment | None:
    """Read the comment of a job; None if it is not one of ours."""
    whose, _, ends = text.partition(" ")
    namespace, colon, rest = whose.partition(":")
    parts = rest.split("/")
    if not colon or len(parts) != 3:
        return None
    app, ask, ranges = parts
    numbers = _numbers(ranges)
    if not numbers:
        return None
    named = None if ask == _OF_GANG else unquote(ask)
    tag = Tag(namespace, unquote(app), named, numbers)
    found = {
        number: int(end)
        for number, end in zip(numbers, ends.split(","), strict=False)
        if end.isdecimal()
    }
    return Comment(tag, found)


def _written(name: str) -> str:
    return quote(name, safe="@+:,=")


def _ranges(numbers: Sequence[int]) -> str:
    """Write numbers as ranges: ``17-20,23``."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def _numbers(ranges: str) -> tuple[int, ...]:
    """Read ranges; empty if these are none."""
    found: list[int] = []
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return ()
        begin, end = int(first), int(last if dash else first)
        if end - begin >= _MOST or (found and begin <= found[-1]):
            return ()
        found += range(begin, end + 1)
    return tuple(found)
