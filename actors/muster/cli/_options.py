"""Options, argument types, exit statuses and messages that several commands share.

Every command imports this module, so it imports neither rich nor the readers of feeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import click

from muster_core.errors import QuantityError
from muster_core.values.resources import parse_duration

if TYPE_CHECKING:
    from muster.replay import FeedWarning
    from muster_core.errors import Problem


Function = TypeVar("Function", bound=Callable[..., Any])

# COMMAND-8
DIFFERENT: Final = 1
"""The exit status when a difference or a refusal was found."""

UNUSABLE: Final = 2
"""The exit status when the arguments or a file cannot be used."""

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""

# COMMAND-7
STDIN: Final = "-"
"""The name of standard input."""

STDOUT: Final = "-"
"""The name of standard output."""

FILE: Final = click.Path(allow_dash=True)
"""The name of a file; whether it can be read or written is checked when it is opened."""


_CLOCK: Final = re.compile(
    r"(?=\S)(?:([0-9]{1,9})d)?(?:(?:(?<=d) +)?(?<![0-9])([0-9]{1,9}):([0-5][0-9]):([0-5][0-9])"
    r"(?:\.([0-9]{1,6}))?)?"
)
"""A time as printed in text output: days, hours, minutes, seconds."""


@final
class Format(StrEnum):
    """The output format of a command."""

    TEXT = "text"
    JSON = "json"


def as_instant(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> int | None:
    """Parse an instant since the start; return microseconds.

    The text is a number of seconds, a duration, or a time as Muster shows it: ``01:30:00``,
    ``2d 01:30:00.5`` or ``4.5 s``.

    Raises:
        click.BadParameter: If it is none of these.
    """
    if value is None:
        return None
    text = value.strip()
    shown = _CLOCK.fullmatch(text)
    try:
        return parse_duration(re.sub(r" s$", "s", text) if shown is None else _in_seconds(shown))
    except QuantityError as error:
        problem, _, _ = str(error).partition(": write ")
        if problem == str(error):
            raise click.BadParameter(problem) from None
        msg = f"{problem}: write seconds, a duration such as '1h30m', or '2d 01:30:00'"
        raise click.BadParameter(msg) from None


def _in_seconds(shown: re.Match[str]) -> str:
    days, hours, minutes, rest, fraction = shown.groups(default="0")
    whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(rest)
    return f"{whole}.{fraction}"


# COMMAND-9
def format_option(function: Function) -> Function:
    """Add ``--format`` to a command, as the argument ``output``."""
    option = click.option(
        "--format",
        "output",
        type=click.Choice([form.value for form in Format]),
        callback=_as_format,
        default=Format.TEXT.value,
        show_default=True,
        help="Text for people, or one JSON object for programs.",
    )
    return option(function)


def progress_option(function: Function) -> Function:
    """Add ``--progress`` and ``--no-progress`` to a command that works for long."""
    text = "Show progress on standard error: a line on a terminal, one every few seconds elsewhere."
    return click.option("--progress/--no-progress", default=True, help=text)(function)


def _as_format(_context: click.Context, _parameter: click.Parameter, value: str) -> Format:
    return Format(value)


def example(command: str) -> str:
    """Return the epilog of a command's help, with an example."""
    return f"\b\nExample:\n  {command}"  # "\b": click does not rewrap this paragraph


def name_of(source: str) -> str:
    """Return the name of an input for messages."""
    return "standard input" if source == STDIN else source


def print_json(value: object, *, err: bool = False) -> None:
    """Print a value as one line of JSON."""
    click.echo(json.dumps(value, allow_nan=False), err=err)


def complain(message: str) -> None:
    """Print a message to standard error."""
    click.echo(message, err=True)


def warning_line(file: str | None, line: int | str | None, path: str, message: str) -> str:
    """Return a warning with its place: the file, the line and the path."""
    place = ":".join(str(part) for part in (file, line) if part is not None)
    return ": ".join(part for part in (place, "warning", path, message) if part)


def warning_text(feed: str, warning: FeedWarning) -> str:
    """Return a warning about a feed with its file, line and path."""
    line: int | str | None = warning.line
    if line is None and warning.index is not None:
        line = f"event {warning.index}"
    file = name_of(feed) if warning.file is None else warning.file
    return warning_line(file, line, warning.path, warning.message)


def problem_map(problem: Problem) -> dict[str, object]:
    """Return the JSON form of a problem of a configuration."""
    return {"line": problem.line, "path": problem.path, "message": problem.message}


def printable(text: str) -> str:
    """Return a text without characters that a terminal would obey."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
