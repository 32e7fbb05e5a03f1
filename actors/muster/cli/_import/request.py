"""The options that all kinds of imports share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
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
        calibrate: Whether the feed is replayed, and its starts compared with the real ones.
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
    calibrate: bool = False


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


def import_options(
    *queues: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what gives a command the arguments and options of :class:`Request`.

    The command gets them as one, its first argument; those of its own come by their names.

    Args:
        *queues: The names of the option for the file that maps jobs to queues; the default is
            that of a kind whose mapping file says nothing else.
    """
    names = queues or ("--mapping", "--queues")
    other = f" {names[-1]} is the same." if len(names) > 1 else ""
    mapping = click.option(
        *names,
        "queues",
        type=FILE,
        metavar="FILE",
        help=f"The mapping file: which jobs go to which queues, in YAML.{other}",
    )
    return partial(_with_options, (*_OPTIONS[:2], mapping, *_OPTIONS[2:]))


def _with_options(
    options: Sequence[Callable[[Callable[..., None]], Callable[..., None]]],
    function: Callable[..., None],
) -> Callable[..., None]:
    """Give a command options; those of a request as one."""

    @wraps(function)
    def command(**options: Any) -> None:  # noqa: ANN401 - from click
        shared = {name: value for name, value in options.items() if name in _NAMES}
        own = {name: value for name, value in options.items() if name not in _NAMES}
        function(Request(**shared), **own)

    made: Callable[..., None] = format_option(command)
    for option in reversed(options):
        made = option(made)
    return made
