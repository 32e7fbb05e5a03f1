"""The errors of the core, each named by what the caller can do about it.

::

    MusterError                 anything that Muster raises on purpose
    ├── QuantityError           a text is not a quantity: write it differently
    ├── InsufficientError       more was taken than is there: take less
    ├── ConfigError             a configuration is refused: mend the named fields
    ├── EventError              an event cannot be made of these values: change the named field
    └── RefusedError            an event is refused: the state is as if it had not come
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Sequence


class MusterError(Exception):
    """The base of every error that Muster raises on purpose."""


@final
class QuantityError(MusterError):
    """A text that was meant as a quantity, a duration or a number is none."""


@final
class InsufficientError(MusterError):
    """More of a resource was taken than is there; the message names the type."""


@final
@attrs.frozen
class Problem:
    """One reason to refuse a configuration.

    Attributes:
        message: What is wrong, with the offending value, and what would be right.
        path: The path of the field, such as ``partitions[0].queues[1].name``.
        file: The name of the file, or None for a configuration given inline.
        line: The line in the file, from 1, or None where it is not known.
    """

    message: str
    path: str = ""
    file: str | None = None
    line: int | None = None

    @override
    def __str__(self) -> str:
        """Give ``file:line: path: message``, leaving out what is not known."""
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        return ": ".join(part for part in (place, self.path, self.message) if part)


@final
class ConfigError(MusterError):
    """A configuration is refused as a whole, and the old one stays in force.

    Attributes:
        problems: Every reason that was found, in the order of the text.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@final
class EventError(MusterError, ValueError):
    """An event cannot be made: a field has a value that it can never have.

    The message names the field and the value, and says what would be right.
    """


@final
class RefusedError(MusterError):
    """An event is refused; nothing was changed by it.

    The message names the field as it is written in the event, and the
    offending value.
    """
