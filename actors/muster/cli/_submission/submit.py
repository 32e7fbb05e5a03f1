"""``muster submit``: the events of a feed, or a command, sent to a server."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import uuid4

import click
from click.core import ParameterSource

from muster.cli._clients.options import Address, server_options
from muster.cli._options import FILE, Format, example, format_option
from muster.cli._submission.feeds import Feed
from muster.cli._submission.jobs import OPTIONS, Script, job_of, job_options, shell_program
from muster.cli._submission.run import start

_ONLY_FEEDS: Final = ("keep_going", "batch", "skip", "run", "dry_run", "atomic")
"""The options that only a feed can have."""

_ONLY_PARTS: Final = ("keep_going", "batch")
"""The options of a feed that is sent in several requests."""


# CLIENT-4
@click.command("submit", epilog=example("muster submit jobs.yaml --atomic"))
@click.argument("feed", type=FILE, metavar="[FEED|SCRIPT", required=False)
@click.argument("arguments", nargs=-1, metavar="[ARGS]...]")
@click.option(
    "--command", "shell", metavar="TEXT", help="What a shell is to run, instead of a file."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say what would be refused, and print the decisions that would follow.",
)
@click.option("--atomic", is_flag=True, help="Let in all events, or none if one is refused.")
@click.option(
    "--keep-going",
    is_flag=True,
    help="Go on after a refusal. Otherwise the request with the first one is the last.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="How many events one request has; they are let in together.",
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=0,
    help="Begin after so many events of the feed, to go on where an earlier run has ended.",
)
@click.option(
    "--run",
    "run",
    metavar="WORD",
    help="The word of an earlier run, as it said: what it had sent is not let in again.",
)
@format_option
@job_options
@server_options
@click.pass_context
def command(
    context: click.Context,
    address: Address,
    /,
    feed: str | None,
    *,
    arguments: Sequence[str],
    shell: str | None,
    keep_going: bool,
    batch: int,
    skip: int,
    run: str | None,
    dry_run: bool,
    atomic: bool,
    output: Format,
    **options: object,
) -> None:
    """Send the events of FEED to a server, in order, or submit SCRIPT or a command.

    FEED may be `-`, standard input. The server lets each event in when it comes: instants in the
    feed, `settle` and `expect` mean nothing to it. A request that broke off is sent again, and
    changes nothing if it had arrived.

    A file that begins with `#!` is a script; its lines that begin with `#MUSTER` have options,
    and those of the command line come before them. The name of what was submitted is printed.

    Exit status: 0, 1 if something was refused, 2 if the feed or the server cannot be used. With
    --wait or --follow, as `muster run`.
    """
    script = None if feed is None or shell is not None else Script.read(feed)
    if shell is None and script is None:
        _check_given(context, OPTIONS, "is for --command and scripts: events say it themselves")
        if feed is None or arguments:
            msg = "name a FEED, or a SCRIPT that begins with `#!`, or say --command"
            raise click.UsageError(msg)
        if dry_run or atomic:
            _check_given(context, _ONLY_PARTS, "is not for --dry-run and --atomic")
        sending = Feed(feed, skip, run or uuid4().hex[:12], output)
        if dry_run or atomic:
            sending.send_whole(context, address, is_tried=dry_run, is_atomic=atomic)
        else:
            sending.send_in_parts(context, address, batch, keep_going=keep_going)
        return
    _check_given(context, _ONLY_FEEDS, "is for feeds")
    if script is not None:
        program, options = script.program(arguments), script.options(context)
    else:
        if feed is not None:
            msg = "--command and a file exclude each other"
            raise click.UsageError(msg)
        program = shell_program(shell or "")
    job = job_of(program, options, has_token=address.token is not None)
    follows = bool(options["follow"])
    waits = follows if options["wait"] is None else bool(options["wait"])
    start(context, address, job, waits=waits, follows=follows, output=output)


def _check_given(context: click.Context, names: Collection[str], told: str) -> None:
    """Check that none of some options is on the command line.

    Raises:
        UsageError: If one is.
    """
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if given and option.name in names:
            msg = f"{option.opts[0]} {told}"
            raise click.UsageError(msg)
