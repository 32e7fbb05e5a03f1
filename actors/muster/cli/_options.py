"""What several commands share: options, kinds of arguments, and saying what went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import click
from typing_extensions import override

from muster_core.errors import QuantityError
from muster_core.quantities import parse_duration

if TYPE_CHECKING:
    from muster.feeds import FeedError

Function = TypeVar("Function", bound=Callable[..., Any])

DIFFERENT: Final = 1
"""The exit status when a difference or a refusal was found."""

UNUSABLE: Final = 2
"""The exit status when the arguments or a file cannot be used."""


@final
class Format(StrEnum):
    """For whom a command writes."""

    TEXT = "text"
    JSON = "json"


@final
class Instant(click.ParamType):
    """An instant since the start, as seconds or a duration; in microseconds."""

    name = "time"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            return value if isinstance(value, int) else parse_duration(value)
        except QuantityError as error:
            self.fail(str(error), param, ctx)


FILE: Final = click.Path(dir_okay=True, allow_dash=True)
"""A file's name; whether it can be read or written is for who opens it to say."""


def format_option(function: Function) -> Function:
    """Add ``--format`` to a command."""
    option = click.option(
        "--format",
        "output",
        type=click.Choice([form.value for form in Format]),
        callback=lambda _ctx, _param, value: Format(value),
        default=Format.TEXT.value,
        show_default=True,
        help="For people, or as one JSON object.",
    )
    return option(function)


def print_json(value: object, *, err: bool = False) -> None:
    """Write a value as one line of JSON."""
    click.echo(json.dumps(value, allow_nan=False), err=err)


def complain(error: FeedError) -> None:
    """Say on standard error why a file cannot be used."""
    click.echo(f"muster: {error}", err=True)


def error_map(error: FeedError) -> dict[str, object]:
    """Give the same for a program."""
    return {"file": error.file, "line": error.line, "message": error.problem}
