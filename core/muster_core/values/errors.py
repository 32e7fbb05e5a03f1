"""The errors that the core raises.

::

    MusterError                 anything that Muster raises on purpose
    ├── QuantityError           a text is not a quantity
    ├── InsufficientError       more was subtracted than there is
    ├── ConfigError             a configuration is refused
    ├── EventError              an event cannot have the value of a field
    └── RefusedError            an event is refused, and the state has not changed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs
from typing_extensions import override


class MusterError(Exception):
    """The base of every error that Muster raises on purpose."""


@final
class QuantityError(MusterError):
    """A text is not the quantity, the duration or the number that it should be."""


@final
class InsufficientError(MusterError):
    """More of a resource was subtracted than there is; the message names the type."""


@final
@attrs.frozen
class Problem:
    """One reason to refuse a configuration, or a warning about one.

    Attributes:
        message: What is wrong, with the invalid value, and what would be valid.
        path: The path of the field, such as ``partitions[0].queues[1].name``.
        file: The name of the file, or None for a configuration given inline.
        line: The line in the file, from 1, or None if it is not known.
    """

    message: str
    path: str = ""
    file: str | None = None
    line: int | None = None

    # CONFIG-33
    @override
    def __str__(self) -> str:
        """Return ``file:line: path: message``, without the parts that are not known."""
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        return ": ".join(part for part in (place, self.path, self.message) if part)


@final
class ConfigError(MusterError):
    """A configuration is refused as a whole, and the old one stays in force.

    Attributes:
        problems: All problems that were found, in the order of the text.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@final
class EventError(MusterError, ValueError):
    """An event cannot be created: a field has a value that it can never have.

    The message names the field and the value, and the valid values.
    """


@final
class RefusedError(MusterError):
    """An event is refused, and has changed nothing.

    The message names the field as it is written in the event, and the invalid value.
    """
