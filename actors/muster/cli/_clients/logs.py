"""``muster logs``: what the command of an ask has written."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from muster.cli._clients.completion import Completed
from muster.cli._clients.kinds import ask_path
from muster.cli._clients.options import Address, ending, server_options
from muster.cli._options import complain, example, printable

if TYPE_CHECKING:
    import httpx

    from muster.client import Server

_LOOKS_S: Final = 0.5
"""How long to wait before it is looked again whether the command has started, in seconds."""


# LOCAL-10
@click.command("logs", epilog=example("muster logs nightly-1/load-0 --follow"))
@click.argument("ask", metavar="APP/ASK", shell_complete=Completed.asks)
@click.option("--follow", "-f", is_flag=True, help="Go on until the command has ended.")
@click.option(
    "--attempt",
    type=click.IntRange(1),
    metavar="N",
    help="Of which start of an ask of this name, counted from 1. [default: the latest of the ask "
    "that is there]",
)
@server_options
def command(address: Address, /, ask: str, *, follow: bool, attempt: int | None) -> None:
    """Print the output of the command of an ask, which may be over.

    Standard output and standard error come together, as the command wrote them. The server must
    run commands: `muster serve --run local`. With `--run ray` the output is on the node where the
    command ran: this prints it if the server has the file, too, else it says where it is.
    With --follow, a command that has not started is waited for.

    Exit status: 0, 1 if there is no output, 2 if the server cannot be asked.
    """
    wanted = {"follow": follow or None, "attempt": attempt}
    out = sys.stdout.buffer  # the output may be no text
    with ending(), address.open() as server, ExitStack() as stack:
        response = _opened(stack, server, ask, wanted)
        if "Muster-Earlier-Ask" in response.headers:
            number = response.headers["Muster-Attempt"]
            complain(f"start {number} is of an earlier ask of the name {printable(ask)}")
        for part in response.iter_bytes():
            out.write(part)
            out.flush()


def _opened(
    stack: ExitStack, server: Server, ask: str, wanted: Mapping[str, object]
) -> httpx.Response:
    """Return the output of an ask; with ``follow``, wait until its command has started."""
    from muster.client import ServerError  # noqa: PLC0415 - needs httpx

    path = f"asks/{ask_path(ask)}/logs"
    is_told = False
    while True:
        try:
            return stack.enter_context(server.stream(path, parameters=wanted))
        except ServerError as error:
            if not wanted["follow"] or not error.problem.get("may_start"):
                raise
        if not is_told:
            complain(f"{printable(ask)} has not started; its output is waited for")
            is_told = True
        time.sleep(_LOOKS_S)
