"""What several commands share: options, kinds of arguments, and ways to say something."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import click

from muster_core.errors import QuantityError
from muster_core.quantities import parse_duration

if TYPE_CHECKING:
    from muster.feeds import FeedError

Function = TypeVar("Function", bound=Callable[..., Any])

DIFFERENT: Final = 1
"""The exit status when a difference or a refusal was found."""

UNUSABLE: Final = 2
"""The exit status when the arguments or a file cannot be used."""

INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""

STDIN: Final = "-"
"""The name of standard input."""

STDOUT: Final = "-"
"""The name of standard output."""

FILE: Final = click.Path(allow_dash=True)
"""The name of a file; whether it can be read or written is for who opens it to say."""


@final
class Format(StrEnum):
    """For whom a command writes."""

    TEXT = "text"
    JSON = "json"


def as_instant(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> int | None:
    """Read an instant since the start, as seconds or a duration; give microseconds.

    Raises:
        click.BadParameter: If it is neither.
    """
    try:
        return None if value is None else parse_duration(value)
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None


def format_option(function: Function) -> Function:
    """Add ``--format`` to a command, as the argument ``output``."""
    option = click.option(
        "--format",
        "output",
        type=click.Choice([form.value for form in Format]),
        callback=_as_format,
        default=Format.TEXT.value,
        show_default=True,
        help="For people, or one JSON object for programs.",
    )
    return option(function)


def _as_format(_context: click.Context, _parameter: click.Parameter, value: str) -> Format:
    return Format(value)


def example(command: str) -> str:
    """Give the end of a command's help, with an example of it."""
    return f"\b\nExample:\n  {command}"  # click leaves a paragraph alone that starts so


def name_of(source: str) -> str:
    """Give the name of an input for messages."""
    return "standard input" if source == STDIN else source


def counted(number: int, what: str) -> str:
    """Say how many there are of something."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def print_json(value: object, *, err: bool = False) -> None:
    """Write a value as one line of JSON."""
    click.echo(json.dumps(value, allow_nan=False), err=err)


def complain(message: str) -> None:
    """Say on standard error why a file cannot be used."""
    click.echo(message, err=True)


def error_map(error: FeedError) -> dict[str, object]:
    """Give for a program what is wrong with a feed."""
    return {"file": error.file, "line": error.line, "message": error.problem}
