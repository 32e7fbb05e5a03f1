"""``muster run``: one command, from its submission to its end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import click

from muster.cli._clients.options import Address, Unusable, ending, server_options
from muster.cli._clients.patience import SUBMITTING
from muster.cli._extras import needing
from muster.cli._options import DIFFERENT, Format, complain, example, print_json, printable
from muster.cli._submission.jobs import Job, job_of, job_options, program_of

if TYPE_CHECKING:
    from muster.cli._submission.wait import Started
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
def command(
    context: click.Context, address: Address, /, words: Sequence[str], **options: object
) -> None:
    """Run one command on a server: submit it, wait, show what it writes, exit as it did.

    The command begins in the present folder and finds programs as they are found here; its other
    variables are those of the server, and its input is empty. While it waits for a node, the reason
    is on standard error. Ctrl-C says that it goes on, and the second one cancels it.

    Exit status: that of the command, or 128 and the number of the signal that ended it. 123 if
    nobody knows how it ended, 124 after --run-for, 125 if it was refused or the server cannot be
    used, 126 if it could not be started, 130 after Ctrl-C, 143 if somebody has cancelled it. With
    --no-wait: 0, 1 if it was refused, 2 if the server cannot be used.
    """
    job = job_of(program_of(words), options, has_token=address.token is not None)
    waits = options["wait"] is not False
    follows = waits if options["follow"] is None else bool(options["follow"])
    start(context, address, job, waits=waits, follows=follows)


def start(
    context: click.Context,
    address: Address,
    job: Job,
    *,
    waits: bool,
    follows: bool,
    output: Format = Format.TEXT,
) -> None:
    """Submit a job, and wait for its end if that is wanted.

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
    with needing("client"):
        from muster.cli._submission import wait  # noqa: PLC0415 - needs httpx

    # A job that is waited for ends with statuses of its own.
    with ending(wait.NOT_LET_IN if waits else None), address.open() as server:
        _check_that_commands_run(server, waits=waits)
        started = _submitted(context, server, job, wait.NOT_LET_IN if waits else DIFFERENT)
        if not waits:
            _tell(started, output)
            return
        with ending(wait.LOST):
            context.exit(wait.Waiting(server, started, follows=follows).run())


# CLIENT-17
def _check_that_commands_run(server: Server, *, waits: bool) -> None:
    """Check that somebody runs commands.

    Raises:
        Unusable: If nobody does, and the end of the command is to be waited for.
    """
    if SUBMITTING.ask(server, server.runs) != "none":
        return
    told = f"{server.url}: this server runs no commands: it was started without --run"
    if waits:
        msg = (
            f"{told}. Start it with `muster serve --run local`. If a program that reads its "
            "decisions runs them, submit with --no-wait."
        )
        raise Unusable(msg)
    complain(f"{told}; the command waits for a program that reads its decisions")


def _submitted(context: click.Context, server: Server, job: Job, refused: int) -> Started:
    """Submit a job; end the command if it is refused.

    Args:
        context: The context of the command.
        server: The server.
        job: The job.
        refused: The exit status if it is refused.

    Raises:
        ServerError: If the server does not take it.
    """
    from muster.cli._submission.wait import Started  # noqa: PLC0415 - as above

    posted = _sent(server, job, job.queue)
    if job.queue is None and any(_is_about_queue(one) for one in posted.results):
        posted = _sent(server, job, _default_queue(server))
    errors = [one["error"] for one in posted.results if one["error"] is not None]
    if errors:
        for error in errors:
            complain(f"refused: {error}")
        context.exit(refused)
    asks: Sequence[str] = posted.results[-1]["asks"]
    return Started(job.app, asks, (posted.first_seq or 1) - 1, job.run_for_us)


def _is_about_queue(result: dict[str, Any]) -> bool:
    return (result["error"] or "").startswith("queue:")


def _sent(server: Server, job: Job, queue: str | None) -> Posted:
    """Send the events of a job: all are let in or none."""
    content = json.dumps(job.events(server, queue)).encode()
    key = f"run-{uuid4().hex}"
    try:
        return SUBMITTING.ask(
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
        raise Unusable(msg)
    return found[0]


def _tell(started: Started, output: Format) -> None:
    """Print the names under which a job is found again."""
    if output is Format.JSON:
        print_json({"app": started.app, "asks": [*started.asks]})
        return
    (name, *others) = started.asks
    click.echo(started.app if others else f"{started.app}/{name}")
