"""The options that all kinds of imports share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, final

import attrs
import click

from muster.cli._options import FILE, Format, format_option
from muster.cli._sources import Instant, as_time


@final
@attrs.frozen(kw_only=True)
class Request:
    """What the user asked for.

    Attributes:
        files: The dumps.
        target: Where the feed goes.
        queues: The mapping file, or None.
        nodes: The nodes as a text or the name of a file, or None.
        config: The configuration with which the feed begins, or None.
        make_config: Where a configuration with the queues goes, or None.
        since: Jobs before this are left out, or None.
        until: Jobs after this are left out, or None.
        progress: Whether progress is shown on a terminal.
        output: The format of the summary.
    """

    files: tuple[str, ...]
    target: str
    queues: str | None
    nodes: str | None
    config: str | None
    make_config: str | None
    since: Instant | None
    until: Instant | None
    progress: bool
    output: Format


_NODES_HELP = (
    "The nodes: such as '32x vcore=64,memory=256Gi', or the name of a file: a list of maps with "
    "`node` and `capacity` (and `count`, `attributes`)."
)


_OPTIONS: Final = (
    click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE..."),
    click.option(
        "-o",
        "--output",
        "target",
        type=FILE,
        metavar="FEED",
        required=True,
        help="The feed: .jsonl, .yaml or .msgpack, and .gz behind; `-` is standard output.",
    ),
    click.option(
        "--queues", type=FILE, metavar="FILE", help="A mapping of jobs to queues, in YAML."
    ),
    click.option("--nodes", metavar="NODES", help=_NODES_HELP),
    click.option(
        "--config",
        type=FILE,
        metavar="FILE",
        help="The configuration with which the feed begins. [default: one with the queues "
        "of the jobs, without limits]",
    ),
    click.option(
        "--make-config",
        type=FILE,
        metavar="FILE",
        help="Write the default configuration to this file, which the feed names, so that "
        "you can edit it.",
    ),
    click.option(
        "--since", callback=as_time, metavar="TIME", help="Leave out jobs that came before."
    ),
    click.option(
        "--until", callback=as_time, metavar="TIME", help="Leave out jobs that came after."
    ),
    click.option("--progress/--no-progress", default=True, help="Show progress on a terminal."),
)


_NAMES: Final = frozenset(field.name for field in attrs.fields(Request))


def import_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments and options of :class:`Request`.

    The command gets them as one, its first argument; those of its own come by their names.
    """

    @wraps(function)
    def command(**options: Any) -> None:  # noqa: ANN401 - from click
        shared = {name: value for name, value in options.items() if name in _NAMES}
        own = {name: value for name, value in options.items() if name not in _NAMES}
        function(Request(**shared), **own)

    made: Callable[..., None] = format_option(command)
    for option in reversed(_OPTIONS):
        made = option(made)
    return made
