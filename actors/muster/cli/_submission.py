"""``muster submit`` and ``muster run``: a feed, or one command, sent to a server.

``run`` waits for the end of its command (``_job_wait``), ``submit`` may do so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import click
from click.core import ParameterSource

from muster.cli._feed_submission import SubmittedFeed
from muster.cli._jobs import (
    OPTIONS,
    CommandJob,
    JobScript,
    job_of,
    job_options,
    program_of,
    shell_program,
)
from muster.cli._options import (
    DIFFERENT,
    FILE,
    Format,
    complain,
    example,
    format_option,
    print_json,
    printable,
)
from muster.cli._server import (
    SUBMIT_RETRIES,
    CommandError,
    ServerAddress,
    exit_on_server_error,
    server_options,
)

if TYPE_CHECKING:
    from muster.cli._job_wait import SubmittedJob
    from muster.client import Posted, Server


_DEFAULT: Final = "root.default"
"""The queue of a job that names none, if there is one of this name."""

_QUEUES: Final = 10
"""How many queues a message names."""


# CLIENT-11
@click.command(
    "run",
    epilog=example("muster run --cpus 2 --memory 4Gi -- python train.py --epochs 3"),
    context_settings={"allow_interspersed_args": False},
)
@click.argument("words", metavar="COMMAND [ARGS]...", nargs=-1, required=True)
@job_options
@server_options
@click.pass_context
def run_command(
    context: click.Context, address: ServerAddress, /, words: Sequence[str], **options: object
) -> None:
    """Run one command on a server, and exit as it did.

    Submits the command, waits for its end, and shows what it writes. The command begins in the
    present folder and finds programs as they are found here; its other variables are those of
    the server, and its input is empty. While it waits for a node, the reason is on standard
    error. Ctrl-C says that it goes on, and the second one cancels it.

    Exit status: that of the command, or 128 and the number of the signal that ended it. 123 if
    nobody knows how it ended, 124 after --run-for or a run limit, 125 if it was refused or the server
    cannot be used, 126 if it could not be started, or not by its --start-by, 130 after Ctrl-C, 143 if
    somebody has cancelled it. With --no-wait: 0, 1 if it was refused, 2 if the server cannot be used.
    """
    job = job_of(program_of(words), options, has_token=address.token is not None)
    waits = options["wait"] is not False
    follows = waits if options["follow"] is None else bool(options["follow"])
    submit_job(context, address, job, waits=waits, follows=follows)


def submit_job(
    context: click.Context,
    address: ServerAddress,
    job: CommandJob,
    *,
    waits: bool,
    follows: bool,
    output: Format = Format.TEXT,
) -> None:
    """Submit a job, and wait for its end if asked to.

    Args:
        context: The context of the command, which ends with the exit status.
        address: Which server is asked.
        job: The job.
        waits: Whether to wait for its end.
        follows: Whether to show what it writes.
        output: The form of what is printed if it is not waited for.
    """
    if follows and not waits:
        msg = "--no-wait and --follow exclude each other"
        raise click.UsageError(msg)
    from muster.cli import _job_wait  # noqa: PLC0415 - needs httpx

    # A job that is waited for ends with statuses of its own.
    with exit_on_server_error(_job_wait.NOT_LET_IN if waits else None), address.open() as server:
        _check_that_commands_run(server, waits=waits)
        started = _submitted(context, server, job, _job_wait.NOT_LET_IN if waits else DIFFERENT)
        if not waits:
            _print_job(started, output)
            return
        with exit_on_server_error(_job_wait.LOST):
            context.exit(_job_wait.JobWait(server, started, follows=follows).run())


# CLIENT-17
def _check_that_commands_run(server: Server, *, waits: bool) -> None:
    """Check that the server runs commands.

    Raises:
        Unusable: If it does not, and the end of the command is to be waited for.
    """
    if SUBMIT_RETRIES.ask(server, server.runs) != "none":
        return
    message = f"{server.url}: this server runs no commands: it was started without --run"
    if waits:
        msg = (
            f"{message}. Start it with `muster serve --run local`. If a program that reads its "
            "decisions runs them, submit with --no-wait."
        )
        raise CommandError(msg)
    complain(f"{message}; the command waits for a program that reads its decisions")


def _submitted(
    context: click.Context, server: Server, job: CommandJob, refused: int
) -> SubmittedJob:
    """Submit a job; end the command if it is refused.

    Args:
        context: The context of the command.
        server: The server.
        job: The job.
        refused: The exit status if it is refused.

    Raises:
        ServerError: If the server does not take it.
    """
    from muster.cli._job_wait import SubmittedJob  # noqa: PLC0415 - as above

    posted = _send_job(server, job, job.queue)
    if job.queue is None and any(_is_about_queue(one) for one in posted.results):
        posted = _send_job(server, job, _default_queue(server))
    errors = [one["error"] for one in posted.results if one["error"] is not None]
    if errors:
        for error in errors:
            complain(f"refused: {error}")
        context.exit(refused)
    asks: Sequence[str] = posted.results[-1]["asks"]
    return SubmittedJob(job.app, asks, (posted.first_seq or 1) - 1, job.run_for_us)


def _is_about_queue(result: dict[str, Any]) -> bool:
    return (result["error"] or "").startswith("queue:")


def _send_job(server: Server, job: CommandJob, queue: str | None) -> Posted:
    """Send the events of a job: all are let in or none."""
    content = json.dumps(job.events(server, queue)).encode()
    key = f"run-{uuid4().hex}"
    try:
        return SUBMIT_RETRIES.ask(
            server, lambda: server.post(content, key=key, atomic=True), also={409}
        )
    except KeyboardInterrupt:
        name = printable(job.app)
        complain(f"{name} may have been submitted: muster cancel {name}")
        raise


def _default_queue(server: Server) -> str:
    """Return the queue of a job that names none: the only one, or else ``root.default``.

    Raises:
        Unusable: If there are several others.
    """
    queues = server.get("queues", limit=1000)["items"]
    found = [str(one["queue"]) for one in queues if one["leaf"] and not one["draining"]]
    if not found or _DEFAULT in found:  # a service without a configuration has it when it is used
        return _DEFAULT
    if len(found) != 1:
        more = ", …" if len(found) > _QUEUES else ""
        msg = f"name a queue with --queue: {', '.join(found[:_QUEUES])}{more}"
        raise CommandError(msg)
    return found[0]


def _print_job(started: SubmittedJob, output: Format) -> None:
    """Print the names of a submitted job."""
    if output is Format.JSON:
        print_json({"app": started.app, "asks": [*started.asks]})
        return
    (name, *others) = started.asks
    click.echo(started.app if others else f"{started.app}/{name}")


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
    help="Leave out so many events at the beginning, to go on where an earlier run has ended.",
)
@click.option(
    "--run",
    "run",
    metavar="WORD",
    help="The word that an earlier run has printed: what that run has sent is not let in again.",
)
@format_option
@job_options
@server_options
@click.pass_context
def submit_command(
    context: click.Context,
    address: ServerAddress,
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
    """Send the events of FEED to a server, or submit SCRIPT or a command.

    FEED may be `-`, standard input. Its events are sent in order. The server lets each event in
    when it arrives; the times in the feed, `settle` and `expect` have no effect. A request that
    broke off is sent again, and changes nothing if it had arrived.

    A file that begins with `#!` is a script. Lines in it that begin with `#MUSTER` hold options;
    those of the command line override them. The name of what was submitted is printed.

    Exit status: 0, 1 if something was refused, 2 if the feed or the server cannot be used. With
    --wait or --follow, as `muster run`.
    """
    script = None if feed is None or shell is not None else JobScript.read(feed)
    if shell is None and script is None:
        _check_given(context, OPTIONS, "is for --command and scripts: events say it themselves")
        if feed is None or arguments:
            msg = "name a FEED, or a SCRIPT that begins with `#!`, or say --command"
            raise click.UsageError(msg)
        if dry_run or atomic:
            _check_given(context, _ONLY_PARTS, "is not for --dry-run and --atomic")
        sending = SubmittedFeed(feed, skip, run or uuid4().hex[:12], output)
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
    submit_job(context, address, job, waits=waits, follows=follows, output=output)


def _check_given(context: click.Context, names: Collection[str], problem: str) -> None:
    """Check that none of some options is on the command line.

    Raises:
        UsageError: If one is.
    """
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if given and option.name in names:
            msg = f"{option.opts[0]} {problem}"
            raise click.UsageError(msg)
